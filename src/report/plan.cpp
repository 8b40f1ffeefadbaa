#include "report/plan.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "base/visible.hpp"
#include "text/json.hpp"
#include "text/valid.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::report {

namespace {

using engine::Action;
using engine::Planned;
using text::Value;

constexpr std::uint64_t plan_format = 1;

Ink ink_of(Action action) {
  switch (action) {
    case Action::Create:
      return Ink::Green;
    case Action::Destroy:
    case Action::Replace:
      return Ink::Red;
    case Action::Update:
      return Ink::Yellow;
    case Action::None:
      break;
  }
  return Ink::Dim;
}

const char* verb_of(Action action) {
  switch (action) {
    case Action::Create:
      return "create";
    case Action::Update:
      return "change";
    case Action::Replace:
      return "replace";
    case Action::Destroy:
      return "destroy";
    case Action::None:
      break;
  }
  return "wait";
}

std::string shown(const std::string& value) {
  return value.empty() ? "(nothing)" : visible(value);
}

/// What it costs is said of every change of something that is there; to make something new costs
/// nobody anything.
bool says_effect(Action action, engine::Effect effect) {
  return effect > engine::Effect::Live ||
         (effect == engine::Effect::Live && action != Action::Create && action != Action::None);
}

void render_fields(std::string& out, Action action, const std::vector<engine::FieldChange>& fields,
                   const Style& style) {
  std::size_t widest = 0;
  for (const auto& field : fields) widest = std::max(widest, columns(field.field));
  widest = std::min<std::size_t>(widest, 28);
  for (const auto& field : fields) {
    out += "        " + pad(field.field, widest) + "  ";
    if (field.before.empty())
      out += shown(field.after);
    else
      out += ink(style, Ink::Dim, shown(field.before)) + " → " + shown(field.after);
    if (says_effect(action, field.effect))
      out += ink(style, field.effect > engine::Effect::Live ? Ink::Yellow : Ink::Dim,
                 fmt::format("  ({})", engine::to_string(field.effect)));
    out += "\n";
  }
}

void render_step(std::string& out, const Planned& step, const Style& style) {
  const engine::Change& change = step.change;
  const bool refused = !change.refusal.empty();
  const std::string sign = refused ? "!" : engine::sign_of(change.action);
  out += fmt::format(
      "{} {}", ink(style, refused ? Ink::Red : ink_of(change.action), fmt::format("{:>3}", sign)),
      ink(style, Ink::Bold, visible(step.address)));
  std::vector<std::string> tail = {verb_of(change.action)};
  if (says_effect(change.action, change.effect))
    tail.emplace_back(engine::to_string(change.effect));
  if (step.estimate) tail.push_back("about " + to_rough_string(*step.estimate));
  out += ink(style, Ink::Dim, "  " + join(tail, ", "));
  if (!step.place.empty()) out += ink(style, Ink::Dim, "  " + visible(step.place));
  out += "\n";
  const std::size_t width = std::max<std::size_t>(style.width, 60);
  if (!change.reason.empty())
    out += "      " + wrap("because " + change.reason, width - 6, 6) + "\n";
  render_fields(out, change.action, change.fields, style);
  if (refused) {
    out += "      " + ink(style, Ink::Red, wrap("refused: " + change.refusal, width - 6, 6)) + "\n";
    if (!change.hint.empty()) out += "      " + wrap("hint: " + change.hint, width - 6, 6) + "\n";
  }
  if (!step.turn.empty()) out += "      " + ink(style, Ink::Dim, visible(step.turn)) + "\n";
  if (!step.needs.empty())
    out += "      " + ink(style, Ink::Dim, wrap("after " + enumerate(step.needs), width - 6, 6)) +
           "\n";
}

Value texts(const std::vector<std::string>& list) {
  Value out = Value::list();
  for (const std::string& item : list) out.append(Value::string(item));
  return out;
}

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

Value to_value(const Planned& step) {
  Value out = Value::map();
  out.set("address", Value::string(step.address));
  out.set("action", Value::string(engine::to_string(step.change.action)));
  out.set("effect", Value::string(engine::to_string(step.change.effect)));
  out.set("reason", Value::string(step.change.reason));
  if (!step.place.empty()) out.set("place", Value::string(step.place));
  if (!step.id.empty()) out.set("id", Value::string(step.id));
  Value fields = Value::list();
  for (const auto& field : step.change.fields) {
    Value one = Value::map();
    one.set("field", Value::string(field.field));
    one.set("before", Value::string(field.before));
    one.set("after", Value::string(field.after));
    one.set("effect", Value::string(engine::to_string(field.effect)));
    fields.append(std::move(one));
  }
  out.set("fields", std::move(fields));
  out.set("needs", texts(step.needs));
  if (!step.turn.empty()) out.set("turn", Value::string(step.turn));
  if (!step.change.refusal.empty()) {
    out.set("refusal", Value::string(step.change.refusal));
    if (!step.change.hint.empty()) out.set("hint", Value::string(step.change.hint));
  }
  if (step.estimate) out.set("estimateSeconds", Value::floating(seconds(*step.estimate)));
  return out;
}

}  // namespace

