#include "base/address.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <limits>
#include <vector>

namespace rocca {

namespace {

__extension__ using U128 = unsigned __int128;

U128 to_number(const IpAddress& address) {
  U128 number = 0;
  for (const std::uint8_t byte : address.bytes()) number = number << 8 | byte;
  return number;
}

IpAddress from_number(IpAddress::Family family, U128 number) {
  if (family == IpAddress::Family::V4) return IpAddress::v4(static_cast<std::uint32_t>(number));
  std::array<std::uint8_t, 16> bytes{};
  for (std::size_t i = 16; i-- > 0; number >>= 8) bytes[i] = static_cast<std::uint8_t>(number);
  return IpAddress::v6(bytes);
}

U128 highest(IpAddress::Family family) {
  return family == IpAddress::Family::V4 ? U128{0xFFFFFFFFu} : ~U128{0};
}

/// The bits of `address` that a prefix of that length leaves to the host.
U128 host_mask(const IpAddress& address, unsigned prefix) {
  const unsigned host_bits = address.bits() - prefix;
  if (host_bits == 0) return 0;
  return host_bits == 128 ? ~U128{0} : (U128{1} << host_bits) - 1;
}

std::optional<unsigned> parse_octet(std::string_view text) {
  // `010` is 8 for inet_aton and 10 for a reader; who means either can write it.
  if (text.empty() || text.size() > 3 || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  const auto value = parse_uint(text);
  if (!value || *value > 255) return std::nullopt;
  return static_cast<unsigned>(*value);
}

std::optional<std::uint32_t> parse_v4(std::string_view text) {
  const auto parts = split(text, '.');
  if (parts.size() != 4) return std::nullopt;
  std::uint32_t value = 0;
  for (const std::string& part : parts) {
    const auto octet = parse_octet(part);
    if (!octet) return std::nullopt;
    value = value << 8 | *octet;
  }
  return value;
}

std::optional<unsigned> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return std::nullopt;
}

std::optional<unsigned> parse_group(std::string_view text) {
  if (text.empty() || text.size() > 4) return std::nullopt;
  unsigned value = 0;
  for (const char c : text) {
    const auto digit = hex_digit(c);
    if (!digit) return std::nullopt;
    value = value << 4 | *digit;
  }
  return value;
}

/// Groups between colons; the last one may be a dotted IPv4 address and then counts as two.
bool parse_groups(std::string_view text, bool may_end_in_v4, std::vector<unsigned>& groups) {
  if (text.empty()) return true;
  const auto parts = split(text, ':');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (const auto group = parse_group(parts[i])) {
      groups.push_back(*group);
    } else if (const auto v4 =
                   may_end_in_v4 && i + 1 == parts.size() ? parse_v4(parts[i]) : std::nullopt) {
      groups.push_back(*v4 >> 16);
      groups.push_back(*v4 & 0xFFFF);
    } else {
      return false;
    }
  }
  return groups.size() <= 8;
}

std::optional<IpAddress> parse_v6(std::string_view text) {
  std::vector<unsigned> head;
  std::vector<unsigned> tail;
  const std::size_t gap = text.find("::");
  if (gap == std::string_view::npos) {
    if (text.empty() || !parse_groups(text, true, head) || head.size() != 8) return std::nullopt;
  } else {
    if (!parse_groups(text.substr(0, gap), false, head)) return std::nullopt;
    if (!parse_groups(text.substr(gap + 2), true, tail)) return std::nullopt;
    if (head.size() + tail.size() > 7) return std::nullopt;  // `::` stands for one group at least
  }
  std::array<std::uint8_t, 16> bytes{};
  const auto put = [&](std::size_t index, unsigned group) {
    bytes[2 * index] = static_cast<std::uint8_t>(group >> 8);
    bytes[2 * index + 1] = static_cast<std::uint8_t>(group);
  };
  for (std::size_t i = 0; i < head.size(); ++i) put(i, head[i]);
  for (std::size_t i = 0; i < tail.size(); ++i) put(8 - tail.size() + i, tail[i]);
  return IpAddress::v6(bytes);
}

std::string v4_text(const std::uint8_t* bytes) {
  return fmt::format("{}.{}.{}.{}", bytes[0], bytes[1], bytes[2], bytes[3]);
}

std::string v6_text(const std::array<std::uint8_t, 16>& bytes) {
  std::array<unsigned, 8> groups{};
  for (std::size_t i = 0; i < 8; ++i) groups[i] = unsigned{bytes[2 * i]} << 8 | bytes[2 * i + 1];

  // RFC 5952 4.2: the longest run of two zero groups or more, the first of equals, becomes `::`.
  std::size_t best = 0;
  std::size_t best_length = 1;
  for (std::size_t i = 0; i < 8;) {
    std::size_t end = i;
    while (end < 8 && groups[end] == 0) ++end;
    if (end - i > best_length) {
      best = i;
      best_length = end - i;
    }
    i = end + 1;
  }
  const bool gap = best_length > 1;
  // RFC 5952 5: an IPv4-mapped address shows its IPv4 part.
  if (gap && best == 0 && best_length == 5 && groups[5] == 0xFFFF)
    return "::ffff:" + v4_text(&bytes[12]);

  std::string text;
  for (std::size_t i = 0; i < 8; ++i) {
    if (gap && i == best) {
      text += "::";
      i += best_length - 1;
      continue;
    }
    if (!text.empty() && text.back() != ':') text += ':';
    text += fmt::format("{:x}", groups[i]);
  }
  return text;
}

}  // namespace

