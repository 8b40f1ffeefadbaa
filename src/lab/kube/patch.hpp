#pragma once

#include "lab/kube/schema/schema.hpp"

namespace rocca::lab::kube {

/// RFC 6902. Throws Failure as the API server words it.
text::Value json_patch(const text::Value& object, const text::Value& operations);
/// RFC 7396.
text::Value merge_patch(const text::Value& object, const text::Value& patch);
/// Lists of maps are merged by their key, sets are united; `$patch: delete|replace|merge`,
/// `$retainKeys`, `$deleteFromPrimitiveList/…` and `$setElementOrder/…` are understood.
text::Value strategic_patch(const Type& type, const text::Value& object, const text::Value& patch);

}  // namespace rocca::lab::kube
