#include "state/journal.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "secrets/crypto.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using namespace rocca;

/// The lines with checksums that fit: otherwise nothing behind the checksum would ever be read.
std::string with_checksums(std::string_view text) {
  std::string out;
  for (const std::string& line : split(text, '\n'))
    out += to_hex(secrets::crypto::sha256(line).substr(0, 8)) + " " + line + "\n";
  return out;
}

void read(std::string_view text) {
  state::Journal journal;
  try {
    journal = state::parse_batches(text, "fuzz");
  } catch (const Error& error) {
    if (error.fault() == Fault::Bug) std::abort();
    return;
  }
  if (!text.starts_with(journal.whole)) std::abort();
  // What was read is written and read again as the same.
  std::string again;
  state::State state;
  for (const state::Batch& batch : journal.batches) {
    again += state::to_lines(batch);
    for (const state::Record& record : batch.records) state::apply(state, record);
  }
  if (state::parse_batches(again, "again").batches != journal.batches) std::abort();
  state.lineage = "fuzz";
  state.cluster = "fuzz";
  const std::string written = state::to_text(state);
  if (state::to_text(state::parse_state(written, "state")) != written) std::abort();
}

}  // namespace

// The first byte says whether the checksums are made to fit, and whether a state is read instead.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1 || size > 65'536) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      read(text);
      break;
    case 1:
      read(with_checksums(text));
      break;
    default:
      try {
        const state::State state = state::parse_state(text, "fuzz");
        const std::string written = state::to_text(state);
        if (state::parse_state(written, "again") != state) std::abort();
      } catch (const Error& error) {
        if (error.fault() == Fault::Bug) std::abort();
      }
  }
  return 0;
}
