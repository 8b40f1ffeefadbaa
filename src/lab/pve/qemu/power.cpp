// Stopping, restarting and pausing VMs.

#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"
#include "lab/pve/resources.hpp"

#include <fmt/format.h>

namespace rocca::lab::pve {

namespace {

/// Root of this host, for what its own services do without a task of their own.
Caller root() {
  return {"root@pam", "root@pam", false};
}

/// Counts seconds as Proxmox does: a process that ends in the very last one came too late.
Routine<bool> wait_for_end(Worker& worker, unsigned vmid, std::int64_t seconds) {
  std::int64_t count = 0;
  while (count < seconds && is_running(get_process_vm(worker, vmid))) {
    ++count;
    co_await worker.sleep(std::chrono::seconds{1});
  }
  co_return count < seconds;
}

struct StopOptions {
  bool shutdown = false;
  bool force = false;
  bool skip_lock = false;
  std::optional<std::int64_t> timeout;
};

/// Asks the guest, through its agent if that answers, else with the power button; false: it will
/// not listen.
Routine<bool> ask_to_end(Worker& worker, unsigned vmid) {
  const auto answers = [&] { return answering_agent(worker.dc, get_process_vm(worker, vmid)); };
  if (agent_enabled(worker.dc.schema, get_process_vm(worker, vmid).config) && !answers()) {
    co_await worker.sleep(std::chrono::seconds{3});
    worker.log(
        fmt::format("QEMU Guest Agent is not running - VM {} {} command 'guest-ping' "
                    "failed - got timeout",
                    vmid, worker.dc.release.nine() ? "qga" : "qmp"));
  }
  const Vm& vm = get_process_vm(worker, vmid);
  if (vm.power != Vm::Power::Running) co_return false;
  const std::optional<Guest> guest = guest_of(worker.dc, vm);
  co_return guest && (guest->acpi || answers());
}

Routine<void> stop_guest(Worker& worker, unsigned vmid, StopOptions options) {
  Datacenter& dc = worker.dc;
  {
    const Vm& vm = get_process_vm(worker, vmid);
    if (!is_running(vm)) co_return;
    if (!options.skip_lock) check_lock(vm);
    if (!options.timeout && options.shutdown)
      if (const std::string* startup = vm.find("startup"))
        for (const std::string& part : split(*startup, ','))
          if (part.starts_with("down=")) options.timeout = parse_int(part.substr(5));
  }
  if (!options.shutdown)
    end_guest_later(dc, vmid, dc.timing.stop);
  else if (co_await ask_to_end(worker, vmid))
    if (!dc.on_button || !dc.on_button(get_process_vm(worker, vmid)))
      end_guest_later(dc, vmid, dc.timing.guest_shutdown);
  if (!co_await wait_for_end(worker, vmid, options.timeout.value_or(60))) {
    if (!options.force) die("VM quit/powerdown failed - got timeout");
    worker.log("VM still running - terminating now with SIGTERM");
    end_guest_later(dc, vmid, dc.timing.stop);
    co_await wait_for_end(worker, vmid, 10);
  }
  co_await apply_pending({worker, &worker}, vmid);
}

/// Only what the caller may stop, and only shutdowns: a waiting reboot is not overruled.
void overrule_shutdowns(Worker& worker, unsigned vmid) {
  std::vector<std::string> overruled;
  for (const auto& task : worker.node.tasks()) {
    if (!task->running() || task->upid.type != "qmshutdown" ||
        task->upid.id != std::to_string(vmid))
      continue;
    if (task->upid.user != worker.caller.id &&
        !worker.may("/nodes/" + worker.node.name, {"Sys.Modify"}))
      continue;
    task->interrupt.raise("received interrupt");
    overruled.push_back(task->text);
  }
  if (!overruled.empty()) worker.log("overruled qmshutdown tasks: " + join(overruled, ", "));
}

Routine<void> stop_worker(Worker& worker, unsigned vmid, StopOptions options, bool overrule) {
  if (overrule) {
    overrule_shutdowns(worker, vmid);
    co_await worker.sleep(worker.dc.timing.config);
  }
  const Locks::Guard lock = co_await lock_guest(worker, vmid);
  co_await stop_guest(worker, vmid, options);
}

/// The host's own event daemon starts a VM again that went down for a reboot; no task shows it.
Routine<void> restart(Datacenter& dc, Node& node, unsigned vmid) {
  Task task;
  Worker worker{dc, node, root(), task};
  const Node::Registration registration{node, task.interrupt};
  try {
    const Locks::Guard lock = co_await lock_guest(worker, vmid);
    const StartOptions options;
    if (!is_running(dc.get_vm(vmid, node))) co_await start_guest(worker, vmid, options);
  } catch (const Failure& failure) {
    dc.world.note(fmt::format("VM {} does not come back: {}", vmid, failure.message));
  } catch (const Interrupted&) {
    // The host is gone, and the VM with it.
  }
}

Routine<void> reboot_worker(Worker& worker, unsigned vmid, StopOptions options) {
  const Locks::Guard lock = co_await lock_guest(worker, vmid);
  if (!is_running(get_process_vm(worker, vmid))) co_return;
  co_await stop_guest(worker, vmid, options);
  worker.world().spawn(restart(worker.dc, worker.node, vmid));
}

void need_running(Call& call) {
  if (!is_running(get_process_vm(call, call.vmid())))
    die(fmt::format("VM {} not running", call.vmid()));
}

std::string start_stop_task(Process& process, unsigned vmid, StopOptions options, bool overrule) {
  return process.node.start_task(options.shutdown ? "qmshutdown" : "qmstop", std::to_string(vmid),
                                 process.caller, [vmid, options, overrule](Worker& worker) {
                                   return stop_worker(worker, vmid, options, overrule);
                                 });
}

Routine<text::Value> start(Call& call) {
  only_root(call, {"stateuri", "skiplock", "migratedfrom", "migration_type", "migration_network",
                   "targetstorage", "force-cpu", "nets-host-mtu"});
  if (call.params.has("targetstorage") && !call.params.has("migratedfrom"))
    refuse_parameter("targetstorage", "targetstorage can only by used with migratedfrom.");
  if (!call.dc.quorate) die("cluster not ready - no quorum?");
  co_return string(start_task_of(call, call.vmid(),
                                 {call.params.flag("skiplock"), call.params.text("machine")}));
}

StopOptions stop_options(const Call& call) {
  StopOptions options;
  options.skip_lock = call.params.flag("skiplock");
  if (call.params.has("timeout")) options.timeout = call.params.integer("timeout");
  return options;
}

Routine<text::Value> stop(Call& call) {
  only_root(call, {"skiplock", "keepActive", "migratedfrom"});
  if (is_ha_managed(call.dc, call.vmid()))
    co_return string(start_ha_task(call, call.vmid(), HaRequest::Stop));
  StopOptions options = stop_options(call);
  options.force = true;
  co_return string(
      start_stop_task(call, call.vmid(), options, call.params.flag("overrule-shutdown")));
}

Routine<text::Value> shutdown(Call& call) {
  only_root(call, {"skiplock", "keepActive"});
  StopOptions options = stop_options(call);
  options.force = call.params.flag("forceStop");
  options.shutdown = true;
  const Vm* vm = call.dc.find_vm(call.vmid());
  if (vm != nullptr && vm->power == Vm::Power::Paused) {
    // It would hear the button only once it runs again, and go down then.
    if (!options.force) die("VM is paused - cannot shutdown");
    options.shutdown = false;
  }
  if (is_ha_managed(call.dc, call.vmid()))
    co_return string(start_ha_task(call, call.vmid(), HaRequest::Shutdown));
  const unsigned id = call.vmid();
  co_return string(call.node.start_task(
      "qmshutdown", std::to_string(id), call.caller,
      [id, options](Worker& worker) { return stop_worker(worker, id, options, false); }));
}

Routine<text::Value> reboot(Call& call) {
  const unsigned id = call.vmid();
  need_running(call);
  StopOptions options = stop_options(call);
  options.shutdown = true;
  co_return string(call.node.start_task(
      "qmreboot", std::to_string(id), call.caller,
      [id, options](Worker& worker) { return reboot_worker(worker, id, options); }));
}

Routine<void> reset_worker(Worker& worker, unsigned id, bool skip) {
  const Locks::Guard lock = co_await lock_guest(worker, id);
  Vm& vm = worker.dc.get_vm(id, worker.node);
  if (!skip) check_lock(vm);
  if (!is_running(vm)) die(fmt::format("VM {} not running", id));
  if (worker.dc.on_power) {
    worker.dc.on_power(vm, false);
    worker.dc.on_power(worker.dc.get_vm(id, worker.node), true);
  }
}

Routine<text::Value> reset(Call& call) {
  const unsigned id = call.vmid();
  only_root(call, {"skiplock"});
  need_running(call);
  const bool skip = call.params.flag("skiplock");
  co_return string(
      call.node.start_task("qmreset", std::to_string(id), call.caller,
                           [id, skip](Worker& worker) { return reset_worker(worker, id, skip); }));
}

Routine<void> pause_worker(Worker& worker, unsigned id, bool skip) {
  const Locks::Guard lock = co_await lock_guest(worker, id);
  Vm& vm = worker.dc.get_vm(id, worker.node);
  if (!skip && !has_lock(vm, "backup")) check_lock(vm);
  if (!is_running(vm)) die(fmt::format("VM {} not running", id));
  vm.power = Vm::Power::Paused;
}

/// The memory goes to a volume of its own, then the process ends; the config lock stays.
Routine<void> suspend_worker(Worker& worker, unsigned id, bool skip, std::string storage) {
  const Job job{worker, &worker};
  {
    const Locks::Guard lock = co_await lock_guest(worker, id);
    {
      Vm& vm = worker.dc.get_vm(id, worker.node);
      if (has_lock(vm, "backup")) die("cannot suspend to disk during backup");
      if (!skip) check_lock(vm);
      if (!is_running(vm)) die(fmt::format("VM {} not running", id));
    }
    const std::string volid = co_await allocate_state(job, id, "suspend", storage);
    Vm& vm = worker.dc.get_vm(id, worker.node);
    vm.config["lock"] = "suspending";
    vm.config["vmstate"] = volid;
    vm.config["runningmachine"] = running_machine(worker.dc, vm);
  }
  co_await worker.sleep(std::chrono::milliseconds{memory_of(worker.dc.get_vm(id, worker.node)) *
                                                  1000 / worker.dc.timing.import_rate});
  const Locks::Guard lock = co_await lock_guest(worker, id);
  Vm& vm = worker.dc.get_vm(id, worker.node);
  if (!has_lock(vm, "suspending")) die("lock changed unexpectedly");
  vm.config["lock"] = "suspended";
  set_stopped(worker.dc, vm);
}

Routine<text::Value> suspend(Call& call) {
  const unsigned id = call.vmid();
  only_root(call, {"skiplock"});
  need_running(call);
  const bool skip = call.params.flag("skiplock");
  if (!call.params.flag("todisk"))
    co_return string(call.node.start_task(
        "qmpause", std::to_string(id), call.caller,
        [id, skip](Worker& worker) { return pause_worker(worker, id, skip); }));
  if (is_ha_managed(call.dc, id)) die("Cannot suspend HA managed VM to disk");
  call.require(fmt::format("/vms/{}", id), {"VM.Config.Disk"});
  const std::string storage =
      call.params.text("statestorage", state_storage(call, call.dc.get_vm(id, call.node)));
  call.require("/storage/" + storage, {"Datastore.AllocateSpace"});
  co_return string(call.node.start_task(
      "qmsuspend", std::to_string(id), call.caller,
      [id, skip, storage](Worker& worker) { return suspend_worker(worker, id, skip, storage); }));
}

Routine<void> resume_worker(Worker& worker, unsigned id, bool skip, bool from_disk) {
  const Locks::Guard lock = co_await lock_guest(worker, id);
  if (from_disk) {
    // A name of its own: g++ 12 destroys such a temporary twice in an awaited call.
    const StartOptions options{skip, ""};
    co_await start_guest(worker, id, options);
    co_return;
  }
  Vm& vm = worker.dc.get_vm(id, worker.node);
  if (vm.power == Vm::Power::Running) co_return;
  if (!is_running(vm)) die(fmt::format("VM {} not running", id));
  if (!skip && !has_lock(vm, "backup")) check_lock(vm);
  vm.power = Vm::Power::Running;
}

Routine<text::Value> resume(Call& call) {
  const unsigned id = call.vmid();
  only_root(call, {"skiplock", "nocheck"});
  const bool from_disk = has_lock(get_process_vm(call, id), "suspended");
  if (!from_disk) need_running(call);
  const bool skip = call.params.flag("skiplock");
  co_return string(call.node.start_task("qmresume", std::to_string(id), call.caller,
                                        [id, skip, from_disk](Worker& worker) {
                                          return resume_worker(worker, id, skip, from_disk);
                                        }));
}

/// What the HA manager does a round later.
void act_for_ha(Datacenter& dc, unsigned vmid, HaRequest request) {
  const Vm* vm = dc.find_vm(vmid);
  Node* node = vm == nullptr ? nullptr : dc.find_node(vm->node);
  if (node == nullptr || !node->online || is_running(*vm) == (request == HaRequest::Start)) return;
  Interrupt none;
  Process process{dc, *node, root(), &none};
  if (request == HaRequest::Start) {
    node->start_task("qmstart", std::to_string(vmid), root(), [vmid](Worker& worker) {
      return [](Worker& self, unsigned id) -> Routine<void> {
        const Locks::Guard lock = co_await lock_guest(self, id);
        const StartOptions options;
        co_await start_guest(self, id, options);
      }(worker, vmid);
    });
    return;
  }
  StopOptions options;
  options.force = true;
  options.shutdown = request == HaRequest::Shutdown;
  start_stop_task(process, vmid, options, false);
}

Routine<void> ha_worker(Worker& worker, unsigned vmid, HaRequest request) {
  Datacenter& dc = worker.dc;
  const bool up = request == HaRequest::Start;
  worker.log(fmt::format("Requesting HA {} for VM {}", up ? "start" : "stop", vmid));
  const auto found = dc.ha.find(fmt::format("vm:{}", vmid));
  if (found == dc.ha.end()) co_return;
  if (dc.cluster.empty()) {
    // No manager has ever written a state, and nobody will take a stop off its queue.
    worker.log(
        "Use of uninitialized value in string eq at /usr/share/perl5/PVE/API2/HA/Resources.pm "
        "line 40.");
    if (up) found->second.state = "started";
    co_return;
  }
  found->second.state = up ? "started" : "stopped";
  dc.world.after(std::chrono::seconds{10}, [&dc, vmid, request] { act_for_ha(dc, vmid, request); });
}

}  // namespace

bool is_ha_managed(const Datacenter& dc, unsigned vmid) {
  const auto found = dc.ha.find(fmt::format("vm:{}", vmid));
  return found != dc.ha.end() && found->second.state != "ignored";
}

std::string start_ha_task(Process& process, unsigned vmid, HaRequest request) {
  return process.node.start_task(
      request == HaRequest::Start ? "hastart" : "hastop", std::to_string(vmid), process.caller,
      [vmid, request](Worker& worker) { return ha_worker(worker, vmid, request); });
}

void set_stopped(Datacenter& dc, Vm& vm) {
  vm.power = Vm::Power::Stopped;
  vm.pid.reset();
  vm.running.clear();
  vm.guest_processes.clear();
  dc.world.note(fmt::format("VM {} stops on {}", vm.id, vm.node));
  if (dc.on_power) dc.on_power(vm, false);
}

void end_guest_later(Datacenter& dc, unsigned vmid, Duration delay) {
  const Vm* now = dc.find_vm(vmid);
  if (now == nullptr || !now->pid) return;
  dc.world.after(delay, [&dc, vmid, pid = now->pid, started = now->started] {
    Vm* vm = dc.find_vm(vmid);
    if (vm != nullptr && vm->pid == pid && vm->started == started) set_stopped(dc, *vm);
  });
}

std::optional<Guest> guest_of(Datacenter& dc, const Vm& vm) {
  if (!is_running(vm)) return std::nullopt;
  if (dc.guest_of) return dc.guest_of(vm);
  const Node* node = dc.find_node(vm.node);
  for (const std::string& key : boot_disks(dc.schema, vm.running)) {
    const auto value = vm.running.find(key);
    if (value == vm.running.end()) continue;
    const auto drive = parse_drive(dc.schema, key, value->second);
    const Volume* volume = drive ? dc.find_volume(drive->file(), *node) : nullptr;
    if (volume != nullptr && !volume->image.identity.empty()) return Guest{};
  }
  return std::nullopt;
}

std::optional<Guest> answering_agent(Datacenter& dc, const Vm& vm) {
  if (vm.power != Vm::Power::Running || !agent_enabled(dc.schema, vm.running)) return std::nullopt;
  std::optional<Guest> guest = guest_of(dc, vm);
  if (guest && !guest->agent) return std::nullopt;
  return guest;
}

std::string state_storage(const Process& process, const Vm& vm) {
  if (const std::string* given = vm.find("vmstatestorage")) return *given;
  std::string local;
  for (const auto& [key, value] : vm.config) {
    if (!is_drive_key(key)) continue;
    const auto drive = parse_drive(process.dc.schema, key, value);
    const auto id = drive && !drive->is_cdrom() ? VolumeId::parse(drive->file()) : std::nullopt;
    const Storage* storage = id ? process.dc.find_storage(id->storage) : nullptr;
    if (storage == nullptr) continue;
    if (storage->shared) return storage->id;
    if (local.empty()) local = storage->id;
  }
  return local.empty() ? "local" : local;
}

Routine<std::string> allocate_state(Job job, unsigned vmid, std::string name, std::string storage) {
  Allocation what;
  {
    const Vm& vm = job.dc().get_vm(vmid, job.process.node);
    what.bytes = memory_of(vm) * 2 + (500ull << 20);  // what changes meanwhile, and the devices
    what.used = memory_of(vm);
  }
  what.storage = storage;
  what.vmid = vmid;
  what.format = "raw";
  what.name = fmt::format("vm-{}-state-{}", vmid, name);
  return allocate(job, what);
}

std::string running_machine(const Datacenter& dc, const Vm& vm) {
  const auto machine = vm.running.find("machine");
  const std::string type =
      machine == vm.running.end() ? "" : parse_keys(dc.schema, "machine", machine->second)["type"];
  const std::string& qemu = dc.release.qemu;
  const std::string version = qemu.substr(0, qemu.find('.', qemu.find('.') + 1));
  if (type.empty() || type == "pc") return "pc-i440fx-" + version;
  return type == "q35" ? "pc-q35-" + version : type;
}

std::vector<Route> qemu_power_routes() {
  return {
      {"POST /nodes/{node}/qemu/{vmid}/status/start", start},
      {"POST /nodes/{node}/qemu/{vmid}/status/stop", stop},
      {"POST /nodes/{node}/qemu/{vmid}/status/shutdown", shutdown},
      {"POST /nodes/{node}/qemu/{vmid}/status/reboot", reboot},
      {"POST /nodes/{node}/qemu/{vmid}/status/reset", reset},
      {"POST /nodes/{node}/qemu/{vmid}/status/suspend", suspend},
      {"POST /nodes/{node}/qemu/{vmid}/status/resume", resume},
  };
}

}  // namespace rocca::lab::pve
