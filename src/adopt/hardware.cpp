#include "adopt/hardware.hpp"

#include "base/strings.hpp"
#include "platform/proxmox/desired_vm.hpp"
#include "proxmox/property_string.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rocca::adopt {

namespace {

using proxmox::PropertyString;
using text::Value;

// What every VM has, what the spec says elsewhere, and what nobody would miss.
constexpr std::array said = {"name",   "cores",      "memory", "bios",     "machine",  "scsihw",
                             "agent",  "onboot",     "cpu",    "smbios1",  "vmgenid",  "meta",
                             "digest", "boot",       "ostype", "numa",     "sockets",  "balloon",
                             "lock",   "nameserver", "parent", "template", "cpuunits", "keyboard"};

// Written down by some tools although it is so anyway.
constexpr std::array usual = {std::pair{"acpi", "1"}, std::pair{"tablet", "1"},
                              std::pair{"protection", "0"}, std::pair{"kvm", "1"}};

std::string text_of(const proxmox::VmConfig& config, const char* option, const char* fallback) {
  return config.value_or(option, fallback);
}

std::string volume_of(const std::string& slot, const std::string& value) {
  return PropertyString::parse(slot, value).value_or("file", "");
}

std::string storage_of(const std::string& volume) {
  const auto colon = volume.find(':');
  return colon == std::string::npos ? "" : volume.substr(0, colon);
}

bool one_of(const std::string& word, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* each) { return word == each; });
}

std::uint64_t mebibytes_of(const proxmox::VmConfig& config) {
  const PropertyString memory = PropertyString::parse("memory", text_of(config, "memory", "512"));
  return parse_uint(memory.value_or("current", "512")).value_or(512);
}

Value disk_of(const std::string& slot, const std::string& text, const Defaults& defaults,
              std::vector<std::string>& untold) {
  const PropertyString parts = PropertyString::parse(slot, text);
  Value disk = Value::map();
  const Bytes size{proxmox::parse_size(parts.value_or("size", "0")).value_or(0)};
  const std::uint64_t whole = std::max<std::uint64_t>(size.count() >> 30, 1);
  if ((whole << 30) != size.count())
    untold.push_back(
        fmt::format("{} has {}, which is no whole number of GiB", slot, to_string(size)));
  disk.set("size", Value::string(fmt::format("{}GiB", whole)));
  const std::string storage = storage_of(parts.value_or("file", ""));
  if (storage != defaults.storage) disk.set("storage", Value::string(storage));
  const auto flag = [&](const char* key, bool is) {
    if (!is) disk.set(key, Value::boolean(false));
  };
  flag("iothread", parts.value_or("iothread", "0") == "1");
  flag("discard", parts.value_or("discard", "ignore") == "on");
  flag("ssd", parts.value_or("ssd", "0") == "1");
  if (const std::string cache = parts.value_or("cache", "none"); cache != "none")
    disk.set("cache", Value::string(cache));
  if (disk.size() == 1) return Value::string(fmt::format("{}GiB", whole));
  return disk;
}

void add_disks(Hardware& hardware, const proxmox::VmConfig& config, const Defaults& defaults) {
  Value disks = Value::map();
  unsigned number = 0;
  for (const std::string& slot : resources::disk_slots(config)) {
    const std::string name = number == 0   ? "system"
                             : number == 1 ? "data"
                                           : fmt::format("data{}", number);
    ++number;
    disks.set(name, disk_of(slot, *config.find(slot), defaults, hardware.untold));
  }
  if (disks.size() > 0) hardware.machine.set("disks", std::move(disks));
}

void add_nics(Hardware& hardware, const proxmox::VmConfig& config, const Defaults& defaults) {
  Value plain = Value::list();
  bool ordinary = true, gap = false;
  for (unsigned i = 0; i < 32; ++i) {
    const std::string option = fmt::format("net{}", i);
    const std::string* text = config.find(option);
    if (text == nullptr) {
      gap = true;
      continue;
    }
    // A spec counts cards from net0 on and leaves none out.
    if (gap) {
      hardware.untold.push_back(option + " is a card behind a gap");
      continue;
    }
    const PropertyString parts = PropertyString::parse(option, proxmox::normalise(option, *text));
    Value nic = Value::map();
    if (const std::string bridge = parts.value_or("bridge", ""); bridge != defaults.bridge)
      nic.set("bridge", Value::string(bridge));
    if (const auto vlan = parse_uint(parts.value_or("tag", "")))
      nic.set("vlan", Value::unsigned_integer(*vlan));
    if (const auto mtu = parse_uint(parts.value_or("mtu", "")); mtu && *mtu >= 576)
      nic.set("mtu", Value::unsigned_integer(*mtu));
    if (const std::string model = parts.value_or("model", "virtio"); model != "virtio")
      hardware.untold.push_back(fmt::format("{} is a card of model {}", option, model));
    ordinary = ordinary && nic.size() == 0 && i == 0;
    plain.append(nic);
    if (const auto mac = MacAddress::parse(parts.value_or("macaddr", "")))
      nic.set("mac", Value::string(to_string(*mac)));
    nic.set_style(text::Style::Flow);
    hardware.nics.append(std::move(nic));
  }
  if (!ordinary) hardware.machine.set("nics", std::move(plain));
}

