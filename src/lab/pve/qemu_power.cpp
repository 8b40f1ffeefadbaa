// Starting, stopping and pausing VMs.

#include "base/strings.hpp"
#include "lab/pve/qemu.hpp"
#include "lab/pve/resources.hpp"

#include <fmt/format.h>

namespace rocca::lab::pve {

namespace {

bool ha_managed(const Datacenter& dc, unsigned vmid) {
  const auto found = dc.ha.find(fmt::format("vm:{}", vmid));
  return found != dc.ha.end() && found->second.state != "ignored";
}

void set_running(Datacenter& dc, Vm& vm) {
  vm.power = Vm::Power::Running;
  vm.pid = 10'000 + vm.id;
  vm.started = dc.world.now();
  vm.running = vm.config;
  dc.world.note(fmt::format("VM {} runs on {}", vm.id, vm.node));
  if (dc.on_power) dc.on_power(vm, true);
}

unsigned version_number(const std::string& text) {
  const std::size_t dot = text.find('.');
  return static_cast<unsigned>(parse_uint(text.substr(0, dot)).value_or(0)) * 1000 +
         static_cast<unsigned>(
             dot == std::string::npos
                 ? 0
                 : parse_uint(text.substr(dot + 1, text.find('.', dot + 1) - dot - 1)).value_or(0));
}

void check_machine_version(const Process& process, const Keys& config) {
  const auto machine = config.find("machine");
  if (machine == config.end()) return;
  const std::string type = parse_keys(process.dc.schema, "machine", machine->second)["type"];
  const std::size_t dash = type.rfind('-');
  if (dash == std::string::npos || !type.starts_with("pc-")) return;
  const std::string version = type.substr(dash + 1, type.find('+') - dash - 1);
  if (version_number(version) <= version_number(process.dc.release.qemu)) return;
  die(
      fmt::format("Installed QEMU version '{}' is too old to run machine type '{}{}', please "
                  "upgrade node '{}'",
                  process.dc.release.qemu, type, type.find('+') == std::string::npos ? "+pve0" : "",
                  process.node.name));
}

void check_passthrough(const Process& process, const Keys& config) {
  for (const auto& [key, value] : config) {
    if (family(key) != "hostpci[n]") continue;
    Keys pci = parse_keys(process.dc.schema, "pve-qm-hostpci", value);
    if (const std::string mapping = pci["mapping"]; !mapping.empty()) {
      if (!process.dc.pci_mappings.contains(mapping))
        die(fmt::format("PCI device mapping not found for '{}'", mapping));
    } else {
      die(fmt::format("no PCI device found for '{}'", pci["host"]));
    }
  }
}

void check_numa(const Process& process, const Vm& vm) {
  const std::string* numa = vm.find("numa");
  if (numa == nullptr || *numa != "1") return;
  std::uint64_t sum = 0;
  bool any = false;
  for (const auto& [key, value] : vm.config)
    if (family(key) == "numa[n]" && key != "numa") {
      any = true;
      sum += parse_uint(parse_keys(process.dc.schema, "numa", value)["memory"]).value_or(0);
    }
  if (any && (sum << 20) != memory_of(vm))
    die("total memory for NUMA nodes must be equal to vm static memory");
}

/// What Proxmox looks at before QEMU is run, and what QEMU itself would refuse.
void check_start(Worker& worker, const Vm& vm) {
  const Schema& schema = worker.dc.schema;
  check_machine_version(worker, vm.config);
  check_passthrough(worker, vm.config);
  const auto count = [&](const char* key) {
    const std::string* value = vm.find(key);
    return value == nullptr ? 1u : static_cast<unsigned>(parse_uint(*value).value_or(1));
  };
  if (count("sockets") * count("cores") > worker.node.cpus)
    die(fmt::format("MAX {} vcpus allowed per VM on this node", worker.node.cpus));
  check_numa(worker, vm);
  const std::string* bios = vm.find("bios");
  if (bios != nullptr && *bios == "ovmf" && vm.find("efidisk0") == nullptr)
    worker.warn("no efidisk configured! Using temporary efivars disk.");
  for (const auto& [key, value] : vm.config) {
    if (!is_drive_key(key)) continue;
    const auto drive = parse_drive(schema, key, value);
    if (drive && drive->file().find(':') != std::string::npos) activate(worker, drive->file());
  }
  for (const auto& [key, value] : vm.config) {
    if (!is_net_key(key)) continue;
    const std::string bridge = parse_keys(schema, "net", value)["bridge"];
    if (bridge.empty() || worker.node.bridges.contains(bridge) || worker.dc.vnets.contains(bridge))
      continue;
    worker.log(fmt::format("bridge '{}' does not exist", bridge));
    die("start failed: QEMU exited with code 1");
  }
}

/// Stops a VM whose lock is held: its process ends, then pending changes are applied.
Routine<void> end_process(Worker& worker, unsigned vmid) {
  Vm& vm = worker.dc.get_vm(vmid, worker.node);
  set_stopped(worker.dc, vm);
  co_await apply_pending({worker, &worker}, vmid);
}

struct StopOptions {
  bool shutdown = false;
  bool force = false;
  bool skip_lock = false;
  std::optional<std::int64_t> timeout;
};

Routine<void> stop_guest(Worker& worker, unsigned vmid, StopOptions options) {
  const Vm& vm = get_process_vm(worker, vmid);
  if (!is_running(vm)) co_return;
  if (!options.skip_lock) check_lock(vm);
  std::int64_t timeout = options.timeout.value_or(60);
  if (!options.timeout && options.shutdown)
    if (const std::string* startup = vm.find("startup"))
      for (const std::string& part : split(*startup, ','))
        if (part.starts_with("down=")) timeout = parse_int(part.substr(5)).value_or(60);
  bool obeys = true;
  if (options.shutdown) {
    const std::optional<Guest> guest = guest_of(worker.dc, vm);
    const bool asks_agent = agent_enabled(worker.dc.schema, vm.running);
    if (asks_agent && (!guest || !guest->agent)) {
      co_await worker.sleep(std::chrono::seconds{3});
      worker.log(
          fmt::format("QEMU Guest Agent is not running - VM {} qmp command 'guest-ping' "
                      "failed - got timeout",
                      vmid));
    }
    obeys = guest && (guest->acpi || (asks_agent && guest->agent));
  }
  const Duration needed = worker.dc.timing.stop;
  const Duration patience = std::chrono::seconds{timeout};
  if (obeys && needed < patience) {
    co_await worker.sleep(needed);
    co_await end_process(worker, vmid);
    co_return;
  }
  co_await worker.sleep(patience);
  if (!options.force) die("VM quit/powerdown failed - got timeout");
  worker.log("VM still running - terminating now with SIGTERM");
  co_await worker.sleep(needed);
  co_await end_process(worker, vmid);
}

Routine<void> start_worker(Worker& worker, unsigned vmid, StartOptions options) {
  const Locks::Guard lock = co_await lock_guest(worker, vmid);
  co_await start_guest(worker, vmid, options);
}

Routine<void> stop_worker(Worker& worker, unsigned vmid, StopOptions options, bool overrule) {
  if (overrule) {
    std::vector<std::string> overruled;
    for (const auto& task : worker.node.tasks())
      if (task->running() && task->upid.type == "qmshutdown" &&
          task->upid.id == std::to_string(vmid)) {
        task->interrupt.raise("received interrupt");
        overruled.push_back(task->text);
      }
    if (!overruled.empty()) worker.log("overruled qmshutdown tasks: " + join(overruled, ", "));
    co_await worker.sleep(worker.dc.timing.config);
  }
  const Locks::Guard lock = co_await lock_guest(worker, vmid);
  co_await stop_guest(worker, vmid, options);
}

Routine<void> reboot_worker(Worker& worker, unsigned vmid, StopOptions options) {
  const Locks::Guard lock = co_await lock_guest(worker, vmid);
  co_await stop_guest(worker, vmid, options);
  co_await start_guest(worker, vmid, {true, ""});
}

/// A VM under HA is not touched: its wanted state changes, and the HA manager acts on it.
std::string ha_task(Call& call, unsigned vmid, bool start) {
  return call.node.start_task(
      start ? "hastart" : "hastop", std::to_string(vmid), call.caller,
      [vmid, start](Worker& worker) -> Routine<void> {
        return [](Worker& self, unsigned id, bool up) -> Routine<void> {
          self.log(fmt::format("Requesting HA {} for VM {}", up ? "start" : "stop", id));
          const auto found = self.dc.ha.find(fmt::format("vm:{}", id));
          if (found != self.dc.ha.end() && (up || !self.dc.cluster.empty()))
            found->second.state = up ? "started" : "stopped";
          co_return;
        }(worker, vmid, start);
      });
}

Routine<text::Value> start(Call& call) {
  const unsigned id = call.vmid();
  only_root(call, {"stateuri", "skiplock", "migratedfrom", "migration_type", "migration_network",
                   "targetstorage", "force-cpu", "nets-host-mtu"});
  if (!call.dc.quorate) die("cluster not ready - no quorum?");
  if (ha_managed(call.dc, id)) co_return string(ha_task(call, id, true));
  co_return string(
      start_task_of(call, id, {call.params.flag("skiplock"), call.params.text("machine")}));
}

StopOptions stop_options(const Call& call) {
  StopOptions options;
  options.skip_lock = call.params.flag("skiplock");
  if (call.params.has("timeout")) options.timeout = call.params.integer("timeout");
  return options;
}

Routine<text::Value> stop(Call& call) {
  const unsigned id = call.vmid();
  only_root(call, {"skiplock", "keepActive", "migratedfrom"});
  if (ha_managed(call.dc, id)) co_return string(ha_task(call, id, false));
  StopOptions options = stop_options(call);
  options.force = true;
  const bool overrule = call.params.flag("overrule-shutdown");
  co_return string(call.node.start_task("qmstop", std::to_string(id), call.caller,
                                        [id, options, overrule](Worker& worker) {
                                          return stop_worker(worker, id, options, overrule);
                                        }));
}

Routine<text::Value> shutdown(Call& call) {
  const unsigned id = call.vmid();
  only_root(call, {"skiplock", "keepActive"});
  StopOptions options = stop_options(call);
  options.force = call.params.flag("forceStop");
  options.shutdown = true;
  const Vm* vm = call.dc.find_vm(id);
  if (vm != nullptr && vm->power == Vm::Power::Paused) {
    if (!options.force) die("VM is paused - cannot shutdown");
    options.shutdown = false;
  }
  if (ha_managed(call.dc, id)) co_return string(ha_task(call, id, false));
  co_return string(call.node.start_task(
      "qmshutdown", std::to_string(id), call.caller,
      [id, options](Worker& worker) { return stop_worker(worker, id, options, false); }));
}

void need_running(Call& call) {
  if (!is_running(get_process_vm(call, call.vmid())))
    die(fmt::format("VM {} not running", call.vmid()));
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

Routine<void> pause_worker(Worker& worker, unsigned id, bool skip, bool to_disk, bool resume) {
  const Locks::Guard lock = co_await lock_guest(worker, id);
  Vm& vm = worker.dc.get_vm(id, worker.node);
  if (!skip && !has_lock(vm, "backup")) check_lock(vm);
  if (!to_disk) {
    vm.power = resume ? Vm::Power::Running : Vm::Power::Paused;
    co_return;
  }
  vm.config["lock"] = "suspending";
  co_await worker.sleep(
      std::chrono::milliseconds{memory_of(vm) * 1000 / worker.dc.timing.import_rate});
  Vm& now = worker.dc.get_vm(id, worker.node);
  now.config["lock"] = "suspended";
  set_stopped(worker.dc, now);
}

Routine<text::Value> suspend(Call& call) {
  const unsigned id = call.vmid();
  only_root(call, {"skiplock"});
  need_running(call);
  const bool to_disk = call.params.flag("todisk");
  if (to_disk) {
    call.require(fmt::format("/vms/{}", id), {"VM.Config.Disk"});
    if (call.params.has("statestorage"))
      call.require("/storage/" + call.params.text("statestorage"), {"Datastore.AllocateSpace"});
    check_lock(call.dc.get_vm(id, call.node));
  }
  const bool skip = call.params.flag("skiplock");
  co_return string(call.node.start_task(to_disk ? "qmsuspend" : "qmpause", std::to_string(id),
                                        call.caller, [id, skip, to_disk](Worker& worker) {
                                          return pause_worker(worker, id, skip, to_disk, false);
                                        }));
}

Routine<text::Value> resume(Call& call) {
  const unsigned id = call.vmid();
  only_root(call, {"skiplock", "nocheck"});
  need_running(call);
  const bool skip = call.params.flag("skiplock");
  co_return string(call.node.start_task(
      "qmresume", std::to_string(id), call.caller,
      [id, skip](Worker& worker) { return pause_worker(worker, id, skip, false, true); }));
}

}  // namespace

void set_stopped(Datacenter& dc, Vm& vm) {
  vm.power = Vm::Power::Stopped;
  vm.pid.reset();
  vm.running.clear();
  dc.world.note(fmt::format("VM {} stops on {}", vm.id, vm.node));
  if (dc.on_power) dc.on_power(vm, false);
}

std::optional<Guest> guest_of(Datacenter& dc, const Vm& vm) {
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

Routine<void> start_guest(Worker& worker, unsigned vmid, StartOptions options) {
  {
    Vm& vm = worker.dc.get_vm(vmid, worker.node);
    if (is_template(vm)) die("you can't start a vm if it's a template");
    const bool suspended = has_lock(vm, "suspended");
    if (has_lock(vm, "backup") && is_running(vm)) co_return;
    if (!options.skip_lock && !suspended) check_lock(vm);
    if (is_running(vm)) die(fmt::format("VM {} already running", vmid));
    if (suspended) worker.log("Resuming suspended VM");
  }
  co_await apply_pending({worker, &worker}, vmid);
  co_await regenerate_cloudinit({worker, &worker}, vmid);
  check_start(worker, worker.dc.get_vm(vmid, worker.node));
  co_await worker.sleep(worker.dc.timing.start);
  Vm& vm = worker.dc.get_vm(vmid, worker.node);
  if (has_lock(vm, "suspended")) {
    worker.log("Resumed VM, removing state");
    vm.config.erase("lock");
    vm.config.erase("vmstate");
  }
  set_running(worker.dc, vm);
  if (!options.machine.empty()) vm.running["machine"] = options.machine;
}

std::string start_task_of(Process& process, unsigned vmid, StartOptions options) {
  return process.node.start_task(
      "qmstart", std::to_string(vmid), process.caller,
      [vmid, options](Worker& worker) { return start_worker(worker, vmid, options); });
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
