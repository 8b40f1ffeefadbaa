#include "platform/proxmox/preflight.hpp"

#include <gmock/gmock.h>

namespace rocca::resources {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

proxmox::StorageInfo storage(const std::string& name, std::vector<std::string> content) {
  proxmox::StorageInfo info;
  info.name = name;
  info.content = std::move(content);
  info.enabled = info.active = true;
  return info;
}

TEST(Preflight, RightsComeFromThePathOrFromTheNearestOneAboveThatPassesThemDown) {
  const proxmox::Grants grants{{"/", {{"Sys.Audit", false}}},
                               {"/vms", {{"VM.Audit", true}, {"VM.Allocate", false}}},
                               {"/vms/300", {{"VM.PowerMgmt", true}}}};
  EXPECT_THAT(effective_on(grants, "/"), ElementsAre("Sys.Audit"));
  EXPECT_THAT(effective_on(grants, "/vms"), ElementsAre("VM.Allocate", "VM.Audit"));
  EXPECT_THAT(effective_on(grants, "/vms/100"), ElementsAre("VM.Audit"));
  EXPECT_THAT(effective_on(grants, "/vms/300"), ElementsAre("VM.PowerMgmt"));
  EXPECT_THAT(effective_on(grants, "/storage/local"), IsEmpty());
}

TEST(Preflight, NeedsThatAreNotMetAreNamedAndOptionalOnesAreNot) {
  proxmox::Need power{proxmox::Act::Power, "/vms/100", {"VM.PowerMgmt"}, "start VMs", false, false};
  proxmox::Need quorum{proxmox::Act::ReadCluster, "/", {"Sys.Audit"}, "see quorum", false, true};
  EXPECT_THAT(unmet({power, quorum}, {{"/vms", {{"VM.Audit", true}}}}), ElementsAre(power));
  EXPECT_THAT(unmet({power, quorum}, {{"/vms", {{"VM.PowerMgmt", true}}}}), IsEmpty());
}

TEST(Preflight, AMissingBridgeIsNeverExplainedAsAMissingRight) {
  const std::vector<std::string> visible{"vmbr0", "vmbr1"};
  const auto text = [&](bool may_see, std::optional<bool> exists) {
    return bridge_problem("vmbr9", "pve1", judge_bridge(may_see, exists), visible).text;
  };
  for (const bool may_see : {true, false})
    EXPECT_THAT(text(may_see, false), AllOf(HasSubstr("'vmbr9' does not exist on pve1"),
                                            HasSubstr("did you mean"), Not(HasSubstr("SDN.Use"))));
  EXPECT_THAT(text(true, std::nullopt), HasSubstr("does not exist on pve1"));
  EXPECT_THAT(text(false, true), AllOf(HasSubstr("needs SDN.Use"), Not(HasSubstr("not exist"))));
  EXPECT_THAT(text(false, std::nullopt),
              AllOf(HasSubstr("does not exist"), HasSubstr("or the token lacks SDN.Use")));
}

TEST(Preflight, AStorageIsJudgedByNameStateAndContent) {
  std::vector<proxmox::StorageInfo> all{storage("local", {"iso", "import"}),
                                        storage("local-lvm", {"images"})};
  EXPECT_FALSE(storage_problem("local", "import", "pve1", all, true));
  EXPECT_THAT(storage_problem("local-lvn", "images", "pve1", all, true)->text,
              AllOf(HasSubstr("'local-lvn' does not exist on pve1"), HasSubstr("`local-lvm`")));
  EXPECT_THAT(
      storage_problem("ceph", "images", "pve1", all, false)->text,
      AllOf(HasSubstr("not visible"), HasSubstr("Datastore.AllocateSpace on /storage/ceph")));
  const auto content = storage_problem("local", "images", "pve1", all, true);
  EXPECT_THAT(content->text, HasSubstr("does not take 'images' (it takes iso, import)"));
  EXPECT_EQ(content->hint, "pvesm set local --content iso,import,images");
  all.front().enabled = false;
  EXPECT_THAT(storage_problem("local", "iso", "pve1", all, true)->text, HasSubstr("is disabled"));
}

TEST(Preflight, AllVmsAreSeenWithARightOnAllOfThemOnly) {
  EXPECT_TRUE(sees_every_vm({{"/vms", {{"VM.Audit", true}}}}));
  EXPECT_TRUE(sees_every_vm({{"/", {{"VM.Audit", true}}}}));
  EXPECT_FALSE(sees_every_vm({{"/vms", {{"VM.Audit", false}}}}));
  EXPECT_FALSE(sees_every_vm({{"/pool/talos", {{"VM.Audit", true}}}}));
  EXPECT_FALSE(
      sees_every_vm({{"/vms", {{"VM.Audit", true}}}, {"/vms/104", {{"VM.Console", true}}}}));
}

}  // namespace
}  // namespace rocca::resources