IpAddress IpAddress::v4(std::uint32_t host_order) {
  IpAddress address;
  for (std::size_t i = 0; i < 4; ++i)
    address.bytes_[12 + i] = static_cast<std::uint8_t>(host_order >> (24 - 8 * i));
  return address;
}

IpAddress IpAddress::v6(const std::array<std::uint8_t, 16>& bytes) {
  IpAddress address;
  address.family_ = Family::V6;
  address.bytes_ = bytes;
  return address;
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
  if (text.find(':') != std::string_view::npos) return parse_v6(text);
  if (const auto value = parse_v4(text)) return v4(*value);
  return std::nullopt;
}

std::uint32_t IpAddress::to_v4() const {
  return static_cast<std::uint32_t>(to_number(*this));
}

bool IpAddress::is_loopback() const {
  return is_v4() ? bytes_[12] == 127 : to_number(*this) == 1;
}

bool IpAddress::is_link_local() const {
  return is_v4() ? bytes_[12] == 169 && bytes_[13] == 254
                 : bytes_[0] == 0xFE && (bytes_[1] & 0xC0) == 0x80;
}

bool IpAddress::is_multicast() const {
  return is_v4() ? (bytes_[12] & 0xF0) == 0xE0 : bytes_[0] == 0xFF;
}

bool IpAddress::is_unspecified() const {
  return to_number(*this) == 0;
}

std::optional<IpAddress> IpAddress::plus(std::uint64_t offset) const {
  const U128 number = to_number(*this);
  if (offset > highest(family_) - number) return std::nullopt;
  return from_number(family_, number + offset);
}

std::optional<std::uint64_t> IpAddress::minus(const IpAddress& other) const {
  if (family_ != other.family_ || *this < other) return std::nullopt;
  const U128 distance = to_number(*this) - to_number(other);
  if (distance > std::numeric_limits<std::uint64_t>::max()) return std::nullopt;
  return static_cast<std::uint64_t>(distance);
}

std::string to_string(const IpAddress& address) {
  return address.is_v4() ? v4_text(&address.bytes()[12]) : v6_text(address.bytes());
}

Cidr::Cidr(IpAddress address, unsigned prefix) : address_(address), prefix_(prefix) {
  if (prefix > address.bits())
    throw Error(Fault::Usage, fmt::format("a prefix of /{} is too long for {}", prefix,
                                          rocca::to_string(address)));
}

std::optional<Cidr> Cidr::parse(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto address = IpAddress::parse(text.substr(0, slash));
  const auto prefix = parse_octet(text.substr(slash + 1));
  if (!address || !prefix || *prefix > address->bits()) return std::nullopt;
  return Cidr{*address, *prefix};
}

