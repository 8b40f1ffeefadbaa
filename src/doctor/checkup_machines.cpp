#include "base/strings.hpp"
#include "doctor/examination.hpp"
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
      for (const auto& [option, value] : config->options)
        if (proxmox::family(option) == "net")
          if (const auto mac = MacAddress::parse(
                  proxmox::PropertyString::parse(option, value).value_or("macaddr", "")))
            by_mac_[*mac] = &vm;
    }
    for (const Wish::Machine& machine : wish_.machines)
      for (const auto& [vmid, uuid] : uuid_of_)
        if (machine.uuid && uuid == machine.uuid) there_.insert(machine.node);
    seen = true;
  });
  return seen;
}

void Examination::clashes() {
  std::size_t found = 0;
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
        fmt::format("no VM id or MAC is in use by another ({} seen{})", plural(vms_.size(), "VM"),
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
