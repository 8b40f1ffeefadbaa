#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/visible.hpp"
#include "cli/cluster_run.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "text/value.hpp"

#include <fmt/format.h>

#include <ostream>

namespace rocca::cli {

namespace {

proxmox::Vmid vmid_of(const Invocation& invocation) {
  const std::string text = invocation.find("vm").value_or("");
  const auto number = parse_uint(text);
  if (!number || *number < 100 || *number > 999999999)
    throw Error(Fault::Usage, text.empty() ? std::string{"--vm is missing"}
                                           : fmt::format("invalid VM id '{}'", text))
        .hint("--vm takes the id that Proxmox shows, such as --vm 104");
  return static_cast<proxmox::Vmid>(*number);
}

std::string describe(const resources::ClaimPlan& plan, const std::string& cluster) {
  std::string text =
      fmt::format("{} becomes node {} of cluster {}:\n", visible(plan.vm), plan.node, cluster);
  if (plan.uuid_before == plan.uuid_after)
    text += fmt::format("  UUID         {} (unchanged)\n", to_string(plan.uuid_after));
  else
    text += fmt::format("  UUID         {} -> {}\n",
                        plan.uuid_before ? to_string(*plan.uuid_before) : "none",
                        to_string(plan.uuid_after));
  text += fmt::format("  mark         {}/{}\n", cluster, plan.node);
  text += fmt::format("  rocca.lock   nodes.{}: VM {} on {}\n", plan.node, plan.vmid,
                      visible(plan.host));
  text +=
      "From then on `rocca up` changes this VM to what the spec says, and `rocca down` destroys it "
      "with its disks.\n";
  return text;
}

text::Value to_value(const resources::ClaimPlan& plan) {
  text::Value data = text::Value::map();
  data.set("node", text::Value::string(plan.node));
  data.set("vmid", text::Value::unsigned_integer(plan.vmid));
  data.set("host", text::Value::string(plan.host));
  data.set("uuid", text::Value::string(to_string(plan.uuid_after)));
  data.set("changed", text::Value::boolean(!plan.ours));
  data.set("needsPowerCycle", text::Value::boolean(plan.running && !plan.ours));
  return data;
}

}  // namespace

static int run_claim(Context& context, const Invocation& invocation) {
  const proxmox::Vmid vmid = vmid_of(invocation);
  const std::string node = invocation.argument("NODE").value();
  ClusterRun cluster{context, invocation, "claim", context.stop()};
  const resources::ClaimPlan plan = cluster.run().plan_claim(node, vmid);
  if (!plan.ours) {
    context.err << describe(plan, cluster.name());
    if (plan.running)
      context.err << fmt::format(
          "{} is running: Proxmox keeps the new SMBIOS values pending until the VM has been off. "
          "Until then it counts as foreign.\n",
          visible(plan.vm));
    confirm(context, fmt::format("Claim VM {} as {}?", vmid, node), invocation.is_set("yes"));
  }
  cluster.run().claim(plan);
  std::string text =
      plan.ours
          ? fmt::format("{} already is {}: nothing to write.\n", visible(plan.vm), node)
          : fmt::format("{} carries the mark {}/{}.\n", visible(plan.vm), cluster.name(), node);
  if (plan.running && !plan.ours)
    text = fmt::format(
        "The mark {0}/{1} is pending on {2}. Power-cycle it, then run `rocca plan`: on {3} "
        "`qm shutdown {4} && qm start {4}`.\n",
        cluster.name(), node, visible(plan.vm), visible(plan.host), vmid);
  print(context, invocation, to_value(plan), text);
  return 0;
}

Command claim_command() {
  return {.name = "claim",
          .group = "Operate a cluster",
          .summary = "make an existing VM a node of the cluster",
          .description =
              "rocca touches only VMs whose SMBIOS UUID and mark prove that they are its own, and "
              "never marks a VM that it did not create, unless you name it here. Writes the node's "
              "UUID and mark into the VM's `smbios1` and its place into rocca.lock. For a VM whose "
              "mark was removed, and for a clone that a killed run left while its state was lost. "
              "Templates, containers, VMs with the mark of another node or cluster, and a second "
              "VM for one node are refused. On a running VM the values take effect once it has "
              "been off: power-cycle it.",
          .arguments = {{.name = "NODE", .help = "a node of the spec"}, cluster_argument()},
          .flags = {{.name = "vm", .kind = FlagKind::Text, .value = "ID", .help = "the VM's id"},
                    {.name = "yes", .help = "do not ask"},
                    take_over_flag(),
                    output_flag()},
          .examples = {{"rocca claim worker-1 --vm 104 blue", "VM 104 becomes worker-1"}},
          .run = run_claim};
}

}  // namespace rocca::cli
