// Whatever a spec asks for, the node has: name, addresses, routes, name and time servers, MTU and
// role, however the address comes to it, and still after a reboot and an upgrade.

#include "scenarios/node_rig.hpp"

#include <rapidcheck.h>
#include <rapidcheck/detail/Configuration.h>

#include <sstream>

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;

/// One drawn cluster: a control plane, a worker, and a worker that was there before.
struct Wish {
  std::string talos, mode;
  Cidr subnet;
  std::vector<std::string> nameservers, ntp;
  std::string names[3];
  IpAddress addresses[3];
  bool shared = false;     // an address for the API
  unsigned vlan = 0;       // 0: none
  unsigned mtu = 0;        // 0: as it is
  unsigned nics = 1;       // of our machines
  unsigned second = 1500;  // MTU of the second
  unsigned meant = 0;      // which NIC of the other machine has the address

  bool dhcp() const { return mode == "dhcp"; }
  bool v4() const { return subnet.address().is_v4(); }

  std::string text() const {
    std::string network = "addressing: " + mode;
    if (!dhcp())
      network += fmt::format(", subnet: {}, gateway: {}", to_string(subnet),
                             to_string(*subnet.network().plus(1)));
    if (!nameservers.empty()) network += fmt::format(", nameservers: [{}]", quoted(nameservers));
    if (!ntp.empty()) network += fmt::format(", ntp: [{}]", quoted(ntp));
    if (vlan != 0) network += fmt::format(", vlan: {}", vlan);
    if (mtu != 0) network += fmt::format(", mtu: {}", mtu);
    const auto node = [&](std::size_t i, const char* role) {
      return fmt::format("    {}: {{ role: {}{}{} }}\n", names[i], role,
                         dhcp() && i < 2 ? "" : ", address: " + quoted({to_string(addresses[i])}),
                         i < 2 ? "" : ", existing: { disk: bare }");
    };
    const auto vip = dhcp() ? IpAddress::parse("10.0.0.99") : subnet.network().plus(5);
    std::string kubernetes =
        shared ? fmt::format(", endpoint: {{ vip: {} }}", quoted({to_string(*vip)})) : "";
    if (!dhcp() && !v4()) kubernetes += ", podCIDR: 'fd10::/48', serviceCIDR: 'fd11::/112'";
    std::string machine;
    if (nics > 1)
      machine = fmt::format("  machine: {{ nics: [{{}}, {{ bridge: vmbr1, vlan: 30{} }}] }}\n",
                            second == 1500 ? "" : fmt::format(", mtu: {}", second));
    return spec_text(talos, network,
                     node(0, "controlplane") + node(1, "worker") + node(2, "worker") + machine,
                     kubernetes);
  }

 private:
  static std::string quoted(const std::vector<std::string>& texts) {
    return "'" + join(texts, "', '") + "'";
  }
};

