// Volumes of VMs: allocating, copying and freeing them, and what the drives of a create or change
// ask for.

#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::pve {

Routine<Locks::Guard> lock_guest(Worker& worker, unsigned vmid, Duration timeout,
                                 Locks::Mode mode) {
  const std::string path = fmt::format("/var/lock/qemu-server/lock-{}.conf", vmid);
  if (auto guard = worker.node.locks.try_take(path, mode)) co_return std::move(*guard);
  worker.log("trying to acquire lock...");
  Locks::Guard guard = co_await worker.lock_file(path, timeout, mode);
  worker.log(" OK");
  co_return std::move(guard);
}

namespace {

std::string last_part(const std::string& name) {
  return name.substr(name.rfind('/') + 1);
}

std::string free_name(const Storage& storage, const std::string& node, unsigned vmid) {
  for (unsigned k = 0;; ++k) {
    const std::string vm_name = fmt::format("vm-{}-disk-{}", vmid, k);
    const std::string base_name = fmt::format("base-{}-disk-{}", vmid, k);
    const bool taken =
        std::any_of(storage.on(node).begin(), storage.on(node).end(), [&](const auto& entry) {
          const std::string file = last_part(entry.first);
          const std::string stem = file.substr(0, file.find('.'));
          return stem == vm_name || stem == base_name;
        });
    if (!taken) return vm_name;
  }
}

/// Thick volumes need their space at once; sparse ones only some of it.
void check_space(const Storage& storage, const std::string& node, const std::string& name,
                 std::uint64_t size, std::uint64_t used) {
  const std::uint64_t free = storage.available(node);
  if (storage.type == "lvm" && free < size)
    die(fmt::format("not enough free space ({} < {})", free, size));
  if (free > std::max<std::uint64_t>(used, 1ull << 20)) return;
  if (storage.type == "lvmthin")
    die(
        fmt::format("lvcreate '{}/{}' error:   Cannot create new thin volume, free space in thin "
                    "pool reached threshold.",
                    storage.id, name));
  if (storage.type == "zfspool")
    die(fmt::format("zfs error: cannot create '{}/{}': out of space", storage.id, name));
  if (storage.file_based())
    die(fmt::format("unable to create image: qemu-img: {}: No space left on device",
                    storage.path_of("images", name)));
  if (free < size) die(fmt::format("not enough free space ({} < {})", free, size));
}

}  // namespace

Routine<std::string> allocate(Job job, Allocation what) {
  Process& process = job.process;
  {
    const Storage& storage = job.dc().get_storage_on(what.storage, process.node);
    const auto formats = storage.formats();
    if (std::find(formats.begin(), formats.end(), what.format) == formats.end())
      die(fmt::format("unsupported format '{}'", what.format));
  }
  const Locks::Guard lock = co_await process.lock_storage(what.storage);
  co_await process.sleep(job.dc().timing.allocate);
  Storage& storage = job.dc().get_storage_on(what.storage, process.node);
  std::string file =
      what.name.empty() ? free_name(storage, process.node.name, what.vmid) : what.name;
  std::string name = file;
  if (storage.file_based()) name = fmt::format("{}/{}.{}", what.vmid, file, what.format);
  auto& there = storage.on(process.node.name);
  if (there.contains(name)) {
    if (storage.file_based())
      die(fmt::format("disk image '{}' already exists", storage.path_of("images", name)));
    die(
        fmt::format("lvcreate '{}/{}' error:   Logical Volume \"{}\" already exists in volume "
                    "group \"{}\"",
                    storage.id, name, name, storage.id));
  }
  Volume volume;
  volume.name = name;
  volume.content = "images";
  volume.format = what.format;
  volume.size = storage.round_up(what.bytes);
  volume.used = storage.type == "lvm" ? volume.size : std::min(what.used, volume.size);
  volume.ctime = process.world().unix_time();
  volume.vmid = what.vmid;
  volume.image = what.image;
  volume.image.format = what.format;
  volume.image.virtual_size = volume.size;
  check_space(storage, process.node.name, name, volume.size, volume.used);
  job.log(fmt::format("Formatting '{}', fmt={} size={}", storage.path_of(volume), what.format,
                      volume.size));
  there.emplace(name, volume);
  co_return storage.id + ":" + name;
}

