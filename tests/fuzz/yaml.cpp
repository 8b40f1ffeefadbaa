#include "text/yaml.hpp"

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

// What is read can be written, is then read as the same, and is written the same again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rocca::text;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Limits limits{1 << 16, 50, 20'000};
  std::vector<Value> documents;
  try {
    documents = parse_yaml_stream(text, "fuzz", limits);
  } catch (const rocca::Error&) {
    return 0;
  }
  const std::string once = emit_yaml_stream(documents);
  const auto again = parse_yaml_stream(once, "again", Limits{1 << 24, 60, 1'000'000});
  if (!(again == documents) || emit_yaml_stream(again) != once) std::abort();
  return 0;
}
