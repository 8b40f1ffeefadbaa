#include "engine/execute.hpp"

#include "engine/toy_test_support.hpp"

#include <gmock/gmock.h>

namespace rocca::engine {
namespace {

using toy::busy;
using toy::ends;
using toy::lost;
using toy::resources;
using toy::Rig;
using toy::unreachable;
using toy::Wish;
using toy::wish;
using namespace std::chrono_literals;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;
using End = StepResult::End;

TEST(Execute, RaisesEverythingAndTheSecondPlanIsEmpty) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a"), wish("vm/b"), wish("machine/a", {"vm/a"})});
  const Report report = rig.up();
  EXPECT_TRUE(report.ok());
  EXPECT_THAT(report.changed(), ElementsAre("machine/a", "vm/a", "vm/b"));
  EXPECT_EQ(rig.site.picture(), "machine/a v=1\nvm/a v=1\nvm/b v=1\n");
  const Plan second = rig.plan();
  EXPECT_TRUE(second.empty());
  EXPECT_EQ(second.summary.unchanged, 3u);
  EXPECT_THAT(second.found, IsEmpty());
}

TEST(Execute, RemembersWhatSettledAndHowLongItTook) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a"), wish("machine/a", {"vm/a"})});
  rig.up();
  const state::State kept = rig.store.load().value();
  EXPECT_EQ(kept, rig.state);
  const state::Item& item = kept.items.at("machine/a");
  EXPECT_THAT(item.needs, ElementsAre("vm/a"));
  EXPECT_EQ(item.applied, "v=1;");
  EXPECT_EQ(item.receipt, "");
  EXPECT_TRUE(item.settled.has_value());
  EXPECT_THAT(item.facts, Contains(Pair("id", "machine/a")));
  EXPECT_GE(kept.durations.at("vm/create"), 10s);
  EXPECT_LE(kept.durations.at("vm/create"), 13s);
  rig.desired.wanted = resources({wish("vm/a", {}, {{"v", "2"}}), wish("vm/c")});
  const Plan next = rig.plan();
  ASSERT_EQ(next.steps.size(), 2u);
  EXPECT_EQ(next.steps[1].estimate, kept.durations.at("vm/create"));
}

TEST(Execute, AStepIsDurableBeforeItsDependentsBegin) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a"), wish("machine/a", {"vm/a"})});
  rig.site.on_edge = [&](const std::string& edge) {
    if (edge != "before create machine/a") return;
    EXPECT_TRUE(rig.store.load()->items.at("vm/a").settled.has_value());
  };
  EXPECT_TRUE(rig.up().ok());
}

/// While a write is under way others settle: they are one write, and no call waits for it.
TEST(Execute, WhateverSettlesDuringAWriteIsTheNextWrite) {
  Rig rig{0ms};
  std::vector<Wish> wishes;
  for (int i = 0; i < 50; ++i) wishes.push_back(wish(fmt::format("vm/{:02}", i)));
  rig.desired.wanted = resources(wishes);
  rig.store.before_write = [&] {
    rig.fibers->park([&](std::function<void()> wake) { rig.time.after(1s, std::move(wake)); });
  };
  const Report report = rig.up();
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(rig.store.load()->items.size(), 50u);
  EXPECT_LE(rig.store.writes.size(), 5u) << "100 records one by one would be 100 writes";
  EXPECT_LE(report.took, 20s);
}

TEST(Execute, AFailureIsDataAndSiblingsGoOn) {
  Rig rig;
  Wish bad = wish("vm/bad");
  bad.task_failure = "storage is full";
  rig.desired.wanted =
      resources({bad, wish("machine/bad", {"vm/bad"}), wish("member/bad", {"machine/bad"}),
                 wish("vm/good"), wish("machine/good", {"vm/good"})});
  const Report report = rig.up();
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(ends(report),
              UnorderedElementsAre(Pair("vm/bad", End::Failed), Pair("machine/bad", End::Skipped),
                                   Pair("member/bad", End::Skipped), Pair("vm/good", End::Done),
                                   Pair("machine/good", End::Done)));
  EXPECT_EQ(report.steps.at("member/bad").cause, "vm/bad");
  EXPECT_EQ(report.steps.at("vm/bad").error->render(),
            "error: storage is full\n  while creating vm/bad (cluster.yaml:1:1)\n");
  EXPECT_THAT(rig.told(Event::Kind::Failed), ElementsAre("vm/bad: storage is full"));
  EXPECT_THAT(rig.told(Event::Kind::Skipped),
              UnorderedElementsAre("machine/bad: vm/bad", "member/bad: vm/bad"));

  rig.desired.wanted = resources({wish("vm/bad"), wish("machine/bad", {"vm/bad"}),
                                  wish("member/bad", {"machine/bad"}), wish("vm/good"),
                                  wish("machine/good", {"vm/good"})});
  EXPECT_THAT(rig.up().changed(), ElementsAre("machine/bad", "member/bad", "vm/bad"));
  EXPECT_TRUE(rig.plan().empty());
}

