#include "report/glance.hpp"

#include "base/strings.hpp"
#include "base/units.hpp"
#include "base/visible.hpp"
#include "report/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace rocca::report {

namespace {

using engine::Action;
using engine::Effect;
using engine::Planned;
using resources::ClusterOverview;
using resources::NodeOverview;

std::string kind_of(const std::string& address) {
  return address.substr(0, address.find('/'));
}
std::string name_of(const std::string& address) {
  const auto slash = address.find('/');
  return slash == std::string::npos ? "" : address.substr(slash + 1);
}

bool is_of_a_node(const std::string& kind) {
  static const std::set<std::string> kinds = {"vm", "machine", "member", "prepared", "media"};
  return kinds.contains(kind);
}

/// `8 GiB`, `512 MiB`: a blank before the unit.
std::string amount(Bytes bytes) {
  std::string text = to_string(bytes);
  const auto unit = text.find_first_not_of("0123456789.");
  return unit == std::string::npos ? text : text.substr(0, unit) + " " + text.substr(unit);
}

const char* cost_of(Effect effect) {
  switch (effect) {
    case Effect::None:
      return "";
    case Effect::Live:
      return "live";
    case Effect::Service:
      return "restarts a service";
    case Effect::Reboot:
      return "reboot";
    case Effect::PowerCycle:
      return "power cycle";
    case Effect::Replace:
      return "replace";
    case Effect::DataLoss:
      return "DATA LOSS";
  }
  return "";
}

Ink ink_of(Effect effect) {
  return effect >= Effect::Replace ? Ink::Red : effect > Effect::Live ? Ink::Yellow : Ink::Dim;
}

/// `cp-1, worker-1 … worker-4`: names that count on are one range.
std::string folded(const std::vector<std::string>& names) {
  const auto split = [](const std::string& name) {
    std::size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    const std::string number = name.substr(digits);
    return std::pair{name.substr(0, digits),
                     number.empty() || number.size() > 9 ? -1L : std::stol(number)};
  };
  std::vector<std::string> out;
  for (std::size_t i = 0; i < names.size();) {
    std::size_t last = i;
    const auto [stem, first] = split(names[i]);
    while (first >= 0 && last + 1 < names.size() &&
           split(names[last + 1]) == std::pair{stem, first + static_cast<long>(last + 1 - i)})
      ++last;
    if (last - i >= 2) {
      out.push_back(names[i] + " … " + names[last]);
      i = last + 1;
    } else {
      out.push_back(names[i++]);
    }
  }
  return join(out, ", ");
}

struct Row {
  const char* sign;
  Ink colour;
  std::vector<std::string> cells;
};

/// Left-aligned columns, except the numbers; a table that is too wide for the terminal shows its
/// last two columns in a line of their own below each row.
std::string table(const std::vector<std::string>& titles, const std::vector<Row>& rows,
                  const std::set<std::size_t>& numbers, const Style& style) {
  std::vector<std::size_t> widths(titles.size());
  for (std::size_t i = 0; i < titles.size(); ++i) {
    widths[i] = columns(titles[i]);
    for (const Row& row : rows) widths[i] = std::max(widths[i], columns(row.cells[i]));
  }
  std::size_t all = 4;
  for (std::size_t i = 0; i < widths.size(); ++i) all += widths[i] + (i > 0 ? 2 : 0);
  const bool folds = all > style.width && titles.size() > 2;
  const std::size_t shown = folds ? titles.size() - 2 : titles.size();
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t i = 0; i < shown; ++i) {
      const std::string blanks(widths[i] - std::min(widths[i], columns(cells[i])), ' ');
      if (i > 0) text += "  ";
      if (numbers.contains(i))
        text += blanks + cells[i];
      else
        text += i + 1 < shown ? cells[i] + blanks : cells[i];
    }
    return text;
  };
  std::string out = "    " + ink(style, Ink::Dim, line(titles)) + "\n";
  for (const Row& row : rows) {
    out += ink(style, row.colour, fmt::format("{:>3}", row.sign)) + " " + line(row.cells) + "\n";
    if (!folds) continue;
    std::vector<std::string> rest;
    for (std::size_t i = shown; i < row.cells.size(); ++i)
      if (!row.cells[i].empty()) rest.push_back(row.cells[i]);
    if (!rest.empty()) out += ink(style, Ink::Dim, "      " + join(rest, "  ")) + "\n";
  }
  return out;
}

