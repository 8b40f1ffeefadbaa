#include "state/holder.hpp"

#include "base/units.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

namespace rocca::state {

namespace {

using text::Value;

std::string text_at(const Value& map, std::string_view key) {
  const Value* value = map.find(key);
  return value != nullptr && value->is_string() ? value->text() : "";
}

}  // namespace

std::string to_text(const Holder& holder) {
  Value map = Value::map();
  map.set("id", Value::string(holder.id));
  map.set("who", Value::string(holder.who));
  map.set("doing", Value::string(holder.doing));
  map.set("since", Value::string(to_string(holder.since)));
  map.set("until", Value::string(to_string(holder.until)));
  return text::emit_json(map, {.pretty = true, .indent = "  "}) + "\n";
}

std::optional<Holder> parse_holder(std::string_view text) {
  try {
    const Value map = text::parse_json(text, "holder");
    Holder holder;
    holder.id = text_at(map, "id");
    holder.who = text_at(map, "who");
    holder.doing = text_at(map, "doing");
    holder.since = parse_instant(text_at(map, "since")).value_or(Instant{});
    holder.until = parse_instant(text_at(map, "until")).value_or(Instant{});
    if (holder.id.empty()) return std::nullopt;
    return holder;
  } catch (const Error& error) {
    if (error.fault() != Fault::Usage) throw;  // not JSON: the lock's holder is unknown
    return std::nullopt;
  }
}

std::string name_of(const Holder& holder) {
  if (holder.who.empty()) return "somebody who left no name";
  return holder.doing.empty() ? holder.who : fmt::format("{} ({})", holder.who, holder.doing);
}

Error locked_by(const std::string& store, const Holder& holder, const std::string& way_on) {
  const std::string since =
      holder.since == Instant{} ? "" : fmt::format(" since {}", to_string(holder.since));
  return Error(Fault::Locked, fmt::format("{} is locked by {}{}", store, name_of(holder), since))
      .hint(way_on);
}

Error taken_over(const std::string& store, const std::optional<Holder>& by) {
  return Error(Fault::Locked,
               by ? fmt::format("the lock of {} was taken over by {}", store, name_of(*by))
                  : fmt::format("the lock of {} is no longer ours", store))
      .hint("this run stopped at once; what it had begun is found by the next one");
}

}  // namespace rocca::state
