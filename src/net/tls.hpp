#pragma once

#include "base/secret.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace rocca::net {

/// SHA-256 of a certificate's DER bytes. Reads `AB:CD:…` and plain hex, any case; prints `AB:CD:…`.
class Fingerprint {
 public:
  constexpr Fingerprint() = default;
  constexpr explicit Fingerprint(const std::array<std::uint8_t, 32>& bytes) : bytes_(bytes) {}
  static std::optional<Fingerprint> parse(std::string_view text);
  static Fingerprint of_der(std::string_view der);
  const std::array<std::uint8_t, 32>& bytes() const { return bytes_; }

  friend auto operator<=>(const Fingerprint&, const Fingerprint&) = default;

 private:
  std::array<std::uint8_t, 32> bytes_{};
};

std::string to_string(const Fingerprint& fingerprint);

/// A certificate chain and its private key, both PEM, both only in memory.
struct Identity {
  std::string certificate_pem;
  Secret key_pem;
};

/// How a client makes sure whom it talks to, and who it says it is.
struct Tls {
  enum class Trust {
    System,      ///< the machine's root certificates, host name checked
    Authority,   ///< only these CAs, host name (or address) checked
    Pinned,      ///< exactly this certificate, nothing else checked
    Unverified,  ///< anybody; the fingerprint that came is reported in the Response
  };

  Trust trust = Trust::System;
  std::string authority_pem;  // Trust::Authority
  Fingerprint pin;            // Trust::Pinned
  std::string server_name;    // checked and sent (SNI) in place of the URL's host, if not empty
  std::shared_ptr<const Identity> identity;  // client certificate, if any

  static Tls system() { return {}; }
  static Tls authority(std::string pem);
  static Tls pinned(const Fingerprint& pin);
  static Tls unverified();
};

}  // namespace rocca::net