std::string machine_of(const NodeOverview& node) {
  if (node.existing) return "existing";
  if (node.vmid == 0) return "not chosen yet";
  return fmt::format("{} on {}", node.vmid, visible(node.host));
}

Row row_of(const NodeOverview& node, const char* sign, Ink colour) {
  std::vector<std::string> disks;
  for (const auto& disk : node.disks) disks.push_back(visible(disk.name) + " " + amount(disk.size));
  return {sign,
          colour,
          {node.name, node.control_plane ? "control plane" : "worker", machine_of(node),
           node.address.empty() ? "DHCP" : node.address,
           node.cores == 0 ? "" : std::to_string(node.cores),
           node.memory == Bytes{} ? "" : amount(node.memory), join(disks, ", "),
           join(node.macs, ", ")}};
}

/// A value as people write it.
std::string shown(const std::string& field, const std::string& value) {
  if (value.empty()) return "none";
  const bool number =
      value.find_first_not_of("0123456789") == std::string::npos && value.size() < 12;
  if (number && (field == "memory" || field == "memory.pending" || field == "balloon"))
    return amount(Bytes::mib(std::stoull(value)));
  // A list of lines or a long text is one word here; --steps has it.
  std::string text = visible(value);
  return columns(text) > 40 ? fit(text, 40) : text;
}

std::string shown(const engine::FieldChange& change) {
  std::string name = visible(change.field);
  std::string when;
  if (const std::string pending = ".pending";
      name.size() > pending.size() && name.ends_with(pending)) {
    name.resize(name.size() - pending.size());
    when = " (at next start)";
  }
  return fmt::format("{} {} → {}{}", name, shown(change.field, change.before),
                     shown(change.field, change.after), when);
}

struct Totals {
  unsigned created = 0, changed = 0, destroyed = 0;
  std::uint64_t cores = 0;
  Bytes memory{};
  Bytes disks{};
};

class Glance {
 public:
  Glance(const engine::Plan& plan, const ClusterOverview& cluster, const Style& style)
      : plan_(plan),
        cluster_(cluster),
        style_(style),
        width_(std::max<std::size_t>(style.width, 60)) {
    for (const Planned& step : plan.steps)
      if (is_of_a_node(kind_of(step.address))) of_node_[name_of(step.address)].push_back(&step);
    for (const auto& [address, why] : plan.failed)
      if (is_of_a_node(kind_of(address))) silent_.emplace(name_of(address), why);
  }

  std::string text() {
    std::string body;
    for (const std::string& part : {nodes(), changes(), cluster_wide(), silent(), refusals()})
      if (!part.empty()) body += (body.empty() ? "" : "\n") + part;
    std::string out;
    if (!plan_.notice.empty())
      out += ink(style_, Ink::Yellow, wrap(plan_.notice, width_, 0)) + "\n\n";
    if (!body.empty()) out += ink(style_, Ink::Bold, headline()) + "\n\n" + body + "\n";
    out += render_kept(plan_, style_);
    return out + summary();
  }

 private:
  const NodeOverview* find(const std::string& name) const {
    for (const NodeOverview& node : cluster_.nodes)
      if (node.name == name) return &node;
    return nullptr;
  }

  const Planned* step_of(const std::string& node, const char* kind) const {
    const auto steps = of_node_.find(node);
    if (steps == of_node_.end()) return nullptr;
    for (const Planned* step : steps->second)
      if (kind_of(step->address) == kind) return step;
    return nullptr;
  }

