#include "base/strings.hpp"
#include "doctor/examination.hpp"
#include "locking/addresses.hpp"
#include "proxmox/property_string.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::doctor {

bool Examination::inventory() {
  if (wish_.machines.empty() && wish_.clone_of.empty()) return false;
  bool seen = false;
  attempt("clashes", [&] {
    vms_ = client_.vms();
    std::set<Uuid> ours;
    for (const Wish::Machine& machine : wish_.machines)
      if (machine.uuid) ours.insert(*machine.uuid);
    for (const auto& vm : vms_) {
      if (vm.is_template && vm.name == wish_.clone_of) scope_.template_vmid = vm.vmid;
      if (vm.is_container) continue;
      const auto config = client_.find_config(vm.node, vm.vmid);
      if (!config) continue;
      uuid_of_[vm.vmid] = config->uuid();
      const bool is_ours = config->uuid() && ours.contains(*config->uuid());
      for (const auto& [option, value] : config->options) {
        if (option.starts_with("ipconfig") && !is_ours && !vm.is_template)
          for (const IpAddress& address : locking::addresses_of_ipconfig(value))
            by_address_.try_emplace(address, &vm, "by cloud-init");
        if (proxmox::family(option) != "net") continue;
        const auto nic = proxmox::PropertyString::parse(option, value);
        if (const auto mac = MacAddress::parse(nic.value_or("macaddr", ""))) by_mac_[*mac] = &vm;
        if (is_ours) add_link(nic.value_or("bridge", ""), parse_uint(nic.value_or("tag", "")));
      }
      if (!is_ours && !vm.is_template && vm.status == "running") ask_agent(vm, *config);
    }
    for (const Wish::Machine& machine : wish_.machines)
      for (const auto& [vmid, uuid] : uuid_of_)
        if (machine.uuid && uuid == machine.uuid) there_.insert(machine.node);
    seen = true;
  });
  return seen;
}

/// A NIC that stands on another bridge than the spec says is moved back: that needs a right on
/// both.
void Examination::add_link(const std::string& bridge, std::optional<std::uint64_t> tag) {
  if (bridge.empty()) return;
  std::optional<unsigned> vlan;
  if (tag) vlan = static_cast<unsigned>(*tag);
  const bool known = std::any_of(scope_.links.begin(), scope_.links.end(), [&](const auto& link) {
    return link.bridge == bridge && link.vlan == vlan;
  });
  if (!known) scope_.links.push_back({bridge, vlan, "localnetwork"});
}

void Examination::ask_agent(const proxmox::VmRow& vm, const proxmox::VmConfig& config) {
  if (!config.value_or("agent", "").starts_with("1") &&
      config.value_or("agent", "").find("enabled=1") == std::string::npos)
    return;
  try {
    if (const auto interfaces = client_.find_agent_interfaces(vm.node, vm.vmid))
      for (const proxmox::AgentInterface& interface : *interfaces)
        for (const IpAddress& address : interface.addresses)
          by_address_.try_emplace(address, &vm, "its guest agent says so");
  } catch (const Error& error) {
    // Other VMs need not let us ask.
    if (error.fault() != Fault::Denied && error.fault() != Fault::NotFound) throw;
  }
}

void Examination::hidden_ids(std::size_t& found) {
  const auto& rights = allowed_on("/vms");
  if (std::find(rights.begin(), rights.end(), "VM.Audit") != rights.end()) return;
  for (const Wish::Machine& machine : wish_.machines) {
    const bool seen = std::any_of(vms_.begin(), vms_.end(), [&](const proxmox::VmRow& vm) {
      return vm.vmid == machine.vmid;
    });
    if (!machine.vmid || seen || client_.vmid_is_free(*machine.vmid)) continue;
    clash(fmt::format("VM id {} for {} is in use by a VM that this token may not see",
                      *machine.vmid, machine.node),
          machine.vmid_is_locked ? "`rocca up` chooses another id"
                                 : "remove `vmid:` from the node and a free one is chosen");
    ++found;
  }
}

void Examination::addresses(std::size_t& found) {
  const auto check = [&](const IpAddress& address, const std::string& whose) {
    const auto user = by_address_.find(address);
    if (user == by_address_.end()) return;
    const auto& [vm, how] = user->second;
    clash(fmt::format("{} {} is in use by VM {} ('{}'): {}", whose, rocca::to_string(address),
                      vm->vmid, vm->name, how),
          "choose another address, or give that VM another one");
    ++found;
  };
  for (const Wish::Machine& machine : wish_.machines)
    if (machine.address) check(*machine.address, fmt::format("the address of {},", machine.node));
  if (wish_.vip) check(*wish_.vip, "the VIP");
}

void Examination::clashes() {
  std::size_t found = 0;
  attempt("clashes", [&] {
    hidden_ids(found);
    addresses(found);
  });
  for (const Wish::Machine& machine : wish_.machines) {
    const auto ours = [&](proxmox::Vmid vmid) {
      return machine.uuid && uuid_of_[vmid] == machine.uuid;
    };
    const auto holder = std::find_if(vms_.begin(), vms_.end(), [&](const proxmox::VmRow& vm) {
      return vm.vmid == machine.vmid;
    });
    if (holder != vms_.end() && !ours(holder->vmid)) {
      clash(fmt::format("VM id {} for {} is taken by '{}' on {}", holder->vmid, machine.node,
                        holder->name, holder->node),
            machine.vmid_is_locked
                ? fmt::format("remove nodes.{}.vmid from rocca.lock and a free one is chosen",
                              machine.node)
                : "remove `vmid:` from the node and a free one is chosen");
      ++found;
    }
    for (const MacAddress& mac : machine.macs)
      if (const auto user = by_mac_.find(mac); user != by_mac_.end() && !ours(user->second->vmid)) {
        clash(fmt::format("the MAC {} of {} is in use by VM {} ('{}')", rocca::to_string(mac),
                          machine.node, user->second->vmid, user->second->name),
              "give the NIC another `mac:`, or take it from the other VM");
        ++found;
      }
  }
  if (found == 0 && !wish_.machines.empty())
    add("clashes", Grade::Good,
        fmt::format("no VM id, MAC or address is in use by another VM ({} seen{})",
                    plural(vms_.size(), "VM"),
                    there_.empty() ? "" : fmt::format(", {} of them ours", there_.size())));
}

void Examination::clash(std::string text, std::string fix) {
  if (wish_.identities_unknown.empty()) {
    add("clashes", Grade::Bad, std::move(text)).fix = {std::move(fix)};
    return;
  }
  add("clashes", Grade::Warning, std::move(text)).fix = {
      "it may be our own, which cannot be told: " + wish_.identities_unknown};
}

}  // namespace rocca::doctor
