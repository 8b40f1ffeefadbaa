// Whatever a spec asks for, the node has: name, addresses, routes, name servers and role, however
// the address comes to it, and still after a reboot and an upgrade.

#include "scenarios/node_rig.hpp"

#include <rapidcheck.h>
#include <rapidcheck/detail/Configuration.h>

#include <sstream>

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;

/// One drawn cluster: a control plane and a worker.
struct Wish {
  std::string talos, mode;
  Cidr subnet;
  std::vector<std::string> nameservers;
  std::string names[2];
  IpAddress addresses[2];
  bool shared = false;  // an address for the API

  std::string text() const {
    std::string network = "addressing: " + mode;
    if (mode != "dhcp")
      network += fmt::format(", subnet: {}, gateway: {}", to_string(subnet),
                             to_string(*subnet.network().plus(1)));
    if (!nameservers.empty())
      network += fmt::format(", nameservers: [{}]", join(nameservers, ", "));
    const auto node = [&](std::size_t i, const char* role) {
      return fmt::format("    {}: {{ role: {}{} }}\n", names[i], role,
                         mode == "dhcp" ? "" : ", address: " + to_string(addresses[i]));
    };
    const auto vip = mode == "dhcp" ? IpAddress::parse("10.0.0.99") : subnet.network().plus(5);
    return spec_text(talos, network, node(0, "controlplane") + node(1, "worker"),
                     shared ? fmt::format(", endpoint: {{ vip: {} }}", to_string(*vip)) : "");
  }
};

Wish draw(const std::string& mode) {
  Wish wish;
  wish.mode = mode;
  wish.talos =
      *rc::gen::element<std::string>("v1.9.6", "v1.10.9", "v1.11.6", "v1.12.11", "v1.13.9");
  const auto prefix = *rc::gen::inRange(20u, 29u);
  const auto base = *rc::gen::element<std::string>("10.130.0.0", "172.20.64.0", "192.168.16.0");
  wish.subnet =
      Cidr(Cidr(*IpAddress::parse(base)->plus(256u * *rc::gen::inRange(0u, 16u)), prefix).network(),
           prefix);
  const std::uint64_t room = (1ull << (32 - prefix)) - 7;  // network, router, shared, broadcast …
  const auto first = *rc::gen::inRange<std::uint64_t>(0, room - 1);
  wish.addresses[0] = *wish.subnet.network().plus(6 + first);
  wish.addresses[1] = *wish.subnet.network().plus(
      6 + *rc::gen::suchThat(rc::gen::inRange<std::uint64_t>(0, room - 1),
                             [&](std::uint64_t other) { return other != first || room < 3; }));
  if (wish.addresses[0] == wish.addresses[1])
    wish.addresses[1] = *wish.subnet.network().plus(6 + (first + 1) % (room - 1));
  const auto servers = mode == "dhcp" ? 0 : *rc::gen::inRange(1, 4);  // there the lease says it
  for (int i = 0; i < servers; ++i)
    wish.nameservers.push_back(fmt::format("10.{}.{}.53", *rc::gen::inRange(0, 256), i));
  for (std::size_t i = 0; i < 2; ++i) {
    wish.names[i] = i == 0 ? "c" : "w";
    const auto length = *rc::gen::inRange(0, 24);
    for (int at = 0; at < length; ++at)
      wish.names[i] += *rc::gen::elementOf(std::string("abcdefghijklmnopqrstuvwxyz0123456789"));
  }
  wish.shared = *rc::gen::arbitrary<bool>();
  return wish;
}

/// Name, addresses, routes, name servers and role, as the machine itself has them.
std::string found(const NodeRig& rig, const spec::Node& node) {
  const lab::talos::TalosNode* machine = rig.home.estate.find(rig.vmid(node));
  if (machine == nullptr) return "nothing";
  std::vector<std::string> parts{machine->hostname()};
  for (const auto& each : machine->network().addresses)
    parts.push_back(fmt::format("{} on {}", to_string(each.cidr), each.link));
  for (const auto& each : machine->network().routes)
    parts.push_back(fmt::format(
        "{} via {}", each.destination.empty() ? "default" : each.destination, each.gateway));
  for (const std::string& each : machine->network().resolvers) parts.push_back("asks " + each);
  parts.push_back(machine->is_control_plane() ? "control plane" : "worker");
  return join(parts, "; ");
}

