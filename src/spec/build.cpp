#include "spec/build.hpp"

#include "base/strings.hpp"
#include "spec/section.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace rocca::spec {

namespace {

Role role_of(const std::string& text) {
  return text == "controlplane" ? Role::ControlPlane : Role::Worker;
}

class Builder {
 public:
  Builder(PatchReader& patches, Findings& findings, std::set<std::string>* touched)
      : patches_(patches), findings_(findings), touched_(touched) {}

  Spec run(const Resolved& resolved, const TreePtr& merged) {
    const Section document(resolved.tree, root(), touched_);
    document.text("apiVersion");
    document.text("kind");
    document.texts("bases");
    spec_.resolved = resolved.tree;
    const Section metadata = document.section("metadata");
    spec_.name = metadata.text("name");
    spec_.space = metadata.text("namespace");
    metadata.pairs("labels");
    metadata.pairs("annotations");
    const Section spec = document.section("spec");
    spec_.protect = spec.boolean("protect");
    read_state(spec.section("state"));
    read_secrets(spec.section("secrets"));
    read_policy(spec);
    read_talos(spec.section("talos"));
    read_network(spec.section("network"));
    read_kubernetes(spec.section("kubernetes"));
    read_platform(spec);
    read_addons(spec.section("addons"));
    read_nodes(spec, resolved.origins);
    read_pools(Section(merged, root(), touched_).section("spec"));
    if (const auto handover = spec.find_section("handover")) read_handover(*handover);
    if (const auto backup = spec.find_section("backup")) read_backup(*backup);
    if (const auto rollout = spec.find_section("rollout")) read_rollout(*rollout);
    if (const auto reconcile = spec.find_section("reconcile")) read_reconcile(*reconcile);
    decide_scheduling(spec.section("kubernetes"));
    return std::move(spec_);
  }

 private:
  /// Looked up where an address is about to be used (spec/plain_http.hpp).
  static void read_plain_http(const Section& section) { section.boolean("plainHttp"); }

  static S3Place s3(const Section& section) {
    read_plain_http(section);
    return {section.text("bucket"),           section.text("key"),
            section.find_text("endpoint"),    section.text("region"),
            section.find_secret("accessKey"), section.find_secret("secretKey")};
  }

  static InfisicalSource infisical(const Section& section) {
    read_plain_http(section);
    return {section.text("host"), section.text("project"), section.text("environment"),
            section.text("path"), section.find_secret("auth")};
  }

  void read_state(const Section& state) {
    spec_.state.encrypt = state.texts("encrypt");
    if (const auto kubernetes = state.find_section("kubernetes"))
      spec_.state.place = KubernetesState{kubernetes->text("namespace")};
    else if (const auto bucket = state.find_section("s3"))
      spec_.state.place = s3(*bucket);
    else if (const auto http_state = state.find_section("http"))
      spec_.state.place = http(*http_state);
    else
      spec_.state.place = local(state.section("local"));
  }

  static HttpState http(const Section& section) {
    read_plain_http(section);
    return {section.text("address"),
            section.find_text("lockAddress"),
            section.find_text("unlockAddress"),
            section.text("updateMethod").value,
            section.text("lockMethod").value,
            section.text("unlockMethod").value,
            section.find_text("username"),
            section.find_secret("password")};
  }

  static LocalState local(const Section& section) {
    LocalState place{section.text("path")};
    if (place.path->empty()) place.path.value = ".rocca";
    return place;
  }

  void read_secrets(const Section& secrets) {
    spec_.secret_files = secrets.texts("files");
    for (const Section& source : secrets.sections("sources")) {
      if (const auto server = source.find_section("infisical"))
        spec_.secret_sources.emplace_back(infisical(*server));
      else if (source.has("command"))
        spec_.secret_sources.emplace_back(CommandSource{source.texts("command")});
      else if (source.has("env"))
        spec_.secret_sources.emplace_back(EnvironmentSource{source.text("env")});
    }
  }

  void read_policy(const Section& spec) {
    const Section policy = spec.section("policy");
    for (const auto& word : policy.texts("allow"))
      if (const auto effect = parse_effect(*word)) spec_.allow.push_back({*effect, word.where});
    const auto even = policy.text("evenControlPlanes");
    spec_.warn_even_control_planes = {even.value == "warn", even.where};
    const Section naming = spec.section("naming");
    spec_.vm_naming = naming.text("vm");
    spec_.host_naming = naming.text("host");
    const Section timeouts = spec.section("timeouts");
    spec_.timeouts = {timeouts.duration("boot"), timeouts.duration("bootstrap"),
                      timeouts.duration("handover")};
  }

