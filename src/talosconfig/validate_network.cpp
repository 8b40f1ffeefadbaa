#include "base/address.hpp"
#include "base/encoding.hpp"
#include "talosconfig/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rocca::talos {

using text::Value;

namespace {

/// An address as v1alpha1 takes it: with a prefix length, or plain.
bool is_address(const std::string& text) {
  return text.find('/') != std::string::npos ? Cidr::parse(text).has_value()
                                             : IpAddress::parse(text).has_value();
}

void check_addresses(ConfigCheck& check, const Value& owner, const std::string& path) {
  if (const Value* addresses = owner.find("addresses"))
    for (const Value& address : addresses->items())
      if (!is_address(address.text()))
        check.refuse("bad-address", path + ".addresses", "this is no address", &address);
}

void check_routes(ConfigCheck& check, const Value& owner, const std::string& path) {
  const Value* routes = owner.find("routes");
  if (routes == nullptr) return;
  for (const Value& route : routes->items()) {
    const std::string network = text_below(route, {"network"});
    const std::string gateway = text_below(route, {"gateway"});
    const std::string source = text_below(route, {"source"});
    if (network.empty() && gateway.empty())
      check.refuse("bad-route", path + ".routes", "neither network nor gateway is given", &route);
    if (!network.empty() && !Cidr::parse(network))
      check.refuse("bad-route", path + ".routes", "network is no subnet", route.find("network"));
    if (!gateway.empty() && !IpAddress::parse(gateway))
      check.refuse("bad-route", path + ".routes", "gateway is no address", route.find("gateway"));
    if (!source.empty() && !IpAddress::parse(source))
      check.refuse("bad-route", path + ".routes", "source is no address", route.find("source"));
  }
}

void check_vip(ConfigCheck& check, const Value& owner, const std::string& path) {
  const Value* vip = owner.find("vip");
  if (vip == nullptr) return;
  const std::string address = text_below(*vip, {"ip"});
  if (!check.control_plane())
    check.refuse("vip-on-worker", path + ".vip", "only control planes can have a shared address",
                 vip);
  if (!IpAddress::parse(address))
    check.refuse("bad-vip", path + ".vip.ip", "this is no IP address", vip->find("ip"));
  if (const Value* addresses = owner.find("addresses"))
    for (const Value& own : addresses->items())
      if (own.text().substr(0, own.text().find('/')) == address)
        check.ours("vip-is-address", path + ".vip.ip", "the machine's own address is this one",
                   vip->find("ip"));
}

void check_mtu(ConfigCheck& check, const Value& owner, const std::string& path) {
  const Value* mtu = owner.find("mtu");
  if (mtu == nullptr) return;
  const std::int64_t bytes = mtu->as_int().value_or(0);
  if (bytes < 68 || bytes > 65536)
    check.ours("bad-mtu", path + ".mtu", "no link has such an MTU", mtu);
}

void check_vlans(ConfigCheck& check, const Value& device, const std::string& path) {
  const Value* vlans = device.find("vlans");
  if (vlans == nullptr) return;
  for (const Value& vlan : vlans->items()) {
    const Value* id = vlan.find("vlanId");
    const std::int64_t number = id != nullptr ? id->as_int().value_or(0) : 0;
    if (number < 1 || number > 4094)
      check.ours("bad-vlan", path + ".vlans", "a VLAN's id is from 1 to 4094", &vlan);
    check_addresses(check, vlan, path + ".vlans");
    check_routes(check, vlan, path + ".vlans");
    check_vip(check, vlan, path + ".vlans");
    check_mtu(check, vlan, path + ".vlans");
  }
}

void check_device(ConfigCheck& check, const Value& device, const std::string& path,
                  const std::set<std::string>& enslaved) {
  const std::string name = text_below(device, {"interface"});
  const bool selector = device.find("deviceSelector") != nullptr;
  if (name.empty() && !selector)
    check.refuse("link-unnamed", path, "neither interface nor deviceSelector is given", &device);
  if (!name.empty() && selector)
    check.refuse("link-named-twice", path, "interface and deviceSelector exclude each other",
                 &device);
  for (const std::string_view key : {"hardwareAddr", "permanentAddr"}) {
    // Compared letter by letter with what the kernel prints; Proxmox shows capitals.
    const std::string mac = text_below(device, {"deviceSelector", key});
    if (std::any_of(mac.begin(), mac.end(), [](char c) { return c >= 'A' && c <= 'F'; }))
      check.ours("bad-selector", fmt::format("{}.deviceSelector.{}", path, key),
                 "hardware addresses are compared in small letters", &device);
  }
  if (!text_below(device, {"cidr"}).empty())
    check.warn("deprecated", path + ".cidr", "write it as one of `addresses`", device.find("cidr"));
  check_addresses(check, device, path);
  check_routes(check, device, path);
  check_vip(check, device, path);
  check_vlans(check, device, path);
  check_mtu(check, device, path);
  const Value* bond = device.find("bond");
  if (bond != nullptr && device.find("bridge") != nullptr)
    check.refuse("bond-and-bridge", path, "bond and bridge exclude each other", &device);
  if (bond != nullptr && !text_below(*bond, {"lacpRate"}).empty() &&
      text_below(*bond, {"mode"}) != "802.3ad")
    check.refuse("bond-lacp", path + ".bond.lacpRate", "only the mode 802.3ad has it",
                 bond->find("lacpRate"));
  const Value* addresses = device.find("addresses");
  const bool addressed = (addresses != nullptr && addresses->size() != 0) ||
                         is_on(device, {"dhcp"}) || !text_below(device, {"cidr"}).empty();
  if (enslaved.contains(name) && addressed)
    check.refuse("enslaved-address", path, "a link in a bond or bridge has no address of its own",
                 &device);
  if (const Value* key = device.find({"wireguard", "privateKey"})) {
    const auto bytes = from_base64(key->text());
    if (!bytes || bytes->size() != 32)
      check.refuse("wireguard-key", path + ".wireguard.privateKey",
                   "this is not base64 of 32 bytes", key);
  }
}

}  // namespace

