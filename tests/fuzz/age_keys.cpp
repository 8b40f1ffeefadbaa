#include "secrets/age/age.hpp"
#include "secrets/pem_cleanup.hpp"

#include <cstdint>
#include <cstdlib>

// Any text as a key file, an SSH key or PEM from the wild: an Error that does not repeat it, or a
// key that survives.
using namespace rocca::secrets;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    for (const age::Identity& identity : age::parse_identities(text, "keys.txt"))
      if (!identity.text().empty() &&
          age::Identity::parse(identity.text().reveal()).text() != identity.text())
        std::abort();
  } catch (const rocca::Error&) {
  }
  try {
    for (const age::Recipient& recipient : age::parse_recipients(text, "recipients.txt"))
      if (!(age::Recipient::parse(recipient.text()) == recipient)) std::abort();
  } catch (const rocca::Error&) {
  }
  try {
    const Cleaned cleaned = clean_pem(text, "KEY");
    if (!(clean_pem(cleaned.text.reveal(), "KEY").text == cleaned.text)) std::abort();
  } catch (const rocca::Error&) {
  }
  return 0;
}
