#include "engine/schedule.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <utility>

namespace rocca::engine {

Schedule::Schedule(const graph::Graph& graph, unsigned parallelism,
                   const std::map<std::string, Duration>& costs)
    : parallelism_(std::max(1u, parallelism)) {
  const std::vector<std::string> order = graph.order();
  entries_.resize(order.size());
  ids_.reserve(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) ids_.emplace(order[i], static_cast<Id>(i));
  for (std::size_t i = order.size(); i-- > 0;) {
    Entry& entry = entries_[i];
    entry.address = order[i];
    entry.missing = graph.needed_by(order[i]).size();
    std::int64_t longest = 0;
    for (const std::string& dependent : graph.dependents(order[i])) {
      const Id id = id_of(dependent);
      entry.dependents.push_back(id);
      longest = std::max(longest, entries_[id].way);
    }
    const auto cost = costs.find(order[i]);
    const Duration own = cost == costs.end() ? Duration{std::chrono::seconds{1}} : cost->second;
    entry.way = longest + own.count();
  }
  unfinished_ = entries_.size();
  for (Id id = 0; id < entries_.size(); ++id)
    if (entries_[id].missing == 0) ready(id, now_);
}

Schedule::Id Schedule::id_of(const std::string& address) const {
  const auto found = ids_.find(address);
  if (found == ids_.end()) throw Error(Fault::Bug, address + " is no step of this schedule");
  return found->second;
}

void Schedule::count_acting(const Entry& entry, int by) {
  if (entry.acting && entry.phase == Phase::Waiting)
    acting_waiting_ += static_cast<std::size_t>(by);
}

void Schedule::ready(Id id, Tick since) {
  Entry& entry = entries_[id];
  if (entry.phase != Phase::Waiting) {
    entry.phase = Phase::Waiting;
    count_acting(entry, +1);
  }
  if (closed_ && !entry.acting) {  // it is never offered again
    give_back(entry);
    give_back_kept(entry);
    return;
  }
  entry.rank = {entry.held.empty() && entry.kept.empty(), -entry.way, entry.fresh, since, id};
  entry.woken_by.reset();
  ready_.insert(entry.rank);
}

void Schedule::set_lanes(const std::string& address, std::vector<Lane> lanes) {
  const Id id = id_of(address);
  Entry& entry = entries_[id];
  entry.uses.clear();
  for (Lane& lane : lanes) {
    const auto [found, is_new] =
        lane_ids_.try_emplace(std::move(lane.name), static_cast<LaneId>(lanes_.size()));
    const LaneId named = found->second;
    const unsigned width = std::max(1u, lane.width);
    if (is_new) lanes_.push_back({width, 0, false, {}, {}, lane.one_first});
    if (!lane.turn.empty()) lanes_[named].turn = std::move(lane.turn);
    lanes_[named].width = std::min(lanes_[named].width, width);
    const auto use = std::find_if(entry.uses.begin(), entry.uses.end(),
                                  [named](const Use& other) { return other.lane == named; });
    if (use == entry.uses.end()) {
      entry.uses.push_back({named, lane.hold});
    } else {
      use->hold = std::max(use->hold, lane.hold);
    }
  }
  // It may stand in the queue of a lane that it no longer wants.
  if (!entry.queued_at) return;
  lanes_[*entry.queued_at].queue.erase(entry.rank);
  entry.queued_at.reset();
  ready(id, entry.rank.since);
}

bool Schedule::has(const Entry& entry, LaneId lane) {
  return std::find(entry.held.begin(), entry.held.end(), lane) != entry.held.end() ||
         std::find(entry.kept.begin(), entry.kept.end(), lane) != entry.kept.end();
}

std::optional<Schedule::LaneId> Schedule::full_lane(const Entry& entry) const {
  for (const Use& use : entry.uses) {
    if (!lanes_[use.lane].room() && !has(entry, use.lane)) return use.lane;
  }
  return std::nullopt;
}

void Schedule::occupy(Entry& entry) {
  for (const Use& use : entry.uses) {
    if (has(entry, use.lane)) continue;
    ++lanes_[use.lane].used;
    auto& holds = use.hold == Lane::Hold::Step  ? entry.kept
                  : use.hold == Lane::Hold::Act ? entry.held
                                                : entry.busy;
    holds.push_back(use.lane);
  }
}

void Schedule::wake_one(LaneId id) {
  LaneState& lane = lanes_[id];
  if (lane.woke || !lane.room() || lane.queue.empty()) return;
  const Rank rank = *lane.queue.begin();
  lane.queue.erase(lane.queue.begin());
  lane.woke = true;
  entries_[rank.id].queued_at.reset();
  entries_[rank.id].woken_by = id;
  ready_.insert(rank);
}

void Schedule::release(LaneId id) {
  --lanes_[id].used;
  wake_one(id);
}

std::optional<std::string> Schedule::next(Tick now) {
  now_ = std::max(now_, now);
  while (!later_.empty() && later_.begin()->first <= now_) {
    const auto [when, id] = *later_.begin();
    later_.erase(later_.begin());
    ready(id, when);
  }
  while (in_flight_ < parallelism_ && !ready_.empty()) {
    Entry& entry = entries_[ready_.begin()->id];
    ready_.erase(ready_.begin());
    const std::optional<LaneId> woken_by = entry.woken_by;
    entry.woken_by.reset();
    if (woken_by) lanes_[*woken_by].woke = false;
    const std::optional<LaneId> full = full_lane(entry);
    if (full) {
      lanes_[*full].queue.insert(entry.rank);
      entry.queued_at = full;
      const std::string& turn = lanes_[*full].turn;
      if (!turn.empty() && !woken_by) queued_.push_back({entry.address, turn});
    } else {
      occupy(entry);
    }
    if (woken_by) wake_one(*woken_by);
    if (full) continue;
    count_acting(entry, -1);
    entry.phase = Phase::InFlight;
    entry.fresh = false;
    ++in_flight_;
    return entry.address;
  }
  return std::nullopt;
}

void Schedule::leave_flight(Entry& entry) {
  if (entry.phase == Phase::Held) --held_;
  if (entry.phase != Phase::InFlight) return;
  --in_flight_;
  for (const LaneId lane : entry.busy) release(lane);
  entry.busy.clear();
}

void Schedule::again(const std::string& address, Tick when) {
  const Id id = id_of(address);
  Entry& entry = entries_[id];
  if (entry.phase != Phase::InFlight && entry.phase != Phase::Held)
    throw Error(Fault::Bug, address + " goes on without having been offered");
  leave_flight(entry);
  if (when <= now_) {
    ready(id, now_);
    return;
  }
  entry.phase = Phase::Waiting;
  count_acting(entry, +1);
  if (!closed_ || entry.acting) {
    later_.insert({when, id});
  } else {
    give_back(entry);
    give_back_kept(entry);
  }
}

void Schedule::hold(const std::string& address) {
  Entry& entry = entries_[id_of(address)];
  if (entry.phase != Phase::InFlight)
    throw Error(Fault::Bug, address + " is held without a call in flight");
  leave_flight(entry);
  entry.phase = Phase::Held;
  ++held_;
}

void Schedule::act_begun(const std::string& address) {
  Entry& entry = entries_[id_of(address)];
  count_acting(entry, -1);
  entry.acting = true;
  count_acting(entry, +1);
}

void Schedule::act_over(const std::string& address) {
  Entry& entry = entries_[id_of(address)];
  count_acting(entry, -1);
  entry.acting = false;
  give_back(entry);
}

void Schedule::act_undone(const std::string& address) {
  act_over(address);
  give_back_kept(entries_[id_of(address)]);
}

void Schedule::give_back(Entry& entry) {
  for (const LaneId lane : std::exchange(entry.held, {})) release(lane);
}

void Schedule::give_back_kept(Entry& entry) {
  for (const LaneId lane : std::exchange(entry.kept, {})) release(lane);
}

std::vector<std::string> Schedule::settle(const std::string& address, Outcome outcome,
                                          const std::function<bool(const std::string&)>& stands) {
  Entry& entry = entries_[id_of(address)];
  if (entry.phase != Phase::InFlight && entry.phase != Phase::Held)
    throw Error(Fault::Bug, address + " settles without having been offered");
  act_over(address);
  if (outcome == Outcome::Settled)
    for (const LaneId lane : entry.kept) lanes_[lane].one_first = false;
  give_back_kept(entry);
  leave_flight(entry);
  entry.phase = Phase::Over;
  --unfinished_;
  if (outcome == Outcome::Settled) {
    for (const Id id : entry.dependents) {
      Entry& dependent = entries_[id];
      if (--dependent.missing == 0 && dependent.phase == Phase::Blocked) ready(id, now_);
    }
    return {};
  }
  std::set<Id> skipped;
  std::vector<Id> open = entry.dependents;
  while (!open.empty()) {
    Entry& dependent = entries_[open.back()];
    const Id id = open.back();
    open.pop_back();
    if (dependent.phase != Phase::Blocked) continue;
    if (stands && stands(dependent.address)) {
      if (--dependent.missing == 0) ready(id, now_);
      continue;
    }
    dependent.phase = Phase::Skipped;
    --unfinished_;
    skipped.insert(id);
    open.insert(open.end(), dependent.dependents.begin(), dependent.dependents.end());
  }
  std::vector<std::string> names;
  for (const Id id : skipped) names.push_back(entries_[id].address);
  return names;
}

void Schedule::close() {
  if (closed_) return;
  closed_ = true;
  const auto keeps = [&](Id id) { return entries_[id].acting; };
  std::erase_if(later_, [&](const auto& entry) { return !keeps(entry.second); });
  for (LaneState& lane : lanes_) {
    std::erase_if(lane.queue, [&](const Rank& rank) { return !keeps(rank.id); });
    lane.woke = false;
  }
  std::erase_if(ready_, [&](const Rank& rank) { return !keeps(rank.id); });
  for (const Rank& rank : ready_) {
    const std::optional<LaneId> woken_by = entries_[rank.id].woken_by;
    if (woken_by) lanes_[*woken_by].woke = true;
  }
  for (Entry& entry : entries_)
    if (entry.phase == Phase::Waiting && !entry.acting) {
      give_back(entry);
      give_back_kept(entry);
    }
  for (LaneId lane = 0; lane < lanes_.size(); ++lane) wake_one(lane);
}

bool Schedule::done() const noexcept {
  if (!closed_) return unfinished_ == 0;
  return in_flight_ == 0 && held_ == 0 && acting_waiting_ == 0;
}

std::optional<Tick> Schedule::next_wake() const {
  if (later_.empty()) return std::nullopt;
  return later_.begin()->first;
}

}  // namespace rocca::engine
