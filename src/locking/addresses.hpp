#pragma once

#include "base/address.hpp"
#include "proxmox/client.hpp"

#include <vector>

namespace rocca::locking {

/// Addresses that somebody on a Proxmox has, as far as it can know.
struct Neighbours {
  std::vector<IpAddress> addresses;      // sorted, each once
  std::vector<proxmox::Vmid> secretive;  // VMs that run and do not say where
};

/// Asks for the addresses of the hosts, those that VMs were given by cloud-init, and those that
/// guest agents tell. A VM that may not be asked counts as one that does not say.
Neighbours neighbours(proxmox::Client& client);

/// The addresses in `ip=10.0.0.5/24,gw=10.0.0.1,ip6=…`: a machine's own, not its router's.
std::vector<IpAddress> addresses_of_ipconfig(std::string_view text);

}  // namespace rocca::locking
