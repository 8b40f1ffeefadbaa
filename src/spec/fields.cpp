#include "spec/fields.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "spec/tree.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

namespace rocca::spec {

namespace {

FieldNode* descend(FieldNode& top, std::string_view path) {
  FieldNode* node = &top;
  for (const std::string& part : split(path, '.')) {
    if (part == "*") {
      node = node->any.get();
    } else {
      FieldNode* next = nullptr;
      for (const auto& child : node->own)
        if (child->key == part) next = child.get();
      node = next;
    }
    if (node == nullptr) return nullptr;
  }
  return node;
}

// Nobody wrote a default, so it has no place.
TreePtr without_place(const Tree& tree) {
  auto plain = std::make_shared<Tree>(tree);
  plain->where = {};
  for (Member& member : plain->members) member = {member.key, {}, without_place(*member.value)};
  for (TreePtr& item : plain->items) item = without_place(*item);
  return plain;
}

FieldNode build() {
  static constexpr Field top{"", Type::Map, Plain, "", "", "A cluster.", "", ""};
  FieldNode root;
  root.field = &top;
  for (const Field& field : fields()) {
    const std::size_t dot = field.path.rfind('.');
    const std::string_view parent =
        dot == std::string_view::npos ? std::string_view{} : field.path.substr(0, dot);
    const std::string_view key =
        dot == std::string_view::npos ? field.path : field.path.substr(dot + 1);
    FieldNode* above = parent.empty() ? &root : descend(root, parent);
    if (above == nullptr)
      throw Error(Fault::Bug, fmt::format("the field {} stands under nothing", field.path));
    auto node = std::make_unique<FieldNode>();
    node->field = &field;
    node->key = std::string(key);
    if (!field.fallback.empty())
      node->fallback = without_place(*to_tree(text::parse_yaml(field.fallback, field.path), 0));
    if (key == "*")
      above->any = std::move(node);
    else
      above->own.push_back(std::move(node));
  }
  for (const Field& field : fields()) {
    if (!field.values.starts_with('@')) continue;
    const FieldNode* target = descend(root, field.values.substr(1));
    if (target == nullptr)
      throw Error(Fault::Bug, fmt::format("the field {} is like nothing", field.path));
    descend(root, field.path)->like = target;
  }
  return root;
}

}  // namespace

const FieldNode* FieldNode::find(std::string_view wanted) const {
  for (const auto& child : keys())
    if (child->key == wanted) return child.get();
  return named();
}

bool FieldNode::takes_map() const {
  return field->type == Type::Map || field->is(OrMap) || field->is(Named);
}

std::vector<std::string> FieldNode::key_names() const {
  std::vector<std::string> names;
  for (const auto& child : keys())
    if (!child->field->is(Internal) && !child->key.starts_with('$')) names.push_back(child->key);
  return names;
}

const FieldNode& root() {
  static const FieldNode node = build();
  return node;
}

const FieldNode* find_field(std::string_view path) {
  const auto follow = [](const FieldNode* node, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) {
      if (node == nullptr) return node;
      const FieldNode* next = part == "*" ? node->named() : node->find(part);
      // A map of plain values has no field of its own for one entry: the map's text says it all.
      node = next == nullptr && node->field->is(Named) && !node->named() ? node : next;
    }
    return node;
  };
  if (path.empty()) return nullptr;
  const auto parts = split(path, '.');
  const FieldNode* spec = follow(&root(), {"spec"});
  if (const FieldNode* found = follow(spec, parts)) return found;
  return follow(&root(), parts);
}

std::vector<std::string> enum_values(const Field& field) {
  if (field.type != Type::Enum) return {};
  auto values = split(field.values, '|');
  if (field.is(OrBool)) {
    values.push_back("true");
    values.push_back("false");
  }
  return values;
}

std::optional<Limits> int_limits(const Field& field) {
  const std::size_t dots = field.values.find("..");
  if (field.type != Type::Int || dots == std::string_view::npos) return std::nullopt;
  const auto low = parse_int(field.values.substr(0, dots));
  const auto high = parse_int(field.values.substr(dots + 2));
  if (!low || !high) throw Error(Fault::Bug, fmt::format("limits of {} are wrong", field.path));
  return Limits{*low, *high};
}

std::string describe_value(const Field& field) {
  switch (field.type) {
    case Type::Map:
      return "a map";
    case Type::Any:
      return "anything";
    case Type::Text:
      return "text";
    case Type::Bool:
      return "true or false";
    case Type::Int: {
      const auto limits = int_limits(field);
      return limits ? fmt::format("a whole number from {} to {}", limits->low, limits->high)
                    : "a whole number";
    }
    case Type::Size:
      return "a size such as 20GiB";
    case Type::Duration:
      return "a duration such as 10m";
    case Type::Version:
      return "a version such as 1.2.3";
    case Type::Address:
      return "an IP address";
    case Type::Subnet:
      return "a network such as 10.0.0.0/16";
    case Type::Range:
      return "addresses such as 10.0.0.21-10.0.0.29";
    case Type::Mac:
      return "a MAC address";
    case Type::Uuid:
      return "a UUID";
    case Type::Url:
      return "a URL";
    case Type::Label:
      return "a name (DNS label)";
    case Type::Domain:
      return "a DNS name or an IP address";
    case Type::Path:
      return "a path";
    case Type::Source:
      return "a URL or a file";
    case Type::Enum: {
      const auto values = enum_values(field);
      return values.size() == 1 ? values[0] : enumerate(values, "or");
    }
    case Type::Fingerprint:
      return "a SHA-256 fingerprint (32 pairs of hex digits)";
    case Type::Schedule:
      return "a cron schedule such as 0 3 * * *";
    case Type::AgeKey:
      return "an age recipient (age1…)";
    case Type::Patches:
      return "a patch, a file, or a list of these";
  }
  return "";
}

std::string describe_type(const Field& field) {
  std::string text = describe_value(field);
  if (field.is(OrMap)) text += ", or a map";
  if (field.is(OneOrMany)) return text + ", or a list of these";
  if (field.is(List))
    text = field.type == Type::Map ? "a list of maps" : "a list (each item: " + text + ")";
  if (field.is(Named))
    text = field.type == Type::Map ? "a map by name" : "a map by name (each value: " + text + ")";
  return text;
}

}  // namespace rocca::spec
