#include "engine/fan_out.hpp"

#include "engine/schedule.hpp"

#include <exception>
#include <map>

namespace rocca::engine {

void fan_out(Runner& runner, const graph::Graph& graph, const FanOut& how,
             const std::function<void(const std::string& name)>& body) {
  Schedule schedule{graph, how.parallelism, {}, share_of(runner)};
  std::map<std::string, std::exception_ptr> escaped;  // each is written by its own call only
  for (const std::string& name : graph.nodes()) {
    escaped[name];
    if (how.lanes) schedule.set_lanes(name, how.lanes(name));
  }
  const std::stop_callback wake{how.stop, [&] { runner.nudge(); }};
  std::exception_ptr first;
  while (!schedule.done()) {
    if (first || how.stop.stop_requested()) schedule.close();
    while (const auto name = schedule.next(runner.now())) {
      std::exception_ptr& failure = escaped.at(*name);
      runner.start(*name, [&body, &failure, name = *name] {
        try {
          body(name);
        } catch (...) {
          failure = std::current_exception();
        }
      });
    }
    if (schedule.done()) break;
    for (const std::string& name : runner.wait_until(schedule.next_wake())) {
      if (!first) first = escaped.at(name);
      const std::optional<Tick> again =
          how.again && !escaped.at(name) ? how.again(name) : std::nullopt;
      if (again) {
        schedule.again(name, *again);
      } else {
        schedule.settle(name, Schedule::Outcome::Settled);
      }
    }
  }
  if (first) std::rethrow_exception(first);
}

void fan_out(Runner& runner, const std::vector<std::string>& names, const FanOut& how,
             const std::function<void(const std::string& name)>& body) {
  graph::Graph graph;
  for (const std::string& name : names) graph.add(name);
  fan_out(runner, graph, how, body);
}

}  // namespace rocca::engine
