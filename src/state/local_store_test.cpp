#include "state/local_store.hpp"

#include "base/error.hpp"
#include "state/journal.hpp"
#include "state/store_lifecycle_test_support.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>

namespace rocca::state {

namespace {

using namespace std::chrono_literals;
using test::fresh;
using test::note;
using testing::HasSubstr;

const std::string folder = "clusters/blue/.rocca";

Holder run(std::string id) {
  return {id, id + "@machine", "up", Instant{1s}, Instant{61s}};
}

/// A process does not live on after the power went off.
class MortalFiles final : public Files {
 private:
  template <class Call>
  auto alive(Call&& call) {
    if (dead_) throw Error(Fault::Lost, "dead");
    try {
      return call();
    } catch (const Error&) {
      dead_ = true;
      throw;
    }
  }

 public:
  explicit MortalFiles(MemoryFiles& disk) : disk_(disk) {}
  std::optional<std::string> find(const std::string& path, std::uint64_t limit) override {
    return alive([&] { return disk_.find(path, limit); });
  }
  void write(const std::string& path, std::string_view content, unsigned mode) override {
    alive([&] { disk_.write(path, content, mode); });
  }
  void append(const std::string& path, std::string_view content) override {
    alive([&] { disk_.append(path, content); });
  }
  bool remove(const std::string& path) override {
    return alive([&] { return disk_.remove(path); });
  }
  bool remove_folder(const std::string& path) override {
    return alive([&] { return disk_.remove_folder(path); });
  }
  void rename(const std::string& from, const std::string& to) override {
    alive([&] { disk_.rename(from, to); });
  }
  void make_folder(const std::string& path, unsigned mode) override {
    alive([&] { disk_.make_folder(path, mode); });
  }
  std::vector<std::string> list(const std::string& path) override {
    return alive([&] { return disk_.list(path); });
  }
  std::optional<FileStatus> status(const std::string& path) override {
    return alive([&] { return disk_.status(path); });
  }
  std::unique_ptr<FileLock> try_lock(const std::string& path) override {
    return alive([&] { return disk_.try_lock(path); });
  }

 private:
  MemoryFiles& disk_;
  bool dead_ = false;
};

TEST(LocalStore, SurvivesAPowerCutAtEveryDurableStep) {
  int ignored = 0;
  MemoryFiles whole;
  test::live(*local_store(whole, folder), run("a"), ignored);
  const std::uint64_t steps = whole.durable_steps();
  ASSERT_GT(steps, 20u);
  for (std::uint64_t cut = 1; cut <= steps; ++cut) {
    SCOPED_TRACE(cut);
    MemoryFiles files;
    files.cut_in(cut);
    int done = 0;
    MortalFiles process{files};
    try {
      test::live(*local_store(process, folder), run("a"), done);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Lost);
    }
    files.cut_in(0);
    const auto store = local_store(files, folder);
    const auto found = store->load();
    EXPECT_THAT(test::possible(done),
                testing::Contains(found ? std::optional(found->notes) : std::nullopt));
    // And the next run goes on, whatever was left.
    const auto lock = store->lock(run("b"));
    if (!found) store->replace(fresh());
    store->append(std::vector{note("next", "1")});
    store->append(std::vector{note("next", "2")});
    Fields wanted = found ? found->notes : Fields{};
    wanted["next"] = "2";
    EXPECT_EQ(local_store(files, folder)->load()->notes, wanted);
  }
}

TEST(LocalStore, MendsATornJournalBeforeItAdds) {
  MemoryFiles files;
  {
    const auto store = local_store(files, folder);
    const auto lock = store->lock(run("a"));
    store->replace(fresh());
    store->append(std::vector{note("a", "1")});
    store->append(std::vector{note("b", "1")});
  }
  const std::string journal = files.get(folder + "/journal");
  files.write(folder + "/journal", journal.substr(0, journal.size() - 5));
  const auto store = local_store(files, folder);
  EXPECT_EQ(store->load()->notes, (Fields{{"a", "1"}}));
  const auto lock = store->lock(run("b"));
  store->append(std::vector{note("c", "1")});
  EXPECT_EQ(local_store(files, folder)->load()->notes, (Fields{{"a", "1"}, {"c", "1"}}));
}

TEST(LocalStore, AJournalThatOutlivedItsStateIsNotApplied) {
  MemoryFiles files;
  const auto store = local_store(files, folder);
  const auto lock = store->lock(run("a"));
  store->replace(fresh());
  store->append(std::vector{note("a", "1")});
  const std::string journal = files.get(folder + "/journal");
  store->replace(fresh());
  files.write(folder + "/journal", journal);  // as if its removal had not reached the disk
  EXPECT_TRUE(local_store(files, folder)->load()->notes.empty());
}

TEST(LocalStore, AnOlderStatePutInPlaceOfANewerOneIsNoticed) {
  MemoryFiles files;
  const auto store = local_store(files, folder);
  const auto lock = store->lock(run("a"));
  store->replace(fresh());
  const std::string old = files.get(folder + "/state.json");
  store->replace(fresh());
  store->append(std::vector{note("a", "1")});
  files.write(folder + "/state.json", old);
  try {
    local_store(files, folder)->load();
    ADD_FAILURE() << "was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Rejected);
    EXPECT_THAT(error.message(), HasSubstr("does not continue it"));
  }
}

TEST(LocalStore, TheHoldersNameOutlivesItsProcessButNotTheLock) {
  MemoryFiles files;
  auto store = local_store(files, folder);
  auto lock = store->lock(run("a"));
  EXPECT_TRUE(files.find(folder + "/holder"));
  files.power_cut();  // the process is gone, and with it its lock
  const auto next = local_store(files, folder);
  EXPECT_EQ(next->holder(), std::nullopt);
  const auto taken = next->lock(run("b"));
  EXPECT_EQ(next->holder()->who, "b@machine");
}

TEST(LocalStore, WorksOnARealFileSystemForItsOwnerOnly) {
  char path[] = "/tmp/rocca-state-XXXXXX";
  ASSERT_NE(::mkdtemp(path), nullptr);
  const std::string real = fmt::format("{}/.rocca", path);
  RealFiles files;
  {
    const auto store = local_store(files, real);
    const auto lock = store->lock(run("a"));
    store->replace(fresh());
    store->append(std::vector{note("a", "1")});
    store->append(std::vector{note("b", "1")});
    const auto other = local_store(files, real);
    EXPECT_EQ(other->load()->notes, (Fields{{"a", "1"}, {"b", "1"}}));
    EXPECT_THROW(other->lock(run("b")), Error);
    const auto forced = other->lock(run("b"), /*force=*/true);
    EXPECT_THROW(lock->renew(), Error);
    other->append(std::vector{note("c", "1")});
  }
  EXPECT_EQ(local_store(files, real)->load()->notes.size(), 3u);
  EXPECT_EQ(files.status(real)->mode, 0700u);
  for (const char* name : {"state.json", "journal"})
    EXPECT_EQ(files.status(real + "/" + name)->mode, 0600u) << name;
  std::filesystem::remove_all(path);
}

}  // namespace

}  // namespace rocca::state
