#include "secrets/age/armor.hpp"

#include <cstdint>
#include <cstdlib>
#include <optional>

// Any text as armor: refused with an AgeError, or bytes that survive being armored again; the same
// in any pieces. And any bytes survive armor.
using namespace rocca::secrets::age;

namespace {

std::optional<std::string> unarmored(std::string_view text, std::size_t step) {
  std::string bytes;
  try {
    ArmorReader reader([&](std::string_view part) { bytes += part; });
    for (std::size_t at = 0; at < text.size(); at += step) reader.write(text.substr(at, step));
    reader.finish();
  } catch (const AgeError& error) {
    if (error.failure() != Failure::Armor) std::abort();
    return std::nullopt;
  }
  return bytes;
}

std::string armored(std::string_view bytes) {
  std::string text;
  ArmorWriter writer([&](std::string_view part) { text += part; });
  writer.write(bytes);
  writer.finish();
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto bytes = unarmored(input, size + 1);
  if (bytes != unarmored(input, 7)) std::abort();
  if (bytes && unarmored(armored(*bytes), 64) != bytes) std::abort();
  if (unarmored(armored(input), 3) != std::string(input)) std::abort();
  return 0;
}
