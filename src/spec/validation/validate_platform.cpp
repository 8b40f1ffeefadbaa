#include "base/strings.hpp"
#include "spec/read.hpp"
#include "spec/scalars.hpp"
#include "spec/validation/validate.hpp"
#include "spec/validation/versions.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::spec {

namespace {

void check_trust(const Look& look, const Proxmox& proxmox) {
  for (const auto& endpoint : proxmox.endpoints)
    if (!endpoint->starts_with("https://"))
      look.findings.add("plain-http", endpoint.where,
                        fmt::format("{} would carry the token in clear", *endpoint),
                        "write https://");
  const int ways =
      (proxmox.fingerprint ? 1 : 0) + (proxmox.ca_file ? 1 : 0) + (*proxmox.insecure ? 1 : 0);
  if (ways > 1)
    look.findings.add(
        "tls-trust", proxmox.insecure.value ? proxmox.insecure.where : proxmox.ca_file->where,
        "fingerprint, caFile and insecure exclude each other", "keep the fingerprint or the CA");
  else if (*proxmox.insecure)
    look.findings.add("insecure-tls", proxmox.insecure.where,
                      "any certificate is trusted, so whoever stands in between gets the token",
                      "give fingerprint or caFile instead");
  if (proxmox.ca_file && look.files != nullptr) {
    const std::string path = path_below(look.spec.folder, **proxmox.ca_file);
    if (!look.files->status(path))
      look.findings.add("file-not-found", proxmox.ca_file->where,
                        fmt::format("there is no file {}", path));
  }
}

void check_hosts(const Look& look, const Proxmox& proxmox) {
  std::vector<std::string> hosts;
  for (const auto& host : proxmox.hosts) {
    if (std::find(hosts.begin(), hosts.end(), *host) != hosts.end())
      look.findings.add("duplicate-item", host.where,
                        fmt::format("{} stands twice in proxmox.hosts", *host));
    hosts.push_back(*host);
  }
  for (const Node& node : look.spec.nodes) {
    if (!node.machine) continue;
    const auto& host = node.machine->host;
    if (!host && hosts.empty() && !look.findings.is_broken("spec.proxmox.hosts"))
      look.findings.add("missing-host", proxmox.where, "no host is named for the VMs",
                        "for example proxmox: { hosts: [pve1] }");
    else if (host && !hosts.empty() && std::find(hosts.begin(), hosts.end(), **host) == hosts.end())
      look.findings.add(
          "unknown-host", host->where,
          fmt::format("{} is not in proxmox.hosts{}", **host, did_you_mean(**host, hosts)));
  }
}

bool has_infisical(const Spec& spec) {
  const bool source = std::any_of(
      spec.secret_sources.begin(), spec.secret_sources.end(),
      [](const SecretSource& one) { return std::holds_alternative<InfisicalSource>(one); });
  return source || (spec.handover && spec.handover->external_secrets);
}

// Every reference of the spec, wherever it stands: the resolved tree has them all.
void check_references(const Look& look, const Tree& tree) {
  for (const Member& member : tree.members) {
    if (member.key == "infisical" && member.value->is_scalar()) {
      if (!has_infisical(look.spec))
        look.findings.add(
            "infisical-source", member.where,
            fmt::format("{} is in Infisical, and no source says which", member.value->text),
            "add { infisical: … } to secrets.sources");
      if (!member.value->text.starts_with('/'))
        look.findings.add("bad-value", member.value->where,
                          "the path of a secret in Infisical begins with /");
    }
    if (member.value->is_map()) check_references(look, *member.value);
  }
  for (const TreePtr& item : tree.items)
    if (item->is_map()) check_references(look, *item);
}

void check_handover(const Look& look, const Handover& handover) {
  if (handover.flux) {
    const Flux& flux = *handover.flux;
    if (flux.auth && flux.auth->external && !handover.external_secrets)
      look.findings.add("external-auth", flux.auth->external->where,
                        "External Secrets should fetch the credential, and it is not configured",
                        "add handover.externalSecrets, or use { secret: … }");
    const bool ssh =
        flux.url->starts_with("ssh://") ||
        (flux.url->find("://") == std::string::npos && flux.url->find('@') != std::string::npos);
    if (ssh && !flux.auth)
      look.findings.add("flux-auth", flux.url.where, "a repository by SSH needs a key",
                        "give auth: { secret: … }");
  }
  for (const Publish& publish : handover.publish) {
    const auto* to = std::get_if<PublishInfisical>(&publish.to);
    if (to == nullptr || (to->project && to->environment) || has_infisical(look.spec)) continue;
    look.findings.add("publish-incomplete", publish.where,
                      "nothing says which project and environment to publish to",
                      "give project and environment, or configure externalSecrets");
  }
  for (const auto& target : handover.wait_for_endpoint_slices) {
    const auto parts = split(*target, '/');
    if (parts.size() != 2 || !is_dns_label(parts[0]) || !is_dns_name(parts[1]))
      look.findings.add("wait-target", target.where,
                        fmt::format("`{}` is not NAMESPACE/NAME", *target));
  }
}

void check_longhorn(const Look& look) {
  const Spec& spec = look.spec;
  const auto& longhorn = spec.addons.longhorn;
  if (!*longhorn) {
    for (const Node& node : spec.nodes) {
      if (!node.machine) continue;
      for (const Disk& disk : node.machine->disks)
        if (*disk.use == DiskUse::Longhorn && disk.name != "system")
          look.findings.add(
              "longhorn-use", disk.use.where,
              fmt::format("the disk {} is for Longhorn, which is not asked for", disk.name),
              "set addons.longhorn: true, or use: raw");
    }
    return;
  }
  for (const ImageLook& one : images_of(spec)) {
    std::vector<std::string> missing;
    for (const char* name : {"iscsi-tools", "util-linux-tools"})
      if (one.node != nullptr && !one.may_have(name)) missing.emplace_back(name);
    if (!missing.empty())
      look.findings.add("longhorn-extensions", longhorn.where,
                        fmt::format("Longhorn needs {} in {}", enumerate(missing), one.extensions));
  }
  const std::string& path = *spec.addons.longhorn_path;
  if (path != "/var/lib/longhorn" && !path.starts_with("/var/mnt/"))
    look.findings.add("longhorn-mount", spec.addons.longhorn_path.where,
                      fmt::format("the kubelet does not see {}", path),
                      "use /var/lib/longhorn, or /var/mnt/NAME");
  const bool disk = std::any_of(spec.nodes.begin(), spec.nodes.end(), [](const Node& node) {
    return node.existing ||
           (node.machine && std::any_of(node.machine->disks.begin(), node.machine->disks.end(),
                                        [](const Disk& one) { return one.name != "system"; }));
  });
  if (!disk)
    look.findings.add(
        "longhorn-disk", longhorn.where,
        "no node has a data disk: volumes would share the system disk with etcd and images",
        "for example machine: { disks: { data: { size: 100GiB, use: longhorn } } }");
}

}  // namespace

