#include "report/status.hpp"

#include "base/strings.hpp"
#include "base/units.hpp"
#include "base/visible.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::report {

namespace {

using resources::ClusterStatus;
using resources::NodeStatus;
using text::Value;

/// Columns as wide as their widest cell; the last one is not filled.
class Table {
 public:
  explicit Table(std::vector<std::string> head) { rows_.push_back({std::move(head), {}}); }
  void add(std::vector<std::string> cells, std::optional<Ink> colour = {}) {
    rows_.push_back({std::move(cells), colour});
  }
  std::string render(const Style& style) const {
    std::vector<std::size_t> widths;
    for (const Row& row : rows_)
      for (std::size_t at = 0; at < row.cells.size(); ++at) {
        if (widths.size() <= at) widths.resize(at + 1);
        widths[at] = std::max(widths[at], columns(visible(row.cells[at])));
      }
    std::string out;
    for (const Row& row : rows_) {
      std::string line;
      for (std::size_t at = 0; at < row.cells.size(); ++at)
        line += pad(row.cells[at], widths[at]) + "  ";
      while (line.ends_with(' ')) line.pop_back();
      const bool head = &row == &rows_.front();
      out += (head         ? ink(style, Ink::Bold, line)
              : row.colour ? ink(style, *row.colour, line)
                           : line) +
             "\n";
    }
    return out;
  }

 private:
  struct Row {
    std::vector<std::string> cells;
    std::optional<Ink> colour;
  };
  std::vector<Row> rows_;
};

std::string ago(Instant then, Instant now) {
  return now < then ? "just now" : to_rough_string(now - then) + " ago";
}

/// Years in days: nobody counts a certificate's life in hours.
std::string expiry(Instant when, Instant now) {
  const auto days = std::chrono::duration_cast<std::chrono::hours>(when - now).count() / 24;
  const std::string day = to_string(when).substr(0, 10);
  if (when < now) return fmt::format("expired on {}", day);
  return fmt::format("until {} ({})", day, plural(static_cast<std::size_t>(days), "day"));
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : visible(text);
}

}  // namespace

std::string render(const ClusterStatus& status, Instant now, const Style& style) {
  Table table{
      {"NODE", "ROLE", "MACHINE", "POWER", "ADDRESS", "TALOS", "KUBERNETES", "STAGE", "ETCD"}};
  for (const NodeStatus& node : status.nodes) {
    std::optional<Ink> colour;
    if (!node.healthy) colour = Ink::Red;
    table.add({node.name + (node.has_vip ? " *" : ""), node.role, or_dash(node.machine),
               or_dash(node.power), or_dash(node.address), or_dash(node.talos),
               or_dash(node.kubernetes), or_dash(node.stage), or_dash(node.etcd)},
              colour);
  }
  std::string out = table.render(style) + "\n";
  for (const NodeStatus& node : status.nodes)
    if (!node.problem.empty())
      out += ink(style, Ink::Red, wrap(node.name + ": " + node.problem, style.width, 2)) + "\n";
  std::size_t widest = !status.teardown.empty() ? 8 : status.unseen.empty() ? 6 : 7;
  for (const auto& certificate : status.certificates)
    widest = std::max(widest, columns(certificate.name));
  // `wrap` makes one blank of many: the name in front is not its business.
  const auto say = [&](const std::string& name, const std::string& told, bool bad = false) {
    const std::size_t indent = widest + 2;
    const std::size_t room = style.width > indent + 20 ? style.width - indent : 20;
    const std::string line = pad(name, indent) + wrap(told, room, indent);
    out += (bad ? ink(style, Ink::Red, line) : line) + "\n";
  };
  if (!status.unseen.empty()) say("Proxmox", "could not be asked: " + status.unseen, true);
  if (!status.teardown.empty()) say("teardown", status.teardown, true);
  if (!status.vip.empty())
    say("VIP", fmt::format("{}, {}", status.vip,
                           status.vip_owner.empty() ? "nobody has it"
                                                    : "held by " + status.vip_owner + " (*)"));
  say("etcd", or_dash(status.etcd));
  for (const auto& certificate : status.certificates)
    say(certificate.name, expiry(certificate.expires, now), certificate.expires < now);
  say("backup", status.last_backup ? ago(*status.last_backup, now) : "never");
  if (status.held_by)
    say("lock", fmt::format("held by {} for `{}` since {}", status.held_by->who,
                            status.held_by->doing, ago(status.held_by->since, now)));
  if (status.flux) say("Flux", status.flux->told, !status.flux->ready);
  const bool usable = status.use && status.use->usable;
  if (status.use) say("use", (usable ? "" : "not seen: ") + status.use->told);
  // Those of nodes are above.
  for (const std::string& problem : status.problems) {
    const bool of_a_node =
        std::any_of(status.nodes.begin(), status.nodes.end(), [&](const NodeStatus& node) {
          return !node.problem.empty() && problem == node.name + ": " + node.problem;
        });
    if (!of_a_node && !problem.starts_with("teardown: ") && !problem.starts_with("Proxmox: "))
      out += ink(style, Ink::Red, wrap(problem, style.width, 2)) + "\n";
  }
  out += status.healthy ? ink(style, Ink::Green,
                              fmt::format("Cluster {} is healthy{}.", visible(status.cluster),
                                          usable ? " and usable" : ""))
                        : ink(style, Ink::Red,
                              fmt::format("Cluster {} is not healthy.", visible(status.cluster)));
  return out + "\n";
}

