#include "engine/plan.hpp"

#include "engine/toy_test_support.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace rocca::engine {
namespace {

using toy::resources;
using toy::Wish;
using toy::wish;
using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Everything as it was asked for.
Observed as_wanted(const Desired& desired) {
  Observed observed;
  for (const auto& [address, resource] : desired.wanted)
    observed.live[address] = Live{"id", {{"v", "1"}}, {}};
  for (const auto& [address, resource] : desired.leftover)
    observed.live[address] = Live{"id", {{"v", "1"}}, {}};
  return observed;
}

Observed nothing_of(const Desired& desired) {
  Observed observed;
  for (const auto& [address, resource] : desired.wanted) observed.live[address] = std::nullopt;
  for (const auto& [address, resource] : desired.leftover) observed.live[address] = std::nullopt;
  return observed;
}

Plan plan_of(const Desired& desired, const Observed& observed, const state::State& prior = {},
             const PlanOptions& options = {}) {
  return plan(desired, build(desired, prior), observed, prior, "toy", options);
}

std::vector<std::string> addresses(const Plan& plan) {
  std::vector<std::string> names;
  for (const Planned& step : plan.steps) names.push_back(step.address);
  return names;
}

bool comes_after(const graph::Graph& graph, const std::string& later, const std::string& earlier) {
  return graph.all_needed_by(later).contains(earlier);
}

// ---- build

TEST(Build, LeftoversGoInTheOppositeOrderOfMaking) {
  Desired desired;
  desired.leftover = resources({wish("vm/old"), wish("machine/old"), wish("member/old")});
  state::State prior;
  prior.items["machine/old"].needs = {"vm/old"};
  prior.items["member/old"].needs = {"machine/old", "bootstrap/etcd"};
  const graph::Graph graph = build(desired, prior);
  EXPECT_THAT(graph.order(), ElementsAre("member/old", "machine/old", "vm/old"));
}

TEST(Build, AVmGoesAfterItsMachineAlsoWhenNothingIsRemembered) {
  Desired desired;
  desired.leftover = resources({wish("vm/old"), wish("machine/old")});
  EXPECT_TRUE(comes_after(build(desired, {}), "vm/old", "machine/old"));
}

TEST(Build, AnImageGoesAfterEveryVmThatMayBeMadeFromIt) {
  Desired desired;
  desired.wanted = resources({wish("image/new"), wish("vm/a", {"image/new"})});
  desired.leftover = resources({wish("image/old"), wish("vm/old")});
  const graph::Graph graph = build(desired, {});
  EXPECT_TRUE(comes_after(graph, "image/old", "vm/a"));
  EXPECT_TRUE(comes_after(graph, "image/old", "vm/old"));
}

TEST(Build, ALeftoverMakesRoomForWhoClaimsItsPlace) {
  Desired desired;
  Wish vm = wish("vm/new");
  vm.claims = {{"vmid", "104"}};
  desired.wanted = resources({vm, wish("vm/other")});
  desired.leftover = resources({wish("vm/old"), wish("vm/older")});
  state::State prior;
  prior.items["vm/old"].facts = {{"vmid", "104"}};
  prior.items["vm/older"].facts = {{"vmid", "105"}};
  const graph::Graph graph = build(desired, prior);
  EXPECT_TRUE(comes_after(graph, "vm/new", "vm/old"));
  EXPECT_FALSE(comes_after(graph, "vm/new", "vm/older"));
  EXPECT_FALSE(comes_after(graph, "vm/other", "vm/old"));
}

TEST(Build, NamesWhatCannotBe) {
  const auto message = [](const Desired& desired) {
    try {
      build(desired, {});
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Bug);
      return error.message();
    }
    return std::string{"no error"};
  };
  Desired cycle;
  cycle.wanted = resources({wish("a/1", {"b/1"}), wish("b/1", {"c/1"}), wish("c/1", {"a/1"})});
  EXPECT_THAT(message(cycle), HasSubstr("a/1 → b/1 → c/1 → a/1"));
  Desired missing;
  missing.wanted = resources({wish("a/1", {"b/1"})});
  EXPECT_EQ(message(missing), "a/1 needs b/1, which nobody wants");
  Desired both;
  both.wanted = both.leftover = resources({wish("a/1")});
  EXPECT_EQ(message(both), "a/1 is wanted and left over at once");
}

// ---- plan

