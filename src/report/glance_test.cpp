#include "report/glance.hpp"

#include "report/plan.hpp"
#include "report/test_plans.hpp"
#include "support/golden.hpp"
#include "support/json_schema.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::report {
namespace {

using engine::Action;
using engine::Effect;
using resources::ClusterOverview;
using resources::NodeOverview;
using test::planned;

NodeOverview node(const std::string& name, unsigned number) {
  return {.name = name,
          .control_plane = name.starts_with("cp"),
          .vmid = 300 + number,
          .host = "atlas",
          .address = fmt::format("10.0.0.{}", 11 + number),
          .cores = 4,
          .memory = Bytes::gib(8),
          .disks = {{"system", Bytes::gib(20), "local-lvm"}, {"data", Bytes::gib(100), "tank"}},
          .macs = {fmt::format("F2:1F:0D:04:8A:{:02X}", number)}};
}

ClusterOverview cluster(unsigned workers) {
  ClusterOverview out{
      .cluster = "blue", .talos = "v1.11.5", .kubernetes = "v1.34.1", .vip = "10.0.0.20"};
  unsigned number = 0;
  for (const char* name : {"cp-1", "cp-2", "cp-3"}) out.nodes.push_back(node(name, number++));
  for (unsigned i = 1; i <= workers; ++i)
    out.nodes.push_back(node(fmt::format("worker-{}", i), number++));
  return out;
}

void create(engine::Plan& plan, const std::string& name) {
  plan.steps.push_back(
      planned("vm/" + name, Action::Create, "no VM carries the mark blue/" + name));
  plan.steps.push_back(planned("machine/" + name, Action::Create, "it has no configuration yet"));
  plan.steps.push_back(
      planned("member/" + name, Action::Create, "the machine has no configuration yet"));
}

engine::Plan empty_plan() {
  engine::Plan plan;
  plan.cluster = "blue";
  return plan;
}

void expect(const std::string& name, const engine::Plan& plan, const ClusterOverview& overview) {
  for (const std::size_t width : {80U, 120U})
    rocca::test::expect_golden(fmt::format("report/glance_{}_{}.txt", name, width),
                               render_glance(plan, overview, {.width = width}));
}

TEST(Glance, AFreshClusterIsATableWithTotals) {
  engine::Plan plan = empty_plan();
  for (const char* host : {"atlas", "rhea"})
    plan.steps.push_back(planned(fmt::format("image/local@{}/talos.qcow2", host), Action::Create,
                                 "it is not on the storage"));
  const ClusterOverview overview = cluster(2);
  for (const NodeOverview& one : overview.nodes) create(plan, one.name);
  plan.steps.push_back(planned("bootstrap/blue", Action::Create, "etcd has not started"));
  plan.steps.push_back(planned("vip/blue", Action::Create, "no node holds it"));
  plan.steps.push_back(planned("access/blue", Action::Create,
                               "configs/kubeconfig and configs/talosconfig do not exist"));
  plan.steps.push_back(planned("addon/cilium", Action::Create, "it is not installed"));
  plan.estimate = std::chrono::seconds{121};
  plan.effect = Effect::Live;
  expect("fresh", plan, overview);
}

TEST(Glance, OneWorkerMoreIsOneRow) {
  engine::Plan plan = empty_plan();
  create(plan, "worker-3");
  plan.summary.unchanged = 24;
  plan.effect = Effect::Live;
  expect("one_worker_more", plan, cluster(3));
}

TEST(Glance, AlikeChangesAreOneLineForAllTheirNodes) {
  engine::Plan plan = empty_plan();
  for (const char* name : {"cp-1", "worker-1", "worker-2", "worker-3", "worker-4"}) {
    engine::Planned step =
        planned(std::string{"vm/"} + name, Action::Update, "its VM differs from the spec");
    step.place = "cluster.yaml:23:5";
    step.id = "104 on atlas";
    step.change.effect = Effect::PowerCycle;
    step.change.fields = {{"memory", "8192", "12288", Effect::PowerCycle}};
    step.change.refusal = "needs power-cycle";
    step.change.hint = "--allow power-cycle";
    plan.steps.push_back(step);
    engine::Planned label =
        planned(std::string{"machine/"} + name, Action::Update, "its configuration differs");
    label.change.fields = {{"label zone", "", "attic", Effect::Live}};
    if (name != std::string{"cp-1"}) plan.steps.push_back(label);
  }
  plan.summary.refused = 5;
  plan.effect = Effect::PowerCycle;
  expect("memory_of_a_pool", plan, cluster(4));
}

TEST(Glance, ASilentNodeIsOneLine) {
  engine::Plan plan = empty_plan();
  for (const char* kind : {"machine/worker-2", "member/worker-2", "prepared/worker-2"})
    plan.failed[kind] = "10.0.0.15:50000 does not answer";
  plan.summary.unchanged = 21;
  expect("silent_node", plan, cluster(2));
}

TEST(Glance, ADestroyNamesIdsAndDisksOnce) {
  engine::Plan plan = empty_plan();
  const ClusterOverview overview = cluster(1);
  for (const NodeOverview& one : overview.nodes)
    plan.steps.push_back(planned("vm/" + one.name, Action::Destroy, "the cluster is destroyed"));
  engine::Planned orphan = planned("vm/worker-9", Action::Destroy, "the spec no longer names it");
  orphan.id = "309 on rhea";
  plan.steps.push_back(orphan);
  plan.effect = Effect::DataLoss;
  expect("destroy", plan, overview);
}

TEST(Glance, ARefusedChangeIsSaidOnceWithItsFlag) {
  engine::Plan plan = empty_plan();
  engine::Planned firmware = planned("vm/cp-1", Action::Replace, "firmware cannot be changed");
  firmware.change.effect = Effect::DataLoss;
  firmware.change.fields = {{"firmware", "seabios", "ovmf", Effect::DataLoss}};
  firmware.change.refusal = "needs data-loss";
  firmware.change.hint = "--allow data-loss";
  plan.steps.push_back(firmware);
  plan.summary.refused = 1;
  plan.effect = Effect::DataLoss;
  expect("refused", plan, cluster(1));
}

TEST(Glance, AnEmptyPlanIsOneSentence) {
  engine::Plan plan = empty_plan();
  plan.summary.unchanged = 31;
  EXPECT_EQ(render_glance(plan, cluster(2)),
            "No changes. Cluster blue matches its spec (31 resources checked).\n");
}

TEST(Glance, NoLineIsWiderThanTheTerminalExceptOneThatCannotBreak) {
  engine::Plan plan = empty_plan();
  const ClusterOverview overview = cluster(40);
  for (const NodeOverview& one : overview.nodes) create(plan, one.name);
  const std::string text = render_glance(plan, overview, {.width = 80});
  std::size_t start = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos;
       start = end + 1, end = text.find('\n', start))
    EXPECT_LE(columns(text.substr(start, end - start)), 80U) << text.substr(start, end - start);
}

TEST(Glance, FieldsOfAForeignSystemCannotSteerTheTerminal) {
  engine::Plan plan = empty_plan();
  engine::Planned step = planned("vm/worker-1", Action::Update, "its VM differs");
  step.change.fields = {{"tags", "a\x1b[2Jb", "x\ny", Effect::Live}};
  plan.steps.push_back(step);
  const std::string text = render_glance(plan, cluster(1));
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("x\ny")));
}

TEST(PlanJson, NodesCarryEveryDesiredField) {
  const text::Value value = to_value(test::mixed_plan(), cluster(1));
  EXPECT_EQ(rocca::test::misfit(value, plan_schema()), "");
  const text::Value* first = &value.find("nodes")->items().front();
  EXPECT_EQ(first->find("vmid")->as_uint(), 300U);
  EXPECT_EQ(first->find("memoryBytes")->as_uint(), Bytes::gib(8).count());
  EXPECT_EQ(*first->find("macs")->items().front().as_string(), "F2:1F:0D:04:8A:00");
  EXPECT_EQ(first->find("disks")->items().size(), 2U);
}

}  // namespace
}  // namespace rocca::report
