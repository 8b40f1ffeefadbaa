// POST /nodes/{node}/qemu: the checks in Proxmox's order, the placeholder, and the worker.

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"

#include <fmt/format.h>

#include <regex>
#include <set>

namespace rocca::lab::pve {

namespace {

Keys settings_of(const Call& call) {
  static const std::set<std::string, std::less<>> of_the_call{
      "archive",      "bwlimit", "force", "ha-managed", "import-working-storage",
      "live-restore", "node",    "pool",  "start",      "storage",
      "unique",       "vmid"};
  Keys settings;
  for (const auto& [key, value] : call.params.all())
    if (!of_the_call.contains(key)) settings[key] = value;
  return settings;
}

struct NewVm {
  unsigned id = 0;
  Keys settings;
  std::string pool;
  std::string storage;
  bool start = false;
  bool ha = false;
};

void check_machine(const Schema& schema, const std::string& text) {
  Keys machine = parse_keys(schema, "machine", text);
  const std::string type = machine["type"];
  const bool q35 = type == "q35" || type.starts_with("pc-q35");
  if (machine["viommu"] == "intel" && !q35)
    die("to use Intel vIOMMU please set the machine type to q35");
  if (!machine["aw-bits"].empty() && machine["viommu"].empty())
    die("cannot set aw-bits if no vIOMMU is configured");
}

/// The config that the worker writes in the end.
Routine<Keys> build(Job job, NewVm vm) {
  Datacenter& dc = job.dc();
  Keys config = vm.settings;
  config["meta"] = fmt::format("creation-qemu={},ctime={}", dc.release.qemu, dc.world.unix_time());
  const Created made = co_await create_disks(job, vm.id, vm.settings, config, vm.storage);
  for (const auto& [key, value] : made.drives) config[key] = value;
  std::exception_ptr failed;
  try {
    if (!config.contains("boot"))
      config["boot"] = print_boot_order(default_boot_devices(dc.schema, config));
    if (!config.contains("smbios1")) config["smbios1"] = "uuid=" + dc.new_uuid();
    if (!config.contains("vmgenid") || config["vmgenid"] == "1") config["vmgenid"] = dc.new_uuid();
    if (const auto machine = config.find("machine"); machine != config.end()) {
      check_machine(dc.schema, machine->second);
      machine->second =
          print_keys(dc.schema, "machine", parse_keys(dc.schema, "machine", machine->second));
    }
  } catch (const Failure&) {
    failed = std::current_exception();
  }
  if (!failed) co_return config;
  for (const std::string& volid : made.volumes) co_await free_volume(job, volid);
  std::rethrow_exception(failed);
}

Routine<void> create_worker(Worker& worker, NewVm vm) {
  const unsigned id = vm.id;
  std::exception_ptr failed;
  {
    const Locks::Guard lock = co_await worker.lock_vm(id, std::chrono::seconds{1});
    try {
      Keys config = co_await build({worker, &worker}, vm);
      co_await worker.sleep(worker.dc.timing.config);
      Vm& now = worker.dc.get_vm(id, worker.node);
      now.config = std::move(config);
      store(worker.dc.schema, now);
      if (!vm.pool.empty()) {
        const Locks::Guard users = co_await worker.lock_cfs("file-user_cfg");
        co_await worker.sleep(worker.dc.timing.config);
        worker.dc.access.pools[vm.pool].vms.insert(id);
      }
    } catch (const Failure& failure) {
      Failure with_prefix = failure;
      with_prefix.message = fmt::format("unable to create VM {} - {}", id, failure.task_text());
      with_prefix.status = 500;
      with_prefix.errors.clear();
      failed = std::make_exception_ptr(with_prefix);
    } catch (const Interrupted& interrupted) {
      failed = std::make_exception_ptr(
          Interrupted{fmt::format("unable to create VM {} - {}", id, interrupted.reason)});
    }
    if (failed) {
      // Without power nobody tidies up: the lock and what was allocated stay.
      if (worker.task.running()) worker.dc.vms.erase(id);
      std::rethrow_exception(failed);
    }
  }
  if (vm.ha) {
    worker.log("Add as HA resource");
    worker.dc.ha[fmt::format("vm:{}", id)].state = vm.start ? "started" : "stopped";
  }
  if (vm.start) {
    worker.log("Execute autostart");
    start_task_of(worker, id, {});
  }
}

/// Reserves the id for the whole cluster: from here on it is taken.
Routine<void> reserve(Call& call, unsigned id) {
  try {
    const Locks::Guard lock = co_await call.lock_vm(id, std::chrono::seconds{5});
    if (const Vm* taken = call.dc.find_vm(id))
      die(fmt::format("VM {} already exists on node '{}'", id, taken->node));
    co_await call.sleep(call.dc.timing.config);
    if (call.dc.find_vm(id) != nullptr)
      die(
          fmt::format("close (rename) atomic file '/etc/pve/nodes/{}/qemu-server/{}.conf' failed: "
                      "File exists",
                      call.node.name, id));
    Vm placeholder;
    placeholder.id = id;
    placeholder.node = call.node.name;
    placeholder.config["lock"] = "create";
    call.dc.vms.emplace(id, std::move(placeholder));
  } catch (const Failure& failure) {
    die(fmt::format("unable to create VM {} - {}", id, failure.message));
  }
}

Routine<void> restore_and_start(Worker& worker, Restore what, bool start) {
  co_await restore_guest(worker, what);
  if (!start) co_return;
  worker.log("Execute autostart");
  start_task_of(worker, what.id, {});
}

/// From a backup. `force` takes the place of a VM that is there and stopped.
Routine<text::Value> restore(Call& call, NewVm vm, std::string archive) {
  Datacenter& dc = call.dc;
  if (const Vm* old = dc.find_vm(vm.id); old != nullptr && call.params.flag("force")) {
    call.require(fmt::format("/vms/{}", vm.id), {"VM.Backup"});
    if (old->node != call.node.name)
      die(fmt::format("unable to restore VM {} - VM {} already exists on node '{}'", vm.id, vm.id,
                      old->node));
    if (is_running(*old)) die(fmt::format("unable to restore VM {} - VM is running", vm.id));
    check_lock(*old);
    const Keys before = old->config;
    for (const auto& [key, value] : before)
      if (is_drive_key(key))
        if (const auto drive = parse_drive(dc.schema, key, value);
            drive && VolumeId::parse(drive->file()) && owns(call, vm.id, drive->file()))
          co_await free_volume({call, nullptr}, drive->file());
    dc.vms.erase(vm.id);
  }
  co_await reserve(call, vm.id);
  const Restore what{vm.id, std::move(archive), vm.storage, call.params.flag("unique"),
                     vm.settings};
  const bool start = vm.start;
  co_return string(call.node.start_task("qmrestore", std::to_string(vm.id), call.caller,
                                        [what, start](Worker& worker) -> Routine<void> {
                                          return restore_and_start(worker, what, start);
                                        }));
}

Routine<text::Value> create_vm(Call& call) {
  Datacenter& dc = call.dc;
  NewVm vm;
  vm.id = call.vmid();
  vm.settings = settings_of(call);
  vm.pool = call.params.text("pool");
  vm.storage = call.params.text("storage");
  vm.start = call.params.flag("start");
  vm.ha = call.params.flag("ha-managed");
  if (const auto keys = vm.settings.find("sshkeys"); keys != vm.settings.end())
    check_ssh_keys(keys->second);
  if (!dc.quorate) die("cluster not ready - no quorum?");
  if (!vm.pool.empty() && !dc.access.pools.contains(vm.pool))
    deny(fmt::format("pool '{}' does not exist", vm.pool));
  if (!vm.storage.empty()) call.require("/storage/" + vm.storage, {"Datastore.AllocateSpace"});
  if (vm.ha) call.require("/", {"Sys.Console"});
  const std::string path = fmt::format("/vms/{}", vm.id);
  if (vm.start && dc.release.nine()) check_vm_right(call, vm.id, vm.pool, {"VM.PowerMgmt"});
  if (!call.may(path, {"VM.Allocate"}) &&
      (vm.pool.empty() || !call.may("/pool/" + vm.pool, {"VM.Allocate"})))
    deny();
  if (const std::string archive = call.params.text("archive"); !archive.empty()) {
    check_volume_access(call, vm.id, archive);
    activate(call, archive);
    co_return co_await restore(call, vm, archive);
  }
  resolve_cdrom(vm.settings);
  check_storage_access(call, vm.id, vm.settings, vm.storage);
  std::vector<std::string> keys;
  for (const auto& [key, value] : vm.settings) keys.push_back(key);
  check_keys(call, vm.id, vm.pool, keys);
  for (const auto& [key, value] : vm.settings)
    check_device(call, vm.id, vm.pool, key, value, /*creating=*/true);
  for (const auto& [key, value] : vm.settings)
    if (is_net_key(key)) check_bridge(call, value);
  if (const auto tags = vm.settings.find("tags"); tags != vm.settings.end()) {
    check_tags(call, vm.id, vm.pool, "", tags->second);
    if (dc.release.normalises_tags_on_create) tags->second = unique_tags(dc, tags->second);
  }
  check_drives(call, vm.settings);
  for (auto& [key, value] : vm.settings)
    if (is_net_key(key)) value = complete_net(dc, value);
  co_await reserve(call, vm.id);
  co_return string(call.node.start_task(
      "qmcreate", std::to_string(vm.id), call.caller,
      [vm](Worker& worker) -> Routine<void> { return create_worker(worker, vm); }));
}

}  // namespace

void check_ssh_keys(const std::string& encoded) {
  static const std::regex form("(?:\\S+ )?(?:ssh-|ecdsa-|sk-)\\S+\\s+[A-Za-z0-9+/=]+(?:\\s.*)?");
  for (const std::string& line : split(percent_decode(encoded), '\n')) {
    if (trim(line).empty() || line.starts_with("#")) continue;
    if (!std::regex_match(line, form)) die("SSH public key validation error");
  }
}

std::string complete_net(Datacenter& dc, const std::string& text) {
  Keys net = parse_keys(dc.schema, "net", text);
  if (net["macaddr"].empty()) net["macaddr"] = dc.new_mac();
  return print_keys(dc.schema, "net", net);
}

std::string unique_tags(const Datacenter& dc, const std::string& text) {
  bool keep_case = false;
  bool keep_order = false;
  if (const auto style = dc.options.find("tag-style"); style != dc.options.end()) {
    keep_case = style->second.find("case-sensitive=1") != std::string::npos;
    keep_order = style->second.find("ordering=config") != std::string::npos;
  }
  std::vector<std::string> tags;
  for (std::string tag : split_list(text)) {
    if (!keep_case) tag = to_lower(tag);
    if (std::find(tags.begin(), tags.end(), tag) == tags.end()) tags.push_back(tag);
  }
  if (!keep_order) std::sort(tags.begin(), tags.end());
  return join(tags, ";");
}

std::vector<Route> qemu_create_routes() {
  return {{"POST /nodes/{node}/qemu", create_vm}};
}

}  // namespace rocca::lab::pve
