#include "report/status.hpp"

#include "cli/cluster_run.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"

#include <ostream>

namespace rocca::cli {

int run_status(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "status", context.stop()};
  const resources::ClusterStatus status = cluster.run().status();
  print(context, invocation, report::to_value(status),
        report::render(status, context.clock.now(),
                       {.colour = context.terminal.colour_out, .width = context.terminal.width}));
  if (invocation.is_set("exit-code")) return status.healthy ? 0 : 2;
  return status.unseen.empty() ? 0 : 1;
}

int run_history(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "history", context.stop()};
  const state::State& state = cluster.run().prior();
  print(context, invocation, report::history_value(state),
        report::render_history(
            state, context.clock.now(),
            {.colour = context.terminal.colour_out, .width = context.terminal.width}));
  return 0;
}

}  // namespace rocca::cli
