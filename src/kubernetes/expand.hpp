#pragma once

#include "engine/plan.hpp"
#include "kubernetes/external_inputs.hpp"
#include "platform/kinds.hpp"

namespace rocca::resources {

/// Adds what the spec wants of Kubernetes and of its nodes beyond a cluster that answers: prepared,
/// addon, handover and publish; and what is left over of them.
void add_kubernetes_things(const Cluster& cluster, const OutsidePtr& outside,
                           const state::State& prior, engine::Desired& desired);

/// For `down`: what was published is withdrawn; everything else goes with its cluster.
void add_withdrawals(const OutsidePtr& outside, const state::State& prior,
                     engine::Desired& desired);

}  // namespace rocca::resources
