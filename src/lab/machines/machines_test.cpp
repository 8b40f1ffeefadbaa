#include "lab/machines/machines_test_support.hpp"

namespace rocca::lab {
namespace {

using namespace std::chrono_literals;
namespace pb = rocca::proto::machine;
using talos::Stage;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EstateTest : public ::testing::Test, protected EstateRig {
 protected:
  const Truth truth(unsigned vmid = 100) const { return home.estate.truth(vmid); }
  void configure(unsigned vmid, const std::string& address, const std::string& type,
                 const std::string& name) {
    ASSERT_EQ(apply(address, config(type, name)).code, 0) << vmid;
    run_for(40s);
  }
};

TEST_F(EstateTest, AnImportedImageBootsIntoMaintenanceAtItsCloudInitAddress) {
  create(100, "cp-1", "10.0.0.11");
  EXPECT_EQ(truth().installed_version, "v1.11.5") << "an image on a disk is an installed Talos";
  start(100);
  EXPECT_THAT(call("10.0.0.11", "Version", "", false).trouble, HasSubstr("timed out"))
      << "still in its firmware";
  run_for(20s);
  EXPECT_EQ(truth().stage, Stage::Maintenance);
  EXPECT_EQ(truth().hostname, "cp-1");
  EXPECT_THAT(truth().addresses, ElementsAre("10.0.0.11/16"));
  EXPECT_EQ(truth().platform, "nocloud");
  EXPECT_EQ(call("10.0.0.11", "Version", "", false).message,
            "API is not implemented in maintenance mode");
  const talos::TalosNode& node = *home.estate.find(100);
  EXPECT_EQ(node.machine().uuid, uuid_of(100));
  EXPECT_EQ(node.machine().links.front().name, "eth0");
  EXPECT_EQ(node.machine().disks.front().serial, "root");
}

TEST_F(EstateTest, TheAgentTellsTheAddressInMaintenanceMode) {
  raise(100, "cp-1", "10.0.0.11");
  const text::Value answer = ask("GET", vm_path(100, "/agent/network-get-interfaces"));
  EXPECT_EQ(answer.find("result")->items().at(1).find("name")->text(), "eth0");
  EXPECT_EQ(answer.find("result")
                ->items()
                .at(1)
                .find("ip-addresses")
                ->items()
                .front()
                .find("ip-address")
                ->text(),
            "10.0.0.11");
}

TEST_F(EstateTest, AnAppliedConfigStaysOnTheVolumeOverStopAndStart) {
  raise(100, "cp-1", "10.0.0.11");
  configure(100, "10.0.0.11", "controlplane", "cp-one");
  EXPECT_EQ(call("10.0.0.11", "Version", "", true).code, 0);
  EXPECT_EQ(truth().hostname, "cp-one");
  task("POST", vm_path(100, "/status/stop"));
  EXPECT_FALSE(truth().running);
  EXPECT_TRUE(truth().configured);
  EXPECT_THAT(call("10.0.0.11", "Version", "", true).trouble, HasSubstr("timed out"));
  start(100);
  run_for(40s);
  EXPECT_EQ(truth().hostname, "cp-one");
  EXPECT_EQ(call("10.0.0.11", "Version", "", true).code, 0);
}

TEST_F(EstateTest, ARebootKeepsTheVmRunningAndAShutdownStopsIt) {
  raise(100, "cp-1", "10.0.0.11");
  configure(100, "10.0.0.11", "controlplane", "cp-1");
  EXPECT_EQ(call("10.0.0.11", "Reboot", "", true).code, 0);
  run_for(5s);
  EXPECT_TRUE(truth().running);
  run_for(40s);
  EXPECT_EQ(call("10.0.0.11", "Version", "", true).code, 0);
  EXPECT_EQ(call("10.0.0.11", "Shutdown", "", true).code, 0);
  run_for(5s);
  EXPECT_FALSE(truth().running);
  EXPECT_EQ(ask("GET", vm_path(100, "/status/current")).find("status")->text(), "stopped");
}

TEST_F(EstateTest, ProxmoxAsksTalosToGoDown) {
  raise(100, "cp-1", "10.0.0.11");
  task("POST", vm_path(100, "/status/shutdown"));
  EXPECT_FALSE(truth().running);
}

TEST_F(EstateTest, AHostThatLosesPowerTakesItsNodesAlong) {
  raise(100, "cp-1", "10.0.0.11");
  home.dc.set_online("pve1", false);
  EXPECT_EQ(home.estate.find(100), nullptr);
  EXPECT_FALSE(home.world.network().is_up("10.0.0.11"));
}

TEST_F(EstateTest, AResetWipesTheDiskAndNothingBootsFromItAgain) {
  raise(100, "cp-1", "10.0.0.11");
  configure(100, "10.0.0.11", "controlplane", "cp-1");
  pb::ResetRequest request;
  request.set_reboot(true);
  EXPECT_EQ(call("10.0.0.11", "Reset", request.SerializeAsString(), true).code, 0);
  run_for(60s);
  EXPECT_TRUE(truth().running);
  EXPECT_EQ(truth().boot, Boot::Nothing);
  EXPECT_EQ(truth().installed_version, "");
}

TEST_F(EstateTest, AResetOfStateAndDataLeadsBackToMaintenance) {
  raise(100, "cp-1", "10.0.0.11");
  configure(100, "10.0.0.11", "controlplane", "cp-1");
  pb::ResetRequest request;
  request.set_reboot(true);
  for (const char* label : {"STATE", "EPHEMERAL"}) {
    pb::ResetPartitionSpec& part = *request.add_system_partitions_to_wipe();
    part.set_label(label);
    part.set_wipe(true);
  }
  EXPECT_EQ(call("10.0.0.11", "Reset", request.SerializeAsString(), true).code, 0);
  run_for(60s);
  EXPECT_EQ(truth().stage, Stage::Maintenance);
  EXPECT_FALSE(truth().configured);
}

TEST_F(EstateTest, DestroyingTheVmLosesWhatWasOnItsDisk) {
  raise(100, "cp-1", "10.0.0.11");
  configure(100, "10.0.0.11", "controlplane", "cp-1");
  task("POST", vm_path(100, "/status/stop"));
  task("DELETE", vm_path(100));
  raise(100, "cp-1", "10.0.0.11");
  EXPECT_EQ(truth().stage, Stage::Maintenance);
  EXPECT_FALSE(truth().configured);
}

TEST_F(EstateTest, AVmWithoutASystemAnswersNowhereAndObeysNoButton) {
  raise(100, "empty", "10.0.0.11", {{"scsi0", "local-lvm:8"}});
  EXPECT_TRUE(truth().running);
  EXPECT_EQ(truth().boot, Boot::Nothing);
  EXPECT_FALSE(home.world.network().is_up("10.0.0.11"));
}

TEST_F(EstateTest, AnotherSystemIsNoTalos) {
  WebFile file;
  file.size = 1 << 20;
  file.image.format = "qcow2";
  file.image.virtual_size = 1ull << 30;
  file.image.identity = "debian 12";
  home.dc.web.put("https://images.home/debian.qcow2", file);
  task("POST", "/nodes/pve1/storage/local/download-url",
       {{"content", "import"},
        {"filename", "debian.qcow2"},
        {"url", "https://images.home/debian.qcow2"}});
  raise(100, "debian", "10.0.0.11",
        {{"scsi0", "local-lvm:0,import-from=local:import/debian.qcow2"}});
  EXPECT_EQ(truth().boot, Boot::Foreign);
  task("POST", vm_path(100, "/status/shutdown"));
  EXPECT_FALSE(truth().running);
}

TEST_F(EstateTest, WrongVlanIsUpButNotHeard) {
  raise(100, "cp-1", "10.0.0.11", {{"net0", "virtio,bridge=vmbr0,tag=99"}});
  EXPECT_EQ(truth().stage, Stage::Maintenance);
  EXPECT_THAT(truth().addresses, ElementsAre("10.0.0.11/16"));
  EXPECT_THAT(truth().heard, IsEmpty());
  EXPECT_THAT(call("10.0.0.11", "Version", "", false).trouble, HasSubstr("timed out"));
}

TEST_F(EstateTest, ACardThatMovesWhileTheVmRunsLeavesItsWireAtOnce) {
  raise(100, "cp-1", "10.0.0.11");
  const std::string card = *home.dc.vms.at(100).find("net0");
  EXPECT_THAT(truth().heard, ElementsAre("10.0.0.11"));
  const auto plug = [&](const std::string& how) {
    ask("PUT", vm_path(100, "/config"), {{"net0", card + how}});
    run_for(1s);
  };
  plug(",tag=99");
  EXPECT_THAT(truth().addresses, ElementsAre("10.0.0.11/16"));
  EXPECT_THAT(truth().heard, IsEmpty());
  plug("");
  EXPECT_THAT(truth().heard, ElementsAre("10.0.0.11"));
  plug(",link_down=1");
  EXPECT_THAT(truth().heard, IsEmpty());
  plug(",firewall=1");
  EXPECT_THAT(truth().heard, ElementsAre("10.0.0.11"));
}

TEST_F(EstateTest, WrongGatewayIsUpButNotHeard) {
  raise(100, "cp-1", "", {{"ipconfig0", "ip=10.0.0.11/16,gw=10.0.0.254"}});
  EXPECT_EQ(truth().stage, Stage::Maintenance);
  EXPECT_THAT(truth().heard, IsEmpty());
}

TEST_F(EstateTest, WithoutACloudInitDriveDhcpDecidesAndLeasesMayChange) {
  raise(100, "cp-1", "", {{"ide2", ""}});
  EXPECT_THAT(truth().addresses, ElementsAre("10.0.200.1/16"));
  EXPECT_EQ(call("10.0.200.1", "Version", "", false).code, 12);
  home.lans.change_all_leases();
  run_for(1s);
  EXPECT_THAT(truth().addresses, ElementsAre("10.0.200.2/16"));
  EXPECT_EQ(call("10.0.200.2", "Version", "", false).code, 12);
  EXPECT_FALSE(home.world.network().is_up("10.0.200.1"));
}

TEST_F(EstateTest, AForeignHostAtTheAddressIsHeardInsteadAndTheConflictIsSeen) {
  const Network::Host printer = home.lans.add_foreign("10.0.0.11");
  raise(100, "cp-1", "10.0.0.11");
  EXPECT_THAT(call("10.0.0.11", "Version", "", false).trouble, HasSubstr("connection refused"));
  EXPECT_THAT(home.world.network().conflicts(), ElementsAre(::testing::Pair("10.0.0.11", 2u)));
  home.lans.remove_foreign(printer);
  EXPECT_EQ(call("10.0.0.11", "Version", "", false).code, 12);
}

/// What a client sees of the API server at an address; 0: nothing.
int ready(EstateRig& rig, const std::string& address) {
  net::Request request;
  request.url = fmt::format("https://{}:6443/readyz", address);
  request.tls = net::Tls::unverified();
  request.tls.identity = rig.person("admin", "system:masters");
  request.timeout = request.connect_timeout = 5s;
  try {
    return net::fetch(rig.wire, request).head.status;
  } catch (const Error&) {
    return 0;
  }
}

class ClusterTest : public EstateTest {
 protected:
  static constexpr const char* vip = "10.0.0.20";

