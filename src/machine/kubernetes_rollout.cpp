#include "machine/kubernetes_rollout.hpp"

#include "base/error.hpp"
#include "machine/kinds.hpp"
#include "machine/kubernetes_api.hpp"
#include "machine/quorum.hpp"
#include "talos/waits.hpp"
#include "talosconfig/input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rocca::resources {

namespace {

unsigned minor_of(const World& world) {
  return static_cast<unsigned>(world.cluster.spec.talos.version->minor());
}

bool is_worker(const World& world, const std::string& node) {
  const spec::Node* wanted = world.cluster.spec.find_node(node);
  return wanted == nullptr || !wanted->control_plane();
}

/// Images depend on the spec and its patches only, not on what the live node says.
KubernetesImages desired_images(const World& world, const spec::Node& node) {
  const spec::Spec& spec = world.cluster.spec;
  talos::Surroundings around = world.cluster.around;
  around.schematic = world.cluster.images.at(node.name).id;
  if (around.first_address.empty()) around.first_address = "10.255.255.255";
  talos::mark_unknown(around, spec, node);
  return talos::kubernetes_images(
      talos::render_text(talos::config_input(spec, node, around)).reveal(), minor_of(world));
}

Error not_before(const std::string& node, const std::string& what) {
  return {Fault::Busy, fmt::format("{} {}; Kubernetes is not upgraded before", node, what)};
}

std::vector<Plane> observe_planes(World& world) {
  std::vector<Plane> planes;
  for (const spec::Node* node : world.cluster.spec.control_planes()) {
    if (!world.known(machine_address(node->name))) continue;  // it is about to be created
    const std::string address = address_of(world, node->name);
    if (address.empty()) throw not_before(node->name, "has no known address");
    const talos::Sight sight = talos::look(world.transport, world.patient_access(address),
                                           world.stop, talos::Detail::Status);
    if (sight.door == talos::Door::Maintenance) continue;  // it is being created again
    if (sight.door != talos::Door::Ours) throw not_before(node->name, "does not answer");
    const auto config = world.talos(address).find_config();
    if (!config) throw not_before(node->name, "shows no configuration");
    planes.push_back({node->name, talos::kubernetes_images(config->reveal(), minor_of(world)),
                      desired_images(world, *node), api_server_version(world, address)});
  }
  // One that has left the spec still serves an API until it is gone.
  const auto ours = world.cluster.spec.control_planes();
  for (const engine::Member& member : etcd_view(world).members)
    if (std::none_of(ours.begin(), ours.end(),
                     [&](const spec::Node* node) { return node->name == member.node; }))
      throw not_before(member.node, "is still a control plane of the cluster, and not in the spec");
  return planes;
}

}  // namespace

NextConfig next_config(World& world, const std::string& node, const Secret& active,
                       const Secret& desired) {
  const KubernetesImages live = talos::kubernetes_images(active.reveal(), minor_of(world));
  const KubernetesImages wanted = talos::kubernetes_images(desired.reveal(), minor_of(world));
  if (live == wanted) return {desired, ""};
  if (const auto refusal = refuse_step(node, live, wanted))
    throw Error(Fault::Refused, refusal->why).hint(refusal->hint);
  const std::vector<Plane> planes = observe_planes(world);
  std::set<Component> held;
  std::string waits_for;
  for (const Component component : talos::components) {
    const std::string wait = wait_before(component, is_worker(world, node), live, wanted, planes);
    if (live.of(component) == wanted.of(component) || wait.empty()) continue;
    held.insert(component);
    if (waits_for.empty()) waits_for = wait;
  }
  if (held.empty()) return {desired, ""};
  return {talos::keep_images(desired, live, held, minor_of(world)), waits_for};
}

void wait_for_api_servers(World& world, const std::string& node, const Secret& desired) {
  const KubernetesImages wanted = talos::kubernetes_images(desired.reveal(), minor_of(world));
  const auto kubelet = talos::image_version(wanted.of(Component::Kubelet));
  const auto planes = world.cluster.spec.control_planes();
  const bool older = kubelet && std::any_of(planes.begin(), planes.end(), [&](const auto* plane) {
                       const auto seen = Version::parse(
                           fact(world.known(machine_address(plane->name)), api_server_seen));
                       return plane->name != node && seen && *seen < *kubelet;
                     });
  if (!older) return;
  const std::string wait =
      wait_before(Component::Kubelet, is_worker(world, node), {}, wanted, observe_planes(world));
  if (!wait.empty())
    throw Error(Fault::Busy, fmt::format("{} waits for {}: its kubelet must not be newer than an "
                                         "API server",
                                         node, wait));
}

}  // namespace rocca::resources
