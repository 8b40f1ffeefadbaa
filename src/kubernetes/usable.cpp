#include "kubernetes/usable.hpp"

#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "kube/client.hpp"
#include "kube/object.hpp"
#include "kube/waits.hpp"
#include "machine/kubernetes_api.hpp"

#include <fmt/format.h>

#include <chrono>
#include <vector>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;
using kube::text_at;
using text::Value;

std::string place_of(const Value& object) {
  return fmt::format("{}/{}", text_at(object, {"metadata", "namespace"}),
                     text_at(object, {"metadata", "name"}));
}

/// A Pod that runs in the cluster's own network; those that use their node's prove no network.
std::optional<Value> find_pod(kube::Client& client) {
  for (Value& pod : client.list(kube::path_of({"", "v1", "pods"}, ""),
                                {{"fieldSelector", "status.phase=Running"}}))
    if (text_at(pod, {"spec", "hostNetwork"}) != "true" && kube::is_condition_true(pod, "Ready"))
      return std::move(pod);
  return std::nullopt;
}

/// Why its logs do not come; empty: they do.
std::string logs_trouble(kube::Client& client, const Value& pod) {
  const auto& containers = kube::items_at(pod, {"spec", "containers"});
  if (containers.empty()) return "it has no container";
  try {
    const auto log =
        client.find_log(text_at(pod, {"metadata", "namespace"}), text_at(pod, {"metadata", "name"}),
                        text_at(containers.front(), {"name"}), 1);
    return log ? "" : "there are none";
  } catch (const Error& error) {
    if (!is_external(error.fault())) throw;
    return error.message();
  }
}

/// `http://10.0.9.1:80` of every port that has an address outside of the cluster.
std::vector<std::pair<std::string, std::string>> balanced(kube::Client& client) {
  std::vector<std::pair<std::string, std::string>> all;  // URL, Service
  for (const Value& service : client.list(kube::path_of({"", "v1", "services"}, "")))
    for (const Value& ingress : kube::items_at(service, {"status", "loadBalancer", "ingress"})) {
      std::string host = text_at(ingress, {"ip"});
      if (host.empty()) host = text_at(ingress, {"hostname"});
      if (host.empty()) continue;
      if (host.find(':') != std::string::npos) host = "[" + host + "]";
      for (const Value& port : kube::items_at(service, {"spec", "ports"})) {
        const std::string protocol = text_at(port, {"protocol"});
        if (!protocol.empty() && protocol != "TCP") continue;
        const std::string number = text_at(port, {"port"});
        const std::string name = text_at(port, {"name"});
        const bool secure =
            number == "443" || number == "8443" || name == "https" || name == "websecure";
        all.emplace_back(fmt::format("{}://{}:{}/", secure ? "https" : "http", host, number),
                         place_of(service));
      }
    }
  return all;
}

/// Any answer will do: what answers is not ours to judge. Why there was none; empty: there was one.
std::string knock(World& world, const std::string& url) {
  net::Request request;
  request.url = url;
  request.timeout = 5s;
  request.tls = net::Tls::unverified();
  try {
    net::fetch(world.transport, request, world.stop);
    return "";
  } catch (const Error& error) {
    if (!is_external(error.fault())) throw;
    return error.message();
  }
}

}  // namespace

std::map<std::string, std::string> see_kubelets(World& world) {
  std::map<std::string, std::string> all;
  try {
    at_kubernetes(world, [&](kube::Client& client) {
      for (const Value& node : client.list(kube::path_of({"", "v1", "nodes"}, "")))
        all[text_at(node, {"metadata", "name"})] =
            text_at(node, {"status", "nodeInfo", "kubeletVersion"});
    });
  } catch (const Error& error) {
    // ignored: the versions are shown as unknown, and the line of the API says what is wrong.
    if (!is_external(error.fault())) throw;
  }
  return all;
}

Use see_use(World& world) {
  Use use;
  try {
    at_kubernetes(world, [&](kube::Client& client) {
      const auto pod = find_pod(client);
      if (!pod) {
        use.told = "no Pod runs in the cluster's own network";
        return;
      }
      if (const std::string why = logs_trouble(client, *pod); !why.empty()) {
        use.told = fmt::format("the logs of Pod {} do not come: {}", place_of(*pod), why);
        return;
      }
      const auto addresses = balanced(client);
      use.told = "no Service has an address of a load balancer";
      for (const auto& address : addresses) {
        const std::string why = knock(world, address.first);
        if (!why.empty()) {
          use.told = fmt::format("nobody answers at {} (Service {}): {}", address.first,
                                 address.second, why);
          continue;
        }
        use.usable = true;
        use.told = fmt::format("Pod {} runs, its logs come, {} (Service {}) answers",
                               place_of(*pod), address.first, address.second);
        return;
      }
    });
  } catch (const Error& error) {
    if (!is_external(error.fault())) throw;
    use.usable = false;
    use.told = error.message();
  }
  return use;
}

std::optional<HandedOver> see_flux(World& world) {
  std::optional<HandedOver> seen;
  const std::string space = "flux-system", name = "flux-system";
  const kube::Resource sources{"source.toolkit.fluxcd.io", "v1", "gitrepositories"};
  const kube::Resource roots{"kustomize.toolkit.fluxcd.io", "v1", "kustomizations"};
  try {
    at_kubernetes(world, [&](kube::Client& client) {
      seen.reset();
      const auto root = client.find(kube::path_of(roots, space, name));
      if (!root) return;
      const auto source = client.find(kube::path_of(sources, space, name));
      seen.emplace();
      // A source that fails is why its Kustomization stands still.
      for (const auto* object : {&source, &root})
        if (*object)
          if (const kube::Verdict verdict = kube::flux_ready(**object); !verdict.done) {
            seen->told = verdict.waiting_for;
            return;
          }
      seen->ready = true;
      seen->told = text_at(*root, {"status", "lastAppliedRevision"});
    });
  } catch (const Error& error) {
    if (!is_external(error.fault())) throw;
    if (seen) seen->told = error.message();
  }
  return seen;
}

}  // namespace rocca::resources
