#include "base/strings.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/help.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "spec/schema.hpp"

#include <ostream>

namespace rocca::cli {

namespace {

/// Where the text of a line begins: behind its indent, and in a table behind the first column.
std::size_t text_column(const std::string& line) {
  constexpr std::size_t widest_name = 40;
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == std::string::npos) return 0;
  const std::size_t gap = line.find("  ", begin);
  if (gap == std::string::npos || gap > widest_name) return begin;
  return std::max(begin, line.find_first_not_of(' ', gap));
}

}  // namespace

static int run_explain(Context& context, const Invocation& invocation) {
  std::vector<std::string> lines =
      split(spec::explain(invocation.argument("FIELD|ERROR").value()), '\n');
  for (std::string& line : lines) {
    const std::size_t column = text_column(line);
    line = line.substr(0, column) + wrapped(line.substr(column), column, context.terminal.width);
  }
  context.out << join(lines, "\n");
  return 0;
}

Command explain_command() {
  return {.name = "explain",
          .group = "Create a cluster",
          .summary = "explain a key of the spec or a problem code",
          .arguments = {{.name = "FIELD|ERROR",
                         .help = "a key (machine.memory) or the code of a problem (slot-clash)"}},
          .examples = {{"rocca explain nodes", "the keys of a node"},
                       {"rocca explain even-control-planes", "why two are worse than one"}},
          .run = run_explain};
}

}  // namespace rocca::cli
