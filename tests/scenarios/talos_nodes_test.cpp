// From a spec to a cluster that answers, with our own clients and no engine in between.

#include "scenarios/node_rig.hpp"
#include "secrets/x509.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr const char* lan = "subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1]";

class TalosNodes : public ::testing::TestWithParam<const char*> {};

TEST_P(TalosNodes, ThreeControlPlanesAndAWorkerBecomeACluster) {
  NodeRig rig{spec_text(GetParam(), lan,
                        "    cp-1: { role: controlplane, address: 10.0.0.11 }\n"
                        "    cp-2: { role: controlplane, address: 10.0.0.12 }\n"
                        "    cp-3: { role: controlplane, address: 10.0.0.13 }\n"
                        "    w-1: { role: worker, address: 10.0.0.21 }\n",
                        ", endpoint: { vip: 10.0.0.20 }")};
  for (const spec::Node& node : rig.spec.nodes) {
    rig.create(node);
    const std::string at = to_string(**node.address);
    ASSERT_TRUE(rig.until([&] { return rig.in_maintenance(at); })) << node.name;
    EXPECT_EQ(rig.address(node), at) << "the agent tells it in maintenance mode";
    const auto system = rig.maintenance(at).find_system_information();
    ASSERT_TRUE(system);
    EXPECT_EQ(system->uuid, rig.uuid(node)) << "known by its hardware";
    rig.maintenance(at).apply(rig.config(node), {});
  }
  for (const spec::Node& node : rig.spec.nodes)
    ASSERT_TRUE(rig.until([&] { return rig.answers(to_string(**node.address)); })) << node.name;

  const spec::Node& first = rig.node("cp-1");
  ASSERT_TRUE(rig.until([&] {
    try {
      rig.secure("10.0.0.11").bootstrap();
      return true;
    } catch (const Error&) {
      return false;
    }
  }));
  const auto running = [&](const spec::Node& node) {
    const auto status = rig.secure(to_string(**node.address)).find_machine_status();
    const auto* known = std::get_if<talos::MachineStatus>(&status);
    return known != nullptr && known->stage == talos::Stage::Running && known->ready;
  };
  for (const spec::Node& node : rig.spec.nodes)
    ASSERT_TRUE(rig.until([&] { return running(node); })) << node.name;
  EXPECT_THAT(rig.secure("10.0.0.12").etcd_members(), SizeIs(3));
  EXPECT_THAT(rig.home.estate.bootstraps(), SizeIs(1));
  EXPECT_EQ(*rig.secure("10.0.0.21").find_hostname(), "w-1");
  EXPECT_EQ(rig.home.estate.owner_of("10.0.0.20"), rig.vmid(first));

  // The API server shows a certificate of the cluster's own authority, at the shared address too.
  SeededEntropy chance{5};
  const secrets::CertifiedKey minted =
      secrets::mint_kubernetes_admin(NodeRig::bundle().authority(secrets::Authority::Kubernetes),
                                     rig.home.world.now(), chance, std::chrono::hours{24});
  const auto admin = std::make_shared<const net::Identity>(
      net::Identity{minted.certificate.pem, minted.key.pem()});
  const auto healthy = [&](const std::string& at) {
    net::Request request;
    request.url = fmt::format("https://{}:6443/readyz", at);
    request.tls = net::Tls::authority(NodeRig::bundle().kubernetes.crt);
    request.tls.identity = admin;
    request.timeout = request.connect_timeout = 5s;
    try {
      return net::fetch(rig.wire, request).body == "ok";
    } catch (const Error&) {
      return false;
    }
  };
  EXPECT_TRUE(rig.until([&] { return healthy("10.0.0.12"); }));
  EXPECT_TRUE(healthy("10.0.0.20"));
  // Not before all three have a vote: two of two are no majority without the first.
  EXPECT_TRUE(rig.until([&] {
    return std::all_of(rig.spec.nodes.begin(), rig.spec.nodes.end(), [&](const spec::Node& node) {
      return node.name == "w-1" || rig.home.estate.truth(rig.vmid(node)).etcd_member;
    });
  }));
  rig.finish(rig.pve.start_stop("pve1", rig.vmid(first)));
  EXPECT_FALSE(healthy("10.0.0.20"));
  EXPECT_TRUE(rig.until([&] { return healthy("10.0.0.20"); }, 2min));
  EXPECT_NE(rig.home.estate.owner_of("10.0.0.20"), rig.vmid(first));
}

