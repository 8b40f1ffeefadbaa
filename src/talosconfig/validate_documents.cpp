#include "base/address.hpp"
#include "base/error.hpp"
#include "secrets/x509.hpp"
#include "talosconfig/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <optional>

namespace rocca::talos {

using text::Entry;
using text::Value;

namespace {

/// One document with its name for messages.
struct At {
  ConfigCheck& check;
  const ConfigDocument& document;

  const Value& value() const { return document.value; }
  std::string path(std::string_view key) const {
    const std::string name = document.name();
    return fmt::format("{}{}{}: {}", document.kind(), name.empty() ? "" : "/", name, key);
  }
  void refuse(std::string code, std::string_view key, std::string message) const {
    check.refuse(std::move(code), path(key), std::move(message), place(key));
  }
  void ours(std::string code, std::string_view key, std::string message) const {
    check.ours(std::move(code), path(key), std::move(message), place(key));
  }
  void warn(std::string code, std::string_view key, std::string message) const {
    check.warn(std::move(code), path(key), std::move(message), place(key));
  }
  const Value* place(std::string_view key) const {
    const Value* found = value().find(key);
    return found != nullptr ? found : &value();
  }
};

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Not a CEL compiler: names that Talos does not declare, fields that a disk does not have, and
/// numbers without `u` before a unit. These are the mistakes people make.
std::optional<std::string> expression_mistake(std::string_view text,
                                              const std::vector<std::string_view>& names) {
  static constexpr std::array<std::string_view, 18> disk_fields{
      "size",     "io_size",  "sector_size", "readonly",   "model",     "serial",
      "modalias", "wwid",     "bus_path",    "sub_system", "transport", "rotational",
      "cdrom",    "dev_path", "pretty_size", "uuid",       "symlinks",  "secondary_disks"};
  static constexpr std::array<std::string_view, 12> units{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB",
                                                          "kB",  "MB",  "GB",  "TB",  "PB",  "EB"};
  std::string previous;  // token before the last operator
  std::string op;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      const auto close = text.find(c, i + 1);
      if (close == std::string_view::npos) return "a text has no end";
      i = close + 1;
      previous = "text";
      continue;
    }
    if (!is_word_char(c)) {
      if (c != ' ' && c != '\n' && c != '(' && c != ')') op = std::string{c};
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && is_word_char(text[end])) ++end;
    const std::string_view word = text.substr(i, end - i);
    const bool field = i > 0 && text[i - 1] == '.';
    const bool call = end < text.size() && text[end] == '(';
    const bool unit = std::find(units.begin(), units.end(), word) != units.end();
    if (unit && op == "*" && !previous.empty() && is_digit(previous.front()) &&
        !previous.ends_with('u'))
      return fmt::format("write `{}u * {}`: sizes are unsigned", previous, word);
    if (field && previous == "disk" &&
        std::find(disk_fields.begin(), disk_fields.end(), word) == disk_fields.end() && !call)
      return fmt::format("a disk has no field '{}'", word);
    if (!field && !call && !unit && !is_digit(word.front()) && word != "true" && word != "false" &&
        word != "in" && word != "null" &&
        std::none_of(names.begin(), names.end(), [&](std::string_view name) {
          return name.ends_with('*') ? word.starts_with(name.substr(0, name.size() - 1))
                                     : word == name;
        }))
      return fmt::format("there is no '{}' here", word);
    previous = std::string{word};
    i = end;
  }
  return std::nullopt;
}

void check_expression(const At& at, const Value* expression, std::string_view key,
                      const std::vector<std::string_view>& names) {
  if (expression == nullptr) return;
  if (auto mistake = expression_mistake(expression->text(), names))
    at.refuse("bad-expression", key, std::move(*mistake));
}

void check_provisioning(const At& at, bool required) {
  const Value* selector = at.value().find({"provisioning", "diskSelector", "match"});
  check_expression(at, selector, "provisioning", {"disk", "system_disk"});
  if (required && selector == nullptr)
    at.refuse("selector-required", "provisioning", "a disk selector is required");
  const std::string low = text_below(at.value(), {"provisioning", "minSize"});
  const std::string high = text_below(at.value(), {"provisioning", "maxSize"});
  if (required && low.empty() && high.empty())
    at.refuse("size-required", "provisioning", "minSize or maxSize is required");
  if (low.empty() || high.empty() || high.ends_with('%') || high.starts_with('-')) return;
  if (human_bytes(low).value_or(0) > human_bytes(high).value_or(0))
    at.refuse("size-order", "provisioning", "minSize is over maxSize");
}

