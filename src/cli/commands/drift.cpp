#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/visible.hpp"
#include "cli/cluster_run.hpp"
#include "cli/command.hpp"
#include "cli/commands/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "report/status.hpp"
#include "spec/load.hpp"
#include "text/edit.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ostream>

namespace rocca::cli {

namespace {

using resources::Drift;

/// `vm/cp-1`, or `vm/cp-1:cores` for one value of it.
struct Choice {
  std::string address;
  std::string field;
};

Choice parse_choice(const std::string& text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

std::vector<Drift> chosen(const std::vector<Drift>& all, const Invocation& invocation) {
  std::vector<Drift> out;
  for (const std::string& word : invocation.all("only")) {
    const Choice choice = parse_choice(word);
    const std::size_t before = out.size();
    for (const Drift& drift : all)
      if (drift.address == choice.address && (choice.field.empty() || drift.field == choice.field))
        out.push_back(drift);
    if (out.size() == before)
      throw Error(Fault::NotFound, fmt::format("nothing of '{}' differs", word))
          .hint("`rocca drift` lists what does");
  }
  for (const Drift& drift : out)
    if (drift.unread)
      throw Error(Fault::Unreachable, fmt::format("{}: {}", drift.address, drift.unsure));
  if (invocation.all("only").empty()) out = all;
  std::erase_if(out, [](const Drift& drift) { return drift.ignored || drift.unread; });
  return out;
}

std::string name_of(const Drift& drift) {
  return drift.address + ":" + drift.field;
}

/// Has every node of the pool been changed alike?
bool whole_pool(const Drift& drift, const std::vector<Drift>& all, std::size_t count) {
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const Drift& other) {
           return other.accept_pool == drift.accept_pool && other.accepts == drift.accepts &&
                  other.field == drift.field && !other.ignored;
         })) == count;
}

/// Only what the spec can say, and only of this node; or of all nodes for which it says it.
void check_acceptable(const Drift& drift, const std::vector<Drift>& all, const spec::Spec& spec) {
  const std::string leave = fmt::format(
      "`rocca up` puts it right, `rocca drift ignore --only {}` leaves it", name_of(drift));
  if (drift.accepts.empty())
    throw Error(Fault::Refused, fmt::format("{} has no place in the spec that would say it is {}",
                                            name_of(drift), drift.found))
        .hint(leave);
  const auto pool = std::find_if(spec.pools.begin(), spec.pools.end(), [&](const spec::Pool& each) {
    return each.name == drift.accept_pool;
  });
  if (pool == spec.pools.end()) return;
  if (whole_pool(drift, all, static_cast<std::size_t>(*pool->count))) return;
  throw Error(
      Fault::Refused,
      fmt::format("{}: {} cannot be accepted: its node comes from pool `{}`, whose "
                  "`machine` speaks for all of its nodes ({}); nothing was written",
                  to_string(spec.position(pool->where)), name_of(drift), pool->name, *pool->count))
      .hint(fmt::format("to have it on all of them, write `{}: {}` yourself; {}",
                        join(drift.accepts.front().path, "."), drift.accepts.front().value, leave));
}

bool says(const std::string& yaml, const std::vector<std::string>& path) {
  const text::Value root = text::parse_yaml(yaml, "spec");
  const text::Value* value = &root;
  for (const std::string& key : path)
    if (value != nullptr) value = value->find(key);
  return value != nullptr;
}

}  // namespace

static int run_drift(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "drift", context.stop()};
  const std::vector<Drift> drifts = cluster.run().drift();
  if (const std::string& notice = cluster.run().plan().notice; !notice.empty())
    context.err << "note: " << visible(notice) << "\n";
  print(context, invocation, report::to_value(drifts),
        report::render(drifts, cluster.run().changed_by_spec(), cluster.name(), context.clock.now(),
                       {.colour = context.terminal.colour_out, .width = context.terminal.width}));
  if (const engine::Plan& plan = cluster.run().plan(); !plan.errors.empty())
    throw unread_error(plan);
  const bool open =
      std::any_of(drifts.begin(), drifts.end(), [](const Drift& drift) { return !drift.ignored; });
  return open ? 2 : 0;
}

