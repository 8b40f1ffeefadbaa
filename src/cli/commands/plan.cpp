#include "report/plan.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "base/visible.hpp"
#include "cli/build_info.hpp"
#include "cli/cluster_run.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "cluster/refusals.hpp"
#include "report/glance.hpp"
#include "report/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

namespace rocca::cli {

namespace {

report::Style style_of(const Context& context) {
  return {.colour = context.terminal.colour_out, .width = context.terminal.width};
}

std::string shown(const Context& context, const Invocation& invocation, ClusterRun& cluster,
                  const engine::Plan& plan) {
  if (invocation.is_set("steps")) return report::render(plan, style_of(context));
  return report::render_glance(plan, cluster.run().overview(), style_of(context));
}

std::string absolute(const Context& context, const std::string& path) {
  return path.starts_with('/') ? path : context.folder + "/" + path;
}

void write_plan(Context& context, const std::string& path, const engine::Plan& plan,
                const resources::RunOptions& options) {
  report::PlanFile head;
  head.rocca = build_info::version;
  head.made = to_string(context.clock.now());
  head.targets = options.targets;
  for (const engine::Effect effect : options.policy.allowed)
    head.allowed.emplace_back(engine::to_string(effect));
  context.files.write_private(absolute(context, path), report::plan_file(plan, head), 0600);
  context.err << fmt::format("wrote {}; `rocca apply {}{}{}` applies exactly this plan\n",
                             visible(path), visible(path), options.called.empty() ? "" : " ",
                             visible(options.called));
}

/// What a guard of ours or an effect class forbids ends the command before anything is touched.
/// What could not be read keeps only what needs it, unless it is a mistake or all there is.
void refuse_what_is_refused(const engine::Plan& plan) {
  const bool mistaken = std::any_of(plan.errors.begin(), plan.errors.end(), [](const auto& entry) {
    return is_mistake(entry.second.fault());
  });
  if (!plan.errors.empty() && (mistaken || plan.steps.empty())) throw unread_error(plan);
  resources::refuse_if_any(plan);
}

int carry_out(Context& context, const Invocation& invocation, ClusterRun& cluster,
              const engine::Plan& plan) {
  return show_run(context, invocation, plan, cluster.options().called,
                  [&](const engine::EventSink& events) { return cluster.run().up(events); });
}

}  // namespace

static int run_plan(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "plan", context.stop()};
  const engine::Plan& plan = cluster.run().plan();
  print(context, invocation, report::to_value(plan, cluster.run().overview()),
        shown(context, invocation, cluster, plan));
  if (const auto out = invocation.find("out")) write_plan(context, *out, plan, cluster.options());
  if (!plan.errors.empty()) throw unread_error(plan);
  return plan.empty() ? 0 : 2;
}

Command plan_command() {
  return {.name = "plan",
          .group = "Operate a cluster",
          .summary = "show what `up` would do",
          .description =
              "Reads Proxmox and the nodes, changes nothing, and shows every change with its "
              "reason and effect: live, service, reboot, power-cycle, replace or data-loss. Exit "
              "code 0: no changes; 2: changes.",
          .arguments = {cluster_argument()},
          .flags = joined({{.name = "out",
                            .kind = FlagKind::Text,
                            .value = "FILE",
                            .help = "write the plan to this file, for `rocca apply`"},
                           steps_flag(),
                           allow_flag(),
                           output_flag()},
                          run_flags()),
          .examples = {{"rocca plan blue", "what `up` would do"},
                       {"rocca plan blue --out blue.plan && rocca apply blue.plan blue",
                        "apply exactly what was shown"}},
          .run = run_plan};
}

