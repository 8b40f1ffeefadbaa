#pragma once

#include "text/value.hpp"

#include <cstddef>
#include <string_view>
#include <vector>

namespace rocca::text {

/// Bytes that belong to a scalar: a `#` in them begins no comment.
struct Covered {
  std::size_t begin;
  std::size_t end;
};

/// Where a document begins (its `---` if it has one).
struct DocumentStart {
  std::size_t begin;
  bool is_explicit;
};

/// libyaml throws comments away. This finds them again in what is left of the text between the
/// scalars and hangs each on the entry, item or document it belongs to. Places in `documents` count
/// from `offset` bytes before `text`.
void attach_comments(std::string_view text, std::size_t offset, const std::vector<Covered>& covered,
                     std::vector<Value>& documents, const std::vector<DocumentStart>& starts);

}  // namespace rocca::text
