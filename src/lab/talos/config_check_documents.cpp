#include "base/address.hpp"
#include "base/strings.hpp"
#include "lab/talos/config_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace rocca::lab::talos {

namespace {

using text::Value;
using Errors = std::vector<std::string>;

/// Bytes of "10GiB", "500MB", "1024"; nothing for a share of the disk.
std::optional<double> size_of(const std::string& text) {
  static const std::map<std::string, double, std::less<>> units{{"", 1},
                                                                {"b", 1},
                                                                {"kb", 1e3},
                                                                {"mb", 1e6},
                                                                {"gb", 1e9},
                                                                {"tb", 1e12},
                                                                {"kib", 1024.},
                                                                {"mib", 1048576.},
                                                                {"gib", 1073741824.},
                                                                {"tib", 1099511627776.}};
  const auto end = text.find_first_not_of("0123456789.");
  const auto unit =
      units.find(to_lower(trim(end == std::string::npos ? std::string() : text.substr(end))));
  if (end == 0 || unit == units.end()) return std::nullopt;
  return std::stod(text.substr(0, end)) * unit->second;
}

/// Go's words for a text that is no address.
std::string address_error(const std::string& text) {
  if (text.find_first_of(".:") == std::string::npos || text.empty())
    return fmt::format("ParseAddr(\"{}\"): unable to parse IP", text);
  const auto bad = text.find_first_not_of("0123456789.");
  return fmt::format("ParseAddr(\"{}\"): unexpected character (at \"{}\")", text,
                     bad == std::string::npos ? text : text.substr(bad));
}

void check_extension(const MachineConfig::Document& document, Errors& errors) {
  if (document.name.empty()) errors.push_back("name is required");
  if (!is_set(document.value, "configFiles") && !is_set(document.value, "environment"))
    errors.push_back(fmt::format("no config files found for extension \"{}\"", document.name));
  if (const Value* files = document.value.find("configFiles"))
    for (const Value& file : files->items())
      if (text_at(file, "mountPath").empty())
        errors.push_back(
            fmt::format("extension mount path is required for extension \"{}\"", document.name));
}

void check_rule(const MachineConfig::Document& document, Errors& errors) {
  if (document.name.empty()) errors.push_back("name is required");
  const Value* ports = document.value.find({"portSelector", "ports"});
  if (ports == nullptr || ports->size() == 0) {
    errors.push_back("portSelector.ports is required");
    return;
  }
  using Range = std::pair<std::uint64_t, std::uint64_t>;
  std::vector<Range> ranges;
  for (const Value& port : ports->items()) {
    const auto dash = port.text().find('-');
    const std::uint64_t low = parse_uint(port.text().substr(0, dash)).value_or(0);
    ranges.emplace_back(low, dash == std::string::npos
                                 ? low
                                 : parse_uint(port.text().substr(dash + 1)).value_or(0));
  }
  for (const Range& range : ranges)
    if (range.first > range.second) {
      errors.push_back(fmt::format("invalid port range: {}-{}", range.first, range.second));
      return;
    }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first <= ranges[i - 1].second)
      errors.push_back(fmt::format("invalid port range: {}-{}, overlaps with {}-{}",
                                   ranges[i].first, ranges[i].second, ranges[i - 1].first,
                                   ranges[i - 1].second));
}

void check_volume(const MachineConfig::Document& document, const Version& release, Errors& errors) {
  const bool state = release.minor() >= 11;
  const bool known = document.name == "EPHEMERAL" || document.name == "IMAGECACHE" ||
                     (state && document.name == "STATE");
  if (!known) {
    errors.push_back(fmt::format("only [{}\"EPHEMERAL\" \"IMAGECACHE\"] volumes are supported",
                                 state ? "\"STATE\" " : ""));
    return;
  }
  if (document.name == "STATE" && is_set(document.value, "provisioning"))
    errors.push_back("provisioning config is not allowed for the \"STATE\" volume");
  if (const Value* encryption = document.value.find("encryption");
      encryption != nullptr && !is_set(*encryption, "keys"))
    errors.push_back("encryption keys are required");
}

void check_user_volume(const MachineConfig::Document& document, Errors& errors) {
  Errors lines;
  const Value& value = document.value;
  if (document.name.empty()) lines.push_back("name is required");
  if (document.name.empty() || document.name.size() > 34)
    lines.push_back("name must be between 1 and 34 characters long");
  else if (std::any_of(document.name.begin(), document.name.end(), [](char c) {
             return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-';
           }))
    lines.push_back(
        "name can only contain lowercase and uppercase ASCII letters, digits, and hyphens");
  const std::string type = text_at(value, "volumeType");
  const Value* provisioning = value.find("provisioning");
  if (type == "directory") {
    if (provisioning != nullptr)
      lines.push_back("provisioning spec is invalid for volumeType directory");
  } else {
    if (value.find({"provisioning", "diskSelector", "match"}) == nullptr)
      lines.push_back("disk selector is required");
    const std::string least = provisioning == nullptr ? "" : text_at(*provisioning, "minSize");
    const std::string most = provisioning == nullptr ? "" : text_at(*provisioning, "maxSize");
    if (type != "disk" && least.empty() && most.empty())
      lines.push_back("min size or max size is required");
    if (!least.empty() && !most.empty())
      if (const auto low = size_of(least), high = size_of(most); low && high && *low > *high)
        lines.push_back("min size is greater than max size");
  }
  if (!lines.empty()) errors.push_back(join(lines, "\n"));
}

