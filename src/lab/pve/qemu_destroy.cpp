// DELETE of a VM, and what remains.

#include "base/strings.hpp"
#include "lab/pve/qemu.hpp"

#include <fmt/format.h>

#include <set>

namespace rocca::lab::pve {

namespace {

struct Destroy {
  unsigned id = 0;
  bool purge = false, unreferenced = false, skip_lock = false;
};

/// Before the task and again in it. Says whether HA knows the VM.
bool check_destroy(Process& process, const Destroy& what) {
  const Vm& vm = process.dc.get_vm(what.id, process.node);
  const std::string* protection = vm.find("protection");
  if (protection != nullptr && *protection == "1")
    die(fmt::format("can't remove VM {} - protection mode enabled", what.id));
  const bool ha = process.dc.ha.contains(fmt::format("vm:{}", what.id));
  if (ha && !what.purge)
    die(fmt::format("unable to remove VM {} - used in HA resources and purge parameter not set.",
                    what.id));
  if (is_running(vm)) die(fmt::format("VM {} is running - destroy failed", what.id));
  return ha;
}

/// Volumes that the config names, in the order of its keys.
std::vector<Drive> named_volumes(const Schema& schema, const ConfigSection& section) {
  std::vector<Drive> drives;
  for (const auto& [key, value] : section) {
    if (is_unused_key(key)) {
      drives.push_back({key, {{"file", value}}});
    } else if (is_drive_key(key)) {
      const auto drive = parse_drive(schema, key, value);
      if (drive && (!drive->is_cdrom() || drive->is_cloudinit())) drives.push_back(*drive);
    }
  }
  return drives;
}

Routine<void> remove_volumes(Worker& worker, Destroy what) {
  Datacenter& dc = worker.dc;
  std::vector<Drive> drives;
  {
    const Vm& vm = dc.get_vm(what.id, worker.node);
    drives = named_volumes(dc.schema, vm.config);
    for (const Drive& drive : named_volumes(dc.schema, vm.pending)) drives.push_back(drive);
    if (is_template(vm))
      for (const Drive& drive : drives)
        if (const auto id = VolumeId::parse(drive.file()))
          for (const auto& [name, volume] : dc.get_storage(id->storage).on(worker.node.name))
            if (volume.parent == id->name)
              die(fmt::format("base volume '{}' is still in use by linked cloned", drive.file()));
  }
  for (const Drive& drive : drives)
    if (const auto id = VolumeId::parse(drive.file())) dc.get_storage(id->storage);
  std::set<std::string> done;
  for (const Drive& drive : drives) {
    const std::string volid = drive.file();
    if (!owns(worker, what.id, volid) || !done.insert(volid).second) continue;
    try {
      co_await free_volume({worker, &worker}, volid);
    } catch (const Failure& failure) {
      const std::string text =
          fmt::format("Could not remove disk '{}', check manually: {}", volid, failure.message);
      if (dc.release.nine())
        worker.warn(text);
      else
        worker.log(text);
    }
  }
  if (!what.unreferenced) co_return;
  std::vector<std::string> orphans;
  for (const auto& [id, storage] : dc.storages) {
    if (storage.disabled || !storage.on_node(worker.node.name)) continue;
    for (const auto& [name, volume] : storage.on(worker.node.name))
      if (volume.content == "images" && volume.vmid == what.id)
        orphans.push_back(storage.volid(volume));
  }
  for (const std::string& volid : orphans) {
    try {
      co_await free_volume({worker, &worker}, volid);
    } catch (const Failure& failure) {
      worker.log(failure.message);
    }
  }
}

Routine<void> destroy_worker(Worker& worker, Destroy what) {
  Datacenter& dc = worker.dc;
  const Locks::Guard lock = co_await lock_guest(worker, what.id);
  const bool ha = check_destroy(worker, what);
  {
    const Vm& vm = dc.get_vm(what.id, worker.node);
    if (!what.skip_lock && !has_lock(vm, "suspended")) check_lock(vm);
  }
  co_await remove_volumes(worker, what);
  {
    Vm& vm = dc.get_vm(what.id, worker.node);
    vm.config = {{"lock", "destroyed"}};
    vm.pending.clear();
    vm.pending_delete.clear();
    vm.snapshots.clear();
  }
  {
    const Locks::Guard users = co_await worker.lock_cfs("file-user_cfg");
    co_await worker.sleep(dc.timing.config);
    dc.access.forget_vm(what.id);
  }
  if (what.purge) {
    worker.log(fmt::format("purging VM {} from related configurations..", what.id));
    if (ha) {
      dc.ha.erase(fmt::format("vm:{}", what.id));
      worker.log(fmt::format("NOTE: removed VM {} from HA resource configuration.", what.id));
    }
  }
  dc.vms.erase(what.id);
}

Routine<text::Value> destroy(Call& call) {
  Destroy what{call.vmid(), call.params.flag("purge"),
               call.params.flag("destroy-unreferenced-disks"), call.params.flag("skiplock")};
  only_root(call, {"skiplock"});
  check_destroy(call, what);
  co_return string(
      call.node.start_task("qmdestroy", std::to_string(what.id), call.caller,
                           [what](Worker& worker) { return destroy_worker(worker, what); }));
}

}  // namespace

std::vector<Route> qemu_destroy_routes() {
  return {{"DELETE /nodes/{node}/qemu/{vmid}", destroy}};
}

}  // namespace rocca::lab::pve
