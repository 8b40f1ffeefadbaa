// Who holds a VM's lock when the cluster goes down: backups, snapshots, clones, copies of disks,
// migrations, and nobody at all.

#include "lab/pve/qemu/qemu.hpp"
#include "scenarios/engine_machines.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;

/// The host's own backup job is at VM 100, and will be for long.
void back_up_slowly(ClusterRig& rig) {
  rig.home.dc.timing.import_rate = 100;
  ASSERT_NE(lab::pve::start_backup(rig.home.dc, 100, "local"), "");
  rig.home.world.run_for(5s);
  ASSERT_EQ(*rig.home.dc.vms.at(100).find("lock"), "backup");
}

TEST(EngineDown, EndsABackupThatHoldsTheLockWhereItMay) {
  for (const bool off : {false, true}) {
    SCOPED_TRACE(off ? "off" : "running");
    ClusterRig rig;
    rig.write_spec(impatient(pools(1, 1)));
    ASSERT_TRUE(rig.up().ok());
    if (off) {
      test::Administrator client = root(rig);
      wait_for(rig, client, client.start_stop("pve1", 100, false));
    }
    rig.home.dc.access.roles["RoccaNode"].insert("Sys.Modify");
    back_up_slowly(rig);
    const Instant begun = rig.home.world.now();
    const engine::Report down = rig.down();
    EXPECT_TRUE(down.ok()) << problems(down);
    EXPECT_THAT(rig.home.dc.vms, IsEmpty());
    EXPECT_LT(rig.home.world.now() - begun, 2min);
    EXPECT_THAT(rig.log, Contains(AllOf(HasSubstr("vm/cp-1"), HasSubstr("end vzdump"))));
    EXPECT_LE(times_asked(rig, "POST /nodes/pve1/qemu/100/status/stop"), 1u);
    EXPECT_EQ(times_asked(rig, "DELETE /nodes/pve1/qemu/100"), 1u) << "never against the lock";
  }
}

TEST(EngineDown, SaysWhoseBackupHoldsTheLockThatItMayNotEnd) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  back_up_slowly(rig);
  const engine::Report down = rig.down();
  EXPECT_FALSE(down.ok());
  EXPECT_THAT(problems(down),
              AllOf(HasSubstr("vzdump"), HasSubstr("a backup by root@pam"),
                    HasSubstr("this token may not end it (Sys.Modify on /nodes/pve1)")));
  EXPECT_EQ(rig.home.dc.vms.size(), 1u) << "the other one is gone";
  EXPECT_EQ(times_asked(rig, "POST /nodes/pve1/qemu/100/status/stop"), 0u);
  // The next one ends while `down` waits for it.
  rig.home.dc.set_online("pve1", false);
  rig.home.dc.set_online("pve1", true);
  rig.home.dc.vms.at(100).config.erase("lock");
  rig.home.dc.timing.import_rate = 100'000;
  lab::pve::start_backup(rig.home.dc, 100, "local");
  rig.home.world.run_for(1s);
  const engine::Report again = rig.down();
  EXPECT_TRUE(again.ok()) << problems(again);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

TEST(EngineDown, ALockThatNoTaskHoldsIsRefusedBeforeAnythingIsOff) {
  for (const std::string lock : {"backup", "migrate", "snapshot"}) {
    SCOPED_TRACE(lock);
    ClusterRig rig;
    rig.write_spec(impatient(pools(1, 1)));
    ASSERT_TRUE(rig.up().ok());
    rig.home.dc.vms.at(100).config["lock"] = lock;
    EXPECT_THAT(
        refused([&] { rig.down(); }),
        AllOf(HasSubstr("VM 100 'blue-cp-1' on pve1 is locked (" + lock + "), and no task "),
              HasSubstr("`qm unlock 100` on pve1")));
    for (const unsigned vmid : {100u, 101u}) {
      EXPECT_EQ(times_asked(rig, fmt::format("POST /nodes/pve1/qemu/{}/status/stop", vmid)), 0u);
      EXPECT_EQ(times_asked(rig, fmt::format("POST /nodes/pve1/qemu/{}/status/shutdown", vmid)),
                0u);
    }
    EXPECT_EQ(rig.home.dc.vms.size(), 2u);
    rig.home.dc.vms.at(100).config.erase("lock");
    const engine::Report again = rig.down();
    EXPECT_TRUE(again.ok()) << problems(again);
    EXPECT_THAT(rig.home.dc.vms, IsEmpty());
  }
}

