#include "report/graph.hpp"

#include "base/visible.hpp"
#include "cli/cluster_run.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"

#include <fmt/format.h>

#include <ostream>

namespace rocca::cli {

static int run_graph(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "graph", context.stop()};
  report::Drawing drawing;
  if (invocation.is_set("plan"))
    for (const engine::Planned& step : cluster.run().plan().steps)
      drawing.actions[step.address] = step.change.action;
  drawing.graph = cluster.run().graph();
  if (const auto& unseen = cluster.run().unseen())
    context.err << fmt::format(
        "note: nothing was looked at, this is what spec, rocca.lock and state tell: {}\n",
        visible(unseen->message()));
  const std::string format = invocation.get("format");
  context.out << (format == "dot"   ? report::draw_dot(drawing)
                  : format == "svg" ? report::draw_svg(drawing)
                                    : report::draw_text(drawing));
  return 0;
}

Command graph_command() {
  return {.name = "graph",
          .group = "Operate a cluster",
          .summary = "draw the resources of a cluster",
          .arguments = {cluster_argument()},
          .flags = {{.name = "format",
                     .kind = FlagKind::Choice,
                     .value = "FORMAT",
                     .choices = {"text", "dot", "svg"},
                     .fallback = "text",
                     .help = "output format"},
                    {.name = "plan", .help = "mark what `up` would change"}},
          .examples = {{"rocca graph blue --format svg > blue.svg", "a picture"}},
          .run = run_graph};
}

}  // namespace rocca::cli
