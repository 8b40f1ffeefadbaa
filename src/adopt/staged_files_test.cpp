#include "adopt/staged_files.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::adopt {
namespace {

using testing::ElementsAre;

class Staged : public testing::Test {
 protected:
  Staged() {
    disk.make_folder("/repo/clusters");
    disk.write("/repo/.sops.yaml", "rules", 0644);
  }
  MemoryFiles disk;
  StagedFiles files{disk};
};

TEST_F(Staged, NothingIsWrittenBeforeItIsCommitted) {
  files.make_folder("/repo/clusters/blue/.rocca", 0700);
  files.write("/repo/clusters/blue/cluster.yaml", "spec", 0644);
  files.append("/repo/clusters/blue/.rocca/journal", "1");
  files.append("/repo/clusters/blue/.rocca/journal", "2");
  files.write("/repo/schema.json", "{}", 0644);
  EXPECT_EQ(files.get("/repo/.sops.yaml"), "rules");
  EXPECT_EQ(files.get("/repo/clusters/blue/.rocca/journal"), "12");
  EXPECT_THAT(files.list("/repo"), ElementsAre(".sops.yaml", "clusters", "schema.json"));
  EXPECT_THAT(files.list("/repo/clusters/blue"), ElementsAre(".rocca", "cluster.yaml"));
  EXPECT_THAT(disk.list("/repo"), ElementsAre(".sops.yaml", "clusters"));
  EXPECT_THAT(disk.list("/repo/clusters"), testing::IsEmpty());

  EXPECT_THAT(files.commit("/repo/clusters/blue"),
              ElementsAre("/repo/schema.json", "/repo/clusters/blue/.rocca/journal",
                          "/repo/clusters/blue/cluster.yaml"));
  EXPECT_THAT(disk.list("/repo/clusters"), ElementsAre("blue"));
  EXPECT_EQ(disk.get("/repo/clusters/blue/.rocca/journal"), "12");
  EXPECT_EQ(disk.status("/repo/clusters/blue/.rocca")->mode, 0700u);
  EXPECT_EQ(disk.status("/repo/clusters/blue/cluster.yaml")->mode, 0644u);
}

// Wherever the power goes off, the cluster's folder is there with all that is in it, or not at all.
TEST_F(Staged, APowerCutLeavesAllOrNothing) {
  bool done = false;
  for (std::uint64_t step = 1; !done; ++step) {
    MemoryFiles cut = disk;
    StagedFiles staged{cut};
    staged.make_folder("/repo/clusters/blue");
    for (const char* name : {"cluster.yaml", "rocca.lock", "secrets.sops.yaml"})
      staged.write(std::string("/repo/clusters/blue/") + name, "x");
    cut.cut_in(step);
    try {
      staged.commit("/repo/clusters/blue");
      done = true;
    } catch (const Error&) {
    }
    if (cut.status("/repo/clusters/blue")) {
      EXPECT_THAT(cut.list("/repo/clusters/blue"),
                  ElementsAre("cluster.yaml", "rocca.lock", "secrets.sops.yaml"));
    }
    ASSERT_LT(step, 100u);
  }
}

TEST_F(Staged, WhatIsThereIsNotOverwritten) {
  files.make_folder("/repo/clusters/blue");
  files.write("/repo/clusters/blue/cluster.yaml", "ours");
  disk.make_folder("/repo/clusters/blue");
  disk.write("/repo/clusters/blue/cluster.yaml", "theirs");
  EXPECT_THROW(files.commit("/repo/clusters/blue"), Error);
  EXPECT_EQ(disk.get("/repo/clusters/blue/cluster.yaml"), "theirs");
  EXPECT_THROW(files.remove("/repo/.sops.yaml"), Error);
  EXPECT_FALSE(files.remove("/repo/none"));
  EXPECT_THROW(files.write("/repo/none/at-all", "x"), Error);
}

TEST_F(Staged, ALockIsHeldByOne) {
  auto first = files.try_lock("/repo/lock");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(files.try_lock("/repo/lock"), nullptr);
  first.reset();
  EXPECT_NE(files.try_lock("/repo/lock"), nullptr);
}

}  // namespace
}  // namespace rocca::adopt
