#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/pve/resources.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

namespace rocca::lab::pve {

namespace {

std::string full_sid(const std::string& sid) {
  return sid.find(':') == std::string::npos ? "vm:" + sid : sid;
}

std::string sha1(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), out.data(), &size, EVP_sha1(), nullptr);
  return to_hex({reinterpret_cast<const char*>(out.data()), size});
}

std::string digest_of(const Datacenter& dc) {
  std::string text;
  for (const auto& [sid, each] : dc.ha)
    text += fmt::format("{}: {} {} {}\n", sid, each.state, each.group, each.comment);
  return sha1(text);
}

text::Value describe(const Datacenter& dc, const std::string& sid,
                     const Datacenter::HaResource& resource) {
  text::Value row = object({{"sid", string(sid)},
                            {"type", string(sid.substr(0, sid.find(':')))},
                            {"digest", string(digest_of(dc))}});
  if (!resource.state.empty()) row.set("state", string(resource.state));
  if (!resource.comment.empty()) row.set("comment", string(resource.comment));
  if (!resource.group.empty()) row.set("group", string(resource.group));
  if (resource.max_restart != 1) row.set("max_restart", number(resource.max_restart));
  if (!resource.failback) row.set("failback", number(0));
  if (resource.max_relocate != 1) row.set("max_relocate", number(resource.max_relocate));
  return row;
}

Datacenter::HaResource& get(Call& call, const std::string& sid) {
  const auto found = call.dc.ha.find(sid);
  if (found == call.dc.ha.end()) die(fmt::format("no such resource '{}'", sid));
  return found->second;
}

Routine<text::Value> index(Call&) {
  text::Value rows = text::Value::list();
  for (const char* name : {"resources", "groups", "status"})
    rows.append(object({{"id", string(name)}}));
  co_return rows;
}

Routine<text::Value> list(Call& call) {
  text::Value rows = text::Value::list();
  for (const auto& [sid, resource] : call.dc.ha) rows.append(describe(call.dc, sid, resource));
  co_return rows;
}

Routine<text::Value> read(Call& call) {
  const std::string sid = full_sid(call.params.text("sid"));
  co_return describe(call.dc, sid, get(call, sid));
}

void apply(Call& call, Datacenter::HaResource& resource) {
  if (call.params.has("group")) {
    const std::string group = call.params.text("group");
    if (call.dc.release.has_ha_rules())
      die("invalid parameter 'group': ha groups have been migrated to rules");
    die(fmt::format("HA group '{}' does not exist", group));
  }
  if (call.params.has("state")) {
    const std::string state = call.params.text("state");
    resource.state = state == "enabled" ? "started" : state;
  }
  if (call.params.has("failback")) resource.failback = call.params.flag("failback");
  if (call.params.has("comment")) resource.comment = call.params.text("comment");
  if (call.params.has("max_restart"))
    resource.max_restart = static_cast<unsigned>(call.params.integer("max_restart"));
  if (call.params.has("max_relocate"))
    resource.max_relocate = static_cast<unsigned>(call.params.integer("max_relocate"));
}

Routine<text::Value> create(Call& call) {
  const std::string sid = full_sid(call.params.text("sid"));
  const auto id = static_cast<unsigned>(parse_uint(sid.substr(sid.find(':') + 1)).value_or(0));
  if (call.dc.find_vm(id) == nullptr)
    die(fmt::format("resource '{}' does not exist in cluster", sid));
  const Locks::Guard lock = co_await call.lock_cfs("domain-ha");
  if (call.dc.ha.contains(sid))
    die(fmt::format("create resource failed: resource ID '{}' already defined", sid));
  Datacenter::HaResource resource;
  if (!call.params.has("state")) resource.state.clear();
  apply(call, resource);
  call.dc.ha.emplace(sid, resource);
  co_return text::Value::null();
}

Routine<text::Value> update(Call& call) {
  const std::string sid = full_sid(call.params.text("sid"));
  const Locks::Guard lock = co_await call.lock_cfs("domain-ha");
  apply(call, get(call, sid));
  co_return text::Value::null();
}

Routine<text::Value> remove(Call& call) {
  const std::string sid = full_sid(call.params.text("sid"));
  const Locks::Guard lock = co_await call.lock_cfs("domain-ha");
  if (call.dc.ha.erase(sid) == 0)
    die(fmt::format("cannot delete service '{}', not HA managed!", sid));
  if (!call.dc.release.has_ha_rules() || call.params.flag("purge", true))
    for (auto& [name, rule] : call.dc.ha_rules) {
      std::vector<std::string> left;
      for (const std::string& each : split_list(rule["resources"]))
        if (each != sid) left.push_back(each);
      rule["resources"] = join(left, ",");
    }
  std::erase_if(call.dc.ha_rules,
                [](const auto& each) { return each.second.at("resources").empty(); });
  co_return text::Value::null();
}

Routine<text::Value> status_index(Call&) {
  text::Value rows = text::Value::list();
  for (const char* name : {"current", "manager_status"})
    rows.append(object({{"name", string(name)}}));
  co_return rows;
}