TEST(Execute, ALostAnswerIsFollowedByLookingNotByARepeat) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a")});
  rig.site.faults["create vm/a"] = {lost()};
  EXPECT_TRUE(rig.up().ok());
  EXPECT_EQ(rig.site.done["create vm/a"], 1u);
  EXPECT_GE(rig.count("look for vm/a"), 1u);
}

TEST(Execute, LostReadsAndProbesAreAskedAgain) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a")});
  rig.site.faults["read vm/a"] = {std::nullopt, lost(), lost()};
  rig.site.faults["probe vm/a"] = {lost()};
  EXPECT_TRUE(rig.up().ok());
  EXPECT_EQ(rig.site.done["create vm/a"], 1u);
}

TEST(Execute, BusyAndUnreachableAreTriedAgainWithinPatience) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a")});
  rig.site.faults["create vm/a"] = {busy(), unreachable(), busy()};
  rig.site.faults["probe vm/a"] = {unreachable(), busy()};
  EXPECT_TRUE(rig.up().ok());
  EXPECT_EQ(rig.site.done["create vm/a"], 1u);
  EXPECT_THAT(rig.told(Event::Kind::Waiting), Contains("vm/a: nobody listens"));
}

TEST(Execute, PatienceEnds) {
  for (const std::string call : {"create vm/a", "probe vm/a", "read vm/a"}) {
    Rig rig;
    rig.desired.wanted = resources({wish("vm/a")});
    const Plan plan = rig.plan();
    for (int i = 0; i < 1000; ++i) rig.site.faults[call].push_back(unreachable());
    const Report report = rig.run(plan);
    ASSERT_EQ(report.steps.at("vm/a").end, End::Failed) << call;
    EXPECT_EQ(report.steps.at("vm/a").error->fault(), Fault::Timeout) << call;
    EXPECT_EQ(report.steps.at("vm/a").error->message(), "still waiting after 10m: nobody listens")
        << call;
    EXPECT_GE(report.took, 9min) << call;
    EXPECT_LE(report.took, 12min) << call;
  }
}

TEST(Execute, ATimeoutRepeatsWhatItWaitedFor) {
  Rig rig;
  Wish slow = wish("vm/a");
  slow.takes = 1h;
  slow.patience = 2min;
  rig.desired.wanted = resources({slow});
  const Report report = rig.up();
  EXPECT_EQ(report.steps.at("vm/a").error->fault(), Fault::Timeout);
  EXPECT_EQ(report.steps.at("vm/a").error->message(), "still waiting after 2m: task of vm/a");
  EXPECT_THAT(rig.told(Event::Kind::Waiting), ElementsAre("vm/a: task of vm/a"));
}

TEST(Execute, WhoCannotBeAskedYetSaysWhatItWaitsForAllTheSame) {
  Rig rig;
  Wish slow = wish("vm/a");
  slow.ask_after = 20s;
  rig.desired.wanted = resources({slow});
  ASSERT_TRUE(rig.up().ok());
  EXPECT_THAT(rig.told(Event::Kind::Waiting), ElementsAre("vm/a: vm/a to be made"));
}

TEST(Execute, WhoQueuesForItsActSaysThatItsTurnHasNotCome) {
  Rig rig;
  std::vector<Wish> wishes{wish("vm/a"), wish("vm/b"), wish("vm/c")};
  for (Wish& one : wishes) one.act_lanes = {{"import", 2, Lane::Hold::Act, "2 disks at a time"}};
  rig.desired.wanted = resources(wishes);
  ASSERT_TRUE(rig.up().ok());
  EXPECT_THAT(rig.told(Event::Kind::Waiting),
              ElementsAre("vm/c: its turn: 2 disks at a time", "vm/a: task of vm/a",
                          "vm/b: task of vm/b", "vm/c: task of vm/c"));
}

