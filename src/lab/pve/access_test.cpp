#include "lab/pve/access.hpp"

#include "lab/pve/failure.hpp"

#include <gmock/gmock.h>

namespace rocca::lab::pve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Key;
using testing::Pair;

class AccessTest : public testing::Test {
 protected:
  AccessTest() {
    access.users["ann@pve"].groups = {"staff"};
    access.users["ann@pve"].tokens["sep"] = {"s", true, 0, ""};
    access.users["ann@pve"].tokens["all"] = {"s", false, 0, ""};
    access.groups["staff"];
  }
  Access access{Release::v8_4()};
};

TEST_F(AccessTest, ADeeperEntryReplacesWhatStandsAbove) {
  access.grant("ann@pve", "/", {"VM.Audit", "VM.Clone"});
  access.grant("ann@pve", "/vms/100", {"VM.PowerMgmt"});
  EXPECT_THAT(access.permissions("ann@pve", "/vms/100"), ElementsAre(Key("VM.PowerMgmt")));
  EXPECT_THAT(access.permissions("ann@pve", "/vms/101"),
              ElementsAre(Key("VM.Audit"), Key("VM.Clone")));
}

TEST_F(AccessTest, WithoutPropagationAnEntryCountsOnItsOwnPathOnly) {
  access.grant("ann@pve", "/", {"Sys.Audit"}, false);
  EXPECT_THAT(access.permissions("ann@pve", "/"), ElementsAre(Pair("Sys.Audit", false)));
  EXPECT_THAT(access.permissions("ann@pve", "/nodes"), IsEmpty());
}

TEST_F(AccessTest, AUsersEntryBeatsTheGroupsAtOneLevel) {
  access.grant("@staff", "/vms", {"VM.Audit"});
  EXPECT_THAT(access.permissions("ann@pve", "/vms/1"), ElementsAre(Key("VM.Audit")));
  access.grant("ann@pve", "/vms", {"VM.Clone"});
  EXPECT_THAT(access.permissions("ann@pve", "/vms/1"), ElementsAre(Key("VM.Clone")));
}

TEST_F(AccessTest, AQuestionAfterOnePrivilegeIsAnsweredLikeTheWholeList) {
  access.grant("@staff", "/", {"VM.Audit", "Sys.Audit"});
  access.grant("ann@pve", "/vms", {"VM.Audit", "VM.Clone"});
  access.grant("ann@pve", "/vms/7", {"VM.Config.Disk"}, false);
  access.grant("ann@pve!sep", "/vms", {"VM.Audit", "VM.PowerMgmt"});
  access.grant("ann@pve", "/pool/p", {"VM.PowerMgmt", "Datastore.Audit"});
  access.grant("ann@pve!sep", "/pool/p", {"VM.PowerMgmt"});
  access.pools["p"].vms = {8};
  access.pools["p"].storages = {"tank"};
  access.acl["/vms/9"]["ann@pve"]["NoAccess"] = true;
  std::size_t granted = 0;
  for (const char* id : {"ann@pve", "ann@pve!sep", "ann@pve!all", "ann@pve!none", "bob@pve"})
    for (const char* path : {"/", "/nodes/pve1", "/vms", "/vms/7", "/vms/8", "/vms/9", "/vms/x",
                             "/storage/tank", "/storage/local", "/pool/p"}) {
      const auto all = access.permissions(id, path);
      granted += all.size();
      const Caller caller{id, "", false};
      for (const std::string& priv : access.privileges())
        EXPECT_EQ(access.may(caller, path, {priv}), all.contains(priv))
            << id << " " << path << " " << priv;
    }
  EXPECT_GT(granted, 20u);
}

TEST_F(AccessTest, NoAccessWins) {
  access.grant("ann@pve", "/vms", {"VM.Audit"});
  access.acl["/vms"]["ann@pve"]["NoAccess"] = true;
  EXPECT_THAT(access.permissions("ann@pve", "/vms/1"), IsEmpty());
}

TEST_F(AccessTest, ASeparatedTokenHasWhatBothHave) {
  access.grant("ann@pve", "/vms", {"VM.Audit", "VM.Clone"});
  EXPECT_THAT(access.permissions("ann@pve!sep", "/vms/1"), IsEmpty());
  EXPECT_THAT(access.permissions("ann@pve!all", "/vms/1"),
              ElementsAre(Key("VM.Audit"), Key("VM.Clone")));
  access.grant("ann@pve!sep", "/vms", {"VM.Audit", "VM.PowerMgmt"});
  EXPECT_THAT(access.permissions("ann@pve!sep", "/vms/1"), ElementsAre(Key("VM.Audit")));
}

TEST_F(AccessTest, MembersOfAPoolGetWhatIsGrantedOnIt) {
  access.pools["blue"].vms = {100};
  access.pools["blue"].storages = {"fast"};
  access.grant("ann@pve", "/pool/blue", {"VM.Allocate", "Datastore.Audit"});
  EXPECT_TRUE(access.may({"ann@pve", "ann@pve", false}, "/vms/100", {"VM.Allocate"}));
  EXPECT_TRUE(access.may({"ann@pve", "ann@pve", false}, "/storage/fast", {"Datastore.Audit"}));
  EXPECT_FALSE(access.may({"ann@pve", "ann@pve", false}, "/vms/101", {"VM.Allocate"}));
}

TEST_F(AccessTest, OnlyTheLiteralRootIsRoot) {
  access.users["root@pam"].tokens["t"] = {"s", false, 0, ""};
  EXPECT_TRUE(access.may({"root@pam", "root@pam", false}, "/anything", {"Sys.Modify"}));
  EXPECT_FALSE((Caller{"root@pam!t", "root@pam", true}).is_root());
  EXPECT_TRUE(access.may({"root@pam!t", "root@pam", true}, "/vms", {"VM.Audit"}));
}

TEST_F(AccessTest, TheRefusalNamesThePathAndThePrivilege) {
  const Caller ann{"ann@pve", "ann@pve", false};
  try {
    access.require(ann, "/vms/100", {"VM.Audit"});
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.status, 403);
    EXPECT_EQ(failure.message, "Permission check failed (/vms/100, VM.Audit)");
  }
  try {
    access.require(ann, "/storage/x", {"Datastore.Audit", "Datastore.AllocateSpace"}, true);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.message,
              "Permission check failed (/storage/x, Datastore.Audit|Datastore.AllocateSpace)");
  }
}

TEST(AccessReleases, NineKnowsOtherPrivilegesThanEight) {
  const Access eight{Release::v8_4()};
  const Access nine{Release::v9()};
  EXPECT_TRUE(eight.privileges().contains("VM.Monitor"));
  EXPECT_FALSE(nine.privileges().contains("VM.Monitor"));
  EXPECT_TRUE(nine.privileges().contains("VM.GuestAgent.Audit"));
  EXPECT_FALSE(eight.privileges().contains("VM.GuestAgent.Audit"));
}

TEST(AclPaths, AreThoseThatProxmoxKnows) {
  for (const char* path : {"/", "/vms", "/vms/100", "/pool/a/b", "/storage/local",
                           "/sdn/zones/localnetwork/vmbr0/20", "/nodes/pve1"})
    EXPECT_TRUE(is_acl_path(path)) << path;
  for (const char* path : {"", "vms", "/foo", "/vms/abc", "/vms/99", "/storage/a/b"})
    EXPECT_FALSE(is_acl_path(path)) << path;
}

}  // namespace
}  // namespace rocca::lab::pve
