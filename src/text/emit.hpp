#pragma once

#include "text/value.hpp"
#include "text/yaml.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::text {

/// Writes values as YAML. Private to this folder: others call emit_yaml.
class Emitter {
 public:
  explicit Emitter(const EmitOptions& options)
      : indent_(options.indent < 2   ? 2
                : options.indent > 9 ? 9
                                     : options.indent) {}

  /// A whole document; `alone`: nothing at all may stand for a null.
  void document(const Value& root, bool alone);
  void separator() { out_ += "---\n"; }

  /// The value as it stands behind a `key:` or `-` in `column` (from 0), from the blank up to its
  /// last line break.
  void behind(const Value& value, const Comments& comments, std::size_t column, bool in_list);
  /// Entries or items of a collection, one a line, in `column`.
  void collection(const Value& value, std::size_t column, bool first_indented);
  /// On one line.
  void flow(const Value& value);
  static std::string key_text(const Entry& entry, bool flow);

  std::string take();

 private:
  std::size_t deeper(std::size_t column, bool in_list) const;
  void comment(std::string_view text);
  void lines(const std::vector<std::string>& comments, std::size_t column);
  void beside(const Comments& comments);
  static std::string string_text(const Value& value, bool flow);
  void scalar_text(const Value& value, bool in_flow);
  bool block_scalar(const Value& value, const Comments& comments, std::size_t column,
                    std::size_t content);

  std::size_t indent_;
  std::string out_;
};

}  // namespace rocca::text
