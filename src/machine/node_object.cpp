#include "machine/node_object.hpp"

#include "kube/client.hpp"
#include "kube/node.hpp"
#include "machine/kubernetes_api.hpp"

namespace rocca::resources {

std::optional<NodeObject> find_node_object(World& world, const std::string& name) {
  std::optional<NodeObject> found;
  try_kubernetes(world, [&](kube::Client& client) {
    found.reset();
    const auto object = client.find(kube::path_of(kube::nodes, "", name));
    if (!object) return;
    NodeObject node;
    if (const text::Value* uid = object->find({"metadata", "uid"})) node.uid = uid->text();
    if (const text::Value* mark = object->find({"spec", "unschedulable"}))
      node.cordoned = mark->as_bool().value_or(false);
    found = std::move(node);
  });
  return found;
}

void cordon_node(World& world, const std::string& name) {
  try_kubernetes(world, [&](kube::Client& client) { kube::cordon(client, name); });
}

bool is_cordoned(World& world, const std::string& name) {
  bool cordoned = false;
  at_kubernetes(world, [&](kube::Client& client) {
    const auto object = client.find(kube::path_of(kube::nodes, "", name));
    const text::Value* mark = object ? object->find({"spec", "unschedulable"}) : nullptr;
    cordoned = mark != nullptr && mark->as_bool().value_or(false);
  });
  return cordoned;
}

void uncordon_node(World& world, const std::string& name) {
  at_kubernetes(world, [&](kube::Client& client) { kube::cordon(client, name, /*on=*/false); });
}

void remove_node_object(World& world, const std::string& name, const std::string& uid) {
  try_kubernetes(world, [&](kube::Client& client) { kube::remove_node(client, name, uid); });
}

}  // namespace rocca::resources
