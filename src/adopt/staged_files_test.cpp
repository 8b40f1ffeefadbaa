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

  EXPECT_THAT(files.commit("/repo/clusters/blue", "/repo/clusters/blue/configs"),
              ElementsAre("/repo/clusters/blue/.rocca/journal", "/repo/clusters/blue/cluster.yaml",
                          "/repo/schema.json"));
  EXPECT_THAT(disk.list("/repo/clusters"), ElementsAre("blue"));
  EXPECT_EQ(disk.get("/repo/clusters/blue/.rocca/journal"), "12");
  EXPECT_EQ(disk.status("/repo/clusters/blue/.rocca")->mode, 0700u);
  EXPECT_EQ(disk.status("/repo/clusters/blue/cluster.yaml")->mode, 0644u);
}

/// A disk on which something goes wrong at the n-th change from now on.
class FailingDisk final : public Files {
 public:
  enum class How { PowerCut, Full };
  FailingDisk(MemoryFiles& disk, How how, unsigned change)
      : disk_(disk), how_(how), change_(change) {}

  std::optional<std::string> find(const std::string& path, std::uint64_t limit) override {
    need_power();
    return disk_.find(path, limit);
  }
  void write(const std::string& path, std::string_view content, unsigned mode) override {
    change([&] { disk_.write(path, content, mode); });
  }
  void append(const std::string& path, std::string_view content) override {
    change([&] { disk_.append(path, content); });
  }
  bool remove(const std::string& path) override {
    need_power();
    return disk_.remove(path);
  }
  bool remove_folder(const std::string& path) override {
    need_power();
    return disk_.remove_folder(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    if (before_rename) before_rename();
    change([&] { disk_.rename(from, to); });
  }
  void make_folder(const std::string& path, unsigned mode) override {
    change([&] { disk_.make_folder(path, mode); });
  }
  std::vector<std::string> list(const std::string& folder) override {
    need_power();
    return disk_.list(folder);
  }
  std::optional<FileStatus> status(const std::string& path) override {
    need_power();
    return disk_.status(path);
  }
  std::unique_ptr<FileLock> try_lock(const std::string& path) override {
    return disk_.try_lock(path);
  }
  std::function<void()> before_rename = {};

 private:
  /// A full disk can still be read, and cleared; a process without power does nothing any more.
  void need_power() const {
    if (dead_) throw Error(Fault::Lost, "the power is off");
  }
  template <class Act>
  void change(const Act& act) {
    need_power();
    if (change_ > 0 && --change_ == 0) {
      dead_ = how_ == How::PowerCut;
      if (!dead_) throw Error(Fault::Rejected, "No space left on device");
      disk_.cut_in(2);  // in the middle of a write
    }
    act();
  }

  MemoryFiles& disk_;
  How how_;
  unsigned change_;
  bool dead_ = false;
};

constexpr const char* place = "/repo/clusters/blue";
constexpr const char* in_clear = "/repo/clusters/blue/configs";

void stage_a_cluster(StagedFiles& staged) {
  staged.make_folder("/home/.config/sops/age", 0700);
  staged.write("/home/.config/sops/age/keys.txt", "age key");
  staged.write("/repo/clusters/cluster.schema.json", "{}", 0644);
  staged.make_folder("/repo/clusters/blue/.rocca", 0700);
  staged.make_folder(in_clear, 0700);
  for (const char* name : {"/.rocca/state.json", "/cluster.yaml", "/secrets.sops.yaml"})
    staged.write(std::string(place) + name, "x");
  staged.write(std::string(in_clear) + "/kubeconfig", "in clear");
  staged.write(std::string(in_clear) + "/talosconfig", "in clear");
}

/// Every path below a folder.
std::vector<std::string> all_below(Files& files, const std::string& folder) {
  std::vector<std::string> all;
  for (const std::string& name : files.list(folder)) {
    const std::string path = folder + (folder == "/" ? "" : "/") + name;
    all.push_back(path);
    if (!files.status(path)->folder) continue;
    for (std::string& deeper : all_below(files, path)) all.push_back(std::move(deeper));
  }
  return all;
}

// Wherever the power goes off, the cluster's folder is there with all that cannot be made again, or
// not at all; what a folder that was not finished holds is no secret in clear, and the next time
// goes through.
TEST_F(Staged, APowerCutLeavesAllOrNothingAndNothingInClear) {
  bool done = false;
  for (unsigned change = 1; !done; ++change) {
    MemoryFiles cut = disk;
    FailingDisk failing{cut, FailingDisk::How::PowerCut, change};
    {
      StagedFiles staged{failing};
      stage_a_cluster(staged);
      try {
        staged.commit(place, in_clear);
        done = true;
      } catch (const Error&) {
      }
    }
    cut.power_cut();  // a change of one step was done before it went off
    const bool appeared = cut.status(place).has_value();
    if (appeared) {
      EXPECT_THAT(cut.list(place),
                  ElementsAre(".rocca", "cluster.yaml", "configs", "secrets.sops.yaml"));
      EXPECT_EQ(cut.get("/home/.config/sops/age/keys.txt"), "age key");
    }
    const std::string beside = "/repo/clusters/.blue.adopting";
    for (const std::string& path : all_below(cut, beside))
      EXPECT_FALSE(path.ends_with("config")) << path << " at change " << change;
    // What is left is cleared, whatever it is.
    if (!appeared) {
      if (cut.status(beside)) cut.write(beside + "/of-an-older-rocca", "x");
      StagedFiles again{cut};
      stage_a_cluster(again);
      again.commit(place, in_clear);
      EXPECT_THAT(cut.list("/repo/clusters"), ElementsAre("blue", "cluster.schema.json"));
      EXPECT_THAT(cut.list(place),
                  ElementsAre(".rocca", "cluster.yaml", "configs", "secrets.sops.yaml"));
      EXPECT_THAT(cut.list(in_clear), ElementsAre("kubeconfig", "talosconfig"));
    }
    ASSERT_LT(change, 100u);
  }
}

TEST_F(Staged, AnErrorTakesAllOfItBack) {
  const std::vector<std::string> before = all_below(disk, "/");
  bool done = false;
  for (unsigned change = 1; !done; ++change) {
    MemoryFiles full = disk;
    FailingDisk failing{full, FailingDisk::How::Full, change};
    StagedFiles staged{failing};
    stage_a_cluster(staged);
    try {
      staged.commit(place, in_clear);
      done = true;
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), "No space left on device");
      EXPECT_EQ(all_below(full, "/"), before) << "at change " << change;
      EXPECT_EQ(full.get("/repo/.sops.yaml"), "rules");
    }
    ASSERT_LT(change, 100u);
  }
}

// Two at once: who comes second takes nothing away from the first.
TEST_F(Staged, WhatAnotherRunPutThereMeanwhileStays) {
  FailingDisk shared{disk, FailingDisk::How::Full, 0};
  shared.before_rename = [&] {
    disk.make_folder(place);
    disk.write(std::string(place) + "/cluster.yaml", "theirs");
  };
  StagedFiles staged{shared};
  stage_a_cluster(staged);
  EXPECT_THROW(staged.commit(place, in_clear), Error);
  EXPECT_EQ(disk.get(std::string(place) + "/cluster.yaml"), "theirs");
  EXPECT_THAT(disk.list("/repo/clusters"), ElementsAre("blue"));
}

TEST_F(Staged, WhatIsThereIsNotOverwritten) {
  files.make_folder("/repo/clusters/blue");
  files.write("/repo/clusters/blue/cluster.yaml", "ours");
  disk.make_folder("/repo/clusters/blue");
  disk.write("/repo/clusters/blue/cluster.yaml", "theirs");
  EXPECT_THROW(files.commit("/repo/clusters/blue", "/repo/clusters/blue/configs"), Error);
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
