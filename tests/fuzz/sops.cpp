#include "secrets/sops/sops.hpp"

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

// The first byte says which format. Whatever the text is, it is read, refused with an Error, or
// (where it can be read as plain text) comes back from encryption as it was.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rocca;
  using namespace rocca::secrets::sops;
  if (size == 0 || size > 4096) return 0;
  const Format format = static_cast<Format>(data[0] % 4);
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  static SeededEntropy entropy(1);
  static const Secret key{"0123456789abcdef0123456789abcdef"};
  static const secrets::age::Identity identity = secrets::age::Identity::generate(entropy);
  static VirtualClock clock;
  try {
    const File file = File::parse(text, format, "fuzz");
    (void)file.names();
    try {
      (void)file.data_key({identity});
    } catch (const Error&) {
    }
    (void)file.decrypt(key);
  } catch (const Error&) {
  }
  std::string sealed;
  std::string wanted;
  try {
    const Plain plain = Plain::parse(text, format, "fuzz");
    wanted = plain.text().reveal();
    sealed = encrypt(plain, {Recipients::age({identity.recipient()->text()}), {}, 4, "\t"}, clock,
                     entropy);
  } catch (const Error&) {
    return 0;
  }
  const File file = File::parse(sealed, format, "again");
  const Plain back = file.decrypt(file.data_key({identity}));
  if (back.documents() != Plain::parse(wanted, format, "wanted").documents()) std::abort();
  return 0;
}
