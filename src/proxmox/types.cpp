#include "proxmox/types.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "proxmox/property_string.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::proxmox {

namespace {

void add_switch(PropertyString& properties, std::string_view key, const std::optional<bool>& on) {
  if (on) properties.set(key, *on ? "1" : "0");
}

void add_text(PropertyString& properties, std::string_view key, const std::string& text) {
  if (!text.empty()) properties.set(key, text);
}

/// `STORAGE:32` and `STORAGE:0.5`: GiB, with as many decimals as it takes.
std::string gibibytes(Bytes size) {
  if (const auto whole = size.whole_gib()) return std::to_string(*whole);
  std::string text = fmt::format("{:.9f}", static_cast<double>(size.count()) / (1ull << 30));
  while (text.back() == '0') text.pop_back();
  return text;
}

}  // namespace

bool StorageInfo::holds(std::string_view content_type) const {
  return std::find(content.begin(), content.end(), content_type) != content.end();
}

const std::string* VmConfig::find(const std::string& option) const {
  const auto found = options.find(option);
  return found == options.end() ? nullptr : &found->second;
}

std::string VmConfig::value_or(const std::string& option, std::string fallback) const {
  const std::string* value = find(option);
  if (value != nullptr) return *value;
  return fallback;
}

std::optional<Uuid> VmConfig::uuid() const {
  const auto text = smbios("uuid");
  return text ? Uuid::parse(*text) : std::nullopt;
}

std::optional<std::string> VmConfig::smbios(const std::string& field) const {
  const std::string* text = find("smbios1");
  if (text == nullptr) return std::nullopt;
  const PropertyString properties = PropertyString::parse("smbios1", *text);
  const std::string* value = properties.find(field);
  if (value == nullptr) return std::nullopt;
  if (field != "uuid" && properties.value_or("base64", "0") == "1")
    if (auto decoded = from_base64(*value)) return decoded;
  return *value;
}

std::optional<Failure> Task::failure() const {
  if (running || ok()) return std::nullopt;
  return classify_task(exit_status);
}

std::string Drive::print() const {
  PropertyString properties{"scsi0"};
  if (!volume.empty()) {
    properties.set("file", volume);
  } else if (cloud_init) {
    properties.set("file", storage + ":cloudinit");
  } else if (!import_from.empty()) {
    properties.set("file", storage + ":0");
    properties.set("import-from", import_from);
  } else {
    properties.set("file", storage + ":" + gibibytes(size.value_or(Bytes{})));
  }
  if (cdrom) properties.set("media", "cdrom");
  if (discard) properties.set("discard", *discard ? "on" : "ignore");
  add_switch(properties, "iothread", iothread);
  add_switch(properties, "ssd", ssd);
  add_switch(properties, "backup", backup);
  add_switch(properties, "replicate", replicate);
  add_text(properties, "cache", cache);
  add_text(properties, "aio", aio);
  add_text(properties, "serial", serial);
  add_text(properties, "format", format);
  return properties.print();
}

std::string EfiDisk::print() const {
  return fmt::format("{}:1,efitype=4m,pre-enrolled-keys={}", storage, pre_enrolled_keys ? 1 : 0);
}

std::string Nic::print() const {
  PropertyString properties{"net0"};
  properties.set("model", model);
  // Always upper case: a change of case counts as a change of MAC and unplugs the NIC of a running
  // VM.
  if (mac) properties.set("macaddr", to_string(*mac));
  add_text(properties, "bridge", bridge);
  if (vlan) properties.set("tag", std::to_string(*vlan));
  if (mtu) properties.set("mtu", std::to_string(*mtu));
  if (queues) properties.set("queues", std::to_string(*queues));
  add_switch(properties, "firewall", firewall);
  return properties.print();
}

std::string Smbios::print() const {
  PropertyString properties{"smbios1"};
  properties.set("uuid", to_string(uuid));
  const auto add = [&](std::string_view key, const std::string& text) {
    if (text.empty()) return;
    properties.set("base64", "1");
    properties.set(key, to_base64(text));
  };
  add("manufacturer", manufacturer);
  add("product", product);
  add("version", version);
  add("serial", serial);
  add("sku", sku);
  add("family", family);
  return properties.print();
}

std::optional<Smbios> Smbios::parse(std::string_view text) {
  VmConfig config;
  config.options["smbios1"] = std::string(text);
  const auto uuid = config.uuid();
  if (!uuid) return std::nullopt;
  const auto field = [&](const char* key) { return config.smbios(key).value_or(""); };
  return Smbios{*uuid,           field("manufacturer"), field("product"), field("version"),
                field("serial"), field("sku"),          field("family")};
}

std::string IpConfig::print() const {
  // Kept as sent by Proxmox, so it is written the way people read it: the address, then its
  // gateway.
  std::vector<std::string> parts;
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) parts.push_back(fmt::format("{}={}", key, value));
  };
  add("ip", address);
  add("gw", gateway);
  add("ip6", address6);
  add("gw6", gateway6);
  return join(parts, ",");
}

std::vector<std::pair<std::string, std::string>> VmCreate::parameters() const {
  std::vector<std::pair<std::string, std::string>> form;
  const auto add = [&](std::string key, std::string value) {
    if (!value.empty()) form.emplace_back(std::move(key), std::move(value));
  };
  add("vmid", std::to_string(vmid));
  add("name", name);
  add("pool", pool);
  add("description", description);
  add("tags", join(tags, ";"));
  add("ostype", os_type);
  add("machine", machine);
  add("bios", bios);
  add("cpu", cpu);
  add("cores", std::to_string(cores));
  add("sockets", std::to_string(sockets));
  add("memory", std::to_string(memory_mib));
  if (balloon_mib) add("balloon", std::to_string(*balloon_mib));
  add("scsihw", scsi_controller);
  add("agent", agent ? "1" : "0");
  add("onboot", on_boot ? "1" : "0");
  if (smbios) add("smbios1", smbios->print());
  if (efi_disk) add("efidisk0", efi_disk->print());
  for (const auto& [slot, drive] : drives) add(slot, drive.print());
  for (std::size_t i = 0; i < nics.size(); ++i) add(fmt::format("net{}", i), nics[i].print());
  for (std::size_t i = 0; i < ip_configs.size(); ++i)
    add(fmt::format("ipconfig{}", i), ip_configs[i].print());
  add("nameserver", join(nameservers, " "));
  add("searchdomain", search_domain);
  add("serial0", serial_port);
  for (std::size_t i = 0; i < pci_mappings.size(); ++i)
    add(fmt::format("hostpci{}", i), fmt::format("mapping={}{}", pci_mappings[i].name,
                                                 pci_mappings[i].express ? ",pcie=1" : ""));
  for (std::size_t i = 0; i < unused.size(); ++i) add(fmt::format("unused{}", i), unused[i]);
  // Without an order Proxmox would count the cloud-init drive as a bootable CD-ROM.
  if (!boot_order.empty()) add("boot", "order=" + join(boot_order, ";"));
  return form;
}

}  // namespace rocca::proxmox
