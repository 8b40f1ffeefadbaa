#include "machine/kubernetes_api.hpp"

#include "base/error.hpp"
#include "base/faults.hpp"
#include "machine/quorum.hpp"
#include "net/transport.hpp"
#include "platform/survey.hpp"
#include "talosconfig/input.hpp"
#include "text/answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <stop_token>
#include <utility>

namespace rocca::resources {

kube::Access kubernetes_access(World& world, const std::string& server) {
  kube::Access access;
  access.server = server;
  access.tls = net::Tls::authority(world.cluster.bundle().kubernetes.crt);
  access.tls.identity = world.cluster.kubernetes_identity;
  return access;
}

namespace {

constexpr const char* api_door = "kubernetes";  // where it answered last in this run

/// Knows whether an answer came, so that what a server said can be told from a failure to connect:
/// both 403 and an untrusted certificate are Denied.
class Watched final : public net::Transport {
 public:
  explicit Watched(net::Transport& inner) : inner_(inner) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    net::Response response = inner_.exchange(request, sink, std::move(stop));
    answered_ = true;
    return response;
  }
  bool answered() const { return answered_; }

 private:
  net::Transport& inner_;
  bool answered_ = false;
};

enum class IfLost { Throw, AskNext };

/// Runs `body` at one server after another until one answers. Null: one did; otherwise why the last
/// one did not. What a server answered is thrown.
std::exception_ptr ask_servers(World& world, const std::function<void(kube::Client&)>& body,
                               IfLost if_lost) {
  std::exception_ptr last = std::make_exception_ptr(
      Error(Fault::Unreachable, "the address of the cluster's Kubernetes API is not known"));
  std::exception_ptr busy;
  for (const std::string& server : kubernetes_servers(world)) {
    Watched transport{world.transport};
    kube::Client client{transport, world.files, kubernetes_access(world, server), "rocca",
                        world.stop};
    try {
      body(client);
      world.survey.opened(api_door, server);
      return nullptr;
    } catch (const Error& error) {
      const bool foreign = error.fault() == Fault::Denied && !transport.answered();
      const bool again = if_lost == IfLost::AskNext;
      if (again && error.fault() == Fault::Busy) {
        busy = std::current_exception();  // an answer, though another server may give a better one
        continue;
      }
      if (error.fault() != Fault::Unreachable && !foreign &&
          !(again && error.fault() == Fault::Lost))
        throw;
      last = std::current_exception();
    }
  }
  if (busy) std::rethrow_exception(busy);
  return last;
}

}  // namespace

std::vector<std::string> kubernetes_servers(World& world) {
  std::vector<std::string> all;
  const auto planes = world.cluster.spec.control_planes();
  try {
    all.push_back(talos::endpoint_of(
        world.cluster.spec, planes.empty() ? "" : address_of(world, planes.front()->name)));
  } catch (const Error& error) {
    if (error.fault() != Fault::NotFound) throw;  // no machine has an address yet
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
  // A dead shared address costs its timeout once in a run.
  const auto known = std::find(all.begin(), all.end(), world.survey.door_of(api_door));
  if (known != all.end()) std::rotate(all.begin(), known, std::next(known));
  return all;
}

void at_kubernetes(World& world, const std::function<void(kube::Client&)>& body) {
  if (const std::exception_ptr failure = ask_servers(world, body, IfLost::Throw))
    std::rethrow_exception(failure);
}

bool try_kubernetes(World& world, const std::function<void(kube::Client&)>& body) {
  return ask_servers(world, body, IfLost::AskNext) == nullptr;
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
    if (!is_external(error.fault())) throw;
    return error.message();
  }
}

std::optional<Version> api_server_version(World& world, const std::string& host) {
  try {
    const net::Answer answer = ask_version(world, host, std::chrono::milliseconds{1500});
    if (answer.head.status != 200) return std::nullopt;
    const text::Value body = text::parse_answer(answer.body, "/version");
    const text::Value* version = body.is_map() ? body.find("gitVersion") : nullptr;
    return version == nullptr ? std::nullopt : Version::parse(version->text());
  } catch (const Error& error) {
    // ignored: a server that does not tell its version is asked again by the caller's wait.
    if (!is_external(error.fault())) throw;
    return std::nullopt;
  }
}

}  // namespace rocca::resources
