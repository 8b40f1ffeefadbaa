#include "lab/machines/clusters.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "lab/kube/conditions.hpp"
#include "lab/kube/controllers/controllers.hpp"
#include "lab/kube/json.hpp"
#include "lab/kube/requests.hpp"
#include "lab/kube/status.hpp"
#include "lab/sim/network.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab {

using kube::text_at;
using talos::MachineConfig;
using talos::TalosNode;
using text::Value;

namespace {

constexpr const char* registry = "/registry/";

std::string tag_of(const std::string& image, std::string otherwise) {
  std::string tag = image.substr(image.rfind(':') + 1);
  const std::size_t digest = tag.find('@');
  if (digest != std::string::npos) tag.resize(digest);
  if (!Version::parse(tag)) return otherwise;
  return tag.starts_with('v') ? tag : "v" + tag;
}

std::string kubernetes_version(const MachineConfig& config) {
  return tag_of(config.get({"cluster", "apiServer", "image"}),
                tag_of(config.get({"machine", "kubelet", "image"}), "v1.34.1"));
}

std::vector<std::pair<std::string, std::string>> pairs(const MachineConfig& config,
                                                       std::string_view key) {
  std::vector<std::pair<std::string, std::string>> out;
  if (const Value* map = config.main()->find({"machine", key}); map != nullptr && map->is_map())
    for (const text::Entry& entry : map->entries()) out.emplace_back(entry.key, entry.value.text());
  return out;
}

kube::Kubelet kubelet_of(const TalosNode& node) {
  const MachineConfig& config = *node.config();
  kube::Kubelet out;
  out.name = node.hostname();
  out.address = node.address();
  out.version = tag_of(config.get({"machine", "kubelet", "image"}), kubernetes_version(config));
  out.control_plane = node.is_control_plane();
  out.labels = pairs(config, "nodeLabels");
  out.annotations = pairs(config, "nodeAnnotations");
  std::vector<kube::Kubelet::Taint> taints;
  const Value* schedule = config.main()->find({"cluster", "allowSchedulingOnControlPlanes"});
  if (out.control_plane && (schedule == nullptr || schedule->as_bool() != true))
    taints.push_back({"node-role.kubernetes.io/control-plane", "", "NoSchedule"});
  if (const Value* provider = config.main()->find({"cluster", "externalCloudProvider", "enabled"});
      provider != nullptr && provider->as_bool() == true)
    taints.push_back({"node.cloudprovider.kubernetes.io/uninitialized", "true", "NoSchedule"});
  for (const auto& [key, value] : pairs(config, "nodeTaints")) {
    const std::size_t colon = value.rfind(':');
    taints.push_back({key, colon == std::string::npos ? "" : value.substr(0, colon),
                      colon == std::string::npos ? value : value.substr(colon + 1)});
  }
  out.taints = std::move(taints);
  out.machine_id = replace_all(node.machine().uuid, "-", "");
  out.system_uuid = node.machine().uuid;
  out.os_image = fmt::format("Talos (v{})", to_string(node.version()));
  out.cores = node.machine().cores;
  out.memory = node.machine().memory;
  const Value* rotate =
      config.main()->find({"machine", "kubelet", "extraArgs", "rotate-server-certificates"});
  out.rotates_certificate = rotate != nullptr && rotate->text() == "true";
  for (const talos::Extension& each : node.machine().extensions)
    out.extensions.push_back(each.name);
  if (const Value* mounts = config.main()->find({"machine", "kubelet", "extraMounts"}))
    for (const Value& mount : mounts->items()) {
      const Value* options = mount.find("options");
      if (options == nullptr) continue;
      for (const Value& option : options->items())
        if (option.text() == "rshared") out.mounts.push_back(text_at(mount, {"destination"}));
    }
  for (const MachineConfig::Document& document : config.documents())
    if (document.kind == "UserVolumeConfig") out.mounts.push_back("/var/mnt/" + document.name);
  return out;
}

std::string pod_security(const MachineConfig& config) {
  if (const Value* plugins = config.main()->find({"cluster", "apiServer", "admissionControl"}))
    for (const Value& plugin : plugins->items())
      if (text_at(plugin, {"name"}) == "PodSecurity")
        return text_at(plugin, {"configuration", "defaults", "enforce"});
  return "";
}

}  // namespace

