#include "proxmox/privileges.hpp"

#include <gmock/gmock.h>

#include <algorithm>

namespace rocca::proxmox {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

Scope scope(Version version = {9, 1, 0}) {
  Scope scope;
  scope.version = version;
  scope.hosts = {"atlas"};
  scope.vmid = 9001;
  scope.image_storage = "local";
  scope.disk_storages = {"local-lvm"};
  scope.links = {{"vmbr0", std::nullopt, "localnetwork"}};
  scope.template_vmid = 9000;
  return scope;
}

/// Effective permissions that meet every need of every act.
Permissions everything(const Scope& scope) {
  Permissions all;
  for (const Act act : all_acts())
    for (const Need& need : needs(act, scope))
      for (const std::string& privilege : need.any_of) all[need.path].push_back(privilege);
  return all;
}

TEST(Privileges, EveryActNeedsSomethingAndIsContentWithIt) {
  for (const Act act : all_acts()) {
    EXPECT_THAT(needs(act, scope()), Not(IsEmpty())) << to_string(act);
    EXPECT_THAT(missing(needs(act, scope()), everything(scope())), IsEmpty()) << to_string(act);
    EXPECT_EQ(missing(needs(act, scope()), {}).size(), needs(act, scope()).size())
        << to_string(act);
  }
}

TEST(Privileges, TheAgentNeedsAnotherRightOnEachVersion) {
  EXPECT_THAT(needs(Act::ReadAgent, scope({8, 4, 0})).front().any_of, ElementsAre("VM.Monitor"));
  EXPECT_THAT(needs(Act::ReadAgent, scope({9, 0, 0})).front().any_of,
              Contains("VM.GuestAgent.Audit"));
}

TEST(Privileges, APoolTakesThePlaceOfTheVm) {
  Scope pooled = scope();
  pooled.pool = "talos";
  EXPECT_EQ(needs(Act::DestroyVm, pooled).front().path, "/pool/talos");
}

TEST(Privileges, AVlanIsItsOwnPath) {
  Scope tagged = scope();
  tagged.links = {{"vmbr0", 20, "localnetwork"}};
  const auto all = needs(Act::CreateVm, tagged);
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const Need& need) {
    return need.path == "/sdn/zones/localnetwork/vmbr0/20" &&
           need.any_of == std::vector<std::string>{"SDN.Use"};
  }));
}

TEST(Privileges, OneMissingRightIsNamedWithItsPath) {
  Permissions almost = everything(scope());
  std::erase(almost["/vms/9001"], "VM.PowerMgmt");
  const auto gaps = missing(needs(Act::Power, scope()), almost);
  ASSERT_EQ(gaps.size(), 1u);
  EXPECT_EQ(gaps[0].path, "/vms/9001");
  EXPECT_THAT(gaps[0].any_of, ElementsAre("VM.PowerMgmt"));
}

TEST(Pveum, GrantsToUserAndTokenWithSeparation) {
  const auto lines = pveum_lines(all_acts(), scope(), "rocca@pve!cli", true);
  EXPECT_THAT(
      lines,
      Contains(StartsWith("pveum role modify RoccaVM --privs \"VM.Allocate VM.Audit VM.Clone")));
  EXPECT_THAT(lines, Contains("pveum acl modify /vms --users rocca@pve --roles RoccaVM"));
  EXPECT_THAT(lines, Contains("pveum acl modify /vms --tokens 'rocca@pve!cli' --roles RoccaVM"));
  EXPECT_THAT(lines,
              Contains("pveum acl modify / --users rocca@pve --roles RoccaSee --propagate 0"));
  const auto without = pveum_lines(all_acts(), scope(), "rocca@pve!cli", false);
  EXPECT_THAT(without, Not(Contains(HasSubstr("--tokens"))));
}

TEST(Pveum, NamesOnlyPrivilegesOfThatVersion) {
  EXPECT_THAT(pveum_lines(all_acts(), scope({8, 4, 0}), "a@pve!t", true),
              Not(Contains(HasSubstr("GuestAgent"))));
  EXPECT_THAT(pveum_lines(all_acts(), scope({9, 1, 0}), "a@pve!t", true),
              Not(Contains(HasSubstr("VM.Monitor"))));
}

TEST(Pveum, OneStorageForBothGetsOneRole) {
  Scope one = scope();
  one.disk_storages = {"local"};
  const auto lines = pveum_lines(all_acts(), one, "a@pve!t", false);
  EXPECT_THAT(lines, Contains("pveum acl modify /storage/local --users a@pve --roles RoccaImage"));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("RoccaDisk"))));
  EXPECT_THAT(lines, Contains(HasSubstr("Datastore.AllocateSpace")));
}

}  // namespace
}  // namespace rocca::proxmox