  /// What is done to the machine of a node: its VM, or the configuration of one that was there.
  Action action_of(const std::string& node) const {
    const Planned* vm = step_of(node, "vm");
    const Planned* machine = step_of(node, "machine");
    if (vm != nullptr && vm->change.action != Action::None) return vm->change.action;
    if (machine != nullptr && vm == nullptr && machine->change.action != Action::Update)
      return machine->change.action;
    return Action::None;
  }

  bool is_whole(Action action) const {
    return action == Action::Create || action == Action::Replace || action == Action::Destroy;
  }

  std::string headline() const {
    unsigned created = 0;
    for (const auto& [name, steps] : of_node_)
      created += action_of(name) == Action::Create ? 1U : 0U;
    std::string out = visible(plan_.cluster);
    if (created > 0) out += fmt::format(": {}", plural(created, "new node"));
    if (!cluster_.talos.empty())
      out += fmt::format("{} Talos {}, Kubernetes {}", created > 0 ? "," : ":", cluster_.talos,
                         cluster_.kubernetes);
    return out;
  }

  std::string nodes() {
    std::vector<Row> rows;
    std::set<std::string> listed;
    for (const NodeOverview& node : cluster_.nodes) {
      const Action action = action_of(node.name);
      if (!is_whole(action)) continue;
      listed.insert(node.name);
      const bool gone = action == Action::Destroy;
      rows.push_back(
          row_of(node, engine::sign_of(action), action == Action::Create ? Ink::Green : Ink::Red));
      if (gone) {
        ++totals_.destroyed;
        continue;
      }
      ++totals_.created;
      if (action == Action::Replace) ++totals_.destroyed;
      totals_.cores += node.cores;
      totals_.memory = totals_.memory + node.memory;
      for (const auto& disk : node.disks) totals_.disks = totals_.disks + disk.size;
    }
    std::string out =
        rows.empty() ? ""
                     : table({"NODE", "ROLE", "VM", "ADDRESS", "CORES", "MEMORY", "DISKS", "MAC"},
                             rows, {4, 5}, style_);
    for (const NodeOverview& node : cluster_.nodes)
      if (const Planned* vm = step_of(node.name, "vm");
          vm != nullptr && vm->change.action == Action::Replace) {
        std::vector<std::string> fields;
        for (const engine::FieldChange& field : vm->change.fields) fields.push_back(shown(field));
        out += "      " +
               wrap(fmt::format("{} is replaced: {}", node.name,
                                fields.empty() ? vm->change.reason : join(fields, ", ")),
                    width_ - 6, 6) +
               "\n";
      }
    // What the spec no longer names: the plan alone knows it.
    for (const auto& [name, steps] : of_node_) {
      if (listed.contains(name) || action_of(name) != Action::Destroy) continue;
      ++totals_.destroyed;
      const Planned* step = step_of(name, "vm") != nullptr ? step_of(name, "vm") : steps.front();
      out += fmt::format("{} {}{}  {}  {}\n", ink(style_, Ink::Red, "  -"),
                         ink(style_, Ink::Bold, visible(name)),
                         step->id.empty() ? "" : "  VM " + visible(step->id),
                         ink(style_, ink_of(step->change.effect), cost_of(step->change.effect)),
                         visible(step->change.reason));
    }
    return out;
  }

