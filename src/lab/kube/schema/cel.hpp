#pragma once

#include "text/value.hpp"

#include <optional>
#include <string_view>

namespace rocca::lab::kube {

/// Whether a rule of the Common Expression Language holds for `self` (also called `object`) and
/// `oldSelf`. The part of CEL that rules of well-known CRDs lean on most: fields, literals, `! &&
/// ||
/// ?:`, comparisons, `+ -`, `in`, has(), size(), startsWith, endsWith, contains. Nothing for a rule
/// beyond that: it is not looked at.
std::optional<bool> cel_holds(std::string_view rule, const text::Value& self,
                              const text::Value* old_self);

}  // namespace rocca::lab::kube