void Kubernetes::join(TalosNode& node) {
  name_ = node.config()->get({"cluster", "clusterName"});
  kube::Kubelet facts = kubelet_of(node);
  Member& member = members_[facts.name];
  const bool same = member.node == &node && member.facts == facts;
  member.facts = std::move(facts);
  member.node = &node;
  if (real_) return tell_real();
  if (site_ != nullptr && site_->programs) return;
  check_skew();
  if (member.refused) return;
  if (!api_ && node.is_control_plane() && has_inline_manifests(*node.config()))
    // They may be what makes the nodes ready.
    begin(node);
  else if (api_ && !same)
    api_->join(member.facts);
}

std::string Kubernetes::older_api_server(const kube::Kubelet& kubelet) const {
  const auto version = Version::parse(kubelet.version);
  const auto etcd = etcd_.lock();
  if (!version || !etcd || site_ == nullptr) return "";
  for (const TalosNode* node : site_->fleet().nodes()) {
    const auto served = Version::parse(node->served_version());
    if (node->etcd() != etcd || !served) continue;
    if (std::pair{version->major(), version->minor()} > std::pair{served->major(), served->minor()})
      return fmt::format("the API server of {} ({})", node->hostname(), node->served_version());
  }
  return "";
}

void Kubernetes::check_skew() {
  for (auto& [name, member] : members_) {
    if (member.node == nullptr) continue;
    const std::string older = older_api_server(member.facts);
    if (member.refused == !older.empty()) continue;
    member.refused = !older.empty();
    if (member.refused) {
      skews_.push_back(fmt::format("the kubelet of {} ({}) is newer than {}", name,
                                   member.facts.version, older));
      world_.note("Kubernetes refuses a kubelet: " + skews_.back());
      if (api_) api_->leave(name);
    } else if (api_) {
      api_->join(member.facts);
    }
    member.node->set_node_object(!member.refused, false);
  }
}

void Kubernetes::leave(const TalosNode& node) {
  for (auto& [name, member] : members_) {
    if (member.node != &node) continue;
    member.node = nullptr;
    member.refused = false;
    if (api_) api_->leave(name);
    if (real_) tell_real();
    // Whoever leads renews a lease; the others see it run out.
    if (api_ && name == kube_vip_)
      world_.after(std::chrono::seconds{15}, [this, alive = std::weak_ptr<const bool>(alive_)] {
        if (alive.lock() && api_) move_kube_vip();
      });
  }
  const bool served = std::any_of(members_.begin(), members_.end(), [](const auto& each) {
    return each.second.node != nullptr && each.second.node->apiserver_runs();
  });
  if (api_ && !served) api_->restart();
}

std::pair<std::string, unsigned> Kubernetes::real(TalosNode& node,
                                                  const KubernetesPrograms& programs) {
  const MachineConfig& config = *node.config();
  name_ = config.get({"cluster", "clusterName"});
  kube::Kubelet facts = kubelet_of(node);
  Member& member = members_[facts.name];
  member.facts = std::move(facts);
  member.node = &node;
  if (!real_) {
    ControlPlane::Wishes wishes;
    wishes.programs = programs;
    if (const auto door = world_.network().door_of(node.address())) wishes.address = *door;
    wishes.port = 6443;
    wishes.advertised = node.address();
    wishes.manifests = talos_manifests(config);
    wishes.has_network = brings_network(config);
    world_.note(fmt::format("a real Kubernetes of {} begins", name_));
    real_ = std::make_unique<ControlPlane>(std::move(wishes), config,
                                           world_.fork("control plane/" + name_), world_.outside());
    look_at_real();
  }
  tell_real();
  return {real_->address(), real_->port()};
}

