#include "cli/cluster_catalog.hpp"

#include "cli/cluster_run.hpp"
#include "cli/commands/commands.hpp"

namespace rocca::cli {

namespace {

constexpr const char* group = "The life of a cluster";

std::vector<Flag> with_run_flags(std::vector<Flag> flags) {
  const std::vector<Flag> shared = run_flags();
  flags.insert(flags.end(), shared.begin(), shared.end());
  return flags;
}

Flag only_flag() {
  return {.name = "only",
          .kind = FlagKind::Text,
          .value = "THING[:FIELD]",
          .help = "only this thing, or one value of it; by default all",
          .repeats = true};
}

Command plan_verb() {
  return {
      .name = "plan",
      .group = group,
      .summary = "show what `up` would do",
      .description =
          "Looks at Proxmox and the nodes, changes nothing, and shows every difference with its "
          "reason and what it costs: live, service, reboot, power-cycle, replace or data-loss. "
          "Exit code 0: nothing to do; 2: something differs.",
      .arguments = {cluster_argument()},
      .flags = with_run_flags({{.name = "out",
                                .kind = FlagKind::Text,
                                .value = "FILE",
                                .help = "write the plan there, for `rocca apply`"},
                               allow_flag(),
                               output_flag()}),
      .examples = {{"rocca plan blue", "what would be done"},
                   {"rocca plan blue --out blue.plan && rocca apply blue.plan blue",
                    "exactly that, or nothing"}},
      .run = run_plan};
}

Command up_verb() {
  return {
      .name = "up",
      .group = group,
      .summary = "make the cluster what its spec says",
      .description =
          "Shows the plan, asks, and carries it out: images, VMs, machine configurations, etcd, "
          "the shared address, access files. There is no resume: whatever ended an earlier run, "
          "`up` goes on from what is really there. The first Ctrl-C settles what was begun, the "
          "second leaves at once; both are safe. Allowed without asking are the classes that "
          "`policy.allow` names, by default live, service and reboot.",
      .arguments = {cluster_argument()},
      .flags = with_run_flags(
          {{.name = "yes", .help = "do not ask"}, allow_flag(), events_flag(), output_flag()}),
      .examples = {{"rocca up blue", "raise it, or put it right"},
                   {"rocca up --yes --target worker-3", "one node and all it needs"}},
      .run = run_up};
}

Command apply_verb() {
  return {.name = "apply",
          .group = group,
          .summary = "carry out a plan that was written to a file",
          .description =
              "Refuses (exit code 3) a plan of another cluster or another version of "
              "rocca, and one that is stale because the spec or the world has changed.",
          .arguments = {{.name = "PLANFILE",
                         .offer = Offer::Files,
                         .help = "what `rocca plan --out` wrote"},
                        cluster_argument()},
          .flags = {parallelism_flag(), take_over_flag(), events_flag(), output_flag()},
          .examples = {{"rocca apply blue.plan blue", "what was shown and approved"}},
          .run = run_apply};
}

Command down_verb() {
  return {
      .name = "down",
      .group = group,
      .summary = "raze the cluster",
      .description =
          "Destroys every VM that is proved to be this cluster's, and nothing else. Needs only "
          "Proxmox: the nodes may be dead, half made, moved or gone. Every wait is bounded: a "
          "guest that does not shut down is stopped. Images are kept for the next time. "
          "Machines that were there before are left alone. `protect: true` in the spec refuses.",
      .arguments = {cluster_argument()},
      .flags = {{.name = "confirm",
                 .kind = FlagKind::Text,
                 .value = "NAME",
                 .help = "the cluster's name, instead of typing it"},
                {.name = "purge-images", .help = "delete its images too"},
                {.name = "reset-existing",
                 .help = "reset machines that were there before, with all that is on them"},
                {.name = "without-state",
                 .help = "go by the marks on the VMs alone; the state is not read, locked or "
                         "removed"},
                parallelism_flag(),
                take_over_flag(),
                events_flag(),
                output_flag()},
      .examples = {{"rocca down blue", "asks for the name"},
                   {"rocca down blue --confirm blue", "in scripts"},
                   {"rocca down blue --without-state", "when the place of its state is gone"}},
      .run = run_down};
}

Command claim_verb() {
  return {
      .name = "claim",
      .group = group,
      .summary = "make a VM that you name a node of the cluster",
      .description =
          "rocca touches only VMs whose SMBIOS UUID and mark prove that they are its own, and "
          "never "
          "marks a VM that it did not create, unless you name it here. Writes the node's UUID and "
          "mark into the VM's `smbios1` and its place into rocca.lock. For a VM whose mark was "
          "removed, and for a clone that a killed run left while its state was lost. Templates, "
          "containers, VMs with the mark of another node or cluster, and a second VM for one node "
          "are refused. On a running VM the values take effect once it has been off: power-cycle "
          "it.",
      .arguments = {{.name = "NODE", .help = "a node of the spec"}, cluster_argument()},
      .flags = {{.name = "vm", .kind = FlagKind::Text, .value = "ID", .help = "the VM's id"},
                {.name = "yes", .help = "do not ask"},
                take_over_flag(),
                output_flag()},
      .examples = {{"rocca claim worker-1 --vm 104 blue", "VM 104 is worker-1 from now on"}},
      .run = run_claim};
}

Command status_verb() {
  return {.name = "status",
          .group = group,
          .summary = "show nodes, versions and health",
          .description =
              "Asks Proxmox and every node: power, address, version, stage, etcd, who "
              "holds the shared address, when certificates end, who holds the lock.",
          .arguments = {cluster_argument()},
          .flags = {{.name = "exit-code", .help = "exit with 2 when something is not healthy"},
                    output_flag()},
          .examples = {{"rocca status blue", "for people"},
                       {"rocca status blue -o json", "for programs"}},
          .run = run_status};
}

Command drift_verb() {
  return {.name = "drift",
          .group = group,
          .summary = "show what somebody changed, and who",
          .description =
              "Compares what was raised with what is there now, and looks into Proxmox's "
              "task log for who changed it. A VM that was moved to another host is no "
              "drift, and neither is what the spec asks anew. Exit code 2 when something "
              "differs, also where it cannot be told whose doing it is, 1 when something could not "
              "be read. `rocca up` puts it right.",
          .arguments = {cluster_argument()},
          .flags = {output_flag()},
          .examples = {{"rocca drift blue", "who did what"}},
          .run = run_drift};
}

Command drift_accept_verb() {
  return {
      .name = "drift accept",
      .group = group,
      .summary = "write what was found into the spec",
      .description =
          "Changes only the values that differ; comments and order of the file stay. "
          "Nothing is written if the spec would not be valid, nor for a node that comes from a "
          "pool, whose words count for all of its nodes, unless all of them were changed alike.",
      .arguments = {cluster_argument()},
      .flags = {only_flag()},
      .examples = {{"rocca drift accept blue --only vm/cp-1:cores", "one value"}},
      .run = run_drift_accept};
}

Command drift_ignore_verb() {
  return {.name = "drift ignore",
          .group = group,
          .summary = "leave what was found as it is",
          .description =
              "Remembered in the cluster's state: neither `plan` nor `drift` speaks of "
              "that value again until it changes once more.",
          .arguments = {cluster_argument()},
          .flags = {only_flag()},
          .examples = {{"rocca drift ignore blue --only vm/cp-1:tags", "one value"}},
          .run = run_drift_ignore};
}

Command graph_verb() {
  return {.name = "graph",
          .group = group,
          .summary = "draw what a cluster is made of",
          .arguments = {cluster_argument()},
          .flags = {{.name = "format",
                     .kind = FlagKind::Choice,
                     .value = "FORMAT",
                     .choices = {"text", "dot", "svg"},
                     .fallback = "text",
                     .help = "how it is drawn"},
                    {.name = "plan", .help = "mark what `up` would change"}},
          .examples = {{"rocca graph blue --format svg > blue.svg", "a picture"}},
          .run = run_graph};
}

Command history_verb() {
  return {.name = "history",
          .group = group,
          .summary = "show what is remembered of earlier runs",
          .description =
              "What was made when, what was begun and not seen to its end, and how long "
              "such steps take. It is read from the cluster's state, which holds no "
              "secrets.",
          .arguments = {cluster_argument()},
          .flags = {output_flag()},
          .examples = {{"rocca history blue", "for people"}},
          .run = run_history};
}

}  // namespace

void add_life_verbs(Catalog& verbs) {
  verbs.push_back(plan_verb());
  verbs.push_back(up_verb());
  verbs.push_back(apply_verb());
  verbs.push_back(down_verb());
  verbs.push_back(claim_verb());
  verbs.push_back(status_verb());
  verbs.push_back(drift_verb());
  verbs.push_back(drift_accept_verb());
  verbs.push_back(drift_ignore_verb());
  verbs.push_back(graph_verb());
  verbs.push_back(history_verb());
}

}  // namespace rocca::cli