TEST(Plan, SaysWhyAndWhatForAndInWhichOrder) {
  Desired desired;
  desired.wanted = resources(
      {wish("vm/a"), wish("machine/a", {"vm/a"}), wish("zz/first"), wish("vm/b", {"zz/first"})});
  Observed observed = nothing_of(desired);
  observed.live["vm/b"] = Live{"id", {{"v", "0"}}, {}};
  observed.live["zz/first"] = Live{"id", {{"v", "1"}}, {}};
  const Plan plan = plan_of(desired, observed);
  EXPECT_THAT(addresses(plan), ElementsAre("vm/a", "machine/a", "vm/b"));
  EXPECT_EQ(plan.steps[0].change.action, Action::Create);
  EXPECT_EQ(plan.steps[0].change.reason, "is not there");
  EXPECT_EQ(plan.steps[0].place, "cluster.yaml:1:1");
  EXPECT_THAT(plan.steps[1].needs, ElementsAre("vm/a"));
  EXPECT_EQ(plan.steps[2].change.action, Action::Update);
  EXPECT_THAT(plan.steps[2].change.fields, ElementsAre(FieldChange{"v", "0", "1", Effect::Live}));
  EXPECT_THAT(plan.steps[2].needs, IsEmpty()) << "what it needs does not change";
  EXPECT_EQ(plan.summary.create, 2u);
  EXPECT_EQ(plan.summary.update, 1u);
  EXPECT_EQ(plan.summary.unchanged, 1u);
  EXPECT_EQ(plan.effect, Effect::Live);
}

TEST(Plan, WaitsAlsoThroughThingsThatStayAsTheyAre) {
  Desired desired;
  desired.wanted = resources({wish("a/1"), wish("b/1", {"a/1"}), wish("c/1", {"b/1"})});
  Observed observed = nothing_of(desired);
  observed.live["b/1"] = Live{"id", {{"v", "1"}}, {}};
  const Plan plan = plan_of(desired, observed);
  ASSERT_THAT(addresses(plan), ElementsAre("a/1", "c/1"));
  EXPECT_THAT(plan.steps[1].needs, ElementsAre("a/1"));
}

TEST(Plan, AClassThatIsNotAllowedIsRefusedWithTheFlagThatAllowsIt) {
  Desired desired;
  Wish vm = wish("vm/a");
  vm.effects["v"] = Effect::PowerCycle;
  desired.wanted = resources({vm});
  Observed observed = as_wanted(desired);
  observed.live["vm/a"]->fields["v"] = "0";
  const Plan refused = plan_of(desired, observed);
  ASSERT_EQ(refused.steps.size(), 1u);
  EXPECT_THAT(refused.steps[0].change.refusal, HasSubstr("--allow"));
  EXPECT_EQ(refused.summary.refused, 1u);
  EXPECT_EQ(refused.summary.update, 0u);
  PlanOptions options;
  options.policy.allowed.insert(Effect::PowerCycle);
  EXPECT_EQ(plan_of(desired, observed, {}, options).steps[0].change.refusal, "");
}

TEST(Plan, TargetsBringAllTheyNeedAndKeepTheirGuards) {
  Desired desired;
  Wish vm = wish("vm/a");
  vm.effects["v"] = Effect::DataLoss;
  desired.wanted = resources({vm, wish("machine/a", {"vm/a"}), wish("vm/b")});
  Observed observed = nothing_of(desired);
  observed.live["vm/a"] = Live{"id", {{"v", "0"}}, {}};
  PlanOptions options;
  options.targets = {"machine/a"};
  const Plan plan = plan_of(desired, observed, {}, options);
  EXPECT_THAT(addresses(plan), ElementsAre("vm/a", "machine/a"));
  EXPECT_NE(plan.steps[0].change.refusal, "");
  options.targets = {"vm/nobody"};
  EXPECT_THROW(plan_of(desired, observed, {}, options), Error);
}

TEST(Plan, WhatIsLeftOverIsDestroyedIfItIsThere) {
  Desired desired;
  desired.leftover = resources({wish("vm/old"), wish("vm/gone")});
  Observed observed = as_wanted(desired);
  observed.live["vm/gone"] = std::nullopt;
  state::State prior;
  prior.items["vm/gone"].facts = {{"vmid", "1"}};
  const Plan plan = plan_of(desired, observed, prior);
  ASSERT_THAT(addresses(plan), ElementsAre("vm/old"));
  EXPECT_EQ(plan.steps[0].change.action, Action::Destroy);
  EXPECT_EQ(plan.effect, Effect::DataLoss);
  ASSERT_EQ(plan.found.size(), 1u);
  EXPECT_EQ(plan.found[0].kind, state::Record::Kind::Gone);
}

