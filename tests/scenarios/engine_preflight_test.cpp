// What `plan` and `up` find before the first change: wrong names, hidden ids, addresses in use.

#include "scenarios/engine_machines.hpp"

namespace rocca::scenarios {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// The error that a plan ends in; nothing may have been changed.
Error plan_error(ClusterRig& rig) {
  const std::size_t vms = rig.home.dc.vms.size();
  try {
    rig.plan();
  } catch (const Error& error) {
    EXPECT_EQ(rig.home.dc.vms.size(), vms);
    for (const auto& [call, count] : rig.counting.counts)
      EXPECT_TRUE(call.starts_with("GET ")) << call;
    return error;
  }
  ADD_FAILURE() << "the plan was not refused";
  return Error(Fault::Bug, "");
}

const std::string one = pools(1, 0);

std::string machine(const std::string& keys) {
  return replace_all(one, "count: 1,", "count: 1, machine: { " + keys + " },");
}

TEST(EnginePreflight, ABridgeThatDoesNotExistIsNamedWithTheNearestOne) {
  ClusterRig rig;
  rig.write_spec(static_spec(machine("nics: [{ bridge: vmbr9 }]")));
  const Error error = plan_error(rig);
  EXPECT_THAT(error.render(), AllOf(HasSubstr("bridge 'vmbr9' does not exist on pve1"),
                                    HasSubstr("did you mean `vmbr0`"), Not(HasSubstr("SDN.Use"))));
  EXPECT_NE(error.fault(), Fault::Denied);
}

TEST(EnginePreflight, ABridgeThatTheTokenMayNotUseIsAMatterOfRights) {
  ClusterRig rig;
  rig.home.dc.find_node("pve1")->bridges["vmbr7"] = {};
  rig.write_spec(static_spec(machine("nics: [{ bridge: vmbr7 }]")));
  const Error error = plan_error(rig);
  EXPECT_THAT(error.render(), AllOf(HasSubstr("SDN.Use on /sdn/zones/localnetwork/vmbr7"),
                                    Not(HasSubstr("does not exist"))));
  EXPECT_EQ(error.fault(), Fault::Denied);
}

TEST(EnginePreflight, AStorageIsCheckedByNameAndContent) {
  ClusterRig rig;
  rig.write_spec(static_spec(machine("disks: { system: { size: 20GiB, storage: local-lvn } }")));
  EXPECT_THAT(plan_error(rig).render(),
              AllOf(HasSubstr("storage 'local-lvn'"), HasSubstr("did you mean `local-lvm`")));
  rig.write_spec(static_spec(one));
  rig.home.dc.storages.at("local-lvm").content = {"rootdir"};
  EXPECT_THAT(plan_error(rig).render(),
              AllOf(HasSubstr("storage 'local-lvm' on pve1 does not take 'images'"),
                    HasSubstr("pvesm set local-lvm --content rootdir,images")));
}

TEST(EnginePreflight, APoolThatDoesNotExistIsNamedWithTheNearestOne) {
  lab::Home::Options options;
  options.pools = {"talos"};
  ClusterRig rig{options};
  for (const char* who : {"rocca@pve", "rocca@pve!lab"})
    rig.home.dc.access.acl["/pool"][who]["RoccaVM"] = true;
  rig.write_spec(static_spec(machine("pool: taloss")));
  EXPECT_THAT(plan_error(rig).render(),
              AllOf(HasSubstr("pool 'taloss' does not exist"), HasSubstr("did you mean `talos`")));
}

TEST(EnginePreflight, EveryMissingRightIsNamedBeforeTheFirstChange) {
  ClusterRig rig;
  rig.home.dc.access.roles["RoccaVM"].erase("VM.PowerMgmt");
  rig.home.dc.access.roles["RoccaNode"].erase("Sys.AccessNetwork");
  rig.write_spec(static_spec(one));
  const Error error = plan_error(rig);
  EXPECT_EQ(error.fault(), Fault::Denied);
  EXPECT_EQ(exit_code(error.fault()), 4);
  EXPECT_THAT(error.render(), AllOf(HasSubstr("VM.PowerMgmt on /vms/100 is missing"),
                                    HasSubstr("Sys.AccessNetwork on /nodes/pve1 is missing"),
                                    HasSubstr("rocca doctor")));
}

TEST(EnginePreflight, AnIdThatAHiddenVmHasIsNotChosen) {
  lab::Home::Options options;
  options.pools = {"talos"};
  ClusterRig rig{options};
  for (const char* who : {"rocca@pve", "rocca@pve!lab"}) rig.home.dc.access.acl["/vms"].erase(who);
  test::Administrator client = root(rig);
  proxmox::VmCreate create;
  create.vmid = 100;
  create.name = "hidden";
  wait_for(rig, client, std::get<proxmox::Upid>(client.start_create("pve1", create)));
  rig.write_spec(static_spec(machine("pool: talos")));
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(rig.home.dc.vms, Contains(testing::Key(101u)));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(EnginePreflight, AnIdLockedByAnEarlierRunAndTakenByAHiddenVmIsChosenAgain) {
  lab::Home::Options options;
  options.pools = {"talos"};
  ClusterRig rig{options};
  for (const char* who : {"rocca@pve", "rocca@pve!lab"}) rig.home.dc.access.acl["/vms"].erase(who);
  test::Administrator client = root(rig);
  proxmox::VmCreate create;
  create.vmid = 100;
  create.name = "hidden";
  wait_for(rig, client, std::get<proxmox::Upid>(client.start_create("pve1", create)));
  rig.write_spec(static_spec(machine("pool: talos")));
  spec::Lock lock;
  lock.cluster = "blue";
  lock.nodes["cp-1"] = {"pve1", 100, std::nullopt};
  spec::write_lock(rig.files, rig.folder, lock);
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(spec::find_lock(rig.files, rig.folder)->nodes.at("cp-1").vmid, 101u);
}

TEST(EnginePreflight, AVipThatAnotherMachineHasIsFound) {
  ClusterRig rig;
  make_machine(rig, 700, "10.0.1.10");  // the VIP
  rig.write_spec(static_spec(one));
  rig.counting.counts.clear();
  EXPECT_THAT(plan_error(rig).render(), HasSubstr("VIP 10.0.1.10 is in use"));
}

TEST(EnginePreflight, AnAddressThatARunningVmWasGivenByCloudInitIsFound) {
  ClusterRig rig;
  test::Administrator client = root(rig);
  proxmox::VmCreate create;
  create.vmid = 700;
  create.name = "silent";
  proxmox::IpConfig ip;
  ip.address = "10.0.1.11/16";
  create.ip_configs = {ip};
  proxmox::Nic nic;
  nic.bridge = "vmbr0";
  create.nics = {nic};
  wait_for(rig, client, std::get<proxmox::Upid>(client.start_create("pve1", create)));
  wait_for(rig, client, client.start_vm("pve1", 700));
  rig.home.world.run_for(std::chrono::seconds{20});
  rig.write_spec(static_spec(one));
  rig.counting.counts.clear();
  EXPECT_THAT(plan_error(rig).render(),
              AllOf(HasSubstr("address 10.0.1.11 of cp-1 is in use"), HasSubstr("silent")));
}

TEST(EnginePreflight, MovingANicNeedsARightOnBothBridges) {
  ClusterRig rig;
  rig.write_spec(static_spec(one));
  ASSERT_TRUE(rig.up().ok());
  rig.home.dc.find_node("pve1")->bridges["vmbr7"] = {};
  test::Administrator client = root(rig);
  const std::string nic = *rig.home.dc.vms.at(100).find("net0");
  proxmox::VmUpdate change;
  change.set["net0"] = replace_all(nic, "bridge=vmbr0", "bridge=vmbr7");
  if (const auto upid = client.start_update("pve1", 100, change)) wait_for(rig, client, *upid);
  rig.counting.counts.clear();
  const Error error = plan_error(rig);
  EXPECT_EQ(error.fault(), Fault::Denied);
  EXPECT_THAT(error.render(), HasSubstr("SDN.Use on /sdn/zones/localnetwork/vmbr7"));
}

TEST(EnginePreflight, APlanWithoutNewVmsAsksNothingMore) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  rig.counting.counts.clear();
  rig.plan();
  for (const auto& [call, count] : rig.counting.counts) {
    EXPECT_THAT(call, Not(HasSubstr("/access/permissions")));
    EXPECT_THAT(call, Not(HasSubstr("/network")));
  }
}

}  // namespace
}  // namespace rocca::scenarios