void check_encryption_keys(const At& at) {
  const Value* encryption = at.value().find("encryption");
  if (encryption == nullptr) return;
  const Value* keys = encryption->find("keys");
  if (text_below(*encryption, {"provider"}) == "luks2" && (keys == nullptr || keys->size() == 0))
    at.refuse("encryption-keys", "encryption", "keys are required");
}

void check_volume_name(const At& at) {
  const std::string name = at.document.name();
  if (name.empty() || name.size() > 34)
    at.refuse("volume-name", "name", "a name of 1 to 34 characters is required");
  const bool plain = std::all_of(name.begin(), name.end(),
                                 [](char c) { return c == '-' || (is_word_char(c) && c != '_'); });
  if (!plain) at.refuse("volume-name", "name", "letters, digits and hyphens only");
}

void volume(const At& at) {
  const std::string name = at.document.name();
  const bool known =
      name == "EPHEMERAL" || name == "IMAGECACHE" || (name == "STATE" && at.check.minor() >= 11);
  if (!known) {
    at.refuse("volume-name", "name", "there is no such volume to configure");
    return;
  }
  if (name == "STATE" && at.value().find("provisioning") != nullptr)
    at.refuse("volume-provisioning", "provisioning", "STATE has none");
  check_provisioning(at, false);
  check_encryption_keys(at);
}

void user_volume(const At& at) {
  check_volume_name(at);
  const std::string type = text_below(at.value(), {"volumeType"});
  if (type == "directory") {
    if (at.value().find("provisioning") != nullptr)
      at.refuse("volume-provisioning", "provisioning", "a directory has none");
    return;
  }
  if (type == "disk") {
    check_expression(at, at.value().find({"provisioning", "diskSelector", "match"}), "provisioning",
                     {"disk", "system_disk"});
    return;
  }
  check_provisioning(at, true);
  check_encryption_keys(at);
}

void raw_volume(const At& at) {
  check_volume_name(at);
  check_provisioning(at, true);
  check_encryption_keys(at);
}

void kmsg(const At& at) {
  const auto url = parse_url(text_below(at.value(), {"url"}));
  if (at.value().find("url") == nullptr) {
    at.refuse("url-required", "url", "this is missing");
  } else if (!url || (url->scheme != "tcp" && url->scheme != "udp")) {
    at.refuse("url-scheme", "url", "it must be tcp:// or udp://");
  } else if (url->host.find(':') == std::string::npos) {
    at.refuse("url-port", "url", "the port is missing");
  }
}

