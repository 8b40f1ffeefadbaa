#include "base/strings.hpp"
#include "resources/drift_parts.hpp"

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
            std::size_t options = 1) {
  Drift drift;
  drift.address = "vm/w-1";
  drift.field = field;
  name_culprit({tasks, settled, "rocca@pve!blue", options}, drift);
  return drift;
}

TEST(Culprit, OneTaskForOneOptionIsNamedFlatly) {
  const Drift drift = named({task("qmconfig", "anna@pam", 1h)}, "onboot");
  EXPECT_EQ(drift.by, "anna@pam");
  EXPECT_EQ(drift.perhaps, "");
}

TEST(Culprit, OneTaskForTwoOptionsIsNot) {
  const Drift drift = named({task("qmconfig", "anna@pam", 1h)}, "onboot", 2);
  EXPECT_EQ(drift.by, "anna@pam");
  EXPECT_THAT(drift.perhaps, HasSubstr("2 options differ, one task is in the log"));
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
