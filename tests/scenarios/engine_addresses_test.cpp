// How nodes come to their addresses, and what happens when these change: static, META, DHCP with
// and without a guest agent, changed leases, and the way from DHCP to static.

#include "platform/proxmox/placement.hpp"
#include "scenarios/engine_rig.hpp"
#include "text/yaml.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string dhcp_spec(unsigned planes, unsigned workers, const std::string& network = "dhcp",
                      const std::string& extensions = "[qemu-guest-agent]",
                      const std::string& machine = "{ agent: true }") {
  std::string text =
      fmt::format(R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: {{ name: blue }}
spec:
  talos: {{ version: v1.11.5, extensions: {} }}
  kubernetes: {{ version: v1.34.1 }}
  timeouts: {{ boot: 5m, bootstrap: 5m }}
  network: {}
  machine: {}
  proxmox:
    endpoints: [https://pve.home:8006]
    insecure: true
    token: {{ secret: proxmox.token }}
    hosts: [pve1]
  nodes:
)",
                  extensions, network == "dhcp" ? "{ addressing: dhcp }" : network, machine);
  for (unsigned i = 1; i <= planes; ++i)
    text += fmt::format("    cp-{}: {{ role: controlplane }}\n", i);
  for (unsigned i = 1; i <= workers; ++i) text += fmt::format("    w-{}: {{ role: worker }}\n", i);
  return text;
}

void raise(ClusterRig& rig, const std::string& text) {
  rig.write_spec(text);
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

/// Where each VM is heard now.
std::map<unsigned, std::string> places(const ClusterRig& rig) {
  std::map<unsigned, std::string> all;
  for (const lab::Truth& truth : rig.home.estate.truths())
    all[truth.vmid] = truth.heard.empty() ? "" : truth.heard.front();
  return all;
}

void change_leases(ClusterRig& rig, const std::string& whose) {
  const auto before = places(rig);
  arm(rig, fmt::format("- at: 0s\n  lease: {}\n", whose));
  rig.home.world.run_for(2min);
  ASSERT_NE(places(rig), before);
}

std::string server_of(ClusterRig& rig) {
  const auto config = text::parse_yaml(rig.files.get("/clusters/blue/configs/kubeconfig"), "k");
  return config.find({"clusters", "0", "cluster", "server"})->text();
}

/// Every disk that a VM has, by the volume it is.
std::vector<std::string> disks(const ClusterRig& rig) {
  std::vector<std::string> all;
  for (const auto& [vmid, vm] : rig.home.dc.vms)
    for (const auto& [key, value] : vm.config)
      if (key.starts_with("scsi") && key != "scsihw") all.push_back(value);
  return all;
}

TEST(Addresses, AControlPlaneWithANewLeaseIsFoundAndItsEndpointFollows) {
  ClusterRig rig;
  raise(rig, dhcp_spec(1, 1));
  change_leases(rig, "all");
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  EXPECT_EQ(server_of(rig), fmt::format("https://{}:6443", places(rig).at(100)));
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
  // The configurations name the new endpoint, the worker's too.
  for (const lab::Truth& truth : rig.home.estate.truths())
    EXPECT_THAT(truth.config, HasSubstr(fmt::format("https://{}:6443", places(rig).at(100))));
}

TEST(Addresses, AMachineThatGoesOffBeforeAnybodyToldWhereItIsIsStartedAgain) {
  ClusterRig rig;
  rig.write_spec(dhcp_spec(1, 0));
  rig.home.dc.task_fault = [&](const auto&,
                               const auto& task) -> std::optional<lab::pve::TaskFault> {
    if (task.upid.type == "qmstart")
      rig.home.world.after(3s, [&] {
        rig.home.dc.task_fault = nullptr;
        rig.home.estate.crash(100);
      });
    return std::nullopt;
  };
  converges(rig, 1);
}

/// Proxmox refuses to start a VM, once that is switched on.
class RefusedStarts final : public net::Transport {
 public:
  explicit RefusedStarts(net::Transport& inner) : inner_(inner) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (on && request.method == "POST" && request.url.ends_with("/status/start")) {
      ++refusals;
      throw Error(Fault::Denied, "Permission check failed (/vms/100, VM.PowerMgmt)");
    }
    return inner_.exchange(request, sink, std::move(stop));
  }
  bool on = false;
  unsigned refusals = 0;

 private:
  net::Transport& inner_;
};

