// The ways a node comes to its image and its address, and machines that were there before.

#include "scenarios/engine_machines.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::string spec_with(const std::string& talos, const std::string& network,
                      const std::string& nodes) {
  return fmt::format(R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: {{ name: blue }}
spec:
  talos: {{ version: v1.11.5, extensions: [qemu-guest-agent]{} }}
  kubernetes: {{ version: v1.34.1 }}
  network: {}
  proxmox:
    endpoints: [https://pve.home:8006]
    insecure: true
    token: {{ secret: proxmox.token }}
    hosts: [pve1]
{})",
                     talos, network, nodes);
}

const char* const static_network =
    "{ addressing: static, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1] }";

TEST(EngineModes, AnIsoIsTakenOutOnceItsNodeIsInstalled) {
  ClusterRig rig;
  rig.write_spec(spec_with(", boot: iso", static_network, pools(1, 1)));
  converges(rig, 2);
  for (const auto& [vmid, vm] : rig.home.dc.vms) {
    EXPECT_THAT(*vm.find("ide0"), HasSubstr("none"));
    EXPECT_THAT(*vm.find("boot"), testing::StartsWith("order=scsi0"));
  }
}

TEST(EngineModes, AMetaNodeHasAnImageOfItsOwn) {
  ClusterRig rig;
  rig.write_spec(spec_with("",
                           "{ addressing: meta, subnet: 10.0.0.0/16, gateway: 10.0.0.1, "
                           "nameservers: [10.0.0.1] }",
                           pools(1, 1)));
  converges(rig, 2);
  std::size_t images = 0;
  for (const auto& [name, volume] : rig.home.dc.storages.at("local").on("pve1"))
    images += name.starts_with("import/");
  EXPECT_EQ(images, 2u);
}

TEST(EngineModes, AnImageThatNobodyNeedsAnyMoreGoes) {
  ClusterRig rig;
  const auto images = [&] {
    std::size_t count = 0;
    for (const auto& [name, volume] : rig.home.dc.storages.at("local").on("pve1"))
      count += name.starts_with("import/");
    return count;
  };
  const char* const meta =
      "{ addressing: meta, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1] }";
  rig.write_spec(spec_with("", meta, pools(1, 2)));
  converges(rig, 3);
  EXPECT_EQ(images(), 3u) << "each node has its addresses in its own";
  rig.write_spec(spec_with("", meta, pools(1, 1)));
  const engine::Report report = rig.up(allow_data_loss());
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(images(), 2u);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(EngineModes, NodesOfOneSchematicShareOneImage) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 2)));
  converges(rig, 3);
  std::vector<std::string> images;
  for (const auto& [name, volume] : rig.home.dc.storages.at("local").on("pve1"))
    if (name.starts_with("import/")) images.push_back(name);
  EXPECT_THAT(images, SizeIs(1));
}

TEST(EngineModes, DhcpFindsItsNodesByTheirGuestAgents) {
  ClusterRig rig;
  rig.write_spec(
      spec_with("", "{ addressing: dhcp }",
                "  nodes:\n    cp-1: { role: controlplane }\n    w-1: { role: worker }\n"));
  converges(rig, 2);
}

TEST(EngineModes, ManyNodesThatAgentsTellOfAskTheirHostForThreeThingsAtATime) {
  ClusterRig rig;
  std::string nodes = "  nodes:\n    cp-1: { role: controlplane }\n";
  for (int i = 1; i <= 7; ++i) nodes += fmt::format("    w-{}: {{ role: worker }}\n", i);
  rig.write_spec(spec_with("", "{ addressing: dhcp }", nodes));
  converges(rig, 8);
  EXPECT_LE(rig.wire.peak_in_flight("pve/pve1"), 3u);
}

TEST(EngineModes, AChangedLeaseIsFollowed) {
  ClusterRig rig;
  rig.write_spec(
      spec_with("", "{ addressing: dhcp }",
                "  nodes:\n    cp-1: { role: controlplane }\n    w-1: { role: worker }\n"));
  converges(rig, 2);
  const auto heard = rig.home.estate.truth(101).heard;
  ASSERT_FALSE(heard.empty());
  const std::string* nic = rig.home.dc.vms.at(101).find("net0");
  rig.home.lans.change_lease(nic->substr(nic->find('=') + 1, 17));
  rig.home.world.run_for(10min);
  ASSERT_NE(rig.home.estate.truth(101).heard, heard);
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  bool found = false;
  for (const resources::NodeStatus& node : rig.run()->status().nodes)
    if (node.name == "w-1") {
      found = true;
      EXPECT_EQ(node.address, rig.home.estate.truth(101).heard.front());
      EXPECT_TRUE(node.healthy) << node.problem;
    }
  EXPECT_TRUE(found);
}

TEST(EngineModes, ACloneOfATemplateBecomesOurs) {
  ClusterRig rig;
  make_template(rig);
  rig.write_spec(clones(pools(1, 1)));
  converges(rig, 3);
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_THAT(rig.home.dc.vms, SizeIs(1)) << "the template is not ours";
}

