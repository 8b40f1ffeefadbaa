#include "net/tls.hpp"

#include "base/encoding.hpp"

#include <openssl/sha.h>

#include <algorithm>

namespace rocca::net {

std::optional<Fingerprint> Fingerprint::parse(std::string_view text) {
  std::string digits;
  if (text.find(':') == std::string_view::npos) {
    digits = text;
  } else {
    if (text.size() != 32 * 3 - 1) return std::nullopt;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (i % 3 != 2) {
        digits += text[i];
      } else if (text[i] != ':') {
        return std::nullopt;
      }
    }
  }
  const auto bytes = from_hex(digits);
  if (!bytes || bytes->size() != 32) return std::nullopt;
  std::array<std::uint8_t, 32> array{};
  std::ranges::transform(*bytes, array.begin(),
                         [](char c) { return static_cast<std::uint8_t>(c); });
  return Fingerprint(array);
}

Fingerprint Fingerprint::of_der(std::string_view der) {
  std::array<std::uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(der.data()), der.size(), digest.data());
  return Fingerprint(digest);
}

std::string to_string(const Fingerprint& fingerprint) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string text;
  for (const auto byte : fingerprint.bytes()) {
    if (!text.empty()) text += ':';
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

Tls Tls::authority(std::string pem) {
  Tls tls;
  tls.trust = Trust::Authority;
  tls.authority_pem = std::move(pem);
  return tls;
}

Tls Tls::pinned(const Fingerprint& pin) {
  Tls tls;
  tls.trust = Trust::Pinned;
  tls.pin = pin;
  return tls;
}

Tls Tls::unverified() {
  Tls tls;
  tls.trust = Trust::Unverified;
  return tls;
}

}  // namespace rocca::net
