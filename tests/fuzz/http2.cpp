#include "server_connection.hpp"

#include <cstdint>
#include <string>

// The first byte says how the bytes are cut; they stand behind HTTP/2's preface.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || size > 100'000) return 0;
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  bytes.append(reinterpret_cast<const char*>(data) + 1, size - 1);
  rocca::fuzz::serve(bytes, data[0] == 0 ? bytes.size() : data[0] * 4u);
  return 0;
}