void check_machine_network(ConfigCheck& check) {
  const Value* network = check.main().find({"machine", "network"});
  if (network == nullptr) return;
  const std::string host = text_below(*network, {"hostname"});
  if (!host.empty() && (!is_host_name(host) || IpAddress::parse(host) ||
                        std::string_view{host}.substr(0, host.find('.')).size() > 63))
    check.ours("bad-hostname", "machine.network.hostname", "this is no host name",
               network->find("hostname"));
  if (const Value* servers = network->find("nameservers"))
    for (const Value& server : servers->items())
      if (!IpAddress::parse(server.text()))
        check.ours("bad-nameserver", "machine.network.nameservers", "this is no IP address",
                   &server);
  if (const Value* hosts = network->find("extraHostEntries"))
    for (const Value& entry : hosts->items()) {
      const Value* aliases = entry.find("aliases");
      if (!IpAddress::parse(text_below(entry, {"ip"})) || aliases == nullptr ||
          aliases->size() == 0)
        check.ours("bad-host-entry", "machine.network.extraHostEntries",
                   "an entry needs an IP address and aliases", &entry);
    }
  if (const Value* mtu = network->find({"kubespan", "mtu"});
      mtu != nullptr && mtu->as_int().value_or(0) < 1280)
    check.refuse("kubespan-mtu", "machine.network.kubespan.mtu", "it must be at least 1280", mtu);
  const Value* interfaces = network->find("interfaces");
  if (interfaces == nullptr) return;
  std::set<std::string> enslaved;
  std::set<std::string> names;
  for (const Value& device : interfaces->items())
    for (const std::string_view kind : {"bond", "bridge"})
      if (const Value* members = device.find({kind, "interfaces"}))
        for (const Value& member : members->items()) enslaved.insert(member.text());
  for (std::size_t i = 0; i < interfaces->size(); ++i) {
    const Value& device = interfaces->items()[i];
    const std::string path = fmt::format("machine.network.interfaces[{}]", i);
    check_device(check, device, path, enslaved);
    const std::string name = text_below(device, {"interface"});
    if (!name.empty() && !names.insert(name).second)
      check.ours("link-twice", path, "this link stands twice", &device);
    for (const ConfigDocument& document : check.config())
      if (document.type != nullptr && document.type->kind == "LinkConfig" &&
          document.name() == name && !name.empty())
        check.ours("link-twice", path, "a LinkConfig is about the same link", &device);
  }
}

}  // namespace rocca::talos
