#pragma once

#include "text/value.hpp"

#include <string>
#include <string_view>

namespace rocca::lab::kube {

/// "True", "False", "Unknown", or "" when there is no such condition.
std::string condition_status(const text::Value& object, std::string_view type);
const text::Value* find_condition(const text::Value& object, std::string_view type);
/// Adds or changes one; its transition time moves only with its status.
void set_condition(text::Value& object, std::string_view type, std::string_view status,
                   std::string_view reason, std::string_view message, std::string_view time);

}  // namespace rocca::lab::kube
