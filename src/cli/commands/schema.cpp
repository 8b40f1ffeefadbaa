#include "spec/schema.hpp"

#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "report/plan.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <ostream>

namespace rocca::cli {

int run_schema(Context& context, const Invocation& invocation) {
  const text::Value schema =
      invocation.get("of") == "plan" ? report::plan_schema() : spec::json_schema();
  if (invocation.get("output") == "yaml")
    context.out << text::emit_yaml(schema);
  else
    context.out << text::emit_json(schema, {.pretty = true}) << "\n";
  return 0;
}

}  // namespace rocca::cli
