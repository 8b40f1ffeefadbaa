#include "resources/vm_remove.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "resources/survey.hpp"
#include "resources/thing.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

constexpr Duration shutdown_patience = 30s;
// A shutdown that failed this lately need not be tried again.
constexpr Duration lately = 15min;
// What moves or writes disks mostly ends by itself, and leaves less behind when it may.
constexpr Duration copy_patience = 1min;
// A lock goes a moment before or after its task does.
constexpr Duration lock_grace = 10s;
constexpr unsigned most_in_vain = 8;
constexpr Duration longest_pause = 30s;

bool one_of(const std::string& type, std::initializer_list<const char*> types) {
  return std::any_of(types.begin(), types.end(), [&](const char* each) { return type == each; });
}

/// What a task does that holds a VM's lock as long as it lasts; nothing for all others.
const char* work_of(const std::string& type) {
  if (type == "vzdump") return "a backup";
  if (type == "qmigrate") return "a migration";
  if (one_of(type, {"qmsnapshot", "qmdelsnapshot", "qmrollback"})) return "a snapshot's task";
  if (type == "qmclone") return "a clone of it";
  if (one_of(type, {"qmmove", "qmtemplate", "qmsuspend"})) return "a copy of its disks";
  return nullptr;
}

/// A host's backup job for many guests names none of them. It is not ended for one.
bool is_job_of_many(const proxmox::Upid& upid) {
  return upid.type == "vzdump" && upid.id.empty();
}

std::string lock_wait(proxmox::Vmid vmid) {
  return fmt::format("lock of VM {}", vmid);
}

/// Ends a task that holds the VM's lock: a reboot or shutdown by somebody who was ready to wait
/// half an hour for the guest (stopping the VM cannot overrule a reboot), or a copy of its disks.
bool end_task(World& world, const proxmox::Upid& upid) {
  try {
    world.proxmox().stop_task(upid);
    world.survey.wait_anew(upid.text);
    return true;
  } catch (const Error& error) {
    // Tasks of others need Sys.Modify on the host; a stop that overrules them needs it, too.
    if (error.fault() != Fault::Denied) throw;
    world.survey.cannot_end(upid);
    return false;
  }
}

/// Each stop in vain makes the next one wait longer.
Duration pause_after(unsigned vain) {
  return vain == 0 ? Duration{}
                   : std::min<Duration>(2s * (1u << std::min(vain, 4u)), longest_pause);
}

std::optional<proxmox::TaskRow> job_of_many(World& world, const std::string& host) {
  proxmox::TaskFilter filter;
  filter.only_active = true;
  filter.type = "vzdump";
  for (const proxmox::TaskRow& task : world.proxmox().tasks(host, filter))
    if (is_job_of_many(task.upid)) return task;
  return std::nullopt;
}

[[noreturn]] void throw_locked(World& world, const proxmox::VmRow& row, const std::string& lock) {
  const std::string path = "/nodes/" + row.node;
  const proxmox::Permissions rights = world.proxmox().permissions(path);
  const auto ours = rights.find(path);
  const bool sees =
      ours != rights.end() && std::count(ours->second.begin(), ours->second.end(), "Sys.Audit") > 0;
  throw Error(Fault::Conflict,
              sees ? fmt::format("{} is locked ({}), and no task holds it", describe(row), lock)
                   : fmt::format("{} is locked ({}), and by which task cannot be seen: this token "
                                 "has no Sys.Audit on {}",
                                 describe(row), lock, path))
      .hint(fmt::format("{}`qm unlock {}` on {} as root (no token may), then again",
                        sees ? "" : "if no task is at it: ", row.vmid, row.node));
}

[[noreturn]] void throw_in_vain(const proxmox::VmRow& row, const Halt& halt) {
  throw Error(Fault::Rejected, fmt::format("{} does not go: {} tries in vain, the last one ended "
                                           "with: {}",
                                           describe(row), halt.vain, halt.last_words))
      .hint(fmt::format("the task log of {} says more; the next run tries again", row.node));
}

