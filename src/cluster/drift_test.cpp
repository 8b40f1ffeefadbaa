#include "base/strings.hpp"
#include "cluster/drift_parts.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::resources {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Instant settled{std::chrono::seconds{1'763'500'000}};

/// A task that began so long after the thing had settled.
proxmox::TaskRow task(const std::string& type, const std::string& user, Duration after,
                      const std::string& status = "OK") {
  const auto began =
      std::chrono::duration_cast<std::chrono::seconds>((settled + after).time_since_epoch());
  const auto upid = proxmox::Upid::parse(
      fmt::format("UPID:pve1:00001ED0:00035693:{:08X}:{}:100:{}:", began.count(), type, user));
  return {*upid, user, upid->started, upid->started + 1s, status};
}

Drift named(const std::vector<proxmox::TaskRow>& tasks, const std::string& field,
            const std::vector<std::string>& said = {}, const std::string& found = "0") {
  Drift drift;
  drift.address = "vm/w-1";
  drift.field = field;
  drift.found = found;
  Suspicion suspicion{tasks, settled, "rocca@pve!blue"};
  for (std::size_t i = 0; i < said.size(); ++i)
    suspicion.said[tasks[i].upid.text] = "update VM 100: " + said[i];
  name_culprit(suspicion, drift);
  return drift;
}

TEST(Culprit, AChangeWithoutATaskIsNamedByTheClusterLog) {
  const std::vector<proxmox::TaskRow> none;
  const auto by_log = [&](std::vector<proxmox::LogEntry> log, const std::string& field,
                          const std::string& found) {
    Drift drift;
    drift.field = field;
    drift.found = found;
    name_culprit({none, settled, "rocca@pve!blue", {}, std::move(log)}, drift);
    return drift;
  };
  const proxmox::LogEntry eve{settled + 1h, "eve@pve!cli", "pve1",
                              "update VM 100: -name evil-name -tags blue;rocca;evil"};
  EXPECT_EQ(by_log({eve}, "name", "evil-name").by, "eve@pve!cli");
  EXPECT_EQ(by_log({eve}, "name", "evil-name").perhaps, "");
  EXPECT_EQ(by_log({eve}, "tags", "blue;evil;rocca").by, "eve@pve!cli");
  EXPECT_EQ(by_log({eve}, "name", "another").by, "") << "somebody else made it that";
  EXPECT_EQ(by_log({eve}, "cores", "8").by, "") << "it does not speak of them";
  proxmox::LogEntry ours = eve;
  ours.user = "rocca@pve!blue";
  EXPECT_EQ(by_log({ours}, "name", "evil-name").by, "");
  proxmox::LogEntry old = eve;
  old.time = settled - 1h;
  EXPECT_EQ(by_log({old}, "name", "evil-name").by, "") << "it was as declared after that";
}

TEST(Culprit, TheClusterLogBeatsADoubtfulTaskAndAnOlderOne) {
  const auto anna = task("qmconfig", "anna@pam", 1h);
  const std::vector<proxmox::TaskRow> tasks{anna};
  Drift drift;
  drift.field = "name";
  drift.found = "evil-name";
  const proxmox::LogEntry eve{settled + 2h, "eve@pve", "pve1", "update VM 100: -name evil-name"};
  name_culprit({tasks, settled, "rocca@pve!blue", {}, {eve}}, drift);
  EXPECT_EQ(drift.by, "eve@pve");
  EXPECT_EQ(drift.perhaps, "");
}

TEST(Culprit, ATaskThatSaysWhatItDidIsNamedFlatly) {
  const auto anna = task("qmconfig", "anna@pam", 1h);
  const Drift drift = named({anna}, "onboot", {"-cores 4 -onboot 0 -tags a"});
  EXPECT_EQ(drift.by, "anna@pam");
  EXPECT_EQ(drift.perhaps, "");
  EXPECT_EQ(named({anna}, "tags", {"-delete tags,agent"}, "").by, "anna@pam");
  EXPECT_EQ(named({anna}, "tags", {"-delete tags,agent"}, "").perhaps, "");
  EXPECT_EQ(named({anna}, "cores.pending", {"-cores 4"}, "4").perhaps, "");
  EXPECT_EQ(named({anna}, "tags", {"-tags red;blue"}, "blue;red").perhaps, "");
  EXPECT_EQ(named({anna}, "scsi0", {"-scsi0 local-lvm:vm-100-disk-0,cache=none,ssd=1"},
                  "cache=none,ssd=1")
                .perhaps,
            "");
  EXPECT_EQ(named({anna}, "description", {"-description two words -onboot 0"}, "two words").perhaps,
            "");
}

TEST(Culprit, WhoSaysSomethingElseDidNotDoIt) {
  EXPECT_EQ(named({task("qmconfig", "anna@pam", 1h)}, "onboot", {"-cores 4"}).by, "");
  EXPECT_EQ(named({task("qmconfig", "anna@pam", 1h)}, "onboot", {"-delete agent"}).by, "");
  const Drift drift = named({task("qmconfig", "carl@pam", 2h), task("qmconfig", "anna@pam", 1h)},
                            "onboot", {"-description mine", "-onboot 0"});
  EXPECT_EQ(drift.by, "anna@pam") << "and not the last one";
  EXPECT_EQ(drift.perhaps, "");
}

