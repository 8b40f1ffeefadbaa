#include "secrets/age/bech32.hpp"

#include "base/secret.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace rocca::secrets {

namespace {

constexpr std::string_view alphabet = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
constexpr std::size_t checksum_size = 6;

/// BIP 173's checksum as a running value: a BCH code over GF(32).
class Checksum {
 public:
  void add(unsigned value) {
    constexpr std::array<std::uint32_t, 5> generator{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd,
                                                     0x2a1462b3};
    const std::uint32_t top = state_ >> 25;
    state_ = ((state_ & 0x1ffffff) << 5) ^ value;
    for (unsigned i = 0; i < generator.size(); ++i)
      if (((top >> i) & 1) != 0) state_ ^= generator[i];
  }

  void add_prefix(std::string_view prefix) {
    for (const char c : prefix) add(static_cast<unsigned char>(c) >> 5);
    add(0);
    for (const char c : prefix) add(static_cast<unsigned char>(c) & 31);
  }

  std::uint32_t state() const { return state_; }

 private:
  std::uint32_t state_ = 1;
};

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}

}  // namespace

std::string to_bech32(std::string_view prefix, std::string_view data) {
  Checksum checksum;
  checksum.add_prefix(prefix);
  std::string text(prefix);
  text.reserve(prefix.size() + 1 + (data.size() * 8 + 4) / 5 + checksum_size);
  text += '1';
  const auto put = [&](unsigned value) {
    checksum.add(value);
    text += alphabet[value];
  };
  unsigned bits = 0;
  unsigned waiting = 0;
  for (const char c : data) {
    bits = ((bits << 8) | static_cast<unsigned char>(c)) & 0xfff;
    for (waiting += 8; waiting >= 5;) {
      waiting -= 5;
      put((bits >> waiting) & 31);
    }
  }
  if (waiting > 0) put((bits << (5 - waiting)) & 31);
  for (std::size_t i = 0; i < checksum_size; ++i) checksum.add(0);
  const std::uint32_t sum = checksum.state() ^ 1;
  for (std::size_t i = 0; i < checksum_size; ++i)
    text += alphabet[(sum >> (5 * (checksum_size - 1 - i))) & 31];
  return text;
}

std::optional<Bech32> from_bech32(std::string_view text) {
  if (std::any_of(text.begin(), text.end(), is_lower) &&
      std::any_of(text.begin(), text.end(), is_upper))
    return std::nullopt;
  const std::size_t split = text.rfind('1');
  if (split == std::string_view::npos || split == 0 || text.size() - split - 1 < checksum_size)
    return std::nullopt;

  Bech32 result;
  for (const char c : text.substr(0, split)) {
    if (c < 33 || c > 126) return std::nullopt;
    result.prefix += is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
  }
  Checksum checksum;
  checksum.add_prefix(result.prefix);

  const std::string_view body = text.substr(split + 1);
  result.data.reserve(body.size() * 5 / 8);  // no second copy of a secret in a grown buffer
  unsigned bits = 0;
  unsigned waiting = 0;
  for (std::size_t i = 0; i < body.size(); ++i) {
    const char c = is_upper(body[i]) ? static_cast<char>(body[i] - 'A' + 'a') : body[i];
    const std::size_t value = alphabet.find(c);
    if (value == std::string_view::npos) {
      wipe(result.data);
      return std::nullopt;
    }
    checksum.add(static_cast<unsigned>(value));
    if (i + checksum_size >= body.size()) continue;
    bits = ((bits << 5) | static_cast<unsigned>(value)) & 0xfff;
    if ((waiting += 5) >= 8) {
      waiting -= 8;
      result.data += static_cast<char>((bits >> waiting) & 0xff);
    }
  }
  const bool padded_right = waiting < 5 && (bits & ((1u << waiting) - 1)) == 0;
  if (checksum.state() != 1 || !padded_right) {
    wipe(result.data);
    return std::nullopt;
  }
  return result;
}

}  // namespace rocca::secrets