TEST(Plan, EstimatesAlongTheCriticalPathOnceItHasHistory) {
  Desired desired;
  desired.wanted = resources({wish("vm/a"), wish("machine/a", {"vm/a"}), wish("vm/b")});
  const Observed observed = nothing_of(desired);
  state::State prior;
  prior.durations = {{"vm/create", 40s}};
  EXPECT_EQ(plan_of(desired, observed, prior).estimate, std::nullopt);
  EXPECT_EQ(plan_of(desired, observed, prior).steps[0].estimate, 40s);
  prior.durations["machine/create"] = 2min;
  EXPECT_EQ(plan_of(desired, observed, prior).estimate, 160s);
}

TEST(Plan, IsBoundToWhatWasWantedAndSeen) {
  Desired desired;
  desired.wanted = resources({wish("vm/a"), wish("vm/b")});
  const Observed observed = nothing_of(desired);
  const std::string bound = plan_of(desired, observed).bound_to;
  EXPECT_EQ(bound.size(), 64u);
  EXPECT_EQ(plan_of(desired, observed).bound_to, bound);

  Observed seen_other = observed;
  seen_other.live["vm/a"] = Live{"id", {{"v", "1"}}, {}};
  EXPECT_NE(plan_of(desired, seen_other).bound_to, bound);
  Observed moved = seen_other;
  moved.live["vm/a"]->facts["host"] = "elsewhere";
  EXPECT_EQ(plan_of(desired, moved).bound_to, plan_of(desired, seen_other).bound_to)
      << "HA may move a VM";

  Desired other = desired;
  other.wanted = resources({wish("vm/a"), wish("vm/b", {}, {{"v", "2"}})});
  EXPECT_NE(plan_of(other, observed).bound_to, bound);
  PlanOptions targeted;
  targeted.targets = {"vm/a"};
  EXPECT_NE(plan_of(desired, observed, {}, targeted).bound_to, bound);
  EXPECT_NE(plan(desired, build(desired, {}), observed, {}, "blue", {}).bound_to, bound);
}

TEST(Plan, WhatIsThereAndNotRememberedIsFound) {
  Desired desired;
  desired.wanted = resources({wish("vm/a"), wish("machine/a", {"vm/a"})});
  const Observed observed = as_wanted(desired);
  const Plan plan = plan_of(desired, observed);
  EXPECT_TRUE(plan.empty());
  ASSERT_EQ(plan.found.size(), 2u);
  state::State state;
  for (const state::Record& record : plan.found) state::apply(state, record);
  EXPECT_THAT(state.items.at("machine/a").needs, ElementsAre("vm/a"));
  EXPECT_THAT(plan_of(desired, observed, state).found, IsEmpty());
}

TEST(Actions, HaveTheSignsThatPeopleKnow) {
  EXPECT_STREQ(sign_of(Action::Create), "+");
  EXPECT_STREQ(sign_of(Action::Update), "~");
  EXPECT_STREQ(sign_of(Action::Replace), "-/+");
  EXPECT_STREQ(sign_of(Action::Destroy), "-");
  EXPECT_STREQ(sign_of(Action::None), " ");
  EXPECT_STREQ(to_string(Action::Replace), "replace");
  EXPECT_STREQ(to_string(Event::Kind::Acted), "acted");
  EXPECT_EQ(kind_of("vm/cp-1"), "vm");
}

/// Every plan that a random world gives respects every arrow, and its counts add up.
RC_GTEST_PROP(PlanProperty, StepsComeAfterWhatTheyNeed, ()) {
  const auto count = *rc::gen::inRange(1, 20);
  std::vector<Wish> wishes;
  Desired desired;
  Observed observed;
  for (int i = 0; i < count; ++i) {
    Wish one = wish(fmt::format("k{}/{:02}", i % 3, i));
    for (const Wish& other : wishes)
      if (*rc::gen::inRange(0, 5) == 0) one.needs.push_back(other.address);
    const int kind = *rc::gen::inRange(0, 3);
    if (kind == 0) observed.live[one.address] = std::nullopt;
    if (kind > 0) observed.live[one.address] = Live{"id", {{"v", kind == 1 ? "1" : "0"}}, {}};
    wishes.push_back(one);
  }
  desired.wanted = resources(wishes);
  const graph::Graph graph = build(desired, {});
  const Plan made = plan(desired, graph, observed, {}, "toy", {});
  std::set<std::string> before;
  for (const Planned& step : made.steps) {
    for (const std::string& needed : step.needs) RC_ASSERT(before.contains(needed));
    before.insert(step.address);
  }
  RC_ASSERT(made.summary.create + made.summary.update + made.summary.unchanged ==
            static_cast<unsigned>(count));
  RC_ASSERT(made.summary.create + made.summary.update == made.steps.size());
}

}  // namespace
}  // namespace rocca::engine