TEST(Execute, EveryOtherFaultFailsTheStepAtOnce) {
  for (const Fault fault : {Fault::Usage, Fault::NotFound, Fault::Conflict, Fault::Rejected,
                            Fault::Denied, Fault::Refused, Fault::Timeout, Fault::Bug}) {
    Rig rig;
    rig.desired.wanted = resources({wish("vm/a")});
    rig.site.faults["create vm/a"] = {Error(fault, "no")};
    const Report report = rig.up();
    ASSERT_EQ(report.steps.at("vm/a").end, End::Failed);
    EXPECT_EQ(report.steps.at("vm/a").error->fault(), fault);
    EXPECT_EQ(rig.count("create vm/a"), 1u);
  }
}

TEST(Execute, AFieldThatDoesNotStayIsNamed) {
  Rig rig;
  rig.site.things["vm/a"] = {{"cores", "2"}};
  Wish stubborn = wish("vm/a", {}, {{"cores", "4"}});
  stubborn.stubborn = "cores";
  rig.desired.wanted = resources({stubborn});
  const Report report = rig.up();
  EXPECT_EQ(report.steps.at("vm/a").error->message(),
            "'cores' does not stay: it was set to '4' and is '2'");
  EXPECT_EQ(rig.site.done["update vm/a"], 2u);
}

TEST(Execute, AnEffectThatWasNotPlannedIsRefused) {
  Rig rig;
  rig.site.things["vm/a"] = {{"cores", "2"}, {"bios", "ovmf"}};
  Wish vm = wish("vm/a", {}, {{"cores", "4"}, {"bios", "ovmf"}});
  vm.effects["bios"] = Effect::Reboot;
  rig.desired.wanted = resources({vm});
  const Plan plan = rig.plan();
  rig.site.things["vm/a"]["bios"] = "seabios";  // somebody else, meanwhile
  const Report report = rig.run(plan);
  EXPECT_EQ(report.steps.at("vm/a").error->fault(), Fault::Refused);
  EXPECT_THAT(report.steps.at("vm/a").error->message(),
              HasSubstr("the world changed since the plan"));
  EXPECT_EQ(rig.site.done["update vm/a"], 0u);
}

TEST(Execute, WhatBecameRightMeanwhileIsLeftAlone) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a")});
  const Plan plan = rig.plan();
  rig.site.things["vm/a"] = {{"v", "1"}};
  const Report report = rig.run(plan);
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.steps.at("vm/a").end, End::Unchanged);
  EXPECT_THAT(rig.store.load()->items, Contains(testing::Key("vm/a")));
}

TEST(Execute, RefusedStepsFailWithoutACall) {
  Rig rig;
  Wish refused = wish("vm/a");
  refused.refusal = "a foreign VM has this id";
  rig.desired.wanted = resources({refused, wish("machine/a", {"vm/a"})});
  const Plan plan = rig.plan();
  EXPECT_EQ(plan.summary.refused, 1u);
  rig.site.log.clear();
  const Report report = rig.run(plan);
  EXPECT_EQ(report.steps.at("vm/a").error->message(), "a foreign VM has this id");
  EXPECT_EQ(report.steps.at("machine/a").end, End::Skipped);
  EXPECT_THAT(rig.site.log, IsEmpty());
}

TEST(Execute, TakesLeftoversAwayAndForgetsThem) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a"), wish("machine/a", {"vm/a"})});
  rig.up();
  rig.desired.leftover = std::exchange(rig.desired.wanted, {});
  PlanOptions allowed;
  allowed.policy.allowed.insert(Effect::DataLoss);
  rig.options.policy = allowed.policy;
  const Plan plan = rig.plan(allowed);
  EXPECT_EQ(plan.summary.destroy, 2u);
  EXPECT_EQ(plan.effect, Effect::DataLoss);
  EXPECT_TRUE(rig.run(plan).ok());
  EXPECT_THAT(rig.site.things, IsEmpty());
  EXPECT_THAT(rig.store.load()->items, IsEmpty());
  const auto at = [&](const std::string& call) {
    return std::find(rig.site.log.begin(), rig.site.log.end(), call) - rig.site.log.begin();
  };
  EXPECT_LT(at("destroy machine/a"), at("destroy vm/a"));
}

TEST(Execute, ALeftoverThatIsGoneAlreadyIsForgotten) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a")});
  rig.up();
  rig.site.things.clear();
  rig.desired.leftover = std::exchange(rig.desired.wanted, {});
  const Plan plan = rig.plan();
  EXPECT_TRUE(plan.empty());
  EXPECT_TRUE(rig.run(plan).ok());
  EXPECT_THAT(rig.store.load()->items, IsEmpty());
}

