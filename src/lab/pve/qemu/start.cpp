// Starting VMs: what Proxmox checks before it runs QEMU, and what QEMU itself refuses.

#include "base/strings.hpp"
#include "lab/pve/pci.hpp"
#include "lab/pve/qemu/qemu.hpp"
#include "lab/pve/resources.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::pve {

namespace {

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

bool is_q35(const Schema& schema, const Keys& config) {
  const auto machine = config.find("machine");
  if (machine == config.end()) return false;
  const std::string type = parse_keys(schema, "machine", machine->second)["type"];
  return type == "q35" || type.starts_with("pc-q35");
}

/// What the VM's QEMU takes of the host's devices.
std::vector<std::string> choose_passthrough(const Process& process, const Vm& vm) {
  std::vector<std::string> chosen;
  for (const auto& [key, value] : vm.config) {
    if (family(key) != "hostpci[n]") continue;
    std::vector<std::string> functions = choose_pci_devices(process, vm.id, key, value);
    if (parse_keys(process.dc.schema, "pve-qm-hostpci", value)["pcie"] == "1" &&
        !is_q35(process.dc.schema, vm.config))
      die("q35 machine model is not enabled");
    for (std::string& function : functions) {
      if (std::find(chosen.begin(), chosen.end(), function) != chosen.end())
        die(fmt::format("device '{}' assigned more than once", function));
      chosen.push_back(std::move(function));
    }
  }
  return chosen;
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
void check_start(Worker& worker, const Vm& vm, const std::string& machine) {
  const Schema& schema = worker.dc.schema;
  Keys wanted = vm.config;
  if (!machine.empty()) wanted["machine"] = machine;
  const std::string* kvm = vm.find("kvm");
  if (!worker.node.kvm && (kvm == nullptr || *kvm == "1"))
    die("KVM virtualisation configured, but not available. Either disable in VM configuration or "
        "enable in BIOS.");
  check_machine_version(worker, wanted);
  try {
    choose_passthrough(worker, vm);
  } catch (const Failure& failure) {
    const bool missing = failure.message.starts_with("no PCI device found") ||
                         failure.message.starts_with("PCI device mapping not found");
    if (worker.dc.release.nine() && missing) worker.log(failure.message);
    throw;
  }
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
    // 9 looks before it runs QEMU; 8.4 leaves it to the script that QEMU calls.
    if (worker.dc.release.nine()) die(fmt::format("bridge '{}' does not exist", bridge));
    worker.log(fmt::format("bridge '{}' does not exist", bridge));
    worker.log(
        fmt::format("kvm: -netdev type=tap,id={0},ifname=tap{1}i{2}: network script "
                    "/usr/libexec/qemu-server/pve-bridge failed with status 512",
                    key, vm.id, key.substr(3)));
    die("start failed: QEMU exited with code 1");
  }
  // The devices are laid out for the config's chipset, whatever the call asks for.
  if (is_q35(schema, wanted) != is_q35(schema, vm.config)) {
    worker.log(
        "kvm: -device pci-bridge,id=pci.1,chassis_nr=1,bus=pci.0,addr=0x1e: Bus 'pci.0' "
        "not found");
    die("start failed: QEMU exited with code 1");
  }
}

void set_running(Datacenter& dc, Vm& vm) {
  vm.power = Vm::Power::Running;
  vm.pid = 20'000 + static_cast<unsigned>(dc.chance("qemu-pid").below(4'000'000));
  vm.started = dc.world.now();
  vm.running = vm.config;
  dc.world.note(fmt::format("VM {} runs on {}", vm.id, vm.node));
  if (dc.on_power) dc.on_power(vm, true);
}

Routine<void> start_worker(Worker& worker, unsigned vmid, StartOptions options) {
  const Locks::Guard lock = co_await lock_guest(worker, vmid);
  co_await start_guest(worker, vmid, options);
}

}  // namespace

Routine<void> start_guest(Worker& worker, unsigned vmid, StartOptions options) {
  bool resumes = false;
  {
    Vm& vm = worker.dc.get_vm(vmid, worker.node);
    if (is_template(vm)) die("you can't start a vm if it's a template");
    if (has_lock(vm, "backup") && is_running(vm)) {
      // The backup's own QEMU is there already: the guest in it is let run.
      vm.power = Vm::Power::Running;
      co_return;
    }
    const bool suspended = has_lock(vm, "suspended");
    if (!options.skip_lock && !suspended) check_lock(vm);
    resumes = suspended || vm.find("vmstate") != nullptr;
    if (is_running(vm)) die(fmt::format("VM {} already running", vmid));
  }
  co_await apply_pending({worker, &worker}, vmid);
  co_await regenerate_cloudinit({worker, &worker}, vmid);
  if (resumes) worker.log("Resuming suspended VM");
  check_start(worker, worker.dc.get_vm(vmid, worker.node), options.machine);
  co_await worker.sleep(worker.dc.timing.start);
  std::string state;
  {
    Vm& vm = worker.dc.get_vm(vmid, worker.node);
    if (resumes) {
      worker.log("Resumed VM, removing state");
      if (const std::string* volid = vm.find("vmstate")) state = *volid;
      for (const char* key : {"lock", "vmstate", "runningmachine", "runningcpu"})
        vm.config.erase(key);
    }
    vm.pci = choose_passthrough(worker, vm);  // somebody else may have been faster
    set_running(worker.dc, vm);
    if (!options.machine.empty()) vm.running["machine"] = options.machine;
  }
  if (!state.empty()) co_await free_volume({worker, &worker}, state);
}

std::string start_task_of(Process& process, unsigned vmid, StartOptions options) {
  if (is_ha_managed(process.dc, vmid)) return start_ha_task(process, vmid, HaRequest::Start);
  return process.node.start_task(
      "qmstart", std::to_string(vmid), process.caller,
      [vmid, options](Worker& worker) { return start_worker(worker, vmid, options); });
}

}  // namespace rocca::lab::pve