Value to_value(const ClusterStatus& status) {
  Value out = Value::map();
  out.set("cluster", Value::string(status.cluster));
  out.set("healthy", Value::boolean(status.healthy));
  if (!status.problems.empty()) {
    Value problems = Value::list();
    for (const std::string& problem : status.problems) problems.append(Value::string(problem));
    out.set("problems", std::move(problems));
  }
  if (!status.unseen.empty()) out.set("unseen", Value::string(status.unseen));
  if (!status.teardown.empty()) out.set("teardown", Value::string(status.teardown));
  Value nodes = Value::list();
  for (const NodeStatus& node : status.nodes) {
    Value one = Value::map();
    one.set("name", Value::string(node.name));
    one.set("role", Value::string(node.role));
    one.set("machine", Value::string(node.machine));
    one.set("power", Value::string(node.power));
    one.set("address", Value::string(node.address));
    one.set("talos", Value::string(node.talos));
    one.set("kubernetes", Value::string(node.kubernetes));
    one.set("stage", Value::string(node.stage));
    one.set("etcd", Value::string(node.etcd));
    one.set("vip", Value::boolean(node.has_vip));
    one.set("healthy", Value::boolean(node.healthy));
    if (!node.problem.empty()) one.set("problem", Value::string(node.problem));
    nodes.append(std::move(one));
  }
  out.set("nodes", std::move(nodes));
  out.set("vip", Value::string(status.vip));
  out.set("vipOwner", Value::string(status.vip_owner));
  out.set("etcd", Value::string(status.etcd));
  Value certificates = Value::map();
  for (const auto& certificate : status.certificates)
    certificates.set(certificate.name, Value::string(to_string(certificate.expires)));
  out.set("certificates", std::move(certificates));
  if (status.flux) {
    Value flux = Value::map();
    flux.set("ready", Value::boolean(status.flux->ready));
    flux.set("told", Value::string(status.flux->told));
    out.set("flux", std::move(flux));
  }
  if (status.use) {
    out.set("usable", Value::boolean(status.use->usable));
    out.set("use", Value::string(status.use->told));
  }
  if (status.last_backup) out.set("lastBackup", Value::string(to_string(*status.last_backup)));
  if (status.held_by) {
    Value lock = Value::map();
    lock.set("who", Value::string(status.held_by->who));
    lock.set("doing", Value::string(status.held_by->doing));
    lock.set("since", Value::string(to_string(status.held_by->since)));
    out.set("lock", std::move(lock));
  }
  return out;
}

std::string render(const std::vector<resources::Drift>& drifts,
                   const std::vector<std::string>& by_spec, const std::string& cluster_name,
                   Instant now, const Style& style) {
  const std::string cluster = visible(cluster_name);
  std::string out;
  std::size_t open = 0;
  std::size_t ignored = 0;
  std::size_t unread = 0;
  std::size_t healed = 0;  // those that `up` puts right
  const auto say = [&](const char* name, const std::string& told) {
    out += fmt::format("    {:<8}  {}\n", name,
                       wrap(told, std::max<std::size_t>(style.width, 60) - 14, 14));
  };
  for (const resources::Drift& drift : drifts) {
    if (drift.ignored) {
      ++ignored;
      continue;
    }
    if (drift.unread) {
      ++unread;
      out += fmt::format("{} {}\n", ink(style, Ink::Red, "?"),
                         ink(style, Ink::Bold, visible(drift.address)));
      out += "    " + wrap(drift.unsure, std::max<std::size_t>(style.width, 60) - 4, 4) + "\n";
      continue;
    }
    ++open;
    out += fmt::format("{} {}  {}\n", ink(style, Ink::Yellow, drift.unsure.empty() ? "~" : "?"),
                       ink(style, Ink::Bold, visible(drift.address)), visible(drift.field));
    out += fmt::format("    declared  {}\n    found     {}\n", or_dash(drift.declared),
                       or_dash(drift.found));
    if (!drift.unsure.empty()) say("whose", "that cannot be told: " + drift.unsure);
    if (!drift.by.empty()) {
      out += fmt::format("    by        {}{}", drift.perhaps.empty() ? "" : "perhaps ",
                         visible(drift.by));
      if (drift.since)
        out += fmt::format(", {} ({})", to_string(*drift.since), ago(*drift.since, now));
      out += "\n";
      if (!drift.perhaps.empty()) say("", drift.perhaps);
      if (!drift.task.empty()) out += fmt::format("    task      {}\n", visible(drift.task));
    } else if (drift.unsure.empty()) {
      out += "    by        nobody that the task log names\n";
    }
    if (!drift.refusal.empty())
      say("up", "refuses to put it right: " + drift.refusal);
    else if (drift.waits)
      out += "    up        waits for it and changes nothing\n";
    else
      ++healed;
    if (drift.effect != engine::Effect::None && !drift.waits)
      out +=
          fmt::format("    putting it right is of the class {}\n", engine::to_string(drift.effect));
  }
  if (ignored > 0) out += fmt::format("{} ignored.\n", plural(ignored, "difference"));
  const std::string asked =
      by_spec.empty()
          ? ""
          : fmt::format(
                "{} differ{} because the spec asks for something else than what was last "
                "applied: `rocca plan` shows it.\n",
                plural(by_spec.size(), "thing"), by_spec.size() == 1 ? "s" : "");
  const std::string silent =
      unread == 0
          ? ""
          : fmt::format("{} could not be read: nobody knows whether {}.\n", plural(unread, "thing"),
                        unread == 1 ? "it differs" : "they differ");
  if (open == 0 && unread > 0)
    return out + fmt::format("\nNo drift in what could be read of cluster {}.\n", cluster) +
           silent + asked;
  if (open == 0 && by_spec.empty())
    return out + fmt::format("No drift: cluster {} is as declared.\n", cluster);
  if (open == 0)
    return out + fmt::format("No drift: nobody has changed cluster {}.\n", cluster) + asked;
  out += fmt::format("\n{} differ{} from the spec.", plural(open, "value"), open == 1 ? "s" : "");
  if (healed > 0)
    out += fmt::format(
        " `rocca up` puts {} right, `rocca drift accept` writes {} into the spec, "
        "`rocca drift ignore` leaves {}.",
        healed < open ? fmt::format("{} of them", healed)
        : open == 1   ? "it"
                      : "them",
        open == 1 ? "it" : "them", open == 1 ? "it" : "them");
  out += "\n";
  return out + silent + asked;
}

