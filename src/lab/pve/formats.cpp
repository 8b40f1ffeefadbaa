#include "base/address.hpp"
#include "base/strings.hpp"
#include "lab/pve/schema/schema.hpp"
#include "lab/pve/storage.hpp"

#include <fmt/format.h>

#include <map>
#include <regex>
#include <set>
#include <unordered_map>

namespace rocca::lab::pve {

namespace {

using Check = std::optional<std::string> (*)(const std::string& value);

bool fits(const std::string& value, const char* pattern) {
  // Compiling costs a hundred times what matching does, and the patterns are few.
  thread_local std::map<const char*, std::regex> compiled;
  auto found = compiled.find(pattern);
  if (found == compiled.end()) found = compiled.emplace(pattern, std::regex(pattern)).first;
  return std::regex_match(value, found->second);
}

std::optional<std::string> complain(bool fine, std::string text) {
  if (fine) return std::nullopt;
  return text;
}

bool is_host_name(const std::string& value) {
  return fits(
      value,
      "(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\\.)*[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?");
}

std::optional<std::string> vmid(const std::string& value) {
  return complain(fits(value, "[1-9][0-9]{2,8}"), "value does not look like a valid VM ID");
}
std::optional<std::string> node(const std::string& value) {
  return complain(fits(value, "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"),
                  "value does not look like a valid node name");
}
std::optional<std::string> storage_id(const std::string& value) {
  return complain(fits(value, "[A-Za-z][A-Za-z0-9\\-_.]*[A-Za-z0-9]"),
                  fmt::format("storage ID '{}' contains illegal characters", value));
}
std::optional<std::string> interface_name(const std::string& value) {
  return complain(fits(value, "[a-zA-Z][a-zA-Z0-9_]{1,20}(?:[:.]\\d+)?"),
                  "invalid network interface name '" + value + "'");
}
std::optional<std::string> configid(const std::string& value) {
  return complain(fits(value, "[A-Za-z][A-Za-z0-9_-]+"),
                  fmt::format("invalid configuration ID '{}'", value));
}
std::optional<std::string> pool(const std::string& value) {
  if (fits(value, "[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+){3,}"))
    return fmt::format("pool name '{}' nested too deeply (max levels = 3)", value);
  return complain(fits(value, "[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+){0,2}"),
                  fmt::format("pool name '{}' contains invalid characters", value));
}
std::optional<std::string> role(const std::string& value) {
  return complain(fits(value, "[A-Za-z0-9._-]+"),
                  fmt::format("role name '{}' contains invalid characters", value));
}
std::optional<std::string> group(const std::string& value) {
  return complain(fits(value, "[A-Za-z0-9._-]+"),
                  fmt::format("group name '{}' contains invalid characters", value));
}
std::optional<std::string> realm(const std::string& value) {
  return complain(fits(value, "[A-Za-z][A-Za-z0-9._-]+"), "value does not look like a valid realm");
}
std::optional<std::string> user(const std::string& value) {
  return complain(fits(value, "[^\\s:/]+@[A-Za-z][A-Za-z0-9._-]+"),
                  fmt::format("value '{}' does not look like a valid user name", value));
}
std::optional<std::string> token(const std::string& value) {
  return complain(fits(value, "[^\\s:/]+@[A-Za-z][A-Za-z0-9._-]+![A-Za-z][A-Za-z0-9._-]+"),
                  fmt::format("value '{}' does not look like a valid token ID", value));
}
std::optional<std::string> dns_name(const std::string& value) {
  return complain(is_host_name(value), "value does not look like a valid DNS name");
}
std::optional<std::string> ipv4(const std::string& value) {
  const auto address = IpAddress::parse(value);
  return complain(address && address->is_v4(), "value does not look like a valid IPv4 address");
}
std::optional<std::string> ipv6(const std::string& value) {
  const auto address = IpAddress::parse(value);
  return complain(address && !address->is_v4(), "value does not look like a valid IPv6 address");
}
std::optional<std::string> address(const std::string& value) {
  return complain(IpAddress::parse(value) || is_host_name(value),
                  "value does not look like a valid address: " + value);
}
std::optional<std::string> cidr(const std::string& value) {
  return complain(Cidr::parse(value).has_value(),
                  "value does not look like a valid IP/CIDR network");
}
std::optional<std::string> ipv4_config(const std::string& value) {
  if (value == "dhcp" || value == "manual") return std::nullopt;
  const auto parsed = Cidr::parse(value);
  return complain(parsed && parsed->address().is_v4() && parsed->prefix() >= 8,
                  "value does not look like a valid ipv4 network configuration");
}
std::optional<std::string> ipv6_config(const std::string& value) {
  if (value == "dhcp" || value == "manual" || value == "auto") return std::nullopt;
  const auto parsed = Cidr::parse(value);
  return complain(parsed && !parsed->address().is_v4(),
                  "value does not look like a valid ipv6 network configuration");
}
std::optional<std::string> mac(const std::string& value) {
  const auto parsed =
      fits(value, "[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}") ? MacAddress::parse(value) : std::nullopt;
  return complain(parsed && !parsed->is_multicast(),
                  "value does not look like a valid unicast MAC address");
}
std::optional<std::string> mac_prefix(const std::string& value) {
  return complain(fits(value, "[0-9a-fA-F][02468aceACE](?::[0-9a-fA-F]{2}){0,2}:?"),
                  "value is not a valid unicast MAC address prefix");
}
std::optional<std::string> bridge(const std::string& value) {
  return complain(fits(value, "[-_.\\w\\d]+"), fmt::format("invalid bridge ID '{}'", value));
}
std::optional<std::string> tag(const std::string& value) {
  return complain(fits(value, "[A-Za-z0-9_][A-Za-z0-9_.+-]*"), "invalid characters in tag");
}
std::optional<std::string> volume_id(const std::string& value) {
  return complain(VolumeId::parse(value).has_value(),
                  fmt::format("unable to parse volume ID '{}'", value));
}
std::optional<std::string> volume_or_path(const std::string& value) {
  if (value == "none" || value == "cdrom" || value.starts_with("/")) return std::nullopt;
  return volume_id(value);
}
std::optional<std::string> volume_or_absolute(const std::string& value) {
  if (value.starts_with("/")) return std::nullopt;
  return volume_id(value);
}
std::optional<std::string> disk_size(const std::string& value) {
  return complain(fits(value, "\\d+(\\.\\d+)?[KMGT]?"),
                  fmt::format("value does not look like a valid disk size: {}", value));
}
std::optional<std::string> startup(const std::string& value) {
  return complain(
      fits(value,
           "(?:(?:order=)?\\d+|up=\\d+|down=\\d+)(?:,(?:(?:order=)?\\d+|up=\\d+|down=\\d+))*"),
      "unable to parse startup options");
}
std::optional<std::string> hotplug(const std::string& value) {
  static const std::set<std::string> known{"network", "disk", "cpu", "memory", "usb", "cloudinit"};
  if (value == "0" || value == "1") return std::nullopt;
  for (const std::string& word : split_list(value))
    if (!known.contains(word)) return fmt::format("invalid hotplug feature '{}'", word);
  return std::nullopt;
}
std::optional<std::string> phys_bits(const std::string& value) {
  const auto bits = parse_uint(value);
  return complain(value == "host" || (bits && *bits >= 8 && *bits <= 64),
                  "value must be an integer between 8 and 64 or 'host'");
}
std::optional<std::string> cpu_model(const std::string& value) {
  static const std::set<std::string> known = [] {
    std::set<std::string> all;
    for (const std::string& name : split_list(
             "486 Broadwell Broadwell-IBRS Broadwell-noTSX Broadwell-noTSX-IBRS "
             "Cascadelake-Server Cascadelake-Server-noTSX Cascadelake-Server-v2 "
             "Cascadelake-Server-v4 Cascadelake-Server-v5 Conroe Cooperlake Cooperlake-v2 EPYC "
             "EPYC-Genoa EPYC-IBPB EPYC-Milan EPYC-Milan-v2 EPYC-Rome EPYC-Rome-v2 EPYC-Rome-v3 "
             "EPYC-Rome-v4 EPYC-v3 EPYC-v4 GraniteRapids Haswell Haswell-IBRS Haswell-noTSX "
             "Haswell-noTSX-IBRS Icelake-Client Icelake-Client-noTSX Icelake-Server "
             "Icelake-Server-noTSX Icelake-Server-v3 Icelake-Server-v4 Icelake-Server-v5 "
             "Icelake-Server-v6 IvyBridge IvyBridge-IBRS KnightsMill Nehalem Nehalem-IBRS "
             "Opteron_G1 Opteron_G2 Opteron_G3 Opteron_G4 Opteron_G5 Penryn SandyBridge "
             "SandyBridge-IBRS SapphireRapids SapphireRapids-v2 SierraForest Skylake-Client "
             "Skylake-Client-IBRS Skylake-Client-noTSX-IBRS Skylake-Client-v4 Skylake-Server "
             "Skylake-Server-IBRS Skylake-Server-noTSX-IBRS Skylake-Server-v4 Skylake-Server-v5 "
             "Westmere Westmere-IBRS athlon core2duo coreduo host kvm32 kvm64 max pentium pentium2 "
             "pentium3 phenom qemu32 qemu64 x86-64-v2 x86-64-v2-AES x86-64-v3 x86-64-v4"))
      all.insert(name);
    return all;
  }();
  return complain(
      value.starts_with("custom-") || known.contains(value),
      fmt::format("Built-in cputype '{}' is not defined (missing 'custom-' prefix?)", value));
}
std::optional<std::string> content(const std::string& value) {
  static const std::set<std::string> known{"images", "rootdir",  "vztmpl", "iso",
                                           "backup", "snippets", "import", "none"};
  return complain(known.contains(value), fmt::format("invalid content type '{}'", value));
}
std::optional<std::string> bootdev(const std::string& value) {
  return complain(
      fits(value, "(?:ide[0-3]|sata[0-5]|scsi\\d+|virtio\\d+|net\\d+|usb\\d+|hostpci\\d+)"),
      fmt::format("invalid boot device '{}'", value));
}
std::optional<std::string> ha_sid(const std::string& value) {
  return complain(fits(value, "(?:(?:vm|ct):)?[1-9][0-9]{2,8}"),
                  fmt::format("unable to parse ha resource ID '{}'", value));
}
std::optional<std::string> url_encoded(const std::string& value) {
  return complain(fits(value, "(?:[A-Za-z0-9._~:/+=@!*'(),;$&#?\\[\\]-]|%[0-9A-Fa-f]{2})*"),
                  "invalid urlencoded string: " + value);
}
std::optional<std::string> storage_path(const std::string& value) {
  return complain(fits(value, "/[^\\n]*"), "value does not look like a valid absolute path");
}
std::optional<std::string> email(const std::string& value) {
  return complain(value.empty() || fits(value, "[^\\s@]+@[^\\s@]+"),
                  "value does not look like a valid email address");
}

const std::map<std::string, Check, std::less<>>& checks() {
  static const std::map<std::string, Check, std::less<>> all{
      {"pve-vmid", vmid},
      {"pve-node", node},
      {"pve-storage-id", storage_id},
      {"pve-iface", interface_name},
      {"pve-configid", configid},
      {"pve-poolid", pool},
      {"pve-roleid", role},
      {"pve-groupid", group},
      {"pve-realm", realm},
      {"pve-userid", user},
      {"pve-tokenid", token},
      {"dns-name", dns_name},
      {"ipv4", ipv4},
      {"ipv6", ipv6},
      {"address", address},
      {"CIDR", cidr},
      {"pve-ipv4-config", ipv4_config},
      {"pve-ipv6-config", ipv6_config},
      {"mac-addr", mac},
      {"mac-prefix", mac_prefix},
      {"pve-bridge-id", bridge},
      {"pve-tag", tag},
      {"pve-volume-id", volume_id},
      {"pve-volume-id-or-qm-path", volume_or_path},
      {"pve-volume-id-or-absolute-path", volume_or_absolute},
      {"disk-size", disk_size},
      {"pve-startup-order", startup},
      {"pve-hotplug-features", hotplug},
      {"pve-phys-bits", phys_bits},
      {"pve-vm-cpu-model", cpu_model},
      {"pve-storage-content", content},
      {"pve-qm-bootdev", bootdev},
      {"pve-ha-resource-or-vm-id", ha_sid},
      {"pve-ha-resource-id", ha_sid},
      {"urlencoded", url_encoded},
      {"pve-storage-path", storage_path},
      {"email-opt", email},
  };
  return all;
}

}  // namespace

std::optional<std::string> check_format(std::string_view format, const std::string& value) {
  // The same few hosts, ids and volumes are named in every request.
  thread_local std::unordered_map<std::string, std::optional<std::string>> lately;
  constexpr std::size_t many = 4096;
  std::string asked;
  asked.reserve(format.size() + 1 + value.size());
  asked.append(format).append(1, ' ').append(value);
  if (const auto known = lately.find(asked); known != lately.end()) return known->second;
  if (lately.size() >= many) lately.clear();
  const auto found = checks().find(format);
  return lately
      .emplace(std::move(asked), found == checks().end() ? std::nullopt : found->second(value))
      .first->second;
}

}  // namespace rocca::lab::pve
