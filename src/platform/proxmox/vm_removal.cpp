#include "platform/proxmox/vm_removal.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "platform/proxmox/vm_obstacle.hpp"
#include "platform/resource_base.hpp"
#include "platform/survey.hpp"
#include "proxmox/task_cause.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

// What moves or writes disks mostly ends by itself, and leaves less behind when it may.
constexpr Duration copy_patience = 1min;
// A lock goes a moment before or after its task does.
constexpr Duration lock_grace = 10s;
constexpr unsigned most_failures = 8;
constexpr unsigned most_failures_of_ha = 2;
constexpr Duration longest_pause = 30s;

bool one_of(const std::string& type, std::initializer_list<const char*> types) {
  return std::any_of(types.begin(), types.end(), [&](const char* each) { return type == each; });
}

std::string lock_wait(proxmox::Vmid vmid) {
  return fmt::format("lock of VM {}", vmid);
}

/// Ends a task that holds the VM's lock: a reboot or shutdown whose caller was ready to wait half
/// an hour for the guest (stopping the VM cannot overrule a reboot), or a copy of its disks.
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

/// Each failed attempt makes the next one wait longer.
Duration pause_after(unsigned failed) {
  return failed == 0 ? Duration{}
                     : std::min<Duration>(2s * (1u << std::min(failed, 4u)), longest_pause);
}

HaltTask entry_of(World& world, const proxmox::TaskRow& row) {
  HaltTask entry{row.upid, std::nullopt, row.status, world.survey.asked_ago(row.upid), {}};
  if (row.running())
    entry.watched = world.survey.waiting_since(row.upid.text);
  else
    entry.ended = row.ended.value_or(row.started);
  return entry;
}

std::optional<HaltTask> job_of_many(World& world, const std::string& host) {
  proxmox::TaskFilter filter;
  filter.only_active = true;
  filter.type = "vzdump";
  for (const proxmox::TaskRow& task : world.proxmox().tasks(host, filter))
    if (is_job_of_many(task.upid)) return entry_of(world, task);
  return std::nullopt;
}

[[noreturn]] void throw_locked(World& world, const proxmox::VmRow& row, const std::string& lock) {
  const Obstacle obstacle = dead_lock(world, row, lock);
  throw Error(Fault::Conflict, obstacle.reason).hint(obstacle.hint);
}

[[noreturn]] void throw_not_stopped(const proxmox::VmRow& row, const Halt& halt) {
  throw Error(Fault::Rejected, fmt::format("{} is not stopped after {} failed attempts: {}",
                                           describe(row), halt.failed, halt.last_error))
      .hint(halt.by_ha
                ? fmt::format("HA manages it: `ha-manager status` on {} says why it does not act; "
                              "`ha-manager remove vm:{}` takes it out of HA",
                              row.node, row.vmid)
                : fmt::format("the task log of {} says more; the next run tries again", row.node));
}

/// Remembers which tasks are of this run.
Receipt started(World& world, const proxmox::Upid& upid, std::string what, Duration pause = {}) {
  world.survey.asked(upid);
  return {upid.text, std::move(what), pause};
}

/// The next step for a VM that runs or is locked.
Receipt act(World& world, const proxmox::VmRow& row, const proxmox::OwnedVm& vm, const Halt& halt) {
  proxmox::Client& client = world.proxmox();
  if (halt.failed >= (halt.by_ha ? most_failures_of_ha : most_failures))
    throw_not_stopped(row, halt);
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
      if (!halt.lock_is_dead)
        throw Error(Fault::Busy, fmt::format("{} is locked ({})", describe(row), halt.lock));
      throw_locked(world, row, halt.lock);
    case Halt::Next::Shutdown:
      // HA cuts the power itself after that time; the rest is decided here.
      return started(world, client.start_shutdown(vm, shutdown_patience, false), "shutdown",
                     pause_after(halt.failed));
    case Halt::Next::Stop:
      break;
  }
  return started(world, client.start_stop(vm, /*overrule_shutdown=*/!halt.by_ha), "stop",
                 pause_after(halt.failed));
}

/// The longer a guest takes, the more rarely it is asked after, but at once when its time is over.
Duration ask_again_after(const proxmox::Upid& upid, Duration waited) {
  if (one_of(upid.type, {"qmstop", "qmdestroy"})) return 500ms;
  const Duration interval = std::clamp<Duration>(waited / 2, 1s, 6s);
  // An agent that does not answer is asked for three seconds first.
  const Duration left = shutdown_patience + 4s - waited;
  return left > Duration{} ? std::clamp<Duration>(left, 500ms, interval) : 1s;
}

void note_off(World& world, proxmox::Vmid vmid) {
  auto row = world.survey.find(world.proxmox(), vmid);
  if (!row) return;
  row->status = "stopped";
  world.survey.note(*row);
}

/// The task of a request to HA ends at once; HA acts on it later. Whether it ever does is decided
/// when the VM is planned for again.
bool still_stopping(World& world, const proxmox::Upid& upid) {
  const auto vmid = parse_uint(upid.id);
  if (!vmid || world.survey.waiting_since(upid.text) > ha_patience) return false;
  const auto row = world.survey.find(world.proxmox(), static_cast<proxmox::Vmid>(*vmid));
  if (!row) return false;
  const auto status = world.proxmox().find_status(row->node, row->vmid);
  return status && status->status == "running";
}

}  // namespace

bool holds_lock(const std::string& task_type) {
  return work_of(task_type) != nullptr && task_type != "qmclone";
}