Routine<void> free_volume(Job job, std::string volid) {
  const auto id = VolumeId::parse(volid);
  if (!id) die(fmt::format("unable to parse volume ID '{}'", volid));
  {
    const Storage& storage = job.dc().get_storage_on(id->storage, job.process.node);
    parse_volume_name(storage, id->name);
  }
  const Locks::Guard lock = co_await job.process.lock_storage(id->storage);
  co_await job.process.sleep(job.dc().timing.allocate / 3);
  Storage& storage = job.dc().get_storage(id->storage);
  auto& there = storage.on(job.process.node.name);
  const auto found = there.find(id->name);
  if (found == there.end()) {
    job.log(fmt::format("disk image '{}' does not exist", storage.path_of("images", id->name)));
    co_return;
  }
  for (const auto& [other, volume] : there)
    if (volume.parent == id->name)
      die(fmt::format("base volume '{}' is still in use by linked clones", id->name));
  there.erase(found);
}

Volume& activate(const Process& process, const std::string& volid) {
  const auto id = VolumeId::parse(volid);
  if (!id) die(fmt::format("volume {} does not exist", volid));
  Storage& storage = process.dc.get_storage_on(id->storage, process.node);
  auto& there = storage.on(process.node.name);
  const auto found = there.find(id->name);
  if (found == there.end()) die(fmt::format("volume '{}' does not exist", volid));
  return found->second;
}

bool owns(const Process& process, unsigned vmid, const std::string& volid) {
  const auto id = VolumeId::parse(volid);
  if (!id) return false;
  const Storage* storage = process.dc.find_storage(id->storage);
  if (storage == nullptr) return false;
  try {
    return parse_volume_name(*storage, id->name).vmid == vmid;
  } catch (const Failure&) {
    return false;
  }
}

std::string format_for(const Storage& storage, const std::string& wanted,
                       const std::string& source) {
  const auto formats = storage.formats();
  const auto known = [&](const std::string& format) {
    return std::find(formats.begin(), formats.end(), format) != formats.end();
  };
  if (!wanted.empty() && known(wanted)) return wanted;
  return known(source) ? source : storage.default_format();
}

namespace {

/// What each copy gets of a host's disks while others are under way.
std::uint64_t shared(std::uint64_t alone, std::uint64_t full_speed, const Node& node) {
  const auto copies = static_cast<std::uint64_t>(
      std::count_if(node.tasks().begin(), node.tasks().end(), [](const auto& task) {
        return task->running() && (task->upid.type == "qmcreate" || task->upid.type == "qmclone");
      }));
  return alone * full_speed / std::max(copies, full_speed);
}

}  // namespace

namespace {

/// What qemu-img writes into a new file; dies if the storage has no room for it.
void fill(const Job& job, const Copy& what, const Volume& source, const std::string& volid,
          std::uint64_t bytes) {
  Datacenter& dc = job.dc();
  const std::string& node = job.process.node.name;
  Storage& storage = dc.get_storage(what.storage);
  Volume& target = activate(job.process, volid);
  if (storage.available(node) >= bytes) {
    target.used = bytes;
    return;
  }
  job.log(fmt::format("qemu-img: error while writing at byte {}: No space left on device",
                      storage.available(node)));
  const std::string command = fmt::format(
      "/usr/bin/qemu-img convert -p -n -f {} -O {} {} zeroinit:{}", source.format, target.format,
      dc.get_storage(VolumeId::parse(what.source)->storage).path_of(source),
      storage.path_of(target));
  storage.on(node).erase(target.name);
  die(fmt::format("{}copy failed: command '{}' failed: exit code 1",
                  what.label.empty() ? fmt::format("cannot import from '{}' - ", what.source) : "",
                  command));
}

}  // namespace

