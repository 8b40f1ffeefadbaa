#pragma once

#include "base/diagnostics.hpp"

#include <optional>
#include <span>
#include <string_view>

namespace rocca::spec {

/// One thing that validation looks for. `code` is the stable name that messages carry and `explain`
/// takes.
struct Rule {
  std::string_view code;
  Severity severity = Severity::Error;
  std::string_view title;  // one line
  std::string_view why;    // the reason, and what to do
};

std::span<const Rule> rules();
const Rule* find_rule(std::string_view code);

}  // namespace rocca::spec
