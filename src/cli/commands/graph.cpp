#include "report/graph.hpp"

#include "base/visible.hpp"
#include "cli/cluster_run.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"

#include <fmt/format.h>

#include <ostream>

namespace rocca::cli {

int run_graph(Context& context, const Invocation& invocation) {
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

}  // namespace rocca::cli
