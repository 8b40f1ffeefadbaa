#include "engine/schedule.hpp"

#include "base/error.hpp"
#include "engine/runner.hpp"

#include <algorithm>
#include <utility>

namespace rocca::engine {

std::unique_ptr<Limiter::Share> share_of(Runner& runner) {
  return std::make_unique<Limiter::Share>(runner.limiter(), [&runner] { runner.nudge(); });
}

Schedule::Schedule(const graph::Graph& graph, unsigned parallelism,
                   const std::map<std::string, Duration>& costs,
                   std::unique_ptr<Limiter::Share> share)
    : share_(std::move(share)), parallelism_(std::max(1u, parallelism)) {
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
    give_back_ahead(entry);
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
    if (is_new) {
      LaneState& made = lanes_.emplace_back();
      made.width = width;
      made.one_first = lane.one_first;
      if (lane.shared && share_) made.shared = found->first;
    }
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
  LaneState& left = lanes_[*entry.queued_at];
  left.queue.erase(entry.rank);
  entry.queued_at.reset();
  leave_if_unwanted(left);
  give_back_ahead(entry);
  ready(id, entry.rank.since);
}

bool Schedule::has(const Entry& entry, LaneId lane) {
  return std::find(entry.held.begin(), entry.held.end(), lane) != entry.held.end() ||
         std::find(entry.kept.begin(), entry.kept.end(), lane) != entry.kept.end();
}

std::optional<Schedule::LaneId> Schedule::occupy(Entry& entry) {
  for (const Use& use : entry.uses) {
    if (lanes_[use.lane].room() || has(entry, use.lane)) continue;
    give_back_ahead(entry);
    return use.lane;
  }
  if (const auto full = take_shared(entry)) return full;
  for (const Use& use : entry.uses) {
    if (has(entry, use.lane)) continue;
    ++lanes_[use.lane].used;
    auto& holds = use.hold == Lane::Hold::Step  ? entry.kept
                  : use.hold == Lane::Hold::Act ? entry.held
                                                : entry.busy;
    holds.push_back(use.lane);
  }
  // Those that wait for the same lane queue for the next slot.
  for (const LaneId lane : std::exchange(entry.ahead, {})) wake_one(lane);
  return std::nullopt;
}

/// Slots are taken in the order of their names, and kept while the next one is waited for. All runs
/// do so in the same order, so no two of them can wait for each other; and the names are such that
/// what is held for long (download/, import/) comes before what is held for a call (pve/).
std::optional<Schedule::LaneId> Schedule::take_shared(Entry& entry) {
  using Elsewhere = LaneState::Elsewhere;
  if (!share_) return std::nullopt;
  std::vector<LaneId> wanted;
  for (const Use& use : entry.uses)
    if (!lanes_[use.lane].shared.empty() && !has(entry, use.lane)) wanted.push_back(use.lane);
  std::sort(wanted.begin(), wanted.end(),
            [&](LaneId a, LaneId b) { return lanes_[a].shared < lanes_[b].shared; });
  for (const LaneId id : wanted) {
    if (std::find(entry.ahead.begin(), entry.ahead.end(), id) != entry.ahead.end()) continue;
    LaneState& lane = lanes_[id];
    const bool taken = share_->take(lane.shared, lane.width);
    set_elsewhere(lane, taken ? Elsewhere::No : Elsewhere::Queued);
    if (!taken) return id;
    entry.ahead.push_back(id);
  }
  return std::nullopt;
}

void Schedule::give_back_ahead(Entry& entry) {
  for (const LaneId lane : std::exchange(entry.ahead, {})) {
    share_->give_back(lanes_[lane].shared);
    wake_one(lane);
  }
}

/// Nothing of this run waits there any more: the next run may have the slot.
void Schedule::leave_if_unwanted(LaneState& lane) {
  if (lane.elsewhere == LaneState::Elsewhere::No || lane.woke || !lane.queue.empty()) return;
  set_elsewhere(lane, LaneState::Elsewhere::No);
  share_->leave(lane.shared);
}

void Schedule::set_elsewhere(LaneState& lane, LaneState::Elsewhere now) {
  const bool queued = lane.elsewhere != LaneState::Elsewhere::No;
  const bool queues = now != LaneState::Elsewhere::No;
  if (queues && !queued) ++elsewhere_;
  if (!queues && queued) --elsewhere_;
  lane.elsewhere = now;
}

void Schedule::wake_one(LaneId id) {
  LaneState& lane = lanes_[id];
  leave_if_unwanted(lane);
  if (lane.woke || !lane.room() || lane.queue.empty()) return;
  if (lane.elsewhere == LaneState::Elsewhere::Queued) return;  // until a slot is set aside for it
  const Rank rank = *lane.queue.begin();
  lane.queue.erase(lane.queue.begin());
  lane.woke = true;
  entries_[rank.id].queued_at.reset();
  entries_[rank.id].woken_by = id;
  ready_.insert(rank);
}

void Schedule::release(LaneId id) {
  --lanes_[id].used;
  if (!lanes_[id].shared.empty()) share_->give_back(lanes_[id].shared);
  wake_one(id);
}

std::optional<std::string> Schedule::next(Tick now) {
  now_ = std::max(now_, now);
  while (!later_.empty() && later_.begin()->first <= now_) {
    const auto [when, id] = *later_.begin();
    later_.erase(later_.begin());
    entries_[id].due.reset();
    ready(id, when);
  }
  if (elsewhere_ > 0)
    for (const std::string& name : share_->take_offers()) {
      const LaneId id = lane_ids_.at(name);
      if (lanes_[id].elsewhere != LaneState::Elsewhere::Queued) continue;  // it has been used
      set_elsewhere(lanes_[id], LaneState::Elsewhere::Offered);
      wake_one(id);
    }
  while (in_flight_ < parallelism_ && !ready_.empty()) {
    Entry& entry = entries_[ready_.begin()->id];
    ready_.erase(ready_.begin());
    const std::optional<LaneId> woken_by = entry.woken_by;
    entry.woken_by.reset();
    if (woken_by) lanes_[*woken_by].woke = false;
    const std::optional<LaneId> full = occupy(entry);
    if (full) {
      lanes_[*full].queue.insert(entry.rank);
      entry.queued_at = full;
      const std::string& turn = lanes_[*full].turn;
      if (!turn.empty() && !woken_by) queued_.push_back({entry.address, turn});
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
    entry.due = when;
    later_.insert({when, id});
  } else {
    give_back(entry);
    give_back_kept(entry);
  }
}

void Schedule::sooner(const std::string& address, Tick when) {
  const Id id = id_of(address);
  Entry& entry = entries_[id];
  if (!entry.due || *entry.due <= when) return;
  later_.erase({*entry.due, id});
  entry.due = when;
  later_.insert({when, id});
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
  for (Entry& entry : entries_)
    if (!entry.acting) entry.due.reset();
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
      entry.queued_at.reset();
      give_back_ahead(entry);
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
