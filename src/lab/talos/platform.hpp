#pragma once

#include "base/address.hpp"
#include "text/value.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rocca::lab::talos {

class MachineConfig;

/// A network card and what it is plugged into.
struct Link {
  std::string name;  // eth0, or ens18 with predictable names
  std::string mac;
  struct Lease {
    std::string address;  // CIDR
    std::string gateway;
    std::vector<std::string> resolvers{};
    std::string hostname{};
  };
  std::optional<Lease> dhcp;  // what a DHCP server on its wire would give it
  std::string wire{};         // the bridge and VLAN it is plugged into; "" for none
  unsigned mtu = 1500;        // what its hardware says
};

struct NoCloudDrive {
  std::string meta_data, user_data, network_config;
  bool there = false;
  bool has_network_config = false;  // an empty file is not the same as none
};

/// The answer of a platform (nocloud, META key 10) in Talos's own shape, as YAML would show it:
/// addresses, links, routes, hostnames, resolvers, timeServers, operators, externalIPs, metadata.
struct PlatformNetwork {
  text::Value value;
  std::string error;  // Talos's words; then nothing of it is used
};

PlatformNetwork nocloud_network(const NoCloudDrive& drive, const std::vector<Link>& links);
/// User data that only says where the configuration is (`#include`, then one URL).
struct Include {
  std::string url;
  std::string error;  // Talos's words
};
std::optional<Include> nocloud_include(const std::string& user_data);
PlatformNetwork meta_network(const std::string& yaml);

struct Address {
  Cidr cidr;
  std::string link;
};
struct Route {
  std::string destination;  // "" default
  std::string gateway;
  std::string link;
  unsigned metric = 1024;
  const char* family() const { return gateway.find(':') == std::string::npos ? "inet4" : "inet6"; }
};
/// An address that control planes pass around among themselves.
struct SharedAddress {
  std::string address, link;
  friend bool operator==(const SharedAddress&, const SharedAddress&) = default;
};
struct NetworkState {
  std::vector<Address> addresses;
  std::vector<SharedAddress> shared;
  std::vector<Route> routes;
  std::vector<std::string> resolvers;
  std::vector<std::string> time_servers;
  std::map<std::string, unsigned> mtus;  // by link
  std::string hostname, domain;
  std::vector<std::string> problems;  // what was dropped, and why
};

/// All layers together: DHCP where nobody speaks for a link, the platform, the machine config.
NetworkState merge_network(const std::vector<Link>& links, const PlatformNetwork& platform,
                           const MachineConfig* config);

}  // namespace rocca::lab::talos
