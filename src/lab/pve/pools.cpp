#include "base/strings.hpp"
#include "lab/pve/resources.hpp"

#include <fmt/format.h>

#include <cctype>

namespace rocca::lab::pve {

namespace {

constexpr const char* lock_name = "file-user_cfg";

text::Value pool_row(const std::string& id, const Pool& pool) {
  text::Value row = object({{"poolid", string(id)}});
  if (!pool.comment.empty()) row.set("comment", string(pool.comment));
  return row;
}

Pool& get_pool(Call& call, const std::string& id, const std::string& prefix = "") {
  const auto found = call.dc.access.pools.find(id);
  if (found == call.dc.access.pools.end())
    die(fmt::format("{}pool '{}' does not exist", prefix, id));
  return found->second;
}

text::Value with_members(Call& call, const std::string& id, const Pool& pool,
                         const std::string& type) {
  text::Value row = pool_row(id, pool);
  text::Value members = text::Value::list();
  if (type.empty() || type == "qemu")
    for (const unsigned vmid : pool.vms)
      if (const Vm* vm = call.dc.find_vm(vmid)) {
        text::Value member = vm_resource(call.dc, *vm);
        member.erase("tags");
        members.append(std::move(member));
      }
  if (type.empty() || type == "storage")
    for (const std::string& storage : pool.storages)
      for (const auto& [name, node] : call.dc.nodes())
        if (auto member = storage_resource(call.dc, storage, *node))
          members.append(std::move(*member));
  row.set("members", members);
  return row;
}

Routine<text::Value> list_pools(Call& call) {
  const std::string wanted = call.params.text("poolid");
  text::Value rows = text::Value::list();
  if (!wanted.empty()) {
    const Pool& pool = get_pool(call, wanted);
    call.require("/pool/" + wanted, {"Pool.Audit", "Pool.Allocate"}, true);
    rows.append(with_members(call, wanted, pool, call.params.text("type")));
    co_return rows;
  }
  for (const auto& [id, pool] : call.dc.access.pools)
    if (call.may("/pool/" + id, {"Pool.Audit"})) rows.append(pool_row(id, pool));
  co_return rows;
}

Routine<text::Value> read_pool(Call& call) {
  const std::string id = call.params.text("poolid");
  co_return with_members(call, id, get_pool(call, id), call.params.text("type"));
}

Routine<text::Value> create_pool(Call& call) {
  const std::string id = call.params.text("poolid");
  const Locks::Guard lock = co_await call.lock_cfs(lock_name);
  auto& pools = call.dc.access.pools;
  if (call.dc.release.nine() && !std::isalpha(static_cast<unsigned char>(id.front())))
    die("create pool failed: pool name must start with a letter");
  if (pools.contains(id)) die(fmt::format("create pool failed: pool '{}' already exists", id));
  if (const std::size_t slash = id.rfind('/');
      slash != std::string::npos && !pools.contains(id.substr(0, slash)))
    die(fmt::format("create pool failed: parent '{}' of pool '{}' does not exist",
                    id.substr(0, slash), id));
  pools[id].comment = call.params.text("comment");
  co_return text::Value::null();
}

void change_vms(Call& call, const std::string& id, Pool& pool, bool remove) {
  for (const std::string& word : call.params.split("vms")) {
    const auto vmid = static_cast<unsigned>(parse_uint(word).value_or(0));
    const std::string path = "/vms/" + word;
    if (!call.may(path, {"Permissions.Modify", "VM.Allocate"}, true))
      die(fmt::format(
          "update pools failed: 403 Permission check failed ({}, Permissions.Modify|VM.Allocate)",
          path));
    if (remove) {
      if (pool.vms.erase(vmid) == 0)
        die(fmt::format("update pools failed: VM {} is not a pool member", vmid));
      continue;
    }
    const auto now = call.dc.access.pool_of_vm(vmid);
    if (now == id) die(fmt::format("update pools failed: VM {} is already a pool member", vmid));
    if (now) {
      if (!call.params.flag("allow-move"))
        die(fmt::format(
            "update pools failed: VM {} belongs already to pool '{}' and 'allow-move' is not set",
            vmid, *now));
      call.dc.access.pools.at(*now).vms.erase(vmid);
    }
    pool.vms.insert(vmid);
  }
}

void change_storages(Call& call, Pool& pool, bool remove) {
  for (const std::string& storage : call.params.split("storage")) {
    const std::string path = "/storage/" + storage;
    if (!call.may(path, {"Permissions.Modify", "Datastore.Allocate"}, true))
      die(
          fmt::format("update pools failed: 403 Permission check failed ({}, "
                      "Permissions.Modify|Datastore.Allocate)",
                      path));
    if (remove) {
      if (pool.storages.erase(storage) == 0)
        die(fmt::format("update pools failed: Storage '{}' is not a pool member", storage));
    } else if (!pool.storages.insert(storage).second) {
      die(fmt::format("update pools failed: Storage '{}' is already a pool member", storage));
    }
  }
}

Routine<text::Value> update_pool(Call& call) {
  const std::string id = call.params.text("poolid");
  const Locks::Guard lock = co_await call.lock_cfs(lock_name);
  Pool& pool = get_pool(call, id, "update pools failed: ");
  if (call.params.has("comment")) pool.comment = call.params.text("comment");
  change_vms(call, id, pool, call.params.flag("delete"));
  change_storages(call, pool, call.params.flag("delete"));
  co_return text::Value::null();
}

Routine<text::Value> delete_pool(Call& call) {
  const std::string id = call.params.text("poolid");
  const Locks::Guard lock = co_await call.lock_cfs(lock_name);
  const Pool& pool = get_pool(call, id, "delete pool failed: ");
  const auto refuse = [&](const std::string& what) {
    die(fmt::format("delete pool failed: pool '{}' is not empty (contains {})", id, what));
  };
  for (const auto& [other, ignored] : call.dc.access.pools)
    if (other.starts_with(id + "/")) refuse(fmt::format("pool '{}'", other));
  for (const unsigned vmid : pool.vms)
    if (call.dc.find_vm(vmid) != nullptr) refuse(fmt::format("VM {}", vmid));
  for (const std::string& storage : pool.storages)
    if (call.dc.find_storage(storage) != nullptr) refuse(fmt::format("storage '{}'", storage));
  call.dc.access.pools.erase(id);
  call.dc.access.acl.erase("/pool/" + id);
  co_return text::Value::null();
}

}  // namespace

std::vector<Route> pool_routes() {
  return {
      {"GET /pools", list_pools},
      {"POST /pools", create_pool},
      {"PUT /pools", update_pool},
      {"DELETE /pools", delete_pool},
      {"GET /pools/{poolid}", read_pool},
      {"PUT /pools/{poolid}", update_pool},
      {"DELETE /pools/{poolid}", delete_pool},
  };
}

}  // namespace rocca::lab::pve