void watchdog(const At& at) {
  if (text_below(at.value(), {"device"}).empty())
    at.refuse("device-required", "device", "this is missing");
  const auto timeout = go_duration_nanoseconds(text_below(at.value(), {"timeout"}));
  if (timeout && *timeout < 10'000'000'000)
    at.refuse("timeout-short", "timeout", "it must be at least 10s");
}

void extension(const At& at) {
  if (at.document.name().empty()) at.refuse("name-required", "name", "this is missing");
  const Value* files = at.value().find("configFiles");
  const Value* environment = at.value().find("environment");
  if ((files == nullptr || files->size() == 0) &&
      (environment == nullptr || environment->size() == 0))
    at.refuse("extension-empty", "configFiles", "neither files nor environment are given");
  for (std::size_t i = 0; files != nullptr && i < files->size(); ++i)
    if (text_below(files->items()[i], {"mountPath"}).empty())
      at.refuse("mount-path", "configFiles", "a file needs its mountPath");
  for (std::size_t i = 0; environment != nullptr && i < environment->size(); ++i)
    if (environment->items()[i].text().find('=') == std::string::npos)
      at.ours("bad-environment", "environment", "an entry is NAME=VALUE");
}

void rule(const At& at) {
  const Value* ports = at.value().find({"portSelector", "ports"});
  if (ports == nullptr) return;
  std::vector<std::pair<int, int>> seen;
  for (const Value& port : ports->items()) {
    const std::string& text = port.text();
    const auto dash = text.find('-');
    const int low = std::atoi(text.c_str());
    const int high = dash == std::string::npos ? low : std::atoi(text.c_str() + dash + 1);
    if (low > high) at.refuse("port-range", "portSelector", "a range goes upward");
    for (const auto& [from, to] : seen)
      if (low <= to && from <= high) at.refuse("port-range", "portSelector", "two ranges overlap");
    seen.emplace_back(low, high);
  }
}

void trusted_roots(const At& at) {
  try {
    secrets::Certificate::parse_all(text_below(at.value(), {"certificates"}), "certificates");
  } catch (const Error& error) {
    if (error.fault() != Fault::Usage) throw;
    at.ours("bad-certificate", "certificates", "these are no certificates in PEM");
  }
}

void hostname(const At& at) {
  const std::string automatic = text_below(at.value(), {"auto"});
  const std::string name = text_below(at.value(), {"hostname"});
  if (automatic.empty() && name.empty())
    at.refuse("hostname-required", "hostname", "either auto or hostname must be set");
  if (!automatic.empty() && automatic != "off" && !name.empty())
    at.refuse("hostname-both", "auto",
              "auto and hostname exclude each other; write `auto: \"off\"`");
  const auto first = std::string_view{name}.substr(0, name.find('.'));
  if (first.size() > 63)
    at.refuse("hostname-invalid", "hostname", "a name has at most 63 characters");
  else if (!name.empty() && !is_host_name(name))
    at.ours("bad-hostname", "hostname", "this is no host name");
  const Value& main = at.check.main();
  if (!text_below(main, {"machine", "network", "hostname"}).empty())
    at.refuse("hostname-conflict", "hostname", "machine.network.hostname is set as well");
  if (is_on(main, {"machine", "features", "stableHostname"}))
    at.refuse("hostname-conflict", "auto", "machine.features.stableHostname is set as well");
}

void resolver(const At& at) {
  const Value& main = at.check.main();
  for (const auto& [key, old] :
       {std::pair{"nameservers", "nameservers"}, std::pair{"searchDomains", "searchDomains"}}) {
    const Value* set = main.find({"machine", "network", old});
    if (at.value().find(key) != nullptr && set != nullptr && set->size() != 0)
      at.refuse("resolver-conflict", key, fmt::format("machine.network.{} is set as well", old));
  }
}

void time_sync(const At& at) {
  const bool ntp = at.value().find("ntp") != nullptr;
  if (ntp && at.value().find("ptp") != nullptr)
    at.refuse("time-both", "ptp", "ntp and ptp exclude each other");
  const Value* servers = at.check.main().find({"machine", "time", "servers"});
  if (servers != nullptr && servers->size() != 0)
    at.refuse("time-conflict", "ntp", "machine.time.servers is set as well");
}

void vip(const At& at) {
  if (!IpAddress::parse(at.document.name()))
    at.refuse("name-address", "name", "the name must be the IP address");
  if (text_below(at.value(), {"link"}).empty())
    at.refuse("link-required", "link", "this is missing");
  if (at.check.has_main() && !at.check.control_plane())
    at.ours("vip-on-worker", "name", "only control planes can have a shared address");
}

void named_link(const At& at) {
  if (at.document.name().empty()) at.refuse("name-required", "name", "this is missing");
}

void link_alias(const At& at) {
  named_link(at);
  const Value* match = at.value().find({"selector", "match"});
  if (match == nullptr) at.refuse("selector-required", "selector", "a link selector is required");
  check_expression(at, match, "selector", {"link"});
  const std::string name = at.document.name();
  const auto percent = name.find('%');
  if (at.check.minor() >= 13 && percent != std::string::npos && !name.ends_with("%d"))
    at.refuse("alias-name", "name", "only %d, at the end, is filled in");
}

void vlan(const At& at) {
  named_link(at);
  const Value* id = at.value().find("vlanID");
  const std::int64_t number = id != nullptr ? id->as_int().value_or(0) : 0;
  if (number < 1 || number > 4094) at.refuse("vlan-id", "vlanID", "it is from 1 to 4094");
}

void bond(const At& at) {
  named_link(at);
  const Value* links = at.value().find("links");
  if (links == nullptr || links->size() == 0)
    at.refuse("links-required", "links", "at least one link is required");
  if (at.value().find("bondMode") == nullptr) at.refuse("bond-mode", "bondMode", "this is missing");
  if (text_below(at.value(), {"bondMode"}) != "802.3ad") return;
  for (const std::string_view key : {"miimon", "updelay", "downdelay"})
    if (at.value().find(key) == nullptr)
      at.warn("bond-timing", key, "without it a dead link of an 802.3ad bond is not noticed");
}

void static_host(const At& at) {
  if (!IpAddress::parse(at.document.name()))
    at.refuse("name-address", "name", "the name must be an IP address");
}

void mirror(const At& at) {
  const Value* endpoints = at.value().find("endpoints");
  for (std::size_t i = 0; endpoints != nullptr && i < endpoints->size(); ++i) {
    const auto url = parse_url(text_below(endpoints->items()[i], {"url"}));
    if (!url || (url->scheme != "http" && url->scheme != "https"))
      at.refuse("url-scheme", "endpoints", "an endpoint is an http or https URL");
  }
}

void out_of_memory(const At& at) {
  const std::vector<std::string_view> trigger{
      "memory_*",  "d_memory_*",         "qos_memory_*", "d_qos_memory_*", "Besteffort",
      "Burstable", "time_since_trigger", "Guaranteed",   "Podruntime",     "System",
      "duration"};
  const std::vector<std::string_view> ranking{"memory_*",  "path",       "class",      "Besteffort",
                                              "Burstable", "Guaranteed", "Podruntime", "System"};
  check_expression(at, at.value().find("triggerExpression"), "triggerExpression", trigger);
  check_expression(at, at.value().find("cgroupRankingExpression"), "cgroupRankingExpression",
                   ranking);
}

void environment(const At& at) {
  const Value* variables = at.value().find("variables");
  if (variables == nullptr) return;
  for (const Entry& entry : variables->entries()) {
    const bool good = !entry.key.empty() && !is_digit(entry.key.front()) &&
                      std::all_of(entry.key.begin(), entry.key.end(), is_word_char);
    if (!good) at.refuse("variable-name", "variables", "this is no name of a variable");
  }
}

void kubespan(const At& at) {
  if (at.check.main().find({"machine", "network", "kubespan"}) != nullptr)
    at.refuse("kubespan-conflict", "enabled", "machine.network.kubespan is set as well");
}

void blackhole(const At& at) {
  if (!Cidr::parse(at.document.name()))
    at.refuse("name-prefix", "name", "the name must be a subnet");
}

void siderolink(const At& at) {
  const auto url = parse_url(text_below(at.value(), {"apiUrl"}));
  if (!url || (url->scheme != "https" && url->scheme != "grpc"))
    at.refuse("url-scheme", "apiUrl", "it must be https:// or grpc://");
}

void event_sink(const At& at) {
  const std::string endpoint = text_below(at.value(), {"endpoint"});
  const auto colon = endpoint.rfind(':');
  if (colon == std::string::npos || colon + 1 == endpoint.size())
    at.refuse("endpoint-port", "endpoint", "it must be HOST:PORT");
}

struct Rule {
  std::string_view kind;
  void (*check)(const At&);
};

constexpr Rule rules[] = {
    {"VolumeConfig", volume},
    {"UserVolumeConfig", user_volume},
    {"RawVolumeConfig", raw_volume},
    {"SwapVolumeConfig", raw_volume},
    {"KmsgLogConfig", kmsg},
    {"WatchdogTimerConfig", watchdog},
    {"ExtensionServiceConfig", extension},
    {"NetworkRuleConfig", rule},
    {"TrustedRootsConfig", trusted_roots},
    {"HostnameConfig", hostname},
    {"ResolverConfig", resolver},
    {"TimeSyncConfig", time_sync},
    {"Layer2VIPConfig", vip},
    {"LinkConfig", named_link},
    {"DummyLinkConfig", named_link},
    {"BridgeConfig", named_link},
    {"WireguardConfig", named_link},
    {"EthernetConfig", named_link},
    {"DHCPv4Config", named_link},
    {"DHCPv6Config", named_link},
    {"LinkAliasConfig", link_alias},
    {"VLANConfig", vlan},
    {"BondConfig", bond},
    {"StaticHostConfig", static_host},
    {"RegistryMirrorConfig", mirror},
    {"OOMConfig", out_of_memory},
    {"EnvironmentConfig", environment},
    {"KubeSpanConfig", kubespan},
    {"BlackholeRouteConfig", blackhole},
    {"SideroLinkConfig", siderolink},
    {"EventSinkConfig", event_sink},
};

}  // namespace

void check_other_documents(ConfigCheck& check) {
  for (const ConfigDocument& document : check.config()) {
    if (document.type == nullptr) continue;
    for (const Rule& known : rules)
      if (known.kind == document.type->kind) known.check(At{check, document});
  }
}

}  // namespace rocca::talos
