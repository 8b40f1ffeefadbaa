#include "lab/talos/platform.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rocca::lab::talos {

namespace {

using text::Value;

struct Dropped {
  std::string text;
};

std::string text_at(const Value& value, std::string_view key) {
  const Value* found = value.find(key);
  return found == nullptr || !found->is_scalar() || found->is_null() ? "" : found->text();
}

Value text_value(std::string text) {
  return Value::string(std::move(text));
}

Value address_value(const std::string& cidr, const std::string& link) {
  Value out = Value::map();
  const auto parsed = Cidr::parse(cidr);
  out.set("address", text_value(cidr));
  out.set("linkName", text_value(link));
  out.set("family", text_value(parsed && !parsed->address().is_v4() ? "inet6" : "inet4"));
  out.set("scope", text_value("global"));
  out.set("flags", text_value("permanent"));
  out.set("layer", text_value("platform"));
  return out;
}

Value link_value(const std::string& name, unsigned mtu) {
  Value out = Value::map();
  out.set("name", text_value(name));
  out.set("logical", Value::boolean(false));
  out.set("up", Value::boolean(true));
  out.set("mtu", Value::integer(mtu));
  out.set("kind", text_value(""));
  out.set("type", text_value("netrom"));
  out.set("layer", text_value("platform"));
  return out;
}

Value route_value(const std::string& destination, const std::string& gateway,
                  const std::string& link, unsigned priority) {
  Value out = Value::map();
  const auto via = IpAddress::parse(gateway);
  out.set("family", text_value(via && !via->is_v4() ? "inet6" : "inet4"));
  out.set("dst", text_value(destination));
  out.set("src", text_value(""));
  out.set("gateway", text_value(gateway));
  out.set("outLinkName", text_value(link));
  out.set("table", text_value("main"));
  out.set("priority", Value::integer(priority));
  out.set("scope", text_value("global"));
  out.set("type", text_value("unicast"));
  out.set("flags", text_value(""));
  out.set("protocol", text_value("static"));
  out.set("layer", text_value("platform"));
  return out;
}

Value operator_value(const char* name, const std::string& link, unsigned metric) {
  Value out = Value::map();
  out.set("operator", text_value(name));
  out.set("linkName", text_value(link));
  out.set("requireUp", Value::boolean(true));
  Value options = Value::map();
  options.set("routeMetric", Value::integer(metric));
  out.set(name, std::move(options));
  out.set("layer", text_value("platform"));
  return out;
}

Value empty_network() {
  Value out = Value::map();
  for (const char* key : {"addresses", "links", "routes", "hostnames", "resolvers", "timeServers",
                          "operators", "externalIPs"})
    out.set(key, Value::list());
  return out;
}

IpAddress need_address(const std::string& text) {
  const auto address = IpAddress::parse(text);
  if (!address) throw Dropped{fmt::format("ParseAddr(\"{}\"): unable to parse IP", text)};
  return *address;
}

/// The link with this MAC, whatever name was given; else the given name.
std::string real_link(const std::string& name, const std::string& mac,
                      const std::vector<Link>& links) {
  for (const Link& link : links)
    if (!mac.empty() && equal_ignoring_case(link.mac, mac)) return link.name;
  return name;
}

void add_resolvers(Value& network, std::vector<std::string> servers) {
  if (servers.empty()) return;
  Value item = Value::map();
  Value list = Value::list();
  for (const std::string& server : servers)
    list.append(text_value(to_string(need_address(server))));
  item.set("dnsServers", std::move(list));
  item.set("layer", text_value("platform"));
  network.find("resolvers")->append(std::move(item));
}

unsigned prefix_of(const std::string& netmask) {
  const auto mask = IpAddress::parse(netmask);
  if (!mask) throw Dropped{fmt::format("ParseAddr(\"{}\"): unable to parse IP", netmask)};
  if (!mask->is_v4()) return 128;
  const std::uint32_t bits = mask->to_v4();
  const auto ones = static_cast<unsigned>(__builtin_popcount(bits));
  // Go's net.IPMask.Size says 0 for a mask with holes.
  const std::uint32_t whole = ones == 0 ? 0 : ~std::uint32_t{0} << (32 - ones);
  return whole == bits ? ones : 0;
}

void read_v1(const Value& config, const std::vector<Link>& links, Value& out) {
  const Value* items = config.find("config");
  if (items == nullptr) return;
  for (const Value& item : items->items()) {
    const std::string type = text_at(item, "type");
    if (type == "nameserver") {
      std::vector<std::string> servers;
      if (const Value* list = item.find("address"))
        for (const Value& each : list->items()) servers.push_back(each.text());
      add_resolvers(out, std::move(servers));
      continue;
    }
    if (type != "physical") continue;
    const std::string name = real_link(text_at(item, "name"), text_at(item, "mac_address"), links);
    const Value* mtu = item.find("mtu");
    out.find("links")->append(
        link_value(name, mtu == nullptr ? 0 : static_cast<unsigned>(mtu->as_int().value_or(0))));
    const Value* subnets = item.find("subnets");
    if (subnets == nullptr) continue;
    for (const Value& subnet : subnets->items()) {
      const std::string kind = text_at(subnet, "type");
      if (kind == "dhcp" || kind == "dhcp4") {
        out.find("operators")->append(operator_value("dhcp4", name, 1024));
      } else if (kind == "ipv6_dhcpv6-stateful") {
        out.find("operators")->append(operator_value("dhcp6", name, 2048));
      } else if (kind == "static" || kind == "static6") {
        const std::string address = text_at(subnet, "address");
        std::string cidr = address;
        if (address.find('/') == std::string::npos) {
          const unsigned prefix = prefix_of(text_at(subnet, "netmask"));
          cidr = fmt::format("{}/{}", to_string(need_address(address)), prefix);
        } else if (!Cidr::parse(address)) {
          throw Dropped{fmt::format("netip.ParsePrefix(\"{}\"): unable to parse", address)};
        }
        out.find("addresses")->append(address_value(to_string(*Cidr::parse(cidr)), name));
        if (const std::string gateway = text_at(subnet, "gateway"); !gateway.empty()) {
          const IpAddress via = need_address(gateway);
          out.find("routes")->append(
              route_value("", to_string(via), name, via.is_v4() ? 1024 : 2048));
        }
      }
    }
  }
}

void read_v2(const Value& config, const std::vector<Link>& links, Value& out) {
  const Value* ethernets = config.find("ethernets");
  if (ethernets == nullptr) return;
  for (const text::Entry& entry : ethernets->entries()) {
    const Value& item = entry.value;
    const Value* mac = item.find({"match", "macaddress"});
    const std::string name = real_link(entry.key, mac == nullptr ? "" : mac->text(), links);
    const Value* mtu = item.find("mtu");
    out.find("links")->append(
        link_value(name, mtu == nullptr ? 0 : static_cast<unsigned>(mtu->as_int().value_or(0))));
    for (const char* family : {"dhcp4", "dhcp6"})
      if (const Value* on = item.find(family); on != nullptr && on->as_bool() == true)
        out.find("operators")->append(operator_value(family, name, 1024));
    std::string first;
    if (const Value* addresses = item.find("addresses"))
      for (const Value& address : addresses->items()) {
        if (address.text().find('/') == std::string::npos)
          throw Dropped{fmt::format("netip.ParsePrefix(\"{}\"): no '/'", address.text())};
        const auto cidr = Cidr::parse(address.text());
        if (!cidr)
          throw Dropped{fmt::format("netip.ParsePrefix(\"{}\"): unable to parse", address.text())};
        if (first.empty()) first = to_string(cidr->address());
        out.find("addresses")->append(address_value(to_string(*cidr), name));
      }
    for (const char* key : {"gateway4", "gateway6"})
      if (const std::string gateway = text_at(item, key); !gateway.empty()) {
        const IpAddress via = need_address(gateway);
        out.find("routes")->append(
            route_value("", to_string(via), name, via.is_v4() ? 1024 : 2048));
      }
    if (const Value* servers = item.find({"nameservers", "addresses"})) {
      std::vector<std::string> list;
      for (const Value& each : servers->items()) list.push_back(each.text());
      add_resolvers(out, std::move(list));
    }
    if (const Value* routes = item.find("routes"))
      for (const Value& route : routes->items()) {
        const IpAddress via = need_address(text_at(route, "via"));
        const std::string to = text_at(route, "to");
        std::string destination;
        if (to != "default" && to != "0.0.0.0/0" && to != "::/0") {
          const auto cidr = Cidr::parse(to);
          if (!cidr) throw Dropped{fmt::format("netip.ParsePrefix(\"{}\"): no '/'", to)};
          destination = to_string(*cidr);
        }
        const Value* metric = route.find("metric");
        out.find("routes")->append(route_value(
            destination, to_string(via), name,
            metric == nullptr ? (via.is_v4() ? 1024u : 2048u)
                              : static_cast<unsigned>(metric->as_int().value_or(1024))));
      }
  }
}

void set_hostname(Value& out, std::string name) {
  if (name.empty()) return;
  const auto dot = name.find('.');
  Value item = Value::map();
  item.set("hostname", text_value(name.substr(0, dot)));
  item.set("domainname", text_value(dot == std::string::npos ? "" : name.substr(dot + 1)));
  item.set("layer", text_value("platform"));
  out.find("hostnames")->append(std::move(item));
}

}  // namespace

