#pragma once

#include "secrets/x509.hpp"

#include <string>
#include <string_view>

namespace rocca::secrets {

/// ECDSA over P-256 and SHA-256 with the nonce of RFC 6979, DER. The library draws its nonce from
/// its own randomness, so that two runs of one seed would make two certificates; this way one key
/// signs one text in one way only.
std::string sign_p256(const PrivateKey& key, std::string_view message);

}  // namespace rocca::secrets
