#include "factory/schematic.hpp"

#include "base/error.hpp"

#include <cstdint>
#include <cstdlib>

// Any text as a schematic: problems, or a schematic whose canonical text has the same id where
// every factory agrees.
using namespace rocca::factory;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rocca::Diagnostics problems;
  const auto schematic =
      read_schematic({reinterpret_cast<const char*>(data), size}, "schematic.yaml", problems);
  if (schematic.has_value() == problems.has_errors()) std::abort();
  if (schematic && !is_schematic_id(schematic->id())) std::abort();
  return 0;
}
