#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/pve/datacenter.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>

namespace rocca::lab::pve {

namespace {

std::string config_digest(const Datacenter& dc) {
  std::string text;
  for (const auto& [id, storage] : dc.storages) {
    text += fmt::format("{}: {}\n\tcontent {}\n", storage.type, id, join(storage.content, ","));
    for (const auto& [key, value] : storage.options) text += fmt::format("\t{} {}\n", key, value);
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), out.data(), &size, EVP_sha1(), nullptr);
  return to_hex({reinterpret_cast<const char*>(out.data()), size});
}

text::Value definition(const Datacenter& dc, const Storage& storage) {
  text::Value row = object({{"storage", string(storage.id)},
                            {"type", string(storage.type)},
                            {"content", string(join(storage.content, ","))},
                            {"digest", string(config_digest(dc))}});
  for (const auto& [key, value] : storage.options) row.set(key, string(value));
  if (storage.disabled) row.set("disable", number(1));
  if (storage.shared) row.set("shared", number(1));
  if (!storage.nodes.empty())
    row.set("nodes", string(join({storage.nodes.begin(), storage.nodes.end()}, ",")));
  return row;
}

Routine<text::Value> list_definitions(Call& call) {
  text::Value rows = text::Value::list();
  for (const auto& [id, storage] : call.dc.storages) {
    if (!call.may("/storage/" + id, {"Datastore.Audit", "Datastore.AllocateSpace"}, true)) continue;
    if (call.params.has("type") && storage.type != call.params.text("type")) continue;
    rows.append(definition(call.dc, storage));
  }
  co_return rows;
}

Routine<text::Value> read_definition(Call& call) {
  co_return definition(call.dc, call.dc.get_storage(call.params.text("storage")));
}

void apply_definition(Storage& storage, const Parameters& params) {
  for (const auto& [key, value] : params.all()) {
    if (key == "storage" || key == "type" || key == "digest" || key == "delete") continue;
    if (key == "content")
      storage.content = split_list(value);
    else if (key == "nodes") {
      storage.nodes.clear();
      for (const std::string& node : split_list(value)) storage.nodes.insert(node);
    } else if (key == "disable")
      storage.disabled = value == "1";
    else if (key == "shared")
      storage.shared = value == "1";
    else
      storage.options[key] = value;
  }
}

Routine<text::Value> create_definition(Call& call) {
  Storage storage;
  storage.id = call.params.text("storage");
  storage.type = call.params.text("type");
  static const std::map<std::string, std::vector<std::string>> required{
      {"dir", {"path"}},
      {"nfs", {"server", "export"}},
      {"lvm", {"vgname"}},
      {"lvmthin", {"vgname", "thinpool"}},
      {"zfspool", {"pool"}}};
  if (const auto needs = required.find(storage.type); needs != required.end())
    for (const std::string& key : needs->second)
      if (!call.params.has(key)) die(fmt::format("missing value for required option '{}'", key));
  const Locks::Guard lock = co_await call.lock_cfs("file-storage_cfg");
  storage.content = {"images", "rootdir"};
  storage.shared = storage.type == "nfs" || storage.type == "cifs" || storage.type == "rbd" ||
                   storage.type == "cephfs";
  apply_definition(storage, call.params);
  if (!call.dc.storages.emplace(storage.id, storage).second)
    die(fmt::format("create storage failed: storage ID '{}' already defined", storage.id));
  co_return object({{"storage", string(storage.id)}, {"type", string(storage.type)}});
}

Routine<text::Value> update_definition(Call& call) {
  const std::string id = call.params.text("storage");
  const Locks::Guard lock = co_await call.lock_cfs("file-storage_cfg");
  Storage* storage = call.dc.find_storage(id);
  if (storage == nullptr)
    die(fmt::format("update storage failed: storage '{}' does not exist", id));
  if (call.params.has("digest") && call.params.text("digest") != config_digest(call.dc))
    die("update storage failed: detected modified configuration - file changed by other user? Try "
        "again.");
  apply_definition(*storage, call.params);
  for (const std::string& key : call.params.split("delete")) {
    storage->options.erase(key);
    if (key == "nodes") storage->nodes.clear();
    if (key == "disable") storage->disabled = false;
  }
  co_return object({{"storage", string(id)}, {"type", string(storage->type)}});
}

Routine<text::Value> delete_definition(Call& call) {
  const std::string id = call.params.text("storage");
  const Locks::Guard lock = co_await call.lock_cfs("file-storage_cfg");
  if (call.dc.storages.erase(id) == 0)
    die(fmt::format("delete storage failed: storage '{}' does not exist", id));
  co_return text::Value::null();
}

/// What a host says of a storage: enabled there, active, and how full.
text::Value status_row(const Storage& storage, const Node& node) {
  const bool enabled = !storage.disabled && storage.on_node(node.name);
  const auto bytes = [&](std::uint64_t value) {
    return number(enabled ? static_cast<std::int64_t>(value) : 0);
  };
  return object({{"type", string(storage.type)},
                 {"content", string(join(storage.content, ","))},
                 {"enabled", number(enabled ? 1 : 0)},
                 {"active", number(enabled ? 1 : 0)},
                 {"shared", number(storage.shared ? 1 : 0)},
                 {"total", bytes(storage.total)},
                 {"used", bytes(storage.used(node.name))},
                 {"avail", bytes(storage.available(node.name))}});
}

Routine<text::Value> list_storages(Call& call) {
  text::Value rows = text::Value::list();
  const std::string only = call.params.text("storage");
  for (const auto& [id, storage] : call.dc.storages) {
    if (!only.empty() && id != only) continue;
    if (!call.may("/storage/" + id, {"Datastore.Audit", "Datastore.AllocateSpace"}, true)) continue;
    if (call.params.flag("enabled") && storage.disabled) continue;
    if (call.params.has("content")) {
      bool any = false;
      for (const std::string& kind : call.params.split("content"))
        any = any || storage.allows(kind);
      if (!any || !storage.on_node(call.node.name)) continue;
    }
    if (call.params.has("target") && !storage.on_node(call.params.text("target"))) continue;
    text::Value row = status_row(storage, call.node);
    row.set("storage", string(id));
    const bool enabled = !storage.disabled && storage.on_node(call.node.name);
    if (enabled && storage.total > 0)
      row.set("used_fraction",
              text::Value::floating(static_cast<double>(storage.used(call.node.name)) /
                                    static_cast<double>(storage.total)));
    if (call.params.flag("format")) {
      std::vector<std::string> formats = storage.formats();
      std::sort(formats.begin(), formats.end());
      text::Value flags = text::Value::map();
      text::Value supported = text::Value::list();
      for (const std::string& format : formats) {
        flags.set(format, number(1));
        supported.append(string(format));
      }
      row.set("format", text::Value::list({flags, string(storage.default_format())}));
      if (call.dc.release.nine())
        row.set("formats",
                object({{"default", string(storage.default_format())}, {"supported", supported}}));
    }
    rows.append(std::move(row));
  }
  co_return rows;
}

Routine<text::Value> storage_index(Call& call) {
  call.dc.get_storage(call.params.text("storage"));
  text::Value rows = text::Value::list();
  if (call.dc.release.nine()) rows.append(object({{"subdir", string("oci-registry-pull")}}));
  for (const char* name : {"content", "download-url", "file-restore", "import-metadata",
                           "prunebackups", "rrd", "rrddata", "status", "upload"})
    rows.append(object({{"subdir", string(name)}}));
  co_return rows;
}

Routine<text::Value> storage_status(Call& call) {
  const Storage* storage = call.dc.find_storage(call.params.text("storage"));
  if (storage == nullptr) refuse_parameter("storage", "No such storage.");
  co_return status_row(*storage, call.node);
}

/// ISO, template and import files: AllocateSpace or Audit. Guest images: Audit and the right to
/// configure the owner.
bool may_see(const Call& call, const Storage& storage, const Volume& volume) {
  const std::string path = "/storage/" + storage.id;
  if (call.may(path, {"Datastore.Allocate"})) return true;
  if (volume.content == "images" || volume.content == "rootdir")
    return call.may(path, {"Datastore.Audit"}) && volume.vmid &&
           call.may(fmt::format("/vms/{}", *volume.vmid), {"VM.Config.Disk"});
  if (volume.content == "backup")
    return call.may(path, {"Datastore.AllocateSpace"}) && volume.vmid &&
           call.may(fmt::format("/vms/{}", *volume.vmid), {"VM.Backup"});
  return call.may(path, {"Datastore.AllocateSpace", "Datastore.Audit"}, true);
}

Routine<text::Value> list_content(Call& call) {
  const Storage& storage = call.dc.get_storage_on(call.params.text("storage"), call.node);
  text::Value rows = text::Value::list();
  for (const auto& [name, volume] : storage.on(call.node.name)) {
    if (call.params.has("content") && volume.content != call.params.text("content")) continue;
    if (!call.params.has("content") && !storage.allows(volume.content)) continue;
    if (call.params.has("vmid") && volume.vmid != call.vmid()) continue;
    if (!may_see(call, storage, volume)) continue;
    text::Value row = object({{"volid", string(storage.volid(volume))},
                              {"content", string(volume.content)},
                              {"format", string(volume.content == "iso" ? "iso" : volume.format)},
                              {"ctime", number(volume.ctime)}});
    if (volume.content == "images") {
      row.set("size", number(static_cast<std::int64_t>(volume.size)));
      row.set("used", number(static_cast<std::int64_t>(volume.used)));
      row.set("vmid", number(volume.vmid.value_or(0)));
      // A file's base is named by its path, seen from the clone.
      if (storage.file_based())
        row.set("parent",
                volume.parent.empty() ? text::Value::null() : string("../" + volume.parent));
      else if (!volume.parent.empty())
        row.set("parent", string(volume.parent));
    } else {
      row.set("size", number(static_cast<std::int64_t>(volume.used)));
    }
    if (!volume.notes.empty()) row.set("notes", string(volume.notes));
    rows.append(std::move(row));
  }
  co_return rows;
}

/// `{volume}` of the path: a whole volid, or the part behind the colon.
VolumeId volume_of(const Call& call) {
  const std::string storage = call.params.text("storage");
  const std::string text = call.params.text("volume");
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return {storage, text};
  const std::string given = text.substr(0, colon);
  if (given != storage)
    refuse_parameter("volume", fmt::format("storage ID mismatch ({} != {})\n", given, storage));
  return {storage, text.substr(colon + 1)};
}

Routine<text::Value> read_volume(Call& call) {
  const VolumeId id = volume_of(call);
  Storage& storage = call.dc.get_storage_on(id.storage, call.node);
  const VolumeName name = parse_volume_name(storage, id.name);
  const auto& there = storage.on(call.node.name);
  const auto found = there.find(id.name);
  const std::string volid = id.storage + ":" + id.name;
  Volume asked;
  asked.content = name.content;
  asked.vmid = name.vmid;
  if (!may_see(call, storage, found == there.end() ? asked : found->second))
    deny(fmt::format("/storage/{}, Datastore.Audit", id.storage));
  if (found == there.end()) die(fmt::format("volume_size_info on '{}' failed - no format", volid));
  const Volume& volume = found->second;
  text::Value row = object({{"path", string(storage.path_of(volume))},
                            {"size", number(static_cast<std::int64_t>(volume.size))},
                            {"used", number(static_cast<std::int64_t>(volume.used))},
                            {"format", string(volume.content == "iso" ? "raw" : volume.format)}});
  if (!volume.notes.empty()) row.set("notes", string(volume.notes));
  co_return row;
}

Routine<text::Value> annotate_volume(Call& call) {
  const VolumeId id = volume_of(call);
  Volume* volume = call.dc.find_volume(id.storage + ":" + id.name, call.node);
  if (volume == nullptr) die(fmt::format("volume '{}:{}' does not exist", id.storage, id.name));
  if (volume->content != "backup") die("attribute 'notes' is not supported for this volume");
  volume->notes = call.params.text("notes");
  co_return text::Value::null();
}

Routine<text::Value> allocate_volume(Call& call) {
  Storage& storage = call.dc.get_storage_on(call.params.text("storage"), call.node);
  const std::string id = storage.id;
  const std::string file = call.params.text("filename");
  const std::string size_text = call.params.text("size");
  std::uint64_t bytes = parse_uint(size_text.substr(0, size_text.find_first_of("MG"))).value_or(0)
                        << 10;
  if (size_text.ends_with("M")) bytes <<= 10;
  if (size_text.ends_with("G")) bytes <<= 20;
  std::string format = "raw";
  std::string name = file;
  if (storage.file_based()) {
    const std::size_t dot = file.rfind('.');
    const std::string ending = dot == std::string::npos ? "" : file.substr(dot + 1);
    if (ending != "raw" && ending != "qcow2" && ending != "vmdk")
      die(fmt::format("unable to parse volume filename '{}'", file));
    format = ending;
    name = fmt::format("{}/{}", call.vmid(), file);
  }
  const Locks::Guard lock = co_await call.lock_storage(id);
  co_await call.sleep(call.dc.timing.allocate);
  Storage& now = call.dc.get_storage(id);
  auto& there = now.on(call.node.name);
  if (there.contains(name))
    die(fmt::format("disk image '{}' already exists", now.path_of("images", name)));
  Volume volume;
  volume.name = name;
  volume.content = "images";
  volume.format = format;
  volume.size = now.round_up(bytes);
  volume.used = 0;
  volume.ctime = call.world().unix_time();
  volume.vmid = call.vmid();
  there.emplace(name, volume);
  co_return string(id + ":" + name);
}

Routine<text::Value> delete_volume(Call& call) {
  const VolumeId id = volume_of(call);
  Storage& storage = call.dc.get_storage_on(id.storage, call.node);
  const VolumeName name = parse_volume_name(storage, id.name);
  const std::string path = "/storage/" + id.storage;
  if (name.content == "backup" && name.vmid && call.may(path, {"Datastore.AllocateSpace"})) {
    call.require(fmt::format("/vms/{}", *name.vmid), {"VM.Backup"});
  } else {
    call.require(path, {"Datastore.Allocate"});
  }
  const std::string owner = name.vmid ? fmt::format("{}@{}", *name.vmid, id.storage) : id.storage;
  const std::string upid =
      call.node.start_task("imgdel", owner, call.caller, [id](Worker& worker) -> Routine<void> {
        const Locks::Guard lock = co_await worker.lock_storage(id.storage);
        co_await worker.sleep(worker.dc.timing.allocate);
        Storage& target = worker.dc.get_storage(id.storage);
        auto& there = target.on(worker.node.name);
        const std::string volid = id.storage + ":" + id.name;
        const auto found = there.find(id.name);
        if (found == there.end()) {
          const VolumeName parsed = parse_volume_name(target, id.name);
          worker.log(fmt::format("disk image '{}' does not exist",
                                 target.path_of(parsed.content, id.name)));
        } else {
          for (const auto& [other, volume] : there)
            if (volume.parent == id.name)
              die(fmt::format("base volume '{}' is still in use by linked clones", id.name));
          there.erase(found);
        }
        worker.log(fmt::format("Removed volume '{}'", volid));
      });
  if (!call.params.has("delay")) co_return string(upid);
  Task* task = call.node.find_task(upid);
  co_await call.world().wait(
      task->ended, call.world().now() + std::chrono::seconds{call.params.integer("delay")});
  if (task->running()) co_return string(upid);
  if (task->status != "OK") die(task->status);
  co_return text::Value::null();
}

Routine<text::Value> import_metadata(Call& call) {
  const Storage& storage = call.dc.get_storage_on(call.params.text("storage"), call.node);
  const VolumeName name = parse_volume_name(storage, call.params.text("volume"));
  if (name.format != "ova") die("invalid format");
  die("OVA files are not read by the lab");
}

}  // namespace

std::vector<Route> storage_routes() {
  return {
      {"GET /storage", list_definitions},
      {"POST /storage", create_definition},
      {"GET /storage/{storage}", read_definition},
      {"PUT /storage/{storage}", update_definition},
      {"DELETE /storage/{storage}", delete_definition},
      {"GET /nodes/{node}/storage", list_storages},
      {"GET /nodes/{node}/storage/{storage}", storage_index},
      {"GET /nodes/{node}/storage/{storage}/status", storage_status},
      {"GET /nodes/{node}/storage/{storage}/content", list_content},
      {"POST /nodes/{node}/storage/{storage}/content", allocate_volume},
      {"GET /nodes/{node}/storage/{storage}/content/{volume}", read_volume},
      {"PUT /nodes/{node}/storage/{storage}/content/{volume}", annotate_volume},
      {"DELETE /nodes/{node}/storage/{storage}/content/{volume}", delete_volume},
      {"GET /nodes/{node}/storage/{storage}/import-metadata", import_metadata},
  };
}

}  // namespace rocca::lab::pve
