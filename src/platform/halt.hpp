#pragma once

#include "base/clock.hpp"
#include "proxmox/upid.hpp"

#include <optional>
#include <string>
#include <vector>

namespace rocca::resources {

/// The next step towards a VM that is off. The guest is asked first; power is cut only after this
/// very guest was asked and did not go.
struct Halt {
  enum class Next {
    Nothing,   ///< it is off
    Shutdown,  ///< ask the guest
    Follow,    ///< a task is already at work on it: wait for that task
    EndTask,  ///< a task holds the VM's lock: it waits for a guest that ignores it, or copies disks
    Stop,     ///< the guest was asked and ignores it, or cannot hear: cut its power
    Unlock,   ///< its configuration is locked, and no visible task will remove the lock
  };
  Next next = Next::Nothing;
  std::optional<proxmox::Upid> task;
  std::string lock;             // of its configuration: backup, migrate, snapshot…
  bool lock_is_dead = false;    // Unlock: no task held it a moment ago either
  unsigned failed = 0;          // requests of this run that failed
  std::string last_error = {};  // of the last of those
  bool by_ha = false;

  std::string text() const;  // for people, and different for every step on the way
};

/// How long a guest has to shut down before its power is cut.
constexpr Duration shutdown_patience = std::chrono::seconds{30};

/// HA reads its requests every ten seconds, then gives the guest its time, then cuts its power.
constexpr Duration ha_patience = shutdown_patience + std::chrono::seconds{60};

/// One entry of the host's task log about this VM id.
struct HaltTask {
  proxmox::Upid upid;
  std::optional<Instant> ended;  // on the host's clock, whole seconds; nothing: it still runs
  std::string result;            // OK, WARNINGS: n, or the error
  /// Started by this run, so long ago on this run's own clock.
  std::optional<Duration> ours_since = {};
  /// How long this run has already waited for it.
  Duration watched = {};

  bool running() const { return !ended; }
};

/// All that the decision depends on.
struct HaltFacts {
  bool running = false;
  bool paused = false;  // a paused guest hears nothing
  bool by_ha = false;
  std::string lock;                // of its configuration
  std::optional<Duration> uptime;  // of its QEMU process
  bool contended = false;          // a destroy of this run met a lock
  Instant now{};
  std::vector<HaltTask> tasks = {};                    // of this id, any order
  std::optional<HaltTask> job_of_many = std::nullopt;  // a backup job that names no guest
};

/// Was this very guest asked to shut down for `shutdown_patience`, and did not go? Log entries
/// belong to whatever had the id then: a request counts only if nothing was started, stopped,
/// created or reset under the id since, and if the QEMU process is older than the request. A
/// request that ended well says nothing about a VM that runs now, nor does one that never reached
/// the guest (a lock) or that gave it less time.
bool ignores_shutdown(const HaltFacts& facts);

/// Pure. The caller fills `job_of_many` only if `holder_of(tasks)` is nothing and the lock is
/// `backup`.
Halt decide_halt(const HaltFacts& facts);

/// The running task that holds the VM's lock for work on its disks or memory.
const HaltTask* holder_of(const std::vector<HaltTask>& tasks);

/// What a task does that holds a VM's lock as long as it lasts ("a backup"); nullptr for others.
const char* work_of(const std::string& task_type);

/// A host's backup job for many guests names none of them. It is not ended for one.
bool is_job_of_many(const proxmox::Upid& upid);

}  // namespace rocca::resources
