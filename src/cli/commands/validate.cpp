#include "base/strings.hpp"
#include "base/visible.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "spec/load.hpp"
#include "talosconfig/patch_check.hpp"
#include "text/json.hpp"
#include "text/valid.hpp"
#include "text/value.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

namespace rocca::cli {

namespace {

using text::Value;

const char* name_of(Severity severity) {
  switch (severity) {
    case Severity::Error:
      return "error";
    case Severity::Warning:
      return "warning";
    case Severity::Note:
      return "note";
  }
  return "";
}

Value to_value(const Problem& problem) {
  Value value = Value::map();
  value.set("severity", Value::string(name_of(problem.severity)));
  value.set("code", Value::string(problem.code));
  value.set("file", Value::string(problem.where.file));
  value.set("line", Value::unsigned_integer(problem.where.line));
  value.set("column", Value::unsigned_integer(problem.where.column));
  value.set("length", Value::unsigned_integer(problem.length));
  value.set("message", Value::string(problem.message));
  if (!problem.hint.empty()) value.set("hint", Value::string(problem.hint));
  return value;
}

std::string summary(const std::string& path, const spec::Loaded& loaded, bool strict) {
  const std::string file = visible(path);
  const Diagnostics& found = loaded.diagnostics;
  const std::size_t errors = found.count(Severity::Error);
  const std::size_t warnings = found.count(Severity::Warning);
  std::vector<std::string> parts;
  if (errors > 0) parts.push_back(plural(errors, "error"));
  if (warnings > 0) parts.push_back(plural(warnings, "warning"));
  if (errors == 0 && warnings > 0 && strict)
    return fmt::format("{}: {}, and --strict lets none pass\n", file, parts.front());
  if (errors == 0) {
    const std::size_t nodes = loaded.spec.nodes.size();
    return fmt::format("{} is valid: {}{}\n", file, plural(nodes, "node"),
                       parts.empty() ? std::string() : ", " + parts.front());
  }
  const auto& problems = found.problems();
  const auto first = std::find_if(problems.begin(), problems.end(), [](const Problem& problem) {
    return problem.severity == Severity::Error;
  });
  return fmt::format("{}: {}; `rocca explain {}` says more\n", file, enumerate(parts), first->code);
}

}  // namespace

static int run_validate(Context& context, const Invocation& invocation) {
  const std::string file = cluster_file(context, invocation.argument("CLUSTER"));
  const std::string shown =
      file.starts_with(context.folder + "/") ? file.substr(context.folder.size() + 1) : file;
  spec::Loaded loaded = spec::load_text(context.files, context.files.get(file, text::Limits{}.size),
                                        shown, file.substr(0, file.rfind('/')));
  if (!loaded.diagnostics.has_errors()) talos::check_patches(loaded.spec, loaded.diagnostics);
  const Diagnostics& found = loaded.diagnostics;
  const bool bad =
      found.has_errors() || (invocation.is_set("strict") && found.count(Severity::Warning) > 0);
  const std::string format = invocation.get("output");
  if (format == "json") {
    Value value = Value::map();
    value.set("file", Value::string(shown));
    value.set("valid", Value::boolean(!bad));
    Value problems = Value::list();
    for (const Problem& problem : found.problems()) problems.append(to_value(problem));
    value.set("problems", std::move(problems));
    context.out << text::emit_json(text::with_valid_text(std::move(value)), {.pretty = true})
                << "\n";
    return bad ? 1 : 0;
  }
  context.err << found.render();
  if (bad) {
    context.err << summary(shown, loaded, invocation.is_set("strict"));
  } else if (format == "yaml") {
    context.out << spec::resolved_yaml(loaded.spec);
  } else {
    context.out << summary(shown, loaded, invocation.is_set("strict"));
  }
  return bad ? 1 : 0;
}

Command validate_command() {
  return {
      .name = "validate",
      .group = "Create a cluster",
      .summary = "check a cluster's files",
      .description =
          "Reads the spec with its bases and patches and reports every problem with file, line, "
          "column and a hint. Warnings do not fail the check unless --strict is given. With -o "
          "yaml, prints the resolved spec: bases merged, defaults filled in, pools expanded to "
          "nodes.",
      .arguments = {cluster_argument()},
      .flags = {output_flag(), {.name = "strict", .value = "", .help = "warnings count as errors"}},
      .examples = {{"rocca validate", "the cluster in the working directory"},
                   {"rocca validate blue -o yaml", "the resolved spec"},
                   {"rocca validate --strict -o json", "for a pipeline"}},
      .run = run_validate};
}

}  // namespace rocca::cli
