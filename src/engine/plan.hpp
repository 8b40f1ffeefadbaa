#pragma once

#include "base/error.hpp"
#include "engine/resource.hpp"
#include "graph/graph.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rocca::engine {

using Resources = std::map<std::string, std::shared_ptr<const Resource>>;  // by address

/// What should exist, what is left over from before, and the arrows between them.
struct Desired {
  Resources wanted;
  Resources leftover;  // known by state or by their marks, and no longer wanted
};

/// Arrows of the wanted things, and of the leftovers turned round: what was made last goes first.
/// Also without a state to tell: a VM goes after the machine on it; an image after every VM, wanted
/// or left over, that may still be made from it. A leftover that has what something wanted claims
/// goes before it. Error(Bug) names a cycle in full, or a need that is not there.
graph::Graph build(const Desired& desired, const state::State& prior);

/// The world as it was seen. A read that failed is kept: plan then says that it cannot say.
struct Observed {
  std::map<std::string, std::optional<Live>> live;
  std::map<std::string, std::string> failed;  // address → why
  std::map<std::string, Error> errors;        // the same as values
  Instant at{};
};

struct Planned {
  std::string address;
  std::string place;
  std::string id{};  // what the far side calls it: "104 on atlas"; empty: it does not exist
  Change change;
  std::vector<std::string> needs;    // those that change too: what it waits for
  std::optional<Duration> estimate;  // from history
  std::string turn{};                // for people: how it is held back beside its like
};

struct Summary {
  unsigned create = 0, update = 0, replace = 0, destroy = 0, unchanged = 0, refused = 0;
};

/// A value: everything that `up` would do, with its reasons.
struct Plan {
  std::string cluster;
  std::vector<std::string> targets;  // empty: everything
  /// What has to be said before the steps: why some of them are there. Empty: nothing.
  std::string notice;
  std::vector<Planned> steps;  // in an order that respects every arrow; unchanged ones are left out
  Summary summary;
  std::map<std::string, std::string> failed;  // could not be read
  std::map<std::string, Error> errors;        // the same as values
  std::map<std::string, std::string> kept;    // left over and left alone: why
  /// What is there as it should be, or gone, and not remembered so: `execute` writes it first. Thus
  /// a lost state comes back.
  std::vector<state::Record> found;
  Effect effect = Effect::None;
  std::optional<Duration> estimate;  // along the critical path
  /// Digest of what was wanted and of what was seen: a plan file is only good for the same.
  std::string bound_to;

  bool empty() const { return steps.empty() && failed.empty(); }
};

/// What has to be done with one thing as it is. A leftover that is there is destroyed.
Change change_of(const Resource& resource, bool leftover, const std::optional<Live>& live);

struct PlanOptions {
  EffectPolicy policy;
  std::vector<std::string> targets;  // addresses; and all they need. Guards hold all the same.
};

/// Pure. A thing with a receipt of an earlier run stands in the plan even if it looks done: its act
/// may still be under way.
Plan plan(const Desired& desired, const graph::Graph& graph, const Observed& observed,
          const state::State& prior, const std::string& cluster, const PlanOptions& options);

}  // namespace rocca::engine