TEST(Addresses, AMachineThatCannotBeStartedAgainIsReportedWhileItIsWaitedFor) {
  ClusterRig rig;
  RefusedStarts refusing{rig.counting};
  rig.transport = &refusing;
  rig.write_spec(dhcp_spec(1, 0));
  rig.home.dc.task_fault = [&](const auto&,
                               const auto& task) -> std::optional<lab::pve::TaskFault> {
    if (task.upid.type == "qmstart")
      rig.home.world.after(3s, [&] {
        rig.home.dc.task_fault = nullptr;
        refusing.on = true;
        rig.home.estate.crash(100);
      });
    return std::nullopt;
  };
  EXPECT_FALSE(rig.up().ok());
  EXPECT_GT(refusing.refusals, 0u);
  EXPECT_THAT(rig.log, Contains(AllOf(HasSubstr("machine/cp-1"), HasSubstr("VM.PowerMgmt"))));
}

TEST(Addresses, AWorkerThatWasOffWhileItsEndpointMovedFollowsInOneRun) {
  ClusterRig rig;
  raise(rig, dhcp_spec(1, 1));
  test::Administrator client = client_with(rig, rig.home.root_token);
  const auto stop = client.start_stop("pve1", 101);
  while (client.find_task(stop)->running) rig.home.world.run_for(1s);
  change_leases(rig, "100");
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  EXPECT_THAT(rig.home.estate.truth(101).config,
              HasSubstr(fmt::format("https://{}:6443", places(rig).at(100))));
}

