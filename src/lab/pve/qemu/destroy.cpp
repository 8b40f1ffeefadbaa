// DELETE of a VM, and what remains.

#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"

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
  if (const auto job = process.dc.replication.find(what.id);
      job != process.dc.replication.end() && !what.purge)
    die(fmt::format("There is a replication job '{}' for guest '{}' - Please remove that first.",
                    job->second, what.id));
  if (is_running(vm)) die(fmt::format("VM {} is running - destroy failed", what.id));
  return ha;
}

/// Proxmox goes through the buses in this order, each by its numbers.
std::vector<std::string> volume_keys() {
  std::vector<std::string> keys;
  const auto add = [&](const char* bus, unsigned count) {
    for (unsigned i = 0; i < count; ++i) keys.push_back(bus + std::to_string(i));
  };
  add("ide", 4);
  add("scsi", 31);
  add("virtio", 16);
  add("sata", 6);
  for (const char* key : {"efidisk0", "tpmstate0"}) keys.emplace_back(key);
  add("unused", 256);
  keys.emplace_back("vmstate");
  return keys;
}

/// Volumes that a section of the config names, ISO files left out.
void add_volumes(const Schema& schema, const ConfigSection& section,
                 std::vector<std::string>& volumes) {
  for (const std::string& key : volume_keys()) {
    const auto found = section.find(key);
    if (found == section.end()) continue;
    if (!is_drive_key(key)) {
      volumes.push_back(found->second);
    } else if (const auto drive = parse_drive(schema, key, found->second)) {
      if (!drive->is_cdrom() || drive->is_cloudinit()) volumes.push_back(drive->file());
    }
  }
}

Routine<void> remove_volumes(Worker& worker, Destroy what) {
  Datacenter& dc = worker.dc;
  std::vector<std::string> volumes;
  {
    const Vm& vm = dc.get_vm(what.id, worker.node);
    add_volumes(dc.schema, vm.config, volumes);
    if (is_template(vm))
      for (const std::string& volid : volumes)
        if (const auto id = VolumeId::parse(volid))
          for (const auto& [name, volume] : dc.get_storage(id->storage).on(worker.node.name))
            if (volume.parent == id->name)
              die(fmt::format("base volume '{}' is still in use by linked cloned", volid));
    for (const auto& [name, section] : vm.snapshots)
      if (const auto state = section.find("vmstate"); state != section.end())
        volumes.push_back(state->second);
    add_volumes(dc.schema, vm.pending, volumes);
  }
  std::set<std::string> done;
  for (const std::string& volid : volumes) {
    if (!done.insert(volid).second) continue;
    // Whose it is says the storage: one that is not configured ends the task here, and what was
    // freed before stays freed.
    if (const auto id = VolumeId::parse(volid)) dc.get_storage(id->storage);
    if (!owns(worker, what.id, volid)) continue;
    try {
      co_await free_volume({worker, &worker}, volid);
    } catch (const Failure& failure) {
      worker.log(
          fmt::format("Could not remove disk '{}', check manually: {}", volid, failure.message));
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