  void read_talos(const Section& talos) {
    Talos& out = spec_.talos;
    out.version = talos.version("version");
    out.image = image(talos);
    for (const Section& module : talos.sections("modules")) {
      KernelModule one{module.text("name"), {}};
      for (const auto& parameter : module.texts("parameters")) one.parameters.push_back(*parameter);
      out.modules.push_back(std::move(one));
    }
    out.sysctls = talos.pairs("sysctls");
    if (const Tree* mirrors = talos.find("mirrors"); mirrors != nullptr && mirrors->is_map())
      for (const Member& member : mirrors->members) {
        Texts urls;
        for (const TreePtr& item : member.value->items) urls.push_back({item->text, item->where});
        out.mirrors.emplace_back(Placed<std::string>{member.key, member.where}, std::move(urls));
      }
    out.discovery = talos.boolean("discovery");
    out.factory = talos.text("factory");
    if (const auto boot = talos.find_section("boot")) {
      out.boot = {Boot::Template, boot->where()};
      out.boot_template = boot->text("template").value;
    } else {
      const auto word = talos.text("boot");
      out.boot = {word.value == "iso" ? Boot::Iso : Boot::Import, word.where};
    }
    const Section patches = talos.section("patches");
    all_ = patches_.read(patches.find_ptr("all"));
    control_planes_ = patches_.read(patches.find_ptr("controlplane"));
    workers_ = patches_.read(patches.find_ptr("worker"));
  }

  void read_network(const Section& network) {
    Network& out = spec_.network;
    const auto mode = network.text("addressing");
    out.addressing = {mode.value == "dhcp"   ? Addressing::Dhcp
                      : mode.value == "meta" ? Addressing::Meta
                                             : Addressing::NoCloud,
                      mode.where};
    out.subnet = network.find_subnet("subnet");
    out.gateway = network.find_address("gateway");
    for (const auto& server : network.texts("nameservers"))
      if (const auto address = IpAddress::parse(*server))
        out.nameservers.push_back({*address, server.where});
    out.ntp = network.texts("ntp");
    out.vlan = network.find_int("vlan");
    out.mtu = network.find_int("mtu");
  }

  void read_kubernetes(const Section& kubernetes) {
    Kubernetes& out = spec_.kubernetes;
    out.version = kubernetes.version("version");
    if (const auto endpoint = kubernetes.find_section("endpoint")) {
      Endpoint end;
      const auto by = endpoint->text("by");
      const auto interface = endpoint->find_text("interface");
      if (const auto vip = endpoint->find_address("vip"))
        end.vip = Vip{*vip, by.value == "kube-vip", interface};
      else if (by.written() || interface)
        findings_.add("vip-only", by.written() ? by.where : interface->where,
                      "`by` and `interface` say how a VIP is kept, and there is none",
                      "give vip, or take them away");
      end.host = endpoint->find_text("host");
      if (const auto port = endpoint->find_int("port")) {
        end.port = port->value;
        if (!end.host && end.port != Endpoint::api_port)
          findings_.add(
              "host-only", port->where,
              fmt::format("`port` is {}, and there is no `host` that listens there", end.port),
              "at a VIP kube-apiserver itself answers, on 6443: take port away, or give "
              "host");
      }
      out.endpoint = std::move(end);
    }
    out.pod_cidr = kubernetes.subnet("podCIDR");
    out.service_cidr = kubernetes.subnet("serviceCIDR");
    out.cert_sans = kubernetes.texts("certSANs");
    if (const auto cni = kubernetes.find_section("cni")) {
      out.cni.where = cni->where();
      if (const auto cilium = cni->find_section("cilium")) {
        out.cni.kind = Cni::Kind::Cilium;
        out.cni.cilium.version = cilium->version("version");
        if (const Tree* values = cilium->find("values")) out.cni.cilium.values = to_value(*values);
      } else {
        out.cni.kind = Cni::Kind::Manifests;
        out.cni.manifests = cni->texts("manifests");
      }
    } else {
      const auto word = kubernetes.text("cni");
      out.cni.kind = word.value == "none" ? Cni::Kind::None : Cni::Kind::Flannel;
      out.cni.where = word.where;
    }
  }

  void decide_scheduling(const Section& kubernetes) {
    const auto word = kubernetes.text("scheduleOnControlPlanes");
    const bool automatic = word.value != "true" && word.value != "false";
    spec_.kubernetes.schedule_on_control_planes = {
        automatic ? spec_.workers().empty() : word.value == "true", word.where};
  }