Wish draw(const std::string& mode) {
  Wish wish;
  wish.mode = mode;
  wish.talos =
      *rc::gen::element<std::string>("v1.9.6", "v1.10.9", "v1.11.6", "v1.12.11", "v1.13.9");
  // There is a DHCP server for IPv4 on the untagged wire, and nowhere else.
  const bool v6 = mode != "dhcp" && *rc::gen::inRange(0, 4) == 0;
  if (mode != "dhcp" && *rc::gen::arbitrary<bool>()) wish.vlan = 10 * *rc::gen::inRange(1u, 10u);
  const auto prefix = v6 ? *rc::gen::element(64u, 80u, 112u) : *rc::gen::inRange(20u, 29u);
  std::string base = *rc::gen::element<std::string>("10.130.0.0", "172.20.64.0", "192.168.16.0");
  if (wish.vlan != 0) base = fmt::format("10.{}.64.0", wish.vlan);
  if (v6) base = wish.vlan != 0 ? fmt::format("fd00:{}:7::", wish.vlan) : "fd07:1:2::";
  const auto shift = v6 ? 0u : 256u * *rc::gen::inRange(0u, 16u);
  wish.subnet = Cidr(Cidr(*IpAddress::parse(base)->plus(shift), prefix).network(), prefix);
  // Network, router, shared and broadcast address are taken.
  const std::uint64_t room = v6 ? 60000 : (1ull << (32 - prefix)) - 7;
  const auto first = *rc::gen::inRange<std::uint64_t>(0, room);
  const auto steps = *rc::gen::inRange<std::uint64_t>(1, std::max<std::uint64_t>(room / 3, 2));
  for (std::size_t i = 0; i < 3; ++i)
    wish.addresses[i] = *wish.subnet.network().plus(6 + (first + i * steps) % room);
  if (mode == "dhcp") wish.addresses[2] = *IpAddress::parse("10.0.77.7");
  const auto servers = mode == "dhcp" ? 0 : *rc::gen::inRange(1, 4);  // there the lease says it
  for (int i = 0; i < servers; ++i)
    wish.nameservers.push_back(v6 ? fmt::format("fd0d::{}:53", 1 + i)
                                  : fmt::format("10.{}.{}.53", *rc::gen::inRange(0, 256), i));
  const auto clocks = *rc::gen::inRange(0, 3);
  for (int i = 0; i < clocks; ++i) wish.ntp.push_back(fmt::format("clock-{}.home", i));
  for (std::size_t i = 0; i < 3; ++i) {
    wish.names[i] = i == 0 ? "c" : i == 1 ? "w" : "x";
    const auto length = *rc::gen::inRange(0, 24);
    for (int at = 0; at < length; ++at)
      wish.names[i] += *rc::gen::elementOf(std::string("abcdefghijklmnopqrstuvwxyz0123456789"));
  }
  wish.shared = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) wish.mtu = *rc::gen::inRange(1280u, 9001u);
  wish.nics = *rc::gen::inRange(1u, 3u);
  if (*rc::gen::arbitrary<bool>()) wish.second = *rc::gen::inRange(1280u, 9001u);
  wish.meant = *rc::gen::inRange(0u, 2u);
  return wish;
}

/// A machine of somebody else's: two NICs, one of them in a network that is none of ours.
void create_other(NodeRig& rig, const Wish& wish, const spec::Node& node) {
  proxmox::VmCreate vm;
  vm.vmid = rig.vmid(node);
  vm.name = "bare";
  vm.memory_mib = 4096;
  vm.bios = "seabios";
  proxmox::Download download;
  download.storage = "local";
  download.filename = "bare.qcow2";
  factory::Artifact artifact;
  artifact.platform = factory::Platform::NoCloud;
  download.url = "https://factory.talos.dev" +
                 factory::image_path(rig.schematic(node), *rig.spec.talos.version, artifact);
  rig.finish(rig.pve.start_download("pve1", download));
  proxmox::Drive disk;
  disk.storage = "local-lvm";
  disk.import_from = "local:import/bare.qcow2";
  disk.serial = "bare";
  vm.drives["scsi0"] = disk;
  proxmox::Drive drive;
  drive.storage = "local-lvm";
  drive.cloud_init = true;
  vm.drives["ide2"] = drive;
  proxmox::Nic ours, other;
  ours.bridge = "vmbr0";
  ours.mac = MacAddress::parse("BC:24:11:00:00:77");
  if (wish.vlan != 0) ours.vlan = wish.vlan;
  other.bridge = "vmbr1";
  proxmox::IpConfig mine, its;
  const bool v4 = (*node.address)->is_v4();
  if (wish.dhcp()) {
    mine.address = "dhcp";
    rig.home.lans.reserve("BC:24:11:00:00:77", **node.address);
  } else {
    (v4 ? mine.address : mine.address6) =
        fmt::format("{}/{}", to_string(**node.address), wish.subnet.prefix());
    (v4 ? mine.gateway : mine.gateway6) = to_string(*wish.subnet.network().plus(1));
  }
  its.address = "10.77.0.1/24";
  vm.nics = {ours, other};
  vm.ip_configs = {mine, its};
  if (wish.meant == 1) {
    std::swap(vm.nics[0], vm.nics[1]);
    std::swap(vm.ip_configs[0], vm.ip_configs[1]);
  }
  vm.nameservers = {"10.0.0.1"};
  vm.boot_order = {"scsi0"};
  rig.create(node, vm);
}