  void raise_node(unsigned vmid, const std::string& type) {
    const std::string name = fmt::format("n-{}", vmid),
                      address = fmt::format("10.0.0.{}", vmid - 100);
    raise(vmid, name, address);
    const std::string more =
        type == "worker" ? ""
                         : fmt::format(
                               "        interfaces:\n            - interface: eth0\n              "
                               "vip:\n                  ip: {}\n",
                               vip);
    ASSERT_EQ(apply(address, config(type, name, more)).code, 0);
  }
  void raise_three() {
    for (unsigned vmid = 111; vmid <= 113; ++vmid) raise_node(vmid, "controlplane");
    run_for(30s);
    ASSERT_EQ(call("10.0.0.11", "Bootstrap", "", true).code, 0);
    run_for(90s);
  }
};

TEST_F(ClusterTest, TheSharedAddressComesWithEtcdAndMovesWhenItsOwnerDies) {
  for (unsigned vmid = 111; vmid <= 113; ++vmid) raise_node(vmid, "controlplane");
  run_for(30s);
  EXPECT_EQ(home.estate.owner_of(vip), std::nullopt) << "not before etcd";
  EXPECT_EQ(ready(*this, vip), 0);
  ASSERT_EQ(call("10.0.0.11", "Bootstrap", "", true).code, 0);
  run_for(90s);
  for (unsigned vmid = 111; vmid <= 113; ++vmid) {
    EXPECT_TRUE(truth(vmid).etcd_member) << vmid;
    EXPECT_EQ(truth(vmid).stage, Stage::Running) << vmid;
    EXPECT_EQ(ready(*this, fmt::format("10.0.0.{}", vmid - 100)), 200);
  }
  ASSERT_EQ(home.estate.owner_of(vip), 111u);
  EXPECT_EQ(ready(*this, vip), 200);
  EXPECT_EQ(call(vip, "Version", "", true).code, 0);
  EXPECT_THAT(home.estate.bootstraps(), ::testing::SizeIs(1));

  task("POST", vm_path(111, "/status/stop"));
  EXPECT_EQ(ready(*this, vip), 0) << "nobody knows yet";
  run_for(70s);
  ASSERT_TRUE(home.estate.owner_of(vip));
  EXPECT_NE(home.estate.owner_of(vip), 111u);
  EXPECT_EQ(ready(*this, vip), 200);
}

TEST_F(ClusterTest, AnOwnerThatIsAskedToGoHandsTheAddressOver) {
  raise_three();
  ASSERT_EQ(home.estate.owner_of(vip), 111u);
  ASSERT_EQ(call("10.0.0.11", "Shutdown", "", true).code, 0);
  run_for(1s);
  EXPECT_NE(home.estate.owner_of(vip).value_or(111), 111u);
}

TEST_F(ClusterTest, WhoIsConnectedToAnotherAddressDoesNotNoticeThatASharedOneMoves) {
  raise_three();
  const auto place = [&](unsigned vmid) {
    for (const Network::Place& each : home.world.network().places())
      if (each.address == fmt::format("10.0.0.{}", vmid - 100) && each.port == 50000)
        return each.id;
    return Network::Id{0};
  };
  std::map<unsigned, Network::Id> before;
  for (unsigned vmid = 111; vmid <= 113; ++vmid) before[vmid] = place(vmid);
  ASSERT_EQ(call("10.0.0.11", "Shutdown", "", true).code, 0);
  run_for(1s);
  ASSERT_NE(home.estate.owner_of(vip).value_or(111), 111u);
  EXPECT_EQ(place(112), before[112]);
  EXPECT_EQ(place(113), before[113]);
}

TEST_F(ClusterTest, TheEphemeralPartitionIsMounted) {
  raise_node(111, "controlplane");
  run_for(60s);
  const Outcome mounts = call("10.0.0.11", "Mounts", "", true);
  ASSERT_THAT(mounts.answers, ::testing::SizeIs(1));
  EXPECT_THAT(mounts.answers.front(), HasSubstr("6")) << "sda6 or vda6";
  EXPECT_THAT(mounts.answers.front(), HasSubstr("/var"));
}

TEST_F(ClusterTest, WithoutQuorumNobodyHasTheAddress) {
  raise_three();
  for (const unsigned vmid : {112u, 113u}) task("POST", vm_path(vmid, "/status/stop"));
  run_for(90s);
  EXPECT_EQ(home.estate.owner_of(vip), std::nullopt);
  EXPECT_EQ(ready(*this, "10.0.0.11"), 500) << "the API server is there, etcd is not";
  start(112);
  run_for(120s);
  EXPECT_EQ(ready(*this, vip), 200);
}

TEST_F(ClusterTest, AMemberThatIsPluggedInElsewhereHasNoLeaderWhileTheOthersGoOn) {
  raise_three();
  ASSERT_EQ(home.estate.owner_of(vip), 111u);
  const auto led = [&](unsigned vmid) {
    const talos::TalosNode* node = home.estate.find(vmid);
    return node->etcd()->has_quorum(node->disk().etcd_member);
  };
  const auto move = [&](unsigned vmid, const std::string& tag) {
    std::string card = *home.dc.vms.at(vmid).find("net0");
    card = card.substr(0, card.find(",tag="));
    ask("PUT", vm_path(vmid, "/config"), {{"net0", tag.empty() ? card : card + ",tag=" + tag}});
    run_for(70s);
  };
  move(111, "99");
  EXPECT_FALSE(led(111));
  EXPECT_TRUE(led(112) && led(113));
  EXPECT_NE(home.estate.owner_of(vip), 111u);
  EXPECT_EQ(ready(*this, vip), 200);
  move(112,
       "99");  // where the first one is: the two of them have quorum there, and nobody hears it
  EXPECT_TRUE(led(111) && led(112));
  EXPECT_FALSE(led(113));
  move(112, "98");
  EXPECT_FALSE(led(111) || led(112) || led(113));
  move(111, "");
  EXPECT_TRUE(led(111) && led(113));
  EXPECT_FALSE(led(112));
}

TEST_F(ClusterTest, AWorkerWaitsForTrustdAndThenAnswers) {
  raise_node(121, "worker");
  run_for(60s);
  EXPECT_THAT(call("10.0.0.21", "Version", "", true).trouble, HasSubstr("connection refused"));
  raise_node(111, "controlplane");
  run_for(60s);
  EXPECT_EQ(call("10.0.0.21", "Version", "", true).code, 0);
}

TEST_F(ClusterTest, EveryBootstrapBeforeEtcdHasWrittenBeginsAnew) {
  raise_node(111, "controlplane");
  run_for(30s);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(call("10.0.0.11", "Bootstrap", "", true).code, 0);
    run_for(500ms);
  }
  EXPECT_THAT(home.estate.bootstraps(), IsEmpty()) << "each call put it off";
  run_for(30s);
  EXPECT_THAT(home.estate.bootstraps(), ::testing::SizeIs(1));
  const Outcome again = call("10.0.0.11", "Bootstrap", "", true);
  EXPECT_EQ(again.code, 6);
  EXPECT_EQ(again.message, "etcd data directory is not empty");
}

TEST_F(ClusterTest, APowerCutWhileEtcdBeginsLeavesNoHalfCluster) {
  raise_node(111, "controlplane");
  run_for(30s);
  ASSERT_EQ(call("10.0.0.11", "Bootstrap", "", true).code, 0);
  home.estate.crash(111);
  start(111);
  run_for(60s);
  EXPECT_FALSE(truth(111).etcd_member);
  EXPECT_EQ(call("10.0.0.11", "Bootstrap", "", true).code, 0);
  run_for(60s);
  EXPECT_TRUE(truth(111).etcd_member);
}

TEST_F(EstateTest, ASecondApplyInMaintenanceWedgesANodeUntilItIsSwitchedOff) {
  raise(100, "cp-1", "10.0.0.11");
  const std::string text = config("controlplane", "cp-1");
  EXPECT_EQ(apply("10.0.0.11", text).code, 0);
  EXPECT_NE(apply("10.0.0.11", text).code, 0) << "it never answers";
  run_for(10min);
  EXPECT_THAT(call("10.0.0.11", "Version", "", true).trouble, HasSubstr("connection refused"));
  task("POST", vm_path(100, "/status/reset"));
  run_for(60s);
  EXPECT_EQ(call("10.0.0.11", "Version", "", true).code, 0) << "the first config was kept";
}

struct TroubleCase {
  const char* name;
  Form config;
  Boot boot;
  bool reads, talks;  // counters that still grow after a while
};

class Troubles : public EstateTest, public ::testing::WithParamInterface<TroubleCase> {};

TEST_P(Troubles, AreSeenInWhatTheHostCounts) {
  raise(100, "cp-1", "10.0.0.11", GetParam().config);
  EXPECT_EQ(truth().boot, GetParam().boot) << truth().why;
  run_for(60s);
  const text::Value before = ask("GET", vm_path(100, "/status/current"));
  run_for(120s);
  const text::Value after = ask("GET", vm_path(100, "/status/current"));
  const auto grew = [&](const char* key) {
    return *after.find(key)->as_int() > *before.find(key)->as_int();
  };
  EXPECT_EQ(after.find("status")->text(), "running");
  EXPECT_EQ(grew("diskread"), GetParam().reads);
  EXPECT_EQ(grew("netout"), GetParam().talks);
  EXPECT_EQ(truth().heard.empty(), GetParam().boot != Boot::Talos);
}

INSTANTIATE_TEST_SUITE_P(
    Each, Troubles,
    ::testing::Values(
        TroubleCase{"healthy", {}, Boot::Talos, false, true},
        TroubleCase{"kvm64", {{"cpu", "kvm64"}}, Boot::Loop, true, false},
        TroubleCase{"no_processor_type", {{"cpu", ""}}, Boot::Loop, true, false},
        TroubleCase{"enrolled_keys",
                    {{"bios", "ovmf"}, {"efidisk0", "local-lvm:1,efitype=4m,pre-enrolled-keys=1"}},
                    Boot::Nothing,
                    false,
                    false},
        TroubleCase{"keys_not_enrolled",
                    {{"bios", "ovmf"}, {"efidisk0", "local-lvm:1,efitype=4m,pre-enrolled-keys=0"}},
                    Boot::Talos,
                    false,
                    true},
        TroubleCase{"empty_disk", {{"scsi0", "local-lvm:8"}}, Boot::Nothing, false, false}),
    [](const auto& param) { return std::string(param.param.name); });

TEST_F(EstateTest, WithoutTheAgentPortBootNeverEnds) {
  raise(100, "cp-1", "10.0.0.11", {{"agent", "0"}});
  configure(100, "10.0.0.11", "worker", "w");
  create(101, "cp-2", "10.0.0.12");
  start(101);
  run_for(20s);
  configure(101, "10.0.0.12", "controlplane", "cp-2");
  ASSERT_EQ(call("10.0.0.12", "Bootstrap", "", true).code, 0);
  run_for(10min);
  EXPECT_EQ(truth(101).stage, Stage::Running);
  EXPECT_EQ(truth(100).stage, Stage::Booting);
}

TEST_F(EstateTest, TroublesCanBeSwitchedOnForAVmAHostOrEverybody) {
  home.estate.trouble(100, Trouble::BootLoop);
  home.estate.trouble_host("pve1", Trouble::WrongGateway);
  home.estate.trouble_all(Trouble::Deaf);
  raise(100, "a", "10.0.0.11");
  raise(101, "b", "10.0.0.12");
  EXPECT_EQ(truth(100).boot, Boot::Loop);
  EXPECT_EQ(truth(101).boot, Boot::Talos);
  EXPECT_THAT(truth(101).heard, IsEmpty());
  home.estate.trouble(100, Trouble::BootLoop, false);
  home.estate.trouble_host("pve1", Trouble::WrongGateway, false);
  task("POST", vm_path(100, "/status/reset"));
  run_for(20s);
  EXPECT_THAT(truth(100).heard, ElementsAre("10.0.0.11"));
}

class IsoTest : public EstateTest {
 protected:
  void raise_iso(const std::string& order) {
    const std::string iso =
        download(agent_schematic(), "v1.11.5", "metal-amd64.iso", "talos.iso", "iso");
    raise(100, "cp-1", "",
          {{"scsi0", "local-lvm:10,serial=root"},
           {"ide2", iso + ",media=cdrom"},
           {"boot", "order=" + order}});
  }
};

TEST_F(IsoTest, AnEmptyDiskFallsThroughToTheIsoAndIsInstalledTo) {
  raise_iso("scsi0;ide2");
  EXPECT_EQ(truth().stage, Stage::Maintenance);
  EXPECT_EQ(truth().installed_version, "");
  EXPECT_EQ(home.estate.find(100)->machine().links.front().name, "ens18");
  const std::string address = truth().heard.front();
  EXPECT_EQ(address, "10.0.200.1");
  ASSERT_EQ(apply(address, config("controlplane", "cp-1")).code, 0);
  run_for(20s);
  EXPECT_EQ(truth().stage, Stage::Installing);
  run_for(60s);
  EXPECT_EQ(truth().installed_version, "v1.11.5");
  EXPECT_EQ(truth().platform, "nocloud") << "what the installer named, not what the ISO was";
  task("POST", vm_path(100, "/status/reset"));
  run_for(60s);
  EXPECT_EQ(truth().boot, Boot::Talos) << "the disk comes first";
  EXPECT_TRUE(truth().configured);
}

TEST_F(IsoTest, AnIsoThatComesFirstHaltsOnceTalosIsInstalled) {
  raise_iso("ide2;scsi0");
  ASSERT_EQ(apply(truth().heard.front(), config("controlplane", "cp-1")).code, 0);
  run_for(90s);
  EXPECT_EQ(truth().boot, Boot::Talos) << "the first reboot is by kexec and hides it";
  task("POST", vm_path(100, "/status/reset"));
  run_for(60s);
  EXPECT_EQ(truth().boot, Boot::Halted);
  EXPECT_THAT(truth().heard, IsEmpty());
  const text::Value status = ask("GET", vm_path(100, "/status/current"));
  run_for(60s);
  EXPECT_EQ(ask("GET", vm_path(100, "/status/current")).find("netout")->text(),
            status.find("netout")->text());
}

TEST_F(IsoTest, AWrongDiskLeavesTheNodeAsItIs) {
  raise_iso("scsi0;ide2");
  const std::string text =
      replace_all(config("controlplane", "cp-1"), "serial: root", "serial: no");
  ASSERT_EQ(apply(truth().heard.front(), text).code, 0);
  run_for(120s);
  EXPECT_EQ(truth().installed_version, "");
}

TEST_F(EstateTest, AMetaImageBringsItsAddressAndALinkOfAnotherNameLosesIt) {
  const auto schematic = [&](const std::string& link, const std::string& args) {
    return home.factory.add(fmt::format(
        "customization:\n  extraKernelArgs: [{}]\n  meta:\n    - key: 10\n      value: |\n"
        "        addresses:\n          - address: 10.0.0.31/16\n            linkName: {}\n"
        "            family: inet4\n            scope: global\n            flags: permanent\n"
        "            layer: platform\n        links:\n          - name: {}\n            up: "
        "true\n        routes:\n          - gateway: 10.0.0.1\n            outLinkName: {}\n"
        "            family: inet4\n            table: main\n            priority: 1024\n"
        "        hostnames:\n          - hostname: meta-1\n",
        args, link, link, link));
  };
  const auto try_with = [&](unsigned vmid, const std::string& id) {
    const std::string image =
        download(id, "v1.11.5", "metal-amd64.qcow2", id.substr(0, 8) + ".qcow2");
    raise(vmid, "vm", "",
          {{"ide2", ""}, {"scsi0", fmt::format("local-lvm:0,import-from={}", image)}});
    return truth(vmid);
  };
  const Truth right = try_with(100, schematic("eth0", "net.ifnames=0"));
  EXPECT_THAT(right.heard, ElementsAre("10.0.0.31"));
  EXPECT_EQ(right.hostname, "meta-1");
  task("POST", vm_path(100, "/status/stop"));
  const Truth wrong = try_with(101, schematic("eth0", "quiet"));
  EXPECT_THAT(wrong.addresses, ::testing::Not(::testing::Contains("10.0.0.31/16")))
      << "the link is ens18 there";
}

}  // namespace
}  // namespace rocca::lab