TEST(Execute, AReplacementIsDestroyedAndMadeAnewAndSoIsWhatStandsOnIt) {
  Rig rig;
  rig.desired.wanted =
      resources({wish("vm/a", {}, {{"disk", "lvm"}}), wish("machine/a", {"vm/a"})});
  rig.up();
  Wish vm = wish("vm/a", {}, {{"disk", "zfs"}});
  vm.replace_on = {"disk"};
  vm.effects["disk"] = Effect::Replace;
  Wish machine = wish("machine/a", {"vm/a"});
  machine.goes_with_needs = true;
  rig.desired.wanted = resources({vm, machine});
  PlanOptions allowed;
  allowed.policy.allowed.insert(Effect::Replace);
  rig.options.policy = allowed.policy;
  const Plan plan = rig.plan(allowed);
  ASSERT_EQ(plan.steps.size(), 2u);
  EXPECT_EQ(plan.steps[1].change.action, Action::Replace);
  EXPECT_EQ(plan.steps[1].change.reason, "goes with vm/a, which is replaced");
  rig.site.on_edge = [&](const std::string& edge) {
    if (edge == "after destroy vm/a") rig.site.things.erase("machine/a");
  };
  EXPECT_THAT(rig.run(plan).changed(), ElementsAre("machine/a", "vm/a"));
  EXPECT_EQ(rig.site.done["destroy vm/a"], 1u);
  EXPECT_EQ(rig.site.done["create vm/a"], 2u);
  EXPECT_EQ(rig.site.done["create machine/a"], 2u);
  EXPECT_TRUE(rig.plan().empty());
}

TEST(Execute, WhatStandsBehindAChangeIsLookedAtAgain) {
  Rig rig;
  rig.desired.wanted =
      resources({wish("vm/a", {}, {{"cores", "2"}}), wish("machine/a", {"vm/a"}), wish("vm/b")});
  rig.up();
  rig.desired.wanted =
      resources({wish("vm/a", {}, {{"cores", "4"}}), wish("machine/a", {"vm/a"}), wish("vm/b")});
  const Plan plan = rig.plan();
  ASSERT_EQ(plan.steps.size(), 1u);
  rig.site.on_edge = [&](const std::string& edge) {
    if (edge == "after update vm/a") rig.site.things["machine/a"]["v"] = "broken by it";
  };
  rig.site.log.clear();
  EXPECT_THAT(rig.run(plan).changed(), ElementsAre("machine/a", "vm/a"));
  EXPECT_EQ(rig.count("read vm/b"), 0u) << "it needs nothing that changed";
  EXPECT_TRUE(rig.plan().empty());
}

TEST(Execute, AFollowingChangeMayNotCostMoreThanWhatItFollows) {
  Rig rig;
  Wish machine = wish("machine/a", {"vm/a"});
  machine.effects["v"] = Effect::Reboot;
  rig.desired.wanted = resources({wish("vm/a", {}, {{"cores", "2"}}), machine});
  rig.up();
  rig.desired.wanted = resources({wish("vm/a", {}, {{"cores", "4"}}), machine});
  const Plan plan = rig.plan();
  rig.site.on_edge = [&](const std::string& edge) {
    if (edge == "after update vm/a") rig.site.things["machine/a"]["v"] = "broken by it";
  };
  const Report report = rig.run(plan);
  EXPECT_EQ(report.steps.at("machine/a").error->fault(), Fault::Refused);
}

TEST(Execute, TargetsPullInWhatTheyNeedAndTouchNothingElse) {
  Rig rig;
  rig.desired.wanted = resources(
      {wish("vm/a"), wish("machine/a", {"vm/a"}), wish("member/a", {"machine/a"}), wish("vm/b")});
  const Report report = rig.up({{}, {"machine/a"}});
  EXPECT_THAT(report.changed(), ElementsAre("machine/a", "vm/a"));
  EXPECT_EQ(rig.site.picture(), "machine/a v=1\nvm/a v=1\n");
}

TEST(Execute, APlanThatCouldNotReadSomethingFailsThatAndGoesOn) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a"), wish("machine/a", {"vm/a"}), wish("vm/b")});
  for (int i = 0; i < 3; ++i) rig.site.faults["read vm/a"].push_back(unreachable());
  const Plan plan = rig.plan();
  EXPECT_FALSE(plan.empty());
  EXPECT_THAT(plan.failed.at("vm/a"), HasSubstr("nobody listens"));
  const Report report = rig.run(plan);
  EXPECT_THAT(ends(report),
              UnorderedElementsAre(Pair("vm/a", End::Failed), Pair("machine/a", End::Skipped),
                                   Pair("vm/b", End::Done)));
  EXPECT_EQ(report.steps.at("vm/a").error->fault(), Fault::Unreachable);
}