// A lock that goes a moment after its task is waited for, not refused.
TEST(EngineDown, ALockWhoseTaskHasJustEndedIsWaitedFor) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  ASSERT_NE(lab::pve::start_backup(rig.home.dc, 100, "local"), "");
  rig.home.world.run_for(1s);
  while (rig.home.dc.vms.at(100).find("lock") != nullptr) rig.home.world.run_for(1s);
  rig.home.dc.vms.at(100).config["lock"] = "backup";
  rig.home.world.after(4s, [&] { rig.home.dc.vms.at(100).config.erase("lock"); });
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

TEST(EngineDown, SaysThatItCannotSeeWhoHoldsALock) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  back_up_slowly(rig);
  rig.home.dc.access.roles["RoccaNode"].erase("Sys.Audit");
  EXPECT_THAT(refused([&] { rig.down(); }),
              AllOf(HasSubstr("locked (backup)"), Not(HasSubstr("no task holds")),
                    HasSubstr("Sys.Audit on /nodes/pve1")));
}

TEST(EngineDown, WaitsForAMigrationAndEndsOneThatDragsOn) {
  for (const bool drags_on : {false, true}) {
    SCOPED_TRACE(drags_on ? "drags on" : "ends soon");
    lab::Home::Options options;
    options.hosts = {"pve1", "pve2"};
    ClusterRig rig{options};
    rig.write_spec(replace_all(impatient(pools(1, 1)), "hosts: [pve1]", "hosts: [pve1, pve2]"));
    ASSERT_TRUE(rig.up().ok());
    rig.home.dc.access.roles["RoccaNode"].insert("Sys.Modify");
    const std::string from = rig.home.dc.vms.at(100).node;
    test::Administrator client = root(rig);
    wait_for(rig, client, client.start_stop(from, 100, false));
    rig.home.dc.timing.import_rate = drags_on ? 1'000'000 : 1ull << 30;
    client.start_migrate(from, 100, from == "pve1" ? "pve2" : "pve1", /*online=*/false);
    rig.home.world.run_for(2s);
    ASSERT_EQ(*rig.home.dc.vms.at(100).find("lock"), "migrate");
    const Instant begun = rig.home.world.now();
    const engine::Report down = rig.down();
    EXPECT_TRUE(down.ok()) << problems(down);
    EXPECT_THAT(rig.home.dc.vms, IsEmpty());
    EXPECT_LT(rig.home.world.now() - begun, 5min);
    EXPECT_THAT(rig.log, Contains(AllOf(HasSubstr("vm/cp-1"), HasSubstr("wait for qmigrate"))));
    const auto ended = Contains(HasSubstr("end qmigrate"));
    if (drags_on)
      EXPECT_THAT(rig.log, ended);
    else
      EXPECT_THAT(rig.log, Not(ended));
  }
}

/// What root asks of VM 100 in Proxmox's own interface, and what rocca never does.
void ask_as_root(ClusterRig& rig, const std::string& path, const std::string& form,
                 const std::string& method = "POST") {
  net::Request request;
  request.method = method;
  request.url = rig.home.endpoint() + "/api2/json/nodes/pve1/qemu/100/" + path;
  request.headers.add("Authorization", "PVEAPIToken=" + rig.home.root_token);
  if (method == "POST") request.headers.add("Content-Type", "application/x-www-form-urlencoded");
  request.body = form;
  request.tls = net::Tls::pinned(rig.home.first().fingerprint);
  const net::Answer answer = net::fetch(rig.wire, request);
  ASSERT_EQ(answer.head.status, 200) << answer.head.reason << answer.body;
}

struct Work {
  const char* name;
  const char* path;
  const char* form;
  const char* task;
  const char* lock;  // of the configuration; empty: only the file that workers lock
  bool off;          // the VM is
  bool makes_a_copy = false;
};
class SomebodysWork : public testing::TestWithParam<std::tuple<Work, bool>> {};

