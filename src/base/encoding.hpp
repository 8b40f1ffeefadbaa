#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rocca {

enum class Padding { Required, None };

/// Standard alphabet, one line.
std::string to_base64(std::string_view bytes, Padding padding = Padding::Required);
/// Strict: canonical trailing bits, exactly that padding, no white space. Nothing on any other
/// input.
std::optional<std::string> from_base64(std::string_view text, Padding padding = Padding::Required);
std::string to_base64url(std::string_view bytes);  // RFC 4648 5, no padding
std::optional<std::string> from_base64url(std::string_view text);

std::string to_hex(std::string_view bytes);                  // lower case
std::optional<std::string> from_hex(std::string_view text);  // any case

/// RFC 3986: everything but letters, digits and `-._~` is escaped.
std::string percent_encode(std::string_view bytes);
/// Leaves a stray `%` as it is: who sends broken escapes should still be readable.
std::string percent_decode(std::string_view text);

/// Valid UTF-8 by RFC 3629 (no surrogates, no overlong forms).
bool is_utf8(std::string_view text) noexcept;

}  // namespace rocca
