#include "resources/discover.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "resources/kinds.hpp"
#include "resources/survey.hpp"
#include "talos/waits.hpp"

#include <fmt/format.h>

namespace rocca::resources {

namespace {

/// Who is at an address: its hardware's UUID, whichever door it opens.
std::optional<Uuid> who_is_at(World& world, const std::string& address) {
  const talos::Sight sight = talos::look(world.transport, world.access(address), world.stop);
  if (sight.door != talos::Door::Ours && sight.door != talos::Door::Maintenance)
    return std::nullopt;
  talos::Client client =
      sight.door == talos::Door::Ours ? world.talos(address) : world.maintenance(address);
  try {
    const auto system = client.find_system_information();
    return system ? system->uuid : std::nullopt;
  } catch (const Error& error) {
    if (error.fault() == Fault::Interrupted) throw;
    return std::nullopt;
  }
}

/// The address of the VM's first card, as its guest agent tells it.
std::optional<std::string> ask_agent(World& world, const Fields& vm) {
  const auto vmid = parse_uint(fact(vm, "vmid"));
  const std::string host = fact(vm, "host");
  const auto mac = MacAddress::parse(fact(vm, "mac"));
  if (!vmid || host.empty() || !mac) return std::nullopt;
  const auto interfaces =
      world.proxmox().find_agent_interfaces(host, static_cast<proxmox::Vmid>(*vmid));
  if (!interfaces) return std::nullopt;
  for (const proxmox::AgentInterface& interface : *interfaces) {
    if (interface.mac != mac) continue;
    for (const IpAddress& address : interface.addresses)
      if (address.is_v4() && !address.is_link_local() && !address.is_loopback())
        return to_string(address);
  }
  return std::nullopt;
}

}  // namespace

Whereabouts whereabouts(World& world, const std::string& node, const Uuid& uuid) {
  const spec::Node* wanted = world.cluster.spec.find_node(node);
  if (wanted != nullptr && wanted->address) return {to_string(**wanted->address), ""};
  const std::string last = fact(world.known(machine_address(node)), "address");
  if (!last.empty() && who_is_at(world, last) == uuid) return {last, ""};
  const auto vm = world.known(vm_address(node));
  if (!vm) return {"", "its VM"};
  if (const auto found = ask_agent(world, *vm)) return {*found, ""};
  if (!last.empty()) return {last, ""};
  return {"", "the guest agent to tell the node's address"};
}

}  // namespace rocca::resources
