#include "base/encoding.hpp"

#include <array>
#include <cstdint>

namespace rocca {

namespace {

constexpr std::string_view standard_alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view url_alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::uint8_t no_digit = 0xFF;

constexpr std::array<std::uint8_t, 256> reverse(std::string_view alphabet) {
  std::array<std::uint8_t, 256> table{};
  for (std::uint8_t& digit : table) digit = no_digit;
  for (std::size_t i = 0; i < alphabet.size(); ++i)
    table[static_cast<unsigned char>(alphabet[i])] = static_cast<std::uint8_t>(i);
  return table;
}

std::string encode64(std::string_view bytes, std::string_view alphabet, Padding padding) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t have = bytes.size() - i < 3 ? bytes.size() - i : 3;
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (j < have ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (std::size_t j = 0; j <= have; ++j) text += alphabet[group >> (18 - 6 * j) & 63];
    if (padding == Padding::Required) text.append(3 - have, '=');
  }
  return text;
}

std::optional<std::string> decode64(std::string_view text,
                                    const std::array<std::uint8_t, 256>& table, Padding padding) {
  if (padding == Padding::Required) {
    if (text.size() % 4 != 0) return std::nullopt;
    for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
    // what is left must have needed exactly the padding that was there: `AA==` and `AAA=`, not
    // `A===`
  }
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t group = 0;
  unsigned bits = 0;
  for (const char c : text) {
    const std::uint8_t digit = table[static_cast<unsigned char>(c)];
    if (digit == no_digit) return std::nullopt;
    group = group << 6 | digit;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes += static_cast<char>(group >> bits & 0xFF);
    }
  }
  // Bits that no byte uses must be 0, else two texts would mean the same bytes.
  if ((group & ((1u << bits) - 1)) != 0) return std::nullopt;
  return bytes;
}

std::uint8_t hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return static_cast<std::uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint8_t>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<std::uint8_t>(c - 'A' + 10);
  return no_digit;
}

bool is_unreserved(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

}  // namespace

std::string to_base64(std::string_view bytes, Padding padding) {
  return encode64(bytes, standard_alphabet, padding);
}

std::optional<std::string> from_base64(std::string_view text, Padding padding) {
  static constexpr auto table = reverse(standard_alphabet);
  return decode64(text, table, padding);
}

std::string to_base64url(std::string_view bytes) {
  return encode64(bytes, url_alphabet, Padding::None);
}

std::optional<std::string> from_base64url(std::string_view text) {
  static constexpr auto table = reverse(url_alphabet);
  return decode64(text, table, Padding::None);
}

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    text += digits[static_cast<unsigned char>(c) >> 4];
    text += digits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

std::optional<std::string> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const std::uint8_t high = hex_digit(text[i]);
    const std::uint8_t low = hex_digit(text[i + 1]);
    if (high == no_digit || low == no_digit) return std::nullopt;
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

std::string percent_encode(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string text;
  text.reserve(bytes.size());
  for (const char c : bytes) {
    if (is_unreserved(c)) {
      text += c;
    } else {
      text += '%';
      text += digits[static_cast<unsigned char>(c) >> 4];
      text += digits[static_cast<unsigned char>(c) & 15];
    }
  }
  return text;
}

std::string percent_decode(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      const std::uint8_t high = hex_digit(text[i + 1]);
      const std::uint8_t low = hex_digit(text[i + 2]);
      if (high != no_digit && low != no_digit) {
        bytes += static_cast<char>(high << 4 | low);
        i += 2;
        continue;
      }
    }
    bytes += text[i];
  }
  return bytes;
}

bool is_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    std::size_t length = 1;
    unsigned char low = 0x80;  // bounds of the second byte (RFC 3629 4)
    unsigned char high = 0xBF;
    if (lead >= 0x80) {
      if (lead >= 0xC2 && lead <= 0xDF) {
        length = 2;
      } else if (lead >= 0xE0 && lead <= 0xEF) {
        length = 3;
        if (lead == 0xE0) low = 0xA0;
        if (lead == 0xED) high = 0x9F;
      } else if (lead >= 0xF0 && lead <= 0xF4) {
        length = 4;
        if (lead == 0xF0) low = 0x90;
        if (lead == 0xF4) high = 0x8F;
      } else {
        return false;
      }
    }
    if (text.size() - i < length) return false;
    for (std::size_t j = 1; j < length; ++j) {
      const auto next = static_cast<unsigned char>(text[i + j]);
      if (next < (j == 1 ? low : 0x80) || next > (j == 1 ? high : 0xBF)) return false;
    }
    i += length;
  }
  return true;
}

}  // namespace rocca
