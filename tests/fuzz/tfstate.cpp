#include "adopt/tfstate.hpp"

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

// Whatever the file holds, problems are reported as diagnostics: nothing is thrown.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rocca;
  if (size > 65'536) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool has_bundle : {false, true}) {
    Diagnostics problems;
    const auto found = adopt::read_tfstate(text, "fuzz", {"", has_bundle}, problems);
    if (!found && !problems.has_errors()) std::abort();
    if (found && problems.has_errors()) std::abort();
    (void)problems.render();
    if (found)
      for (const adopt::RememberedVm& vm : found->vms)
        if (vm.where.empty()) std::abort();
  }
  return 0;
}
