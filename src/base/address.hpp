#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rocca {

/// An IPv4 or IPv6 address. Parsed strictly (no leading zeros, no zone), printed canonically (RFC
/// 5952).
class IpAddress {
 public:
  enum class Family : std::uint8_t { V4, V6 };

  constexpr IpAddress() = default;
  static IpAddress v4(std::uint32_t host_order);
  static IpAddress v6(const std::array<std::uint8_t, 16>& bytes);
  static std::optional<IpAddress> parse(std::string_view text);

  Family family() const { return family_; }
  bool is_v4() const { return family_ == Family::V4; }
  std::uint32_t to_v4() const;                                          // only for V4
  const std::array<std::uint8_t, 16>& bytes() const { return bytes_; }  // V4: the last four
  unsigned bits() const { return is_v4() ? 32 : 128; }

  bool is_loopback() const;
  bool is_link_local() const;
  bool is_multicast() const;
  bool is_unspecified() const;

  /// The address `offset` further on, or nothing past the end of the family's space.
  std::optional<IpAddress> plus(std::uint64_t offset) const;
  /// How many addresses lie from `other` up to this one; nothing if it is below, of another family
  /// or too far.
  std::optional<std::uint64_t> minus(const IpAddress& other) const;

  friend auto operator<=>(const IpAddress&, const IpAddress&) = default;

 private:
  Family family_ = Family::V4;
  std::array<std::uint8_t, 16> bytes_{};
};

std::string to_string(const IpAddress& address);

/// An address and a prefix length. `10.0.0.11/16` keeps its host part; network() drops it.
class Cidr {
 public:
  constexpr Cidr() = default;
  Cidr(IpAddress address, unsigned prefix);
  static std::optional<Cidr> parse(std::string_view text);

  const IpAddress& address() const { return address_; }
  unsigned prefix() const { return prefix_; }
  IpAddress network() const;  // lowest address
  IpAddress last() const;     // highest address (IPv4: broadcast)
  bool is_network() const { return address_ == network(); }
  bool contains(const IpAddress& address) const;
  bool contains(const Cidr& other) const;
  bool overlaps(const Cidr& other) const;
  /// May a machine have it: inside, and for IPv4 below /31 neither the network nor the broadcast
  /// address.
  bool usable(const IpAddress& address) const;

  friend bool operator==(const Cidr&, const Cidr&) = default;

 private:
  IpAddress address_;
  unsigned prefix_ = 0;
};

std::string to_string(const Cidr& cidr);

/// `10.0.0.21-10.0.0.29`, `10.0.0.21-29`, or one address; both ends belong to it.
class AddressRange {
 public:
  AddressRange(IpAddress first, IpAddress last);
  static std::optional<AddressRange> parse(std::string_view text);

  const IpAddress& first() const { return first_; }
  const IpAddress& last() const { return last_; }
  std::uint64_t size() const;  // capped at 2^64-1
  std::optional<IpAddress> at(std::uint64_t index) const;
  bool contains(const IpAddress& address) const;
  bool overlaps(const AddressRange& other) const;

  friend bool operator==(const AddressRange&, const AddressRange&) = default;

 private:
  IpAddress first_;
  IpAddress last_;
};

std::string to_string(const AddressRange& range);

/// A 48-bit hardware address. Reads `:` and `-`, any case; prints `BC:24:11:00:00:01` as Proxmox
/// does.
class MacAddress {
 public:
  constexpr MacAddress() = default;
  constexpr explicit MacAddress(const std::array<std::uint8_t, 6>& bytes) : bytes_(bytes) {}
  static std::optional<MacAddress> parse(std::string_view text);

  const std::array<std::uint8_t, 6>& bytes() const { return bytes_; }
  bool is_multicast() const { return (bytes_[0] & 1) != 0; }
  bool is_local() const { return (bytes_[0] & 2) != 0; }

  friend auto operator<=>(const MacAddress&, const MacAddress&) = default;

 private:
  std::array<std::uint8_t, 6> bytes_{};
};

std::string to_string(const MacAddress& mac);        // BC:24:11:00:00:01
std::string to_lower_string(const MacAddress& mac);  // bc:24:11:00:00:01

}  // namespace rocca
