#pragma once

#include "base/clock.hpp"
#include "engine/limiter.hpp"
#include "engine/resource.hpp"
#include "graph/graph.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace rocca::engine {

class Runner;
/// A run's part in the limits of its process; a free slot nudges the runner.
std::unique_ptr<Limiter::Share> share_of(Runner& runner);

/// Which call of which step may start now. Pure: no thread, clock or socket. The same sequence of
/// questions and answers gives the same order, always.
///
/// Among the steps that may start: first those that hold an Act or Step lane (their end lets others
/// in), then those with the longest way still behind them, then those that have begun (else a
/// thousand first looks would come before the first act), then who waits longest, then graph order.
class Schedule {
 public:
  enum class Outcome { Settled, Failed };

  /// Steps and their arrows; `parallelism` caps calls in flight over all. `costs` says how long a
  /// step takes, as far as that is known; what is not named counts one second. `share`: shared
  /// lanes are held over all runs of the process; without it they are this schedule's own.
  /// Error(Bug) names a cycle in full.
  Schedule(const graph::Graph& graph, unsigned parallelism,
           const std::map<std::string, Duration>& costs = {},
           std::unique_ptr<Limiter::Share> share = nullptr);

  /// The step whose next call may start now, if any: what it needs has settled, its time has come,
  /// and its lanes have room. It is in flight, and holds its Act lanes, until it is told otherwise.
  std::optional<std::string> next(Tick now);
  /// Who has come to a full Act lane since this was last asked, with the lane's word for people.
  struct Queued {
    std::string address;
    std::string turn;
  };
  std::vector<Queued> take_queued() { return std::exchange(queued_, {}); }
  /// The lanes of a step's next call; given before it is first offered and whenever they change.
  /// Act lanes that it holds already stay held. The narrowest width that anybody names counts. One
  /// lane is held the same way by all; who holds an Act lane asks for no other (else two could wait
  /// for each other).
  void set_lanes(const std::string& address, std::vector<Lane> lanes);

  /// The call ended and the step goes on with another one, not before `when`.
  void again(const std::string& address, Tick when);
  /// It waits for its next call, and need not wait any longer than until `when`. Without effect for
  /// a step that does not wait for a time.
  void sooner(const std::string& address, Tick when);
  /// The call ended, and the step waits for something that the schedule knows nothing of (its
  /// record becoming durable), until `again` or `settle`.
  void hold(const std::string& address);
  /// An act begins. Such a step is offered also after close(), until its act is over.
  void act_begun(const std::string& address);
  /// The act is over: gives the Act lanes back.
  void act_over(const std::string& address);
  /// Nothing was done, neither now nor before: gives back also what it would have kept to its end.
  void act_undone(const std::string& address);
  /// The step is over. Failed: everything that needs it is skipped, and is told here, in order.
  /// `stands`: what is as it should be although that one failed, because nothing was done there;
  /// it is offered as if that one had settled.
  std::vector<std::string> settle(const std::string& address, Outcome outcome,
                                  const std::function<bool(const std::string&)>& stands = {});

  /// Starts nothing new; steps that are in flight, held or have an act going on settle.
  void close();
  bool closed() const noexcept { return closed_; }
  /// Nothing in flight and nothing that could ever start.
  bool done() const noexcept;
  /// When the earliest waiting step wants its next call; nothing: only an ending call helps.
  std::optional<Tick> next_wake() const;
  /// A step waits for a slot that another run has: its Share is woken when there is one.
  bool waits_for_other_runs() const noexcept { return elsewhere_ > 0; }

  std::size_t in_flight() const noexcept { return in_flight_; }

 private:
  using Id = std::uint32_t;  // place in the graph's order
  using LaneId = std::uint32_t;
  enum class Phase { Blocked, Waiting, InFlight, Held, Over, Skipped };

  /// What decides who comes first; also the handle by which a step is found in a queue.
  struct Rank {
    bool empty_handed = true;  // holds no Act and no Step lane
    std::int64_t behind = 0;   // negative: the longest way first
    bool fresh = true;         // has not been offered yet
    Tick since{};
    Id id = 0;
    friend auto operator<=>(const Rank&, const Rank&) = default;
  };
  struct Use {
    LaneId lane = 0;
    Lane::Hold hold = Lane::Hold::Call;
  };
  struct Entry {
    std::string address;
    Phase phase = Phase::Blocked;
    std::size_t missing = 0;  // needs that have not settled
    std::vector<Id> dependents;
    std::int64_t way = 0;  // of itself and the longest chain behind it
    bool fresh = true;
    bool acting = false;
    std::vector<Use> uses;
    std::vector<LaneId> held;  // Act lanes
    std::vector<LaneId> kept;  // Step lanes
    std::vector<LaneId> busy;  // Call lanes of the call in flight
    /// Slots of shared lanes that it has taken while it waits for another one.
    std::vector<LaneId> ahead;
    std::optional<Tick> due;  // among those that wait for a time
    Rank rank;                // under which it stands in a queue
    std::optional<LaneId> queued_at;
    std::optional<LaneId> woken_by;
  };
  /// Who finds a lane full queues at it, so that nobody looks at all who wait. While a lane has
  /// room and a queue, exactly one of the queue is among the ready.
  struct LaneState {
    unsigned width = 1;
    unsigned used = 0;
    bool woke = false;
    std::set<Rank> queue;
    std::string turn;
    bool one_first = false;  // and none has settled well yet
    std::string shared;      // its name among all runs; empty: it is this schedule's own
    /// Other runs have all slots: this run queues for one, or one was set aside for it.
    enum class Elsewhere { No, Queued, Offered } elsewhere = Elsewhere::No;
    bool room() const { return used < (one_first ? 1u : width); }
  };

  Id id_of(const std::string& address) const;
  void ready(Id id, Tick since);
  void leave_flight(Entry& entry);
  void give_back(Entry& entry);
  void give_back_kept(Entry& entry);
  static bool has(const Entry& entry, LaneId lane);
  void wake_one(LaneId lane);
  void release(LaneId lane);
  /// Takes all lanes of the next call, or names one that has no room.
  std::optional<LaneId> occupy(Entry& entry);
  std::optional<LaneId> take_shared(Entry& entry);
  void give_back_ahead(Entry& entry);
  void leave_if_unwanted(LaneState& lane);
  void set_elsewhere(LaneState& lane, LaneState::Elsewhere now);
  void count_acting(const Entry& entry, int by);

  std::vector<Entry> entries_;
  std::unordered_map<std::string, Id> ids_;
  std::vector<LaneState> lanes_;
  std::unordered_map<std::string, LaneId> lane_ids_;
  std::set<Rank> ready_;
  std::set<std::pair<Tick, Id>> later_;
  std::vector<Queued> queued_;
  Tick now_{};
  std::unique_ptr<Limiter::Share> share_;
  std::size_t elsewhere_ = 0;  // lanes for which this run queues
  unsigned parallelism_;
  std::size_t in_flight_ = 0;
  std::size_t held_ = 0;
  std::size_t acting_waiting_ = 0;
  std::size_t unfinished_ = 0;
  bool closed_ = false;
};

}  // namespace rocca::engine