void check_hostname(const MachineConfig::Document& document, const Version& release,
                    Errors& errors) {
  const std::string automatic = text_at(document.value, "auto");
  const std::string hostname = text_at(document.value, "hostname");
  if (!hostname.empty() && !automatic.empty() && automatic != "off")
    errors.push_back("'auto' and 'hostname' cannot be set at the same time");
  // From 1.13.9 on `auto: off` alone is a wish, too.
  const bool off_is_enough = release >= Version(1, 13, 9) && automatic == "off";
  if (hostname.empty() && (automatic.empty() || automatic == "off") && !off_is_enough)
    errors.push_back("either 'auto' or 'hostname' must be set");
  if (hostname.substr(0, hostname.find('.')).size() > 63)
    errors.push_back(fmt::format("invalid hostname \"{}\"", hostname));
}

void check_link_alias(const MachineConfig::Document& document, const Version& release,
                      Errors& errors) {
  if (document.value.find({"selector", "match"}) == nullptr)
    errors.push_back("link selector is required");
  const auto percent = document.name.find('%');
  if (release.minor() >= 13 && percent != std::string::npos &&
      document.name.substr(percent, 2) != "%d")
    errors.push_back(
        fmt::format("name \"{}\" contains an invalid format verb, use %d suffix", document.name));
}

void check_url(const std::string& url, const char* what, const std::vector<std::string>& schemes,
               const char* wanted, bool port, Errors& errors) {
  if (url.empty()) {
    errors.push_back(fmt::format("{} is required", what));
    return;
  }
  const auto end = url.find("://");
  const std::string scheme = end == std::string::npos ? "" : url.substr(0, end);
  if (std::find(schemes.begin(), schemes.end(), scheme) == schemes.end())
    errors.push_back(fmt::format("{} scheme must be {}", what, wanted));
  else if (port && url.find(':', end + 3) == std::string::npos)
    errors.push_back(fmt::format("{} port is required", what));
}

void check_mirror(const Value& value, Errors& errors) {
  const Value* endpoints = value.find("endpoints");
  if (endpoints == nullptr) return;
  for (std::size_t i = 0; i < endpoints->items().size(); ++i) {
    const std::string url = text_at(endpoints->items()[i], "url");
    const auto end = url.find("://");
    const std::string scheme = end == std::string::npos ? "" : url.substr(0, end);
    if (scheme != "http" && scheme != "https")
      errors.push_back(fmt::format("endpoints[{}].url has unsupported scheme: \"{}\"", i, scheme));
  }
}

void check_environment(const Value& value, Errors& errors) {
  if (const Value* variables = value.find("variables"))
    for (const text::Entry& entry : variables->entries())
      if (entry.key.find_first_of(" =") != std::string::npos)
        errors.push_back(fmt::format("invalid environment variable name: \"{}\"", entry.key));
}

std::int64_t seconds_of(const std::string& text) {
  const auto number = parse_uint(text.substr(0, text.find_first_not_of("0123456789")));
  if (!number) return 0;
  const char unit = text.empty() ? 's' : text.back();
  return static_cast<std::int64_t>(*number) * (unit == 'h' ? 3600 : unit == 'm' ? 60 : 1);
}

}  // namespace

bool is_named_kind(std::string_view kind) {
  static const std::set<std::string, std::less<>> unnamed{
      "EventSinkConfig",  "KubeSpanEndpointsConfig", "NetworkDefaultActionConfig",
      "SideroLinkConfig", "WatchdogTimerConfig",     "ZswapConfig",
      "HostnameConfig",   "ResolverConfig",          "TimeSyncConfig",
      "OOMConfig",        "EnvironmentConfig",       "ImageVerificationConfig",
      "KubeSpanConfig"};
  return !unnamed.contains(kind);
}

