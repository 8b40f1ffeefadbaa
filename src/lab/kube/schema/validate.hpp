#pragma once

#include "lab/kube/server.hpp"

#include <vector>

namespace rocca::lab::kube {

/// The rules of single kinds: Deployments, Pods, Services, EndpointSlices, Leases, CRDs ….
void check_kind(const Resource& resource, const text::Value& object, const text::Value* live,
                const Write& write, std::vector<Cause>& causes);

void check_more(const Resource& resource, const text::Value& object, const text::Value* live,
                std::vector<Cause>& causes);

}  // namespace rocca::lab::kube
