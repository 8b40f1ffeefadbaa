#include "lab/estate_test_support.hpp"

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

}  // namespace
}  // namespace rocca::lab
