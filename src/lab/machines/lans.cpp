#include "lab/machines/lans.hpp"

#include "base/strings.hpp"

#include <algorithm>

namespace rocca::lab {

Lans::Lans(World& world) : world_(world) {}

void Lans::add(Lan lan) {
  lans_.push_back(std::move(lan));
}

bool Lans::routed(std::string_view wire, const Cidr& address,
                  const std::vector<std::string>& gateways) const {
  return std::any_of(lans_.begin(), lans_.end(), [&](const Lan& lan) {
    if (lan.wire != wire || !lan.subnet.contains(address.address())) return false;
    const auto router = lan.gateway ? lan.gateway : address.network().plus(1);
    // The kernel takes no gateway that is not on the link.
    return router && address.contains(*router) && *router != address.address() &&
           std::find(gateways.begin(), gateways.end(), to_string(*router)) != gateways.end();
  });
}

std::optional<IpAddress> Lans::next_free(const AddressRange& pool) {
  for (std::uint64_t tries = 0; tries < pool.size(); ++tries) {
    const auto address = pool.at(handed_out_++ % pool.size());
    const bool taken = std::any_of(leases_.begin(), leases_.end(), [&](const auto& each) {
      return address && each.second == *address;
    });
    // A server asks before it offers.
    if (address && !taken && !world_.network().is_up(to_string(*address))) return address;
  }
  return std::nullopt;
}

std::optional<Lans::Lease> Lans::lease(std::string_view wire, std::string_view mac) {
  if (!dhcp_answers) return std::nullopt;
  const auto lan = std::find_if(lans_.begin(), lans_.end(),
                                [&](const Lan& each) { return each.wire == wire && each.pool; });
  if (lan == lans_.end()) return std::nullopt;
  const std::string card = to_lower(mac);
  auto found = leases_.find(card);
  if (found != leases_.end() && !lan->subnet.contains(found->second)) {
    leases_.erase(found);
    found = leases_.end();
  }
  if (found == leases_.end()) {
    const auto free = next_free(*lan->pool);
    if (!free) return std::nullopt;
    found = leases_.emplace(card, *free).first;
  }
  const auto router = lan->gateway ? lan->gateway : lan->subnet.network().plus(1);
  return Lease{Cidr(found->second, lan->subnet.prefix()), router ? to_string(*router) : "",
               lan->resolvers};
}

void Lans::reserve(std::string_view mac, const IpAddress& address) {
  leases_.insert_or_assign(to_lower(mac), address);
  if (changed_) changed_();
}

void Lans::change_lease(std::string_view mac) {
  leases_.erase(to_lower(mac));
  if (changed_) changed_();
}

void Lans::change_all_leases() {
  leases_.clear();
  if (changed_) changed_();
}

Network::Host Lans::add_foreign(const std::string& address,
                                std::vector<std::pair<unsigned, Service>> services) {
  Network& network = world_.network();
  const Network::Host host = network.new_host();
  network.claim(address, host, /*rank=*/1);
  auto& [place, ports] = foreign_[host];
  place = address;
  for (auto& [port, service] : services)
    ports.push_back(network.open(address, port, std::move(service), host));
  return host;
}

void Lans::remove_foreign(Network::Host host) {
  const auto found = foreign_.find(host);
  if (found == foreign_.end()) return;
  for (const Network::Id id : found->second.second) world_.network().close(id);
  world_.network().release(found->second.first, host);
  foreign_.erase(found);
}

}  // namespace rocca::lab
