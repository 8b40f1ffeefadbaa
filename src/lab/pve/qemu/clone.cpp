// clone, linked and full, and the feature question.

#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"

#include <fmt/format.h>

namespace rocca::lab::pve {

namespace {

struct Clone {
  unsigned id = 0, target = 0;
  std::string snapshot, storage, format, name, description, pool, node;
  std::optional<bool> full;
};

bool can_snapshot(const Storage& storage, const Volume& volume) {
  if (storage.file_based()) return volume.format == "qcow2";
  return storage.type == "lvmthin" || storage.type == "zfspool" || storage.type == "rbd";
}

const ConfigSection& source_section(const Vm& vm, const Clone& what) {
  if (what.snapshot.empty()) return vm.config;
  const auto found = vm.snapshots.find(what.snapshot);
  if (found == vm.snapshots.end()) die(fmt::format("snapshot '{}' does not exist", what.snapshot));
  return found->second;
}

bool is_full(const Vm& vm, const Clone& what) {
  return what.full.value_or(!is_template(vm));
}

/// Runs before the task and again in it.
void check_clone(Process& process, const Clone& what) {
  Datacenter& dc = process.dc;
  const Vm& vm = get_process_vm(process, what.id);
  check_lock(vm);
  const ConfigSection& source = source_section(vm, what);
  const bool full = is_full(vm, what);
  if (!what.storage.empty() && !full) die("parameter 'storage' not allowed for linked clones");
  if (!what.format.empty() && !full) die("parameter 'format' not allowed for linked clones");
  bool shared = true;
  for (const auto& [key, value] : source) {
    if (!is_drive_key(key)) continue;
    const auto drive = parse_drive(dc.schema, key, value);
    const auto id = drive ? VolumeId::parse(drive->file()) : std::nullopt;
    if (drive && drive->file() == "cdrom") process.require("/", {"Sys.Console"});
    if (!id) continue;
    shared = shared && dc.get_storage(id->storage).shared;
    if (drive->is_cdrom() && !drive->is_cloudinit()) continue;
    const std::string to = what.storage.empty() ? id->storage : what.storage;
    process.require("/storage/" + to, {"Datastore.AllocateSpace"});
    if (!dc.get_storage(to).allows("images"))
      refuse_parameter("storage", fmt::format("storage '{}' does not support vm images", to));
  }
  for (const auto& [key, value] : source)
    if (is_net_key(key)) check_bridge(process, value);
  if (!what.node.empty() && what.node != process.node.name && !shared)
    die(fmt::format("can't clone VM to node '{}' (VM uses local storage)", what.node));
  if (dc.find_vm(what.target) != nullptr)
    die(fmt::format("unable to create VM {}: config file already exists", what.target));
  if (full) return;
  for (const auto& [key, value] : source) {
    if (!is_drive_key(key)) continue;
    const auto drive = parse_drive(dc.schema, key, value);
    const auto id = drive ? VolumeId::parse(drive->file()) : std::nullopt;
    if (!id || drive->is_cdrom()) continue;
    if (!parse_volume_name(dc.get_storage(id->storage), id->name).is_base)
      die(fmt::format("Linked clone feature is not supported for '{}' ({})", drive->file(), key));
  }
}

Routine<std::string> link_volume(Worker& worker, std::string source, unsigned target,
                                 std::string key) {
  worker.log(fmt::format("create linked clone of drive {} ({})", key, source));
  const auto id = VolumeId::parse(source);
  const Volume base = activate(worker, source);
  Allocation what;
  what.storage = id->storage;
  what.vmid = target;
  what.format = base.format;
  what.bytes = base.size;
  what.image = base.image;
  const std::string volid = co_await allocate({worker, &worker}, what);
  const auto plain = VolumeId::parse(volid);
  Storage& storage = worker.dc.get_storage(id->storage);
  const std::string file = plain->name.substr(plain->name.rfind('/') + 1);
  worker.log(fmt::format("clone {}: images, {}, {} to {} (base=../{})", id->name, file, target,
                         file, id->name));
  auto& there = storage.on(worker.node.name);
  auto node = there.extract(plain->name);
  // LVM-thin keeps the tie out of the name.
  const std::string linked = storage.type == "lvmthin" ? plain->name : id->name + "/" + plain->name;
  node.key() = linked;
  node.mapped().name = linked;
  node.mapped().parent = id->name;
  there.insert(std::move(node));
  co_return storage.id + ":" + linked;
}

Routine<Keys> clone_config(Worker& worker, Clone what, std::vector<std::string>& volumes) {
  Datacenter& dc = worker.dc;
  const Vm& vm = get_process_vm(worker, what.id);
  const ConfigSection source = source_section(vm, what);
  const bool full = is_full(vm, what);
  Keys config;
  std::map<std::string, Drive> drives;
  for (const auto& [key, value] : source) {
    if (key == "parent" || key == "snaptime" || key == "vmstate" || key == "lock" ||
        key == "template" || is_unused_key(key))
      continue;
    config[key] = value.empty() ? " " : value;
    if (is_net_key(key)) {
      Keys net = parse_keys(dc.schema, "net", value);
      net["macaddr"] = dc.new_mac();
      config[key] = print_keys(dc.schema, "net", net);
    } else if (is_drive_key(key)) {
      const auto drive = parse_drive(dc.schema, key, value);
      if (drive && (!drive->is_cdrom() || drive->is_cloudinit())) drives.emplace(key, *drive);
    }
  }
  Keys smbios = config.contains("smbios1")
                    ? parse_keys(dc.schema, "pve-qm-smbios1", config["smbios1"])
                    : Keys{};
  smbios["uuid"] = dc.new_uuid();
  config["smbios1"] = print_keys(dc.schema, "pve-qm-smbios1", smbios);
  if (config.contains("vmgenid")) config["vmgenid"] = dc.new_uuid();
  const auto old_name = source.find("name");
  config["name"] = !what.name.empty() ? what.name
                                      : fmt::format("Copy-of-VM-{}", old_name == source.end()
                                                                         ? std::to_string(what.id)
                                                                         : old_name->second);
  if (!what.description.empty()) config["description"] = what.description;
  for (auto& [key, drive] : drives) {
    std::string volid;
    if (full || drive.is_cloudinit()) {
      Copy copy;
      copy.source = drive.file();
      copy.storage = what.storage.empty() ? VolumeId::parse(drive.file())->storage : what.storage;
      copy.vmid = what.target;
      copy.format = what.format;
      copy.label = key;
      copy.cloudinit = drive.is_cloudinit();
      volid = co_await copy_volume({worker, &worker}, copy);
    } else {
      volid = co_await link_volume(worker, drive.file(), what.target, key);
    }
    volumes.push_back(volid);
    drive.options["file"] = volid;
    drive.options["size"] = print_size(activate(worker, volid).size);
    config[key] = print_drive(dc.schema, drive);
  }
  co_return config;
}

Routine<void> clone_worker(Worker& worker, Clone what, bool running) {
  Datacenter& dc = worker.dc;
  if (dc.release.nine())
    worker.log(fmt::format("creating a clone of VM {} with ID {}", what.id, what.target));
  const Locks::Guard source =
      co_await lock_guest(worker, what.id, std::chrono::seconds{1},
                          running ? Locks::Mode::Exclusive : Locks::Mode::Shared);
  const Locks::Guard target = co_await lock_guest(worker, what.target, std::chrono::seconds{1});
  check_clone(worker, what);
  co_await worker.sleep(dc.timing.config);
  if (dc.find_vm(what.target) != nullptr)
    die(fmt::format("unable to create VM {}: config file already exists", what.target));
  Vm placeholder;
  placeholder.id = what.target;
  placeholder.node = worker.node.name;
  placeholder.config["lock"] = "clone";
  dc.vms.emplace(what.target, std::move(placeholder));
  std::vector<std::string> volumes;
  std::exception_ptr failed;
  try {
    Keys config = co_await clone_config(worker, what, volumes);
    Vm& vm = dc.get_vm(what.target, worker.node);
    vm.config = std::move(config);
    if (!what.node.empty()) vm.node = what.node;
    store(dc.schema, vm);
    if (!what.pool.empty()) {
      const Locks::Guard users = co_await worker.lock_cfs("file-user_cfg");
      dc.access.pools[what.pool].vms.insert(what.target);
    }
  } catch (const Failure& failure) {
    failed = std::make_exception_ptr(Failure{500, "clone failed: " + failure.task_text(), {}});
  } catch (const Interrupted& interrupted) {
    failed = std::make_exception_ptr(Interrupted{"clone failed: " + interrupted.reason});
  }
  if (!failed) co_return;
  if (!worker.task.running()) std::rethrow_exception(failed);  // without power nobody tidies up
  for (const std::string& volid : volumes)
    if (const auto id = VolumeId::parse(volid))
      if (Storage* storage = dc.find_storage(id->storage))
        storage->on(worker.node.name).erase(id->name);
  dc.vms.erase(what.target);
  std::rethrow_exception(failed);
}

Routine<text::Value> clone(Call& call) {
  Datacenter& dc = call.dc;
  Clone what;
  what.id = call.vmid();
  what.target = static_cast<unsigned>(call.params.integer("newid"));
  what.snapshot = call.params.text("snapname");
  what.storage = call.params.text("storage");
  what.format = call.params.text("format");
  what.name = call.params.text("name");
  what.description = call.params.text("description");
  what.pool = call.params.text("pool");
  what.node = call.params.text("target");
  if (call.params.has("full")) what.full = call.params.flag("full");
  if (!what.node.empty() && dc.find_node(what.node) == nullptr)
    die(fmt::format("no such cluster node '{}'", what.node));
  if (!what.pool.empty() && !dc.access.pools.contains(what.pool))
    deny(fmt::format("pool '{}' does not exist", what.pool));
  if (!what.storage.empty()) {
    call.require("/storage/" + what.storage, {"Datastore.AllocateSpace"});
    dc.get_storage_on(what.storage, call.node);
    if (!what.node.empty() && what.node != call.node.name && !dc.get_storage(what.storage).shared)
      die(fmt::format("can't clone to non-shared storage '{}'", what.storage));
  }
  if (!dc.quorate) die("cluster not ready - no quorum?");
  const bool running = is_running(get_process_vm(call, what.id));
  check_clone(call, what);
  co_return string(call.node.start_task(
      "qmclone", std::to_string(what.id), call.caller,
      [what, running](Worker& worker) { return clone_worker(worker, what, running); }));
}

Routine<text::Value> feature(Call& call) {
  const Vm& vm = get_process_vm(call, call.vmid());
  const std::string wanted = call.params.text("feature");
  const std::string snapshot = call.params.text("snapname");
  if (!snapshot.empty() && !vm.snapshots.contains(snapshot))
    die(fmt::format("snapshot '{}' does not exist", snapshot));
  bool has = true;
  bool shared = true;
  for (const auto& [key, value] : vm.config) {
    if (!is_drive_key(key)) continue;
    const auto drive = parse_drive(call.dc.schema, key, value);
    const auto id = drive ? VolumeId::parse(drive->file()) : std::nullopt;
    if (!id || drive->is_cdrom()) continue;
    const Storage& storage = call.dc.get_storage(id->storage);
    const Volume* volume = call.dc.find_volume(drive->file(), call.node);
    shared = shared && storage.shared;
    if (volume == nullptr) continue;
    if (wanted == "snapshot") has = has && can_snapshot(storage, *volume);
    if (wanted == "clone") has = has && parse_volume_name(storage, id->name).is_base;
  }
  text::Value nodes = text::Value::list();
  for (const auto& [name, node] : call.dc.nodes())
    if (shared || name == call.node.name) nodes.append(string(name));
  co_return object({{"hasFeature", number(has ? 1 : 0)}, {"nodes", nodes}});
}

}  // namespace

std::vector<Route> qemu_clone_routes() {
  return {
      {"POST /nodes/{node}/qemu/{vmid}/clone", clone},
      {"GET /nodes/{node}/qemu/{vmid}/feature", feature},
  };
}

}  // namespace rocca::lab::pve
