// Waits: how long they may last, what is said meanwhile, and why they fail.

#include "engine/execute.hpp"
#include "engine/toy_test_support.hpp"
#include "engine/unfinished.hpp"

#include <gmock/gmock.h>

namespace rocca::engine {
namespace {

using toy::resources;
using toy::Rig;
using toy::Wish;
using toy::wish;
using namespace std::chrono_literals;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using End = StepResult::End;

/// A resource whose state only needs waiting: `read` and `probe` report it each in its own way, as
/// two members of a cluster do that are asked one after the other.
class Waiter final : public Resource {
 public:
  Waiter(const Clock& clock, Duration patience) : clock_(clock), patience_(patience) {}

  std::function<bool(Duration)> well_when_read = [](Duration) { return false; };
  std::function<bool(Duration)> well_when_probed = [](Duration) { return false; };
  std::string reason = "the leader";
  bool explains_itself = false;
  mutable unsigned explained = 0;
  std::function<void(World&)> watch;
  unsigned parts = 1;  // of a search that each read is
  mutable unsigned read_parts = 0;

  const std::string& address() const override { return address_; }
  std::vector<std::string> needs() const override { return {}; }
  std::string wanted() const override { return "well"; }
  std::optional<Live> read(World& world) const override {
    return world.site.exchange("read " + address_, [&]() -> std::optional<Live> {
      if (++read_parts % parts != 0) throw Unfinished("searching");
      return Live{"", {{"well", well_when_read(since()) ? "yes" : "no"}}, {}};
    });
  }
  Change diff(const std::optional<Live>& live) const override {
    Change change;
    if (live && live->fields.at("well") == "yes") return change;
    change.action = Action::Update;
    change.effect = Effect::Live;
    change.reason = "waits for " + reason;
    change.waits = true;
    return change;
  }
  Receipt apply(World&, const Change&, const std::optional<Live>&) const override {
    return {"well", "wait"};
  }
  Progress probe(World& world, const Receipt&) const override {
    return world.site.exchange("probe " + address_, [&]() -> Progress {
      if (well_when_probed(since())) return Ready{};
      NotYet wait{reason, watch ? 60s : 5s};
      wait.watch = watch;
      return wait;
    });
  }
  Receipt destroy(World&, const Live&) const override { return {}; }
  std::vector<Lane> lanes(const Change*) const override { return {}; }
  Duration patience(const Change&) const override { return patience_; }
  bool explains() const override { return explains_itself; }
  std::optional<Explanation> explain(World&) const override {
    ++explained;
    return Explanation{"the cable is out", "the cable is out\nplug it in"};
  }

 private:
  Duration since() const { return clock_.tick() - began_; }

