#pragma once

#include "text/value.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace rocca::text {

/// A way into a document: map keys, and list indices in decimal.
using Path = std::vector<std::string>;

/// Changes one value of a YAML (or JSON) text and leaves every other byte alone: comments, order,
/// quoting, blank lines, line ends. The value is written in the style and indentation of its
/// surroundings.
///   set:   replaces the value at `path`, or adds the last key of it to its map (its parents are
///   made as needed) erase: takes the entry or item away, with the comments that belong to it;
///   false if it is not there
/// Throws Error(Usage) where the path leads through a scalar or an alias, for more than one
/// document, and (rather than write something else) where the layout of the text does not allow the
/// change.
std::string set_in_yaml(std::string_view source, const Path& path, const Value& value);
std::string erase_in_yaml(std::string_view source, const Path& path);
std::string set_in_json(std::string_view source, const Path& path, const Value& value);
std::string erase_in_json(std::string_view source, const Path& path);

/// The same in a tree: parents are made as needed; false if there was nothing to take away.
void set_in(Value& root, const Path& path, const Value& value);
bool erase_in(Value& root, const Path& path);

}  // namespace rocca::text
