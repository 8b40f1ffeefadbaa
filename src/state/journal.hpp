#pragma once

#include "state/state.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::state {

/// What was added to a journal by one write. It names the state that it continues, so that a
/// journal which outlived its state (a power cut between the new state and the end of the old
/// journal) is known as stale and not applied to it.
struct Batch {
  std::string lineage;
  std::uint64_t base = 0;    // serial of the state as it was last written whole
  std::uint64_t number = 0;  // 1, 2, 3… since then
  std::vector<Record> records;

  std::uint64_t serial() const { return base + number; }
  friend bool operator==(const Batch&, const Batch&) = default;
};

/// A head line and a line per record.
std::string to_lines(const Batch& batch);

struct Journal {
  std::vector<Batch> batches;
  std::string whole;  // the text up to its last whole line
  bool torn = false;  // something stood behind it
};

/// Opens what was sealed; throws when it cannot.
using Open = std::function<std::string(std::string_view sealed)>;

/// A batch that was cut by a power cut has the records that came before the cut.
Journal parse_batches(std::string_view text, const std::string& name, const Open& open = {});

/// A batch's lines as one line that only `open` can read: a file's lines stay lines.
std::string to_sealed_line(std::string_view sealed);
/// What is sealed inside a value that to_sealed_line or a sealed state made.
std::string open_sealed(const std::string& base64, const std::string& name, const Open& open);

/// How much of a journal's text is whole lines: all of it, or without the torn last one.
std::size_t whole_size(std::string_view text);

}  // namespace rocca::state