std::string summary_line(const engine::Plan& plan) {
  const engine::Summary& sum = plan.summary;
  std::string out =
      fmt::format("Plan: {} to create, {} to change, {} to replace, {} to destroy; {} unchanged",
                  sum.create, sum.update, sum.replace, sum.destroy, sum.unchanged);
  if (sum.refused > 0) out += fmt::format("; {} refused", sum.refused);
  if (!plan.failed.empty()) out += fmt::format("; {} could not be read", plan.failed.size());
  out += ".";
  if (plan.estimate && !plan.steps.empty())
    out += " About " + to_rough_string(*plan.estimate) + ".";
  return out;
}

std::string render_kept(const engine::Plan& plan, const Style& style) {
  std::string out;
  for (const auto& [address, why] : plan.kept) {
    out += fmt::format("{} {}{}\n", ink(style, Ink::Dim, "  ="),
                       ink(style, Ink::Bold, visible(address)), ink(style, Ink::Dim, "  keep"));
    out += "      " + wrap("because " + why, std::max<std::size_t>(style.width, 60) - 6, 6) + "\n";
  }
  return out;
}

std::string render(const engine::Plan& plan, const Style& style) {
  std::string out;
  if (!plan.notice.empty())
    out += ink(style, Ink::Yellow, wrap(plan.notice, std::max<std::size_t>(style.width, 60), 0)) +
           "\n\n";
  for (const Planned& step : plan.steps) render_step(out, step, style);
  for (const auto& [address, why] : plan.failed) {
    out += fmt::format("{} {}\n", ink(style, Ink::Red, "  ?"),
                       ink(style, Ink::Bold, visible(address)));
    out += "      " + wrap("it could not be read: " + why, style.width - 6, 6) + "\n";
  }
  out += render_kept(plan, style);
  if (plan.empty())
    return out + fmt::format("No changes. Cluster {} matches its spec ({} checked).\n",
                             visible(plan.cluster), plural(plan.summary.unchanged, "resource"));
  out += "\n" + ink(style, Ink::Bold, summary_line(plan)) + "\n";
  if (plan.effect > engine::Effect::Live)
    out += fmt::format("Worst effect: {}.\n", engine::to_string(plan.effect));
  return out;
}

Value to_value(const engine::Plan& plan) {
  Value out = Value::map();
  out.set("cluster", Value::string(plan.cluster));
  if (!plan.notice.empty()) out.set("notice", Value::string(plan.notice));
  out.set("empty", Value::boolean(plan.empty()));
  Value sum = Value::map();
  const auto count = [&](const char* name, unsigned number) {
    sum.set(name, Value::integer(number));
  };
  count("create", plan.summary.create);
  count("update", plan.summary.update);
  count("replace", plan.summary.replace);
  count("destroy", plan.summary.destroy);
  count("unchanged", plan.summary.unchanged);
  count("refused", plan.summary.refused);
  count("unread", static_cast<unsigned>(plan.failed.size()));
  out.set("summary", std::move(sum));
  out.set("effect", Value::string(engine::to_string(plan.effect)));
  Value steps = Value::list();
  for (const Planned& step : plan.steps) steps.append(to_value(step));
  out.set("steps", std::move(steps));
  Value failed = Value::map();
  for (const auto& [address, why] : plan.failed) failed.set(address, Value::string(why));
  out.set("failed", std::move(failed));
  if (!plan.kept.empty()) {
    Value kept = Value::map();
    for (const auto& [address, why] : plan.kept) kept.set(address, Value::string(why));
    out.set("kept", std::move(kept));
  }
  if (plan.estimate) out.set("estimateSeconds", Value::floating(seconds(*plan.estimate)));
  out.set("boundTo", Value::string(plan.bound_to));
  return out;
}

