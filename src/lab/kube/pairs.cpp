#include "lab/kube/pairs.hpp"

#include <array>

namespace rocca::lab::kube {

namespace {

enum class Played { Reads, Nothing };

struct Entry {
  std::string_view group, plural;  // an empty plural: every kind of the group
  Played played;
};

/// Kinds that rocca, Flux, the External Secrets Operator and kubectl do not write to.
constexpr std::array<Entry, 18> not_played{{
    // `kubectl get all` lists these two.
    {"", "replicationcontrollers", Played::Reads},
    {"autoscaling", "horizontalpodautoscalers", Played::Reads},
    {"", "limitranges", Played::Reads},
    {"", "componentstatuses", Played::Reads},
    {"", "podtemplates", Played::Nothing},
    {"apps", "controllerrevisions", Played::Reads},
    // Controllers of Kubernetes write their events here; the clients above use the core group.
    {"events.k8s.io", "events", Played::Nothing},
    {"networking.k8s.io", "ipaddresses", Played::Nothing},
    {"networking.k8s.io", "servicecidrs", Played::Nothing},
    {"storage.k8s.io", "csinodes", Played::Reads},
    {"storage.k8s.io", "csistoragecapacities", Played::Nothing},
    {"storage.k8s.io", "volumeattachments", Played::Reads},
    {"storage.k8s.io", "volumeattributesclasses", Played::Nothing},
    {"node.k8s.io", "runtimeclasses", Played::Nothing},
    {"resource.k8s.io", "", Played::Nothing},
    {"flowcontrol.apiserver.k8s.io", "", Played::Nothing},
    {"authorization.k8s.io", "localsubjectaccessreviews", Played::Nothing},
    {"authentication.k8s.io", "tokenreviews", Played::Nothing},
}};

}  // namespace

bool is_played(const Resource& resource, std::string_view verb, std::string_view subresource) {
  if (resource.custom()) return true;
  // Streams into a container and the kubelet's own API.
  if (resource.plural == "pods" && (subresource == "attach" || subresource == "exec" ||
                                    subresource == "portforward" || subresource == "proxy"))
    return false;
  for (const Entry& entry : not_played) {
    if (entry.group != resource.group) continue;
    if (!entry.plural.empty() && entry.plural != resource.plural) continue;
    const bool reads = verb == "get" || verb == "list" || verb == "watch";
    return entry.played == Played::Reads && reads;
  }
  return true;
}

}  // namespace rocca::lab::kube