/// The next act for a VM that runs, or whose lock is to be seen to.
Receipt act(World& world, const proxmox::VmRow& row, const Halt& halt) {
  proxmox::Client& client = world.proxmox();
  if (halt.vain >= most_in_vain) throw_in_vain(row, halt);
  switch (halt.next) {
    case Halt::Next::Nothing:
      return {};
    case Halt::Next::Follow:
      return {halt.task->text, "wait for " + halt.task->type};
    case Halt::Next::EndTask:
      if (end_task(world, *halt.task)) return {halt.task->text, "end " + halt.task->type};
      // While it holds the VM's lock nothing else gets through: it can only be waited for.
      return {halt.task->text, "wait for " + halt.task->type};
    case Halt::Next::Unlock:
      if (world.survey.waiting_since(lock_wait(row.vmid)) < lock_grace)
        throw Error(Fault::Busy, fmt::format("{} is locked ({})", describe(row), halt.lock));
      throw_locked(world, row, halt.lock);
    case Halt::Next::Shutdown:
      if (!halt.by_ha)
        return {client.start_shutdown(row.node, row.vmid, shutdown_patience, false).text,
                "shutdown"};
      break;
    case Halt::Next::Stop:
      break;
  }
  return {client.start_stop(row.node, row.vmid, /*overrule_shutdown=*/!halt.by_ha).text, "stop",
          pause_after(halt.vain)};
}

}  // namespace

bool holds_lock(const std::string& task_type) {
  return work_of(task_type) != nullptr && task_type != "qmclone";
}

std::string Halt::text() const {
  const auto times = [](unsigned count) {
    return count == 1 ? std::string("once") : fmt::format("{} times", count);
  };
  switch (next) {
    case Next::Nothing:
      return vain == 0 ? "it is off" : fmt::format("it is off, destroyed {} in vain", times(vain));
    case Next::Shutdown:
      return "it runs";
    case Next::Follow:
      if (const char* work = work_of(task->type))
        return fmt::format("{} (task {} of {}) is under way", work, task->type, task->user);
      return "task " + task->type + " is at it";
    case Next::EndTask:
      if (const char* work = work_of(task->type))
        return fmt::format("{} (task {} of {}) holds its lock", work, task->type, task->user);
      return fmt::format("task {} of {} waits for the guest in vain", task->type, task->user);
    case Next::Stop:
      return vain == 0 ? "the guest does not listen"
                       : fmt::format("the guest does not listen, stopped {} in vain", times(vain));
    case Next::Unlock:
      return fmt::format("it is locked ({}), and no task holds it", lock);
  }
  return "";
}

Halt plan_halt(World& world, const proxmox::VmRow& row) {
  proxmox::Client& client = world.proxmox();
  Halt halt;
  const auto status = client.find_status(row.node, row.vmid);
  if (!status) return halt;
  const bool running = status->status == "running";
  // Memory saved to disk is no obstacle to a destroy.
  if (status->lock != "suspended") halt.lock = status->lock;
  if (!running && halt.lock.empty() && !world.survey.contended(row.vmid)) return halt;
  halt.by_ha = status->ha_managed;
  proxmox::TaskFilter filter;
  filter.vmid = row.vmid;
  filter.since = world.clock.now() - lately;
  bool tried = status->qmp_status == "paused";  // a paused guest hears nothing
  if (running) halt.next = Halt::Next::Shutdown;
  std::optional<proxmox::TaskRow> holder;
  Instant last{};
  // The log tells whole seconds.
  const Instant ours_since = std::chrono::floor<std::chrono::seconds>(world.survey.begun());
  for (const proxmox::TaskRow& task : client.tasks(row.node, filter)) {
    const std::string& type = task.upid.type;
    if (!task.running()) {
      tried = tried || type == "qmshutdown";
      if (!one_of(type, {"qmstop", "qmdestroy"}) || task.started < ours_since) continue;
      if (proxmox::Task{task.upid, false, task.status}.ok()) continue;
      ++halt.vain;
      if (halt.last_words.empty() || task.started >= last) halt.last_words = task.status;
      last = std::max(last, task.started);
      continue;
    }
    if (work_of(type) != nullptr) holder = task;
    if (!one_of(type, {"qmstop", "qmdestroy", "qmshutdown", "qmreboot"})) continue;
    halt.task = task.upid;
    const bool fresh = task.started + shutdown_patience + 10s > world.clock.now();
    const bool waits = type == "qmreboot" || (type == "qmshutdown" && !fresh);
    halt.next = waits ? Halt::Next::EndTask : Halt::Next::Follow;
  }
  if (!holder && halt.lock == "backup") holder = job_of_many(world, row.node);
  if (holder) {
    halt.task = holder->upid;
    const bool at_once = holder->upid.type == "vzdump" && !is_job_of_many(holder->upid);
    const bool long_enough = holder->started + copy_patience < world.clock.now();
    halt.next = at_once || (long_enough && !is_job_of_many(holder->upid)) ? Halt::Next::EndTask
                                                                          : Halt::Next::Follow;
  } else if (!halt.lock.empty() && !halt.task) {
    halt.next = Halt::Next::Unlock;
  }
  if (halt.next != Halt::Next::Unlock) world.survey.wait_anew(lock_wait(row.vmid));
  if (halt.next == Halt::Next::Shutdown && tried) halt.next = Halt::Next::Stop;
  return halt;
}

