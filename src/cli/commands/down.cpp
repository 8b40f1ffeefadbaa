#include "base/error.hpp"
#include "base/visible.hpp"
#include "cli/cluster_run.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "report/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

namespace rocca::cli {

namespace {

/// Whether a state that is left of a cluster without VMs may go. Machines that were there before
/// are not looked for: they may still run it.
bool forgets(ClusterRun& cluster) {
  const std::vector<spec::Node>& nodes = cluster.spec().nodes;
  return cluster.run().remembers_down() &&
         std::none_of(nodes.begin(), nodes.end(),
                      [](const spec::Node& node) { return node.existing.has_value(); });
}

}  // namespace

int run_down(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "down", context.stop()};
  if (*cluster.spec().protect)
    throw Error(Fault::Refused, fmt::format("cluster {} is protected", cluster.name()))
        .hint("take `protect: true` out of its spec first");
  if (invocation.is_set("without-state"))
    context.err << "note: the state is neither read nor locked nor removed; what goes is told by "
                   "the marks on the VMs and by rocca.lock. Nobody else may be at work on it.\n";
  cluster.prepare_down(invocation.is_set("purge-images"), invocation.is_set("reset-existing"));
  const engine::Plan& plan = cluster.run().plan_down();
  const bool text = invocation.get("output") == "text";
  const report::Style style{.colour = context.terminal.colour_out, .width = context.terminal.width};
  if (text && plan.empty())
    context.out << report::render_kept(plan, style)
                << fmt::format("Nothing {}of cluster {} is there.\n",
                               plan.kept.empty() ? "" : "else ", visible(cluster.name()));
  else if (text)
    context.out << report::render(plan, style) << std::flush;
  for (const engine::Planned& step : plan.steps) {
    if (step.change.refusal.empty()) continue;
    Error error(Fault::Refused, fmt::format("{}: {}", step.address, step.change.refusal));
    if (!step.change.hint.empty()) error.hint(step.change.hint);
    throw error;
  }
  if (plan.empty()) {
    // A state that outlived its cluster would have the next `up` look for the old etcd.
    if (forgets(cluster)) cluster.run().down([](const engine::Event&) {});
    return 0;
  }
  confirm_name(context,
               fmt::format("This destroys cluster {} and all that is on its disks. Its name, to go "
                           "on:",
                           cluster.name()),
               cluster.name(), invocation.find("confirm"));
  // Who named it beforehand means all that is left of it, whatever that is by now.
  if (invocation.find("confirm")) {
    cluster.run().at_once();
    cluster.run().on_change([](const engine::Plan&) { return true; });
  }
  const int code =
      show_run(context, invocation, plan, cluster.name(),
               [&](const engine::EventSink& events) { return cluster.run().down(events); });
  if (*cluster.spec().addons.proxmox_csi.on && code == 0)
    if (const auto volumes = cluster.run().loose_volumes(); !volumes.empty()) {
      context.err << "note: volumes of Proxmox CSI belong to no VM, and stay:\n";
      for (const std::string& volume : volumes) context.err << "  " << visible(volume) << "\n";
    }
  return code;
}

}  // namespace rocca::cli
