#include "spec/schema.hpp"

#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "report/plan.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <ostream>

namespace rocca::cli {

static int run_schema(Context& context, const Invocation& invocation) {
  const text::Value schema =
      invocation.get("of") == "plan" ? report::plan_schema() : spec::json_schema();
  if (invocation.get("output") == "yaml")
    context.out << text::emit_yaml(schema);
  else
    context.out << text::emit_json(schema, {.pretty = true}) << "\n";
  return 0;
}

Command schema_command() {
  return {.name = "schema",
          .group = "Create a cluster",
          .summary = "print the JSON Schema of cluster.yaml",
          .description =
              "JSON Schema 2020-12, generated from the table that parses the file; text and json "
              "print the same.",
          .flags = {{.name = "of",
                     .kind = FlagKind::Choice,
                     .value = "WHAT",
                     .choices = {"cluster", "plan"},
                     .fallback = "cluster",
                     .help = "the schema of cluster.yaml, or of `plan -o json`"},
                    output_flag()},
          .examples = {{"rocca schema > cluster.schema.json", "for an editor"},
                       {"rocca schema --of plan", "for programs that read plans"}},
          .run = run_schema};
}

}  // namespace rocca::cli
