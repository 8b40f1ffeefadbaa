#include "kubernetes/addon_source.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "net/transport.hpp"
#include "platform/resource_base.hpp"

#include <fmt/format.h>

#include <chrono>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

struct Published {
  const char* name;
  const char* version;  // what this rocca was made with
  const char* url;      // {} is the version; empty: nothing of it is published as manifests
};

// Each version is a tag of its project, and each path was looked up at that tag.
constexpr Published published[] = {
    {"certApprover", "0.11.0",
     "https://raw.githubusercontent.com/alex1989hu/kubelet-serving-cert-approver/v{}/deploy/"
     "standalone-install.yaml"},
    {"metricsServer", "0.8.1",
     "https://github.com/kubernetes-sigs/metrics-server/releases/download/v{}/components.yaml"},
    {"proxmoxCcm", "0.13.1",
     "https://raw.githubusercontent.com/sergelogvinov/proxmox-cloud-controller-manager/v{}/docs/"
     "deploy/cloud-controller-manager.yml"},
    {"proxmoxCsi", "0.19.1",
     "https://raw.githubusercontent.com/sergelogvinov/proxmox-csi-plugin/v{}/docs/deploy/"
     "proxmox-csi-plugin-release.yml"},
    {"flux", "2.9.4", "https://github.com/fluxcd/flux2/releases/download/v{}/install.yaml"},
    {"externalSecrets", "2.9.0", ""},
    {"kubeVip", "1.2.3", ""},
    {"cilium", "", ""},
};

const Published& find_published(const std::string& name) {
  for (const Published& one : published)
    if (one.name == name) return one;
  throw Error(Fault::Bug, fmt::format("no add-on is called {}", name));
}

/// The last release of Flux for a Kubernetes, by what `flux check` asks for.
std::string default_version(const spec::Spec& spec, const Published& one) {
  if (std::string_view{one.name} != "flux") return one.version;
  const auto minor = spec.kubernetes.version->minor();
  if (minor >= 33) return one.version;
  return minor == 32 ? "2.7.5" : minor == 31 ? "2.6.4" : minor == 30 ? "2.5.1" : "2.4.0";
}

/// `from:` of an add-on, where the spec names one.
spec::Maybe<std::string> given(const spec::Spec& spec,
                               std::initializer_list<std::string_view> path) {
  spec::TreePtr tree = spec.resolved;
  for (const std::string_view key : path) tree = tree && tree->is_map() ? tree->find(key) : nullptr;
  if (!tree || !tree->is_scalar()) return std::nullopt;
  return spec::Placed<std::string>{tree->text, tree->where};
}

std::string absolute(const spec::Spec& spec, const std::string& path) {
  return path.starts_with('/') || spec.folder.empty() ? path : spec.folder + "/" + path;
}

/// The body behind a URL; release pages send on to where files really are.
std::string download(net::Transport& transport, std::string url, const std::stop_token& stop) {
  for (int hops = 0; hops < 6; ++hops) {
    net::Request request;
    request.url = url;
    request.timeout = 2min;
    net::Answer answer = net::fetch(transport, request, stop);
    const int status = answer.head.status;
    if (status == 200) return std::move(answer.body);
    if (status >= 300 && status < 400) {
      const auto next = answer.head.headers.find("Location");
      if (next && next->find("://") != std::string::npos) {
        url = *next;
        continue;
      }
    }
    const Fault fault = status == 404                    ? Fault::NotFound
                        : status == 429 || status >= 500 ? Fault::Busy
                        : status == 401 || status == 403 ? Fault::Denied
                                                         : Fault::Rejected;
    throw Error(fault, fmt::format("{} answered {}", url, status));
  }
  throw Error(Fault::Rejected, fmt::format("{} sends on and on", url));
}

std::string fetch_one(const spec::Spec& spec, spec::Lock& lock, const AddonSource& source,
                      net::Transport& transport, Files& files, ManifestCache& cache,
                      const std::stop_token& stop) {
  if (is_inline(source.from)) return source.from;
  if (!is_url(source.from)) return files.get(absolute(spec, source.from));
  spec::LockedAddon& locked = lock.addons[source.name];
  if (!locked.sha256.empty())
    if (auto cached = cache.find(locked.sha256); cached && digest(*cached) == locked.sha256)
      return std::move(*cached);
  std::string text = download(transport, source.from, stop);
  const std::string found = digest(text);
  if (!locked.sha256.empty() && locked.sha256 != found)
    throw Error(Fault::Refused,
                fmt::format("{} gives something else than what rocca.lock pins: {}, "
                            "not {}",
                            source.from, found.substr(0, 16), locked.sha256.substr(0, 16)))
        .hint(fmt::format("if that is right, take addons.{} out of rocca.lock", source.name));
  locked.sha256 = found;
  cache.write(found, text);
  return text;
}

}  // namespace

