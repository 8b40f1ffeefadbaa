#include "lab/sim/network.hpp"

#include "base/address.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/sim/world.hpp"

#include <fmt/format.h>

namespace rocca::lab {

Network::Network(World& world) : entropy_(world.fork("network")) {}

void Network::set_name(std::string name, std::string address) {
  names_.insert_or_assign(to_lower(name), std::move(address));
}

void Network::remove_name(std::string_view name) {
  names_.erase(to_lower(name));
}

std::optional<std::string> Network::resolve(std::string_view host) const {
  if (const auto found = names_.find(to_lower(host)); found != names_.end()) return found->second;
  if (const auto address = IpAddress::parse(host)) return to_string(*address);
  return std::nullopt;
}

void Network::claim(std::string address, Host host, int rank) {
  const auto [claim, fresh] = machines_[std::move(address)].claims.try_emplace(host);
  if (!fresh) return;
  claim->second.rank = rank;
  claim->second.order = ++claims_;
  changed();
}

void Network::release(std::string_view address, Host host) {
  const auto found = machines_.find(address);
  if (found != machines_.end() && found->second.claims.erase(host) != 0) changed();
}

void Network::remove_address(std::string_view address) {
  release(address, fixture);
}

void Network::set_up(std::string_view address, bool up) {
  machines_[std::string(address)].claims[fixture].up = up;
  changed();
}

std::optional<Network::Host> Network::holder(const Machine& machine) {
  const std::pair<const Host, Claim>* best = nullptr;
  for (const auto& each : machine.claims)
    if (each.second.up && (best == nullptr || std::pair{each.second.rank, each.second.order} >
                                                  std::pair{best->second.rank, best->second.order}))
      best = &each;
  if (best == nullptr) return std::nullopt;
  return best->first;
}

std::optional<Network::Host> Network::holder(std::string_view address) const {
  const auto found = machines_.find(address);
  return found == machines_.end() ? std::nullopt : holder(found->second);
}

bool Network::is_up(std::string_view address) const {
  return holder(address).has_value();
}

std::vector<std::pair<std::string, std::size_t>> Network::conflicts() const {
  std::vector<std::pair<std::string, std::size_t>> all;
  for (const auto& [address, machine] : machines_)
    if (machine.claims.size() > 1) all.emplace_back(address, machine.claims.size());
  return all;
}

void Network::set_latency(std::string_view address, Latency latency) {
  machines_[std::string(address)].latency = latency;
}

Duration Network::draw_latency(std::string_view address) {
  const auto found = machines_.find(address);
  const Latency latency =
      found != machines_.end() && found->second.latency ? *found->second.latency : latency_;
  if (latency.jitter.count() <= 0) return latency.base;
  return latency.base + Duration{static_cast<Duration::rep>(
                            entropy_.below(static_cast<std::uint64_t>(latency.jitter.count())))};
}

Network::Id Network::open(std::string address, unsigned port, Service service, Host host) {
  std::map<Port, Id>& ports = ports_[address];
  if (const auto taken = ports.find({port, host}); taken != ports.end())
    throw Error(Fault::Conflict, fmt::format("{}:{} is taken by {}", address, port,
                                             services_.at(taken->second).second.name));
  claim(address, host);
  const Id id = next_++;
  ports.emplace(Port{port, host}, id);
  services_.emplace(id, std::pair{Place{id, std::move(address), port, host}, std::move(service)});
  changed();
  return id;
}

void Network::close(Id id) {
  const auto found = services_.find(id);
  if (found == services_.end()) return;
  const Place& place = found->second.first;
  ports_[place.address].erase({place.port, place.host});
  services_.erase(found);
  changed();
}

void Network::replace_tls(Id id, std::optional<net::ServerTls> tls) {
  services_.at(id).second.tls = std::move(tls);
  changed();
}

void Network::replace_tls(Id id, std::function<net::ServerTls()> mint) {
  Service& service = services_.at(id).second;
  service.tls.reset();
  service.mint = std::move(mint);
  changed();
}

const Service* Network::find(std::string_view address, unsigned port) const {
  const Place* place = find_place(address, port);
  return place == nullptr ? nullptr : find(place->id);
}

const Service* Network::find(Id id) const {
  const auto found = services_.find(id);
  return found == services_.end() ? nullptr : &found->second.second;
}

const Network::Place* Network::find_place(Id id) const {
  const auto found = services_.find(id);
  return found == services_.end() ? nullptr : &found->second.first;
}

const Network::Place* Network::find_place(std::string_view address, unsigned port) const {
  const auto machine = ports_.find(address);
  if (machine == ports_.end()) return nullptr;
  const auto found = machine->second.find({port, holder(address).value_or(fixture)});
  return found == machine->second.end() ? nullptr : find_place(found->second);
}

std::vector<Network::Place> Network::places() const {
  std::vector<Place> all;
  for (const auto& [id, entry] : services_)
    if (const auto now = holder(entry.first.address); !now || *now == entry.first.host)
      all.push_back(entry.first);
  return all;
}

std::vector<std::pair<std::string, std::string>> Network::names() const {
  return {names_.begin(), names_.end()};
}

}  // namespace rocca::lab