  void read_platform(const Section& spec) {
    if (const auto tailscale = spec.find_section("tailscale")) {
      read_plain_http(*tailscale);
      Tailscale out{spec.key_where("tailscale"),
                    tailscale->find_text("loginServer"),
                    tailscale->secret("authKey"),
                    {}};
      for (const auto& route : tailscale->texts("routes"))
        if (const auto subnet = Cidr::parse(*route)) out.routes.push_back({*subnet, route.where});
      spec_.tailscale = std::move(out);
    }
    const auto proxmox = spec.find_section("proxmox");
    if (!proxmox) return;
    const Section storage = proxmox->section("storage");
    spec_.proxmox = Proxmox{spec.key_where("proxmox"),
                            proxmox->texts("endpoints"),
                            proxmox->find_text("fingerprint"),
                            proxmox->find_text("caFile"),
                            proxmox->boolean("insecure"),
                            proxmox->secret("token"),
                            proxmox->texts("hosts"),
                            storage.text("images"),
                            storage.text("disks"),
                            proxmox->text("bridge")};
  }

  static Addon addon(const Section& addons, const char* key, bool token, bool storage) {
    Addon out{addons.boolean(key), {}, {}, {}};
    const auto more = addons.find_section(key);
    if (!more) return out;
    out.on = {true, more->where()};
    out.version = more->find_version("version");
    more->find_text("from");  // checked here; who installs it asks the resolved tree for it
    if (token) out.token = more->find_secret("token");
    if (storage) out.storage = more->find_text("storage");
    return out;
  }

  void read_addons(const Section& addons) {
    Addons& out = spec_.addons;
    out.longhorn = addons.boolean("longhorn");
    out.longhorn_path = {"/var/lib/longhorn", {}};
    if (const auto longhorn = addons.find_section("longhorn")) {
      out.longhorn = {true, longhorn->where()};
      out.longhorn_path = longhorn->text("dataPath");
    }
    out.metrics_server = addon(addons, "metricsServer", false, false);
    out.cert_approver = addon(addons, "certApprover", false, false);
    out.proxmox_ccm = addon(addons, "proxmoxCcm", true, false);
    out.proxmox_csi = addon(addons, "proxmoxCsi", true, true);
    out.manifests = addons.texts("manifests");
  }

  static Disk disk(const Member& member, const Section& section) {
    const auto use = section.text("use");
    return {member.key,
            member.where,
            section.size("size"),
            section.find_text("storage"),
            {use.value == "longhorn" ? DiskUse::Longhorn
             : use.value == "volume" ? DiskUse::Volume
                                     : DiskUse::Raw,
             use.where},
            section.boolean("iothread"),
            section.boolean("discard").value,
            section.boolean("ssd").value,
            section.text("cache")};
  }

  std::shared_ptr<const Machine> machine(const Section& section) {
    const auto known = machines_.find(section.tree().get());
    if (known != machines_.end()) return known->second;
    auto out = std::make_shared<Machine>();
    out->host = section.find_text("host");
    out->pool = section.find_text("pool");
    out->vmid = section.find_int("vmid");
    out->cores = section.integer("cores");
    out->cpu = section.text("cpu");
    out->memory = section.size("memory");
    out->firmware = section.text("firmware");
    out->chipset = section.text("chipset");
    out->scsi = section.text("scsi");
    out->agent = section.boolean("agent");
    out->on_boot = section.boolean("onBoot");
    const Section slots = section.section("slots");
    out->cloud_init_slot = slots.text("cloudInit");
    out->iso_slot = slots.text("iso");
    for (const auto& [member, one] : section.named("disks"))
      out->disks.push_back(disk(*member, one));
    if (out->disks.empty())
      out->disks.push_back(Disk{"system", {}, {Bytes::gib(20), {}}, {}, {}, {}, true, true, {}});
    for (const Section& nic : section.sections("nics"))
      out->nics.push_back(
          {nic.where(), nic.find_text("bridge"), nic.find_int("vlan"), nic.find_int("mtu"),
           nic.find_parsed<MacAddress>(
               "mac", [](const std::string& text) { return MacAddress::parse(text); })});
    if (out->nics.empty()) out->nics.emplace_back();
    for (const Section& device : section.sections("pci"))
      out->pci.push_back({device.text("mapping"), device.boolean("pcie")});
    machines_.emplace(section.tree().get(), out);
    return out;
  }

