#include "machine/kubernetes_api.hpp"

#include "base/error.hpp"
#include "machine/quorum.hpp"
#include "net/transport.hpp"
#include "talosconfig/input.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace rocca::resources {

std::vector<std::string> kubernetes_servers(World& world) {
  std::vector<std::string> all;
  const auto planes = world.cluster.spec.control_planes();
  try {
    all.push_back(talos::endpoint_of(
        world.cluster.spec, planes.empty() ? "" : address_of(world, planes.front()->name)));
  } catch (const Error&) {
    // Only the live world knows it, and it is not there.
  }
  // kube-vip's address may lie in a network that only the nodes are in: it is asked last.
  const auto& endpoint = world.cluster.spec.kubernetes.endpoint;
  const bool last = endpoint && endpoint->vip && endpoint->vip->by_kube_vip;
  for (const spec::Node* node : planes) {
    const std::string address = address_of(world, node->name);
    if (address.empty()) continue;
    std::string server = fmt::format(
        "https://{}:6443", address.find(':') == std::string::npos ? address : "[" + address + "]");
    if (std::find(all.begin(), all.end(), server) == all.end()) all.push_back(std::move(server));
  }
  if (last && all.size() > 1) std::rotate(all.begin(), all.begin() + 1, all.end());
  return all;
}

kube::Access kubernetes_access(World& world, const std::string& server) {
  kube::Access access;
  access.server = server;
  access.tls = net::Tls::authority(world.cluster.bundle().kubernetes.crt);
  access.tls.identity = world.cluster.kubernetes_identity;
  return access;
}

void at_kubernetes(World& world, const std::function<void(kube::Client&)>& body) {
  std::exception_ptr last = std::make_exception_ptr(
      Error(Fault::Unreachable, "nobody knows where the cluster's Kubernetes is"));
  for (const std::string& server : kubernetes_servers(world)) {
    kube::Client client{world.transport, world.files, kubernetes_access(world, server), "rocca",
                        world.stop};
    try {
      body(client);
      return;
    } catch (const Error& error) {
      if (error.fault() != Fault::Unreachable) throw;
      last = std::current_exception();
    }
  }
  std::rethrow_exception(last);
}

namespace {

net::Answer ask_version(World& world, const std::string& host, Duration knock) {
  net::Request request;
  request.url = fmt::format("https://{}:6443/version",
                            host.find(':') == std::string::npos ? host : "[" + host + "]");
  request.tls = net::Tls::authority(world.cluster.bundle().kubernetes.crt);
  request.tls.identity = world.cluster.kubernetes_identity;
  request.timeout = std::chrono::seconds{5};
  request.connect_timeout = knock;
  return net::fetch(world.transport, request, world.stop);
}

}  // namespace

std::string kubernetes_trouble(World& world, const std::string& host, Duration knock) {
  try {
    const net::Answer answer = ask_version(world, host, knock);
    if (answer.head.status < 500) return "";
    return fmt::format("status {}", answer.head.status);
  } catch (const Error& error) {
    if (error.fault() == Fault::Interrupted) throw;
    return error.message();
  }
}

std::optional<Version> api_server_version(World& world, const std::string& host) {
  try {
    const net::Answer answer = ask_version(world, host, std::chrono::milliseconds{1500});
    if (answer.head.status != 200) return std::nullopt;
    const text::Value body = text::parse_json(answer.body, "/version");
    const text::Value* version = body.is_map() ? body.find("gitVersion") : nullptr;
    return version == nullptr ? std::nullopt : Version::parse(version->text());
  } catch (const Error& error) {
    if (error.fault() == Fault::Interrupted) throw;
    return std::nullopt;
  }
}

}  // namespace rocca::resources