TEST(Addresses, AWorkerThatNobodyRemembersFollowsItsEndpointInOneRun) {
  ClusterRig rig;
  raise(rig, dhcp_spec(1, 1));
  rig.lose_state();
  rig.home.estate.crash(101);
  change_leases(rig, "100");
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(Addresses, AWorkerWhoseNewAddressNobodyCouldSignIsAskedByItsName) {
  ClusterRig rig;
  raise(rig, dhcp_spec(1, 1));
  rig.home.estate.crash(100);
  change_leases(rig, "all");
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  EXPECT_THAT(rig.home.estate.truth(101).config,
              HasSubstr(fmt::format("https://{}:6443", places(rig).at(100))));
}

TEST(Addresses, WhatARunWaitedForThatWasStoppedIsFollowedAsWell) {
  ClusterRig rig;
  const std::string spec = replace_all(dhcp_spec(1, 0), "version: v1.34.1",
                                       "version: v1.34.1, endpoint: { vip: 10.0.1.10 }");
  raise(rig, spec);
  rig.home.estate.crash(100);
  rig.home.world.run_for(30s);
  // It is waited for when somebody stops the run, and comes back with another lease.
  std::stop_source stop;
  rig.home.world.after(6s, [stop]() mutable { stop.request_stop(); });
  rig.stop = stop.get_token();
  EXPECT_FALSE(rig.up().ok());
  rig.stop = {};
  rig.home.estate.crash(100);
  rig.home.lans.change_all_leases();
  rig.home.world.run_for(30s);
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(Addresses, OneOfThreeControlPlanesWithANewLeaseKeepsQuorum) {
  ClusterRig rig;
  raise(rig, dhcp_spec(3, 0));
  change_leases(rig, "101");
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  EXPECT_EQ(rig.run()->status().etcd, "3 members, healthy");
}

TEST(Addresses, AllControlPlanesWithNewLeasesLoseQuorumAndNothingElse) {
  ClusterRig rig;
  raise(rig, dhcp_spec(3, 1));
  const auto before = disks(rig);
  change_leases(rig, "all");
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(problems(report), AllOf(HasSubstr("quorum"), HasSubstr("bootstrap --recover-from="),
                                      HasSubstr("cp /var/lib/etcd/member/snap/db"),
                                      HasSubstr("every disk is left as it is")));
  EXPECT_EQ(disks(rig), before);
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
  // They were found all the same: access files and configurations are of the new addresses.
  EXPECT_EQ(server_of(rig), fmt::format("https://{}:6443", places(rig).at(100)));
  for (const resources::NodeStatus& node : rig.run()->status().nodes)
    EXPECT_EQ(node.address,
              places(rig).at(100 + (node.name == "w-1" ? 3u : unsigned(node.name.back() - '1'))));
  const std::string endpoint = places(rig).at(100);
  for (const lab::Truth& truth : rig.home.estate.truths()) {
    SCOPED_TRACE(truth.hostname);
    EXPECT_THAT(truth.config, HasSubstr(fmt::format("endpoint: https://{}:6443", endpoint)));
    const auto config = text::parse_yaml_stream(truth.config, "config").front();
    const text::Value* names = config.find({"cluster", "apiServer", "certSANs"});
    if (truth.vmid == 103) continue;  // a worker has no API
    ASSERT_NE(names, nullptr);
    std::vector<std::string> all;
    for (const text::Value& name : names->items()) all.push_back(name.text());
    EXPECT_THAT(all, Contains(endpoint)) << "its certificates are good for the endpoint";
  }
}

const char* const searched = "{ addressing: dhcp, subnet: 10.0.200.0/23 }";

TEST(Addresses, WithoutAGuestAgentNodesAreFoundByTheirHardwareInTheSubnet) {
  ClusterRig rig;
  rig.home.lans.reserve("bc:24:11:00:00:77", *IpAddress::parse("10.0.200.1"));
  raise(rig, dhcp_spec(1, 1, searched, "[]", "{ agent: false }"));
  change_leases(rig, "all");
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  EXPECT_EQ(server_of(rig), fmt::format("https://{}:6443", places(rig).at(100)));
}

TEST(Addresses, ALeaseThatWentToAnotherNodeLeadsToASearch) {
  ClusterRig rig;
  raise(rig, dhcp_spec(1, 2, searched, "[]", "{ agent: false }"));
  const auto card = [&](unsigned vmid) {
    const std::string* nic = rig.home.dc.vms.at(vmid).find("net0");
    return nic->substr(nic->find('=') + 1, 17);
  };
  // The second worker is off, and the first one has its address by now.
  test::Administrator client = client_with(rig, rig.home.root_token);
  const std::string old = places(rig).at(102);
  const auto stop = client.start_stop("pve1", 102);
  while (client.find_task(stop)->running) rig.home.world.run_for(1s);
  rig.home.lans.reserve(card(102), *IpAddress::parse("10.0.200.99"));
  rig.home.lans.reserve(card(101), *IpAddress::parse(old));
  rig.home.world.run_for(2min);
  ASSERT_EQ(places(rig).at(101), old);
  std::vector<std::string> names;
  for (const engine::Planned& step : rig.plan().steps) {
    EXPECT_EQ(step.change.refusal, "") << step.address;
    for (const engine::FieldChange& field : step.change.fields) names.push_back(field.field);
  }
  EXPECT_THAT(names, Not(Contains(HasSubstr("hostname")))) << "taken for the other one";
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  EXPECT_EQ(rig.home.estate.truth(101).hostname, "w-1");
  EXPECT_EQ(rig.home.estate.truth(102).hostname, "w-2");
}

TEST(Addresses, WithoutAGuestAgentANeighbourIsKnownByItsCard) {
  ClusterRig rig;
  // The table of neighbours of the machine that rocca runs on, as the kernel prints it.
  const auto table = [&] {
    std::string text =
        "IP address       HW type     Flags       HW address            Mask     Device\n";
    unsigned number = 1;
    for (const char* node : {"cp-1", "w-1"}) {
      const auto mac =
          resources::derive_mac(engine::derive_uuid(test_bundle().cluster_id, node), 0);
      const std::string address = fmt::format("10.0.7.{}", number++);
      rig.home.lans.reserve(to_string(mac), *IpAddress::parse(address));
      text += fmt::format("{:<17}0x1         0x2         {}     *        eth0\n", address,
                          to_string(mac));
    }
    return text;
  }();
  rig.files.make_folder("/proc/net");
  rig.files.write("/proc/net/arp", table);
  const Instant begun = rig.home.world.now();
  raise(rig,
        dhcp_spec(1, 1, "{ addressing: dhcp, subnet: 10.0.0.0/20 }", "[]", "{ agent: false }"));
  EXPECT_THAT(places(rig), testing::ElementsAre(testing::Pair(100u, "10.0.7.1"),
                                                testing::Pair(101u, "10.0.7.2")));
  // Asking one by one would not have come as far as 10.0.7.1 in that time.
  EXPECT_LT(rig.home.world.now() - begun, 3min);
}

TEST(Addresses, ANodeThatCannotBeFoundIsAnErrorOfTheSpec) {
  ClusterRig rig;
  rig.write_spec(
      dhcp_spec(1, 0, "{ addressing: dhcp, subnet: 10.0.0.0/16 }", "[]", "{ agent: false }"));
  try {
    rig.up();
    ADD_FAILURE() << "a node that cannot be found was created";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage) << error.render();
    EXPECT_THAT(error.render(),
                HasSubstr("cluster.yaml:9:21: error: cp-1 gets its address by DHCP"));
  }
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

TEST(Addresses, OneThatAPrinterHasIsRefusedBeforeItsVmIsMade) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  arm(rig, "- { at: 0s, foreign: 10.0.1.22 }\n");
  rig.home.world.run_for(1s);
  rig.write_spec(static_spec(pools(1, 3)));
  EXPECT_THAT(refused([&] { rig.up(); }),
              AllOf(HasSubstr("10.0.1.22 of worker-2 is in use: port 80 answers there"),
                    Not(HasSubstr("worker-3"))));
  EXPECT_EQ(rig.home.dc.vms.size(), 2u) << "nothing is made";
}

TEST(Addresses, ThoseOfAnotherClusterAreRefusedBeforeAnyVmIsMade) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  const secrets::Bundle other = make_bundle(8);
  rig.turn_to("/clusters/green", other);
  rig.write_spec(replace_all(static_spec(pools(1, 1)), "name: blue", "name: green"));
  EXPECT_THAT(refused([&] { rig.up(); }),
              HasSubstr("10.0.1.11 of cp-1 is in use: a Talos machine of another cluster"));
  EXPECT_EQ(rig.home.dc.vms.size(), 2u);
}

