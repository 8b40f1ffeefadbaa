#include "secrets/age_keys.hpp"

namespace rocca::secrets::age {

namespace {

[[noreturn]] void unsupported() {
  throw Error(Fault::Usage,
              "post-quantum age keys (mlkem768x25519) are not supported by this build")
      .hint("use an X25519 key (`age1…`, AGE-SECRET-KEY-1…) or an SSH key");
}

}  // namespace

Recipient hybrid_recipient(std::string_view) {
  unsupported();
}
Identity hybrid_identity(const Secret&) {
  unsupported();
}

}  // namespace rocca::secrets::age
