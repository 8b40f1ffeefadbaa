// Moving a VM to another host of the cluster.

#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"
#include "lab/pve/resources.hpp"

#include <fmt/format.h>

namespace rocca::lab::pve {

namespace {

struct Migration {
  unsigned id = 0;
  std::string target, storage;
  bool online = false, with_local_disks = false;
};

struct LocalDisk {
  std::string key, volid;
  bool cdrom = false;
};

std::vector<LocalDisk> local_disks(Datacenter& dc, const Vm& vm) {
  std::vector<LocalDisk> disks;
  for (const auto& [key, value] : vm.config) {
    std::string volid = is_unused_key(key) ? value : "";
    bool cdrom = false;
    if (is_drive_key(key))
      if (const auto drive = parse_drive(dc.schema, key, value)) {
        volid = drive->file();
        cdrom = drive->is_cdrom() && !drive->is_cloudinit();
      }
    const auto id = VolumeId::parse(volid);
    if (id && !dc.get_storage(id->storage).shared) disks.push_back({key, volid, cdrom});
  }
  return disks;
}

Routine<void> migrate_worker(Worker& worker, Migration what) {
  Datacenter& dc = worker.dc;
  const Locks::Guard lock = co_await lock_guest(worker, what.id);
  {
    const Vm& vm = dc.get_vm(what.id, worker.node);
    check_lock(vm);
    if (is_running(vm) && !what.online) die("can't migrate running VM without --online");
    worker.log(fmt::format("starting migration of VM {} to node '{}' ({})", what.id, what.target,
                           dc.find_node(what.target)->address));
  }
  const std::vector<LocalDisk> disks = local_disks(dc, dc.get_vm(what.id, worker.node));
  const bool running = is_running(dc.get_vm(what.id, worker.node));
  for (const LocalDisk& disk : disks) {
    if (disk.cdrom)
      die(
          fmt::format("migration aborted (duration 00:00:00): can't migrate local cdrom drive "
                      "'{}'",
                      disk.key));
    if (running && !what.with_local_disks)
      die(
          fmt::format("migration aborted (duration 00:00:00): can't live migrate attached local "
                      "disks without with-local-disks option"));
  }
  dc.get_vm(what.id, worker.node).config["lock"] = "migrate";
  std::exception_ptr failed;
  std::map<std::string, std::string> moved;
  try {
    for (const LocalDisk& disk : disks) {
      const auto id = VolumeId::parse(disk.volid);
      const std::string to = what.storage.empty() ? id->storage : what.storage;
      Node* target = dc.find_node(what.target);
      dc.get_storage_on(to, *target);
      const Volume volume = activate(worker, disk.volid);
      worker.log(fmt::format("copying local disk image: '{}'", disk.volid));
      co_await worker.sleep(std::chrono::milliseconds{volume.size * 1000 / dc.timing.import_rate});
      if (!dc.find_node(what.target)->online) die("target host went away");
      dc.get_storage(to).on(what.target)[volume.name] = volume;
      moved[disk.volid] = to + ":" + volume.name;
    }
    if (running)
      co_await worker.sleep(std::chrono::milliseconds{memory_of(dc.get_vm(what.id, worker.node)) *
                                                      1000 / dc.timing.import_rate});
  } catch (const Failure&) {
    failed = std::current_exception();
  } catch (const Interrupted&) {
    failed = std::current_exception();
  }
  Vm& vm = dc.get_vm(what.id, worker.node);
  vm.config.erase("lock");
  if (failed) std::rethrow_exception(failed);
  for (ConfigSection* section : {&vm.config, &vm.running})
    for (auto& [key, value] : *section)
      for (const auto& [from, to] : moved)
        if (value == from || value.starts_with(from + ",")) value = to + value.substr(from.size());
  vm.node = what.target;
  for (const auto& [from, to] : moved)
    if (const auto id = VolumeId::parse(from))
      dc.get_storage(id->storage).on(worker.node.name).erase(id->name);
  worker.log("migration finished successfully (duration 00:00:01)");
}

Routine<text::Value> migrate(Call& call) {
  Datacenter& dc = call.dc;
  Migration what{call.vmid(), call.params.text("target"), call.params.text("targetstorage"),
                 call.params.flag("online"), call.params.flag("with-local-disks")};
  only_root(call, {"force", "migration_type", "migration_network"});
  if (what.target == call.node.name) refuse_parameter("target", "target is local node.");
  const Node* target = dc.find_node(what.target);
  if (target == nullptr) die(fmt::format("no such cluster node '{}'", what.target));
  if (!dc.quorate) die("cluster not ready - no quorum?");
  if (!target->online) die(fmt::format("target node '{}' is offline", what.target));
  const Vm& vm = dc.get_vm(what.id, call.node);
  check_lock(vm);
  if (is_running(vm) && !what.online) die("can't migrate running VM without --online");
  if (!what.storage.empty() && what.storage != "1") {
    call.require(fmt::format("/vms/{}", what.id), {"VM.Config.Disk"});
    call.require("/storage/" + what.storage, {"Datastore.AllocateSpace"});
    dc.get_storage_on(what.storage, *target);
  }
  if (what.storage == "1") what.storage = "";
  co_return string(
      call.node.start_task("qmigrate", std::to_string(what.id), call.caller,
                           [what](Worker& worker) { return migrate_worker(worker, what); }));
}

Routine<text::Value> preconditions(Call& call) {
  const Vm& vm = call.dc.get_vm(call.vmid(), call.node);
  text::Value disks = text::Value::list();
  for (const LocalDisk& disk : local_disks(call.dc, vm)) {
    const Volume* volume = call.dc.find_volume(disk.volid, call.node);
    disks.append(
        object({{"volid", string(disk.volid)},
                {"drivename", string(disk.key)},
                {"size", number(volume == nullptr ? 0 : static_cast<std::int64_t>(volume->size))},
                {"cdrom", number(disk.cdrom ? 1 : 0)},
                {"is_unused", number(is_unused_key(disk.key) ? 1 : 0)}}));
  }
  text::Value allowed = text::Value::list();
  for (const auto& [name, node] : call.dc.nodes())
    if (node->online && name != call.node.name) allowed.append(string(name));
  text::Value out = object({{"running", number(is_running(vm) ? 1 : 0)},
                            {"local_disks", disks},
                            {"local_resources", text::Value::list()},
                            {"mapped-resources", text::Value::list()},
                            {"mapped-resource-info", text::Value::map()}});
  if (call.dc.release.nine()) out.set("has-dbus-vmstate", number(0));
  if (!is_running(vm)) {
    out.set("allowed_nodes", allowed);
    out.set("not_allowed_nodes", text::Value::map());
  }
  co_return out;
}

}  // namespace

std::vector<Route> qemu_migrate_routes() {
  return {
      {"GET /nodes/{node}/qemu/{vmid}/migrate", preconditions},
      {"POST /nodes/{node}/qemu/{vmid}/migrate", migrate},
  };
}

}  // namespace rocca::lab::pve