  std::string address_ = "member/a";
  const Clock& clock_;
  Tick began_ = clock_.tick();
  Duration patience_;
};

struct WaitRig : Rig {
  explicit WaitRig(Duration patience = 10min)
      : waiter(std::make_shared<Waiter>(time.clock, patience)) {
    desired.wanted = {{"member/a", waiter}};
  }
  std::shared_ptr<Waiter> waiter;
};

/// Seconds of a minute that belong to the first half.
bool by_turns(Duration since) {
  return std::chrono::duration_cast<std::chrono::seconds>(since).count() % 2 == 0;
}

TEST(Waits, AStateThatComesAndGoesIsWaitedForAndNeverAFailedChange) {
  WaitRig rig;
  // The one who is probed has joined at once; the one who is read is a learner for a minute.
  rig.waiter->well_when_probed = [](Duration) { return true; };
  rig.waiter->well_when_read = [](Duration since) { return since > 1min; };
  const Report report = rig.up();
  EXPECT_TRUE(report.ok()) << report.steps.at("member/a").error->render();
  EXPECT_LT(report.took, 90s);
  EXPECT_LT(rig.count("read member/a"), 20u) << "such a state is asked at growing intervals";
}

TEST(Waits, AStateThatNeverStaysEndsWithinItsPatience) {
  WaitRig rig{5min};
  rig.waiter->well_when_probed = by_turns;
  const Report report = rig.up();
  ASSERT_FALSE(report.ok());
  const Error& error = *report.steps.at("member/a").error;
  EXPECT_EQ(error.fault(), Fault::Timeout) << error.render();
  EXPECT_THAT(error.message(), HasSubstr("still waiting after 5m"));
  EXPECT_THAT(error.message(), HasSubstr("the leader"));
  EXPECT_LE(report.took, 5min + 20s);
}

TEST(Waits, AWaitThatAnEarlierRunBeganIsNotWaitedForTwice) {
  WaitRig rig{5min};
  EXPECT_FALSE(rig.up().ok());
  for (const int again : {1, 2}) {
    SCOPED_TRACE(again);
    const Report report = rig.up();
    ASSERT_FALSE(report.ok());
    EXPECT_THAT(report.steps.at("member/a").error->message(), HasSubstr("still waiting after 5m"));
    EXPECT_LE(report.took, 5min + 20s);
  }
}

TEST(Waits, AnOperationOfAnEarlierRunThatNeverEndsIsNotWaitedForTwice) {
  Rig rig;
  Wish vm = wish("vm/a");
  vm.takes = 24h;
  vm.patience = 5min;
  rig.desired.wanted = resources({vm});
  EXPECT_FALSE(rig.up().ok());
  // Its task still holds the VM: whatever this run would do is refused.
  const Report report = rig.up();
  ASSERT_FALSE(report.ok());
  EXPECT_LE(report.took, 5min + 20s);
}

TEST(Waits, WhatFollowsAWaitHasItsOwnTime) {
  WaitRig rig{5min};
  rig.waiter->well_when_probed = [](Duration since) { return since > 4min; };
  rig.waiter->well_when_read = [](Duration since) { return since > 4min; };
  EXPECT_TRUE(rig.up().ok());
}

TEST(Waits, ALongWaitIsReportedAgainWithItsReasonAndItsLimit) {
  WaitRig rig{10min};
  rig.waiter->well_when_probed =
      rig.waiter->well_when_read = [](Duration since) { return since > 3min; };
  EXPECT_TRUE(rig.up().ok());
  EXPECT_THAT(rig.told(Event::Kind::Waiting), ElementsAre("member/a: the leader"));
  unsigned reminders = 0;
  for (const Event& event : rig.events) {
    if (event.kind != Event::Kind::StillWaiting) continue;
    ++reminders;
    EXPECT_EQ(event.text, "the leader");
    ASSERT_TRUE(event.took && event.limit);
    EXPECT_NEAR(std::chrono::duration<double>(*event.took).count(), 30.0 * reminders,
                8 * reminders);
    EXPECT_LE(*event.limit, 10min + 10s);
    EXPECT_GE(*event.limit, 10min - 10s);
  }
  EXPECT_GE(reminders, 4u);
  EXPECT_LE(reminders, 6u);
}

TEST(Waits, ALongWaitNamesItsLikelyCauseOnceAndGoesOn) {
  WaitRig rig{10min};
  rig.waiter->explains_itself = true;
  rig.waiter->well_when_probed =
      rig.waiter->well_when_read = [](Duration since) { return since > 5min; };
  const Report report = rig.up();
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(rig.waiter->explained, 1u);
  EXPECT_THAT(rig.told(Event::Kind::Noted),
              ElementsAre("member/a: likely cause: the cable is out"));
  for (const Event& event : rig.events) {
    if (event.kind != Event::Kind::Noted) continue;
    EXPECT_GE(event.at - rig.events.front().at, 1min);
    EXPECT_LE(event.at - rig.events.front().at, 2min);
  }
}

TEST(Waits, AShortWaitIsNotExplained) {
  WaitRig rig{10min};
  rig.waiter->explains_itself = true;
  rig.waiter->well_when_probed =
      rig.waiter->well_when_read = [](Duration since) { return since > 30s; };
  EXPECT_TRUE(rig.up().ok());
  EXPECT_EQ(rig.waiter->explained, 0u);
}

TEST(Waits, ATimeoutIsExplainedWhenItHappensAndNotWhenTheRunEnds) {
  WaitRig rig{1min};
  rig.waiter->explains_itself = true;
  Wish slow = wish("vm/b");
  slow.takes = 20min;
  slow.patience = 30min;
  rig.desired.wanted["vm/b"] = resources({slow}).at("vm/b");
  const Report report = rig.up();
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.steps.at("member/a").error->hint(), "the cable is out\nplug it in");
  bool failed = false;
  for (const Event& event : rig.events) {
    if (event.kind != Event::Kind::Failed) continue;
    failed = true;
    EXPECT_EQ(event.error->hint(), "the cable is out\nplug it in");
    EXPECT_LE(event.at - rig.events.front().at, 90s);
  }
  EXPECT_TRUE(failed);
  EXPECT_GE(report.took, 20min);
}

// ---- watches and searches: waits that hold no thread

/// Parks its call for this long of virtual time, or until it is told to stop.
std::function<void(World&)> listening(WaitRig& rig, Duration duration, unsigned& watches) {
  return [&rig, duration, &watches](World& world) {
    ++watches;
    rig.fibers->park([&](std::function<void()> wake) {
      rig.time.after(duration, wake);
      rig.time.after(1s, [&world, wake] {
        if (world.stop.stop_requested()) wake();
      });
    });
  };
}

TEST(Waits, AWatchEndsAWaitEarlyAndHoldsNoLane) {
  WaitRig rig;
  unsigned watches = 0;
  rig.waiter->well_when_read =
      rig.waiter->well_when_probed = [](Duration since) { return since > 20s; };
  rig.waiter->watch = listening(rig, 7s, watches);
  // Only one call at a time: the watch must not count as one.
  rig.options.parallelism = 1;
  toy::Wish other = wish("other/b");
  other.takes = 3s;
  rig.desired.wanted.merge(resources({other}));
  const Report report = rig.up();
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(watches, 3u);
  EXPECT_LT(report.took, 23s) << "each watch ended a wait of a minute";
  EXPECT_LT(report.steps.at("other/b").took, 6s) << "it did not wait for the watch";
}

TEST(Waits, AWatchThatFailsIsOnlyTheNextAsking) {
  WaitRig rig;
  unsigned watches = 0;
  rig.waiter->well_when_read =
      rig.waiter->well_when_probed = [](Duration since) { return since > 2s; };
  rig.waiter->watch = [&](World&) {
    ++watches;
    rig.fibers->park([&](std::function<void()> wake) { rig.time.after(1s, std::move(wake)); });
    throw toy::unreachable();
  };
  EXPECT_TRUE(rig.up().ok());
  EXPECT_GE(watches, 2u);
}

TEST(Waits, AWaitMayTimeOutWhileItsWatchListens) {
  WaitRig rig{5s};
  unsigned watches = 0;
  rig.waiter->watch = listening(rig, 1h, watches);
  const Report report = rig.up();
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.steps.at("member/a").error->fault(), Fault::Timeout);
  EXPECT_EQ(watches, 1u) << "one watch at a time";
}

