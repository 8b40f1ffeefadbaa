#include "base/error.hpp"
#include "base/files.hpp"

#include <gmock/gmock.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace rocca {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

/// Runs `act` on the files that `make` gives, with the power going off inside its n-th step, for
/// every n; `check` looks at what is left. Returns how many cuts there were.
template <class Make, class Act, class Check>
std::uint64_t cut_everywhere(Make make, Act act, Check check) {
  for (std::uint64_t n = 1;; ++n) {
    MemoryFiles files = make();
    files.cut_in(n);
    try {
      act(files);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Lost);
      check(files);
      continue;
    }
    return n - 1;
  }
}

MemoryFiles with_old() {
  MemoryFiles files;
  files.make_folder("/d", 0755);
  files.write("/d/f", "old content", 0600);
  return files;
}

TEST(PowerCut, AWriteIsAllOrNothing) {
  bool old_seen = false;
  bool new_seen = false;
  const auto cuts = cut_everywhere(
      with_old, [](Files& files) { files.write("/d/f", "new", 0644); },
      [&](Files& files) {
        const std::string left = files.get("/d/f");
        EXPECT_THAT(left, AnyOf("old content", "new"));
        EXPECT_EQ(files.status("/d/f")->mode, left == "new" ? 0644u : 0600u);
        EXPECT_THAT(files.list("/d"), ElementsAre("f"));
        (left == "new" ? new_seen : old_seen) = true;
        files.write("/d/f", "newer", 0600);  // what was left behind is in nobody's way
        EXPECT_EQ(files.get("/d/f"), "newer");
      });
  EXPECT_EQ(cuts, 3u);
  EXPECT_TRUE(old_seen && new_seen);
}

TEST(PowerCut, AFirstWriteIsAllOrNothing) {
  const auto cuts = cut_everywhere(
      [] {
        MemoryFiles files;
        files.make_folder("/d", 0755);
        return files;
      },
      [](Files& files) { files.write("/d/f", "new", 0600); },
      [](Files& files) { EXPECT_THAT(files.find("/d/f").value_or("new"), "new"); });
  EXPECT_GE(cuts, 2u);
}

TEST(PowerCut, AnAppendMayLeaveAPrefix) {
  std::set<std::string> seen;
  cut_everywhere(
      with_old, [](Files& files) { files.append("/d/f", "+1234"); },
      [&](Files& files) {
        const std::string left = files.get("/d/f");
        EXPECT_THAT(left, StartsWith("old content"));
        EXPECT_THAT(std::string{"old content+1234"}, StartsWith(left));
        seen.insert(left);
      });
  EXPECT_THAT(seen, ElementsAre("old content+1", "old content+1234"));
}

TEST(PowerCut, RemoveAndRenameHappenOrDoNot) {
  std::set<bool> there;
  cut_everywhere(
      with_old, [](Files& files) { files.remove("/d/f"); },
      [&](Files& files) { there.insert(files.status("/d/f").has_value()); });
  EXPECT_THAT(there, ElementsAre(false, true));
  std::set<std::vector<std::string>> names;
  cut_everywhere(
      with_old, [](Files& files) { files.rename("/d/f", "/d/g"); },
      [&](Files& files) { names.insert(files.list("/d")); });
  EXPECT_THAT(names, ElementsAre(std::vector<std::string>{"f"}, std::vector<std::string>{"g"}));
}

TEST(PowerCut, LocksGoAndDoNotComeBack) {
  MemoryFiles files = with_old();
  auto held = files.try_lock("/d/lock");
  ASSERT_NE(held, nullptr);
  files.power_cut();
  auto taken = files.try_lock("/d/lock");
  ASSERT_NE(taken, nullptr);
  held.reset();  // the dead process's object frees nothing of the new one
  EXPECT_EQ(files.try_lock("/d/lock"), nullptr);
}

TEST(PowerCut, ACutTakesTheLockOfItsProcess) {
  MemoryFiles files = with_old();
  const auto held = files.try_lock("/d/lock");
  files.cut_in(1);
  EXPECT_THROW(files.write("/d/f", "x", 0600), Error);
  EXPECT_NE(files.try_lock("/d/lock"), nullptr);
}

TEST(PowerCut, HappensOnce) {
  MemoryFiles files = with_old();
  files.cut_in(1);
  EXPECT_THROW(files.write("/d/f", "x", 0600), Error);
  files.write("/d/f", "y", 0600);
  EXPECT_EQ(files.get("/d/f"), "y");
}

TEST(PowerCut, WhatHasReturnedStays) {
  MemoryFiles files = with_old();
  files.append("/d/f", "+");
  files.make_folder("/d/e", 0700);
  const std::uint64_t steps = files.durable_steps();
  files.power_cut();
  EXPECT_EQ(files.get("/d/f"), "old content+");
  EXPECT_TRUE(files.status("/d/e")->folder);
  EXPECT_EQ(files.durable_steps(), steps);
}

// A journal of records and a state beside it, cut anywhere: the state is one that was written, the
// journal a prefix.
RC_GTEST_PROP(PowerCutProperty, AnySequenceLeavesAPrefixOfItself, ()) {
  MemoryFiles files = with_old();
  const auto cut = *rc::gen::inRange<std::uint64_t>(1, 60);
  files.cut_in(cut);
  std::string journal;
  std::string next_journal;
  std::string state = "old content";
  std::string next_state = state;
  try {
    for (int i = 0; i < 10; ++i) {
      next_journal = journal + "record;";
      files.append("/d/journal", "record;");
      journal = next_journal;
      next_state = std::to_string(i);
      files.write("/d/f", next_state, 0600);
      state = next_state;
    }
  } catch (const Error&) {
  }
  const std::string left = files.find("/d/journal").value_or("");
  RC_ASSERT(left.starts_with(journal));
  RC_ASSERT(next_journal.starts_with(left));
  const std::string left_state = files.get("/d/f");
  RC_ASSERT(left_state == state || left_state == next_state);
}

}  // namespace
}  // namespace rocca
