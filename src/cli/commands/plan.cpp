#include "report/plan.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "base/visible.hpp"
#include "cli/build_info.hpp"
#include "cli/cluster_run.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "report/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

namespace rocca::cli {

namespace {

report::Style style_of(const Context& context) {
  return {.colour = context.terminal.colour_out, .width = context.terminal.width};
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
  context.err << fmt::format("wrote {}; `rocca apply {}` carries out exactly this\n", visible(path),
                             visible(path));
}

/// What a guard of ours or an effect class forbids ends the verb before anything is touched. What
/// could not be read keeps only what needs it, unless it is a mistake or all there is.
void refuse_what_is_refused(const engine::Plan& plan) {
  const bool mistaken = std::any_of(plan.errors.begin(), plan.errors.end(), [](const auto& entry) {
    return is_mistake(entry.second.fault());
  });
  if (!plan.errors.empty() && (mistaken || plan.steps.empty())) throw unread_error(plan);
  if (plan.summary.refused == 0) return;
  for (const engine::Planned& step : plan.steps) {
    if (step.change.refusal.empty()) continue;
    Error error(Fault::Refused, fmt::format("{}: {}", step.address, step.change.refusal));
    if (!step.change.hint.empty()) error.hint(step.change.hint);
    throw error;
  }
}

int carry_out(Context& context, const Invocation& invocation, ClusterRun& cluster,
              const engine::Plan& plan) {
  return show_run(context, invocation, plan, cluster.name(),
                  [&](const engine::EventSink& events) { return cluster.run().up(events); });
}

}  // namespace

int run_plan(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "plan", context.stop()};
  const engine::Plan& plan = cluster.run().plan();
  print(context, invocation, report::to_value(plan), report::render(plan, style_of(context)));
  if (const auto out = invocation.find("out")) write_plan(context, *out, plan, cluster.options());
  if (!plan.errors.empty()) throw unread_error(plan);
  return plan.empty() ? 0 : 2;
}

int run_up(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "up", context.stop()};
  const engine::Plan& plan = cluster.run().plan();
  const bool text = invocation.get("output") == "text";
  if (text) context.out << report::render(plan, style_of(context)) << std::flush;
  refuse_what_is_refused(plan);
  if (plan.empty()) {
    // What was found and is not remembered yet (a lost state) is still written down.
    if (!plan.found.empty()) cluster.run().up([](const engine::Event&) {});
    if (!text) print(context, invocation, report::to_value(engine::Report{}), "");
    return 0;
  }
  confirm(context, fmt::format("Carry out this plan for cluster {}?", cluster.name()),
          invocation.is_set("yes"));
  // Who said yes before seeing a plan says it to any that the guards let pass.
  if (invocation.is_set("yes")) {
    cluster.run().at_once();
    cluster.run().on_change([&](const engine::Plan& now) {
      if (text)
        context.out << "The world has changed meanwhile. The plan is now:\n\n"
                    << report::render(now, style_of(context)) << std::flush;
      return true;
    });
  }
  return carry_out(context, invocation, cluster, plan);
}

int run_apply(Context& context, const Invocation& invocation) {
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
    context.out << report::render(plan, style_of(context)) << std::flush;
  refuse_what_is_refused(plan);
  if (plan.empty()) return 0;
  return carry_out(context, invocation, cluster, plan);
}

}  // namespace rocca::cli
