#include "kubernetes/expand.hpp"

#include "kubernetes/addons.hpp"
#include "kubernetes/handover.hpp"
#include "kubernetes/health.hpp"
#include "kubernetes/node_prerequisites.hpp"
#include "kubernetes/object_set_resource.hpp"
#include "kubernetes/publish.hpp"
#include "machine/kinds.hpp"

namespace rocca::resources {

namespace {

/// The cluster works when its nodes have joined and its network is there.
Made make_last_wait(const Cluster& cluster, const engine::Desired& desired) {
  std::vector<std::string> needs{bootstrap_address(cluster.name())};
  const auto add = [&](const std::string& address) {
    if (desired.wanted.contains(address)) needs.push_back(address);
  };
  for (const spec::Node& node : cluster.spec.nodes) add(member_address(node.name));
  add(vip_address(cluster.name()));
  add(addon_address("kube-vip"));
  add(addon_address("cni"));
  return make_health(cluster, std::move(needs));
}

}  // namespace

void add_kubernetes_things(const Cluster& cluster, const OutsidePtr& outside,
                           const state::State& prior, engine::Desired& desired) {
  const auto add = [&](const Made& made) {
    desired.leftover.erase(made->address());
    desired.wanted.emplace(made->address(), made);
  };
  make_prepared(cluster, add);
  make_addons(cluster, outside, add);
  make_handover(cluster, outside, add);
  make_publications(cluster, outside, add);
  if (!cluster.spec.control_planes().empty()) add(make_last_wait(cluster, desired));
  for (const auto& [address, item] : prior.items) {
    if (desired.wanted.contains(address)) continue;
    const Leftover leftover{address, item.needs, item.facts};
    const std::string kind = engine::kind_of(address);
    if (kind == "addon") desired.leftover[address] = leftover_set(cluster, leftover);
    if (kind == "publish")
      if (Made made = leftover_publication(outside, leftover))
        desired.leftover[address] = std::move(made);
    // What was handed over is Flux's: to remove its root would be to remove all that it brought.
  }
}

void add_withdrawals(const OutsidePtr& outside, const state::State& prior,
                     engine::Desired& desired) {
  for (const auto& [address, item] : prior.items) {
    if (engine::kind_of(address) != "publish") continue;
    Leftover leftover{address, {}, item.facts};
    leftover.facts["whole cluster"] = "yes";
    if (Made made = leftover_publication(outside, leftover))
      desired.leftover[address] = std::move(made);
  }
}

}  // namespace rocca::resources