  /// Steps of nodes that stay: alike ones in one line.
  std::string changes() {
    struct Line {
      std::string what;
      Effect effect;
      std::string place;
      std::vector<std::string> names;
    };
    std::vector<Line> lines;
    std::set<std::string> changed;
    const auto add = [&](const std::string& node, const std::string& what, Effect effect,
                         const std::string& place) {
      changed.insert(node);
      const auto same = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
        return line.what == what && line.effect == effect;
      });
      if (same == lines.end())
        lines.push_back({what, effect, place, {node}});
      else if (std::find(same->names.begin(), same->names.end(), node) == same->names.end())
        same->names.push_back(node);
    };
    std::vector<std::string> order;
    for (const NodeOverview& node : cluster_.nodes) order.push_back(node.name);
    for (const auto& [name, steps] : of_node_)
      if (find(name) == nullptr) order.push_back(name);
    for (const std::string& name : order) {
      const auto steps = of_node_.find(name);
      if (steps == of_node_.end() || is_whole(action_of(name))) continue;
      for (const Planned* step : steps->second) {
        const engine::Change& change = step->change;
        if (change.fields.empty()) add(name, visible(change.reason), change.effect, step->place);
        for (const engine::FieldChange& field : change.fields)
          add(name, shown(field), field.effect, step->place);
      }
    }
    totals_.changed = static_cast<unsigned>(changed.size());
    std::string out;
    for (const Line& line : lines) {
      const std::string names = folded(line.names);
      const std::string cost = cost_of(line.effect);
      out += fmt::format("{} {}  {}{}\n", ink(style_, Ink::Yellow, "  ~"),
                         ink(style_, Ink::Bold, visible(names)), line.what,
                         cost.empty() ? "" : "  " + ink(style_, ink_of(line.effect), cost));
      if (!line.place.empty()) out += ink(style_, Ink::Dim, "      " + visible(line.place)) + "\n";
    }
    return out;
  }

  std::string cluster_wide() {
    static const std::map<std::string, std::string> titles = {
        {"image", "images"},  {"schematic", "schematics"}, {"bootstrap", "etcd"},
        {"vip", "VIP"},       {"access", "access"},        {"addon", "add-ons"},
        {"handover", "Flux"}, {"publish", "published"}};
    std::vector<std::pair<std::string, std::map<Action, std::vector<const Planned*>>>> groups;
    for (const Planned& step : plan_.steps) {
      const std::string kind = kind_of(step.address);
      if (is_of_a_node(kind)) continue;
      auto group = std::find_if(groups.begin(), groups.end(),
                                [&](const auto& one) { return one.first == kind; });
      if (group == groups.end()) group = groups.insert(groups.end(), {kind, {}});
      group->second[step.change.action].push_back(&step);
    }
    std::string out;
    for (const auto& [kind, by_action] : groups) {
      const auto title = titles.find(kind);
      for (const auto& [action, steps] : by_action)
        out += fmt::format("{} {}  {}\n",
                           ink(style_,
                               action == Action::Destroy  ? Ink::Red
                               : action == Action::Create ? Ink::Green
                                                          : Ink::Yellow,
                               fmt::format("{:>3}", engine::sign_of(action))),
                           pad(title == titles.end() ? kind : title->second, 10),
                           wrap(about(kind, action, steps), width_ - 16, 16));
    }
    return out;
  }

  std::string about(const std::string& kind, Action action,
                    const std::vector<const Planned*>& steps) const {
    std::vector<std::string> names;
    for (const Planned* step : steps) names.push_back(name_of(step->address));
    if (kind == "image") {
      std::map<std::string, unsigned> by_storage;
      for (const std::string& name : names) ++by_storage[name.substr(0, name.find('/'))];
      std::vector<std::string> parts;
      for (const auto& [storage, count] : by_storage)
        parts.push_back(fmt::format("{} on {}", count, storage));
      return join(parts, ", ");
    }
    if (kind == "schematic") return std::to_string(names.size());
    if (kind == "bootstrap" && action == Action::Create)
      for (const NodeOverview& node : cluster_.nodes)
        if (node.control_plane) return "starts on " + node.name;
    if (kind == "vip" && !cluster_.vip.empty()) return cluster_.vip;
    if (action == Action::Update || kind == "access" || kind == "handover") {
      std::vector<std::string> reasons;
      for (const Planned* step : steps)
        reasons.push_back(kind == "addon" ? name_of(step->address) + ": " + step->change.reason
                                          : step->change.reason);
      return join(reasons, "; ");
    }
    return join(names, ", ");
  }

  /// A node that does not answer is one line, whatever of it could not be read.
  std::string silent() const {
    std::string out;
    std::map<std::string, std::vector<std::string>> by_reason;
    for (const auto& [name, why] : silent_) by_reason[why].push_back(name);
    for (const auto& [why, names] : by_reason)
      out += fmt::format("{} {}  {}\n", ink(style_, Ink::Red, "  ?"),
                         ink(style_, Ink::Bold, visible(folded(names))),
                         wrap("cannot be read: " + why, width_ - 6, 6));
    for (const auto& [address, why] : plan_.failed)
      if (!is_of_a_node(kind_of(address)))
        out += fmt::format("{} {}  {}\n", ink(style_, Ink::Red, "  ?"),
                           ink(style_, Ink::Bold, visible(address)),
                           wrap("cannot be read: " + why, width_ - 6, 6));
    return out;
  }

  /// One line for each reason, with the flag that allows it.
  std::string refusals() const {
    std::map<std::pair<std::string, std::string>, std::vector<std::string>> by_reason;
    for (const Planned& step : plan_.steps)
      if (!step.change.refusal.empty()) {
        auto& names = by_reason[{step.change.refusal, step.change.hint}];
        const std::string name =
            is_of_a_node(kind_of(step.address)) ? name_of(step.address) : step.address;
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
    std::string out;
    for (const auto& [why, names] : by_reason) {
      out += ink(style_, Ink::Red, "  !") + " " +
             wrap(fmt::format("{}: refused: {}", folded(names), why.first), width_ - 4, 4) + "\n";
      if (!why.second.empty()) out += "    hint: " + visible(why.second) + "\n";
    }
    return out;
  }

  std::string summary() const {
    if (plan_.empty())
      return fmt::format("No changes. Cluster {} matches its spec ({} checked).\n",
                         visible(plan_.cluster), plural(plan_.summary.unchanged, "resource"));
    std::vector<std::string> parts;
    if (totals_.created > 0) {
      std::string made = fmt::format("Create {}", plural(totals_.created, "VM"));
      if (totals_.cores > 0)
        made += fmt::format(" ({}, {} memory, {} disks)", plural(totals_.cores, "core"),
                            amount(totals_.memory), amount(totals_.disks));
      parts.push_back(made);
    }
    if (totals_.changed > 0)
      parts.push_back(fmt::format("change {}", plural(totals_.changed, "node")));
    if (totals_.destroyed > 0)
      parts.push_back(fmt::format("destroy {}", plural(totals_.destroyed, "VM")));
    if (parts.empty()) parts.push_back("no VM is created or destroyed");
    std::string first = join(parts, "; ");
    first[0] =
        static_cast<char>(first[0] >= 'a' && first[0] <= 'z' ? first[0] - 'a' + 'A' : first[0]);
    first += ".";
    if (plan_.estimate && !plan_.steps.empty())
      first += " About " + to_rough_string(*plan_.estimate) + ".";
    if (plan_.effect > Effect::Live)
      first += fmt::format(" Worst effect: {}.", engine::to_string(plan_.effect));
    std::string out = ink(style_, Ink::Bold, wrap(first, width_, 0)) + "\n";
    std::string counts = plural(plan_.steps.size(), "step");
    if (plan_.summary.refused > 0) counts += fmt::format(", {} refused", plan_.summary.refused);
    if (!plan_.failed.empty()) counts += fmt::format(", {} not readable", plan_.failed.size());
    if (plan_.summary.unchanged > 0)
      counts += fmt::format(", {} unchanged", plural(plan_.summary.unchanged, "resource"));
    return out + counts + "; --steps shows each with its reason.\n";
  }

  const engine::Plan& plan_;
  const ClusterOverview& cluster_;
  const Style& style_;
  std::size_t width_;
  std::map<std::string, std::vector<const Planned*>> of_node_;
  std::map<std::string, std::string> silent_;  // node → why
  Totals totals_;
};

}  // namespace

std::string render_glance(const engine::Plan& plan, const ClusterOverview& cluster,
                          const Style& style) {
  return Glance{plan, cluster, style}.text();
}

}  // namespace rocca::report