Command drift_command() {
  return {.name = "drift",
          .group = "Operate a cluster",
          .summary = "show what was changed outside rocca, and by whom",
          .description =
              "Compares what rocca created with what exists now, and searches Proxmox's task log "
              "for who changed it. A VM that was moved to another host is not drift, and neither "
              "is a change of the spec. Exit code 2: something differs; 1: something could not be "
              "read. `rocca up` repairs it.",
          .arguments = {cluster_argument()},
          .flags = {output_flag()},
          .examples = {{"rocca drift blue", "what changed, and by whom"}},
          .run = run_drift};
}

static int run_drift_accept(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "drift accept", context.stop()};
  const std::vector<Drift> all = cluster.run().drift();
  const std::vector<Drift> drifts = chosen(all, invocation);
  const std::string& file = cluster.spec().files.front();
  const std::string before = context.files.get(file);
  std::string after = before;
  std::map<std::string, std::string> said;
  for (const Drift& drift : drifts) {
    check_acceptable(drift, all, cluster.spec());
    for (const Drift::Acceptance& accept : drift.accepts) {
      const bool inherited = !accept.list.empty() && !says(after, accept.list);
      const std::vector<std::string>& path = inherited ? accept.list : accept.path;
      const std::string& value = inherited ? accept.whole : accept.value;
      after = text::set_in_yaml(after, path, text::parse_yaml(value, "value"));
      said[join(path, ".")] = value;
    }
  }
  if (after == before) {
    context.err << "nothing to accept\n";
    return 0;
  }
  // What is written must be a spec again: a value that Proxmox took may be one that we refuse.
  const spec::Loaded loaded = spec::load_text(context.files, after, file, cluster.spec().folder);
  if (loaded.diagnostics.has_errors()) {
    context.err << loaded.diagnostics.render();
    throw Error(Fault::Refused,
                "the spec would not be valid with these values; nothing was written");
  }
  context.files.write(file, after, 0644);
  for (const auto& [path, value] : said)
    context.err << fmt::format("{}: {} is now {}\n", visible(file), visible(path), visible(value));
  return 0;
}

static Flag only_flag() {
  return {.name = "only",
          .kind = FlagKind::Text,
          .value = "RESOURCE[:FIELD]",
          .help = "only this resource, or one field of it; default: all",
          .repeats = true};
}

Command drift_accept_command() {
  return {.name = "drift accept",
          .group = "Operate a cluster",
          .summary = "write the changed values into the spec",
          .description =
              "Changes only the values that differ; comments and order of the file stay. Writes "
              "nothing if the spec would become invalid. A value of a pool's node is written only "
              "if all nodes of the pool were changed alike.",
          .arguments = {cluster_argument()},
          .flags = {only_flag()},
          .examples = {{"rocca drift accept blue --only vm/cp-1:cores", "one value"}},
          .run = run_drift_accept};
}

static int run_drift_ignore(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "drift ignore", context.stop()};
  const std::vector<Drift> drifts = chosen(cluster.run().drift(), invocation);
  for (const Drift& drift : drifts) {
    cluster.run().ignore(drift.address, drift.field);
    context.err << fmt::format("{} is left at {}\n", visible(name_of(drift)), visible(drift.found));
  }
  if (drifts.empty()) context.err << "nothing to ignore\n";
  return 0;
}

Command drift_ignore_command() {
  return {.name = "drift ignore",
          .group = "Operate a cluster",
          .summary = "ignore a change from now on",
          .description =
              "Kept in the cluster's state: `plan` and `drift` do not mention the value again "
              "until it changes once more.",
          .arguments = {cluster_argument()},
          .flags = {only_flag()},
          .examples = {{"rocca drift ignore blue --only vm/cp-1:tags", "one value"}},
          .run = run_drift_ignore};
}

}  // namespace rocca::cli
