#include "spec/scalars.hpp"

#include "base/address.hpp"
#include "base/diagnostics.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "base/uuid.hpp"
#include "base/version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace rocca::spec {

namespace {

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isxdigit(c); });
}

bool is_fingerprint(std::string_view text) {
  const auto pairs = split(text, ':');
  return pairs.size() == 32 && std::all_of(pairs.begin(), pairs.end(), [](const std::string& pair) {
           return pair.size() == 2 && is_hex(pair);
         });
}

bool is_age_key(std::string_view text) {
  if (text.starts_with("ssh-ed25519 ") || text.starts_with("ssh-rsa ")) return true;
  constexpr std::string_view bech32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
  return text.size() == 62 && text.starts_with("age1") &&
         text.substr(4).find_first_not_of(bech32) == std::string_view::npos;
}

bool cron_field(std::string_view text, std::uint64_t low, std::uint64_t high) {
  const auto number = [&](std::string_view digits) {
    const auto value = parse_uint(digits);
    return value && *value >= low && *value <= high ? value : std::nullopt;
  };
  for (const std::string& part : split(text, ',')) {
    std::string_view span = part;
    if (const auto slash = span.find('/'); slash != std::string_view::npos) {
      const auto step = parse_uint(span.substr(slash + 1));
      if (!step || *step == 0) return false;
      span = span.substr(0, slash);
    }
    if (span == "*") continue;
    const auto dash = span.find('-');
    const auto first = number(span.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(span.substr(dash + 1));
    if (!first || !last || *last < *first) return false;
  }
  return true;
}

std::string in_quotes(const Tree& scalar) {
  return fmt::format("`{}`", scalar.text);
}

std::string size_hint(const Tree& scalar) {
  std::string digits;
  for (const char c : scalar.text) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) break;
    digits += c;
  }
  if (digits.empty()) return "sizes are written with KiB, MiB, GiB or TiB";
  return fmt::format("write the unit in binary, such as {}GiB or {}MiB", digits, digits);
}

std::optional<Complaint> wrong_type(const Field& field, const Tree& scalar, std::string hint = "") {
  return Complaint{"wrong-type",
                   fmt::format("expected {}, found {} {}", describe_value(field),
                               text::to_string(scalar.kind), in_quotes(scalar)),
                   std::move(hint)};
}

std::optional<Complaint> check_enum(const Field& field, const Tree& scalar) {
  const auto values = enum_values(field);
  if (std::find(values.begin(), values.end(), scalar.text) != values.end()) return std::nullopt;
  return Complaint{"bad-value",
                   fmt::format("{} is not {}{}", in_quotes(scalar),
                               values.size() == 1 ? values[0] : "one of " + enumerate(values),
                               did_you_mean(scalar.text, values)),
                   ""};
}

std::optional<Complaint> check_int(const Field& field, const Tree& scalar) {
  if (scalar.kind != text::Kind::Int) return wrong_type(field, scalar);
  const auto value = text::Value::plain(scalar.text).as_int();
  const auto limits = int_limits(field);
  if (value && (!limits || (*value >= limits->low && *value <= limits->high))) return std::nullopt;
  return Complaint{"out-of-range",
                   fmt::format("{} is not {}", in_quotes(scalar), describe_value(field)), ""};
}

std::optional<Complaint> check_version(const Tree& scalar) {
  if (Version::parse(scalar.text)) return std::nullopt;
  const auto loose = Version::parse_loose(scalar.text);
  return Complaint{"bad-version", fmt::format("{} is not a version", in_quotes(scalar)),
                   loose ? fmt::format("write all three parts, such as v{}", to_string(*loose))
                         : "versions look like v1.11.5"};
}

std::optional<Complaint> check_subnet(const Tree& scalar) {
  const auto cidr = Cidr::parse(scalar.text);
  if (!cidr)
    return Complaint{"bad-subnet", fmt::format("{} is not a network", in_quotes(scalar)),
                     "networks are written with their prefix length, such as 10.0.0.0/16"};
  if (cidr->is_network()) return std::nullopt;
  return Complaint{
      "bad-subnet", fmt::format("{} is an address inside a network", in_quotes(scalar)),
      fmt::format("the network is {}", to_string(Cidr(cidr->network(), cidr->prefix())))};
}

std::optional<Complaint> check_mac(const Tree& scalar) {
  const auto mac = MacAddress::parse(scalar.text);
  if (!mac)
    return Complaint{"bad-mac", fmt::format("{} is not a MAC address", in_quotes(scalar)),
                     "MAC addresses look like BC:24:11:00:00:01"};
  if (!mac->is_multicast()) return std::nullopt;
  return Complaint{
      "bad-mac", fmt::format("{} is a multicast address, which no NIC can have", in_quotes(scalar)),
      "the second digit must be even"};
}

std::optional<Complaint> check_path(const Tree& scalar) {
  if (!scalar.text.empty()) return std::nullopt;
  return Complaint{"bad-value", "an empty path names nothing", ""};
}