Routine<std::string> copy_volume(Job job, Copy what) {
  if (what.label != "-")
    job.log(what.label.empty()
                ? fmt::format("create full clone of drive ({})", what.source)
                : fmt::format("create full clone of drive {} ({})", what.label, what.source));
  const Volume source = activate(job.process, what.source);
  Allocation target;
  target.storage = what.storage;
  target.vmid = what.vmid;
  target.format = format_for(job.dc().get_storage_on(what.storage, job.process.node), what.format,
                             source.format);
  if (what.cloudinit) target.name = fmt::format("vm-{}-cloudinit", what.vmid);
  target.bytes = source.size;
  target.image = source.image;
  target.used = std::min(source.used, source.size);
  // A file is made sparse first: what does not fit fails while it is being copied.
  const bool file_based = job.dc().get_storage_on(what.storage, job.process.node).file_based();
  const std::uint64_t bytes = std::exchange(target.used, file_based ? 0 : target.used);
  const std::string volid = co_await allocate(job, target);
  if (job.dc().release.nine() && what.label != "-")
    job.log(fmt::format("allocated target volume '{}'", volid));
  if (file_based) fill(job, what, source, volid, bytes);
  const std::uint64_t alone =
      source.read_rate != 0 ? source.read_rate : job.dc().timing.import_rate;
  std::exception_ptr failed;
  try {
    for (unsigned percent = 0; percent <= 100; ++percent) {
      const double done = static_cast<double>(source.size) * percent / 100;
      job.log(fmt::format("transferred {:.1f} MiB of {:.1f} MiB ({}.00%)", done / 1048576,
                          static_cast<double>(source.size) / 1048576, percent));
      if (percent % 20 == 0 && percent > 0)
        co_await job.process.sleep(std::chrono::milliseconds{
            source.size * 200 /
            std::max<std::uint64_t>(shared(alone, job.dc().timing.full_speed, job.process.node),
                                    1)});
    }
  } catch (...) {
    failed = std::current_exception();
  }
  if (failed) {
    // A worker that is told to end leaves no half-written copy behind, one that loses its power
    // does; nothing may be awaited here.
    const bool tidies_up = job.worker == nullptr || job.worker->task.running();
    if (const auto id = VolumeId::parse(volid); id && tidies_up)
      if (Storage* storage = job.dc().find_storage(id->storage))
        storage->on(job.process.node.name).erase(id->name);
    std::rethrow_exception(failed);
  }
  co_return volid;
}

