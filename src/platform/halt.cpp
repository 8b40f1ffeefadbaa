#include "platform/halt.hpp"

#include "proxmox/types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

// The log and the uptime are whole seconds.
constexpr Duration rounding = 1s;
// A task that began or ended later than now shows that the host's clock is ahead of ours.
constexpr Duration clock_slack = 2s;
// What moves or writes disks mostly ends by itself, and leaves less behind when it may.
constexpr Duration copy_patience = 1min;
// A lock goes a moment before or after its task does.
constexpr Duration lock_grace = 10s;

bool one_of(const std::string& type, std::initializer_list<const char*> types) {
  return std::any_of(types.begin(), types.end(), [&](const char* each) { return type == each; });
}

bool ended_well(const HaltTask& task) {
  return task.ended && proxmox::Task{task.upid, false, task.result}.ok();
}

/// After it another guest runs under this id, or the same one has booted again.
bool begins_incarnation(const HaltTask& task) {
  const std::string& type = task.upid.type;
  if (one_of(type, {"qmstart", "qmstop", "qmshutdown", "qmreboot", "qmreset", "qmcreate",
                    "qmrestore", "qmdestroy", "qmrollback", "qmsuspend", "qmresume"}))
    return ended_well(task);
  return false;
}

/// It asked the guest, gave it enough time, and the guest did not go.
bool was_ignored(const HaltTask& task) {
  if (!one_of(task.upid.type, {"qmshutdown", "qmreboot"}) || !task.ended) return false;
  const auto failure = proxmox::Task{task.upid, false, task.result}.failure();
  if (!failure) return false;
  // Others (a lock that was not had, a VM that was not there) never reached the guest.
  if (failure->reason != proxmox::Reason::TimedOut &&
      failure->reason != proxmox::Reason::Interrupted)
    return false;
  // This run always gives it that time.
  if (task.ours_since && failure->reason == proxmox::Reason::TimedOut) return true;
  return *task.ended - task.upid.started + rounding >= shutdown_patience;
}

bool clocks_agree(const HaltFacts& facts) {
  return std::none_of(facts.tasks.begin(), facts.tasks.end(), [&](const HaltTask& task) {
    return std::max(task.upid.started, task.ended.value_or(task.upid.started)) >
           facts.now + clock_slack;
  });
}

/// The QEMU process that runs now ran already when the request was made. What this run asked is
/// measured on its own clock; the rest needs a host whose clock agrees with ours.
bool is_older_than(const HaltFacts& facts, const HaltTask& request) {
  if (!facts.uptime) return false;
  if (request.ours_since) return *facts.uptime + rounding >= *request.ours_since;
  return clocks_agree(facts) && facts.now - *facts.uptime <= request.upid.started;
}

bool is_ours(const HaltTask& task) {
  return task.ours_since.has_value();
}

/// HA only notes what it should do. What this run asked of it is under way for some time.
const HaltTask* request_to_ha(const HaltFacts& facts) {
  const HaltTask* latest = nullptr;
  for (const HaltTask& task : facts.tasks)
    if (task.upid.type == "hastop" && is_ours(task) &&
        (latest == nullptr || *task.ours_since < *latest->ours_since))
      latest = &task;
  return latest;
}

void count_failures(const HaltFacts& facts, Halt& halt) {
  const HaltTask* last = nullptr;
  for (const HaltTask& task : facts.tasks) {
    if (!is_ours(task) || !task.ended || ended_well(task)) continue;
    const bool asked = task.upid.type == "qmshutdown" && !was_ignored(task);
    if (!asked && !one_of(task.upid.type, {"qmstop", "qmdestroy", "hastop"})) continue;
    ++halt.failed;
    if (last == nullptr || task.upid.started >= last->upid.started) last = &task;
  }
  if (last != nullptr) halt.last_error = last->result;
}

/// A running task that switches it off or destroys it.
void follow_power_task(const HaltFacts& facts, Halt& halt) {
  for (const HaltTask& task : facts.tasks) {
    const std::string& type = task.upid.type;
    if (!task.running()) continue;
    if (!one_of(type, {"qmstop", "qmdestroy", "qmshutdown", "qmreboot", "hastop"})) continue;
    halt.task = task.upid;
    const Duration enough = shutdown_patience + 10s;
    const bool had_time = task.upid.started + enough <= facts.now || task.watched > enough;
    // A shutdown by HA cuts the power by itself.
    const bool waits = type == "qmreboot" || (type == "qmshutdown" && had_time && !facts.by_ha);
    halt.next = waits ? Halt::Next::EndTask : Halt::Next::Follow;
  }
}