std::optional<Complaint> simple(bool good, std::string_view code, const Field& field,
                                const Tree& scalar, std::string hint = "") {
  if (good) return std::nullopt;
  return Complaint{code, fmt::format("{} is not {}", in_quotes(scalar), describe_value(field)),
                   std::move(hint)};
}

}  // namespace

bool is_cron(std::string_view text) {
  std::vector<std::string> parts;
  for (const std::string& part : split(trim(text), ' '))
    if (!part.empty()) parts.push_back(part);
  constexpr std::array<std::pair<std::uint64_t, std::uint64_t>, 5> limits{
      {{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 7}}};
  if (parts.size() != limits.size()) return false;
  for (std::size_t i = 0; i < limits.size(); ++i)
    if (!cron_field(parts[i], limits[i].first, limits[i].second)) return false;
  return true;
}

bool is_url(std::string_view text) {
  if (text.find_first_of(" \t\n") != std::string_view::npos) return false;
  const auto mark = text.find("://");
  if (mark != std::string_view::npos) {
    const auto scheme = text.substr(0, mark);
    const auto rest = text.substr(mark + 3);
    const bool letters = std::all_of(scheme.begin(), scheme.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
    });
    return !scheme.empty() && letters && !rest.empty() && (rest[0] != '/' || scheme == "file");
  }
  const auto at = text.find('@');
  const auto colon = text.find(':');
  return at != std::string_view::npos && at > 0 && colon != std::string_view::npos &&
         colon > at + 1 && colon + 1 < text.size();
}

bool has_password(std::string_view url) {
  const auto mark = url.find("://");
  if (mark == std::string_view::npos) return false;
  const auto authority = url.substr(mark + 3, url.find_first_of("/?#", mark + 3) - mark - 3);
  const auto at = authority.rfind('@');
  return at != std::string_view::npos &&
         authority.substr(0, at).find(':') != std::string_view::npos;
}

bool is_sha256_hex(std::string_view text) {
  return text.size() == 64 && is_hex(text);
}

std::optional<Complaint> check_scalar(const Field& field, const Tree& scalar) {
  using text::Kind;
  switch (field.type) {
    case Type::Any:
    case Type::Patches:
      return std::nullopt;
    case Type::Map:
      return wrong_type(field, scalar);
    case Type::Text:
      if (scalar.kind == Kind::Bool)
        return wrong_type(field, scalar, fmt::format("write \"{}\" in quotes", scalar.text));
      return std::nullopt;
    case Type::Path:
    case Type::Source:
      if (scalar.kind != Kind::String) return wrong_type(field, scalar);
      return check_path(scalar);
    case Type::Bool:
      if (scalar.kind == Kind::Bool) return std::nullopt;
      return wrong_type(field, scalar, "write true or false, without quotes");
    case Type::Int:
      return check_int(field, scalar);
    case Type::Size:
      if (scalar.kind == Kind::String && Bytes::parse(scalar.text)) return std::nullopt;
      return Complaint{"bad-size", fmt::format("{} is not a size", in_quotes(scalar)),
                       size_hint(scalar)};
    case Type::Duration:
      return simple(scalar.kind == Kind::String && parse_duration(scalar.text).has_value(),
                    "bad-duration", field, scalar, "durations are written as 90s, 10m or 1h30m");
    case Type::Version:
      return check_version(scalar);
    case Type::Address:
      return simple(IpAddress::parse(scalar.text).has_value(), "bad-address", field, scalar,
                    scalar.text.find('/') != std::string::npos
                        ? "leave the prefix length out; it comes from network.subnet"
                        : "");
    case Type::Subnet:
      return check_subnet(scalar);
    case Type::Range:
      return simple(AddressRange::parse(scalar.text).has_value(), "bad-range", field, scalar,
                    "the first address, a dash and the last one, both included");
    case Type::Mac:
      return check_mac(scalar);
    case Type::Uuid:
      return simple(Uuid::parse(scalar.text).has_value(), "bad-uuid", field, scalar);
    case Type::Url:
      return simple(is_url(scalar.text), "bad-url", field, scalar);
    case Type::Label:
      return simple(is_dns_label(scalar.text), "bad-name", field, scalar,
                    "1 to 63 of a-z, 0-9 and -, and no - at either end");
    case Type::Domain:
      return simple(is_dns_name(scalar.text) || IpAddress::parse(scalar.text).has_value(),
                    "bad-name", field, scalar);
    case Type::Enum:
      return check_enum(field, scalar);
    case Type::Fingerprint:
      return simple(is_fingerprint(scalar.text), "bad-fingerprint", field, scalar,
                    "`pvenode cert info` prints it; or give caFile instead");
    case Type::Schedule:
      return simple(is_cron(scalar.text), "bad-schedule", field, scalar,
                    "minute, hour, day, month, weekday");
    case Type::AgeKey:
      return simple(is_age_key(scalar.text), "bad-age-key", field, scalar);
  }
  return std::nullopt;
}

}  // namespace rocca::spec