namespace {

/// A volume of another VM may be in use: its lock is waited for up to 30 s.
Routine<std::string> import_disk(Job job, unsigned vmid, Drive drive, std::string storage) {
  const std::string source = drive.get("import-from");
  Copy copy;
  copy.storage = storage;
  copy.vmid = vmid;
  copy.format = drive.get("format");
  if (const auto from = VolumeId::parse(source)) {
    const Storage& home = job.dc().get_storage_on(from->storage, job.process.node);
    const VolumeName name = parse_volume_name(home, from->name);
    if (job.dc().find_volume(source, job.process.node) == nullptr)
      die(fmt::format("failed to stat '{}'", home.path_of(name.content, from->name)));
    copy.source = source;
    if (name.content == "images" && name.vmid && *name.vmid != vmid) {
      const Locks::Guard other = co_await job.process.lock_vm(*name.vmid, std::chrono::seconds{30});
      co_return co_await copy_volume(job, copy);
    }
    co_return co_await copy_volume(job, copy);
  }
  for (const auto& [id, home] : job.dc().storages)
    for (const auto& [name, volume] : home.on(job.process.node.name))
      if (home.path_of(volume) == source) {
        copy.source = home.volid(volume);
        copy.label = "-";
        if (copy.format.empty())
          copy.format = job.dc().get_storage_on(storage, job.process.node).default_format();
        co_return co_await copy_volume(job, copy);
      }
  die(fmt::format("'{}' does not exist", source));
}

Routine<std::string> create_special(Job job, unsigned vmid, Drive& drive, std::string storage,
                                    Allocation what) {
  if (drive.key == "efidisk0") {
    const bool big = drive.get("efitype") == "4m";
    what.bytes = big ? 540'672 : 131'072;
    what.used = what.bytes;  // a copy of the firmware's own, without holes
    const bool enrolled = big && drive.get("pre-enrolled-keys") == "1";
    std::string volid = co_await allocate(job, what);
    if (enrolled) {
      job.log(
          "INFO: reading raw edk2 varstore from "
          "/usr/share/pve-edk2-firmware//OVMF_VARS_4M.ms.fd");
      job.log("INFO: var store range: 0x64 -> 0x40000");
      if (!job.dc().release.ms_cert.empty() && drive.get("ms-cert").empty())
        drive.options["ms-cert"] = job.dc().release.ms_cert;
    }
    co_return volid;
  }
  static_cast<void>(vmid);
  static_cast<void>(storage);
  what.bytes = 4ull << 20;  // swtpm's state has one size, and is raw unless 9 is told otherwise
  if (!job.dc().release.nine() || drive.get("format").empty()) what.format = "raw";
  co_return co_await allocate(job, what);
}

Routine<void> create_one(Job job, unsigned vmid, Drive drive, Keys config,
                         std::string default_storage, Created& made) {
  const Schema& schema = job.dc().schema;
  const std::string file = drive.file();
  const auto id = VolumeId::parse(file);
  const auto fresh = parse_new_disk(file);
  if (file == "none" || file == "cdrom") {
    drive.options.erase("size");
    made.drives[drive.key] = print_drive(schema, drive);
    co_return;
  }
  if (id && id->name == "cloudinit") {
    if (const auto other = find_cloudinit(schema, config, drive.key))
      die(fmt::format("{} - cloud-init drive is already attached at '{}'", drive.key, *other));
    const Storage& storage = job.dc().get_storage(id->storage);
    Allocation what;
    what.storage = id->storage;
    what.vmid = vmid;
    what.format = drive.get("format").empty() ? (storage.file_based() ? "qcow2" : "raw")
                                              : drive.get("format");
    what.name = fmt::format("vm-{}-cloudinit", vmid);
    what.bytes = 4ull << 20;
    const std::string volid = co_await allocate(job, what);
    made.volumes.push_back(volid);
    drive.options["file"] = volid;
    drive.options["media"] = "cdrom";
    drive.options.erase("format");
    made.drives[drive.key] = print_drive(schema, drive);
    job.log(fmt::format("{}: successfully created disk '{}'", drive.key, made.drives[drive.key]));
    co_return;
  }
  if (fresh) {
    const std::string storage = fresh->storage.empty() ? default_storage : fresh->storage;
    if (storage.empty()) die("no storage ID specified (and no default storage)");
    std::string volid;
    std::uint64_t size = fresh->bytes;
    if (!drive.get("import-from").empty()) {
      volid = co_await import_disk(job, vmid, drive, storage);
      size = activate(job.process, volid).size;
    } else {
      Allocation what;
      what.storage = storage;
      what.vmid = vmid;
      what.bytes = fresh->bytes;
      what.format = drive.get("format").empty() ? job.dc().get_storage(storage).default_format()
                                                : drive.get("format");
      if (drive.key == "efidisk0" || drive.key == "tpmstate0") {
        volid = co_await create_special(job, vmid, drive, storage, what);
        size = activate(job.process, volid).size;
      } else {
        volid = co_await allocate(job, what);
      }
    }
    made.volumes.push_back(volid);
    drive.options["file"] = volid;
    drive.options["size"] = print_size(size);
    drive.options.erase("format");
    drive.options.erase("import-from");
    made.drives[drive.key] = print_drive(schema, drive);
    job.log(fmt::format("{}: successfully created disk '{}'", drive.key, made.drives[drive.key]));
    co_return;
  }
  check_volume_access(job.process, vmid, file);
  const Volume& volume = activate(job.process, file);
  if (const std::string format = drive.get("format"); !format.empty() && format != volume.format)
    die(
        fmt::format("drive '{}' - volume '{}' - 'format={}' option different from storage format "
                    "'{}'",
                    drive.key, file, format, volume.format));
  if (!drive.is_cloudinit())
    drive.options["size"] =
        print_size(volume.content == "iso" || volume.size == 0 ? volume.used : volume.size);
  made.drives[drive.key] = print_drive(schema, drive);
}

}  // namespace

Routine<Created> create_disks(Job job, unsigned vmid, Keys settings, Keys config,
                              std::string default_storage) {
  Created made;
  std::exception_ptr failed;
  try {
    for (const auto& [key, value] : settings) {
      if (!is_drive_key(key)) continue;
      const auto drive = parse_drive(job.dc().schema, key, value);
      if (!drive) die(fmt::format("unable to parse drive options for '{}'", key));
      co_await create_one(job, vmid, *drive, config, default_storage, made);
    }
  } catch (...) {
    failed = std::current_exception();
  }
  if (!failed) co_return made;
  for (const std::string& volid : made.volumes) {
    try {
      co_await free_volume(job, volid);
    } catch (const Failure& failure) {
      job.log(failure.message);
    }
  }
  std::rethrow_exception(failed);
}

}  // namespace rocca::lab::pve