TEST(Addresses, OneThatALeftoverOfOursHasIsWaitedFor) {
  ClusterRig rig;
  const std::string before = "  nodes:\n    cp-1: { role: controlplane, address: 10.0.1.11 }\n";
  rig.write_spec(static_spec(before + "    old: { role: worker, address: 10.0.1.21 }\n"));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(static_spec(before + "    new: { role: worker, address: 10.0.1.21 }\n"));
  const engine::Report report = rig.up(allow_data_loss());
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(rig.home.dc.vms.size(), 2u);
}

TEST(Addresses, FromDhcpToStaticWithoutRebuilding) {
  ClusterRig rig;
  raise(rig, dhcp_spec(3, 1));
  const auto before = disks(rig);
  std::vector<std::string> machines;
  for (const auto& [vmid, vm] : rig.home.dc.vms)
    machines.push_back(*vm.find("smbios1") + vm.find("net0")->substr(0, 24));
  // The addresses that they have now become theirs.
  const auto at = places(rig);
  std::string text = replace_all(
      dhcp_spec(3, 1), "{ addressing: dhcp }",
      "{ addressing: static, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1] }");
  for (unsigned i = 0; i < 4; ++i) {
    const std::string name = i < 3 ? fmt::format("cp-{}", i + 1) : "w-1";
    const std::string role = i < 3 ? "role: controlplane" : "role: worker";
    text = replace_all(text, fmt::format("    {}: {{ {} }}", name, role),
                       fmt::format("    {}: {{ {}, address: {} }}", name, role, at.at(100 + i)));
  }
  rig.write_spec(text);
  EXPECT_THAT(refused([&] { rig.up(); }), HasSubstr("--allow power-cycle"));
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::PowerCycle);
  const engine::Report report = rig.up(options);
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  EXPECT_EQ(disks(rig), before);
  std::vector<std::string> after;
  for (const auto& [vmid, vm] : rig.home.dc.vms)
    after.push_back(*vm.find("smbios1") + vm.find("net0")->substr(0, 24));
  EXPECT_EQ(after, machines);
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
  // From now on the DHCP server may do as it likes.
  arm(rig, "- at: 0s\n  lease: all\n");
  rig.home.world.run_for(2min);
  EXPECT_EQ(places(rig), at);
  EXPECT_EQ(rig.run()->status().etcd, "3 members, healthy");
}

TEST(Addresses, MetaNodesBootWithTheirAddressesAndKeepThem) {
  ClusterRig rig;
  rig.home.lans.dhcp_answers = false;
  std::string text = replace_all(
      dhcp_spec(3, 1), "{ addressing: dhcp }",
      "{ addressing: meta, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1] }");
  for (unsigned i = 1; i <= 3; ++i)
    text = replace_all(text, fmt::format("cp-{}: {{ role: controlplane", i),
                       fmt::format("cp-{0}: {{ address: 10.0.4.{0}, role: controlplane", i));
  text = replace_all(text, "w-1: { role: worker", "w-1: { address: 10.0.4.9, role: worker");
  raise(rig, text);
  EXPECT_THAT(places(rig), testing::ElementsAre(
                               testing::Pair(100u, "10.0.4.1"), testing::Pair(101u, "10.0.4.2"),
                               testing::Pair(102u, "10.0.4.3"), testing::Pair(103u, "10.0.4.9")));
  // One image for each node, and the image's own address survives a power cycle.
  std::set<std::string> images;
  for (const lab::Truth& truth : rig.home.estate.truths()) images.insert(truth.schematic);
  EXPECT_EQ(images.size(), 4u);
  rig.home.estate.crash(103);
  EXPECT_TRUE(rig.up().ok());
  EXPECT_EQ(places(rig).at(103), "10.0.4.9");
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

}  // namespace
}  // namespace rocca::scenarios
