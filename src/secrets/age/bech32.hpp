#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rocca::secrets {

/// A bech32 string (BIP 173) taken apart. Age uses no length limit and the checksum constant 1.
struct Bech32 {
  std::string prefix;  // lower case
  std::string data;    // whole bytes
};

/// Lower case; who wants the upper form converts it.
std::string to_bech32(std::string_view prefix, std::string_view data);

/// Strict: one case only, a right checksum, zero padding bits, fewer than five of them. Nothing
/// otherwise.
std::optional<Bech32> from_bech32(std::string_view text);

}  // namespace rocca::secrets