TEST(Culprit, WhoMadeItSomethingElseWasNotTheLast) {
  const auto anna = task("qmconfig", "anna@pam", 1h);
  EXPECT_THAT(named({anna}, "cores", {"-cores 4"}, "8").perhaps,
              HasSubstr("that task made it '4', and a change that is made at once leaves none"));
  EXPECT_THAT(named({anna}, "tags", {"-delete tags"}, "red").perhaps, HasSubstr("took it away"));
}

TEST(Culprit, ATaskOfWhichNothingIsKnownIsNamedWithDoubt) {
  const Drift drift = named({task("qmconfig", "anna@pam", 1h)}, "onboot");
  EXPECT_EQ(drift.by, "anna@pam");
  EXPECT_THAT(drift.perhaps, HasSubstr("what it changed is not known"));
  EXPECT_EQ(named({task("resize", "anna@pam", 1h)}, "scsi0.size").perhaps, "")
      << "it does one thing only";
}

TEST(Culprit, TheLastOfManyIsNamedAsThat) {
  const Drift drift =
      named({task("qmconfig", "carl@pam", 2h), task("qmconfig", "anna@pam", 1h)}, "onboot");
  EXPECT_EQ(drift.by, "carl@pam");
  EXPECT_EQ(drift.perhaps, "the last of 2 tasks that could have done it");
}

TEST(Culprit, WhatFailedCameBeforeOrIsOfAnotherKindExplainsNothing) {
  EXPECT_EQ(named({task("qmconfig", "anna@pam", 1h, "command failed")}, "onboot").by, "");
  EXPECT_EQ(named({task("qmconfig", "anna@pam", -1h)}, "onboot").by, "");
  EXPECT_EQ(named({task("qmstop", "anna@pam", 1h)}, "onboot").by, "");
}

TEST(Culprit, OurOwnTaskIsNobodysFirst) {
  const auto ours = task("qmconfig", "rocca@pve!blue", 2h);
  EXPECT_EQ(named({ours, task("qmconfig", "anna@pam", 1h)}, "onboot").by, "anna@pam");
  EXPECT_THAT(named({ours}, "onboot").perhaps, HasSubstr("of our own"));
}

TEST(Culprit, TheLastStopCountsUnlessItWasStartedAgain) {
  const auto first = task("qmstop", "anna@pam", 1h), last = task("qmshutdown", "bob@pam", 2h);
  EXPECT_EQ(named({first, last}, "power").by, "bob@pam");
  EXPECT_EQ(named({first, last}, "power").perhaps, "");
  EXPECT_EQ(named({first, last, task("qmstart", "carl@pam", 3h)}, "power").by, "");
}

spec::Node node() {
  spec::Node node;
  node.name = "w-1";
  auto machine = std::make_shared<spec::Machine>();
  spec::Disk disk;
  disk.name = "system";
  machine->disks = {disk};
  spec::Nic second;
  second.bridge = spec::Placed<std::string>{"vmbr1", {}};
  machine->nics = {spec::Nic{}, second};
  node.machine = std::move(machine);
  return node;
}

Drift accepted(const std::string& field, const std::string& declared, const std::string& found) {
  Drift drift;
  drift.address = "vm/w-1";
  drift.field = field;
  drift.declared = declared;
  drift.found = found;
  find_acceptance(node(), drift);
  return drift;
}

std::vector<std::string> lines(const Drift& drift) {
  std::vector<std::string> all;
  for (const Drift::Acceptance& each : drift.accepts)
    all.push_back(join(each.path, ".") + ": " + each.value);
  return all;
}

constexpr const char* card = "virtio=BC:24:11:00:00:01,bridge=vmbr0";

TEST(Accept, ACardsBridgeVlanAndMtu) {
  const Drift drift =
      accepted("net0", card, "virtio=BC:24:11:00:00:01,bridge=vmbr2,tag=20,mtu=1400");
  EXPECT_THAT(lines(drift), ElementsAre("spec.nodes.w-1.machine.nics.0.bridge: vmbr2",
                                        "spec.nodes.w-1.machine.nics.0.mtu: 1400",
                                        "spec.nodes.w-1.machine.nics.0.vlan: 20"));
  EXPECT_EQ(join(drift.accepts[0].list, "."), "spec.nodes.w-1.machine.nics");
  EXPECT_EQ(drift.accepts[0].whole, "[{bridge: vmbr2, mtu: 1400, vlan: 20}, {bridge: vmbr1}]");
}

TEST(Accept, NotAnotherCardNorWhatIsMissing) {
  EXPECT_THAT(lines(accepted("net0", card, "e1000=BC:24:11:00:00:01,bridge=vmbr2")), IsEmpty());
  EXPECT_THAT(lines(accepted("net0", std::string(card) + ",tag=20", card)), IsEmpty());
  EXPECT_THAT(lines(accepted("net7", card, "virtio=BC:24:11:00:00:01,bridge=vmbr2")), IsEmpty());
}

TEST(Accept, ADisksOptions) {
  EXPECT_THAT(lines(accepted("scsi0", "discard=on,iothread=1,serial=s,ssd=1",
                             "cache=writeback,discard=on,serial=s")),
              ElementsAre("spec.nodes.w-1.machine.disks.system.cache: writeback",
                          "spec.nodes.w-1.machine.disks.system.iothread: false",
                          "spec.nodes.w-1.machine.disks.system.ssd: false"));
  EXPECT_THAT(lines(accepted("scsi0", "serial=a,ssd=1", "serial=b")), IsEmpty());
  EXPECT_THAT(lines(accepted("scsi0", "ssd=1", "")), IsEmpty()) << "a disk that is gone";
}

}  // namespace
}  // namespace rocca::resources
