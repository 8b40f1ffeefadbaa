#pragma once

#include "text/value.hpp"
#include "text/yaml.hpp"

#include <string>
#include <string_view>

namespace rocca::text {

/// Reads one JSON text (RFC 8259) into the same tree; duplicate keys are refused, every value knows
/// its place. Throws Error(Usage) `name:line:column: …`.
Value parse_json(std::string_view text, std::string_view name, const Limits& limits = {});
std::optional<Value> parse_json(std::string_view text, std::string_view name,
                                Diagnostics& diagnostics, const Limits& limits = {});

struct JsonOptions {
  bool pretty = false;        // one entry a line
  std::string indent = "  ";  // "\t" as SOPS writes
};

/// Key order kept, `": "` as separator when pretty, UTF-8 as it is but for what steers a terminal
/// (base/visible.hpp), `<>&` not escaped. No trailing newline.
std::string emit_json(const Value& value, const JsonOptions& options = {});

}  // namespace rocca::text