IpAddress Cidr::network() const {
  return from_number(address_.family(), to_number(address_) & ~host_mask(address_, prefix_));
}

IpAddress Cidr::last() const {
  return from_number(address_.family(), to_number(address_) | host_mask(address_, prefix_));
}

bool Cidr::contains(const IpAddress& address) const {
  return address.family() == address_.family() && network() <= address && address <= last();
}

bool Cidr::contains(const Cidr& other) const {
  return other.prefix_ >= prefix_ && contains(other.address_);
}

bool Cidr::overlaps(const Cidr& other) const {
  return contains(other) || other.contains(*this);
}

bool Cidr::usable(const IpAddress& address) const {
  if (!contains(address)) return false;
  // RFC 3021: in a /31 both addresses are hosts. IPv6 has no broadcast; its lowest address is the
  // routers' anycast (RFC 4291 2.6.1), which people do give to gateways.
  if (!address.is_v4() || prefix_ >= 31) return true;
  return address != network() && address != last();
}

std::string to_string(const Cidr& cidr) {
  return fmt::format("{}/{}", to_string(cidr.address()), cidr.prefix());
}

AddressRange::AddressRange(IpAddress first, IpAddress last) : first_(first), last_(last) {
  if (first.family() != last.family() || last < first)
    throw Error(Fault::Usage, fmt::format("{} does not come before {}", rocca::to_string(first),
                                          rocca::to_string(last)));
}

std::optional<AddressRange> AddressRange::parse(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = IpAddress::parse(text.substr(0, dash));
  if (!first) return std::nullopt;
  if (dash == std::string_view::npos) return AddressRange{*first, *first};
  const std::string_view rest = text.substr(dash + 1);
  auto last = IpAddress::parse(rest);
  if (!last && first->is_v4()) {
    if (const auto octet = parse_octet(rest))
      last = IpAddress::v4((first->to_v4() & 0xFFFFFF00u) | *octet);
  }
  if (!last || last->family() != first->family() || *last < *first) return std::nullopt;
  return AddressRange{*first, *last};
}

std::uint64_t AddressRange::size() const {
  const auto distance = last_.minus(first_);
  if (!distance || *distance == std::numeric_limits<std::uint64_t>::max())
    return std::numeric_limits<std::uint64_t>::max();
  return *distance + 1;
}

std::optional<IpAddress> AddressRange::at(std::uint64_t index) const {
  const auto address = first_.plus(index);
  if (!address || last_ < *address) return std::nullopt;
  return address;
}

bool AddressRange::contains(const IpAddress& address) const {
  return address.family() == first_.family() && first_ <= address && address <= last_;
}

bool AddressRange::overlaps(const AddressRange& other) const {
  return first_.family() == other.first_.family() && first_ <= other.last_ && other.first_ <= last_;
}

std::string to_string(const AddressRange& range) {
  if (range.first() == range.last()) return to_string(range.first());
  return to_string(range.first()) + "-" + to_string(range.last());
}

std::optional<MacAddress> MacAddress::parse(std::string_view text) {
  if (text.size() != 17) return std::nullopt;
  const char separator = text[2];
  if (separator != ':' && separator != '-') return std::nullopt;
  std::array<std::uint8_t, 6> bytes{};
  for (std::size_t i = 0; i < 6; ++i) {
    const auto high = hex_digit(text[3 * i]);
    const auto low = hex_digit(text[3 * i + 1]);
    if (!high || !low || (i < 5 && text[3 * i + 2] != separator)) return std::nullopt;
    bytes[i] = static_cast<std::uint8_t>(*high << 4 | *low);
  }
  return MacAddress{bytes};
}

std::string to_string(const MacAddress& mac) {
  const auto& b = mac.bytes();
  return fmt::format("{:02X}:{:02X}:{:02X}:{:02X}:{:02X}:{:02X}", b[0], b[1], b[2], b[3], b[4],
                     b[5]);
}

std::string to_lower_string(const MacAddress& mac) {
  return to_lower(to_string(mac));
}

}  // namespace rocca