TEST(EngineModes, EveryHostClonesTheTemplateOfItsOwn) {
  lab::Home::Options options;
  options.hosts = {"pve1", "pve2"};
  ClusterRig rig{options};
  make_template(rig, 9000, "pve1");
  make_template(rig, 9001, "pve2");
  rig.write_spec(replace_all(clones(pools(1, 1)), "hosts: [pve1]", "hosts: [pve1, pve2]"));
  converges(rig, 4);
  std::set<std::string> hosts;
  for (const unsigned vmid : {100u, 101u}) hosts.insert(rig.home.dc.vms.at(vmid).node);
  EXPECT_THAT(hosts, SizeIs(2)) << "what lies on one host cannot be cloned to another";
}

TEST(EngineModes, MachinesThatAreThereBecomeACluster) {
  ClusterRig rig;
  make_machine(rig, 700, "10.0.3.1");
  make_machine(rig, 701, "10.0.3.2");
  const auto before = identities(rig);
  rig.write_spec(R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: { name: blue }
spec:
  talos: { version: v1.11.5, extensions: [qemu-guest-agent] }
  kubernetes: { version: v1.34.1 }
  network: { addressing: static, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1] }
  nodes:
    cp-1: { role: controlplane, address: 10.0.3.1, existing: true }
    w-1: { role: worker, address: 10.0.3.2, existing: true }
)");
  converges(rig, 2);
  EXPECT_EQ(identities(rig), before) << "never created, never changed";
  const auto lock = spec::find_lock(rig.files, "/clusters/blue");
  ASSERT_TRUE(lock);
  EXPECT_TRUE(lock->nodes.at("cp-1").uuid) << "known by its hardware from now on";
  // `down` leaves them alone.
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_EQ(identities(rig), before);
  EXPECT_TRUE(rig.home.estate.truth(700).configured);
  // Unless told otherwise: then they are in maintenance mode again.
  resources::RunOptions options;
  options.reset_existing = true;
  const engine::Report reset = rig.down(options);
  EXPECT_TRUE(reset.ok()) << problems(reset);
  rig.home.world.run_for(5min);
  EXPECT_EQ(identities(rig), before);
  EXPECT_FALSE(rig.home.estate.truth(700).configured);
}

TEST(EngineModes, AMachineWithTwoNicsHasItsAddressOnTheOneWeReachItBy) {
  ClusterRig rig;
  make_machine(rig, 700, "10.0.3.1", "10.77.0.1");
  rig.write_spec(R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: { name: blue }
spec:
  talos: { version: v1.11.5, extensions: [qemu-guest-agent] }
  kubernetes: { version: v1.34.1, endpoint: { vip: 10.0.3.9 } }
  network: { addressing: static, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1] }
  nodes:
    cp-1: { role: controlplane, address: 10.0.3.1, existing: true }
)");
  converges(rig, 1);
  const lab::Truth truth = rig.home.estate.truth(700);
  const lab::talos::TalosNode* node = rig.home.estate.find(700);
  ASSERT_NE(node, nullptr);
  ASSERT_EQ(node->machine().links.size(), 2u);
  EXPECT_THAT(truth.config, HasSubstr("hardwareAddr: " + to_lower(node->machine().links[1].mac)));
  EXPECT_THAT(truth.config, Not(HasSubstr("physical: true")));
  EXPECT_EQ(std::count(truth.addresses.begin(), truth.addresses.end(), "10.0.3.1/16"), 1);
  EXPECT_THAT(truth.addresses, Contains("10.77.0.1/24")) << "the other network is left alone";
}

TEST(EngineModes, AStrangerAtANodesAddressGetsNothing) {
  ClusterRig rig;
  make_machine(rig, 700, "10.0.1.11");  // where cp-1 should be
  rig.write_spec(static_spec(pools(1, 0)));
  EXPECT_THAT(refused([&] { rig.up(); }), HasSubstr("10.0.1.11 of cp-1 is in use: machine "));
  EXPECT_EQ(rig.home.dc.vms.size(), 1u) << "nothing is made";
  EXPECT_FALSE(rig.home.estate.truth(700).configured) << "our secrets went to a stranger";
}

TEST(EngineModes, AStrangerWhoComesLaterGetsNothing) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  arm(rig, "- { at: 0s, crash: 101 }\n");
  rig.home.world.run_for(1min);
  make_machine(rig, 700, "10.0.1.21");  // where worker-1 was
  EXPECT_THAT(refused([&] { rig.up(); }), AllOf(HasSubstr("who answers at 10.0.1.21 is machine"),
                                                HasSubstr("used by another machine?")));
  EXPECT_FALSE(rig.home.estate.truth(700).configured) << "our secrets went to a stranger";
}

}  // namespace
}  // namespace rocca::scenarios
