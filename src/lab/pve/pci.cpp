// Devices of the hosts that VMs may have, and the names that a cluster gives them.

#include "lab/pve/pci.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/pve/qemu/qemu.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>

namespace rocca::lab::pve {

namespace {

constexpr const char* lock_name = "file-mapping_pci_cfg";

std::string digest_of(const Datacenter& dc) {
  std::string text;
  for (const auto& [id, mapping] : dc.pci_mappings) {
    text += id + "\n";
    for (const auto& [key, value] : mapping.options) text += fmt::format("\t{} {}\n", key, value);
    for (const std::string& entry : mapping.map) text += fmt::format("\tmap {}\n", entry);
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), out.data(), &size, EVP_sha1(), nullptr);
  return to_hex({reinterpret_cast<const char*>(out.data()), size});
}

/// The entries of a mapping that belong to a host, by their keys.
std::vector<Keys> entries_on(const Process& process, const PciMapping& mapping,
                             const std::string& host) {
  std::vector<Keys> entries;
  for (const std::string& text : mapping.map)
    if (Keys entry = parse_keys(process.dc.schema, "pve-pci-map", text); entry["node"] == host)
      entries.push_back(std::move(entry));
  return entries;
}

/// Throws how an entry differs from the host's hardware.
void check_hardware(const Node& node, const std::string& id, Keys entry) {
  bool first = true;
  for (std::string path : split(entry["path"], ';')) {
    if (path.find('.') == std::string::npos) path += ".0";
    const auto device = node.pci.find(path);
    if (device == node.pci.end()) die(fmt::format("pci device '{}' not found", path));
    const PciDevice& real = device->second;
    const auto compare = [&](const std::string& key, const std::string& is) {
      const auto said = entry.find(key);
      if (said == entry.end() && is.empty()) return;
      if (said == entry.end()) die(fmt::format("no '{}' for device '{}'", key, path));
      if (is.empty()) die(fmt::format("'{}' configured but should not be", key));
      if (said->second != is)
        die(fmt::format("'{}' does not match for '{}' ({} != {})", key, id, is, said->second));
    };
    compare("id", real.id);
    // All functions behind the first one are in its group.
    if (first) compare("iommugroup", std::to_string(real.iommu_group));
    compare("subsystem-id", real.subsystem);
    first = false;
  }
}

text::Value describe(const Datacenter& dc, const PciMapping& mapping) {
  text::Value row = object({{"type", string("pci")}, {"digest", string(digest_of(dc))}});
  for (const auto& [key, value] : mapping.options)
    row.set(key, key == "description" ? string(value) : number(parse_int(value).value_or(0)));
  text::Value entries = text::Value::list();
  for (const std::string& entry : mapping.map) entries.append(string(entry));
  row.set("map", std::move(entries));
  return row;
}

text::Value check_on(const Call& call, const std::string& id, const PciMapping& mapping,
                     const Node& node) {
  text::Value checks = text::Value::list();
  const auto add = [&](const char* severity, const std::string& message) {
    checks.append(object({{"severity", string(severity)}, {"message", string(message)}}));
  };
  const std::vector<Keys> entries = entries_on(call, mapping, node.name);
  if (entries.empty()) add("warning", fmt::format("No mapping for node {}.", node.name));
  for (const Keys& entry : entries) {
    try {
      check_hardware(node, id, entry);
    } catch (const Failure& failure) {
      add("error", fmt::format("Invalid configuration: {}\n", failure.message));
    }
  }
  return checks;
}

Routine<text::Value> list(Call& call) {
  const Node* checked = nullptr;
  if (call.params.has("check-node")) {
    const std::string name = call.params.text("check-node");
    checked = name == "localhost" ? &call.node : call.dc.find_node(name);
    if (checked == nullptr) die(fmt::format("no such cluster node '{}'", name));
  }
  text::Value rows = text::Value::list();
  for (const auto& [id, mapping] : call.dc.pci_mappings) {
    if (!call.may("/mapping/pci/" + id, {"Mapping.Modify", "Mapping.Use", "Mapping.Audit"}, true))
      continue;
    text::Value row = describe(call.dc, mapping);
    row.set("id", string(id));
    if (checked != nullptr) row.set("checks", check_on(call, id, mapping, *checked));
    rows.append(std::move(row));
  }
  co_return rows;
}

Routine<text::Value> read(Call& call) {
  const std::string id = call.params.text("id");
  const auto found = call.dc.pci_mappings.find(id);
  if (found == call.dc.pci_mappings.end()) die(fmt::format("mapping '{}' not found", id));
  co_return describe(call.dc, found->second);
}

void take(const Call& call, PciMapping& mapping) {
  for (const char* key : {"description", "live-migration-capable", "mdev"})
    if (call.params.has(key)) mapping.options[key] = call.params.text(key);
  if (const auto& entries = call.params.list("map"); !entries.empty()) mapping.map = entries;
}

Routine<text::Value> create(Call& call) {
  const std::string id = call.params.text("id");
  const Locks::Guard lock = co_await call.lock_cfs(lock_name);
  if (call.dc.pci_mappings.contains(id))
    die(fmt::format("create hardware mapping failed: pci ID '{}' already defined", id));
  take(call, call.dc.pci_mappings[id]);
  co_return text::Value::null();
}

Routine<text::Value> update(Call& call) {
  const std::string id = call.params.text("id");
  const Locks::Guard lock = co_await call.lock_cfs(lock_name);
  constexpr const char* failed = "update hardware mapping failed: ";
  if (call.params.has("digest") && call.params.text("digest") != digest_of(call.dc))
    die(fmt::format("{}detected modified configuration - file changed by other user? Try again.",
                    failed));
  const auto found = call.dc.pci_mappings.find(id);
  if (found == call.dc.pci_mappings.end())
    die(fmt::format("{}pci ID '{}' does not exist", failed, id));
  for (const std::string& key : call.params.split("delete")) {
    if (key == "map") die(fmt::format("{}unable to delete required option '{}'", failed, key));
    if (key != "description" && key != "live-migration-capable" && key != "mdev")
      die(fmt::format("{}no such option '{}'", failed, key));
    if (call.params.has(key))
      die(fmt::format("{}unable to set and delete property '{}' at the same time!", failed, key));
    found->second.options.erase(key);
  }
  take(call, found->second);
  co_return text::Value::null();
}

/// Nobody asks whether a VM still names it; one that is not there is deleted as well.
Routine<text::Value> remove(Call& call) {
  const Locks::Guard lock = co_await call.lock_cfs(lock_name);
  call.dc.pci_mappings.erase(call.params.text("id"));
  co_return text::Value::null();
}

/// The functions that a path names: all of a device without one.
std::vector<std::string> functions_at(const Node& node, const std::string& paths) {
  std::vector<std::string> functions;
  for (const std::string& path : split(paths, ';')) {
    const std::size_t before = functions.size();
    for (const auto& [name, device] : node.pci)
      if (name == path || name.starts_with(path + ".")) functions.push_back(name);
    if (functions.size() == before) die(fmt::format("no PCI device found for '{}'", path));
  }
  return functions;
}

/// The running VM on this host that has it, other than `vmid`.
const Vm* holder_of(const Process& process, const std::string& function, unsigned vmid) {
  for (const auto& [id, vm] : process.dc.vms)
    if (id != vmid && vm.node == process.node.name && is_running(vm) &&
        std::find(vm.pci.begin(), vm.pci.end(), function) != vm.pci.end())
      return &vm;
  return nullptr;
}

}  // namespace

