#include "report/plan.hpp"

#include "base/error.hpp"
#include "report/test_plans.hpp"
#include "support/golden.hpp"
#include "support/json_schema.hpp"
#include "text/json.hpp"

#include <gmock/gmock.h>

namespace rocca::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using text::Value;

TEST(PlanText, ShowsEveryChangeWithItsReasonAndCost) {
  rocca::test::expect_golden("report/plan.txt", render(test::mixed_plan(), {.width = 80}));
}

TEST(PlanText, AnEmptyPlanIsOneSentence) {
  engine::Plan plan;
  plan.cluster = "blue";
  plan.summary.unchanged = 17;
  EXPECT_EQ(render(plan), "No changes. Cluster blue matches its spec (17 resources checked).\n");
}

TEST(PlanText, ANoticeStandsBeforeTheSteps) {
  engine::Plan plan = test::mixed_plan();
  plan.notice = "The teardown of blue was interrupted.";
  EXPECT_TRUE(render(plan).starts_with("The teardown of blue was interrupted.\n\n"))
      << render(plan);
  EXPECT_EQ(*to_value(plan).find("notice")->as_string(), plan.notice);
  EXPECT_EQ(rocca::test::misfit(to_value(plan), plan_schema()), "");
}

TEST(PlanText, WhatCouldNotBeReadIsNoEmptyPlan) {
  engine::Plan plan;
  plan.cluster = "blue";
  plan.failed["vm/cp-1"] = "no answer from pve.home:8006";
  EXPECT_THAT(render(plan), HasSubstr("? vm/cp-1\n      it could not be read: no answer"));
  EXPECT_THAT(render(plan), HasSubstr("0 unchanged; 1 could not be read.\n"));
  EXPECT_EQ(to_value(plan).find({"summary", "unread"})->as_uint(), 1u);
}

TEST(PlanJson, FitsThePublishedSchema) {
  const Value schema = plan_schema();
  engine::Plan plan = test::mixed_plan();
  plan.failed["vm/cp-2"] = "no answer";
  EXPECT_EQ(rocca::test::misfit(to_value(plan), schema), "");
  EXPECT_EQ(rocca::test::misfit(to_value(engine::Plan{}), schema), "");
  engine::Plan keeps;
  keeps.kept["image/local@pve1/talos.qcow2"] = "somebody else needs it";
  EXPECT_EQ(rocca::test::misfit(to_value(keeps), schema), "");
  EXPECT_EQ(render(keeps, {.width = 80}),
            "  = image/local@pve1/talos.qcow2  keep\n"
            "      because somebody else needs it\n"
            "No changes. Cluster  matches its spec (0 resources checked).\n");
}

TEST(PlanJson, TheSchemaNoticesAStrangeKey) {
  const Value schema = plan_schema();
  Value value = to_value(test::mixed_plan());
  value.set("colour", Value::string("red"));
  EXPECT_EQ(rocca::test::misfit(value, schema), "it.colour is not in the schema");
}

TEST(PlanFile, IsReadBack) {
  const PlanFile head{.cluster = "blue",
                      .rocca = "0.1.0",
                      .made = "2026-11-16T03:04:05Z",
                      .targets = {"vm/cp-1"},
                      .allowed = {"live", "reboot"}};
  const PlanFile back = read_plan_file(plan_file(test::mixed_plan(), head), "p.json");
  EXPECT_EQ(back.cluster, "blue");
  EXPECT_EQ(back.bound_to, "sha256:0123");
  EXPECT_EQ(back.made, head.made);
  EXPECT_THAT(back.targets, ElementsAre("vm/cp-1"));
  EXPECT_THAT(back.allowed, ElementsAre("live", "reboot"));
}

Fault fault_of(const std::string& text) {
  try {
    read_plan_file(text, "p.json");
  } catch (const Error& error) {
    return error.fault();
  }
  return Fault::Bug;
}

TEST(PlanFile, OtherFilesAreRefusedByName) {
  EXPECT_EQ(fault_of("{"), Fault::Usage);
  EXPECT_EQ(fault_of("{}"), Fault::Usage);
  EXPECT_EQ(fault_of(R"({"kind": "terraform plan"})"), Fault::Usage);
  EXPECT_EQ(fault_of(R"({"kind": "rocca plan", "format": 99, "rocca": "9.0.0"})"), Fault::Refused);
}

}  // namespace
}  // namespace rocca::report
