// Backups: what a host's own backup job leaves, and a create that begins from it.

#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

namespace rocca::lab::pve {

namespace {

/// What is in an archive. Never changed once it is written.
struct Archive final : DiskContent {
  Keys config;
  std::map<std::string, Volume> disks;  // by drive
};

Routine<void> back_up(Worker& worker, unsigned id, std::string storage) {
  Datacenter& dc = worker.dc;
  {
    const Locks::Guard lock = co_await lock_guest(worker, id);
    Vm& vm = dc.get_vm(id, worker.node);
    check_lock(vm);
    vm.config["lock"] = "backup";
  }
  worker.log(fmt::format("INFO: Starting Backup of VM {} (qemu)", id));
  auto archive = std::make_shared<Archive>();
  std::uint64_t bytes = 0;
  for (const auto& [key, value] : dc.get_vm(id, worker.node).config) {
    if (key == "lock" || is_unused_key(key)) continue;
    archive->config[key] = value;
    if (!is_drive_key(key)) continue;
    const auto drive = parse_drive(dc.schema, key, value);
    if (!drive || drive->is_cdrom() || drive->get("backup") == "0") continue;
    if (const Volume* volume = dc.find_volume(drive->file(), worker.node)) {
      archive->disks[key] = *volume;
      bytes += std::min(volume->used, volume->size);
    }
  }
  std::exception_ptr failed;
  try {
    co_await worker.sleep(std::chrono::milliseconds{bytes * 1000 / dc.timing.import_rate});
  } catch (const Interrupted&) {
    failed = std::current_exception();
  }
  if (Vm* vm = dc.find_vm(id)) vm->config.erase("lock");
  if (failed) std::rethrow_exception(failed);
  Storage& target = dc.get_storage_on(storage, worker.node);
  if (target.available(worker.node.name) < bytes)
    die("Backup of VM " + std::to_string(id) + " failed - No space left on device");
  Volume volume;
  volume.name = fmt::format("backup/vzdump-qemu-{}-{:%Y_%m_%d-%H_%M_%S}.vma.zst", id,
                            fmt::gmtime(static_cast<std::time_t>(worker.world().unix_time())));
  volume.content = "backup";
  volume.format = "vma.zst";
  volume.size = bytes;
  volume.used = bytes;
  volume.vmid = id;
  volume.ctime = worker.world().unix_time();
  volume.image.content = std::move(archive);
  worker.log(fmt::format("INFO: creating vzdump archive '{}'", target.path_of(volume)));
  target.on(worker.node.name)[volume.name] = volume;
  worker.log(fmt::format("INFO: Finished Backup of VM {} (00:00:01)", id));
}

Routine<void> backup_worker(Worker& worker, std::vector<unsigned> ids, std::string storage) {
  worker.log(fmt::format("INFO: starting new backup job: vzdump {} --storage {} --mode snapshot",
                         fmt::join(ids, " "), storage));
  unsigned failed = 0;
  for (const unsigned id : ids) {
    try {
      co_await back_up(worker, id, storage);
    } catch (const Failure& failure) {
      if (ids.size() == 1) throw;
      ++failed;
      worker.log(fmt::format("ERROR: Backup of VM {} failed - {}", id, failure.task_text()));
    }
  }
  if (failed > 0) die("job errors");
  worker.log("INFO: Backup job finished successfully");
}

Routine<void> restore_disks(Worker& worker, const Restore& what, const Archive& archive,
                            Keys& config, std::vector<std::string>& made) {
  Datacenter& dc = worker.dc;
  for (const auto& [key, saved] : archive.disks) {
    auto drive = parse_drive(dc.schema, key, config.at(key));
    const auto from = VolumeId::parse(drive->file());
    Allocation target;
    target.storage = what.storage.empty() ? from->storage : what.storage;
    target.vmid = what.id;
    target.format = format_for(dc.get_storage_on(target.storage, worker.node), "", saved.format);
    target.bytes = saved.size;
    target.used = saved.used;
    target.image = saved.image;
    const std::string volid = co_await allocate({worker, &worker}, target);
    made.push_back(volid);
    worker.log(fmt::format("new volume ID is '{}'", volid));
    co_await worker.sleep(std::chrono::milliseconds{saved.used * 1000 / dc.timing.import_rate});
    drive->options["file"] = volid;
    config[key] = print_drive(dc.schema, *drive);
  }
  // The drive for cloud-init is in no archive: it is made anew under the new id, and filled by the
  // next start.
  for (auto& [key, value] : config) {
    if (!is_drive_key(key)) continue;
    auto drive = parse_drive(dc.schema, key, value);
    if (!drive || !drive->is_cloudinit()) continue;
    const auto from = VolumeId::parse(drive->file());
    Allocation target;
    target.storage = what.storage.empty() ? from->storage : what.storage;
    target.vmid = what.id;
    target.format = format_for(dc.get_storage_on(target.storage, worker.node), "", "raw");
    target.name = fmt::format("vm-{}-cloudinit", what.id);
    target.bytes = 4ull << 20;
    const std::string volid = co_await allocate({worker, &worker}, target);
    made.push_back(volid);
    worker.log(fmt::format("new volume ID is '{}'", volid));
    drive->options["file"] = volid;
    value = print_drive(dc.schema, *drive);
  }
}

}  // namespace

std::string start_backup(Datacenter& dc, unsigned vmid, const std::string& storage) {
  const Vm* vm = dc.find_vm(vmid);
  Node* node = vm == nullptr ? nullptr : dc.find_node(vm->node);
  if (node == nullptr) return "";
  return node->start_task(
      "vzdump", std::to_string(vmid), Caller{"root@pam", "root@pam", false},
      [vmid, storage](Worker& worker) { return backup_worker(worker, {vmid}, storage); });
}

std::string start_backup_job(Datacenter& dc, const std::string& host, std::vector<unsigned> vmids,
                             const std::string& storage) {
  Node* node = dc.find_node(host);
  if (node == nullptr) return "";
  return node->start_task("vzdump", "", Caller{"root@pam", "root@pam", false},
                          [vmids = std::move(vmids), storage](Worker& worker) {
                            return backup_worker(worker, vmids, storage);
                          });
}

Routine<void> restore_guest(Worker& worker, Restore what) {
  Datacenter& dc = worker.dc;
  const Locks::Guard lock = co_await lock_guest(worker, what.id);
  worker.log(fmt::format("restore vma archive: zstd -q -d -c {} | vma extract -v -r - /var/tmp",
                         what.archive));
  const auto archive =
      std::dynamic_pointer_cast<const Archive>(activate(worker, what.archive).image.content);
  if (archive == nullptr) {
    dc.vms.erase(what.id);
    die(fmt::format("unable to restore VM {} - '{}' is no vzdump archive", what.id, what.archive));
  }
  Keys config = archive->config;
  std::vector<std::string> made;
  std::exception_ptr failed;
  try {
    co_await restore_disks(worker, what, *archive, config, made);
  } catch (const Failure&) {
    failed = std::current_exception();
  } catch (const Interrupted&) {
    failed = std::current_exception();
  }
  if (failed) {
    // Nothing may be awaited here when the worker was told to end.
    for (const std::string& volid : made)
      if (const auto id = VolumeId::parse(volid))
        dc.get_storage(id->storage).on(worker.node.name).erase(id->name);
    dc.vms.erase(what.id);
    std::rethrow_exception(failed);
  }
  for (auto& [key, value] : config) {
    if (key == "vmgenid" && value != "0") value = dc.new_uuid();
    if (what.unique && is_net_key(key)) {
      Keys net = parse_keys(dc.schema, "net", value);
      net["macaddr"] = dc.new_mac();
      value = print_keys(dc.schema, "net", net);
    }
    if (what.unique && key == "smbios1") {
      Keys smbios = parse_keys(dc.schema, "pve-qm-smbios1", value);
      smbios["uuid"] = dc.new_uuid();
      value = print_keys(dc.schema, "pve-qm-smbios1", smbios);
    }
  }
  for (const auto& [key, value] : what.settings) config[key] = value;
  Vm& vm = dc.get_vm(what.id, worker.node);
  vm.config = std::move(config);
  store(dc.schema, vm);
}

}  // namespace rocca::lab::pve