Routine<text::Value> current(Call& call) {
  text::Value rows =
      text::Value::list({object({{"id", string("quorum")},
                                 {"type", string("quorum")},
                                 {"node", string(call.node.name)},
                                 {"status", string(call.dc.quorate ? "OK" : "No quorum on node")},
                                 {"quorate", number(call.dc.quorate ? 1 : 0)}})});
  if (call.dc.release.has_ha_rules())
    rows.append(object({{"id", string("fencing")},
                        {"type", string("fencing")},
                        {"node", string(call.node.name)},
                        {"armed-state", string("standby")},
                        {"status", string("standby (CRM watchdog standby)")}}));
  for (const auto& [sid, resource] : call.dc.ha) {
    const auto id = static_cast<unsigned>(parse_uint(sid.substr(sid.find(':') + 1)).value_or(0));
    const Vm* vm = call.dc.find_vm(id);
    const std::string node = vm == nullptr ? call.node.name : vm->node;
    const std::string state = resource.state.empty() ? "started" : resource.state;
    text::Value row =
        object({{"id", string("service:" + sid)},
                {"type", string("service")},
                {"sid", string(sid)},
                {"node", string(node)},
                {"state", string(state == "ignored" ? "ignored" : "queued")},
                {"request_state", string(state)},
                {"max_restart", number(resource.max_restart)},
                {"max_relocate", number(resource.max_relocate)},
                {"status", string(fmt::format("{} ({}, {})", sid, node,
                                              state == "ignored" ? "ignored" : "queued"))}});
    if (!resource.comment.empty()) row.set("comment", string(resource.comment));
    if (call.dc.release.has_ha_rules()) row.set("failback", number(resource.failback ? 1 : 0));
    rows.append(std::move(row));
  }
  co_return rows;
}

Routine<text::Value> no_groups(Call& call) {
  if (call.dc.release.has_ha_rules())
    die("cannot index groups: ha groups have been migrated to rules");
  co_return text::Value::list();
}

Routine<text::Value> create_group(Call& call) {
  if (call.dc.release.has_ha_rules())
    die("cannot create group: ha groups have been migrated to rules");
  co_return text::Value::null();
}

text::Value rule_row(const Datacenter& dc, const std::string& name,
                     const std::map<std::string, std::string>& rule) {
  std::string all;
  std::int64_t order = 1;
  for (const auto& [other, keys] : dc.ha_rules) {
    if (other < name) ++order;
    all += other;
    for (const auto& [key, value] : keys) all += fmt::format("\n\t{} {}", key, value);
  }
  text::Value row =
      object({{"rule", string(name)}, {"digest", string(sha1(all))}, {"order", number(order)}});
  for (const auto& [key, value] : rule)
    row.set(key, key == "strict" || key == "disable" ? number(parse_int(value).value_or(0))
                                                     : string(value));
  return row;
}

Routine<text::Value> rules(Call& call) {
  text::Value rows = text::Value::list();
  for (const auto& [name, rule] : call.dc.ha_rules) {
    if (call.params.has("type") && rule.at("type") != call.params.text("type")) continue;
    rows.append(rule_row(call.dc, name, rule));
  }
  co_return rows;
}

Routine<text::Value> read_rule(Call& call) {
  const std::string name = call.params.text("rule");
  const auto found = call.dc.ha_rules.find(name);
  if (found == call.dc.ha_rules.end()) die(fmt::format("no such ha rule '{}'", name));
  co_return rule_row(call.dc, name, found->second);
}

Routine<text::Value> write_rule(Call& call) {
  const std::string name = call.params.text("rule");
  const Locks::Guard lock = co_await call.lock_cfs("domain-ha");
  const bool creating = call.method.verb == "POST";
  if (creating == call.dc.ha_rules.contains(name))
    die(creating ? fmt::format("HA rule '{}' already defined", name)
                 : fmt::format("no such ha rule '{}'", name));
  const std::vector<std::string> resources = split_list(call.params.text("resources"));
  for (const std::string& each : resources)
    if (!call.dc.ha.contains(each))
      die(fmt::format("{} ha rule failed: cannot use unmanaged resource(s) {}.",
                      creating ? "create" : "update", each));
  if (creating && call.params.text("type") == "resource-affinity" && resources.size() < 2)
    die(
        fmt::format("create ha rule failed: 400 Rule '{}' is invalid.\nresources: rule is "
                    "ineffective as there are less than two resources, rule defines more "
                    "resources than available nodes",
                    name));
  auto& rule = call.dc.ha_rules[name];
  for (const auto& [key, value] : call.params.all())
    if (key != "rule" && key != "delete" && key != "digest") rule[key] = value;
  for (const std::string& key : call.params.split("delete")) rule.erase(key);
  co_return text::Value::null();
}

Routine<text::Value> delete_rule(Call& call) {
  const Locks::Guard lock = co_await call.lock_cfs("domain-ha");
  call.dc.ha_rules.erase(call.params.text("rule"));
  co_return text::Value::null();
}

}  // namespace

std::vector<Route> ha_routes() {
  return {
      {"GET /cluster/ha", index},
      {"GET /cluster/ha/status", status_index},
      {"GET /cluster/ha/status/current", current},
      {"GET /cluster/ha/groups", no_groups},
      {"POST /cluster/ha/groups", create_group},
      {"GET /cluster/ha/resources", list},
      {"POST /cluster/ha/resources", create},
      {"GET /cluster/ha/resources/{sid}", read},
      {"PUT /cluster/ha/resources/{sid}", update},
      {"DELETE /cluster/ha/resources/{sid}", remove},
      {"GET /cluster/ha/rules", rules},
      {"POST /cluster/ha/rules", write_rule},
      {"GET /cluster/ha/rules/{rule}", read_rule},
      {"PUT /cluster/ha/rules/{rule}", write_rule},
      {"DELETE /cluster/ha/rules/{rule}", delete_rule},
  };
}

}  // namespace rocca::lab::pve
