#include "state/state.hpp"

#include "base/error.hpp"
#include "base/units.hpp"
#include "state/format.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::state {

namespace {

using text::Value;

/// Keys that are empty are left out: most items have no receipt, and the text stays small.
void set_text(Value& map, std::string_view key, const std::string& text) {
  if (!text.empty()) map.set(key, Value::string(text));
}

void set_fields(Value& map, std::string_view key, const Fields& fields) {
  if (fields.empty()) return;
  Value& list = map.set(key, Value::map());
  for (const auto& [name, value] : fields) list.set(name, Value::string(value));
}

}  // namespace

Value to_value(const Item& item) {
  Value map = Value::map();
  set_fields(map, "facts", item.facts);
  set_text(map, "applied", item.applied);
  if (!item.needs.empty()) {
    Value& needs = map.set("needs", Value::list());
    for (const std::string& need : item.needs) needs.append(Value::string(need));
  }
  set_text(map, "receipt", item.receipt);
  if (item.settled) map.set("settled", Value::string(to_string(*item.settled)));
  return map;
}

Value to_value(const Teardown& teardown) {
  Value map = Value::map();
  map.set("since", Value::string(to_string(teardown.since)));
  Value& nodes = map.set("controlPlanes", Value::list());
  for (const std::string& node : teardown.control_planes) nodes.append(Value::string(node));
  if (teardown.reset_existing) map.set("resetExisting", Value::boolean(true));
  return map;
}

void Reader::fail(const Value& at, const std::string& message) const {
  throw Error(Fault::Usage,
              fmt::format("{}:{}:{}: {}", name_, at.place().line, at.place().column, message))
      .hint(damaged_hint);
}

Value parse_state_json(std::string_view text, const std::string& name) {
  try {
    return text::parse_json(text, name, large_limits());
  } catch (Error& error) {
    error.hint(damaged_hint);
    throw;
  }
}

void Reader::future(const std::string& what) const {
  throw Error(Fault::Refused, fmt::format("{} was written by a newer rocca: {}", name_, what))
      .hint("use that version, or a newer one, for this cluster");
}

void Reader::only(const Value& map, std::initializer_list<std::string_view> keys) const {
  if (!map.is_map())
    fail(map, fmt::format("expected a map, found {}", text::to_string(map.kind())));
  for (const text::Entry& entry : map.entries())
    if (std::find(keys.begin(), keys.end(), entry.key) == keys.end())
      future(fmt::format("it holds `{}`, which this one does not know", entry.key));
}

std::string Reader::text(const Value& map, std::string_view key) const {
  const Value* value = map.find(key);
  if (value == nullptr) return "";
  if (!value->is_string()) fail(*value, fmt::format("`{}` is no text", key));
  return value->text();
}

std::string Reader::needed(const Value& map, std::string_view key) const {
  std::string found = text(map, key);
  if (found.empty()) fail(map, fmt::format("`{}` is missing", key));
  return found;
}

std::uint64_t Reader::number(const Value& map, std::string_view key) const {
  const Value* value = map.find(key);
  if (value == nullptr) fail(map, fmt::format("`{}` is missing", key));
  const auto number = value->as_uint();
  if (!number) fail(*value, fmt::format("`{}` is no number", key));
  return *number;
}

std::optional<Instant> Reader::instant(const Value& map, std::string_view key) const {
  const std::string written = text(map, key);
  if (written.empty()) return std::nullopt;
  const auto instant = parse_instant(written);
  if (!instant) fail(*map.find(key), fmt::format("`{}` is no time", written));
  return instant;
}

Duration Reader::duration(const Value& at) const {
  const auto duration = at.is_string() ? parse_duration(at.text()) : std::nullopt;
  if (!duration) fail(at, fmt::format("`{}` is no duration", at.text()));
  return *duration;
}

Fields Reader::fields(const Value& map, std::string_view key) const {
  Fields fields;
  const Value* found = map.find(key);
  if (found == nullptr) return fields;
  if (!found->is_map()) fail(*found, fmt::format("`{}` is no map", key));
  for (const text::Entry& entry : found->entries()) {
    if (!entry.value.is_string()) fail(entry.value, fmt::format("`{}` is no text", entry.key));
    fields[entry.key] = entry.value.text();
  }
  return fields;
}

std::vector<std::string> Reader::texts(const Value& map, std::string_view key) const {
  std::vector<std::string> all;
  const Value* list = map.find(key);
  if (list == nullptr) return all;
  if (!list->is_list()) fail(*list, fmt::format("`{}` is no list", key));
  for (const Value& each : list->items()) {
    if (!each.is_string()) fail(each, fmt::format("`{}` holds something that is no text", key));
    all.push_back(each.text());
  }
  return all;
}

Teardown Reader::teardown(const Value& map) const {
  only(map, {"since", "controlPlanes", "resetExisting"});
  Teardown teardown;
  const auto since = instant(map, "since");
  if (!since) fail(map, "`since` is missing");
  teardown.since = *since;
  teardown.control_planes = texts(map, "controlPlanes");
  if (const Value* reset = map.find("resetExisting")) {
    const auto on = reset->as_bool();
    if (!on) fail(*reset, "`resetExisting` is neither true nor false");
    teardown.reset_existing = *on;
  }
  return teardown;
}

