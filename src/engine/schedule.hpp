#pragma once

#include "base/clock.hpp"
#include "engine/resource.hpp"
#include "graph/graph.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rocca::engine {

/// Which call of which step may start now. Pure: no thread, clock or socket. The same sequence of
/// questions and answers gives the same order, always.
class Schedule {
 public:
  struct Step {
    std::string address;
    std::vector<Lane> lanes;  // of its next call and act
  };
  enum class Outcome { Settled, Failed };

  /// Steps and their arrows; `parallelism` caps calls in flight over all.
  Schedule(graph::Graph graph, unsigned parallelism);

  /// The step whose next call may start now, if any: what it needs has settled, its time has come,
  /// and its lanes have room. It counts as in flight until call_ended.
  std::optional<std::string> next(Tick now);
  /// The lanes of a step's next call; given before it is first offered and whenever they change.
  void set_lanes(const std::string& address, std::vector<Lane> lanes);

  /// A call ended and the step goes on with another one, not before `when`.
  void again(const std::string& address, Tick when);
  /// From its act on a step holds its Act lanes, until it settles or says that the act is over.
  void act_over(const std::string& address);
  /// The step is over. Failed: everything that needs it is skipped, and is told here.
  std::vector<std::string> settle(const std::string& address, Outcome outcome);

  /// Starts nothing new; steps that are in flight or have an act going on settle.
  void close();
  bool closed() const noexcept { return closed_; }
  /// Nothing in flight and nothing that could ever start.
  bool done() const;
  /// When the earliest waiting step wants its next call; nothing: only an ending call helps.
  std::optional<Tick> next_wake() const;

 private:
  enum class Phase { Waiting, InFlight, Over, Skipped };
  struct Entry {
    Phase phase = Phase::Waiting;
    std::size_t missing = 0;  // needs that have not settled
    std::optional<Tick> when;
    bool begun = false;
    bool acting = false;
    std::vector<Lane> lanes;
  };

  bool room_for(const Entry& entry) const;

  graph::Graph graph_;
  unsigned parallelism_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, unsigned> used_;
  unsigned in_flight_ = 0;
  bool closed_ = false;
};

}  // namespace rocca::engine
