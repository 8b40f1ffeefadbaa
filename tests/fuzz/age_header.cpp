#include "secrets/age/format.hpp"

#include <cstdint>
#include <cstdlib>

// Any bytes as a header: refused with an AgeError, or written back as they were; the same in one
// piece and byte by byte.
using namespace rocca::secrets::age;

namespace {

std::string header_in(std::string_view bytes, std::size_t step) {
  HeaderReader reader;
  try {
    while (!bytes.empty() && !reader.done()) {
      const std::string_view part = bytes.substr(0, step);
      reader.write(part);
      bytes.remove_prefix(part.size());
    }
  } catch (const AgeError& error) {
    if (error.failure() != Failure::Header) std::abort();
    return "";
  }
  return reader.done() ? reader.text() : "";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string text = header_in(bytes, size + 1);
  if (text != header_in(bytes, 1)) std::abort();
  try {
    const Header header = parse_header(text);
    if (encode_header(header) != text) std::abort();
    if (encode_signed_part(header.stanzas) != header.signed_part) std::abort();
  } catch (const AgeError& error) {
    if (error.failure() != Failure::Header) std::abort();
  }
  return 0;
}