void validate_addons(const Look& look) {
  const Spec& spec = look.spec;
  const Addons& addons = spec.addons;
  check_longhorn(look);
  for (const ImageLook& one : images_of(spec)) {
    if (one.node == nullptr) continue;
    if (spec.tailscale && !one.may_have("tailscale"))
      look.findings.add("tailscale-extension", spec.tailscale->where,
                        "Tailscale needs the extension tailscale",
                        fmt::format("add tailscale to {}", one.extensions));
    if (!spec.tailscale && one.has("tailscale"))
      look.findings.add(
          "tailscale-extension",
          std::find_if(one.image.extensions.begin(), one.image.extensions.end(),
                       [](const auto& name) { return *name == "siderolabs/tailscale"; })
              ->where,
          "the extension tailscale waits for a configuration that is not there: Talos would boot "
          "for ever",
          "add the section tailscale, or take the extension away");
  }
  if (*addons.metrics_server.on && !*addons.cert_approver.on)
    look.findings.add("metrics-approver",
                      addons.cert_approver.on.written() ? addons.cert_approver.on.where
                                                        : addons.metrics_server.on.where,
                      "metrics-server needs the certificates that certApprover would approve",
                      "leave certApprover out, or set it to true");
  for (const Addon* addon : {&addons.proxmox_ccm, &addons.proxmox_csi})
    if (*addon->on && !spec.proxmox)
      look.findings.add("addon-platform", addon->on.where,
                        "this add-on needs a Proxmox, and the spec names none");
  if (spec.kubernetes.cni.kind == Cni::Kind::None) {
    const auto needs = [&](bool on, const Where& where, const char* what) {
      if (on)
        look.findings.add(
            "cni-none-addons", where,
            fmt::format("{} would wait for ever: with cni: none there is no pod network", what),
            "choose a CNI, or let Git install both");
    };
    needs(*addons.metrics_server.on, addons.metrics_server.on.where, "metrics-server");
    needs(*addons.cert_approver.on && addons.cert_approver.on.written(),
          addons.cert_approver.on.where, "the certificate approver");
    needs(*addons.proxmox_csi.on, addons.proxmox_csi.on.where, "Proxmox CSI");
    needs(!addons.manifests.empty(),
          addons.manifests.empty() ? Where{} : addons.manifests.front().where,
          "what the manifests install");
    if (spec.handover && spec.handover->flux) needs(true, spec.handover->flux->where, "Flux");
  }
  const auto files = [&](const Texts& list) {
    for (const auto& item : list) {
      // More than one line: the objects themselves stand there.
      if (is_url(*item) || item->find('\n') != std::string::npos || look.files == nullptr) continue;
      const std::string path = path_below(spec.folder, *item);
      if (!look.files->status(path))
        look.findings.add("file-not-found", item.where, fmt::format("there is no file {}", path));
    }
  };
  files(addons.manifests);
  files(spec.kubernetes.cni.manifests);
  Texts given;
  const auto from = [&](std::initializer_list<std::string_view> path) {
    TreePtr tree = spec.resolved;
    for (const std::string_view key : path)
      tree = tree && tree->is_map() ? tree->find(key) : nullptr;
    if (tree && tree->is_scalar()) given.push_back({tree->text, tree->where});
  };
  for (const char* name : {"metricsServer", "certApprover", "proxmoxCcm", "proxmoxCsi"})
    from({"spec", "addons", name, "from"});
  from({"spec", "handover", "flux", "from"});
  files(given);
}

void validate_platform(const Look& look) {
  const Spec& spec = look.spec;
  const auto vm = std::find_if(spec.nodes.begin(), spec.nodes.end(),
                               [](const Node& node) { return !node.existing; });
  if (!spec.proxmox && vm != spec.nodes.end() && !look.findings.is_broken("spec.proxmox"))
    look.findings.add(
        "no-platform", vm->where,
        fmt::format("{} is a VM, and the spec names no Proxmox", vm->name),
        "add the section proxmox, or `existing: true` for a machine that is already there");
  if (spec.proxmox) {
    check_trust(look, *spec.proxmox);
    check_hosts(look, *spec.proxmox);
  }
  for (const auto& effect : spec.allow)
    if (effect.written() && (*effect == Effect::Replace || *effect == Effect::DataLoss))
      look.findings.add(
          "policy-data-loss", effect.where,
          fmt::format("with {} allowed, a mistake in this file can cost data without a question",
                      to_string(*effect)),
          "give --allow on the command line instead");
  if (spec.handover) check_handover(look, *spec.handover);
  validate_credentials(look);
  if (spec.resolved) check_references(look, *spec.resolved);
}

}  // namespace rocca::spec
