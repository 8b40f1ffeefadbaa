#include "seeds/others.hpp"

#include "base/strings.hpp"
#include "base/uuid.hpp"
#include "proxmox/types.hpp"

#include <fmt/format.h>

namespace rocca::seeds {

using namespace std::chrono_literals;

std::string Others::clone(Dice& dice, unsigned source, unsigned vmid) {
  const lab::pve::Vm& original = rig_.home.dc.vms.at(source);
  lab::pve::ConfigSection config;
  for (const auto& [key, value] : original.config) {
    // A clone has volumes of its own, which nothing of this is about.
    const bool disk = key.starts_with("scsi") || key.starts_with("ide") ||
                      key.starts_with("efidisk") || key.starts_with("unused");
    if ((disk && key != "scsihw") || key == "lock" || key == "vmgenid") continue;
    config[key] = value;
  }
  const std::string uuid = to_string(Uuid::v4(rig_.entropy));
  std::string like;
  if (dice.one_in(2)) {
    config["name"] = fmt::format("copy-of-{}", source);
    like += " renamed";
  }
  // Proxmox gives a clone another UUID and leaves the other SMBIOS values as they are.
  std::string smbios = "uuid=" + uuid;
  if (dice.one_in(2)) {
    like += " without mark";
  } else if (const std::string* before = original.find("smbios1")) {
    for (const std::string& part : split(*before, ','))
      if (!part.starts_with("uuid=")) smbios += "," + part;
  }
  config["smbios1"] = smbios;
  if (dice.one_in(3)) {
    config.erase("description");
    like += " without notes";
  }
  if (dice.one_in(3)) {
    config.erase("tags");
    like += " without tags";
  }
  if (const auto nic = config.find("net0"); nic != config.end()) {
    const std::size_t equals = nic->second.find('=');
    if (equals != std::string::npos && nic->second.size() >= equals + 18)
      nic->second.replace(equals + 1, 17, fmt::format("BC:24:11:99:00:{:02X}", vmid % 256));
  }
  promises_.add_foreign(vmid, original.node, std::move(config));
  rig_.home.world.run_for(15s);
  return like;
}

unsigned Others::find(const std::string& node) const {
  for (const unsigned vmid : promises_.ours()) {
    const std::string* text = rig_.home.dc.vms.at(vmid).find("smbios1");
    const auto smbios = text == nullptr ? std::nullopt : proxmox::Smbios::parse(*text);
    if (smbios && smbios->sku == "blue/" + node) return vmid;
  }
  return 0;
}

void Others::set_protection(unsigned vmid, bool on) {
  lab::pve::Vm& vm = rig_.home.dc.vms.at(vmid);
  if (on)
    vm.config["protection"] = "1";
  else
    vm.config.erase("protection");
}

std::string Others::picture(unsigned vmid) const {
  const auto found = rig_.home.dc.vms.find(vmid);
  if (found == rig_.home.dc.vms.end()) return "gone";
  std::string text = fmt::format("power {}\n", static_cast<int>(found->second.power));
  for (const auto& [key, value] : found->second.config)
    if (key != "protection") text += fmt::format("{}: {}\n", key, value);
  return text;
}

}  // namespace rocca::seeds