PlatformNetwork nocloud_network(const NoCloudDrive& drive, const std::vector<Link>& links) {
  PlatformNetwork result;
  result.value = empty_network();
  try {
    if (drive.has_network_config) {
      Value config = text::parse_yaml(drive.network_config, "network-config");
      if (config.is_list())
        throw Dropped{
            "yaml: unmarshal errors:\n  line 1: cannot unmarshal !!seq into "
            "map[string]interface {}"};
      const Value* nested = config.find("network");
      if (nested != nullptr) config = Value(*nested);
      const Value* version = config.find("version");
      if (version == nullptr && nested != nullptr)
        throw Dropped{"network-config metadata version=0 is not supported"};
      if (version == nullptr) {
        std::vector<std::string> keys;
        for (const text::Entry& entry : config.entries()) keys.push_back(entry.key);
        throw Dropped{
            fmt::format("failed to decode network configuration, keys: [{}]", join(keys, " "))};
      }
      if (version->as_int() == 1)
        read_v1(config, links, result.value);
      else if (version->as_int() == 2)
        read_v2(config, links, result.value);
      else
        throw Dropped{
            fmt::format("network-config metadata version={} is not supported", version->text())};
    }
    Value metadata = Value::map();
    metadata.set("platform", text_value("nocloud"));
    const Value meta = text::parse_yaml(drive.meta_data, "meta-data");
    std::string hostname = text_at(meta, "hostname");
    if (hostname.empty()) hostname = text_at(meta, "local-hostname");
    if (hostname.empty() && drive.user_data.starts_with("#cloud-config")) {
      const Value user = text::parse_yaml(drive.user_data, "user-data");
      hostname = text_at(user, "hostname");
      if (hostname.empty()) hostname = text_at(user, "local-hostname");
    }
    const auto dot = hostname.find('.');
    if (hostname.substr(0, dot).size() > 63)
      throw Dropped{fmt::format("invalid hostname \"{}\"", hostname)};
    set_hostname(result.value, hostname);
    if (!hostname.empty()) metadata.set("hostname", text_value(hostname));
    constexpr std::pair<const char*, const char*> names[] = {{"region", "region"},
                                                             {"zone", "zone"},
                                                             {"instance-type", "instanceType"},
                                                             {"instance-id", "instanceId"},
                                                             {"provider-id", "providerId"}};
    for (const auto& [from, to] : names)
      if (const std::string found = text_at(meta, from); !found.empty())
        metadata.set(to, text_value(found));
    result.value.set("metadata", std::move(metadata));
  } catch (const Dropped& dropped) {
    result.error = dropped.text;
  } catch (const Error& error) {
    result.error = error.message();
  }
  if (!result.error.empty()) result.value = empty_network();
  return result;
}