Value to_value(const engine::Plan& plan, const resources::ClusterOverview& cluster) {
  Value out = to_value(plan);
  out.set("talos", Value::string(cluster.talos));
  out.set("kubernetes", Value::string(cluster.kubernetes));
  if (!cluster.vip.empty()) out.set("vip", Value::string(cluster.vip));
  Value nodes = Value::list();
  for (const resources::NodeOverview& node : cluster.nodes) {
    Value one = Value::map();
    one.set("name", Value::string(node.name));
    one.set("role", Value::string(node.control_plane ? "controlplane" : "worker"));
    one.set("existing", Value::boolean(node.existing));
    if (node.vmid != 0) one.set("vmid", Value::unsigned_integer(node.vmid));
    if (!node.host.empty()) one.set("host", Value::string(node.host));
    if (!node.address.empty()) one.set("address", Value::string(node.address));
    if (node.cores != 0) one.set("cores", Value::unsigned_integer(node.cores));
    if (node.memory != Bytes{})
      one.set("memoryBytes", Value::unsigned_integer(node.memory.count()));
    Value disks = Value::list();
    for (const auto& disk : node.disks) {
      Value item = Value::map();
      item.set("name", Value::string(disk.name));
      item.set("sizeBytes", Value::unsigned_integer(disk.size.count()));
      if (!disk.storage.empty()) item.set("storage", Value::string(disk.storage));
      disks.append(std::move(item));
    }
    one.set("disks", std::move(disks));
    one.set("macs", texts(node.macs));
    nodes.append(std::move(one));
  }
  out.set("nodes", std::move(nodes));
  return out;
}

std::string plan_file(const engine::Plan& plan, const PlanFile& head) {
  Value out = Value::map();
  out.set("kind", Value::string("rocca plan"));
  out.set("format", Value::unsigned_integer(plan_format));
  out.set("rocca", Value::string(head.rocca));
  out.set("made", Value::string(head.made));
  out.set("targets", texts(head.targets));
  out.set("allowed", texts(head.allowed));
  out.set("plan", to_value(plan));
  return text::emit_json(text::with_valid_text(std::move(out)), {.pretty = true}) + "\n";
}

PlanFile read_plan_file(std::string_view text, const std::string& name) {
  const auto wrong = [&](const std::string& why) {
    return Error(Fault::Usage, fmt::format("{} is no plan file: {}", name, why))
        .hint("`rocca plan --out FILE` writes one");
  };
  Value root;
  try {
    root = text::parse_json(text, name);
  } catch (const Error& error) {
    throw wrong(error.message());
  }
  const auto text_at = [&](std::initializer_list<std::string_view> path) -> std::string {
    const Value* found = root.find(path);
    if (found == nullptr || found->as_string() == nullptr)
      throw wrong(fmt::format("it has no text at '{}'", fmt::join(path, ".")));
    return *found->as_string();
  };
  const auto list_at = [&](std::string_view key) {
    std::vector<std::string> out;
    if (const Value* found = root.find(key))
      for (const Value& item : found->items()) out.push_back(item.text());
    return out;
  };
  if (text_at({"kind"}) != "rocca plan") throw wrong("it is of another kind");
  const Value* format = root.find("format");
  if (format == nullptr || format->as_uint() != plan_format)
    throw Error(Fault::Refused,
                fmt::format("{} was written by rocca {}, whose plan files this one does not read",
                            name, text_at({"rocca"})))
        .hint("make the plan again with this rocca");
  return {.cluster = text_at({"plan", "cluster"}),
          .rocca = text_at({"rocca"}),
          .bound_to = text_at({"plan", "boundTo"}),
          .made = text_at({"made"}),
          .targets = list_at("targets"),
          .allowed = list_at("allowed")};
}

}  // namespace rocca::report
