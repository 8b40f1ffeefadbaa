#pragma once

#include "text/value.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::spec {

struct Tree;

/// What a key takes when it is one scalar. Map: it takes no scalar at all.
enum class Type : std::uint8_t {
  Map,
  Any,
  Text,
  Bool,
  Int,
  Size,
  Duration,
  Version,
  Address,
  Subnet,
  Range,
  Mac,
  Uuid,
  Url,
  Label,   // DNS label
  Domain,  // DNS name
  Path,
  Source,  // a URL or a file (or, for a schematic, its id)
  Enum,
  Fingerprint,
  Schedule,
  AgeKey,
  Patches
};

/// More about the shape; a field may have several.
enum Shape : std::uint16_t {
  Plain = 0,
  Required = 1,    // must be given where its section is
  List = 2,        // a list of it
  OneOrMany = 4,   // a list, or one item without the list
  Named = 8,       // a map whose keys the user chooses
  OrMap = 16,      // the scalar, or a map of the keys below
  Choice = 32,     // of its siblings marked so, one at the most
  ChoiceSet = 64,  // exactly one of the keys below that are marked Choice
  Always = 128,    // the section is there in the resolved spec even when nobody wrote it
  OrBool = 256,    // true and false are taken too
  Internal = 512,  // Kubernetes writes it; taken and ignored
};

/// One key of the spec. The table in fields_table.cpp is the only list of keys there is: parsing,
/// defaults, the JSON Schema, `explain` and docs/spec.md all come from it.
struct Field {
  std::string_view path;  // "spec.nodes.*.role"; `*` is a name the user chooses
  Type type = Type::Map;
  unsigned shape = Plain;
  std::string_view
      values;  // Enum: "a|b"; Int: "1..4094"; Map: "@path" has the same keys as that path
  std::string_view fallback;  // default, as YAML
  std::string_view text;      // what it means
  std::string_view note;      // since when, only if
  std::string_view example;   // YAML
  std::string_view shorthand =
      {};  // the key a bare scalar stands for: `data: 20GiB` is `data: {size: 20GiB}`

  bool is(Shape flag) const { return (shape & flag) != 0; }
};

/// A field and the keys under it.
struct FieldNode {
  const Field* field = nullptr;
  std::string key;
  std::vector<std::unique_ptr<FieldNode>> own;  // in the table's order
  std::unique_ptr<FieldNode> any;               // under `*`
  const FieldNode* like = nullptr;              // "@path"
  std::shared_ptr<const Tree> fallback;         // the default as a tree, or null

  /// The keys under it, its own or those of the field it is like.
  const std::vector<std::unique_ptr<FieldNode>>& keys() const { return like ? like->keys() : own; }
  const FieldNode* named() const { return like ? like->named() : any.get(); }
  /// The field for `key`: known by name, else the `*` one.
  const FieldNode* find(std::string_view key) const;
  /// Does a map stand here (as the only form or as one of two)?
  bool takes_map() const;
  std::vector<std::string> key_names() const;  // those a user may write
};

/// The table, in order.
std::span<const Field> fields();
const FieldNode& root();
/// The table's entry for a path as a user writes it: `spec.` may be left out, `nodes.cp-1.address`
/// finds `nodes.*`.
const FieldNode* find_field(std::string_view path);

/// "a size such as 20GiB", "a list (each item: text)": for messages.
std::string describe_type(const Field& field);
/// The same for one value of it, when it takes a list or a map by name.
std::string describe_value(const Field& field);
/// The values of an Enum.
std::vector<std::string> enum_values(const Field& field);
/// The limits of an Int, if the table gives some.
struct Limits {
  std::int64_t low;
  std::int64_t high;
};
std::optional<Limits> int_limits(const Field& field);

}  // namespace rocca::spec
