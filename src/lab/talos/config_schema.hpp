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
  enum class Type { Text, Bool, Int, Duration, Base64, Any, List, Strings, Items, Named, Struct };
  Type type = Type::Struct;
  std::vector<ShapeKey> keys;  // Struct; of the elements for Items and Named

  const Shape* find(std::string_view key) const;
};

struct ShapeKey {
  std::string name;
  Shape shape;
};

const Shape& v1alpha1_shape();

/// The parts of `value` that the shape does not know, as a tree; null if it knows all.
text::Value unknown_parts(const text::Value& value, const Shape& shape);
/// The first scalar that cannot be read as what it should be: {line, text of the complaint}.
struct WrongScalar {
  std::size_t line = 0;
  std::string found, wanted;  // "!!str `maybe`", "bool"
  bool base64 = false;
  std::size_t position = 0;  // of the first byte that is no base64
};
std::optional<WrongScalar> wrong_scalar(const text::Value& value, const Shape& shape);
/// Keys in the shape's order, maps sorted, numbers in string maps quoted, no comments.
text::Value ordered(const text::Value& value, const Shape& shape);

}  // namespace rocca::lab::talos