  static Image image(const Section& talos) {
    return {talos.texts("extensions"), talos.find_text("schematic"), talos.texts("kernelArgs")};
  }

  std::shared_ptr<const Image> shared_image(const Section& section) {
    auto& known = images_[section.tree().get()];
    if (!known) known = std::make_shared<Image>(image(section));
    return known;
  }

  std::optional<Existing> existing(const Section& node) {
    const Tree* given = node.find("existing");
    if (given == nullptr) return std::nullopt;
    Existing out{given->where, {}, {}};
    if (const auto more = node.find_section("existing")) {
      out.uuid = more->find_parsed<Uuid>("uuid",
                                         [](const std::string& text) { return Uuid::parse(text); });
      out.disk = more->find_text("disk");
    }
    return out;
  }

  std::string name_from(const std::string& pattern, const std::string& node) const {
    return replace_all(replace_all(pattern, "{cluster}", spec_.name.value), "{node}", node);
  }

  void read_nodes(const Section& spec, const std::vector<Origin>& origins) {
    const auto nodes = spec.named("nodes");
    spec_.nodes.reserve(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const auto& [member, section] = nodes[i];
      Node node;
      node.name = member->key;
      node.where = member->where;
      node.pool = origins[i].pool;
      const auto role = section.text("role");
      node.role = {role_of(role.value), role.where};
      node.address = section.find_address("address");
      node.existing = existing(section);
      node.labels = section.pairs("labels");
      node.taints = section.pairs("taints");
      for (const PatchList& list : {all_, node.control_plane() ? control_planes_ : workers_,
                                    patches_.read(section.find_ptr("patches"))})
        node.patches.insert(node.patches.end(), list.begin(), list.end());
      if (const auto own = section.find_section("talos")) node.image = shared_image(*own);
      if (const auto hardware = section.find_section("machine")) node.machine = machine(*hardware);
      node.vm_name = name_from(spec_.vm_naming.value, node.name);
      node.host_name = spec_.host_name_of(node.name);
      spec_.nodes.push_back(std::move(node));
    }
  }

  // What pools say is asked for once more, before they became nodes: messages point to ranges, not
  // to nodes.
  void read_pools(const Section& spec) {
    spec.section("machine");
    for (const auto& [member, section] : spec.named("pools")) {
      const auto role = section.text("role");
      Pool pool{member->key,
                member->where,
                {role_of(role.value), role.where},
                section.integer("count"),
                {}};
      for (const auto& text : section.texts("addresses"))
        if (const auto range = AddressRange::parse(*text))
          pool.ranges.push_back({*range, text.where});
      section.pairs("labels");
      section.pairs("taints");
      section.find("patches");
      section.find("talos");
      section.find("machine");
      spec_.pools.push_back(std::move(pool));
    }
  }

  void read_handover(const Section& handover) {
    Handover out;
    if (const auto flux = handover.find_section("flux")) {
      Flux one{handover.key_where("flux"),
               flux->text("url"),
               flux->text("branch"),
               flux->text("path"),
               {},
               flux->find_secret("decryption"),
               flux->find_version("version")};
      flux->find_text("from");  // as for add-ons
      read_plain_http(*flux);
      if (const auto auth = flux->find_section("auth"))
        one.auth = GitAuth{flux->find_secret("auth"), auth->find_text("external")};
      out.flux = std::move(one);
    }
    if (const auto external = handover.find_section("externalSecrets"))
      out.external_secrets = ExternalSecrets{external->find_version("version"),
                                             infisical(external->section("infisical"))};
    for (const Section& entry : handover.sections("publish")) {
      Publish one;
      one.where = entry.where();
      one.delete_on_down = entry.text("onDown").value != "keep";
      if (const auto server = entry.find_section("infisical")) {
        read_plain_http(*server);
        one.to =
            PublishInfisical{server->find_text("host"),        server->find_text("project"),
                             server->find_text("environment"), server->text("path"),
                             server->text("kubeconfig").value, server->text("talosconfig").value,
                             server->find_secret("auth")};
      } else if (const auto cluster = entry.find_section("kubernetes")) {
        one.to = PublishKubernetes{cluster->text("namespace"), cluster->text("name")};
      } else {
        one.to = PublishFiles{entry.section("files").text("folder")};
      }
      out.publish.push_back(std::move(one));
    }
    for (const Section& wait : handover.sections("waitFor"))
      if (const auto slice = wait.find_text("endpointSlice"))
        out.wait_for_endpoint_slices.push_back(*slice);
    spec_.handover = std::move(out);
  }

