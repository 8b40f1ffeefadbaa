#include "net/http.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::net {

void Headers::set(std::string_view name, std::string value) {
  std::erase_if(fields_,
                [&](const Header& field) { return equal_ignoring_case(field.name, name); });
  fields_.push_back({std::string(name), std::move(value)});
}

std::optional<std::string_view> Headers::find(std::string_view name) const noexcept {
  for (const auto& field : fields_)
    if (equal_ignoring_case(field.name, name)) return field.value;
  return std::nullopt;
}

std::vector<std::string_view> Headers::all(std::string_view name) const {
  std::vector<std::string_view> values;
  for (const auto& field : fields_)
    if (equal_ignoring_case(field.name, name)) values.push_back(field.value);
  return values;
}

namespace {

constexpr unsigned default_port(std::string_view scheme) noexcept {
  return scheme == "https" ? 443 : 80;
}

// A space or a control character in a URL would end up in the request line, where it starts a
// second request.
bool is_plain(std::string_view text) noexcept {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c != '\x7f' && c != '#'; });
}

bool is_host(std::string_view text) noexcept {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
  });
}

bool is_ipv6_text(std::string_view text) noexcept {
  return text.find(':') != std::string_view::npos && std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || (c >= '0' && c <= '9') ||
                  c == ':' || c == '.';
         });
}

}  // namespace

std::optional<Url> Url::parse(std::string_view text) {
  const auto mark = text.find("://");
  if (mark == std::string_view::npos) return std::nullopt;
  Url url;
  url.scheme = to_lower(text.substr(0, mark));
  if (url.scheme != "http" && url.scheme != "https") return std::nullopt;
  text.remove_prefix(mark + 3);

  const auto end = std::min(text.find_first_of("/?#"), text.size());
  auto authority = text.substr(0, end);
  const auto target = text.substr(end);
  if (!is_plain(target)) return std::nullopt;
  url.target = target.starts_with('/') ? std::string(target) : "/" + std::string(target);

  if (authority.starts_with('[')) {
    const auto close = authority.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    url.host = authority.substr(1, close - 1);
    if (!is_ipv6_text(url.host)) return std::nullopt;
    authority.remove_prefix(close + 1);
  } else {
    const auto colon = std::min(authority.find(':'), authority.size());
    url.host = authority.substr(0, colon);
    if (!is_host(url.host)) return std::nullopt;
    authority.remove_prefix(colon);
  }

  url.port = default_port(url.scheme);
  if (!authority.empty()) {
    if (authority.front() != ':') return std::nullopt;
    const auto port = parse_uint(authority.substr(1));
    if (!port || *port == 0 || *port > 65535) return std::nullopt;
    url.port = static_cast<unsigned>(*port);
  }
  return url;
}

std::string Url::origin() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", scheme, ipv6 ? "[" : "", host, ipv6 ? "]" : "", port);
}

std::string to_string(const Url& url) {
  return url.origin() + url.target;
}

}  // namespace rocca::net
