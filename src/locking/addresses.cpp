#include "locking/addresses.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <algorithm>

namespace rocca::locking {

namespace {

bool is_someones(const IpAddress& address) {
  return !address.is_loopback() && !address.is_link_local() && !address.is_unspecified();
}

/// What one VM says; nothing if it says nothing at all.
std::vector<IpAddress> ask(proxmox::Client& client, const proxmox::VmRow& vm) {
  std::vector<IpAddress> found;
  if (const auto config = client.find_config(vm.node, vm.vmid))
    for (const auto& [option, value] : config->options)
      if (option.starts_with("ipconfig"))
        for (const IpAddress& address : addresses_of_ipconfig(value)) found.push_back(address);
  if (vm.status != "running") return found;
  if (const auto interfaces = client.find_agent_interfaces(vm.node, vm.vmid))
    for (const proxmox::AgentInterface& interface : *interfaces)
      for (const IpAddress& address : interface.addresses)
        if (is_someones(address)) found.push_back(address);
  return found;
}

}  // namespace

std::vector<IpAddress> addresses_of_ipconfig(std::string_view text) {
  std::vector<IpAddress> found;
  for (const std::string& part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    if (equals == std::string::npos || (key != "ip" && key != "ip6")) continue;
    if (const auto cidr = Cidr::parse(part.substr(equals + 1))) found.push_back(cidr->address());
  }
  return found;
}

Neighbours neighbours(proxmox::Client& client) {
  Neighbours all;
  for (const auto& member : client.cluster_status().members)
    if (const auto address = IpAddress::parse(member.address)) all.addresses.push_back(*address);
  for (const proxmox::VmRow& vm : client.vms()) {
    if (vm.is_template) continue;
    std::vector<IpAddress> found;
    try {
      // The API of containers is another one, and nothing else here needs it.
      if (!vm.is_container) found = ask(client, vm);
    } catch (const Error& error) {
      // One VM of many that may not be looked at, or is gone meanwhile, is no reason to stop.
      if (error.fault() != Fault::Denied && error.fault() != Fault::NotFound) throw;
    }
    if (found.empty() && vm.status == "running") all.secretive.push_back(vm.vmid);
    all.addresses.insert(all.addresses.end(), found.begin(), found.end());
  }
  std::sort(all.addresses.begin(), all.addresses.end());
  all.addresses.erase(std::unique(all.addresses.begin(), all.addresses.end()), all.addresses.end());
  return all;
}

}  // namespace rocca::locking
