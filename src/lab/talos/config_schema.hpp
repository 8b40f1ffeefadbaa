#pragma once

#include "text/value.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::talos {

struct ShapeKey;

/// What may stand where in a document, in the order of Talos's structs.
struct Shape {
  enum class Type {
    Text,
    Bool,
    Int,
    Unsigned,
    FileMode,
    Duration,
    Base64,
    Url,
    Prefix,
    Size,
    DiskSize,
    Enum,
    Any,
    Map,  // of anything, written sorted
    List,
    Strings,
    Items,
    Struct
  };
  Type type = Type::Struct;
  unsigned since = 0;               // the first minor that has it
  std::string go_type;              // of an element of Items, of an Enum
  std::vector<std::string> values;  // of an Enum
  std::vector<ShapeKey> keys;       // Struct; of the elements for Items

  const Shape* find(std::string_view key) const;
};

struct ShapeKey {
  std::string name;
  Shape shape;
};

const Shape& v1alpha1_shape();

/// Of the kinds whose keys are looked at here; others are taken as they are.
struct DocumentShape {
  std::string kind, go_type;
  Shape shape;
};
const DocumentShape* find_document_shape(std::string_view kind);

/// The parts of `value` that the shape of that minor does not know, as a tree; null if it knows
/// all.
text::Value unknown_parts(const text::Value& value, const Shape& shape, unsigned minor);
/// The first value that cannot be read as what it should be.
struct WrongScalar {
  std::size_t line = 0;
  std::string found, wanted;  // "!!str `maybe`", "bool"
  std::string complaint;      // in place of both: what a type of Talos's own says
};
std::optional<WrongScalar> wrong_scalar(const text::Value& value, const Shape& shape,
                                        unsigned minor);
/// Keys in the shape's order, maps sorted, numbers in string maps quoted, no comments.
text::Value ordered(const text::Value& value, const Shape& shape);

}  // namespace rocca::lab::talos