  void read_backup(const Section& backup) {
    Backup out;
    out.where = backup.where();
    out.schedule = backup.text("schedule");
    const Section keep = backup.section("keep");
    const auto number = [&](std::string_view key) {
      const auto found = keep.find_int(key);
      return found ? found->value : 0;
    };
    out.keep = {number("last"), number("daily"), number("weekly"), number("monthly")};
    const Section to = backup.section("to");
    if (const auto bucket = to.find_section("s3"))
      out.to = s3(*bucket);
    else
      out.to = to.text("folder").value;
    out.encrypt = backup.texts("encrypt");
    if (const auto drill = backup.find_section("drill"))
      out.drill = Drill{drill->where(),           drill->text("schedule"),
                        drill->find_text("host"), drill->find_text("bridge"),
                        drill->find_int("vlan"),  drill->find_address("address")};
    spec_.backup = std::move(out);
  }

  void read_rollout(const Section& rollout) {
    Rollout& out = spec_.rollout;
    if (const auto most = MaxUnavailable::parse(rollout.text("maxUnavailable").value))
      out.max_unavailable = *most;
    else
      findings_.add("bad-rollout", rollout.text("maxUnavailable").where,
                    "spec.rollout.maxUnavailable is not a number of workers or a percentage",
                    "write 1, 2 … or 1% to 100%");
    const Section drain = rollout.section("drain");
    out.drain_timeout = drain.duration("timeout");
    out.force_drain = drain.text("onTimeout").value == "force";
    for (const Section& window : rollout.sections("windows")) read_window(window);
    for (const Section& gate : rollout.sections("gates")) {
      if (const auto url = gate.find_text("http")) out.gates.push_back(HttpGate{*url});
      if (const auto file = gate.find_text("job")) out.gates.push_back(JobGate{*file});
    }
  }

  void read_window(const Section& window) {
    static constexpr std::string_view names[] = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};
    MaintenanceWindow out;
    out.where = window.where();
    for (const auto& day : window.texts("days"))
      out.days.push_back(std::find(std::begin(names), std::end(names), day.value) -
                         std::begin(names));
    const auto minutes = [&](std::string_view key) {
      const auto text = window.text(key);
      const auto parsed = parse_time_of_day(text.value);
      if (!parsed)
        findings_.add("bad-rollout", text.where,
                      fmt::format("spec.rollout.windows: `{}` is not a time of day", text.value),
                      "write HH:MM, for example \"02:00\"");
      return Placed<std::int64_t>{parsed.value_or(0), text.where};
    };
    out.from = minutes("from");
    out.to = minutes("to");
    if (out.from.value == out.to.value && out.to.where.written())
      findings_.add("bad-rollout", out.to.where,
                    "spec.rollout.windows: a window that ends when it begins is empty",
                    "leave `windows` out to allow changes at any time");
    out.zone = window.text("zone");
    spec_.rollout.windows.push_back(std::move(out));
  }

  void read_reconcile(const Section& reconcile) {
    Reconcile& out = spec_.reconcile;
    out.interval = reconcile.duration("interval");
    const std::string approval = reconcile.text("approval").value;
    out.approval = approval == "manual"  ? Approval::Manual
                   : approval == "never" ? Approval::Never
                                         : Approval::Auto;
    out.suspend = reconcile.boolean("suspend").value;
    out.destroy_on_deletion = reconcile.boolean("destroyOnDeletion").value;
    out.prune = reconcile.boolean("prune").value;
    out.depends_on = reconcile.texts("dependsOn");
    if (const auto outputs = reconcile.find_section("outputsTo"))
      out.outputs = OutputSecret{outputs->where(), outputs->text("secret"), outputs->texts("keys"),
                                 outputs->pairs("labels"), outputs->pairs("annotations")};
  }

  PatchReader& patches_;
  Findings& findings_;
  std::set<std::string>* touched_;
  Spec spec_;
  PatchList all_;
  PatchList control_planes_;
  PatchList workers_;
  std::map<const Tree*, std::shared_ptr<const Machine>> machines_;
  std::map<const Tree*, std::shared_ptr<const Image>> images_;
};

}  // namespace

Spec build(const Resolved& resolved, const TreePtr& merged, PatchReader& patches,
           Findings& findings, std::set<std::string>* touched) {
  return Builder(patches, findings, touched).run(resolved, merged);
}

}  // namespace rocca::spec
