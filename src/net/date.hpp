#pragma once

#include "base/clock.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace rocca::net {

/// `Mon, 16 Nov 2026 00:12:11 GMT`, as a Date header says it (RFC 9110 5.6.7, the form that is
/// sent).
std::optional<Instant> parse_http_date(std::string_view text);
std::string to_http_date(Instant instant);

}  // namespace rocca::net