INSTANTIATE_TEST_SUITE_P(Releases, TalosNodes, ::testing::Values("v1.11.5", "v1.13.9"),
                         [](const auto& param) {
                           return replace_all(replace_all(param.param, ".", "_"), "v", "talos_");
                         });

TEST(TalosNode, LeasesThatChangeAllAtOnceAreFoundAgainThroughTheAgent) {
  NodeRig rig{spec_text("v1.11.5", "addressing: dhcp",
                        "    cp-1: { role: controlplane }\n    w-1: { role: worker }\n")};
  std::map<std::string, std::string> before;
  for (const spec::Node& node : rig.spec.nodes) {
    rig.create(node);
    ASSERT_TRUE(rig.until([&] { return !rig.address(node).empty(); }));
    before[node.name] = rig.address(node);
    ASSERT_TRUE(rig.until([&] { return rig.in_maintenance(before[node.name]); }));
    rig.maintenance(before[node.name]).apply(rig.config(node, before["cp-1"]), {});
  }
  ASSERT_TRUE(rig.until([&] { return rig.answers(before["w-1"]); }));
  rig.home.lans.change_all_leases();
  for (const spec::Node& node : rig.spec.nodes) {
    ASSERT_TRUE(rig.until([&] { return rig.address(node) != before[node.name]; }));
    EXPECT_TRUE(rig.answers(rig.address(node))) << "with a certificate for its new address";
    EXPECT_FALSE(rig.answers(before[node.name]));
  }
}

TEST(TalosNode, AnUpgradeWithTheWrongInstallerLosesTheDrivesAddress) {
  NodeRig rig{spec_text("v1.11.5", lan, "    cp-1: { role: controlplane, address: 10.0.0.11 }\n")};
  const spec::Node& node = rig.node("cp-1");
  rig.create(node);
  ASSERT_TRUE(rig.until([&] { return rig.in_maintenance("10.0.0.11"); }));
  rig.maintenance("10.0.0.11").apply(rig.config(node), {});
  ASSERT_TRUE(rig.until([&] { return rig.answers("10.0.0.11"); }));
  rig.secure("10.0.0.11").bootstrap();
  ASSERT_TRUE(rig.until([&] { return rig.truth(node).stage == lab::talos::Stage::Running; }));
  const std::string id = rig.schematic(node);
  rig.secure("10.0.0.11")
      .upgrade({.image = fmt::format("factory.talos.dev/nocloud-installer/{}:v1.11.6", id)});
  ASSERT_TRUE(rig.until([&] { return rig.truth(node).installed_version == "v1.11.6"; }));
  ASSERT_TRUE(rig.until([&] { return rig.answers("10.0.0.11"); }));
  ASSERT_TRUE(rig.until([&] { return rig.truth(node).stage == lab::talos::Stage::Running; }));
  rig.secure("10.0.0.11")
      .upgrade({.image = fmt::format("factory.talos.dev/installer/{}:v1.11.6", id)});
  ASSERT_TRUE(rig.until([&] { return rig.truth(node).platform == "metal"; }));
  EXPECT_FALSE(rig.until([&] { return rig.answers("10.0.0.11"); }, 2min));
}

TEST(TalosNode, AVmThatMovesToAnotherHostGoesOn) {
  lab::Home::Options options;
  options.hosts = {"pve1", "pve2"};
  NodeRig rig{spec_text("v1.11.5", lan, "    cp-1: { role: controlplane, address: 10.0.0.11 }\n"),
              options};
  const spec::Node& node = rig.node("cp-1");
  rig.create(node);
  ASSERT_TRUE(rig.until([&] { return rig.in_maintenance("10.0.0.11"); }));
  rig.maintenance("10.0.0.11").apply(rig.config(node), {});
  ASSERT_TRUE(rig.until([&] { return rig.answers("10.0.0.11"); }));
  rig.finish(rig.pve.start_stop("pve1", rig.vmid(node)));
  rig.finish(rig.pve.start_migrate("pve1", rig.vmid(node), "pve2", false));
  rig.finish(rig.pve.start_vm("pve2", rig.vmid(node)));
  EXPECT_TRUE(rig.until([&] { return rig.answers("10.0.0.11"); })) << "its config came along";
  rig.home.dc.set_online("pve1", false);
  EXPECT_TRUE(rig.answers("10.0.0.11"));
  rig.home.dc.set_online("pve2", false);
  EXPECT_FALSE(rig.answers("10.0.0.11"));
}

}  // namespace
}  // namespace rocca::scenarios