TEST_P(SomebodysWork, IsWaitedForAndEndedWhenItDragsOn) {
  const Work work = std::get<0>(GetParam());
  const bool drags_on = std::get<1>(GetParam());
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.dc.access.roles["RoccaNode"].insert("Sys.Modify");
  if (work.off) {
    test::Administrator client = root(rig);
    wait_for(rig, client, client.start_stop("pve1", 100, false));
  }
  rig.home.dc.timing.import_rate = drags_on ? 1'000'000 : 1ull << 30;
  ask_as_root(rig, work.path, work.form);
  rig.home.world.run_for(2s);
  const std::string* lock = rig.home.dc.vms.at(100).find("lock");
  ASSERT_EQ(lock == nullptr ? "" : *lock, work.lock);
  const Instant begun = rig.home.world.now();
  const engine::Report down = rig.down();
  const bool copied = work.makes_a_copy && !drags_on;
  EXPECT_TRUE(down.ok()) << problems(down);
  const Duration took = rig.home.world.now() - begun;
  EXPECT_LT(took, 5min);
  EXPECT_FALSE(rig.home.dc.vms.contains(100));
  EXPECT_FALSE(rig.home.dc.vms.contains(101));
  EXPECT_THAT(rig.log, Contains(AllOf(HasSubstr("vm/cp-1"),
                                      HasSubstr(fmt::format("wait for {}", work.task)))));
  const auto ended = Contains(HasSubstr(fmt::format("end {}", work.task)));
  if (drags_on) {
    EXPECT_THAT(rig.log, ended);
    EXPECT_GT(took, 1min) << "it had its time";
  } else {
    EXPECT_THAT(rig.log, Not(ended));
  }
  if (!copied) {
    EXPECT_THAT(rig.home.dc.vms, IsEmpty());
    return;
  }
  // The copy carries our mark, but it is its maker's: named, left alone, and no failure.
  EXPECT_THAT(rig.home.dc.vms, ElementsAre(Key(900u)));
  EXPECT_FALSE(rig.store->load()) << "the state is cleared";
  EXPECT_THAT(rig.run()->plan_down().kept,
              Contains(testing::Pair(
                  "VM 900", AllOf(HasSubstr("VM 900 'copy' on pve1 carries the mark blue/cp-1"),
                                  HasSubstr("It is left alone")))));
  rig.home.dc.vms.at(900).config.erase("smbios1");
  const engine::Report again = rig.down();
  EXPECT_TRUE(again.ok()) << problems(again);
  EXPECT_THAT(rig.home.dc.vms, ElementsAre(Key(900u)));
}
const Work works[] = {
    {"snapshot", "snapshot", "snapname=before&vmstate=1", "qmsnapshot", "snapshot", false},
    {"clone", "clone", "newid=900&name=copy&full=1", "qmclone", "", false, true},
    {"clone_of_one_that_is_off", "clone", "newid=900&name=copy&full=1", "qmclone", "", true, true},
    {"disk_move", "move_disk", "disk=scsi0&storage=tank", "qmmove", "", false},
    {"disk_move_of_one_that_is_off", "move_disk", "disk=scsi0&storage=tank", "qmmove", "", true}};
INSTANTIATE_TEST_SUITE_P(Of, SomebodysWork,
                         testing::Combine(testing::ValuesIn(works), testing::Bool()),
                         [](const auto& one) {
                           return fmt::format("{}_that_{}", std::get<0>(one.param).name,
                                              std::get<1>(one.param) ? "drags_on" : "ends_soon");
                         });