Value to_value(const std::vector<resources::Drift>& drifts) {
  Value out = Value::list();
  for (const resources::Drift& drift : drifts) {
    Value one = Value::map();
    one.set("address", Value::string(drift.address));
    one.set("field", Value::string(drift.field));
    one.set("declared", Value::string(drift.declared));
    one.set("found", Value::string(drift.found));
    one.set("effect", Value::string(engine::to_string(drift.effect)));
    if (drift.waits) one.set("waits", Value::boolean(true));
    if (!drift.refusal.empty()) one.set("refusal", Value::string(drift.refusal));
    if (!drift.unsure.empty()) one.set("unsure", Value::string(drift.unsure));
    one.set("unread", Value::boolean(drift.unread));
    if (!drift.by.empty()) one.set("by", Value::string(drift.by));
    if (!drift.perhaps.empty()) one.set("perhaps", Value::string(drift.perhaps));
    if (!drift.task.empty()) one.set("task", Value::string(drift.task));
    if (drift.since) one.set("since", Value::string(to_string(*drift.since)));
    one.set("ignored", Value::boolean(drift.ignored));
    out.append(std::move(one));
  }
  return out;
}

std::string render_history(const state::State& state, Instant now, const Style& style) {
  std::string out =
      fmt::format("Cluster {}, write {} of its state.\n", visible(state.cluster), state.serial);
  if (state.bootstrapped)
    out += fmt::format("etcd was bootstrapped on {}.\n", to_string(*state.bootstrapped));
  std::vector<std::pair<std::string, const state::Item*>> items;
  for (const auto& [address, item] : state.items) items.emplace_back(address, &item);
  std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) {
    return a.second->settled.value_or(Instant::max()) < b.second->settled.value_or(Instant::max());
  });
  Table table{{"WHEN", "THING", ""}};
  for (const auto& [address, item] : items)
    table.add({item->settled ? ago(*item->settled, now) : "-", address,
               item->receipt.empty() ? "" : "an act was begun and its end was not seen"});
  if (!items.empty()) out += "\n" + table.render(style);
  if (!state.durations.empty()) {
    Table lasting{{"STEP", "TAKES"}};
    for (const auto& [step, took] : state.durations) lasting.add({step, to_rough_string(took)});
    out += "\n" + lasting.render(style);
  }
  return out;
}

Value history_value(const state::State& state) {
  Value out = Value::map();
  out.set("cluster", Value::string(state.cluster));
  out.set("serial", Value::unsigned_integer(state.serial));
  if (state.bootstrapped) out.set("bootstrapped", Value::string(to_string(*state.bootstrapped)));
  Value items = Value::map();
  for (const auto& [address, item] : state.items) {
    Value one = Value::map();
    if (item.settled) one.set("settled", Value::string(to_string(*item.settled)));
    Value facts = Value::map();
    for (const auto& [name, fact] : item.facts) facts.set(name, Value::string(fact));
    one.set("facts", std::move(facts));
    items.set(address, std::move(one));
  }
  out.set("things", std::move(items));
  Value durations = Value::map();
  for (const auto& [step, took] : state.durations)
    durations.set(step, Value::floating(std::chrono::duration<double>(took).count()));
  out.set("durationsSeconds", std::move(durations));
  return out;
}

}  // namespace rocca::report
