#pragma once

#include "cluster/overview.hpp"
#include "engine/plan.hpp"
#include "report/style.hpp"
#include "text/value.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace rocca::report {

/// The plan as people know it from other tools: `+ ~ - -/+`, every change with its reason, and a
/// summary line at its end.
std::string render(const engine::Plan& plan, const Style& style = {});
/// What is left over and stays, each with its reason; `render` has it as well.
std::string render_kept(const engine::Plan& plan, const Style& style = {});
/// `Plan: 5 to create, 1 to change, 0 to replace, 0 to destroy; 3 unchanged. About 4m.`
std::string summary_line(const engine::Plan& plan);

/// The same for programs; plan_schema() describes it.
text::Value to_value(const engine::Plan& plan);
/// With the nodes as they should be.
text::Value to_value(const engine::Plan& plan, const resources::ClusterOverview& cluster);
/// JSON Schema 2020-12 of to_value.
text::Value plan_schema();

/// What a plan file says: enough to know whether the plan of now is the plan of then.
struct PlanFile {
  std::string cluster = {};
  std::string rocca = {};  // version that wrote it
  std::string bound_to = {};
  std::string made = {};  // when
  std::vector<std::string> targets = {};
  std::vector<std::string> allowed = {};  // effect classes
};
std::string plan_file(const engine::Plan& plan, const PlanFile& head);
/// Error(Usage) for text that is no plan file, Error(Refused) for one of another version.
PlanFile read_plan_file(std::string_view text, const std::string& name);

}  // namespace rocca::report