Receipt halt_vm(World& world, const proxmox::VmRow& row) {
  const Halt halt = plan_halt(world, row);
  if (halt.next == Halt::Next::Nothing) {
    proxmox::VmRow known = row;
    known.status = "stopped";
    world.survey.note(known);
    return {};
  }
  if (halt.task && work_of(halt.task->type) != nullptr)
    throw Error(Fault::Busy, fmt::format("{}: {}", describe(row), halt.text()));
  return act(world, row, halt);
}

Receipt remove_vm(World& world, const proxmox::VmRow& row, const std::optional<Halt>& known) try {
  proxmox::Client& client = world.proxmox();
  const Halt halt = known ? *known : plan_halt(world, row);
  world.survey.acted(row.vmid);
  const Receipt receipt = act(world, row, halt);
  if (!receipt.token.empty()) return receipt;
  world.survey.forget(row.vmid);
  // purge: out of backup jobs, replication and HA as well.
  return {client.start_destroy(row.node, row.vmid, /*purge=*/true).text, "destroy",
          pause_after(halt.vain)};
} catch (const Error& error) {
  if (error.fault() != Fault::NotFound) throw;
  // It went since it was looked at, by a task of a run that was killed, or to another host: what is
  // there is looked at anew.
  world.survey.forget(row.vmid);
  world.survey.refresh(world.proxmox());
  return {};
}

Progress probe_removal(World& world, const Receipt& receipt, const std::string& doing,
                       std::optional<proxmox::Vmid> vmid) {
  const auto upid = proxmox::Upid::parse(receipt.token);
  if (!upid) return Ready{};
  const auto task = world.survey.task(world.proxmox(), *upid);
  std::string waiting = fmt::format("Proxmox task {} on {}", upid->type, upid->node);
  const char* work = work_of(upid->type);
  if (work != nullptr) waiting += fmt::format(", {} by {}", work, upid->user);
  if (work != nullptr && is_job_of_many(*upid))
    waiting += ", which is a job for other guests, too, and holds the VM's lock";
  else if (!world.survey.can_end(*upid))
    waiting += fmt::format(
        "{}: it holds the VM's lock, and this token may not end it (Sys.Modify on /nodes/{})",
        work != nullptr ? "" : fmt::format(", in which {} waits for the guest", upid->user),
        upid->node);
  if (!task || task->running) {
    // Somebody is ready to wait longer than we are: look again, and end it.
    const bool ours_to_end = world.survey.can_end(*upid) && !is_job_of_many(*upid);
    const Duration patience = work != nullptr ? copy_patience : shutdown_patience + 15s;
    const bool too_long = (work != nullptr || one_of(upid->type, {"qmshutdown", "qmreboot"})) &&
                          ours_to_end && world.survey.waiting_since(upid->text) > patience;
    if (task && too_long) return Ready{};
    if (task && vmid && is_job_of_many(*upid)) {
      const auto status = world.proxmox().find_status(upid->node, *vmid);
      if (!status || status->lock != "backup") return Ready{};
    }
    return NotYet{waiting, world.survey.ask_again(*upid)};
  }
  const auto failure = task->failure();
  if (!failure) return Ready{};
  if (work != nullptr || one_of(upid->type, {"qmshutdown", "qmreboot", "qmstop", "qmcreate"}))
    return Ready{};
  using proxmox::Reason;
  // Gone already, or started by a task that was still on its way: what is there is looked at anew.
  if (failure->reason == Reason::DoesNotExist || failure->reason == Reason::AlreadyRunning)
    return Ready{};
  // Somebody was faster at its lock: who, is looked into, and it is tried again.
  if (failure->reason == Reason::ConfigLocked || failure->reason == Reason::Contention) {
    if (const auto number = parse_uint(upid->id))
      world.survey.contend(static_cast<proxmox::Vmid>(*number));
    return Ready{};
  }
  throw failure->error(doing);
}

}  // namespace rocca::resources
