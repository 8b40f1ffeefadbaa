// Add-ons that others wait for: the approver of kubelets' certificates, and MetalLB.
#include "base/address.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/flux/charts.hpp"
#include "lab/flux/flux.hpp"
#include "lab/kube/conditions.hpp"
#include "lab/kube/json.hpp"
#include "lab/sim/network.hpp"
#include "lab/sim/pki.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <set>

namespace rocca::lab::flux {

using kube::set_at;
using kube::str;
using kube::text_at;
using text::Value;

namespace {

constexpr const char* requests = "certificates.k8s.io/certificatesigningrequests";
constexpr const char* pools = "metallb.io/ipaddresspools";

/// Every address of a pool's entry, 10.0.9.0/28 or 10.0.9.1-10.0.9.20; at most 256 of them.
std::vector<std::string> addresses_of(const std::string& entry) {
  std::vector<std::string> out;
  std::optional<IpAddress> first, last;
  if (const auto cidr = Cidr::parse(entry)) {
    first = cidr->network();
    last = cidr->last();
  } else if (const auto range = AddressRange::parse(entry)) {
    first = range->first();
    last = range->last();
  }
  for (; first && out.size() < 256 && !(*last < *first); first = first->plus(1))
    out.push_back(to_string(*first));
  return out;
}

}  // namespace

void Flux::approve_requests() {
  if (!runs("kubelet-serving-cert-approver")) return;
  std::vector<Key> waiting;
  for (const auto& [key, request] : api_.storage().all(requests))
    if (text_at(*request, {"spec", "signerName"}) == "kubernetes.io/kubelet-serving" &&
        kube::condition_status(*request, "Approved").empty() &&
        kube::condition_status(*request, "Denied").empty())
      waiting.push_back(key);
  for (const Key& key : waiting)
    api_.send({"system:kubelet-serving-cert-approver", {"system:masters"}}, "PATCH",
              fmt::format("/apis/certificates.k8s.io/v1/certificatesigningrequests/{}/approval",
                          key.name),
              R"({"status":{"conditions":[{"type":"Approved","status":"True","reason":
                "AutoApproved by kubelet-serving-cert-approver","message":"approved"}]}})",
              "application/merge-patch+json");
}

/// What the program of a finished Job left behind.
void Flux::install(const Value& job) {
  const auto wanted = installation_of(job);
  if (!wanted) return;
  Value values;
  const kube::Object map =
      find("/configmaps", {text_at(job, {"metadata", "namespace"}), wanted->config_map});
  try {
    if (map && !wanted->values.empty())
      values = text::parse_yaml(text_at(*map, {"data", wanted->values}), wanted->values);
  } catch (const Error& error) {
    return world_.note("helm: " + error.message());
  }
  const auto objects = chart_objects(wanted->chart, wanted->release, wanted->space, &values);
  if (!objects) return world_.note("the lab does not know the chart " + wanted->chart);
  for (const Value& object : *objects) api_.apply(object, "Helm");
}

/// Gives Services of type LoadBalancer the addresses of MetalLB's pools, and somebody who answers
/// there.
void Flux::balance() {
  if (!runs("metallb")) return;
  std::set<std::string> taken;
  std::vector<Key> waiting;
  for (const auto& [key, service] : api_.storage().all("/services")) {
    if (text_at(*service, {"spec", "type"}) != "LoadBalancer") continue;
    const std::string has = text_at(*service, {"status", "loadBalancer", "ingress", "0", "ip"});
    if (has.empty())
      waiting.push_back(key);
    else
      taken.insert(has);
  }
  for (const Key& key : waiting) {
    std::string chosen;
    for (const auto& [pool_key, pool] : api_.storage().all(pools))
      if (const Value* list = pool->find({"spec", "addresses"}); list != nullptr && list->is_list())
        for (const Value& entry : list->items())
          for (const std::string& address : addresses_of(entry.text()))
            if (chosen.empty() && !taken.contains(address)) chosen = address;
    if (chosen.empty()) return;
    taken.insert(chosen);
    set_status("/services", key, "controller", [&](Value& live) {
      set_at(live, {"status", "loadBalancer", "ingress"},
             kube::json(fmt::format(R"([{{"ip":"{}","ipMode":"VIP"}}])", chosen)));
    });
    const kube::Object service = find("/services", key);
    if (!service) continue;
    if (world_.network().holder(chosen)) continue;  // somebody else has it: a conflict on the wire
    world_.network().add_address(chosen);
    for (const Value& port : service->find({"spec", "ports"})->items()) {
      const auto number = static_cast<unsigned>(kube::int_at(port, {"port"}));
      Service door{fmt::format("service/{}/{}", key.space, key.name), std::nullopt,
                   [this, alive = std::weak_ptr<const bool>(alive_), key](
                       const net::Incoming&, const std::shared_ptr<net::Responder>& to) {
                     if (!alive.lock() || !has_endpoint(key)) return to->cut();
                     to->answer(200, "", {{"Content-Type", "text/plain"}}, key.name + "\n");
                   }};
      // With a certificate that nobody knows, as an ingress has before it gets a better one.
      if (number == 443)
        door.mint = [&world = world_] {
          Authority::Subject subject;
          subject.common_name = "DEFAULT CERT";
          net::ServerTls tls;
          tls.identity = Authority{world.fork("ingress"), "Lab Ingress", world.now()}.issue(
              subject, world.now());
          return tls;
        };
      world_.network().open(chosen, number, std::move(door));
    }
    balanced_.push_back(chosen);
  }
}

bool Flux::has_endpoint(const Key& service) const {
  for (const auto& [key, slice] : api_.storage().all("discovery.k8s.io/endpointslices")) {
    if (key.space != service.space ||
        text_at(*slice, {"metadata", "labels", "kubernetes.io/service-name"}) != service.name)
      continue;
    const Value* endpoints = slice->find("endpoints");
    if (endpoints == nullptr || !endpoints->is_list()) continue;
    for (const Value& one : endpoints->items())
      if (kube::bool_at(one, {"conditions", "ready"})) return true;
  }
  return false;
}

}  // namespace rocca::lab::flux
