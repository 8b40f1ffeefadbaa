// resize, move_disk and template.

#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"

#include <fmt/format.h>

namespace rocca::lab::pve {

namespace {

bool in_snapshot(const Schema& schema, const Vm& vm, const std::string& volid) {
  for (const auto& [name, section] : vm.snapshots)
    for (const auto& [key, value] : section)
      if (is_drive_key(key))
        if (const auto drive = parse_drive(schema, key, value); drive && drive->file() == volid)
          return true;
  return false;
}

struct Resize {
  unsigned id = 0;
  std::string disk, size, digest;
  bool skip_lock = false;
};

Routine<void> resize_worker(Worker& worker, Resize what) {
  const Locks::Guard lock = co_await lock_guest(worker, what.id);
  const Schema& schema = worker.dc.schema;
  const auto drive_now = [&]() -> Drive {
    const Vm& vm = worker.dc.get_vm(what.id, worker.node);
    const std::string* text = vm.find(what.disk);
    if (text == nullptr) die(fmt::format("disk '{}' does not exist", what.disk));
    const auto drive = parse_drive(schema, what.disk, *text);
    if (!drive) die(fmt::format("disk '{}' does not exist", what.disk));
    return *drive;
  };
  {
    const Vm& vm = worker.dc.get_vm(what.id, worker.node);
    if (!what.digest.empty() && what.digest != config_digest(vm))
      die("checksum mismatch (file change by other user?)");
    if (!what.skip_lock) check_lock(vm);
  }
  const Drive drive = drive_now();
  const auto id = VolumeId::parse(drive.file());
  if (!id) die(fmt::format("unable to parse volume ID '{}'", drive.file()));
  if (drive.is_cdrom()) die("you can't resize a cdrom");
  worker.require("/storage/" + id->storage, {"Datastore.AllocateSpace"});
  const std::uint64_t before = activate(worker, drive.file()).size;
  const bool relative = what.size.starts_with("+");
  const std::uint64_t wanted =
      parse_size(relative ? what.size.substr(1) : what.size) + (relative ? before : 0);
  if (wanted < before) die("shrinking disks is not supported");
  if (wanted == before) co_return;
  const bool running = is_running(worker.dc.get_vm(what.id, worker.node));
  const Storage& storage = worker.dc.get_storage(id->storage);
  if (!running && parse_volume_name(storage, id->name).is_base)
    die(fmt::format("command '/usr/bin/qemu-img resize {}-f {} {} {}' failed: exit code 1",
                    worker.dc.release.nine() && activate(worker, drive.file()).format == "qcow2"
                        ? "'--preallocation=metadata' "
                        : "",
                    activate(worker, drive.file()).format, storage.path_of("images", id->name),
                    wanted));
  co_await worker.sleep(worker.dc.timing.config);
  Volume& volume = activate(worker, drive.file());
  volume.size = worker.dc.get_storage(id->storage).round_up(wanted);
  volume.image.virtual_size = volume.size;
  if (!running) worker.log("Image resized.");
  Vm& vm = worker.dc.get_vm(what.id, worker.node);
  Drive now = drive_now();
  now.options["size"] = print_size(volume.size);
  load(vm);
  vm.config[what.disk] = print_drive(schema, now);
  if (running) vm.running[what.disk] = vm.config[what.disk];
  store(schema, vm);
}

Routine<text::Value> resize(Call& call) {
  Resize what{call.vmid(), call.params.text("disk"), call.params.text("size"),
              call.params.text("digest"), call.params.flag("skiplock")};
  only_root(call, {"skiplock"});
  co_return string(
      call.node.start_task("resize", std::to_string(what.id), call.caller,
                           [what](Worker& worker) { return resize_worker(worker, what); }));
}

struct Move {
  unsigned id = 0;
  std::string disk, storage, format, digest;
  bool drop = false;
};

/// Checked before the task and again in it: gives the drive.
Drive check_move(Process& process, const Move& what) {
  const Vm& vm = process.dc.get_vm(what.id, process.node);
  const Schema& schema = process.dc.schema;
  check_lock(vm);
  if (!what.digest.empty() && what.digest != config_digest(vm))
    die("detected modified configuration - file changed by other user? Try again.");
  const std::string* text = vm.find(what.disk);
  if (text == nullptr) die(fmt::format("disk '{}' does not exist", what.disk));
  const auto drive = is_unused_key(what.disk)
                         ? std::optional<Drive>(Drive{what.disk, {{"file", *text}}})
                         : parse_drive(schema, what.disk, *text);
  if (!drive) die(fmt::format("disk '{}' has no associated volume", what.disk));
  if (drive->is_cdrom() && !drive->is_cloudinit()) die("you can't move a cdrom");
  const auto id = VolumeId::parse(drive->file());
  if (!id) die(fmt::format("disk '{}' has no associated volume", what.disk));
  const std::string format =
      parse_volume_name(process.dc.get_storage(id->storage), id->name).format;
  if (id->storage == what.storage && (what.format.empty() || what.format == format))
    die("you can't move to the same storage with same format");
  if (what.drop && in_snapshot(schema, vm, drive->file()))
    die("you can't move a disk with snapshots and delete the source");
  return *drive;
}

Routine<void> move_worker(Worker& worker, Move what) {
  const Locks::Guard lock = co_await lock_guest(worker, what.id);
  const Schema& schema = worker.dc.schema;
  const Drive drive = check_move(worker, what);
  const std::string old = drive.file();
  const bool nine = worker.dc.release.nine();
  if (nine)
    worker.log(fmt::format("copying volume '{}' from current storage '{}' to target storage '{}'",
                           old, old.substr(0, old.find(':')), what.storage));
  if (in_snapshot(schema, worker.dc.get_vm(what.id, worker.node), old))
    worker.log("moving disk with snapshots, snapshots will not be moved!");
  Copy copy{old, what.storage, what.id, what.format, what.disk, drive.is_cloudinit()};
  const std::string fresh = co_await copy_volume({worker, &worker}, copy);
  Vm& vm = worker.dc.get_vm(what.id, worker.node);
  load(vm);
  Drive moved = drive;
  moved.options["file"] = fresh;
  if (is_unused_key(what.disk)) {
    vm.config[what.disk] = fresh;
  } else {
    moved.options["size"] = print_size(activate(worker, fresh).size);
    vm.config[what.disk] = print_drive(schema, moved);
    if (is_running(vm)) vm.running[what.disk] = vm.config[what.disk];
  }
  if (!what.drop) {
    const std::string key = add_unused(vm, old);
    if (nine) worker.log(fmt::format("adding source volume '{}' as '{}' to config", old, key));
  }
  store(schema, vm);
  if (!what.drop) co_return;
  if (nine) worker.log(fmt::format("removing source volume '{}' after successful copy", old));
  try {
    co_await free_volume({worker, &worker}, old);
  } catch (const Failure& failure) {
    worker.log(failure.message);
  }
}

struct Handover {
  unsigned from = 0, to = 0;
  std::string disk, target, digest, target_digest;
};

/// Both VMs as they are now; dies if the disk cannot change hands.
Drive check_handover(Process& process, const Handover& what) {
  const Schema& schema = process.dc.schema;
  const Vm* source = process.dc.find_vm(what.from);
  const Vm* target = process.dc.find_vm(what.to);
  if (target == nullptr) die(fmt::format("could not find target VM {}", what.to));
  if (source->node != target->node)
    die(fmt::format("Both VMs need to be on the same node ({} != {})", source->node, target->node));
  check_lock(*source);
  check_lock(*target);
  const auto check_digest = [](const Vm& vm, const std::string& digest) {
    if (!digest.empty() && digest != config_digest(vm))
      die("detected modified configuration - file changed by other user? Try again.");
  };
  check_digest(*source, what.digest);
  check_digest(*target, what.target_digest);
  const auto found = source->config.find(what.disk);
  if (found == source->config.end())
    die(fmt::format("Disk '{}' for VM '{}' does not exist", what.disk, what.from));
  const auto drive = is_unused_key(what.disk)
                         ? std::optional<Drive>(Drive{what.disk, {{"file", found->second}}})
                         : parse_drive(schema, what.disk, found->second);
  if (!drive || !VolumeId::parse(drive->file()))
    die(fmt::format("disk '{}' has no associated volume", what.disk));
  if (drive->is_cdrom()) die("you can't move a cdrom");
  if (in_snapshot(schema, *source, drive->file()))
    die("Can't move disk used by a snapshot to another owner");
  if (is_running(*source) && !is_unused_key(what.disk))
    die("Can't move disk of a running VM to another owner");
  if (target->config.contains(what.target))
    die(fmt::format("Target disk key '{}' is already in use for VM '{}'", what.target, what.to));
  return *drive;
}

Routine<void> handover_worker(Worker& worker, Handover what) {
  const Locks::Guard lock = co_await lock_guest(worker, what.from);
  const Locks::Guard other = co_await lock_guest(worker, what.to);
  const Schema& schema = worker.dc.schema;
  Drive drive = check_handover(worker, what);
  const auto id = VolumeId::parse(drive.file());
  Storage& storage = worker.dc.get_storage_on(id->storage, worker.node);
  auto& there = storage.on(worker.node.name);
  auto volume = there.extract(id->name);
  if (volume.empty()) die(fmt::format("volume '{}' does not exist", drive.file()));
  const bool files = storage.file_based();
  for (unsigned number = 0;; ++number) {
    const std::string file = fmt::format("vm-{}-disk-{}", what.to, number);
    const std::string name =
        files ? fmt::format("{}/{}.{}", what.to, file, volume.mapped().format) : file;
    if (there.contains(name)) continue;
    volume.key() = name;
    volume.mapped().name = name;
    volume.mapped().vmid = what.to;
    drive.options["file"] = id->storage + ":" + name;
    break;
  }
  there.insert(std::move(volume));
  worker.log(fmt::format("removing disk '{}' from VM '{}' config", what.disk, what.from));
  co_await worker.sleep(worker.dc.timing.config);
  Vm& source = worker.dc.get_vm(what.from, worker.node);
  source.config.erase(what.disk);
  store(schema, source);
  Vm& target = worker.dc.get_vm(what.to, worker.node);
  drive.key = what.target;
  target.config[what.target] =
      is_unused_key(what.target) ? drive.file() : print_drive(schema, drive);
  store(schema, target);
}

/// To another VM of the same host: the volume takes the other's name, nothing is copied.
Routine<text::Value> hand_over(Call& call) {
  Handover what;
  what.from = call.vmid();
  what.to = static_cast<unsigned>(call.params.integer("target-vmid"));
  what.disk = call.params.text("disk");
  what.target = call.params.text("target-disk", what.disk);
  what.digest = call.params.text("digest");
  what.target_digest = call.params.text("target-digest");
  call.require(fmt::format("/vms/{}", what.to), {"VM.Config.Disk"});
  call.dc.get_vm(what.from, call.node);
  if (what.from == what.to)
    refuse_parameter("target-vmid", "must be different than source VMID to reassign disk");
  const Drive drive = check_handover(call, what);
  call.require("/storage/" + VolumeId::parse(drive.file())->storage, {"Datastore.AllocateSpace"});
  co_return string(call.node.start_task(
      "qmmove", fmt::format("{}-{}>{}-{}", what.from, what.disk, what.to, what.target), call.caller,
      [what](Worker& worker) { return handover_worker(worker, what); }));
}

Routine<text::Value> move_disk(Call& call) {
  if (call.params.has("target-vmid") && !call.params.has("storage"))
    co_return co_await hand_over(call);
  Move what{call.vmid(),
            call.params.text("disk"),
            call.params.text("storage"),
            call.params.text("format"),
            call.params.text("digest"),
            call.params.flag("delete")};
  if (what.storage.empty() || call.params.has("target-vmid"))
    refuse_parameters({{"storage", "set either storage or target-vmid"},
                       {"target-vmid", "set either storage or target-vmid"}});
  call.require("/storage/" + what.storage, {"Datastore.AllocateSpace"});
  check_move(call, what);
  if (!call.dc.get_storage_on(what.storage, call.node).allows("images"))
    refuse_parameter("storage",
                     fmt::format("storage '{}' does not support vm images", what.storage));
  co_return string(
      call.node.start_task("qmmove", std::to_string(what.id), call.caller,
                           [what](Worker& worker) { return move_worker(worker, what); }));
}

void check_template(Process& process, unsigned id, const std::string& disk) {
  const Vm& vm = process.dc.get_vm(id, process.node);
  check_lock(vm);
  if (!vm.snapshots.empty()) die("unable to create template, because VM contains snapshots");
  if (is_template(vm) && disk.empty()) die("you can't convert a template to a template");
  if (is_running(vm)) die("you can't convert a VM to template if VM is running");
}

Routine<void> template_worker(Worker& worker, unsigned id, std::string disk) {
  const Locks::Guard lock = co_await lock_guest(worker, id);
  check_template(worker, id, disk);
  const Schema& schema = worker.dc.schema;
  co_await worker.sleep(worker.dc.timing.config);
  Vm& vm = worker.dc.get_vm(id, worker.node);
  load(vm);
  vm.config["template"] = "1";
  for (auto& [key, value] : vm.config) {
    if (!is_drive_key(key) || (!disk.empty() && key != disk)) continue;
    auto drive = parse_drive(schema, key, value);
    if (!drive || drive->is_cdrom()) continue;
    const auto volid = VolumeId::parse(drive->file());
    if (!volid) continue;
    Storage& storage = worker.dc.get_storage_on(volid->storage, worker.node);
    if (parse_volume_name(storage, volid->name).is_base) continue;
    auto& there = storage.on(worker.node.name);
    auto node = there.extract(volid->name);
    if (node.empty()) die(fmt::format("volume '{}' does not exist", drive->file()));
    const std::string from = fmt::format("vm-{}-", id);
    const std::string to = fmt::format("base-{}-", id);
    const std::string base = replace_all(volid->name, from, to);
    node.key() = base;
    node.mapped().name = base;
    there.insert(std::move(node));
    drive->options["file"] = volid->storage + ":" + base;
    value = print_drive(schema, *drive);
  }
  store(schema, vm);
}

Routine<text::Value> make_template(Call& call) {
  const unsigned id = call.vmid();
  const std::string disk = call.params.text("disk");
  check_template(call, id, disk);
  co_return string(call.node.start_task(
      "qmtemplate", std::to_string(id), call.caller,
      [id, disk](Worker& worker) { return template_worker(worker, id, disk); }));
}

}  // namespace

std::vector<Route> qemu_disk_routes() {
  return {
      {"PUT /nodes/{node}/qemu/{vmid}/resize", resize},
      {"POST /nodes/{node}/qemu/{vmid}/move_disk", move_disk},
      {"POST /nodes/{node}/qemu/{vmid}/template", make_template},
  };
}

}  // namespace rocca::lab::pve
