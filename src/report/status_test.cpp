#include "report/status.hpp"

#include "support/golden.hpp"

#include <gmock/gmock.h>

namespace rocca::report {
namespace {

using resources::Drift;
using std::chrono::hours;
using std::chrono::seconds;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr Instant now{seconds{1'763'500'000}};

resources::ClusterStatus three_nodes() {
  resources::ClusterStatus status;
  status.cluster = "blue";
  for (const std::string name : {"cp-1", "cp-2", "worker-1"}) {
    resources::NodeStatus node;
    node.name = name;
    node.role = name == "worker-1" ? "worker" : "controlplane";
    node.machine = "VM 10" + name.substr(name.size() - 1) + " on pve1";
    node.power = "running";
    node.address = "10.0.0.1" + name.substr(name.size() - 1);
    node.talos = "v1.11.5";
    node.kubernetes = name == "worker-1" ? "" : "v1.34.1";
    node.stage = "running";
    node.healthy = true;
    if (name != "worker-1") node.etcd = name == "cp-1" ? "leader" : "member";
    status.nodes.push_back(node);
  }
  status.nodes[0].has_vip = true;
  status.nodes[2].healthy = false;
  status.nodes[2].stage = "no answer";
  status.nodes[2].problem = "nothing answers at 10.0.0.11:50000 for 3m";
  status.vip = "10.0.0.20";
  status.vip_owner = "cp-1";
  status.etcd = "2 members, healthy";
  status.certificates = {{"talos", now + hours{24 * 300}},
                         {"kube", now - hours{1}},
                         {"kubeconfig", now + hours{24 * 365}}};
  status.last_backup = now - hours{7};
  return status;
}

TEST(Status, IsATableOfNodes) {
  rocca::test::expect_golden("report/status.txt", render(three_nodes(), now, {.width = 100}));
}

TEST(Status, SaysThatThereIsNoBackup) {
  resources::ClusterStatus status = three_nodes();
  status.last_backup.reset();
  EXPECT_THAT(render(status, now, {.width = 100}), ContainsRegex("\nbackup +never\n"));
}

TEST(Status, SaysThatATeardownWasInterrupted) {
  resources::ClusterStatus status = three_nodes();
  status.teardown = "The teardown of blue was interrupted after cp-1 had been destroyed.";
  EXPECT_THAT(render(status, now, {.width = 120}),
              ContainsRegex("\nteardown +The teardown of blue was interrupted after cp-1"));
  EXPECT_EQ(*to_value(status).find("teardown")->as_string(), status.teardown);
  EXPECT_EQ(to_value(three_nodes()).find("teardown"), nullptr);
}

TEST(Status, SaysUsableOnlyOfWhatWasSeenAtWork) {
  resources::ClusterStatus status = three_nodes();
  status.healthy = true;
  status.flux = resources::HandedOver{true, "main@sha1:2ce0db0e"};
  status.use = resources::Use{false, "no Service has an address of a load balancer"};
  std::string text = render(status, now, {.width = 100});
  EXPECT_THAT(text, ContainsRegex("\nFlux +main@sha1:2ce0db0e\n"));
  EXPECT_THAT(text,
              ContainsRegex("\nuse +not seen: no Service has an address of a load balancer\n"));
  EXPECT_THAT(text, HasSubstr("Cluster blue is healthy."));
  status.use = resources::Use{true, "Pod a/b runs"};
  text = render(status, now, {.width = 100});
  EXPECT_THAT(text, ContainsRegex("\nuse +Pod a/b runs\n"));
  EXPECT_THAT(text, HasSubstr("Cluster blue is healthy and usable."));
}

std::vector<Drift> drifts() {
  Drift cores{.address = "vm/cp-1",
              .field = "cores",
              .declared = "4",
              .found = "8",
              .effect = engine::Effect::PowerCycle,
              .by = "anna@pam",
              .task = "qmconfig",
              .since = now - seconds{90}};
  Drift tags{.address = "vm/cp-2", .field = "tags", .declared = "blue", .found = "red"};
  Drift name = tags;
  name.field = "name";
  name.ignored = true;
  return {cores, tags, name};
}

TEST(DriftText, NamesTheCulprit) {
  rocca::test::expect_golden("report/drift.txt", render(drifts(), {}, "blue", now, {.width = 80}));
}

TEST(DriftText, IgnoredAloneIsNoDrift) {
  EXPECT_THAT(render({drifts()[2]}, {}, "blue", now, {}),
              HasSubstr("No drift: cluster blue is as declared."));
}

TEST(DriftText, WhatCannotBeToldIsNotCalledAsDeclared) {
  std::vector<Drift> all = drifts();
  all[0].perhaps = "the last of 2 tasks that could have done it";
  all[1].unsure = "nothing is remembered of it: no `up` has ended here, or the state was lost";
  rocca::test::expect_golden("report/drift_unsure.txt",
                             render(all, {"vm/cp-3", "machine/cp-3"}, "blue", now, {.width = 80}));
  EXPECT_THAT(render({}, {"vm/cp-3"}, "blue", now, {.width = 200}),
              AllOf(HasSubstr("No drift: nobody has changed cluster blue."),
                    HasSubstr("1 thing differs because the spec asks for something else")));
}

TEST(DriftText, WhatCouldNotBeReadIsNoValueThatDiffers) {
  const Drift lost{.address = "vm/cp-3",
                   .field = "state",
                   .declared = "as it should be",
                   .found = "unknown",
                   .effect = engine::Effect::None,
                   .unsure = "it could not be read: host pve3 is off",
                   .unread = true};
  std::vector<Drift> all = drifts();
  all.push_back(lost);
  rocca::test::expect_golden("report/drift_unread.txt",
                             render(all, {}, "blue", now, {.width = 80}));
  EXPECT_THAT(render({lost}, {}, "blue", now, {.width = 80}),
              AllOf(HasSubstr("No drift in what could be read of cluster blue.\n"
                              "1 thing could not be read: nobody knows whether it differs.\n"),
                    testing::Not(HasSubstr("class")), testing::Not(HasSubstr("declared"))));
  const text::Value told = to_value({lost, all[0]});
  EXPECT_EQ(told.items()[0].find("unread")->as_bool(), true);
  EXPECT_EQ(told.items()[0].find("effect")->text(), "none");
  EXPECT_EQ(told.items()[1].find("unread")->as_bool(), false);
}

TEST(History, NewestLast) {
  state::State state;
  state.cluster = "blue";
  state.serial = 12;
  state.bootstrapped = now - hours{30};
  state.items["vm/cp-1"].settled = now - hours{31};
  state.items["image/local"].settled = now - hours{32};
  state.items["vm/cp-2"].receipt = "UPID:x";
  state.durations["vm/create"] = seconds{42};
  rocca::test::expect_golden("report/history.txt", render_history(state, now, {.width = 80}));
}

}  // namespace
}  // namespace rocca::report
