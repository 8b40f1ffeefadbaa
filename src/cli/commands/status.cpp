#include "report/status.hpp"

#include "cli/cluster_run.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"

#include <ostream>

namespace rocca::cli {

static int run_status(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "status", context.stop()};
  const resources::ClusterStatus status = cluster.run().status();
  print(context, invocation, report::to_value(status),
        report::render(status, context.clock.now(),
                       {.colour = context.terminal.colour_out, .width = context.terminal.width}));
  if (invocation.is_set("exit-code")) return status.healthy ? 0 : 2;
  return status.unseen.empty() ? 0 : 1;
}

Command status_command() {
  return {.name = "status",
          .group = "Operate a cluster",
          .summary = "show nodes, versions and health",
          .description =
              "Shows power, address, version, stage and etcd of every node, the holder of the "
              "shared address, the expiry of certificates and the holder of the lock.",
          .arguments = {cluster_argument()},
          .flags = {{.name = "exit-code", .help = "exit with code 2 if something is not healthy"},
                    output_flag()},
          .examples = {{"rocca status blue", "for people"},
                       {"rocca status blue -o json", "for programs"}},
          .run = run_status};
}

static int run_history(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "history", context.stop()};
  const state::State& state = cluster.run().prior();
  print(context, invocation, report::history_value(state),
        report::render_history(
            state, context.clock.now(),
            {.colour = context.terminal.colour_out, .width = context.terminal.width}));
  return 0;
}

Command history_command() {
  return {.name = "history",
          .group = "Operate a cluster",
          .summary = "show earlier runs",
          .description =
              "Shows what was created when, which operations did not finish, and how long steps "
              "take. Read from the cluster's state, which holds no secrets.",
          .arguments = {cluster_argument()},
          .flags = {output_flag()},
          .examples = {{"rocca history blue", "for people"}},
          .run = run_history};
}

}  // namespace rocca::cli