TEST(Execute, WhatStandsBehindAnUnreadThingKeepsNobody) {
  Rig rig;
  const std::vector<Wish> there{wish("vm/a"), wish("machine/a", {"vm/a"}),
                                wish("bootstrap/toy", {"machine/a"})};
  rig.desired.wanted = resources(there);
  ASSERT_TRUE(rig.up().ok());
  std::vector<Wish> more = there;
  more[1] = wish("machine/a", {"vm/a"}, {{"v", "2"}});
  more.push_back(wish("member/b", {"bootstrap/toy"}));
  rig.desired.wanted = resources(more);
  for (int i = 0; i < 3; ++i) rig.site.faults["read vm/a"].push_back(unreachable());
  const Report report = rig.run(rig.plan());
  EXPECT_THAT(ends(report),
              UnorderedElementsAre(Pair("vm/a", End::Failed), Pair("machine/a", End::Skipped),
                                   Pair("member/b", End::Done)));
  EXPECT_EQ(report.steps.at("vm/a").error->trail().size(), 1u) << "said once";
}

TEST(Execute, AStateThatWasLostComesBack) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a"), wish("machine/a", {"vm/a"})});
  rig.up();
  state::State before = rig.state;
  rig.store.replace({});
  const Plan plan = rig.plan();
  EXPECT_TRUE(plan.empty());
  EXPECT_TRUE(rig.run(plan).ok());
  const state::State after = rig.store.load().value();
  ASSERT_EQ(after.items.size(), 2u);
  EXPECT_EQ(after.items.at("machine/a").facts, before.items.at("machine/a").facts);
  EXPECT_EQ(after.items.at("machine/a").needs, before.items.at("machine/a").needs);
}

TEST(Execute, ThatItWasBootstrappedIsWrittenWithTheStepThatDidIt) {
  Rig rig;
  Wish bootstrap = wish("bootstrap/etcd");
  bootstrap.bootstraps = true;
  bootstrap.announces = true;
  rig.desired.wanted = resources({bootstrap});
  rig.site.on_edge = [&](const std::string& edge) {
    if (edge != "before create bootstrap/etcd") return;
    EXPECT_EQ(rig.store.load()->items.at("bootstrap/etcd").receipt, "?") << "announced";
    EXPECT_FALSE(rig.store.load()->bootstrapped.has_value());
  };
  EXPECT_TRUE(rig.up().ok());
  EXPECT_TRUE(rig.store.load()->bootstrapped.has_value());
  EXPECT_TRUE(rig.store.load()->items.at("bootstrap/etcd").settled.has_value());
  rig.site.on_edge = {};
  rig.store.replace({});
  EXPECT_TRUE(rig.up().ok());
  EXPECT_TRUE(rig.store.load()->bootstrapped.has_value()) << "found again";
}

TEST(Execute, AReceiptOfAnEarlierRunIsAskedAfterFirst) {
  Rig rig;
  rig.desired.wanted = resources({wish("vm/a")});
  state::Record record;
  record.kind = state::Record::Kind::Begun;
  record.name = "vm/a";
  record.item.receipt = rig.site.begin("vm/a", 1min, "", [&] {
    rig.site.things["vm/a"] = {{"v", "1"}};
  });
  rig.store.append({&record, 1});
  const Report report = rig.up();
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(rig.site.done["create vm/a"], 0u);
  EXPECT_GE(report.took, 1min);
  EXPECT_EQ(rig.store.load()->items.at("vm/a").receipt, "");
}

TEST(Execute, AReceiptThatNobodyKnowsAnyMoreIsNoError) {
  for (const std::string receipt : {"task-77", "?", "!"}) {
    Rig rig;
    rig.site.things["vm/a"] = {{"v", "1"}};
    rig.desired.wanted = resources({wish("vm/a")});
    state::Record record;
    record.kind = state::Record::Kind::Begun;
    record.name = "vm/a";
    record.item.receipt = receipt;
    rig.store.append({&record, 1});
    EXPECT_FALSE(rig.plan().empty()) << "its act may still be under way";
    EXPECT_TRUE(rig.up().ok());
    EXPECT_TRUE(rig.plan().empty());
  }
}

}  // namespace
}  // namespace rocca::engine
