#include "proxmox/upid.hpp"

#include "base/strings.hpp"

#include <algorithm>

namespace rocca::proxmox {

namespace {

std::optional<std::uint64_t> parse_hex(std::string_view text, std::size_t least, std::size_t most) {
  if (text.size() < least || text.size() > most) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : text) {
    unsigned digit = 0;
    if (c >= '0' && c <= '9')
      digit = static_cast<unsigned>(c - '0');
    else if (c >= 'A' && c <= 'F')
      digit = static_cast<unsigned>(c - 'A') + 10;
    else
      return std::nullopt;
    value = value * 16 + digit;
  }
  return value;
}

}  // namespace

std::optional<Upid> Upid::parse(std::string_view text) {
  const std::vector<std::string> parts = split(text, ':');
  // UPID, node, pid, pstart, starttime, type, id, user, and nothing behind the last colon.
  if (parts.size() != 9 || parts[0] != "UPID" || !parts[8].empty()) return std::nullopt;
  const auto pid = parse_hex(parts[2], 8, 8);
  const auto pstart = parse_hex(parts[3], 8, 9);
  const auto started = parse_hex(parts[4], 8, 8);
  if (!pid || !pstart || !started) return std::nullopt;
  const auto plain = [](const std::string& part) {
    return part.find_first_of("/ \t\n") == std::string::npos;
  };
  if (parts[1].empty() || parts[5].empty() || parts[7].find('@') == std::string::npos)
    return std::nullopt;
  if (!std::all_of(parts.begin(), parts.end(), plain)) return std::nullopt;
  return Upid{std::string(text), parts[1], Instant{std::chrono::seconds{*started}},
              parts[5],          parts[6], parts[7]};
}

}  // namespace rocca::proxmox
