#include "cluster/refusals.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace rocca::resources {

void refuse_if_any(const engine::Plan& plan) {
  std::vector<std::string> reasons;
  std::string hint;
  for (const engine::Planned& step : plan.steps) {
    if (step.change.refusal.empty()) continue;
    reasons.push_back(fmt::format("{}: {}", step.address, step.change.refusal));
    if (hint.empty()) hint = step.change.hint;
  }
  if (reasons.empty()) return;
  Error error{Fault::Refused, join(reasons, "\n")};
  if (!hint.empty()) error.hint(hint);
  throw error;
}

}  // namespace rocca::resources
