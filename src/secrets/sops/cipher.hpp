#pragma once

#include "base/entropy.hpp"
#include "base/secret.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace rocca::secrets::sops {

/// One `ENC[AES256_GCM,data:…,iv:…,tag:…,type:…]`.
struct SealedValue {
  std::string data;
  std::string iv;
  std::string tag;
  std::string type;  // str, int, float, bool, bytes, time, comment

  /// Nothing for text that does not look like one. A part that is not base64 stays empty.
  static std::optional<SealedValue> parse(std::string_view text);
  std::string text() const;
};

/// The plaintext; nothing if the key, the place (`aad`) or any byte is not the one it was sealed
/// with.
std::optional<Secret> open(const SealedValue& value, const Secret& data_key, std::string_view aad);
SealedValue seal(std::string_view plaintext, std::string type, const Secret& data_key,
                 std::string_view aad, Entropy& entropy);

}  // namespace rocca::secrets::sops