std::string wanted(const Wish& wish, const spec::Node& node, const std::string& lease) {
  const bool dhcp = wish.mode == "dhcp";
  std::vector<std::string> parts{
      node.host_name,
      dhcp ? fmt::format("{}/16 on eth0", lease)
           : fmt::format("{}/{} on eth0", to_string(**node.address), wish.subnet.prefix()),
      fmt::format("default via {}", dhcp ? "10.0.0.1" : to_string(*wish.subnet.network().plus(1)))};
  if (dhcp) parts.emplace_back("asks 10.0.0.1");
  for (const std::string& each : wish.nameservers) parts.push_back("asks " + each);
  parts.emplace_back(node.control_plane() ? "control plane" : "worker");
  return join(parts, "; ");
}

void check_one(const Wish& wish) {
  NodeRig rig{wish.text()};
  std::map<std::string, std::string> at;
  for (const spec::Node& node : rig.spec.nodes) {
    rig.create(node);
    RC_ASSERT(rig.until([&] { return !rig.address(node).empty(); }));
    at[node.name] = rig.address(node);
    RC_ASSERT(rig.until([&] { return rig.in_maintenance(at[node.name]); }));
    rig.maintenance(at[node.name]).apply(rig.config(node, at.begin()->second), {});
  }
  const std::string first = at.at(rig.spec.nodes.front().name);
  RC_ASSERT(rig.until([&] { return rig.answers(first); }));
  rig.pause(10s);
  rig.secure(first).bootstrap();
  const auto settled = [&](const spec::Node& node) {
    return rig.truth(node).stage == lab::talos::Stage::Running && rig.answers(at[node.name]);
  };
  const auto check = [&](const char* when) {
    for (const spec::Node& node : rig.spec.nodes) {
      RC_ASSERT(rig.until([&] { return settled(node); }));
      const std::string is = found(rig, node), wish_for = wanted(wish, node, at[node.name]);
      RC_LOG(when);
      RC_ASSERT(is == wish_for);
    }
  };
  check("after the first boot");
  for (const spec::Node& node : rig.spec.nodes) rig.secure(at[node.name]).reboot();
  rig.pause(5s);
  check("after a reboot");
  const Version next(rig.spec.talos.version->major(), rig.spec.talos.version->minor(),
                     rig.spec.talos.version->patch() + 1);
  for (const spec::Node& node : rig.spec.nodes) {
    std::string image = talos::installer_of(rig.spec, node, rig.schematic(node));
    image = image.substr(0, image.rfind(':')) + ":v" + to_string(next);
    rig.secure(at[node.name]).upgrade({.image = image});
    RC_ASSERT(
        rig.until([&] { return rig.truth(node).installed_version == "v" + to_string(next); }));
  }
  check("after an upgrade");
}

class Asked : public ::testing::TestWithParam<const char*> {};

TEST_P(Asked, IsWhatTheNodeHas) {
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.maxSuccess = 8;  // each raises, reboots and upgrades a cluster
  const std::string mode = GetParam();
  const auto result = rc::detail::checkTestable([&] { check_one(draw(mode)); },
                                                rc::detail::TestMetadata{"asked", mode}, params);
  std::string told;
  if (!result.is<rc::detail::SuccessResult>()) {
    std::ostringstream out;
    rc::detail::printResultMessage(result, out);
    told = out.str();
  }
  EXPECT_EQ(told, "");
}

INSTANTIATE_TEST_SUITE_P(Addressing, Asked, ::testing::Values("static", "meta", "dhcp"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace rocca::scenarios
