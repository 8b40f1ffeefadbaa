#include "engine/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::engine {

namespace {

std::string name_of(const std::string& address) {
  const std::size_t slash = address.find('/');
  return slash == std::string::npos ? "" : address.substr(slash + 1);
}

bool shares(const Fields& claims, const Fields& facts) {
  return std::any_of(claims.begin(), claims.end(), [&](const auto& claim) {
    const auto found = facts.find(claim.first);
    return found != facts.end() && found->second == claim.second;
  });
}

void add_wanted(graph::Graph& graph, const Resources& wanted) {
  for (const auto& [address, resource] : wanted) {
    graph.add(address);
    for (const std::string& needed : resource->needs()) {
      if (!wanted.contains(needed))
        throw Error(Fault::Bug, fmt::format("{} needs {}, which nobody wants", address, needed));
      graph.needs(address, needed);
    }
  }
}

/// Taken away in the opposite order of making: what needs a leftover goes before it.
void add_leftovers(graph::Graph& graph, const Desired& desired, const state::State& prior) {
  for (const auto& [address, resource] : desired.leftover) {
    if (desired.wanted.contains(address))
      throw Error(Fault::Bug, address + " is wanted and left over at once");
    graph.add(address);
    std::vector<std::string> needs = resource->needs();
    const auto item = prior.items.find(address);
    if (item != prior.items.end())
      needs.insert(needs.end(), item->second.needs.begin(), item->second.needs.end());
    for (const std::string& needed : needs)
      if (desired.leftover.contains(needed)) graph.needs(needed, address);
  }
}

/// What holds whether or not a state remembers it.
void add_standing_arrows(graph::Graph& graph, const Desired& desired) {
  for (const auto& [address, resource] : desired.leftover) {
    const std::string kind = kind_of(address);
    if (kind == "vm") {
      const std::string machine = "machine/" + name_of(address);
      if (desired.leftover.contains(machine)) graph.needs(address, machine);
    }
    if (kind != "image") continue;
    for (const Resources* all : {&desired.wanted, &desired.leftover})
      for (const auto& [other, unused] : *all)
        if (kind_of(other) == "vm") graph.needs(address, other);
  }
}

/// Two things cannot have one id or address at once: the leftover makes room first.
void add_claims(graph::Graph& graph, const Desired& desired, const state::State& prior) {
  if (desired.leftover.empty()) return;
  for (const auto& [address, resource] : desired.wanted) {
    const Fields claims = resource->claims();
    if (claims.empty()) continue;
    for (const auto& [old, leftover] : desired.leftover) {
      const auto item = prior.items.find(old);
      if ((item != prior.items.end() && shares(claims, item->second.facts)) ||
          shares(claims, leftover->claims()))
        graph.needs(address, old);
    }
  }
}

}  // namespace

graph::Graph build(const Desired& desired, const state::State& prior) {
  graph::Graph graph;
  add_wanted(graph, desired.wanted);
  add_leftovers(graph, desired, prior);
  add_standing_arrows(graph, desired);
  add_claims(graph, desired, prior);
  static_cast<void>(graph.order());  // names a cycle in full
  return graph;
}

}  // namespace rocca::engine
