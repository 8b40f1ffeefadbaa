#include "lab/talos/replay_decode.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <regex>
#include <set>

namespace rocca::lab::talos {

namespace {

using text::Value;

struct Field {
  unsigned number = 0;
  unsigned wire = 0;
  std::uint64_t value = 0;
  std::string bytes;
};

std::optional<std::uint64_t> varint(std::string_view& in) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

std::optional<std::vector<Field>> split_message(std::string_view in) {
  std::vector<Field> out;
  while (!in.empty()) {
    const auto tag = varint(in);
    if (!tag || *tag >> 3 == 0 || *tag >> 3 > 10000) return std::nullopt;
    Field field{static_cast<unsigned>(*tag >> 3), static_cast<unsigned>(*tag & 7), 0, ""};
    if (field.wire == 0) {
      const auto value = varint(in);
      if (!value) return std::nullopt;
      field.value = *value;
    } else {
      std::size_t size = field.wire == 1 ? 8 : field.wire == 5 ? 4 : 0;
      if (field.wire == 2) {
        const auto length = varint(in);
        if (!length) return std::nullopt;
        size = static_cast<std::size_t>(*length);
      } else if (size == 0) {
        return std::nullopt;
      }
      if (in.size() < size) return std::nullopt;
      field.bytes = in.substr(0, size);
      if (field.wire != 2)
        for (std::size_t i = size; i-- > 0;)
          field.value = field.value << 8 | static_cast<unsigned char>(field.bytes[i]);
      in.remove_prefix(size);
    }
    out.push_back(std::move(field));
  }
  return out;
}

/// Fields in order, zeros left out, at every depth where the bytes can be read as a message.
std::string canonical_wire(std::string_view bytes) {
  const auto all = split_message(bytes);
  if (!all) return to_hex(bytes);
  std::vector<std::pair<unsigned, std::string>> parts;
  for (const Field& field : *all) {
    if (field.wire == 2) {
      const std::string inner = canonical_wire(field.bytes);
      if (!inner.empty()) parts.emplace_back(field.number, "{" + inner + "}");
    } else if (field.value != 0) {
      parts.emplace_back(field.number, std::to_string(field.value));
    }
  }
  std::stable_sort(parts.begin(), parts.end());
  std::string out;
  for (const auto& [number, text] : parts) out += fmt::format("{}={};", number, text);
  return out;
}

bool is_long_number(const std::string& text) {
  return text == "<xid>" ||
         (text.size() >= 10 && text.find_first_not_of("0123456789") == std::string::npos);
}

}  // namespace

std::string Descriptors::response_of(const std::string& path) const {
  const Value* rpc = value_.find("rpc " + path);
  const Value* type = rpc == nullptr ? nullptr : rpc->find("response");
  return type == nullptr ? "" : type->text();
}

Value Descriptors::scalar(const std::string& type, std::uint64_t number) const {
  if (type == "bool") return Value::boolean(number != 0);
  if (type == "int32" || type == "sint32") return Value::integer(static_cast<std::int32_t>(number));
  if (type == "uint32" || type == "fixed32")
    return Value::integer(static_cast<std::int64_t>(number));
  if (type == "int64") return Value::string(std::to_string(static_cast<std::int64_t>(number)));
  if (type == "uint64") return Value::string(std::to_string(number));
  if (type == "double") return Value::floating(std::bit_cast<double>(number));
  if (const Value* values = value_.find("enum " + type))
    for (const text::Entry& entry : values->entries())
      if (split(entry.value.text(), ' ').front() == std::to_string(number))
        return Value::string(entry.key);
  return Value::integer(static_cast<std::int64_t>(number));
}

Value Descriptors::decode(const std::string& type, std::string_view message) const {
  Value out = Value::map();
  std::map<std::string, std::string> declared;
  if (type == "google.rpc.Status") {
    declared = {{"1", "code: int32"}, {"2", "message: string"}};
  } else if (const Value* fields = value_.find("message " + type)) {
    for (const text::Entry& entry : fields->entries()) declared[entry.key] = entry.value.text();
  }
  const auto all = split_message(message);
  if (!all) return Value::string("<not a message>");
  std::map<std::string, std::string> merged;  // of singular message fields
  for (const Field& field : *all) {
    const auto known = declared.find(std::to_string(field.number));
    if (known == declared.end()) {
      out.set(fmt::format("<unknown {}>", field.number), Value::null());
      continue;
    }
    const auto colon = known->second.find(": ");
    const std::string name = known->second.substr(0, colon);
    std::vector<std::string> words = split(known->second.substr(colon + 2), ' ');
    const bool repeated = words.front() == "repeated";
    if (repeated || words.front() == "optional") words.erase(words.begin());
    const std::string& kind = words.front();
    Value value;
    bool zero = false;
    if (kind.starts_with("map<")) {
      const Value pair = Value::map();
      const auto parts = split_message(field.bytes);
      std::string key, text;
      if (parts)
        for (const Field& part : *parts) (part.number == 1 ? key : text) = part.bytes;
      Value* map = out.find(name);
      if (map == nullptr) map = &out.set(name, Value::map());
      map->set(key, Value::string(text));
      continue;
    }
    if (kind == "string") {
      value = Value::string(field.bytes);
      zero = field.bytes.empty();
    } else if (kind == "bytes") {
      value = Value::string(to_base64(field.bytes));
      zero = field.bytes.empty();
    } else if (kind == "google.protobuf.Timestamp") {
      value = Value::string("<time>");
    } else if (kind == "google.protobuf.Any") {
      value = Value::map();
      const auto parts = split_message(field.bytes);
      std::string url, data;
      if (parts)
        for (const Field& part : *parts) (part.number == 1 ? url : data) = part.bytes;
      if (!url.empty()) {
        value = decode(url.substr(url.rfind('/') + 1), data);
        value.set("@type", Value::string(url));
      }
    } else if (field.wire == 2 &&
               (value_.find("message " + kind) != nullptr || kind == "google.rpc.Status")) {
      std::string bytes = field.bytes;
      if (!repeated) bytes = merged[name] += field.bytes;
      value = decode(kind, bytes);
    } else {
      value = scalar(kind, field.value);
      zero = field.value == 0;
    }
    if (repeated) {
      Value* list = out.find(name);
      if (list == nullptr) list = &out.set(name, Value::list());
      list->append(std::move(value));
    } else if (!zero || words.size() > 1) {
      out.set(name, std::move(value));
    }
  }
  return out;
}

namespace {

/// 32 random bytes in a text: what discovery knows a machine by.
bool is_node_id(std::string_view text) {
  return text.size() >= 42 && text.size() <= 44 &&
         text.find_first_of("./ ") == std::string_view::npos;
}

}  // namespace

Value comparable(const Value& json, std::string_view key) {
  if (json.is_map()) {
    Value out = Value::map();
    const Value* yaml = json.find("yaml_spec");
    static const std::regex personal(
        "(nodeId|memberID|hardwareAddr|clusterId|hostnameVersion|linkIndex): [^\n]*");
    const bool own = yaml != nullptr && std::regex_search(yaml->text(), personal);
    for (const text::Entry& entry : json.entries()) {
      // What is told twice and differs by run is compared in its readable form only.
      if (entry.key == "proto_spec" && own) continue;
      if (entry.key == "yaml_spec") {
        out.set(entry.key,
                Value::string(std::regex_replace(entry.value.text(), personal, "$1: <own>")));
        continue;
      }
      Value value = comparable(entry.value, entry.key);
      if (value.is_string() && value.text().empty()) continue;
      out.set(entry.key, std::move(value));
    }
    return out;
  }
  if (json.is_list()) {
    std::vector<Value> items;
    for (const Value& item : json.items()) items.push_back(comparable(item, key));
    // Fan-out answers come in any order, etcd's members in the order of their ids.
    const auto name = [](const Value& value) -> std::string {
      for (const char* each : {"hostname"})
        if (const Value* found = value.find(each)) return found->text();
      const Value* found = value.find({"metadata", "hostname"});
      return found == nullptr ? "" : found->text();
    };
    if (key == "messages" || key == "members")
      std::stable_sort(items.begin(), items.end(),
                       [&](const Value& a, const Value& b) { return name(a) < name(b); });
    if (key == "legacy_members")
      std::sort(items.begin(), items.end(),
                [](const Value& a, const Value& b) { return a.text() < b.text(); });
    return Value::list(std::move(items));
  }
  static const std::set<std::string_view> counters{
      "version_number", "member_id",          "leader",  "db_size", "db_size_in_use", "raft_index",
      "raft_term",      "raft_applied_index", "bookmark"};
  if (counters.contains(key)) return Value::string("<counted>");
  const std::string& text = json.text();
  if (key == "version" && text.size() < 6 && parse_int(text)) return Value::string("<counted>");
  if (key == "id" &&
      (is_long_number(text) || is_node_id(text) ||
       (text.size() == 20 &&
        text.find_first_not_of("0123456789abcdefghijklmnopqrstuv") == std::string::npos)))
    return Value::string("<id>");
  if (key == "proto_spec") {
    const auto bytes = from_base64(text);
    return Value::string(bytes ? canonical_wire(*bytes) : text);
  }
  if (key == "msg" || key == "message") {
    static const std::regex pid("PID [0-9]+");
    return Value::string(std::regex_replace(text, pid, "PID <pid>"));
  }
  return Value::scalar(json.kind(), text, text::Style::Any);
}

}  // namespace rocca::lab::talos
