#include "base/error.hpp"
#include "base/strings.hpp"
#include "cli/cluster_run.hpp"
#include "cli/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "report/status.hpp"
#include "spec/load.hpp"
#include "text/edit.hpp"

#include <fmt/format.h>

#include <algorithm>
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
  if (invocation.all("only").empty()) out = all;
  std::erase_if(out, [](const Drift& drift) { return drift.ignored; });
  return out;
}

std::string name_of(const Drift& drift) {
  return drift.address + ":" + drift.field;
}

}  // namespace

int run_drift(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "drift", context.stop()};
  const std::vector<Drift> drifts = cluster.run().drift();
  print(context, invocation, report::to_value(drifts),
        report::render(drifts, cluster.name(), context.clock.now(),
                       {.colour = context.terminal.colour_out, .width = context.terminal.width}));
  const bool open =
      std::any_of(drifts.begin(), drifts.end(), [](const Drift& drift) { return !drift.ignored; });
  return open ? 2 : 0;
}

int run_drift_accept(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "drift accept", context.stop()};
  const std::vector<Drift> drifts = chosen(cluster.run().drift(), invocation);
  const std::string& file = cluster.spec().files.front();
  const std::string before = context.files.get(file);
  std::string after = before;
  for (const Drift& drift : drifts) {
    if (drift.accept_path.empty())
      throw Error(Fault::Refused, fmt::format("{} has no place in the spec that would say it is {}",
                                              name_of(drift), drift.found))
          .hint(fmt::format("`rocca up` puts it right, `rocca drift ignore --only {}` leaves it",
                            name_of(drift)));
    after = text::set_in_yaml(after, drift.accept_path, text::Value::plain(drift.accept_value));
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
  for (const Drift& drift : drifts)
    context.err << fmt::format("{}: {} is now {}\n", file, join(drift.accept_path, "."),
                               drift.accept_value);
  return 0;
}

int run_drift_ignore(Context& context, const Invocation& invocation) {
  ClusterRun cluster{context, invocation, "drift ignore", context.stop()};
  const std::vector<Drift> drifts = chosen(cluster.run().drift(), invocation);
  for (const Drift& drift : drifts) {
    cluster.run().ignore(drift.address, drift.field);
    context.err << fmt::format("{} is left at {}\n", name_of(drift), drift.found);
  }
  if (drifts.empty()) context.err << "nothing to ignore\n";
  return 0;
}

}  // namespace rocca::cli
