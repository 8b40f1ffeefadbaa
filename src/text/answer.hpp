#pragma once

#include "text/json.hpp"

namespace rocca::text {

/// Reads the JSON that another system answered with. If it cannot be read, that system is at fault
/// and not the user: throws Error(Rejected) where parse_json throws Error(Usage).
Value parse_answer(std::string_view body, std::string_view name, const Limits& limits = {});

}  // namespace rocca::text