Item Reader::item(const Value& map) const {
  only(map, {"facts", "applied", "needs", "receipt", "settled"});
  Item item;
  item.facts = fields(map, "facts");
  item.applied = text(map, "applied");
  item.needs = texts(map, "needs");
  item.receipt = text(map, "receipt");
  item.settled = instant(map, "settled");
  return item;
}

void apply(State& state, const Record& record) {
  switch (record.kind) {
    case Record::Kind::Begun: {
      // What it was when it last settled stays: an act that began is not yet one that worked.
      Item& item = state.items[record.name];
      for (const auto& [name, value] : record.item.facts) item.facts[name] = value;
      if (!record.item.needs.empty()) item.needs = record.item.needs;
      item.receipt = record.item.receipt;
      break;
    }
    case Record::Kind::Settled: {
      Item& item = state.items[record.name] = record.item;
      if (!item.settled) item.settled = record.at;
      break;
    }
    case Record::Kind::Gone:
      state.items.erase(record.name);
      break;
    case Record::Kind::Bootstrapped:
      state.bootstrapped = record.at;
      break;
    case Record::Kind::Took:
      state.durations[record.name] = record.took;
      break;
    case Record::Kind::Note:
      if (record.value.empty()) {
        state.notes.erase(record.name);
      } else {
        state.notes[record.name] = record.value;
      }
      break;
    case Record::Kind::Teardown:
      state.teardown = record.teardown;
      break;
    case Record::Kind::Kept:
      state.teardown.reset();
      break;
  }
}

Record teardown_begun(Teardown teardown) {
  Record record;
  record.kind = Record::Kind::Teardown;
  record.at = teardown.since;
  record.teardown = std::move(teardown);
  return record;
}

Record teardown_cancelled(Instant now) {
  Record record;
  record.kind = Record::Kind::Kept;
  record.at = now;
  return record;
}

std::string to_text(const State& state) {
  Value root = Value::map();
  root.set("format", Value::unsigned_integer(State::format));
  // Top-level `serial` and `lineage` in Terraform's spelling: servers of its HTTP protocol read
  // them.
  root.set("serial", Value::unsigned_integer(state.serial));
  root.set("lineage", Value::string(state.lineage));
  set_text(root, "cluster", state.cluster);
  set_text(root, "clusterId", state.cluster_id);
  if (state.bootstrapped) root.set("bootstrapped", Value::string(to_string(*state.bootstrapped)));
  if (state.teardown) root.set("teardown", to_value(*state.teardown));
  Value& items = root.set("items", Value::map());
  items.entries().reserve(state.items.size());
  // Into the entries directly: set() would look for each name among all the others.
  for (const auto& [name, item] : state.items) {
    text::Entry entry;
    entry.key = name;
    entry.value = to_value(item);
    items.entries().push_back(std::move(entry));
  }
  if (!state.durations.empty()) {
    Value& durations = root.set("durations", Value::map());
    for (const auto& [name, took] : state.durations)
      durations.set(name, Value::string(to_string(took)));
  }
  set_fields(root, "notes", state.notes);
  return text::emit_json(root, {.pretty = true, .indent = "  "}) + "\n";
}

State parse_state(std::string_view text, const std::string& name) {
  const Value root = parse_state_json(text, name);
  const Reader read{name};
  if (!root.is_map()) read.fail(root, "expected a map");
  if (root.find("format") == nullptr &&
      (root.find("terraform_version") != nullptr || root.find("encrypted_data") != nullptr))
    throw Error(Fault::Refused, fmt::format("{} is a state of Terraform or OpenTofu", name))
        .hint(
            "it is left as it is: give `spec.state` a place of rocca's own; `rocca adopt` takes "
            "over the cluster that such a state describes");
  if (const std::uint64_t format = read.number(root, "format"); format > State::format)
    read.future(fmt::format("its format is {}, this one knows up to {}", format, State::format));
  else if (format == 0)
    read.fail(*root.find("format"), "there is no format 0");
  read.only(root, {"format", "serial", "lineage", "cluster", "clusterId", "bootstrapped",
                   "teardown", "items", "durations", "notes"});
  State state;
  state.serial = read.number(root, "serial");
  state.lineage = read.needed(root, "lineage");
  state.cluster = read.text(root, "cluster");
  state.cluster_id = read.text(root, "clusterId");
  state.bootstrapped = read.instant(root, "bootstrapped");
  if (const Value* teardown = root.find("teardown")) state.teardown = read.teardown(*teardown);
  if (const Value* items = root.find("items")) {
    if (!items->is_map()) read.fail(*items, "`items` is no map");
    for (const text::Entry& entry : items->entries())
      state.items[entry.key] = read.item(entry.value);
  }
  if (const Value* durations = root.find("durations")) {
    if (!durations->is_map()) read.fail(*durations, "`durations` is no map");
    for (const text::Entry& entry : durations->entries())
      state.durations[entry.key] = read.duration(entry.value);
  }
  state.notes = read.fields(root, "notes");
  return state;
}

}  // namespace rocca::state