std::optional<Include> nocloud_include(const std::string& user_data) {
  const std::vector<std::string> lines = split(user_data, '\n');
  if (lines.empty() || trim(lines.front()) != "#include") return std::nullopt;
  Include out;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::string line(trim(lines[i]));
    if (line.empty()) continue;
    if (!out.url.empty()) {
      // A comment counts as a URL.
      out.error =
          fmt::format("multiple #include URLs found in nocloud configuration: \"{}\" and \"{}\"",
                      out.url, line);
      return out;
    }
    out.url = line;
  }
  const auto scheme = out.url.find(':');
  if (scheme == 0) out.error = fmt::format("parse \"{}\": missing protocol scheme", out.url);
  return out;
}

PlatformNetwork meta_network(const std::string& yaml) {
  PlatformNetwork result;
  result.value = empty_network();
  const auto fail = [&](const std::string& what) {
    result.error = "failed to unmarshal metal network config from META: " + what;
    result.value = empty_network();
    return result;
  };
  Value given;
  try {
    const std::vector<Value> documents = text::parse_yaml_stream(yaml, "meta");
    if (!documents.empty()) given = documents.front();
  } catch (const Error& error) {
    return fail(error.message());
  }
  if (!given.is_map() && !given.is_null())
    return fail(
        fmt::format("yaml: unmarshal errors:\n  line 1: cannot unmarshal !!str `{}` into "
                    "network.PlatformConfigSpec",
                    given.text().substr(0, 7)));
  for (text::Entry& section : result.value.entries()) {
    const Value* items = given.find(section.key);
    if (items == nullptr) continue;
    for (const Value& item : items->items()) {
      Value copy = item;
      if (copy.is_map()) {
        if (const std::string family = text_at(copy, "family");
            !family.empty() && family != "inet4" && family != "inet6")
          return fail(fmt::format("{} does not belong to Family values", family));
        const auto foreign = [&](const char* key, const std::set<std::string>& known) {
          const std::string found = text_at(copy, key);
          return !found.empty() && !known.contains(found) ? found : std::string();
        };
        if (const std::string layer =
                foreign("layer", {"default", "cmdline", "platform", "operator", "configuration"});
            !layer.empty())
          return fail(fmt::format("{} does not belong to ConfigLayer values", layer));
        if (const std::string scope =
                foreign("scope", {"global", "site", "link", "host", "nowhere"});
            !scope.empty())
          return fail(fmt::format("{} does not belong to Scope values", scope));
        if (const std::string name = foreign("operator", {"dhcp4", "dhcp6", "vip"}); !name.empty())
          return fail(fmt::format("{} does not belong to Operator values", name));
        if (const std::string to = text_at(copy, "dst"); !to.empty() && !Cidr::parse(to))
          return fail(fmt::format("netip.ParsePrefix(\"{}\"): no '/'", to));
        if (const Value* servers = copy.find("dnsServers")) {
          if (!servers->is_list())
            return fail(
                fmt::format("yaml: unmarshal errors:\n  line {}: cannot unmarshal !!str "
                            "`{}` into []netip.Addr",
                            servers->place().line, servers->text()));
          for (const Value& server : servers->items())
            if (!IpAddress::parse(server.text()))
              return fail(fmt::format("ParseAddr(\"{}\"): unable to parse IP", server.text()));
        }
        if (const Value* table = copy.find("table");
            table != nullptr && table->kind() == text::Kind::Int)
          return fail(fmt::format("{} does not belong to RoutingTable values", table->text()));
        if (section.key == "addresses") {
          const std::string address = text_at(copy, "address");
          if (address.find('/') == std::string::npos)
            return fail(fmt::format("netip.ParsePrefix(\"{}\"): no '/'", address));
          if (!Cidr::parse(address))
            return fail(fmt::format("netip.ParsePrefix(\"{}\"): unable to parse", address));
        }
        if (const std::string gateway = text_at(copy, "gateway");
            !gateway.empty() && !IpAddress::parse(gateway))
          return fail(fmt::format("ParseAddr(\"{}\"): unable to parse IP", gateway));
        copy.set("layer", text_value("platform"));
      }
      section.value.append(std::move(copy));
    }
  }
  return result;
}

}  // namespace rocca::lab::talos
