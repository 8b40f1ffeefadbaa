// Snapshots: the config sections, and rolling back.

#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"
#include "lab/pve/resources.hpp"

#include <fmt/format.h>

namespace rocca::lab::pve {

namespace {

bool copied(const std::string& key) {
  return key != "snaptime" && key != "vmstate" && key != "lock" && key != "description" &&
         key != "snapstate" && key != "runningmachine" && key != "runningcpu" &&
         !is_unused_key(key);
}

/// Drives with a volume of their own that a snapshot covers. The cloud-init drive is one of them,
/// but nobody asks whether its storage can.
std::vector<Drive> disks_of(const Process& process, const ConfigSection& config,
                            bool with_cloudinit = true) {
  std::vector<Drive> disks;
  for (const auto& [key, value] : config) {
    if (!is_drive_key(key)) continue;
    const auto drive = parse_drive(process.dc.schema, key, value);
    if (!drive || !VolumeId::parse(drive->file())) continue;
    if (!drive->is_cdrom() || (with_cloudinit && drive->is_cloudinit())) disks.push_back(*drive);
  }
  return disks;
}

bool can_snapshot(const Process& process, const std::string& volid) {
  const auto id = VolumeId::parse(volid);
  const Storage& storage = process.dc.get_storage(id->storage);
  if (!storage.file_based())
    return storage.type == "lvmthin" || storage.type == "zfspool" || storage.type == "rbd";
  return parse_volume_name(storage, id->name).format == "qcow2";
}

Routine<text::Value> list_snapshots(Call& call) {
  const Vm& vm = call.dc.get_vm(call.vmid(), call.node);
  text::Value rows = text::Value::list();
  for (const auto& [name, section] : vm.snapshots) {
    const auto text_of = [&keys = section](const char* key) {
      const auto found = keys.find(key);
      return found == keys.end() ? std::string() : found->second;
    };
    text::Value row = object({{"name", string(name)},
                              {"description", string(text_of("description"))},
                              {"snaptime", number(parse_int(text_of("snaptime")).value_or(0))},
                              {"vmstate", number(text_of("vmstate").empty() ? 0 : 1)}});
    if (const std::string parent = text_of("parent"); !parent.empty())
      row.set("parent", string(parent));
    rows.append(row);
  }
  text::Value row = object({{"name", string("current")},
                            {"description", string("You are here!")},
                            {"digest", string(config_digest(vm))},
                            {"running", number(is_running(vm) ? 1 : 0)}});
  if (const std::string* parent = vm.find("parent")) row.set("parent", string(*parent));
  rows.append(row);
  co_return rows;
}

Routine<void> snapshot_worker(Worker& worker, unsigned id, std::string name,
                              std::string description, bool with_memory) {
  const Locks::Guard lock = co_await lock_guest(worker, id);
  std::string state;
  bool paused = false;
  {
    Vm& vm = worker.dc.get_vm(id, worker.node);
    if (is_template(vm)) die("you can't take a snapshot if it's a template");
    check_lock(vm);
    if (vm.snapshots.contains(name)) die(fmt::format("snapshot name '{}' already used", name));
    for (const Drive& drive : disks_of(worker, vm.config, false))
      if (!can_snapshot(worker, drive.file())) die("snapshot feature is not available");
    for (const Drive& drive : disks_of(worker, vm.config)) activate(worker, drive.file());
    vm.config["lock"] = "snapshot";
    paused = with_memory && is_running(vm);
  }
  if (paused) {
    const std::string storage = state_storage(worker, worker.dc.get_vm(id, worker.node));
    std::exception_ptr failed;
    try {
      state = co_await allocate_state({worker, &worker}, id, name, storage);
      worker.log(fmt::format("saving VM state and RAM using storage '{}'", storage));
      co_await worker.sleep(std::chrono::milliseconds{memory_of(worker.dc.get_vm(id, worker.node)) *
                                                      1000 / worker.dc.timing.import_rate});
    } catch (...) {
      failed = std::current_exception();
    }
    if (failed) {
      worker.dc.get_vm(id, worker.node).config.erase("lock");
      std::rethrow_exception(failed);
    }
  }
  for (const Drive& drive : disks_of(worker, worker.dc.get_vm(id, worker.node).config)) {
    worker.log(fmt::format("snapshotting 'drive-{}' ({})", drive.key, drive.file()));
    co_await worker.sleep(worker.dc.timing.allocate);
  }
  Vm& vm = worker.dc.get_vm(id, worker.node);
  vm.config.erase("lock");
  load(vm);
  ConfigSection section;
  for (const auto& [key, value] : vm.config)
    if (copied(key)) section[key] = value;
  section["snaptime"] = std::to_string(worker.world().unix_time());
  if (!description.empty()) section["description"] = description;
  if (!state.empty()) {
    section["vmstate"] = state;
    section["runningmachine"] = running_machine(worker.dc, vm);
  }
  vm.snapshots[name] = std::move(section);
  vm.config["parent"] = name;
}

Routine<text::Value> create_snapshot(Call& call) {
  const unsigned id = call.vmid();
  const std::string name = call.params.text("snapname");
  if (name == "current" || to_lower(name) == "pending")
    die(fmt::format("unable to use snapshot name '{}' (reserved name)", name));
  call.dc.get_vm(id, call.node);
  const std::string description = call.params.text("description");
  const bool memory = call.params.flag("vmstate");
  co_return string(call.node.start_task("qmsnapshot", std::to_string(id), call.caller,
                                        [id, name, description, memory](Worker& worker) {
                                          return snapshot_worker(worker, id, name, description,
                                                                 memory);
                                        }));
}

Routine<void> rollback_worker(Worker& worker, unsigned id, std::string name, bool start) {
  const Locks::Guard lock = co_await lock_guest(worker, id);
  {
    const Vm& vm = worker.dc.get_vm(id, worker.node);
    if (is_template(vm)) die("you can't rollback if vm is a template");
    const auto found = vm.snapshots.find(name);
    if (found == vm.snapshots.end()) die(fmt::format("snapshot '{}' does not exist", name));
    check_lock(vm);
    for (const Drive& drive : disks_of(worker, found->second)) activate(worker, drive.file());
  }
  co_await worker.sleep(worker.dc.timing.allocate);
  {
    Vm& vm = worker.dc.get_vm(id, worker.node);
    if (is_running(vm)) set_stopped(worker.dc, vm);
    const ConfigSection& section = vm.snapshots.at(name);
    ConfigSection config;
    for (const auto& [key, value] : vm.config)
      if (is_unused_key(key) || key == "description") config[key] = value;
    for (const auto& [key, value] : section)
      if (copied(key)) config[key] = value;
    config["parent"] = name;
    // Disks that came after the snapshot are kept, unused.
    std::vector<std::string> left;
    for (const Drive& drive : disks_of(worker, vm.config)) {
      bool kept = false;
      for (const Drive& old : disks_of(worker, section)) kept |= old.file() == drive.file();
      if (!kept) left.push_back(drive.file());
    }
    // The guest is told that it went back in time.
    if (config.contains("vmgenid")) config["vmgenid"] = worker.dc.new_uuid();
    for (const Drive& drive : disks_of(worker, section))
      activate(worker, drive.file()).size = parse_size(drive.get("size"));
    vm.config = std::move(config);
    for (const std::string& volid : left) add_unused(vm, volid);
    vm.pending.clear();
    vm.pending_delete.clear();
    store(worker.dc.schema, vm);
  }
  if (start) start_task_of(worker, id, {});
}

Routine<text::Value> rollback(Call& call) {
  const unsigned id = call.vmid();
  const std::string name = call.params.text("snapname");
  const bool start = call.params.flag("start");
  if (start && call.dc.release.nine()) call.require(fmt::format("/vms/{}", id), {"VM.PowerMgmt"});
  co_return string(call.node.start_task(
      "qmrollback", std::to_string(id), call.caller,
      [id, name, start](Worker& worker) { return rollback_worker(worker, id, name, start); }));
}

Routine<void> delete_worker(Worker& worker, unsigned id, std::string name) {
  const Locks::Guard lock = co_await lock_guest(worker, id);
  std::string state;
  {
    Vm& vm = worker.dc.get_vm(id, worker.node);
    if (is_template(vm)) die("you can't delete a snapshot if vm is a template");
    if (!vm.snapshots.contains(name)) die(fmt::format("snapshot '{}' does not exist", name));
    check_lock(vm);
    vm.config["lock"] = "snapshot-delete";
    const ConfigSection& section = vm.snapshots.at(name);
    if (const auto found = section.find("vmstate"); found != section.end()) state = found->second;
  }
  co_await worker.sleep(worker.dc.timing.allocate);
  if (!state.empty()) co_await free_volume({worker, &worker}, state);
  Vm& vm = worker.dc.get_vm(id, worker.node);
  vm.config.erase("lock");
  const auto gone = vm.snapshots.extract(name);
  const auto parent = gone.mapped().find("parent");
  const auto hand_over = [&](ConfigSection& section) {
    const auto found = section.find("parent");
    if (found == section.end() || found->second != name) return;
    if (parent == gone.mapped().end())
      section.erase(found);
    else
      found->second = parent->second;
  };
  hand_over(vm.config);
  for (auto& [other, section] : vm.snapshots) hand_over(section);
}

Routine<text::Value> delete_snapshot(Call& call) {
  const unsigned id = call.vmid();
  const std::string name = call.params.text("snapname");
  co_return string(
      call.node.start_task("qmdelsnapshot", std::to_string(id), call.caller,
                           [id, name](Worker& worker) { return delete_worker(worker, id, name); }));
}

ConfigSection& section_of(Call& call) {
  Vm& vm = call.dc.get_vm(call.vmid(), call.node);
  const std::string name = call.params.text("snapname");
  const auto found = vm.snapshots.find(name);
  if (found == vm.snapshots.end()) die(fmt::format("snapshot '{}' does not exist", name));
  return found->second;
}

Routine<text::Value> snapshot_config(Call& call) {
  text::Value out = text::Value::map();
  for (const auto& [key, value] : section_of(call))
    out.set(key, json_of(call.dc.schema, key, value));
  co_return out;
}

Routine<text::Value> change_snapshot(Call& call) {
  const Locks::Guard lock = co_await call.lock_vm(call.vmid());
  check_lock(call.dc.get_vm(call.vmid(), call.node));
  ConfigSection& section = section_of(call);
  if (const std::string text = call.params.text("description"); !text.empty())
    section["description"] = text;
  else if (call.params.has("description"))
    section.erase("description");
  co_return text::Value::null();
}

Routine<text::Value> snapshot_index(Call&) {
  co_return text::Value::list(
      {object({{"cmd", string("rollback")}}), object({{"cmd", string("config")}})});
}

}  // namespace

std::vector<Route> qemu_snapshot_routes() {
  const char* const one = "GET /nodes/{node}/qemu/{vmid}/snapshot/{snapname}";
  return {
      {"GET /nodes/{node}/qemu/{vmid}/snapshot", list_snapshots},
      {"POST /nodes/{node}/qemu/{vmid}/snapshot", create_snapshot},
      {one, snapshot_index},
      {"DELETE /nodes/{node}/qemu/{vmid}/snapshot/{snapname}", delete_snapshot},
      {"GET /nodes/{node}/qemu/{vmid}/snapshot/{snapname}/config", snapshot_config},
      {"PUT /nodes/{node}/qemu/{vmid}/snapshot/{snapname}/config", change_snapshot},
      {"POST /nodes/{node}/qemu/{vmid}/snapshot/{snapname}/rollback", rollback},
  };
}

}  // namespace rocca::lab::pve