void add_pci(Hardware& hardware, const proxmox::VmConfig& config) {
  Value devices = Value::list();
  for (const auto& [option, text] : config.options) {
    if (proxmox::family(option) != "hostpci") continue;
    const PropertyString parts = PropertyString::parse(option, text);
    const std::string mapping = parts.value_or("mapping", "");
    if (mapping.empty()) {
      hardware.untold.push_back(option + " names a device, not a mapping");
      continue;
    }
    Value device = Value::map();
    device.set("mapping", Value::string(mapping));
    if (parts.value_or("pcie", "0") != "1") device.set("pcie", Value::boolean(false));
    devices.append(device.size() == 1 ? Value::string(mapping) : std::move(device));
  }
  if (devices.size() > 0) hardware.machine.set("pci", std::move(devices));
}

void add_untold(Hardware& hardware, const proxmox::VmConfig& config) {
  std::vector<std::string> others;
  for (const auto& [option, text] : config.options) {
    const std::string family{proxmox::family(option)};
    if (std::find(said.begin(), said.end(), option) != said.end()) continue;
    const auto ordinary = [&, &name = option, &value = text](const auto& one) {
      return name == one.first && value == one.second;
    };
    if (std::any_of(usual.begin(), usual.end(), ordinary)) continue;
    if (proxmox::is_drive(option) && family != "tpmstate" && family != "unused") continue;
    if (one_of(family, {"net", "ipconfig", "hostpci"}) || trim(text).empty()) continue;
    others.push_back(option);
  }
  if (text_of(config, "sockets", "1") != "1")
    others.push_back(fmt::format("sockets ({})", text_of(config, "sockets", "1")));
  if (!one_of(text_of(config, "balloon", "0"), {"0", ""})) others.push_back("balloon");
  if (!others.empty()) hardware.untold.push_back(enumerate(others));
}

}  // namespace

std::string cloud_init_slot(const proxmox::VmConfig& config) {
  for (const auto& [option, text] : config.options)
    if (proxmox::is_drive(option) && text.find("cloudinit") != std::string::npos) return option;
  return "";
}

std::string storage_of_system_disk(const proxmox::VmConfig& config) {
  const std::vector<std::string> slots = resources::disk_slots(config);
  return slots.empty() ? "" : storage_of(volume_of(slots.front(), *config.find(slots.front())));
}

std::string bridge_of_first_card(const proxmox::VmConfig& config) {
  const std::string* card = config.find("net0");
  return card == nullptr ? "" : PropertyString::parse("net0", *card).value_or("bridge", "");
}

Hardware hardware_of(const proxmox::VmRow& row, const proxmox::VmConfig& config,
                     const Defaults& defaults) {
  Hardware hardware;
  Value& machine = hardware.machine;
  if (!row.pool.empty()) machine.set("pool", Value::string(row.pool));
  machine.set("cores",
              Value::unsigned_integer(parse_uint(text_of(config, "cores", "1")).value_or(1)));
  if (const std::string* cpu = config.find("cpu")) {
    const PropertyString parts = PropertyString::parse("cpu", *cpu);
    const bool plain = parts.properties().size() == 1;
    machine.set("cpu", Value::string(plain ? parts.value_or("cputype", *cpu) : *cpu));
  }
  machine.set("memory", Value::string(to_string(Bytes::mib(mebibytes_of(config)))));
  machine.set("firmware", Value::string(text_of(config, "bios", "seabios")));
  const bool q35 = text_of(config, "machine", "").find("q35") != std::string::npos;
  machine.set("chipset", Value::string(q35 ? "q35" : "i440fx"));
  if (const std::string scsi = text_of(config, "scsihw", "lsi");
      one_of(scsi, {"virtio-scsi-single", "virtio-scsi-pci"}))
    machine.set("scsi", Value::string(scsi));
  const std::string* agent = config.find("agent");
  machine.set("agent", Value::boolean(
                           agent != nullptr &&
                           PropertyString::parse("agent", *agent).value_or("enabled", "0") == "1"));
  machine.set("onBoot", Value::boolean(text_of(config, "onboot", "0") == "1"));
  if (const std::string slot = cloud_init_slot(config); !slot.empty() && slot != "ide2") {
    Value slots = Value::map();
    slots.set("cloudInit", Value::string(slot));
    machine.set("slots", std::move(slots));
  }
  add_disks(hardware, config, defaults);
  add_nics(hardware, config, defaults);
  add_pci(hardware, config);
  add_untold(hardware, config);
  return hardware;
}

}  // namespace rocca::adopt
