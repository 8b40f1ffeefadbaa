#pragma once

#include "engine/resource.hpp"
#include "engine/runner.hpp"
#include "graph/graph.hpp"

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace rocca::engine {

struct FanOut {
  unsigned parallelism = 16;
  /// Once it is stopped nothing more begins. Without a token every body is called.
  std::stop_token stop{};
  /// What the call for this name takes part in.
  std::function<std::vector<Lane>(const std::string& name)> lanes{};
  /// Asked, on the caller's thread, after each call: when to call the same once more. Nothing: it
  /// is done.
  std::function<std::optional<Tick>(const std::string& name)> again{};
};

/// Calls `body` for every name, many at once, and returns when all have ended. What a body throws
/// is thrown again then; nothing more begins meanwhile.
void fan_out(Runner& runner, const std::vector<std::string>& names, const FanOut& how,
             const std::function<void(const std::string& name)>& body);
/// The same, each after what it needs.
void fan_out(Runner& runner, const graph::Graph& graph, const FanOut& how,
             const std::function<void(const std::string& name)>& body);

}  // namespace rocca::engine
