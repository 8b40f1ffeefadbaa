#include "base/strings.hpp"
#include "lab/pve/resources.hpp"

#include <fmt/format.h>

namespace rocca::lab::pve {

namespace {

Routine<text::Value> version(Call& call) {
  co_return object({{"version", string(call.dc.release.manager)},
                    {"release", string(call.dc.release.release)},
                    {"repoid", string(call.dc.release.repoid)}});
}

Routine<text::Value> cluster_index(Call& call) {
  text::Value rows = text::Value::list();
  for (const char* name : {"acme", "backup", "backup-info", "ceph", "config", "firewall", "ha",
                           "jobs", "log", "mapping", "metrics", "notifications", "nextid",
                           "options", "replication", "resources", "status", "tasks", "sdn"})
    rows.append(object({{"name", string(name)}}));
  if (call.dc.release.nine()) rows.append(object({{"name", string("bulk-action")}}));
  co_return rows;
}

/// The newest first. Without Sys.Syslog on / only what the caller did itself.
Routine<text::Value> cluster_log(Call& call) {
  const bool all = call.may("/", {"Sys.Syslog"});
  const auto most = static_cast<std::size_t>(call.params.integer("max", 50));
  text::Value rows = text::Value::list();
  const auto& log = call.dc.log;
  for (auto entry = log.rbegin(); entry != log.rend() && rows.items().size() < most; ++entry) {
    if (!all && entry->user != call.caller.id) continue;
    const auto number_of_entry = log.rend() - entry;
    rows.append(object({{"id", string(fmt::format("{}: {}", entry->node, number_of_entry))},
                        {"uid", string(std::to_string(number_of_entry))},
                        {"time", number(entry->time)},
                        {"pri", number(entry->priority)},
                        {"tag", string("pvedaemon")},
                        {"pid", number(entry->pid)},
                        {"node", string(entry->node)},
                        {"user", string(entry->user)},
                        {"msg", string(entry->message)}}));
  }
  co_return rows;
}

Routine<text::Value> resources(Call& call) {
  const std::string type = call.params.text("type");
  Datacenter& dc = call.dc;
  text::Value rows = text::Value::list();
  if (type.empty())
    for (const auto& [id, pool] : dc.access.pools)
      if (call.may("/pool/" + id, {"Pool.Audit"}))
        rows.append(object(
            {{"id", string("/pool/" + id)}, {"type", string("pool")}, {"pool", string(id)}}));
  if (type.empty() || type == "vm")
    for (const auto& [id, vm] : dc.vms) {
      if (!call.may(fmt::format("/vms/{}", id), {"VM.Audit"})) continue;
      text::Value row = vm_resource(dc, vm);
      if (const auto pool = dc.access.pool_of_vm(id);
          pool && call.may("/pool/" + *pool, {"Pool.Audit"}))
        row.set("pool", string(*pool));
      if (const auto ha = dc.ha.find(fmt::format("vm:{}", id)); ha != dc.ha.end())
        row.set("hastate", string(ha->second.state));
      rows.append(std::move(row));
    }
  if (type.empty() || type == "node")
    for (const auto& [name, node] : dc.nodes()) {
      text::Value row = node_resource(dc, *node, call.may("/nodes/" + name, {"Sys.Audit"}));
      row.set("cgroup-mode", number(node->cgroup_mode));
      rows.append(std::move(row));
    }
  if (type.empty() || type == "storage")
    for (const auto& [id, storage] : dc.storages) {
      if (!call.may("/storage/" + id, {"Datastore.Audit"})) continue;
      for (const auto& [name, node] : dc.nodes())
        if (auto row = storage_resource(dc, id, *node)) rows.append(std::move(*row));
    }
  co_return rows;
}

Routine<text::Value> next_id(Call& call) {
  if (call.params.has("vmid")) {
    const unsigned id = call.vmid();
    if (call.dc.find_vm(id) != nullptr)
      refuse_parameter("vmid", fmt::format("VM {} already exists", id));
    co_return string(std::to_string(id));
  }
  unsigned lower = 100;
  unsigned upper = 1'000'000;
  if (const auto range = call.dc.options.find("next-id"); range != call.dc.options.end())
    for (const std::string& part : split(range->second, ',')) {
      if (part.starts_with("lower="))
        lower = static_cast<unsigned>(parse_uint(part.substr(6)).value_or(lower));
      if (part.starts_with("upper="))
        upper = static_cast<unsigned>(parse_uint(part.substr(6)).value_or(upper));
    }
  for (unsigned id = lower; id < upper; ++id)
    if (call.dc.find_vm(id) == nullptr) co_return string(std::to_string(id));
  die(fmt::format("unable to get any free VMID in range [{}, {}]", lower, upper));
}

Routine<text::Value> status(Call& call) {
  text::Value rows = text::Value::list();
  const bool clustered = !call.dc.cluster.empty();
  if (clustered)
    rows.append(object({{"type", string("cluster")},
                        {"id", string("cluster")},
                        {"name", string(call.dc.cluster)},
                        {"nodes", number(static_cast<std::int64_t>(call.dc.nodes().size()))},
                        {"version", number(static_cast<std::int64_t>(call.dc.nodes().size()))},
                        {"quorate", number(call.dc.quorate ? 1 : 0)}}));
  for (const auto& [name, node] : call.dc.nodes())
    rows.append(object({{"type", string("node")},
                        {"id", string("node/" + name)},
                        {"name", string(name)},
                        {"nodeid", number(clustered ? node->id : 0)},
                        {"ip", string(node->address)},
                        {"local", number(node.get() == &call.node ? 1 : 0)},
                        {"online", number(node->online ? 1 : 0)},
                        {"level", string("")}}));
  co_return rows;
}

/// Property strings of datacenter.cfg come back as objects, the rest as text.
text::Value option_value(const Schema& schema, const std::string& key, const std::string& value) {
  const Format* format = schema.find_format(key);
  if (format == nullptr)
    return key == "max_workers" ? number(parse_int(value).value_or(0)) : string(value);
  text::Value parsed = text::Value::map();
  for (const auto& [name, each] : schema.parse(*format, value, key)) {
    const auto known = format->keys.find(name);
    const bool is_number =
        known != format->keys.end() && (known->second.type == Parameter::Type::Integer ||
                                        known->second.type == Parameter::Type::Boolean);
    parsed.set(name, is_number ? number(parse_int(each).value_or(0)) : string(each));
  }
  return parsed;
}

std::vector<std::string> allowed_tags(const Datacenter& dc) {
  std::set<std::string> tags;
  if (const auto registered = dc.options.find("registered-tags"); registered != dc.options.end())
    for (const std::string& tag : split_list(registered->second)) tags.insert(tag);
  if (const auto access = dc.options.find("user-tag-access"); access != dc.options.end())
    for (const std::string& part : split(access->second, ','))
      if (part.starts_with("user-allow-list="))
        for (const std::string& tag : split_list(part.substr(16))) tags.insert(tag);
  return {tags.begin(), tags.end()};
}

Routine<text::Value> options(Call& call) {
  const bool all = call.may("/", {"Sys.Audit"});
  text::Value data = text::Value::map();
  if (all) data.set("mac_prefix", string("BC:24:11"));
  for (const auto& [key, value] : call.dc.options)
    if (all || key == "console" || key == "tag-style")
      data.set(key, option_value(call.dc.schema, key, value));
  if (all && data.find("description") == nullptr) data.set("description", string(""));
  text::Value tags = text::Value::list();
  for (const std::string& tag : allowed_tags(call.dc)) tags.append(string(tag));
  data.set("allowed-tags", tags);
  co_return data;
}

Routine<text::Value> set_options(Call& call) {
  const Locks::Guard lock = co_await call.lock_cfs("file-datacenter_cfg");
  if (const std::string* range = call.params.find("next-id")) {
    const auto parts =
        call.dc.schema.parse(*call.dc.schema.find_format("next-id"), *range, "next-id");
    const auto at = [&](const char* key, std::int64_t fallback) {
      const auto found = parts.find(key);
      return found == parts.end() ? fallback : parse_int(found->second).value_or(fallback);
    };
    const std::int64_t lower = at("lower", 100);
    const std::int64_t upper = at("upper", 1'000'000);
    if (lower > upper)
      die(fmt::format("lower ({}) <= upper ({}) boundary rule broken", lower, upper));
  }
  for (const std::string& key : call.params.split("delete")) call.dc.options.erase(key);
  for (const auto& [key, value] : call.params.all())
    if (key != "delete") call.dc.options[key] = value;
  co_return text::Value::null();
}

Routine<text::Value> nothing(Call&) {
  co_return text::Value::list();
}

Routine<text::Value> zones(Call& call) {
  text::Value rows = text::Value::list();
  for (const auto& [id, zone] : call.dc.zones) {
    if (!call.may("/sdn/zones/" + id, {"SDN.Audit", "SDN.Allocate"}, true)) continue;
    text::Value row = object({{"zone", string(id)}});
    for (const auto& [key, value] : zone) row.set(key, string(value));
    rows.append(std::move(row));
  }
  co_return rows;
}

Routine<text::Value> vnets(Call& call) {
  text::Value rows = text::Value::list();
  for (const auto& [id, vnet] : call.dc.vnets) {
    const auto zone = vnet.find("zone");
    if (zone == vnet.end() ||
        !call.may("/sdn/zones/" + zone->second + "/" + id, {"SDN.Audit", "SDN.Allocate"}, true))
      continue;
    text::Value row = object({{"vnet", string(id)}, {"type", string("vnet")}});
    for (const auto& [key, value] : vnet) row.set(key, string(value));
    rows.append(std::move(row));
  }
  co_return rows;
}

}  // namespace

std::vector<Route> cluster_routes() {
  return {
      {"GET /version", version},          {"GET /nodes/{node}/version", version},
      {"GET /cluster", cluster_index},    {"GET /cluster/resources", resources},
      {"GET /cluster/nextid", next_id},   {"GET /cluster/status", status},
      {"GET /cluster/options", options},  {"PUT /cluster/options", set_options},
      {"GET /cluster/sdn/zones", zones},  {"GET /cluster/sdn/vnets", vnets},
      {"GET /nodes/{node}/lxc", nothing}, {"GET /cluster/log", cluster_log},
  };
}

}  // namespace rocca::lab::pve
