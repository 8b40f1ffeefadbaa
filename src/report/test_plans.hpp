#pragma once

#include "engine/plan.hpp"

// Plans that the tests of this folder show.

namespace rocca::report::test {

inline engine::Planned planned(std::string address, engine::Action action, std::string reason,
                               std::vector<std::string> needs = {}) {
  engine::Planned step;
  step.address = std::move(address);
  step.change.action = action;
  step.change.reason = std::move(reason);
  step.change.effect =
      action == engine::Action::Destroy ? engine::Effect::DataLoss : engine::Effect::Live;
  step.needs = std::move(needs);
  return step;
}

/// A first cluster in the middle of its life: something of each action.
inline engine::Plan mixed_plan() {
  using engine::Action;
  using engine::Effect;
  engine::Plan plan;
  plan.cluster = "blue";
  plan.steps.push_back(
      planned("image/local@pve1/talos-1.11.5.qcow2", Action::Create, "it is not on the storage"));
  engine::Planned vm = planned("vm/worker-3", Action::Create, "no VM carries this node's mark",
                               {"image/local@pve1/talos-1.11.5.qcow2"});
  vm.place = "cluster.yaml:31:5";
  vm.estimate = std::chrono::seconds{48};
  vm.change.fields = {{"cores", "", "4", Effect::Live}, {"memory", "", "8GiB", Effect::Live}};
  plan.steps.push_back(vm);
  engine::Planned grown = planned("vm/worker-1", Action::Update, "its VM differs from the spec");
  grown.change.effect = Effect::PowerCycle;
  grown.change.fields = {{"cores", "2", "4", Effect::PowerCycle},
                         {"tags", "rocca", "blue;rocca", Effect::Live}};
  grown.turn = "one worker first, then 2 at a time";
  plan.steps.push_back(grown);
  engine::Planned firmware = planned("vm/cp-1", Action::Replace, "firmware cannot be changed");
  firmware.change.effect = Effect::DataLoss;
  firmware.change.fields = {{"firmware", "seabios", "ovmf", Effect::DataLoss}};
  firmware.change.refusal = "a change of the class data-loss is not allowed here";
  firmware.change.hint = "--allow data-loss";
  plan.steps.push_back(firmware);
  plan.steps.push_back(planned("vm/worker-9", Action::Destroy, "the spec no longer names it"));
  plan.summary = {
      .create = 2, .update = 1, .replace = 1, .destroy = 1, .unchanged = 14, .refused = 1};
  plan.effect = Effect::DataLoss;
  plan.estimate = std::chrono::seconds{95};
  plan.bound_to = "sha256:0123";
  return plan;
}

}  // namespace rocca::report::test
