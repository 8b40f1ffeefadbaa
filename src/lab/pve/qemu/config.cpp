// Reading VMs: the config file's rules, GET config, pending, status/current and the lists.

#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"
#include "lab/pve/resources.hpp"

#include <fmt/format.h>

namespace rocca::lab::pve {

void load(Vm& vm) {
  for (ConfigSection* section : {&vm.config, &vm.pending})
    for (auto& [key, value] : *section)
      if (value.empty() && key != "description") value = " ";
}

void store(const Schema& schema, Vm& vm) {
  for (auto& [key, value] : vm.config)
    if (key == "description")
      while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back())))
        value.pop_back();
  if (const auto found = vm.config.find("description");
      found != vm.config.end() && found->second.empty())
    vm.config.erase(found);
  std::map<std::string, bool> used;
  for (const ConfigSection* section : {&vm.config, &vm.pending})
    for (const auto& [key, value] : *section)
      if (is_drive_key(key))
        if (const auto drive = parse_drive(schema, key, value)) used[drive->file()] = true;
  std::erase_if(vm.config, [&](const auto& entry) {
    return is_unused_key(entry.first) && used.contains(entry.second);
  });
}

bool has_lock(const Vm& vm, std::string_view lock) {
  const std::string* now = vm.find("lock");
  return now != nullptr && *now == lock;
}

void check_lock(const Vm& vm) {
  if (const std::string* lock = vm.find("lock")) die(fmt::format("VM is locked ({})", *lock));
}

bool is_template(const Vm& vm) {
  const std::string* flag = vm.find("template");
  return flag != nullptr && *flag == "1";
}

bool is_running(const Vm& vm) {
  return vm.power != Vm::Power::Stopped;
}

Vm& get_process_vm(Process& process, unsigned vmid) {
  Vm* vm = process.dc.find_vm(vmid);
  if (vm == nullptr || vm->node != process.node.name)
    die(fmt::format("unable to find configuration file for VM {} on node '{}'", vmid,
                    process.node.name));
  return *vm;
}

bool is_known_option(const Schema& schema, const std::string& key) {
  static const std::vector<std::string> of_the_call{"delete", "digest",   "force", "node",
                                                    "revert", "skiplock", "vmid"};
  for (const std::string& name : of_the_call)
    if (key == name) return false;
  if (key == "meta" || key == "parent" || key == "vmstate") return true;
  return schema.find_setting(key) != nullptr;
}

text::Value json_of(const Schema& schema, const std::string& key, const std::string& value) {
  if (key == "cipassword") return string("**********");
  const Parameter* parameter = schema.find_setting(key);
  const bool whole =
      key == "snaptime" || (parameter != nullptr && (parameter->type == Parameter::Type::Integer ||
                                                     parameter->type == Parameter::Type::Boolean));
  if (whole)
    if (const auto number_value = parse_int(value)) return number(*number_value);
  return string(value.empty() && key != "description" ? " " : value);
}

bool agent_enabled(const Schema& schema, const Keys& config) {
  const auto agent = config.find("agent");
  return agent != config.end() && parse_keys(schema, "agent", agent->second)["enabled"] == "1";
}

std::string add_unused(Vm& vm, const std::string& volid) {
  for (const auto& [key, value] : vm.config)
    if (is_unused_key(key) && value == volid) return key;
  for (unsigned i = 0; i < 256; ++i) {
    std::string key = "unused" + std::to_string(i);
    if (vm.config.contains(key)) continue;
    vm.config[key] = volid;
    return key;
  }
  die("Too many unused volumes - please delete them first.");
}

