#include "proxmox/property_string.hpp"

#include "base/error.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

// The first byte says which option of a VM it is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rocca;
  using namespace rocca::proxmox;
  if (size == 0 || size > 4096) return 0;
  constexpr std::array<std::string_view, 20> options{
      "net0",     "scsi3",    "smbios1",   "agent", "efidisk0", "tpmstate0",   "ide2",
      "virtio15", "hostpci0", "ipconfig0", "boot",  "tags",     "description", "sata1",
      "unused7",  "cpu",      "vga",       "rng0",  "startup",  "hotplug"};
  const std::string_view option = options[data[0] % options.size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);

  if (const auto bytes = parse_size(text); bytes && parse_size(print_size(*bytes)) != bytes)
    std::abort();
  try {
    const PropertyString read = PropertyString::parse(option, text);
    const std::string printed = read.print();
    if (PropertyString::parse(option, printed).print() != printed) std::abort();
    // What is normalised is in its normal form, and means the same as before.
    const std::string normal = normalise(option, text);
    if (normalise(option, normal) != normal) std::abort();
    if (!same_meaning(option, text, text) || !same_meaning(option, normal, text)) std::abort();
  } catch (const Error& error) {
    if (error.fault() != Fault::Rejected) std::abort();
  }
  return 0;
}