void follow_holder(const HaltFacts& facts, const HaltTask& holder, Halt& halt) {
  halt.task = holder.upid;
  const bool for_many = is_job_of_many(holder.upid);
  const bool at_once = holder.upid.type == "vzdump";
  const bool had_time =
      holder.upid.started + copy_patience < facts.now || holder.watched > copy_patience;
  halt.next = !for_many && (at_once || had_time) ? Halt::Next::EndTask : Halt::Next::Follow;
}

void await_ha(const HaltFacts& facts, const HaltTask& request, Halt& halt) {
  if (*request.ours_since < ha_patience) {
    halt.task = request.upid;
    halt.next = Halt::Next::Follow;
    return;
  }
  halt.next = Halt::Next::Stop;
  halt.failed += static_cast<unsigned>(std::count_if(facts.tasks.begin(), facts.tasks.end(),
                                                     [](auto& task) {
                                                       return task.upid.type == "hastop" &&
                                                              is_ours(task) && ended_well(task);
                                                     })) -
                 1;
  if (halt.last_error.empty()) halt.last_error = "HA has not stopped it";
}

bool was_just_held(const HaltFacts& facts) {
  return std::any_of(facts.tasks.begin(), facts.tasks.end(), [&](const HaltTask& task) {
    return work_of(task.upid.type) != nullptr && task.ended && *task.ended + lock_grace > facts.now;
  });
}

}  // namespace

const char* work_of(const std::string& type) {
  if (type == "vzdump") return "a backup";
  if (type == "qmigrate") return "a migration";
  if (one_of(type, {"qmsnapshot", "qmdelsnapshot", "qmrollback"})) return "a snapshot task";
  if (type == "qmclone") return "a clone of it";
  if (one_of(type, {"qmmove", "qmtemplate", "qmsuspend"})) return "a copy of its disks";
  return nullptr;
}

bool is_job_of_many(const proxmox::Upid& upid) {
  return upid.type == "vzdump" && upid.id.empty();
}

const HaltTask* holder_of(const std::vector<HaltTask>& tasks) {
  const auto found = std::find_if(tasks.begin(), tasks.end(), [](const HaltTask& task) {
    return task.running() && work_of(task.upid.type) != nullptr;
  });
  return found == tasks.end() ? nullptr : &*found;
}

bool ignores_shutdown(const HaltFacts& facts) {
  return std::any_of(facts.tasks.begin(), facts.tasks.end(), [&](const HaltTask& request) {
    if (!was_ignored(request) || !is_older_than(facts, request)) return false;
    return std::none_of(facts.tasks.begin(), facts.tasks.end(), [&](const HaltTask& other) {
      return begins_incarnation(other) && *other.ended >= request.upid.started;
    });
  });
}

Halt decide_halt(const HaltFacts& facts) {
  Halt halt;
  // Memory saved to disk does not stand in the way of a destroy.
  if (facts.lock != "suspended") halt.lock = facts.lock;
  if (!facts.running && halt.lock.empty() && !facts.contended) return halt;
  halt.by_ha = facts.by_ha;
  if (facts.running) halt.next = Halt::Next::Shutdown;
  count_failures(facts, halt);
  follow_power_task(facts, halt);
  const HaltTask* holder = holder_of(facts.tasks);
  if (holder == nullptr && facts.job_of_many) holder = &*facts.job_of_many;
  if (holder != nullptr) {
    follow_holder(facts, *holder, halt);
  } else if (!halt.lock.empty() && !halt.task) {
    halt.next = Halt::Next::Unlock;
    halt.lock_is_dead = !was_just_held(facts);
  }
  if (halt.next != Halt::Next::Shutdown) return halt;
  const HaltTask* request = facts.by_ha ? request_to_ha(facts) : nullptr;
  if (request != nullptr)
    await_ha(facts, *request, halt);
  else if (facts.paused || (!facts.by_ha && ignores_shutdown(facts)))
    halt.next = Halt::Next::Stop;
  return halt;
}

std::string Halt::text() const {
  const std::string tries =
      failed == 0 ? ""
                  : fmt::format(", {} failed {}", failed, failed == 1 ? "attempt" : "attempts");
  switch (next) {
    case Next::Nothing:
      return "it is off" + tries;
    case Next::Shutdown:
      return "it runs" + tries;
    case Next::Follow:
      if (const char* work = work_of(task->type))
        return fmt::format("{} (task {} of {}) is under way", work, task->type, task->user);
      return fmt::format("task {} is under way", task->type);
    case Next::EndTask:
      if (const char* work = work_of(task->type))
        return fmt::format("{} (task {} of {}) holds its lock", work, task->type, task->user);
      return fmt::format("task {} of {} waits for a guest that does not react", task->type,
                         task->user);
    case Next::Stop:
      return (by_ha ? "HA has not shut it down" : "the guest does not react") + tries;
    case Next::Unlock:
      return fmt::format("it is locked ({}), and no task holds the lock", lock);
  }
  return "";
}

}  // namespace rocca::resources