TEST(Waits, AStopEndsWatches) {
  WaitRig rig;
  unsigned watches = 0;
  rig.waiter->watch = listening(rig, 1h, watches);
  const Plan plan = rig.plan();
  rig.time.after(500ms, [&] { rig.stop.request_stop(); });
  const Report report = rig.run(plan);
  EXPECT_TRUE(report.interrupted);
  EXPECT_EQ(watches, 1u);
  EXPECT_LT(report.took, 5s);
}

TEST(Waits, ASearchIsReadInPartsAndNoPartCountsAsATry) {
  WaitRig rig;
  rig.waiter->parts = 10;
  rig.waiter->well_when_read = [](Duration) { return true; };
  const Plan plan = rig.plan();
  EXPECT_TRUE(plan.steps.empty());
  EXPECT_THAT(plan.failed, IsEmpty());
  EXPECT_EQ(rig.count("read member/a"), 10u);
}

TEST(Waits, ASearchInAStepIsReadInPartsAsWell) {
  WaitRig rig;
  rig.waiter->parts = 10;
  rig.waiter->well_when_read =
      rig.waiter->well_when_probed = [](Duration since) { return since > 30s; };
  EXPECT_TRUE(rig.up().ok());
  EXPECT_EQ(rig.waiter->read_parts % 10, 0u);
}

}  // namespace
}  // namespace rocca::engine