void Kubernetes::tell_real() {
  std::map<std::string, kube::Kubelet> kubelets;
  std::vector<std::string> names;
  for (const auto& [name, member] : members_) {
    if (member.node == nullptr) continue;
    kubelets[name] = member.facts;
    if (!member.facts.control_plane || !member.node->config()) continue;
    names.push_back(name);
    names.push_back(member.facts.address);
    const MachineConfig& config = *member.node->config();
    if (const auto url = net::Url::parse(config.get({"cluster", "controlPlane", "endpoint"})))
      names.push_back(url->host);
    if (const Value* sans = config.main()->find({"cluster", "apiServer", "certSANs"}))
      for (const Value& san : sans->items()) names.push_back(san.text());
    for (const talos::Address& each : member.node->network().addresses)
      names.push_back(to_string(each.cidr.address()));
  }
  real_->set_members(std::move(kubelets), names);
}

/// What the real one says of the nodes, once a second.
void Kubernetes::look_at_real() {
  world_.after(std::chrono::seconds{1}, [this, alive = std::weak_ptr<const bool>(alive_)] {
    if (!alive.lock() || !real_ || site_ == nullptr) return;
    real_->set_refused(site_->refused_images);
    if (const std::string trouble = real_->take_trouble(); !trouble.empty())
      world_.note("real Kubernetes: " + trouble);
    for (const auto& [name, state] : real_->nodes())
      if (const auto found = members_.find(name);
          found != members_.end() && found->second.node != nullptr)
        found->second.node->set_node_object(state.ready, state.unschedulable);
    look_at_real();
  });
}

kube::Api* Kubernetes::api() {
  if (real_) return nullptr;
  if (api_) return api_.get();
  for (const auto& [name, member] : members_)
    if (member.node != nullptr && member.node->is_control_plane()) {
      begin(*member.node);
      return api_.get();
    }
  return nullptr;
}

void Kubernetes::begin(const TalosNode& plane) {
  const MachineConfig& config = *plane.config();
  const auto pem = [&](const char* part) {
    return from_base64(config.get({"cluster", "ca", part})).value_or("");
  };
  kube::Api::Options options;
  options.name = "kubernetes/" + name_;
  options.settled = true;
  options.version = kubernetes_version(config);
  options.address = config.get({"cluster", "controlPlane", "endpoint"});
  if (const auto url = net::Url::parse(options.address))
    options.address = fmt::format("{}:{}", url->host, url->port);
  options.quorum = [etcd = etcd_] {
    const auto alive = etcd.lock();
    return alive && alive->has_quorum();
  };
  options.authority_pem = pem("crt");
  options.pod_security = pod_security(config);
  options.sign = [this, crt = pem("crt"), key = pem("key")](const Value& request) {
    return kube::sign_request(request, crt, key, world_.outside());
  };
  options.refuse_image = [this](const std::string& image) -> std::optional<std::string> {
    if (site_ == nullptr) return std::nullopt;
    for (const auto& [part, why] : site_->refused_images)
      if (image.find(part) != std::string::npos) return why;
    return std::nullopt;
  };
  options.crash_image = [this](const std::string& image) -> std::optional<std::string> {
    if (site_ == nullptr) return std::nullopt;
    for (const auto& [part, why] : site_->crashing_images)
      if (image.find(part) != std::string::npos) return why;
    return std::nullopt;
  };
  options.webhook_listens = [this](const std::string& space, const std::string& service) {
    return webhook_listens(space, service);
  };
  if (const Value* subnets = config.main()->find({"cluster", "network", "serviceSubnets"});
      subnets != nullptr && subnets->size() != 0) {
    const std::vector<std::string> parts = split(subnets->items().front().text(), '.');
    if (parts.size() == 4) options.service_prefix = parts[0] + "." + parts[1];
  }
  world_.note(fmt::format("Kubernetes of {} is looked at", name_));
  api_ = std::make_unique<kube::Api>(world_, std::move(options));
  const auto etcd = etcd_.lock();
  const std::vector<Value> manifests = talos_manifests(config);
  api_->settle([&] {
    if (etcd) restore(*etcd);
  });
  api_->settle([&] {
    for (const auto& [name, member] : members_)
      if (!member.refused) api_->join(member.facts);
    for (const Value& manifest : manifests) {
      const kube::Api::Result made = api_->apply(manifest, "talos");
      if (made.status >= 300)
        world_.note(fmt::format("Talos cannot apply {} {}: {}", text_at(manifest, {"kind"}),
                                text_at(manifest, {"metadata", "name"}),
                                text_at(made.body, {"message"})));
    }
  });
  // Those that are off by now ran before.
  api_->settle([&] {
    for (const auto& [name, member] : members_)
      if (member.node == nullptr) api_->leave(name);
  });
  api_->storage().on_change([this](const kube::Change& change) { tell(change); });
  flux::Flux::Options flux;
  flux.git = site_ == nullptr ? nullptr : site_->git();
  flux_ = std::make_unique<flux::Flux>(world_, *api_, flux);
  for (const auto& [key, node] : api_->storage().all("/nodes"))
    tell({0, "/nodes", key, nullptr, node, nullptr});
}

