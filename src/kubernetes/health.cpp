#include "kubernetes/health.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "kube/client.hpp"
#include "kube/object.hpp"
#include "kube/waits.hpp"
#include "machine/kinds.hpp"
#include "machine/kubernetes_api.hpp"
#include "machine/quorum.hpp"
#include "talosconfig/input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

constexpr const char* healthy = "healthy";
constexpr const char* waits_for = "waits for";  // a fact while it is not healthy

/// kube-vip's address may lie in a network that only the nodes are in: then the control planes are
/// asked instead.
bool may_be_out_of_reach(const spec::Spec& spec) {
  const auto& endpoint = spec.kubernetes.endpoint;
  if (!endpoint || !endpoint->vip || !endpoint->vip->by_kube_vip) return false;
  const bool tunnel =
      endpoint->vip->interface && (**endpoint->vip->interface).starts_with("tailscale");
  return tunnel || !spec.network.subnet ||
         !(**spec.network.subnet).contains(*endpoint->vip->address);
}

class HealthKind final : public Thing {
 public:
  struct Wish {
    std::map<std::string, std::string> nodes;  // names of the Node objects, by node
    bool ready = true;                         // the spec has a CNI, so Nodes become ready
    bool anywhere = false;                     // the endpoint may be out of reach from here
    bool flannel = false;                      // the CNI is Talos's own
    Duration timeout{};
  };
  HealthKind(About about, Wish wish) : Thing(std::move(about)), wish_(std::move(wish)) {}

  std::optional<Live> read(World& world) const override {
    if (!world.known(bootstrap_address(world.cluster.name()))) return std::nullopt;
    const std::string problem = trouble(world);
    // A fact and not a field: health comes and goes, and does not make a plan another one.
    if (problem.empty()) return Live{world.cluster.name(), {}, {}};
    return Live{world.cluster.name(), {}, {{waits_for, problem}}};
  }

  Change diff(const std::optional<Live>& live) const override {
    if (!live) return create("there is no cluster yet");
    const auto problem = live->facts.find(waits_for);
    if (problem == live->facts.end()) return {};
    Change change;
    change.action = Action::Update;
    change.effect = Effect::Live;
    change.reason = "waits for " + problem->second;
    change.waits = true;
    return change;
  }

  Receipt apply(World&, const Change&, const std::optional<Live>&) const override {
    return {healthy, "wait"};
  }
  Progress probe(World& world, const Receipt&) const override {
    const std::string problem = trouble(world);
    if (problem.empty()) return Ready{};
    return NotYet{problem, 2s};
  }
  Receipt destroy(World&, const Live&) const override { return {}; }
  std::vector<Lane> lanes(const Change*) const override {
    return {{"kubernetes", 8, Lane::Hold::Call}};
  }
  Duration patience(const Change&) const override { return wish_.timeout; }
  bool explains() const override { return wish_.flannel; }
  /// Talos applies its own manifests when a cluster begins; nothing brings back what was deleted.
  std::optional<engine::Explanation> explain(World& world) const override {
    bool missing = false;
    at_kubernetes(world, [&](kube::Client& client) {
      missing =
          !client.find(kube::path_of({"apps", "v1", "daemonsets"}, "kube-system", "kube-flannel"));
    });
    if (!missing) return std::nullopt;
    const std::string why = fmt::format(
        "DaemonSet kube-system/kube-flannel is missing; `talosctl upgrade-k8s --to {}` applies "
        "Talos's manifests again",
        to_string(*world.cluster.spec.kubernetes.version));
    return engine::Explanation{why, why};
  }

 protected:
  Fields wishes() const override {
    Fields all{{"ready", wish_.ready ? "yes" : "no"}};
    for (const auto& [node, name] : wish_.nodes) all["node " + node] = name;
    return all;
  }

 private:
  /// What is waited for; empty: nothing. One request: the list of Nodes, through the endpoint.
  std::string trouble(World& world) const {
    std::vector<text::Value> nodes;
    const auto list = [&](kube::Client& client) {
      nodes = client.list(kube::path_of(kube::nodes, ""));
    };
    std::string server = "its endpoint";
    try {
      if (wish_.anywhere) {
        server = "any control plane";
        at_kubernetes(world, list);
      } else {
        const auto planes = world.cluster.spec.control_planes();
        server = talos::endpoint_of(world.cluster.spec,
                                    planes.empty() ? "" : address_of(world, planes.front()->name));
        kube::Client client{world.transport, world.files, kubernetes_access(world, server), "rocca",
                            world.stop};
        list(client);
      }
    } catch (const Error& error) {
      if (error.fault() == Fault::Interrupted || error.fault() == Fault::Bug) throw;
      return fmt::format("the Kubernetes API to answer at {} ({})", server, error.message());
    }
    // A node that has not joined yet is waited for by its own steps, and looked at after them.
    std::vector<std::string> wanted;
    for (const auto& [node, name] : wish_.nodes)
      if (world.known(member_address(node))) wanted.push_back(name);
    return nodes_healthy(nodes, wanted, wish_.ready).waiting_for;
  }

  Wish wish_;
};

}  // namespace

std::string health_address(const std::string& cluster) {
  return "health/" + cluster;
}

kube::Verdict nodes_healthy(const std::vector<text::Value>& found,
                            const std::vector<std::string>& wanted, bool must_be_ready) {
  std::map<std::string, const text::Value*> by_name;
  for (const text::Value& node : found) by_name[kube::text_at(node, {"metadata", "name"})] = &node;
  std::vector<std::string> missing, unready;
  std::string why;
  for (const std::string& name : wanted) {
    const auto node = by_name.find(name);
    if (node == by_name.end()) {
      missing.push_back(name);
      continue;
    }
    if (!must_be_ready) continue;
    const kube::Verdict verdict = kube::node_ready(*node->second);
    if (verdict.done) continue;
    if (unready.empty()) why = verdict.waiting_for;
    unready.push_back(name);
  }
  const auto nodes = [](const std::vector<std::string>& names) {
    return (names.size() == 1 ? "Node " : "Nodes ") + enumerate(names);
  };
  if (!missing.empty()) return kube::Verdict::wait(nodes(missing) + " to register");
  if (unready.size() == 1) return kube::Verdict::wait(why);
  if (!unready.empty())
    return kube::Verdict::wait(fmt::format("{} to be ready ({})", nodes(unready), why));
  return kube::Verdict::ready();
}

Made make_health(const Cluster& cluster, std::vector<std::string> needs) {
  const spec::Spec& spec = cluster.spec;
  HealthKind::Wish wish;
  for (const spec::Node& node : spec.nodes) wish.nodes.emplace(node.name, node.host_name);
  wish.ready = spec.kubernetes.cni.kind != spec::Cni::Kind::None;
  wish.anywhere = may_be_out_of_reach(spec);
  wish.flannel = spec.kubernetes.cni.kind == spec::Cni::Kind::Flannel;
  wish.timeout = spec.timeouts.bootstrap;
  return std::make_shared<HealthKind>(
      Thing::About{health_address(cluster.name()), std::move(needs), ""}, std::move(wish));
}

}  // namespace rocca::resources