/// Name, addresses, routes, name and time servers, MTUs and role, as the machine itself has them.
std::string found(const NodeRig& rig, const spec::Node& node) {
  const lab::talos::TalosNode* machine = rig.home.estate.find(rig.vmid(node));
  if (machine == nullptr) return "nothing";
  // Links by their place: what they are called changes with the platform.
  const auto& links = machine->machine().links;
  const auto place = [&](const std::string& name) {
    for (std::size_t i = 0; i < links.size(); ++i)
      if (links[i].name == name) return fmt::format("NIC {}", i);
    return "no NIC: " + name;
  };
  std::vector<std::string> parts{machine->hostname()};
  const auto add = [&](std::string part) {
    // What its own drive says beside us, as long as it is not installed for metal: the same route
    // with another metric, and the address in the network that is none of ours.
    const bool beside = part == parts.back() || part.starts_with("10.77.0.1/24 ");
    if (!beside || !node.existing) parts.push_back(std::move(part));
  };
  for (const auto& each : machine->network().addresses)
    add(fmt::format("{} on {}", to_string(each.cidr), place(each.link)));
  for (const auto& each : machine->network().routes)
    add(fmt::format("{} via {} on {}", each.destination.empty() ? "default" : each.destination,
                    each.gateway, place(each.link)));
  for (const std::string& each : machine->network().resolvers) parts.push_back("asks " + each);
  for (const std::string& each : machine->network().time_servers) parts.push_back("time " + each);
  for (const auto& link : links)
    parts.push_back(
        fmt::format("{} takes {}", place(link.name), machine->network().mtus.at(link.name)));
  parts.push_back(machine->is_control_plane() ? "control plane" : "worker");
  return join(parts, "; ");
}

std::string wanted(const Wish& wish, const spec::Node& node, const std::string& lease) {
  const unsigned nic = node.existing ? wish.meant : 0;
  std::vector<std::string> parts{
      node.host_name,
      wish.dhcp()
          ? fmt::format("{}/16 on NIC {}", lease, nic)
          : fmt::format("{}/{} on NIC {}", to_string(**node.address), wish.subnet.prefix(), nic),
      fmt::format("default via {} on NIC {}",
                  wish.dhcp() ? "10.0.0.1" : to_string(*wish.subnet.network().plus(1)), nic)};
  if (wish.nameservers.empty()) parts.emplace_back("asks 10.0.0.1");  // the lease says it
  for (const std::string& each : wish.nameservers) parts.push_back("asks " + each);
  for (const std::string& each : wish.ntp) parts.push_back("time " + each);
  if (wish.ntp.empty()) parts.emplace_back("time time.cloudflare.com");
  // With DHCP nothing is said of a link of a machine that was there before.
  const bool told = !node.existing || !wish.dhcp();
  const unsigned first = wish.mtu != 0 && told ? wish.mtu : 1500;
  const unsigned count = node.existing ? 2 : wish.nics;
  const unsigned other = node.existing ? 1500 : wish.second;
  for (unsigned i = 0; i < count; ++i)
    parts.push_back(fmt::format("NIC {} takes {}", i, i == nic ? first : other));
  parts.emplace_back(node.control_plane() ? "control plane" : "worker");
  return join(parts, "; ");
}

void check_one(const Wish& wish) {
  NodeRig rig{wish.text()};
  std::map<std::string, std::string> at;
  const std::string& begin = rig.spec.nodes.front().name;
  for (const spec::Node& node : rig.spec.nodes) {
    if (node.existing) {
      create_other(rig, wish, node);
      at[node.name] = to_string(**node.address);
    } else {
      rig.create(node);
      RC_ASSERT(rig.until([&] { return !rig.address(node).empty(); }));
      at[node.name] = rig.address(node);
    }
    RC_ASSERT(rig.until([&] { return rig.in_maintenance(at[node.name]); }));
    rig.maintenance(at[node.name]).apply(rig.config(node, at[begin], at[node.name]), {});
  }
  const std::string first = at.at(begin);
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