void Kubernetes::move_kube_vip() {
  std::map<std::string, talos::SharedAddress> candidates;
  for (const auto& [key, pod] : api_->storage().all("/pods")) {
    if (text_at(*pod, {"metadata", "labels", "app.kubernetes.io/name"}) != "kube-vip" ||
        !kube::is_pod_ready(*pod))
      continue;
    const Value* containers = pod->find({"spec", "containers"});
    const Value* env = containers == nullptr || containers->size() == 0
                           ? nullptr
                           : containers->items().front().find("env");
    if (env == nullptr) continue;
    talos::SharedAddress wanted;
    for (const Value& one : env->items()) {
      if (text_at(one, {"name"}) == "address") wanted.address = text_at(one, {"value"});
      if (text_at(one, {"name"}) == "vip_interface") wanted.link = text_at(one, {"value"});
    }
    const auto member = members_.find(text_at(*pod, {"spec", "nodeName"}));
    if (member == members_.end() || member->second.node == nullptr) continue;
    const TalosNode& node = *member->second.node;
    if (wanted.link.empty() && !node.network().addresses.empty())
      wanted.link = node.network().addresses.front().link;
    // A tunnel is there only while its service runs.
    if (wanted.link.starts_with("tailscale") && !node.service_running("ext-tailscale")) continue;
    if (!wanted.address.empty()) candidates[member->first] = wanted;
  }
  if (!candidates.contains(kube_vip_))
    kube_vip_ = candidates.empty() ? "" : candidates.begin()->first;
  for (const auto& [name, member] : members_)
    if (member.node != nullptr)
      member.node->hold(name == kube_vip_ ? std::vector{candidates.at(name)}
                                          : std::vector<talos::SharedAddress>{});
}

/// Talos watches its own node.
void Kubernetes::tell(const kube::Change& change) {
  if (change.resource == "/pods" && change.key.name.starts_with("kube-vip-")) move_kube_vip();
  if (change.resource != "/nodes") return;
  const auto found = members_.find(change.key.name);
  if (found == members_.end() || found->second.node == nullptr) return;
  const Value* node = change.after.get();
  found->second.node->set_node_object(
      node != nullptr && kube::condition_status(*node, "Ready") == "True",
      node != nullptr && kube::bool_at(*node, {"spec", "unschedulable"}));
}

std::map<std::string, std::string> Kubernetes::data() const {
  std::map<std::string, std::string> out;
  if (!api_) return out;
  for (const auto& [resource, objects] : api_->storage().everything())
    for (const auto& [key, object] : objects)
      out[fmt::format("{}{}/{}/{}", registry, resource, key.space, key.name)] =
          text::emit_json(*object);
  return out;
}

