#include "resources/vm_remove.hpp"

#include "base/error.hpp"
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

bool one_of(const std::string& type, std::initializer_list<const char*> types) {
  return std::any_of(types.begin(), types.end(), [&](const char* each) { return type == each; });
}

/// Ends a task that waits for the guest and holds the VM's lock meanwhile: a reboot or shutdown by
/// somebody who was ready to wait half an hour. Stopping the VM cannot overrule a reboot.
bool end_task(World& world, const proxmox::Upid& upid) {
  try {
    world.proxmox().stop_task(upid);
    return true;
  } catch (const Error& error) {
    // Tasks of others need Sys.Modify on the host; a stop that overrules them needs it, too.
    if (error.fault() != Fault::Denied) throw;
    world.survey.cannot_end(upid);
    return false;
  }
}

}  // namespace

std::string Halt::text() const {
  switch (next) {
    case Next::Nothing:
      return "it is off";
    case Next::Shutdown:
      return "it runs";
    case Next::Follow:
      return "task " + task->type + " is at it";
    case Next::EndTask:
      return fmt::format("task {} of {} waits for the guest in vain", task->type, task->user);
    case Next::Stop:
      return stops == 0 ? "the guest does not listen"
                        : fmt::format("the guest does not listen, stopped {} in vain",
                                      stops == 1 ? "once" : fmt::format("{} times", stops));
  }
  return "";
}

Halt plan_halt(World& world, const proxmox::VmRow& row) {
  proxmox::Client& client = world.proxmox();
  Halt halt;
  const auto status = client.find_status(row.node, row.vmid);
  if (!status || status->status != "running") return halt;
  halt.by_ha = status->ha_managed;
  proxmox::TaskFilter filter;
  filter.vmid = row.vmid;
  filter.since = world.clock.now() - lately;
  bool tried = status->qmp_status == "paused";  // a paused guest hears nothing
  halt.next = Halt::Next::Shutdown;
  for (const proxmox::TaskRow& task : client.tasks(row.node, filter)) {
    const std::string& type = task.upid.type;
    if (!task.running()) {
      tried = tried || type == "qmshutdown";
      halt.stops += type == "qmstop" && !proxmox::Task{task.upid, false, task.status}.ok();
      continue;
    }
    if (!one_of(type, {"qmstop", "qmdestroy", "qmshutdown", "qmreboot"})) continue;
    halt.task = task.upid;
    const bool fresh = task.started + shutdown_patience + 10s > world.clock.now();
    const bool waits = type == "qmreboot" || (type == "qmshutdown" && !fresh);
    halt.next = waits ? Halt::Next::EndTask : Halt::Next::Follow;
  }
  if (halt.next == Halt::Next::Shutdown && tried) halt.next = Halt::Next::Stop;
  return halt;
}

Receipt halt_vm(World& world, const proxmox::VmRow& row) {
  proxmox::Client& client = world.proxmox();
  const Halt halt = plan_halt(world, row);
  switch (halt.next) {
    case Halt::Next::Nothing: {
      proxmox::VmRow known = row;
      known.status = "stopped";
      world.survey.note(known);
      return {};
    }
    case Halt::Next::Follow:
      return {halt.task->text, "wait for " + halt.task->type};
    case Halt::Next::EndTask:
      if (end_task(world, *halt.task)) return {halt.task->text, "end " + halt.task->type};
      // While it holds the VM's lock nothing else gets through: it can only be waited for.
      return {halt.task->text, "wait for " + halt.task->type};
    case Halt::Next::Shutdown:
      if (!halt.by_ha)
        return {client.start_shutdown(row.node, row.vmid, shutdown_patience, false).text,
                "shutdown"};
      break;
    case Halt::Next::Stop:
      break;
  }
  return {client.start_stop(row.node, row.vmid, /*overrule_shutdown=*/!halt.by_ha).text, "stop"};
}

Receipt remove_vm(World& world, const proxmox::VmRow& row) try {
  proxmox::Client& client = world.proxmox();
  const Receipt halt = halt_vm(world, row);
  if (!halt.token.empty()) return halt;
  world.survey.forget(row.vmid);
  // purge: out of backup jobs, replication and HA as well.
  return {client.start_destroy(row.node, row.vmid, /*purge=*/true).text, "destroy"};
} catch (const Error& error) {
  if (error.fault() != Fault::NotFound) throw;
  // It went since it was looked at, by a task of a run that was killed, or to another host: what is
  // there is looked at anew.
  world.survey.forget(row.vmid);
  world.survey.refresh(world.proxmox());
  return {};
}

Progress probe_removal(World& world, const Receipt& receipt, const std::string& doing) {
  const auto upid = proxmox::Upid::parse(receipt.token);
  if (!upid) return Ready{};
  const auto task = world.survey.task(world.proxmox(), *upid);
  std::string waiting = fmt::format("Proxmox task {} on {}", upid->type, upid->node);
  if (!world.survey.can_end(*upid))
    waiting += fmt::format(
        ", in which {} waits for the guest: it holds the VM's lock, and this token may not end it "
        "(Sys.Modify on /nodes/{})",
        upid->user, upid->node);
  if (!task || task->running) {
    // Somebody is ready to wait longer for the guest than we are: look again, and end it.
    const bool too_long = one_of(upid->type, {"qmshutdown", "qmreboot"}) &&
                          world.survey.can_end(*upid) &&
                          world.survey.waiting_since(upid->text) > shutdown_patience + 15s;
    if (task && too_long) return Ready{};
    return NotYet{waiting, world.survey.ask_again(*upid)};
  }
  const auto failure = task->failure();
  if (!failure) return Ready{};
  if (one_of(upid->type, {"qmshutdown", "qmreboot", "qmstop", "qmcreate", "qmclone"}))
    return Ready{};
  using proxmox::Reason;
  // Gone already, or started by a task that was still on its way: what is there is looked at anew.
  if (failure->reason == Reason::DoesNotExist || failure->reason == Reason::AlreadyRunning)
    return Ready{};
  throw failure->error(doing);
}

}  // namespace rocca::resources
