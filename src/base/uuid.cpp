#include "base/uuid.hpp"

#include "base/encoding.hpp"
#include "base/entropy.hpp"

#include <algorithm>
#include <bit>
#include <span>

namespace rocca {

namespace {

/// SHA-1 (RFC 3174). Broken for signatures; RFC 4122 demands it for names, where nobody gains by a
/// collision.
class Sha1 {
 public:
  static std::array<std::uint8_t, 20> of(std::string_view message) {
    std::string padded{message};
    padded += static_cast<char>(0x80);
    while (padded.size() % 64 != 56) padded += '\0';
    const std::uint64_t bits = std::uint64_t{message.size()} * 8;
    for (unsigned shift = 64; shift > 0; shift -= 8)
      padded += static_cast<char>(bits >> (shift - 8) & 0xFF);

    Sha1 hash;
    for (std::size_t i = 0; i < padded.size(); i += 64) hash.block(padded.data() + i);
    std::array<std::uint8_t, 20> digest{};
    for (std::size_t i = 0; i < 20; ++i)
      digest[i] = static_cast<std::uint8_t>(hash.state_[i / 4] >> (24 - 8 * (i % 4)));
    return digest;
  }

 private:
  void block(const char* data) {
    std::array<std::uint32_t, 80> w{};
    for (std::size_t i = 0; i < 64; ++i)
      w[i / 4] = w[i / 4] << 8 | static_cast<unsigned char>(data[i]);
    for (std::size_t i = 16; i < 80; ++i)
      w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);

    auto [a, b, c, d, e] = state_;
    for (std::size_t i = 0; i < 80; ++i) {
      std::uint32_t f = b ^ c ^ d;
      std::uint32_t k = i < 40 ? 0x6ED9EBA1 : 0xCA62C1D6;
      if (i < 20) {
        f = (b & c) | (~b & d);
        k = 0x5A827999;
      } else if (i >= 40 && i < 60) {
        f = (b & c) | (b & d) | (c & d);
        k = 0x8F1BBCDC;
      }
      const std::uint32_t next = std::rotl(a, 5) + f + e + k + w[i];
      e = d;
      d = c;
      c = std::rotl(b, 30);
      b = a;
      a = next;
    }
    state_[0] += a;
    state_[1] += b;
    state_[2] += c;
    state_[3] += d;
    state_[4] += e;
  }

  std::array<std::uint32_t, 5> state_{0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
};

Uuid with_version(std::array<std::uint8_t, 16> bytes, unsigned version) {
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0F) | version << 4);
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3F) | 0x80);  // RFC 4122 4.1.1
  return Uuid{bytes};
}

std::string_view as_text(const std::array<std::uint8_t, 16>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::optional<Uuid> Uuid::parse(std::string_view text) {
  if (text.size() != 36) return std::nullopt;
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash != (text[i] == '-')) return std::nullopt;
    if (!dash) digits += text[i];
  }
  const auto raw = from_hex(digits);
  if (!raw) return std::nullopt;
  std::array<std::uint8_t, 16> bytes{};
  std::transform(raw->begin(), raw->end(), bytes.begin(),
                 [](char c) { return static_cast<std::uint8_t>(c); });
  return Uuid{bytes};
}

Uuid Uuid::v5(const Uuid& space, std::string_view name) {
  const auto digest = Sha1::of(std::string{as_text(space.bytes())}.append(name));
  std::array<std::uint8_t, 16> bytes{};
  std::copy_n(digest.begin(), bytes.size(), bytes.begin());
  return with_version(bytes, 5);
}

Uuid Uuid::v4(Entropy& entropy) {
  std::array<std::uint8_t, 16> bytes{};
  entropy.fill(std::as_writable_bytes(std::span{bytes}));
  return with_version(bytes, 4);
}

std::string to_string(const Uuid& uuid) {
  std::string text = to_hex(as_text(uuid.bytes()));
  for (const std::size_t dash : {8u, 13u, 18u, 23u}) text.insert(dash, 1, '-');
  return text;
}

}  // namespace rocca
