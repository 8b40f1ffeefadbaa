#include "machine/node_object.hpp"

#include "base/error.hpp"
#include "kube/client.hpp"
#include "kube/node.hpp"
#include "machine/kubernetes_api.hpp"
#include "machine/quorum.hpp"
#include "platform/survey.hpp"
#include "talosconfig/input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>

namespace rocca::resources {

namespace {

std::vector<std::string> servers(World& world) {
  std::vector<std::string> all;
  const auto planes = world.cluster.spec.control_planes();
  try {
    all.push_back(talos::endpoint_of(
        world.cluster.spec, planes.empty() ? "" : address_of(world, planes.front()->name)));
  } catch (const Error&) {
    // Only the live world knows it, and it is not there.
  }
  for (const spec::Node* node : planes) {
    const std::string address = address_of(world, node->name);
    if (address.empty()) continue;
    std::string server = fmt::format(
        "https://{}:6443", address.find(':') == std::string::npos ? address : "[" + address + "]");
    if (std::find(all.begin(), all.end(), server) == all.end()) all.push_back(std::move(server));
  }
  // A dead shared address costs its timeout once in a run.
  const auto last = std::find(all.begin(), all.end(), world.survey.door_of("kubernetes"));
  if (last != all.end()) std::rotate(all.begin(), last, std::next(last));
  return all;
}

/// At the first server that lets us in. None does: then nobody can be told, and what goes away goes
/// away all the same.
void with_kubernetes(World& world, const std::function<void(kube::Client&)>& body) {
  for (const std::string& server : servers(world)) {
    kube::Access access;
    access.server = server;
    access.tls = net::Tls::authority(world.cluster.bundle().kubernetes.crt);
    access.tls.identity = world.cluster.kubernetes_identity;
    kube::Client client{world.transport, world.files, std::move(access), "rocca", world.stop};
    try {
      body(client);
      world.survey.opened("kubernetes", server);
      return;
    } catch (const Error& error) {
      if (error.fault() == Fault::Interrupted || error.fault() == Fault::Bug) throw;
    }
  }
}

}  // namespace

std::optional<NodeObject> find_node_object(World& world, const std::string& name) {
  std::optional<NodeObject> found;
  with_kubernetes(world, [&](kube::Client& client) {
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
  with_kubernetes(world, [&](kube::Client& client) { kube::cordon(client, name); });
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
  with_kubernetes(world, [&](kube::Client& client) { kube::remove_node(client, name, uid); });
}

}  // namespace rocca::resources