/// What a snapshot brought back.
void Kubernetes::restore(const talos::EtcdCluster& etcd) {
  const auto put = [&](bool definitions) {
    for (const auto& [key, value] : etcd.data()) {
      if (!key.starts_with(registry) || !value.starts_with('{')) continue;
      const std::vector<std::string> parts = split(key.substr(std::string(registry).size()), '/');
      if (parts.size() != 4) continue;
      if ((parts[1] == "customresourcedefinitions") == definitions)
        api_->storage().put(parts[0] + "/" + parts[1], {parts[2], parts[3]},
                            kube::read_json(value).value);
    }
  };
  put(true);  // what is of a custom kind needs its definition
  put(false);
}

bool Kubernetes::webhook_listens(const std::string& space, const std::string& service) const {
  if (site_ == nullptr) return true;
  Duration late = site_->webhooks_late;
  if (site_->webhooks_latest > late)
    late += std::chrono::duration_cast<Duration>(std::chrono::milliseconds{
        world_.fork(fmt::format("webhook/{}/{}/{}", name_, space, service))
            .below(static_cast<std::uint64_t>((site_->webhooks_latest - late) /
                                              std::chrono::milliseconds{1}))});
  if (late == Duration{}) return true;
  const kube::Object found = api_->find("/services", space, service);
  const Value* selector = found ? found->find({"spec", "selector"}) : nullptr;
  if (selector == nullptr) return true;
  for (const auto& [key, pod] : api_->storage().all("/pods")) {
    if (key.space != space) continue;
    bool matches = true;
    for (const text::Entry& label : selector->entries())
      matches = matches && text_at(*pod, {"metadata", "labels", label.key}) == label.value.text();
    const Value* ready = kube::find_condition(*pod, "Ready");
    if (!matches || ready == nullptr || text_at(*ready, {"status"}) != "True") continue;
    const auto since = parse_instant(text_at(*ready, {"lastTransitionTime"}));
    if (since && *since + late <= world_.now()) return true;
  }
  return false;
}

std::string Kubernetes::trouble(const std::string& label) {
  std::vector<std::string> names;
  if (real_) {
    for (const auto& [name, state] : real_->nodes())
      if (label.empty() && state.unschedulable) names.push_back(name);
  } else if (kube::Api* looked = api()) {
    const std::size_t equals = label.find('=');
    for (const auto& [key, object] : looked->storage().all(label.empty() ? "/nodes" : "/pods")) {
      if (label.empty()) {
        if (kube::bool_at(*object, {"spec", "unschedulable"})) names.push_back(key.name);
      } else if (key.space == "kube-system" && !kube::is_pod_ready(*object) &&
                 text_at(*object, {"metadata", "labels", label.substr(0, equals)}) ==
                     label.substr(equals + 1)) {
        names.push_back(key.name);
      }
    }
  }
  if (names.empty()) return "";
  return fmt::format("{}: [{}]",
                     label.empty() ? "some nodes are not schedulable" : "some pods are not ready",
                     rocca::join(names, " "));
}

void Kubernetes::pushed() {
  if (flux_) flux_->pushed();
}

void Kubernetes::close() {
  site_ = nullptr;
  real_.reset();
  flux_.reset();
  api_.reset();
}