/// Cut off while a snapshot goes, a VM keeps its lock, and nobody has it any more.
TEST(EngineDown, ASnapshotsRemovalThatWasEndedLeavesALockForRoot) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.dc.access.roles["RoccaNode"].insert("Sys.Modify");
  ask_as_root(rig, "snapshot", "snapname=before");
  rig.home.world.run_for(1min);
  rig.home.dc.timing.allocate = 1h;
  ask_as_root(rig, "snapshot/before", "", "DELETE");
  rig.home.world.run_for(2s);
  ASSERT_EQ(*rig.home.dc.vms.at(100).find("lock"), "snapshot-delete");
  const engine::Report down = rig.down();
  EXPECT_FALSE(down.ok());
  EXPECT_THAT(rig.log, Contains(HasSubstr("end qmdelsnapshot")));
  EXPECT_THAT(problems(down), AllOf(HasSubstr("is locked (snapshot-delete), and no task holds it"),
                                    HasSubstr("`qm unlock 100` on pve1 as root")));
  rig.home.dc.vms.at(100).config.erase("lock");
  rig.home.dc.timing.allocate = 1s;
  const engine::Report again = rig.down();
  EXPECT_TRUE(again.ok()) << problems(again);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

/// A VM of somebody else that the same job backs up, right behind ours.
unsigned neighbour_of(ClusterRig& rig) {
  make_machine(rig, 900, "10.0.1.99");
  return 900;
}

std::string exit_of(ClusterRig& rig, const std::string& upid) {
  return root(rig).find_task(proxmox::Upid::parse(upid).value())->exit_status;
}

TEST(EngineDown, ABackupJobForManyIsNeverEndedAndWaitedForOnlyAsLongAsItIsAtTheVm) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  const unsigned neighbour = neighbour_of(rig);
  // It could: a job that also backs up others' guests is no single VM's to end.
  rig.home.dc.access.roles["RoccaNode"].insert("Sys.Modify");
  std::uint64_t bytes = 0;
  auto& volumes = rig.home.dc.storages.at("local-lvm").on("pve1");
  for (const auto& [name, volume] : volumes)
    if (volume.vmid == 100u) bytes += std::min(volume.used, volume.size);
  for (auto& [name, volume] : volumes)
    if (volume.vmid == neighbour) volume.used = volume.size = 10 * bytes;
  // Two minutes for ours, and then the others' turn, for long.
  rig.home.dc.timing.import_rate = bytes / 120;
  const std::string job =
      lab::pve::start_backup_job(rig.home.dc, "pve1", {100, neighbour}, "local");
  rig.home.world.run_for(5s);
  ASSERT_EQ(*rig.home.dc.vms.at(100).find("lock"), "backup");
  const Instant begun = rig.home.world.now();
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_THAT(rig.home.dc.vms, ElementsAre(Key(neighbour)));
  EXPECT_GT(rig.home.world.now() - begun, 100s) << "its backup was finished";
  EXPECT_THAT(rig.log, Contains(AllOf(HasSubstr("vm/cp-1"), HasSubstr("wait for vzdump"))));
  EXPECT_THAT(rig.log, Not(Contains(HasSubstr("end vzdump"))));
  EXPECT_TRUE(root(rig).find_task(proxmox::Upid::parse(job).value())->running)
      << "it is at the others', and nobody waited for that";
  rig.home.world.run_for(1h);
  EXPECT_EQ(exit_of(rig, job), "OK");
}

TEST(EngineDown, SaysWhichJobForManyItWaitsForInVain) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.dc.access.roles["RoccaNode"].insert("Sys.Modify");
  rig.home.dc.timing.import_rate = 100;
  const std::string job = lab::pve::start_backup_job(rig.home.dc, "pve1", {100, 101}, "local");
  rig.home.world.run_for(5s);
  const engine::Report down = rig.down();
  EXPECT_FALSE(down.ok());
  EXPECT_THAT(problems(down),
              AllOf(HasSubstr("vzdump on pve1, a backup by root@pam, which is a job for other "
                              "guests, too, and holds the VM's lock"),
                    Not(HasSubstr("Sys.Modify"))));
  EXPECT_THAT(rig.home.dc.vms, ElementsAre(Key(100u))) << "the job was not yet at the other one";
  EXPECT_TRUE(root(rig).find_task(proxmox::Upid::parse(job).value())->running);
  rig.home.dc.timing.import_rate = 1ull << 30;
  root(rig).stop_task(proxmox::Upid::parse(job).value());  // by whoever may
  rig.home.world.run_for(5s);
  const engine::Report again = rig.down();
  EXPECT_TRUE(again.ok()) << problems(again);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

}  // namespace
}  // namespace rocca::scenarios
