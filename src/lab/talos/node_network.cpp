#include "base/strings.hpp"
#include "lab/talos/node.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::talos {

namespace {

constexpr unsigned api_port = 50000;

}  // namespace

void TalosNode::renew_leases() {
  if (!powered_ || !network_ready_) return;
  const std::vector<Address> before = network_.addresses;
  apply_network();
  if (disk_.etcd && etcd_runs()) disk_.etcd->move(disk_.etcd_member, address_);
  if (listening_ && config_) open_apid();
  changed_.wake_all();
  publish();
}

void TalosNode::plug(const std::map<std::string, std::string>& wires) {
  bool moved = false;
  for (Link& link : machine_.links) {
    const auto wire = wires.find(link.mac);
    const std::string now = wire == wires.end() ? "" : wire->second;
    moved = moved || link.wire != now;
    link.wire = now;
  }
  if (!moved) return;
  world_.note(fmt::format("{} is plugged in elsewhere", hostname_));
  renew_leases();
  for (TalosNode* node : fleet_.nodes()) node->changed_.wake_all();
}

void TalosNode::close_port() {
  for (const auto& [address, port] : ports_) world_.network().close(port);
  ports_.clear();
  listening_ = false;
}

void TalosNode::open_port(std::function<net::ServerTls()> mint, bool maintenance) {
  // One certificate for all addresses.
  mint_ = [mint = std::move(mint), made = std::make_shared<std::optional<net::ServerTls>>()] {
    if (!*made) *made = mint();
    return **made;
  };
  maintenance_api_ = maintenance;
  if (listening_ && !ports_.empty()) {
    for (const auto& [address, port] : ports_) world_.network().replace_tls(port, mint_);
    return;
  }
  listening_ = true;
  listen();
}

/// At every address by which the network knows this machine. Who is connected to one that stays
/// stays connected: a shared address that comes or goes is nothing to them.
void TalosNode::listen() {
  std::erase_if(ports_, [&](const auto& open) {
    if (std::find(claimed_.begin(), claimed_.end(), open.first) != claimed_.end()) return false;
    world_.network().close(open.second);
    return true;
  });
  for (const std::string& address : claimed_)
    if (!ports_.contains(address))
      ports_[address] = world_.network().open(
          address, api_port,
          {fmt::format("talos/{}", hostname_.empty() ? address_ : hostname_), std::nullopt,
           [this](net::Incoming request, std::shared_ptr<net::Responder> responder) {
             incoming(std::move(request), std::move(responder));
           },
           mint_},
          host_);
}

void TalosNode::release_addresses() {
  close_port();
  for (const std::string& address : claimed_) world_.network().release(address, host_);
  claimed_.clear();
  listen_apiserver();
}

/// Tells the network where this machine is heard, and listens there if it listens at all.
void TalosNode::claim_addresses() {
  std::vector<std::string> next;
  for (const Address& each : network_.addresses) {
    const auto link = std::find_if(machine_.links.begin(), machine_.links.end(),
                                   [&](const Link& one) { return one.name == each.link; });
    std::vector<std::string> gateways;
    for (const Route& route : network_.routes)
      if (route.destination.empty() && route.link == each.link) gateways.push_back(route.gateway);
    if (fleet_.lans == nullptr || (link != machine_.links.end() && !machine_.no_way_back &&
                                   fleet_.lans->routed(link->wire, each.cidr, gateways)))
      next.push_back(to_string(each.cidr.address()));
    if (next.empty() || next.back() != to_string(each.cidr.address())) continue;
    for (const SharedAddress& shared : owned_)
      if (shared.link == each.link) next.push_back(shared.address);
  }
  // Whoever is in the network of that link reaches it there; here that is everybody.
  if (!next.empty())
    for (const SharedAddress& held : held_)
      if (std::find(next.begin(), next.end(), held.address) == next.end())
        next.push_back(held.address);  // Talos may hold it as well
  for (const std::string& old : claimed_)
    if (std::find(next.begin(), next.end(), old) == next.end())
      world_.network().release(old, host_);
  for (const std::string& address : next) world_.network().claim(address, host_);
  const bool moved = claimed_ != next;
  claimed_ = std::move(next);
  place_etcd();
  if (!moved) return;
  if (listening_) listen();
  listen_apiserver();
}

void TalosNode::apply_network() {
  PlatformNetwork platform_network;
  if (platform() == "nocloud" && machine_.cloud_init.there)
    platform_network = nocloud_network(machine_.cloud_init, machine_.links);
  else if (const auto meta = disk_.meta.find(10); platform() == "metal" && meta != disk_.meta.end())
    platform_network = meta_network(meta->second);
  if (fleet_.lans != nullptr)
    for (Link& link : machine_.links) {
      link.dhcp.reset();
      if (const auto lease = fleet_.lans->lease(link.wire, link.mac))
        link.dhcp = {to_string(lease->address), lease->gateway, lease->resolvers, ""};
    }
  const MachineConfig* config = config_ ? &*config_ : partial_ ? &*partial_ : nullptr;
  NetworkState next = merge_network(machine_.links, platform_network, config);
  if (next.hostname.empty()) next.hostname = machine_.hostname;
  if (next.hostname.empty())
    next.hostname = fmt::format("talos-{}", to_lower(disk_.node_id.substr(0, 6)));
  if (next.resolvers.empty()) next.resolvers = machine_.resolvers;
  // What is gone is gone from the resources too.
  for (const Address& old : network_.addresses)
    store_.remove("network", "AddressStatuses.net.talos.dev",
                  fmt::format("{}/{}", old.link, to_string(old.cidr)));
  for (const Route& old : network_.routes)
    store_.remove("network", "RouteStatuses.net.talos.dev",
                  fmt::format("{}/{}/{}/{}/{}", old.link, old.family(), old.gateway,
                              old.destination, old.metric));
  stale_ = true;
  network_ = std::move(next);
  hostname_ = network_.hostname;
  address_ = network_.addresses.empty() ? "" : to_string(network_.addresses.front().cidr.address());
  claim_addresses();
}

}  // namespace rocca::lab::talos
