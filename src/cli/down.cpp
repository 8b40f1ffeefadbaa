#include "base/error.hpp"
#include "cli/cluster_run.hpp"
#include "cli/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "report/plan.hpp"

#include <fmt/format.h>

#include <ostream>

namespace rocca::cli {

int run_down(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "down", context.stop()};
  if (*cluster.spec().protect)
    throw Error(Fault::Refused, fmt::format("cluster {} is protected", cluster.name()))
        .hint("take `protect: true` out of its spec first");
  cluster.prepare_down(invocation.is_set("purge-images"), invocation.is_set("reset-existing"));
  const engine::Plan& plan = cluster.run().plan_down();
  const bool text = invocation.get("output") == "text";
  if (text)
    context.out << (plan.empty() ? fmt::format("Nothing of cluster {} is there.\n", cluster.name())
                                 : report::render(plan, {.colour = context.terminal.colour_out,
                                                         .width = context.terminal.width}))
                << std::flush;
  for (const engine::Planned& step : plan.steps) {
    if (step.change.refusal.empty()) continue;
    Error error(Fault::Refused, fmt::format("{}: {}", step.address, step.change.refusal));
    if (!step.change.hint.empty()) error.hint(step.change.hint);
    throw error;
  }
  if (plan.empty()) return 0;
  confirm_name(context,
               fmt::format("This destroys cluster {} and all that is on its disks. Its name, to go "
                           "on:",
                           cluster.name()),
               cluster.name(), invocation.find("confirm"));
  // Who named it beforehand means all that is left of it, whatever that is by now.
  if (invocation.find("confirm")) cluster.run().on_change([](const engine::Plan&) { return true; });
  const int code =
      show_run(context, invocation, plan, cluster.name(),
               [&](const engine::EventSink& events) { return cluster.run().down(events); });
  if (*cluster.spec().addons.proxmox_csi.on && code == 0)
    if (const auto volumes = cluster.run().loose_volumes(); !volumes.empty()) {
      context.err << "note: volumes of Proxmox CSI belong to no VM, and stay:\n";
      for (const std::string& volume : volumes) context.err << "  " << volume << "\n";
    }
  return code;
}

}  // namespace rocca::cli