bool is_url(const std::string& from) {
  return !is_inline(from) && (from.starts_with("https://") || from.starts_with("http://"));
}

bool is_inline(const std::string& from) {
  return from.find('\n') != std::string::npos;
}

std::vector<AddonSource> addon_sources(const spec::Spec& spec, const spec::Lock& lock) {
  std::vector<AddonSource> all;
  const auto add = [&](const char* name, const spec::Maybe<Version>& version,
                       const spec::Maybe<std::string>& from, const spec::Where& where) {
    const Published& one = find_published(name);
    const auto locked = lock.addons.find(name);
    AddonSource source;
    source.name = name;
    source.version = version ? to_string(**version)
                     : locked != lock.addons.end() && !locked->second.version.empty()
                         ? locked->second.version
                         : default_version(spec, one);
    source.place = to_string(spec.position(where));
    if (from)
      source.from = **from;
    else if (*one.url != '\0')
      source.from = replace_all(one.url, "{}", source.version);
    all.push_back(std::move(source));
  };
  const auto manifests = [&](const spec::Texts& list) {
    for (const auto& manifest : list)
      all.push_back({is_inline(*manifest) ? to_string(spec.position(manifest.where)) : *manifest,
                     "", *manifest, to_string(spec.position(manifest.where))});
  };
  const spec::Cni& cni = spec.kubernetes.cni;
  if (cni.kind == spec::Cni::Kind::Cilium) add("cilium", cni.cilium.version, {}, cni.where);
  if (cni.kind == spec::Cni::Kind::Manifests) manifests(cni.manifests);
  const auto& endpoint = spec.kubernetes.endpoint;
  if (endpoint && endpoint->vip && endpoint->vip->by_kube_vip)
    add("kubeVip", {}, {}, endpoint->vip->address.where);
  const spec::Addons& addons = spec.addons;
  const auto addon = [&](const char* name, const spec::Addon& one) {
    if (*one.on)
      add(name, one.version, given(spec, {"spec", "addons", name, "from"}), one.on.where);
  };
  addon("certApprover", addons.cert_approver);
  addon("metricsServer", addons.metrics_server);
  addon("proxmoxCcm", addons.proxmox_ccm);
  addon("proxmoxCsi", addons.proxmox_csi);
  manifests(addons.manifests);
  if (spec.handover && spec.handover->flux)
    add("flux", spec.handover->flux->version, given(spec, {"spec", "handover", "flux", "from"}),
        spec.handover->flux->where);
  if (spec.handover && spec.handover->external_secrets)
    add("externalSecrets", spec.handover->external_secrets->version, {}, {});
  return all;
}

std::string addon_version(const Cluster& cluster, const std::string& name) {
  for (const AddonSource& source : addon_sources(cluster.spec, cluster.lock))
    if (source.name == name) return source.version;
  throw Error(Fault::Bug, fmt::format("{} is not installed", name));
}

void fetch_addons(const spec::Spec& spec, spec::Lock& lock, Outside& outside,
                  net::Transport& transport, Files& files, ManifestCache& cache,
                  std::stop_token stop) {
  for (const AddonSource& source : addon_sources(spec, lock)) {
    if (!source.version.empty() || is_url(source.from)) {
      spec::LockedAddon& locked = lock.addons[source.name];
      const std::string url = is_url(source.from) ? source.from : "";
      if (locked.version != source.version || locked.url != url) {
        locked.version = source.version;
        locked.url = url;
        locked.sha256.clear();  // of another one
      }
    }
    if (source.from.empty()) continue;
    outside.addon_texts[source.name] =
        within(fmt::format("fetching {} ({})", source.name, source.place),
               [&] { return fetch_one(spec, lock, source, transport, files, cache, stop); });
  }
}

}  // namespace rocca::resources