namespace {

text::Value section_object(const Schema& schema, const ConfigSection& section) {
  text::Value out = text::Value::map();
  for (const auto& [key, value] : section) out.set(key, json_of(schema, key, value));
  return out;
}

Routine<text::Value> get_config(Call& call) {
  const Vm& vm = call.dc.get_vm(call.vmid(), call.node);
  const Schema& schema = call.dc.schema;
  const bool current = call.params.flag("current");
  const std::string snapshot = call.params.text("snapshot");
  if (!snapshot.empty() && current) {
    const std::string text = "cannot use 'snapshot' parameter with 'current'";
    refuse_parameters({{"snapshot", text}, {"current", text}});
  }
  ConfigSection shown = vm.config;
  if (!snapshot.empty()) {
    const auto found = vm.snapshots.find(snapshot);
    if (found == vm.snapshots.end()) die(fmt::format("snapshot '{}' does not exist", snapshot));
    shown = found->second;
  } else if (!current) {
    for (const auto& [key, forced] : vm.pending_delete) shown.erase(key);
    for (const auto& [key, value] : vm.pending) shown[key] = value;
  }
  text::Value out = section_object(schema, shown);
  out.set("digest", string(config_digest(vm)));
  co_return out;
}

Routine<text::Value> get_pending(Call& call) {
  const Vm& vm = call.dc.get_vm(call.vmid(), call.node);
  const Schema& schema = call.dc.schema;
  std::map<std::string, text::Value> rows;
  const auto row = [&](const std::string& key) -> text::Value& {
    auto found = rows.find(key);
    if (found == rows.end()) found = rows.emplace(key, object({{"key", string(key)}})).first;
    return found->second;
  };
  for (const auto& [key, value] : vm.config) row(key).set("value", json_of(schema, key, value));
  for (const auto& [key, value] : vm.pending) row(key).set("pending", json_of(schema, key, value));
  for (const auto& [key, forced] : vm.pending_delete)
    row(key).set("delete", number(forced ? 2 : 1));
  row("digest").set("value", string(config_digest(vm)));
  text::Value out = text::Value::list();
  for (auto& [key, value] : rows) out.append(std::move(value));
  co_return out;
}

text::Value block_statistics(const Release& release, bool used) {
  text::Value stat = object({{"account_failed", text::Value::boolean(true)},
                             {"account_invalid", text::Value::boolean(true)},
                             {"timed_stats", text::Value::list()}});
  std::vector<std::string> moving{"rd", "unmap", "wr"};
  if (release.nine()) moving.emplace_back("zone_append");  // QEMU 10
  std::vector<std::string> all = moving;
  all.emplace_back("flush");
  for (const std::string& kind : all) {
    stat.set(fmt::format("failed_{}_operations", kind), number(0));
    stat.set(fmt::format("invalid_{}_operations", kind), number(0));
    stat.set(fmt::format("{}_operations", kind), number(0));
    stat.set(fmt::format("{}_total_time_ns", kind), number(0));
  }
  for (const std::string& kind : moving) {
    stat.set(fmt::format("{}_bytes", kind), number(0));
    stat.set(fmt::format("{}_merged", kind), number(0));
  }
  stat.set("wr_highest_offset", number(0));
  if (used) stat.set("idle_time_ns", number(1));
  return stat;
}

std::string machine_version(const Release& release) {
  return release.qemu.substr(0, release.qemu.find('.', release.qemu.find('.') + 1));
}

Counters counters_of(Datacenter& dc, const Vm& vm) {
  return is_running(vm) && dc.counters_of ? dc.counters_of(vm) : Counters{};
}

text::Value count(std::uint64_t value) {
  return number(static_cast<std::int64_t>(value));
}

/// What every list and status/current say.
text::Value status_row(Datacenter& dc, const Node& node, const Vm& vm) {
  const std::string* name = vm.find("name");
  const bool running = is_running(vm);
  const Counters counters = counters_of(dc, vm);
  const auto uptime =
      std::chrono::duration_cast<std::chrono::seconds>(dc.world.now() - vm.started).count();
  text::Value row =
      object({{"vmid", number(vm.id)},
              {"name", string(name == nullptr ? fmt::format("VM {}", vm.id) : *name)},
              {"status", string(running ? "running" : "stopped")},
              {"uptime", number(running ? uptime : 0)},
              {"cpus", number(cpu_count(vm, node))},
              {"cpu", counters.cpu == 0 ? number(0) : text::Value::floating(counters.cpu)},
              {"mem", number(running ? static_cast<std::int64_t>(memory_of(vm) / 2) : 0)},
              {"maxmem", number(static_cast<std::int64_t>(memory_of(vm)))},
              {"disk", number(0)},
              {"maxdisk", number(static_cast<std::int64_t>(boot_disk_size(dc, vm)))},
              {"netin", count(counters.net_in)},
              {"netout", count(counters.net_out)}});
  if (running) row.set("pid", number(vm.pid.value_or(0)));
  if (dc.release.nine()) {
    row.set("memhost", number(running ? static_cast<std::int64_t>(memory_of(vm)) : 0));
    if (running)
      for (const char* kind : {"cpu", "io", "memory"})
        for (const char* share : {"some", "full"})
          row.set(fmt::format("pressure{}{}", kind, share), number(0));
  }
  if (const std::string* lock = vm.find("lock")) row.set("lock", string(*lock));
  if (const std::string* tags = vm.find("tags")) row.set("tags", string(*tags));
  if (is_template(vm)) row.set("template", number(1));
  for (const auto& [key, value] : vm.config)
    if (family(key) == "serial[n]" && value == "socket") row.set("serial", number(1));
  return row;
}

/// What only QEMU itself knows; status/current and the full list ask it.
void add_process(Datacenter& dc, const Node& node, const Vm& vm, text::Value& row) {
  if (!is_running(vm)) {
    row.set("qmpstatus", string("stopped"));
    return;
  }
  row.set("qmpstatus", string(vm.power == Vm::Power::Paused      ? "paused"
                              : vm.power == Vm::Power::Prelaunch ? "prelaunch"
                                                                 : "running"));
  const Counters counters = counters_of(dc, vm);
  row.set("diskread", count(counters.disk_read));
  row.set("diskwrite", count(counters.disk_written));
  row.set("running-qemu", string(dc.release.qemu));
  const auto machine = vm.running.find("machine");
  const std::string type =
      machine == vm.running.end() ? "" : parse_keys(dc.schema, "machine", machine->second)["type"];
  const std::string version = machine_version(dc.release);
  row.set("running-machine", string(type.empty() || type == "pc" ? "pc-i440fx-" + version
                                    : type == "q35"              ? "pc-q35-" + version
                                                                 : type));
  text::Value blocks = text::Value::map();
  text::Value nics = text::Value::map();
  for (const auto& [key, value] : vm.running) {
    if (is_drive_key(key)) {
      const auto drive = parse_drive(dc.schema, key, value);
      if (!drive || drive->file() == "none") continue;
      const Volume* volume = dc.find_volume(drive->file(), node);
      // Somebody has read it: a system, or the firmware that looked for one.
      const bool read = (volume != nullptr && !volume->image.identity.empty()) ||
                        dc.world.now() - vm.started > std::chrono::seconds{5};
      blocks.set(key, block_statistics(dc.release, read));
    } else if (is_net_key(key)) {
      nics.set(fmt::format("tap{}i{}", vm.id, key.substr(3)),
               object({{"netin", count(key == "net0" ? counters.net_in : 0)},
                       {"netout", count(key == "net0" ? counters.net_out : 0)}}));
    }
  }
  // The firmware's code is a drive of its own beside its variables.
  if (const auto bios = vm.running.find("bios"); bios != vm.running.end() && bios->second == "ovmf")
    blocks.set("pflash0", block_statistics(dc.release, false));
  if (blocks.size() > 0) row.set("blockstat", blocks);
  if (nics.size() > 0) row.set("nics", nics);
}

Routine<text::Value> get_status(Call& call) {
  const Vm& vm = call.dc.get_vm(call.vmid(), call.node);
  Datacenter& dc = call.dc;
  text::Value row = status_row(dc, call.node, vm);
  const auto ha = dc.ha.find(fmt::format("vm:{}", vm.id));
  if (ha == dc.ha.end()) {
    row.set("ha", object({{"managed", number(0)}}));
  } else {
    // Without a cluster no HA manager runs, and nobody has written a state.
    text::Value state = object({{"managed", number(1)}});
    if (!dc.release.has_ha_rules())
      state.set("group", ha->second.group.empty() ? text::Value::null() : string(ha->second.group));
    state.set("state", dc.cluster.empty() ? text::Value::null() : string(ha->second.state));
    row.set("ha", state);
  }
  if (agent_enabled(dc.schema, vm.config)) row.set("agent", number(1));
  add_process(dc, call.node, vm, row);
  co_return row;
}

text::Value row_of(Call& call, const Vm& vm) {
  text::Value row = status_row(call.dc, call.node, vm);
  if (call.params.flag("full") && is_running(vm)) add_process(call.dc, call.node, vm, row);
  return row;
}

Routine<text::Value> list_vms(Call& call) {
  text::Value rows = text::Value::list();
  for (const auto& [id, vm] : call.dc.vms)
    if (vm.node == call.node.name && call.may(fmt::format("/vms/{}", id), {"VM.Audit"}))
      rows.append(row_of(call, vm));
  co_return rows;
}

text::Value index(std::string_view key, std::initializer_list<const char*> names) {
  text::Value rows = text::Value::list();
  for (const char* name : names) rows.append(object({{key, string(name)}}));
  return rows;
}

Routine<text::Value> vm_index(Call&) {
  co_return index("subdir", {"config",     "cloudinit", "pending",  "status",  "unlink",
                             "vncproxy",   "termproxy", "migrate",  "resize",  "move",
                             "rrd",        "rrddata",   "monitor",  "agent",   "snapshot",
                             "spiceproxy", "sendkey",   "firewall", "mtunnel", "remote_migrate"});
}

Routine<text::Value> status_index(Call& call) {
  call.dc.get_vm(call.vmid(), call.node);
  co_return index("subdir", {"current", "start", "stop", "reset", "shutdown", "suspend", "reboot"});
}

}  // namespace

std::vector<Route> qemu_read_routes() {
  return {
      {"GET /nodes/{node}/qemu", list_vms},
      {"GET /nodes/{node}/qemu/{vmid}", vm_index},
      {"GET /nodes/{node}/qemu/{vmid}/config", get_config},
      {"GET /nodes/{node}/qemu/{vmid}/pending", get_pending},
      {"GET /nodes/{node}/qemu/{vmid}/status", status_index},
      {"GET /nodes/{node}/qemu/{vmid}/status/current", get_status},
  };
}

}  // namespace rocca::lab::pve
