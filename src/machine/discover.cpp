#include "machine/discover.hpp"

#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "engine/unfinished.hpp"
#include "machine/kinds.hpp"
#include "machine/quorum.hpp"
#include "platform/kinds.hpp"
#include "platform/survey.hpp"
#include "talos/waits.hpp"

#include <fmt/format.h>

#include <utility>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

// In its own subnet a machine that is there answers at once.
constexpr Duration short_knock = 150ms;
constexpr std::size_t at_a_glance = 16;
// No call takes its thread for longer.
constexpr Duration longest_part = 1s;
// A watch is renewed after so long, in case its connection is dead.
constexpr Duration listens = 5s;
// A node is silent while it boots: its lease is as it was, most likely.
constexpr Duration boots = 30s;
// The agent starts with the network. One that is silent for longer does not tell anything.
constexpr Duration agent_starts = 60s;

/// Who is at an address: its hardware's UUID, whichever door it opens. `host_name` is the node that
/// is looked for: it may still show a certificate for the address it had before.
std::optional<Uuid> who_is_at(World& world, const std::string& address,
                              const std::string& host_name, std::optional<Duration> knock = {}) {
  talos::Access access = world.access(address);
  if (knock) access.connect_timeout = *knock;
  talos::Sight sight = talos::look(world.transport, access, world.stop, talos::Detail::Status);
  if (!host_name.empty()) sight = look_by_name(world, address, host_name, std::move(sight));
  if (sight.door != talos::Door::Ours && sight.door != talos::Door::Maintenance)
    return std::nullopt;
  talos::Client client =
      sight.door == talos::Door::Ours ? world.talos(address) : world.maintenance(address);
  try {
    const auto system = client.find_system_information();
    return system ? system->uuid : std::nullopt;
  } catch (const Error& error) {
    // ignored: a machine that does not prove its UUID is not the one that is looked for.
    if (!is_external(error.fault())) throw;
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

/// The address that the kernel of this machine has for the VM's card: rocca often stands in the
/// same network. A neighbour that left may still be listed, so who is there is asked.
std::optional<std::string> ask_neighbours(World& world, const Fields& vm, const Uuid& uuid,
                                          const std::string& host_name) {
  const auto mac = MacAddress::parse(fact(vm, "mac"));
  const auto table = world.files.find("/proc/net/arp");
  if (!mac || !table) return std::nullopt;
  for (const std::string& line : split(*table, '\n')) {
    std::vector<std::string> words;  // address, type, flags, hardware address, mask, device
    for (const std::string& word : split(line, ' '))
      if (!word.empty()) words.push_back(word);
    if (words.size() < 4 || MacAddress::parse(words[3]) != mac || words[2] == "0x0") continue;
    if (IpAddress::parse(words[0]) && who_is_at(world, words[0], host_name) == uuid)
      return words[0];
  }
  return std::nullopt;
}

bool has_agent(const spec::Node* node) {
  return node != nullptr && node->machine && *node->machine->agent;
}

std::optional<Cidr> searchable(const spec::Spec& spec) {
  if (!spec.network.subnet || !Search::can_be_asked(**spec.network.subnet)) return std::nullopt;
  return **spec.network.subnet;
}

/// Asks the subnet, a part of it or all, until the machine is met.
std::optional<std::string> search(World& world, const Cidr& subnet, const Uuid& uuid,
                                  const std::string& host_name, Effort effort) {
  Search& found = world.survey.search;
  const std::size_t begun = found.begin(uuid);
  const Tick until = world.clock.tick() + longest_part;
  std::optional<std::string> here;
  for (std::size_t asked = 0; asked < at_a_glance && world.clock.tick() < until; ++asked) {
    const std::vector<IpAddress> next = found.next(subnet, 1);
    if (next.empty()) break;  // the end of a round
    const std::string where = to_string(next.front());
    const auto who = who_is_at(world, where, host_name, short_knock);
    if (who) found.met(*who, where);
    if (who == uuid) {
      here = where;
      break;
    }
  }
  // Another step may have met it meanwhile; where it was before does not count.
  if (const auto elsewhere = here ? std::nullopt : found.find(uuid);
      elsewhere && who_is_at(world, *elsewhere, host_name, short_knock) == uuid)
    here = elsewhere;
  if (!here && effort == Effort::Search && found.rounds() == begun)
    throw engine::Unfinished(fmt::format("searching {}", to_string(subnet)));
  found.end(uuid);
  return here;
}

}  // namespace

std::string cannot_be_found(const spec::Spec& spec, const spec::Node& node) {
  if (node.address || has_agent(&node) || searchable(spec)) return "";
  return fmt::format("{} has neither an address nor a guest agent that tells it, and {}", node.name,
                     spec.network.subnet ? fmt::format("{} is too large to be searched",
                                                       to_string(**spec.network.subnet))
                                         : "network.subnet does not say where to search");
}

std::string boot_of(const std::string& node) {
  return "boot of " + node;
}

Glance glance(World& world, const std::string& address, talos::Detail detail) {
  talos::Access access = world.access(address);
  access.connect_timeout = world.survey.knock(address);
  const Tick asked = world.clock.tick();
  Glance seen{talos::look(world.transport, access, world.stop, detail)};
  const bool opened = seen.sight.door != talos::Door::Closed;
  world.survey.knocked(address, opened, access.connect_timeout);
  // A port that nobody listens at yet is refused at once; where there is no machine, nothing is.
  seen.at_home = opened || world.clock.tick() - asked < access.connect_timeout / 2;
  return seen;
}

NotYet until_told(std::string waiting_for, std::string address, Told what) {
  NotYet wait{std::move(waiting_for), listens + 1s};
  wait.watch = [address = std::move(address), what](World& world) {
    bool present = true;  // the first is how it is now
    world.talos(address).watch_resource(
        "runtime",
        what == Told::Etcd ? "Services.v1alpha1.talos.dev" : "MachineStatuses.runtime.talos.dev",
        what == Told::Etcd ? "etcd" : "machine",
        [&](const std::optional<talos::Resource>&) { return std::exchange(present, false); },
        listens);
  };
  return wait;
}

std::optional<std::string> address_of_vm(World& world, const Fields& vm, const Uuid& uuid) {
  if (auto told = ask_agent(world, vm)) return told;
  return ask_neighbours(world, vm, uuid, fact(vm, "name"));
}

talos::Sight look_by_name(World& world, const std::string& address, const std::string& host_name,
                          talos::Sight seen) {
  if (seen.door != talos::Door::Foreign) return seen;
  talos::Access access = world.access(address);
  access.tls.server_name = host_name;
  talos::Sight named = talos::look(world.transport, access, world.stop, talos::Detail::Services);
  if (named.door != talos::Door::Ours) return seen;
  world.survey.is_called(address, host_name);
  return named;
}

Whereabouts whereabouts(World& world, const std::string& node, const Uuid& uuid, Effort effort) {
  const spec::Spec& spec = world.cluster.spec;
  const spec::Node* wanted = spec.find_node(node);
  if (wanted != nullptr && wanted->address) return {to_string(**wanted->address), ""};
  Search& met = world.survey.search;
  const std::string silence = "whereabouts of " + node;
  const std::string name = wanted == nullptr ? "" : wanted->host_name;
  const auto told_at = [&](const std::string& address) -> Whereabouts {
    // Others ask it there as well: what is known of it may be from before its lease changed.
    world.survey.opened(address_found(node), address);
    return {address, ""};
  };
  const auto found = [&](const std::string& address) {
    met.met(uuid, address);
    world.survey.wait_anew(silence);
    return told_at(address);
  };
  const auto subnet = searchable(spec);
  // Before the first part of a search everything else was asked.
  const bool searched = subnet && effort == Effort::Search && met.begun(uuid);
  if (searched)
    if (const auto there = search(world, *subnet, uuid, name, effort)) return found(*there);
  const auto this_run = met.find(uuid);
  const std::string last =
      this_run ? *this_run : fact(world.known(machine_address(node)), "address");
  const std::optional<Uuid> who = last.empty() ? std::nullopt : who_is_at(world, last, name);
  if (who == uuid) return found(last);
  const Duration silent = world.survey.waiting_since(silence);
  const auto vm = world.known(vm_address(node));
  if (!vm && (wanted == nullptr || wanted->machine)) return {"", "its VM"};
  if (vm && has_agent(wanted))
    if (const auto told = ask_agent(world, *vm)) return told_at(*told);
  if (vm)
    if (const auto near = ask_neighbours(world, *vm, uuid, name)) return found(*near);
  const bool still_boots = this_run && !who && silent < boots;
  const bool agent_may_speak = has_agent(wanted) && silent < agent_starts;
  if (subnet && !searched && !still_boots && !agent_may_speak)
    if (const auto there = search(world, *subnet, uuid, name, effort)) return found(*there);
  // Its lease may have gone to another machine, which must not be taken for it.
  if (!last.empty() && !who) return {last, ""};
  if (has_agent(wanted)) return {"", "the guest agent to tell the node's address"};
  // The search itself takes the time.
  return {"",
          fmt::format("the node to show itself in {}",
                      subnet ? to_string(*subnet) : std::string("its subnet")),
          200ms};
}

}  // namespace rocca::resources
