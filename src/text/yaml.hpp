#pragma once

#include "base/diagnostics.hpp"
#include "text/value.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::text {

struct Limits {
  std::size_t size = 4 * 1024 * 1024;  // bytes of text
  std::size_t depth = 100;
  std::size_t values = 1'000'000;  // after aliases are expanded
  std::size_t repeated = 100'000;  // of these, what aliases repeat
};

/// Reads every document of a YAML stream. Aliases are expanded, `<<` stays a plain key. Throws
/// Error(Usage) `name:line:column: …` for text that is not YAML 1.1 as go-yaml reads it, a key that
/// stands twice, a NUL byte, invalid UTF-8, or what is over a limit; memory stays bounded.
std::vector<Value> parse_yaml_stream(std::string_view text, std::string_view name,
                                     const Limits& limits = {});
/// Exactly one document; an empty text is null.
Value parse_yaml(std::string_view text, std::string_view name, const Limits& limits = {});
/// The same, with every problem told to `diagnostics` (all keys that stand twice at once) instead
/// of thrown; nothing if there was one.
std::optional<Value> parse_yaml(std::string_view text, std::string_view name,
                                Diagnostics& diagnostics, const Limits& limits = {});

struct EmitOptions {
  unsigned indent = 2;
};

/// Stable: same value, same bytes. Key order, comments and styles are kept; strings that Go would
/// read as something else are quoted; long values are never folded. Ends with a newline.
std::string emit_yaml(const Value& value, const EmitOptions& options = {});
std::string emit_yaml_stream(const std::vector<Value>& documents, const EmitOptions& options = {});

}  // namespace rocca::text