std::vector<std::string> choose_pci_devices(const Process& process, unsigned vmid,
                                            const std::string& key, const std::string& value) {
  Keys pci = parse_keys(process.dc.schema, "pve-qm-hostpci", value);
  std::vector<std::vector<std::string>> alternatives;
  if (const std::string id = pci["mapping"]; !id.empty()) {
    const auto mapping = process.dc.pci_mappings.find(id);
    std::vector<Keys> entries;
    if (mapping != process.dc.pci_mappings.end())
      entries = entries_on(process, mapping->second, process.node.name);
    if (entries.empty()) die(fmt::format("PCI device mapping not found for '{}'", id));
    for (Keys& entry : entries) {
      try {
        check_hardware(process.node, id, entry);
      } catch (const Failure& failure) {
        die(fmt::format("PCI device mapping invalid (hardware probably changed): {}",
                        failure.message));
      }
      alternatives.push_back(functions_at(process.node, entry["path"]));
    }
  } else {
    alternatives.push_back(functions_at(process.node, pci["host"]));
  }
  for (const std::vector<std::string>& functions : alternatives) {
    const auto held = std::find_if(
        functions.begin(), functions.end(),
        [&](const std::string& function) { return holder_of(process, function, vmid) != nullptr; });
    if (held == functions.end()) return functions;
    if (alternatives.size() == 1)
      die(fmt::format("PCI device '{}' already in use by VMID '{}'", *held,
                      holder_of(process, *held, vmid)->id));
  }
  die(fmt::format("could not find a free device for '{}'", key));
}

std::vector<Route> pci_routes() {
  return {
      {"GET /cluster/mapping/pci", list},           {"POST /cluster/mapping/pci", create},
      {"GET /cluster/mapping/pci/{id}", read},      {"PUT /cluster/mapping/pci/{id}", update},
      {"DELETE /cluster/mapping/pci/{id}", remove},
  };
}

}  // namespace rocca::lab::pve
