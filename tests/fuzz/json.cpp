#include "text/json.hpp"

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rocca::text;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Value value;
  try {
    value = parse_json(text, "fuzz", {1 << 16, 50, 20'000});
  } catch (const rocca::Error&) {
    return 0;
  }
  for (const bool pretty : {false, true}) {
    const std::string once = emit_json(value, {pretty, "\t"});
    const Value again = parse_json(once, "again", {1 << 24, 60, 1'000'000});
    if (!(again == value) || emit_json(again, {pretty, "\t"}) != once) std::abort();
  }
  return 0;
}
