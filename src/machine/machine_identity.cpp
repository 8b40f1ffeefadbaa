#include "machine/machine_identity.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace rocca::resources {

std::optional<Uuid> shown_uuid(talos::Client& client) {
  const auto system = client.find_system_information();
  return system ? system->uuid : std::nullopt;
}

std::optional<Stranger> find_stranger(const Cluster& cluster, const std::string& node,
                                      const std::optional<Uuid>& shown, const std::string& where) {
  const std::optional<Uuid> its = cluster.find_uuid(node);
  if (shown == its) return std::nullopt;
  const spec::Node* wanted = cluster.spec.find_node(node);
  const bool existing = wanted != nullptr && wanted->existing;
  if (!shown)
    return Stranger{
        fmt::format("who answers at {} shows no hardware UUID, and {} is machine {}", where, node,
                    to_string(*its)),
        existing ? fmt::format("is the address used by another machine? To have this one in its "
                               "place, take {} out of the spec, run `rocca up`, and add it again",
                               node)
                 : "is the address used by another machine?"};
  const std::optional<std::string> who = cluster.find_node_with(*shown);
  if (!its && !who) return std::nullopt;  // met for the first time
  Stranger stranger;
  stranger.why =
      fmt::format("who answers at {} is {}, and {}", where,
                  who ? fmt::format("{} (machine {})", *who, to_string(*shown))
                      : "machine " + to_string(*shown),
                  its ? fmt::format("{} is machine {}", node, to_string(*its)) : "not " + node);
  stranger.leaves = who && cluster.spec.find_node(*who) == nullptr;
  if (!who || stranger.leaves)
    stranger.hint =
        existing ? fmt::format(
                       "is the address used by another machine? If this one is meant, say so: "
                       "nodes.{}.existing: {{ uuid: {} }}",
                       node, to_string(*shown))
                 : "is the address used by another machine?";
  else
    stranger.hint = fmt::format(
        "were the addresses of {0} and {1} mixed up in the spec? {2}", node, *who,
        existing ? "A node is its machine, wherever that is: to give it another name, take it out "
                   "of the spec, and add it again when it is in maintenance mode"
                 : fmt::format("{} can have this address once {} is elsewhere", node, *who));
  return stranger;
}

std::string find_doubt(const Cluster& cluster, const std::string& node) {
  std::vector<std::pair<const char*, Uuid>> known;
  const spec::Node* wanted = cluster.spec.find_node(node);
  if (wanted != nullptr && wanted->existing && wanted->existing->uuid)
    known.emplace_back("the spec", **wanted->existing->uuid);
  const auto locked = cluster.lock.nodes.find(node);
  if (locked != cluster.lock.nodes.end() && locked->second.uuid && !locked->second.vmid)
    known.emplace_back("rocca.lock", *locked->second.uuid);
  if (const auto met = cluster.met.find(node);
      met != cluster.met.end() && met->second != cluster.identity_of(node).uuid)
    known.emplace_back("the state", met->second);
  for (const auto& [who, uuid] : known)
    if (uuid != known.front().second)
      return fmt::format("{} is machine {} to {}, and machine {} to {}", node,
                         to_string(known.front().second), known.front().first, to_string(uuid),
                         who);
  return "";
}

}  // namespace rocca::resources