bool Kubernetes::answer_alone(const TalosNode& node, const net::Incoming& request,
                              net::Responder& responder) const {
  const std::string path = request.target.substr(0, request.target.find('?'));
  if (request.peer_certificate.empty() && !request.headers.find("Authorization")) {
    // Talos lets nobody in without a name, health checks included.
    const kube::Failure failure{401, "Unauthorized", "Unauthorized", {}};
    responder.answer(401, "", {{"Content-Type", "application/json"}},
                     text::emit_json(failure.status()) + "\n");
    return true;
  }
  if (api_) return false;
  if (path != "/livez" && path != "/readyz" && path != "/healthz" && path != "/version")
    return false;
  if (path == "/version") {
    const std::string& version = node.served_version();
    Value answer = Value::map();
    answer.set("major", kube::str(std::to_string(Version::parse(version)->major())));
    answer.set("minor", kube::str(std::to_string(Version::parse(version)->minor())));
    answer.set("gitVersion", kube::str(version));
    answer.set("platform", kube::str("linux/amd64"));
    responder.answer(200, "", {{"Content-Type", "application/json"}}, text::emit_json(answer));
    return true;
  }
  const auto etcd = etcd_.lock();
  const bool well = etcd && etcd->has_quorum();
  responder.answer(well ? 200 : 500, "", {{"Content-Type", "text/plain; charset=utf-8"}},
                   well ? "ok" : "[-]etcd failed: reason withheld\n");
  return true;
}

void Kubernetes::handle(TalosNode& node, net::Incoming request,
                        std::shared_ptr<net::Responder> responder) {
  if (real_) return responder->cut();  // nobody who can reach the real one comes here
  if (answer_alone(node, request, *responder)) return;
  if (!api_) begin(node);
  api_->set_version(node.served_version());
  api_->handler()(std::move(request), std::move(responder));
}

Clusters::Clusters(talos::Fleet& fleet) : fleet_(fleet) {
  fleet_.kubernetes = [this](TalosNode& node) -> net::Handler {
    return [this, &node](net::Incoming request, std::shared_ptr<net::Responder> responder) {
      const auto etcd = node.etcd();
      if (!etcd || !node.config()) return responder->cut();
      of(etcd)->handle(node, std::move(request), std::move(responder));
    };
  };
  fleet_.kubelet_changed = [this](TalosNode& node) { return changed(node); };
  fleet_.kubernetes_trouble = [this](TalosNode& node, const std::string& label) {
    const auto etcd = node.etcd();
    return etcd ? of(etcd)->trouble(label) : "";
  };
  fleet_.real_kubernetes =
      [this](TalosNode& node) -> std::optional<std::pair<std::string, unsigned>> {
    const auto etcd = node.etcd();
    if (!programs || !etcd || !node.config()) return std::nullopt;
    return of(etcd)->real(node, *programs);
  };
}

Clusters::~Clusters() {
  fleet_.kubernetes = nullptr;
  fleet_.kubelet_changed = nullptr;
  fleet_.real_kubernetes = nullptr;
  fleet_.kubernetes_trouble = nullptr;
  if (git_ != nullptr) git_->on_push = nullptr;
  for (const auto& weak : all_)
    if (const auto one = weak.lock()) one->close();
}

std::shared_ptr<Kubernetes> Clusters::of(const std::shared_ptr<talos::EtcdCluster>& etcd) {
  if (auto known = std::dynamic_pointer_cast<Kubernetes>(etcd->tenant)) return known;
  auto made = std::make_shared<Kubernetes>(*this, fleet_.world(), etcd);
  etcd->tenant = made;
  std::erase_if(all_, [](const auto& each) { return each.expired(); });
  all_.push_back(made);
  return made;
}

void Clusters::use_git(flux::Git* git) {
  git_ = git;
  if (git_ != nullptr)
    git_->on_push = [this] {
      for (const auto& weak : all_)
        if (const auto one = weak.lock()) one->pushed();
    };
}

bool Clusters::changed(TalosNode& node) {
  if (!node.registered()) {
    for (const auto& weak : all_)
      if (const auto one = weak.lock()) one->leave(node);
    return false;
  }
  const auto etcd = node.find_cluster();
  if (!etcd) return false;
  const auto kubernetes = of(etcd);
  kubernetes->join(node);
  return kubernetes->live();
}

Kubernetes* Clusters::find(std::string_view cluster) const {
  for (const auto& weak : all_)
    if (const auto one = weak.lock(); one && one->name() == cluster) return one.get();
  return nullptr;
}

}  // namespace rocca::lab