static int run_up(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "up", context.stop()};
  const engine::Plan& plan = cluster.run().plan();
  const bool text = invocation.get("output") == "text";
  if (text) context.out << shown(context, invocation, cluster, plan) << std::flush;
  refuse_what_is_refused(plan);
  if (plan.empty()) {
    // What was found and is not remembered yet (a lost state, a lost rocca.lock) is still written.
    if (!plan.found.empty() || cluster.run().writes_lock())
      cluster.run().up([](const engine::Event&) {});
    if (!text) print(context, invocation, report::to_value(engine::Report{}), "");
    return 0;
  }
  confirm(context, fmt::format("Apply this plan to cluster {}?", cluster.name()),
          invocation.is_set("yes"));
  // Who said yes before seeing a plan says it to any that the guards let pass.
  if (invocation.is_set("yes")) {
    cluster.run().at_once();
    cluster.run().on_change([&](const engine::Plan& now) {
      if (text)
        context.out << "Infrastructure changed since planning. New plan:\n\n"
                    << shown(context, invocation, cluster, now) << std::flush;
      return true;
    });
  }
  return carry_out(context, invocation, cluster, plan);
}

Command up_command() {
  return {.name = "up",
          .group = "Operate a cluster",
          .summary = "create the cluster, or change it to match its spec",
          .description =
              "Shows the plan, asks, and applies it: images, VMs, machine configurations, etcd, "
              "the shared address, access files. Run it again after an interruption of any kind: "
              "it continues from what exists. The first Ctrl-C finishes the steps in progress, the "
              "second quits at once; both are safe. Changes with an effect that `policy.allow` "
              "does not list (default: live, service, reboot) need --allow.",
          .arguments = {cluster_argument()},
          .flags = joined({{.name = "yes", .help = "do not ask"},
                           allow_flag(),
                           steps_flag(),
                           events_flag(),
                           output_flag()},
                          run_flags()),
          .examples = {{"rocca up blue", "create it or repair it"},
                       {"rocca up --yes --target worker-3", "one node and what it depends on"}},
          .run = run_up};
}

static int run_apply(Context& context, const Invocation& invocation) {
  const std::string path = *invocation.argument("PLANFILE");
  const report::PlanFile file =
      report::read_plan_file(context.files.get(absolute(context, path)), path);
  if (file.rocca != build_info::version)
    throw Error(Fault::Refused, fmt::format("{} was made by rocca {}, this is {}", path, file.rocca,
                                            build_info::version))
        .hint("make the plan again with this rocca");
  ClusterRun cluster{context, invocation, "apply", context.stop()};
  if (file.cluster != cluster.name())
    throw Error(Fault::Refused, fmt::format("{} is a plan of cluster '{}', not of '{}'", path,
                                            file.cluster, cluster.name()))
        .hint(fmt::format("rocca apply {} {}", path, file.cluster));
  cluster.narrow(file.targets, file.allowed);
  const engine::Plan& plan = cluster.run().plan();
  if (plan.bound_to != file.bound_to)
    throw Error(
        Fault::Refused,
        fmt::format("{} is stale: the spec or the world has changed since {}", path, file.made))
        .hint("`rocca plan` shows what would be done now");
  if (invocation.get("output") == "text")
    context.out << shown(context, invocation, cluster, plan) << std::flush;
  refuse_what_is_refused(plan);
  if (plan.empty()) return 0;
  return carry_out(context, invocation, cluster, plan);
}

Command apply_command() {
  return {
      .name = "apply",
      .group = "Operate a cluster",
      .summary = "apply a plan that was written to a file",
      .description =
          "Refuses (exit code 3) a plan of another cluster or rocca version, and a plan that "
          "is stale because the spec or the infrastructure has changed since.",
      .arguments = {{.name = "PLANFILE",
                     .offer = Offer::Files,
                     .help = "a file written by `rocca plan --out`"},
                    cluster_argument()},
      .flags = {steps_flag(), parallelism_flag(), take_over_flag(), events_flag(), output_flag()},
      .examples = {{"rocca apply blue.plan blue", "apply what was shown and approved"}},
      .run = run_apply};
}

}  // namespace rocca::cli
