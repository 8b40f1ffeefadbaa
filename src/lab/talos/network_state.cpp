#include "base/strings.hpp"
#include "lab/talos/config.hpp"
#include "lab/talos/platform.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

// Who says what about the network of a node, and who is believed.

namespace rocca::lab::talos {

namespace {

using text::Value;

std::string text_at(const Value& value, std::string_view key) {
  const Value* found = value.find(key);
  return found == nullptr || !found->is_scalar() || found->is_null() ? "" : found->text();
}

/// An MTU of 0 is one that nobody asks for.
void set_mtu(NetworkState& state, const std::string& link, const Value& said) {
  const Value* mtu = said.find("mtu");
  const auto bytes = mtu == nullptr ? 0 : mtu->as_int().value_or(0);
  if (bytes > 0) state.mtus[link] = static_cast<unsigned>(bytes);
}

std::vector<std::string> texts(const Value* list) {
  std::vector<std::string> out;
  if (list != nullptr)
    for (const Value& item : list->items()) out.push_back(item.text());
  return out;
}

/// The links that an entry of machine.network.interfaces is about: the one that it names, else all
/// that its selector fits.
std::vector<std::string> selected(const Value& device, const std::vector<Link>& links) {
  if (const std::string name = text_at(device, "interface"); !name.empty()) return {name};
  std::vector<std::string> names;
  const Value* selector = device.find("deviceSelector");
  if (selector == nullptr) return names;
  for (const Link& link : links) {
    bool fits = selector->size() != 0;
    for (const char* key : {"hardwareAddr", "permanentAddr"})
      if (const Value* mac = selector->find(key))
        // Case matters here: Talos compares with its own lower-case text.
        fits = fits && to_lower(link.mac) == mac->text();
    if (const Value* physical = selector->find("physical"))
      fits = fits && physical->as_bool() == true;
    if (fits) names.push_back(link.name);
  }
  return names;
}

}  // namespace

NetworkState merge_network(const std::vector<Link>& links, const PlatformNetwork& platform,
                           const MachineConfig* config) {
  NetworkState state;
  std::set<std::string> spoken;  // links somebody else than DHCP speaks for
  std::set<std::string> dhcp;
  const auto exists = [&](const std::string& name) {
    return std::any_of(links.begin(), links.end(),
                       [&](const Link& link) { return link.name == name; });
  };
  const auto add_address = [&](const std::string& text, const std::string& link) {
    const auto cidr = Cidr::parse(text);
    if (!cidr) return;
    if (!exists(link)) {
      state.problems.push_back(
          fmt::format("link \"{}\" not found: address {} dropped", link, text));
      return;
    }
    for (const Address& each : state.addresses)
      if (each.cidr == *cidr && each.link == link) return;
    state.addresses.push_back({*cidr, link});
  };
  const auto add_route = [&](Route route) {
    // The same from two layers is one; with another metric it is another.
    const bool known =
        std::any_of(state.routes.begin(), state.routes.end(), [&](const Route& each) {
          return each.destination == route.destination && each.gateway == route.gateway &&
                 each.link == route.link && each.metric == route.metric;
        });
    if (exists(route.link) && !known) state.routes.push_back(std::move(route));
  };
  if (!platform.error.empty()) state.problems.push_back(platform.error);
  for (const Link& link : links) state.mtus[link.name] = link.mtu;
  for (const Value& item :
       platform.value.find("links") ? platform.value.find("links")->items() : std::vector<Value>{})
    if (const Value* up = item.find("up"); up != nullptr && up->as_bool() == true) {
      spoken.insert(text_at(item, "name"));
      set_mtu(state, text_at(item, "name"), item);
    }
  if (const Value* items = platform.value.find("addresses"))
    for (const Value& item : items->items())
      add_address(text_at(item, "address"), text_at(item, "linkName"));
  if (const Value* items = platform.value.find("routes"))
    for (const Value& item : items->items()) {
      const Value* metric = item.find("priority");
      add_route({text_at(item, "dst"), text_at(item, "gateway"), text_at(item, "outLinkName"),
                 metric == nullptr ? 1024u : static_cast<unsigned>(metric->as_int().value_or(0))});
    }
  if (const Value* items = platform.value.find("operators"))
    for (const Value& item : items->items())
      if (text_at(item, "operator") == "dhcp4") dhcp.insert(text_at(item, "linkName"));
  if (const Value* items = platform.value.find("hostnames");
      items != nullptr && items->size() != 0) {
    state.hostname = text_at(items->items().front(), "hostname");
    state.domain = text_at(items->items().front(), "domainname");
  }
  if (const Value* items = platform.value.find("resolvers"))
    for (const Value& item : items->items())
      if (const Value* servers = item.find("dnsServers"))
        for (const Value& server : servers->items()) state.resolvers.push_back(server.text());
  if (const Value* items = platform.value.find("timeServers"))
    for (const Value& item : items->items())
      for (const std::string& server : texts(item.find("timeServers")))
        state.time_servers.push_back(server);

  // Layers: platform < DHCP < configuration.
  const std::vector<std::string> platform_resolvers = state.resolvers;
  const std::string platform_hostname = state.hostname;
  bool no_default_dhcp = false;
  if (config != nullptr) {
    if (const Value* main = config->main()) {
      if (const Value* interfaces = main->find({"machine", "network", "interfaces"}))
        for (const Value& device : interfaces->items()) {
          for (const std::string& name : selected(device, links)) {
            spoken.insert(name);
            set_mtu(state, name, device);
            if (const Value* on = device.find("dhcp"); on != nullptr && on->as_bool() == true)
              dhcp.insert(name);
            if (const Value* vip = device.find({"vip", "ip"}))
              state.shared.push_back({vip->text(), name});
            if (const Value* addresses = device.find("addresses"))
              for (const Value& address : addresses->items())
                add_address(address.text().find('/') == std::string::npos ? address.text() + "/32"
                                                                          : address.text(),
                            name);
            if (const Value* routes = device.find("routes"))
              for (const Value& route : routes->items()) {
                const Value* metric = route.find("metric");
                const std::string network = text_at(route, "network");
                add_route({network == "0.0.0.0/0" || network == "::/0" ? "" : network,
                           text_at(route, "gateway"), name,
                           metric == nullptr
                               ? 1024u
                               : static_cast<unsigned>(metric->as_int().value_or(0))});
              }
          }
        }
      if (const Value* servers = main->find({"machine", "network", "nameservers"});
          servers != nullptr && servers->size() != 0) {
        state.resolvers.clear();
        for (const Value& server : servers->items()) state.resolvers.push_back(server.text());
      }
      if (const auto servers = texts(main->find({"machine", "time", "servers"})); !servers.empty())
        state.time_servers = servers;
      if (const std::string name = config->get({"machine", "network", "hostname"}); !name.empty()) {
        const auto dot = name.find('.');
        state.hostname = name.substr(0, dot);
        state.domain = dot == std::string::npos ? "" : name.substr(dot + 1);
      }
    }
    for (const MachineConfig::Document& document : config->documents()) {
      if (document.kind == "HostnameConfig") {
        if (const std::string name = text_at(document.value, "hostname"); !name.empty()) {
          const auto dot = name.find('.');
          state.hostname = name.substr(0, dot);
          state.domain = dot == std::string::npos ? "" : name.substr(dot + 1);
        }
      } else if (document.kind == "LinkConfig") {
        no_default_dhcp = true;
        spoken.insert(document.name);
        set_mtu(state, document.name, document.value);
        if (const Value* addresses = document.value.find("addresses"))
          for (const Value& address : addresses->items())
            add_address(text_at(address, "address"), document.name);
        if (const Value* routes = document.value.find("routes"))
          for (const Value& route : routes->items())
            add_route(
                {text_at(route, "destination"), text_at(route, "gateway"), document.name, 1024});
      } else if (document.kind == "Layer2VIPConfig") {
        state.shared.push_back({document.name, text_at(document.value, "link")});
      } else if (document.kind == "DHCPv4Config") {
        no_default_dhcp = true;
        dhcp.insert(document.name);
      } else if (document.kind == "TimeSyncConfig") {
        if (const auto servers = texts(document.value.find({"ntp", "servers"})); !servers.empty())
          state.time_servers = servers;
      } else if (document.kind == "ResolverConfig") {
        if (const Value* servers = document.value.find("nameservers")) {
          state.resolvers.clear();
          for (const Value& server : servers->items())
            state.resolvers.push_back(text_at(server, "address"));
        }
      }
    }
  }
  for (const Link& link : links) {
    const bool wanted =
        dhcp.contains(link.name) || (!no_default_dhcp && !spoken.contains(link.name));
    if (!wanted || !link.dhcp) continue;
    add_address(link.dhcp->address, link.name);
    if (!link.dhcp->gateway.empty()) add_route({"", link.dhcp->gateway, link.name, 1024});
    if (state.resolvers == platform_resolvers && !link.dhcp->resolvers.empty())
      state.resolvers = link.dhcp->resolvers;
    if (state.hostname == platform_hostname && !link.dhcp->hostname.empty())
      state.hostname = link.dhcp->hostname;
  }
  if (state.time_servers.empty()) state.time_servers = {"time.cloudflare.com"};
  return state;
}

}  // namespace rocca::lab::talos