Halt plan_halt(World& world, const proxmox::VmRow& row) {
  proxmox::Client& client = world.proxmox();
  // The list tells enough for a plan. Before anything is asked of a VM it is looked at again.
  if (world.survey.looks() && row.lock.empty() && row.status != "unknown") {
    HaltFacts listed;
    listed.running = row.status == "running";
    return decide_halt(listed);
  }
  // What has been started since then is refused by the destroy itself.
  if (world.survey.is_switched_off(row.vmid) && row.lock.empty() &&
      !world.survey.contended(row.vmid))
    return {};
  const auto status = client.find_status(row.node, row.vmid);
  if (!status) return {};
  HaltFacts facts;
  facts.running = status->status == "running";
  facts.paused = status->qmp_status == "paused";
  facts.by_ha = status->ha_managed;
  facts.lock = status->lock;
  facts.uptime = status->uptime;
  facts.contended = world.survey.contended(row.vmid);
  facts.now = world.clock.now();
  const bool is_off = !facts.running && (facts.lock.empty() || facts.lock == "suspended");
  if (is_off && !facts.contended) return decide_halt(facts);
  for (const proxmox::TaskRow& task :
       world.survey.recent_tasks(client, row.node, row.vmid, halt_lookback))
    facts.tasks.push_back(entry_of(world, task));
  if (facts.lock == "backup" && holder_of(facts.tasks) == nullptr)
    facts.job_of_many = job_of_many(world, row.node);
  Halt halt = decide_halt(facts);
  if (halt.next != Halt::Next::Unlock)
    world.survey.wait_anew(lock_wait(row.vmid));
  else if (!world.survey.looks())
    halt.lock_is_dead = world.survey.waiting_since(lock_wait(row.vmid)) >= lock_grace;
  return halt;
}

Receipt halt_vm(World& world, const proxmox::VmRow& row, const proxmox::OwnedVm& vm) {
  const std::optional<Halt> known = world.survey.just_planned(row.vmid);
  const Halt halt = known ? *known : plan_halt(world, row);
  world.survey.acted(row.vmid);
  if (halt.next == Halt::Next::Nothing) {
    proxmox::VmRow off = row;
    off.status = "stopped";
    world.survey.note(off);
    return {};
  }
  if (halt.task && work_of(halt.task->type) != nullptr)
    throw Error(Fault::Busy, fmt::format("{}: {}", describe(row), halt.text()));
  return act(world, row, vm, halt);
}

Receipt remove_vm(World& world, const proxmox::VmRow& row, const proxmox::OwnedVm& vm,
                  const std::optional<Halt>& known) try {
  proxmox::Client& client = world.proxmox();
  const Halt halt = known ? *known : plan_halt(world, row);
  world.survey.acted(row.vmid);
  const Receipt receipt = act(world, row, vm, halt);
  if (!receipt.token.empty()) return receipt;
  world.survey.forget(row.vmid);
  try {
    // purge: out of backup jobs, replication and HA as well.
    return started(world, client.start_destroy(vm, /*purge=*/true), "destroy",
                   pause_after(halt.failed));
  } catch (const Error& error) {
    // It was known to be off, and has been started since.
    if (error.fault() != Fault::Conflict || !world.survey.is_switched_off(row.vmid)) throw;
    world.survey.unnote(row.vmid);
    const auto status = client.find_status(row.node, row.vmid);
    if (!status || status->status != "running") throw;
    proxmox::VmRow running = row;
    running.status = status->status;
    world.survey.note(running);
    return {};
  }
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
  const Duration waited = world.survey.waiting_since(upid->text);
  // Many wait at the same time: a list that another has read in this interval is as good.
  const Duration interval = ask_again_after(*upid, world.survey.asked_ago(*upid).value_or(waited));
  const auto task = world.survey.task(world.proxmox(), *upid, interval * 9 / 10);
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
                          ours_to_end && waited > patience;
    if (task && too_long) return Ready{};
    if (task && vmid && is_job_of_many(*upid)) {
      const auto status = world.proxmox().find_status(upid->node, *vmid);
      if (!status || status->lock != "backup") return Ready{};
    }
    return NotYet{waiting, std::max(world.survey.ask_again(*upid), interval)};
  }
  world.survey.task_ended(upid->node);
  const auto failure = task->failure();
  const auto number = parse_uint(upid->id);
  if (number && task->ok() && upid->type == "qmdestroy")
    world.survey.destroyed(static_cast<proxmox::Vmid>(*number));
  if (number && task->ok() && one_of(upid->type, {"qmshutdown", "qmstop"}))
    note_off(world, static_cast<proxmox::Vmid>(*number));
  if (upid->type == "hastop" && !failure && still_stopping(world, *upid))
    return NotYet{"HA to stop the VM", 2s};
  if (!failure) return Ready{};
  if (work != nullptr ||
      one_of(upid->type, {"qmshutdown", "qmreboot", "qmstop", "qmcreate", "hastop"}))
    return Ready{};
  using proxmox::Reason;
  // Gone already, or started by a task that was still on its way: what is there is looked at anew.
  if (failure->reason == Reason::DoesNotExist || failure->reason == Reason::AlreadyRunning)
    return Ready{};
  // Somebody was faster at its lock: who, is looked into, and it is tried again.
  if (failure->reason == Reason::ConfigLocked || failure->reason == Reason::Contention) {
    if (number) world.survey.contend(static_cast<proxmox::Vmid>(*number));
    return Ready{};
  }
  throw proxmox::explain_failure(world.proxmox(), *task).error(doing);
}

}  // namespace rocca::resources
