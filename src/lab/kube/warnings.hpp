#pragma once

#include "lab/kube/schema/kinds.hpp"
#include "text/value.hpp"

#include <string>
#include <vector>

namespace rocca::lab::kube {

/// What a client is told about an object that is accepted: values that have no effect or are wrong.
std::vector<std::string> warnings_of(const Resource& resource, const text::Value& object);

}  // namespace rocca::lab::kube
