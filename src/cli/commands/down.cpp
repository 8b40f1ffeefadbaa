#include "base/error.hpp"
#include "base/visible.hpp"
#include "cli/cluster_run.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "cluster/refusals.hpp"
#include "report/glance.hpp"
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

static int run_down(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "down", context.stop()};
  if (*cluster.spec().protect)
    throw Error(Fault::Refused, fmt::format("cluster {} is protected", cluster.name()))
        .hint("remove `protect: true` from its spec first");
  if (invocation.is_set("without-state"))
    context.err
        << "note: the state is not read, locked or removed; the marks on the VMs and rocca.lock "
           "decide what is destroyed. No other run may work on this cluster.\n";
  cluster.prepare_down(invocation.is_set("purge-images"), invocation.is_set("reset-existing"));
  const engine::Plan& plan = cluster.run().plan_down();
  const bool text = invocation.get("output") == "text";
  const report::Style style{.colour = context.terminal.colour_out, .width = context.terminal.width};
  if (text && plan.empty())
    context.out << report::render_kept(plan, style)
                << fmt::format("Nothing {}of cluster {} exists.\n",
                               plan.kept.empty() ? "" : "else ", visible(cluster.name()));
  else if (text)
    context.out << (invocation.is_set("steps")
                        ? report::render(plan, style)
                        : report::render_glance(plan, cluster.run().overview(), style))
                << std::flush;
  resources::refuse_if_any(plan);
  if (plan.empty()) {
    // A state that outlived its cluster would have the next `up` look for the old etcd.
    if (forgets(cluster)) cluster.run().down([](const engine::Event&) {});
    return 0;
  }
  confirm_name(
      context,
      fmt::format("This destroys cluster {} and all data on its disks. Type the cluster name to "
                  "confirm:",
                  cluster.name()),
      cluster.name(), invocation.find("confirm"));
  // Who named it beforehand means all that is left of it, whatever that is by now.
  if (invocation.find("confirm")) {
    cluster.run().at_once();
    cluster.run().on_change([](const engine::Plan&) { return true; });
  }
  const int code =
      show_run(context, invocation, plan, cluster.options().called,
               [&](const engine::EventSink& events) { return cluster.run().down(events); });
  if (*cluster.spec().addons.proxmox_csi.on && code == 0)
    if (const auto volumes = cluster.run().loose_volumes(); !volumes.empty()) {
      context.err << "note: volumes of Proxmox CSI are not attached to a VM and stay:\n";
      for (const std::string& volume : volumes) context.err << "  " << visible(volume) << "\n";
    }
  return code;
}

Command down_command() {
  return {
      .name = "down",
      .group = "Operate a cluster",
      .summary = "destroy the cluster",
      .description =
          "Destroys every VM that provably belongs to this cluster, and nothing else. Needs only "
          "Proxmox: the nodes may be dead, incomplete, moved or gone. Every wait is bounded: a "
          "guest that does not shut down is stopped. Images are kept for the next `up`. Machines "
          "that rocca did not create are left alone. Refused when the spec says `protect: true`.",
      .arguments = {cluster_argument()},
      .flags = {{.name = "confirm",
                 .kind = FlagKind::Text,
                 .value = "NAME",
                 .help = "the cluster's name, instead of the question"},
                {.name = "purge-images", .help = "also delete its images"},
                {.name = "reset-existing", .help = "also wipe machines that rocca did not create"},
                {.name = "without-state",
                 .help =
                     "rely on the marks on the VMs only; the state is not read, locked or removed"},
                steps_flag(),
                parallelism_flag(),
                take_over_flag(),
                events_flag(),
                output_flag()},
      .examples = {{"rocca down blue", "asks for the name"},
                   {"rocca down blue --confirm blue", "in scripts"},
                   {"rocca down blue --without-state", "when the state store is gone"}},
      .run = run_down};
}

}  // namespace rocca::cli