std::vector<std::string> check_document(const MachineConfig::Document& document,
                                        const Version& release) {
  Errors errors;
  const Value& value = document.value;
  const std::string& kind = document.kind;
  if (kind == "ExtensionServiceConfig") {
    check_extension(document, errors);
  } else if (kind == "NetworkRuleConfig") {
    check_rule(document, errors);
  } else if (kind == "VolumeConfig") {
    check_volume(document, release, errors);
  } else if (kind == "UserVolumeConfig") {
    check_user_volume(document, errors);
  } else if (kind == "HostnameConfig") {
    check_hostname(document, release, errors);
  } else if (kind == "LinkAliasConfig") {
    check_link_alias(document, release, errors);
  } else if (kind == "KmsgLogConfig") {
    check_url(text_at(value, "url"), "url", {"tcp", "udp"}, "tcp:// or udp://", true, errors);
  } else if (kind == "SideroLinkConfig") {
    check_url(text_at(value, "apiUrl"), "apiUrl", {"https", "grpc"}, "https:// or grpc://", false,
              errors);
  } else if (kind == "RegistryMirrorConfig") {
    check_mirror(value, errors);
  } else if (kind == "EnvironmentConfig") {
    check_environment(value, errors);
  } else if (kind == "EthernetConfig") {
    if (document.name.empty()) errors.push_back("name is required");
  } else if (kind == "LinkConfig") {
    if (document.name.empty()) errors.push_back("name must be specified");
    if (const Value* addresses = value.find("addresses"))
      for (std::size_t i = 0; i < addresses->items().size(); ++i)
        if (text_at(addresses->items()[i], "address").empty())
          errors.push_back(fmt::format("address {} must be specified", i));
  } else if (kind == "Layer2VIPConfig") {
    if (!IpAddress::parse(document.name))
      errors.push_back("name must be a valid IP address: " + address_error(document.name));
    if (text_at(value, "link").empty()) errors.push_back("link must be specified");
  } else if (kind == "StaticHostConfig") {
    if (!IpAddress::parse(document.name)) errors.push_back("name must be a valid IP address");
  } else if (kind == "BlackholeRouteConfig") {
    if (document.name.find('/') == std::string::npos)
      errors.push_back(fmt::format(
          "name must be a valid address prefix: netip.ParsePrefix(\"{}\"): no '/'", document.name));
  } else if (kind == "BondConfig") {
    if (!is_set(value, "links") && !is_set(value, "linkSelector"))
      errors.push_back("at least one link must be specified");
    if (text_at(value, "bondMode").empty()) errors.push_back("bond mode must be specified");
  } else if (kind == "VLANConfig") {
    const auto id = parse_uint(text_at(value, "vlanID"));
    if (!id || *id < 1 || *id > 4094)
      errors.push_back("vlanID must be specified and between 1 and 4094");
  } else if (kind == "TimeSyncConfig") {
    if (is_set(value, "ntp") && is_set(value, "ptp"))
      errors.push_back("only one of ntp or ptp configuration can be specified");
  } else if (kind == "EventSinkConfig") {
    const std::string endpoint = text_at(value, "endpoint");
    if (endpoint.find(':') == std::string::npos)
      errors.push_back(
          fmt::format("event sink endpoint: address {}: missing port in address", endpoint));
  } else if (kind == "WatchdogTimerConfig") {
    if (text_at(value, "device").empty()) errors.push_back("watchdog device: empty value");
    if (const std::string timeout = text_at(value, "timeout");
        !timeout.empty() && seconds_of(timeout) < 10)
      errors.push_back("watchdog timeout: minimum value is 10s");
  }
  return errors;
}

std::vector<std::string> check_conflicts(const MachineConfig& config) {
  Errors errors;
  const Value* main = config.main();
  if (main == nullptr) return errors;
  const auto set = [&](std::initializer_list<std::string_view> path) {
    const Value* found = main->find(path);
    return found != nullptr && !found->is_null() && (found->is_scalar() || found->size() != 0);
  };
  if (config.find("HostnameConfig") != nullptr) {
    if (config.get({"machine", "features", "stableHostname"}) == "true")
      errors.push_back("stable hostname is already set in v1alpha1 config");
    else if (!config.get({"machine", "network", "hostname"}).empty())
      errors.push_back("static hostname is already set in v1alpha1 config");
  }
  if (const auto* resolvers = config.find("ResolverConfig")) {
    if (is_set(resolvers->value, "nameservers") && set({"machine", "network", "nameservers"}))
      errors.push_back(".machine.network.nameservers is already set in v1alpha1 config");
    if (is_set(resolvers->value, "searchDomains") && set({"machine", "network", "searchDomains"}))
      errors.push_back(".machine.network.searchDomains is already set in v1alpha1 config");
  }
  if (const auto* time = config.find("TimeSyncConfig");
      time != nullptr && set({"machine", "time", "servers"}) && is_set(time->value, "ntp"))
    errors.push_back(
        "time servers cannot be specified in both v1alpha1 and new-style configuration");
  if (config.find("KubeSpanConfig") != nullptr && set({"machine", "network", "kubespan"}))
    errors.push_back("kubespan is already configured in v1alpha1 machine.network.kubespan");
  return errors;
}

}  // namespace rocca::lab::talos
