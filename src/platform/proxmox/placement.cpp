#include "platform/proxmox/placement.hpp"

#include "locking/choose.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

spec::Lock choose(const spec::Spec& spec, const spec::Lock& lock, const Choices& choices) {
  spec::Lock chosen = lock;
  chosen.cluster = *spec.name;
  const locking::Occupied there{
      {choices.taken.begin(), choices.taken.end()}, choices.offline_hosts, choices.first_vmid};
  for (const auto& [node, host] : locking::choose_hosts(spec, lock, there))
    chosen.nodes[node].host = host;
  for (const auto& [node, vmid] : locking::choose_vmids(spec, lock, there))
    locking::place(chosen.nodes[node], vmid);
  return chosen;
}

MacAddress derive_mac(const Uuid& uuid, std::size_t nic) {
  const Uuid made = Uuid::v5(uuid, fmt::format("net{}", nic));
  std::array<std::uint8_t, 6> bytes{};
  std::copy_n(made.bytes().begin(), bytes.size(), bytes.begin());
  bytes[0] = static_cast<std::uint8_t>((bytes[0] & 0xfcu) | 0x02u);  // unicast, local
  return MacAddress{bytes};
}

}  // namespace rocca::resources
