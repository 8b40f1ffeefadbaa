#include "lab/network.hpp"

#include "base/address.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/world.hpp"

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

void Network::add_address(std::string address) {
  machines_.try_emplace(std::move(address));
}

void Network::remove_address(std::string_view address) {
  if (const auto found = machines_.find(address); found != machines_.end()) machines_.erase(found);
  changed();
}

void Network::set_up(std::string_view address, bool up) {
  machines_[std::string(address)].up = up;
  changed();
}

bool Network::is_up(std::string_view address) const {
  const auto found = machines_.find(address);
  return found != machines_.end() && found->second.up;
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

Network::Id Network::open(std::string address, unsigned port, Service service) {
  if (const auto taken = ports_.find({address, port}); taken != ports_.end())
    throw Error(Fault::Conflict, fmt::format("{}:{} is taken by {}", address, port,
                                             services_.at(taken->second).second.name));
  add_address(address);
  const Id id = next_++;
  ports_.emplace(std::pair{address, port}, id);
  services_.emplace(id, std::pair{Place{id, std::move(address), port}, std::move(service)});
  changed();
  return id;
}

void Network::close(Id id) {
  const auto found = services_.find(id);
  if (found == services_.end()) return;
  ports_.erase({found->second.first.address, found->second.first.port});
  services_.erase(found);
  changed();
}

void Network::replace_tls(Id id, std::optional<net::ServerTls> tls) {
  services_.at(id).second.tls = std::move(tls);
  changed();
}

const Service* Network::find(std::string_view address, unsigned port) const {
  const auto found = ports_.find({std::string(address), port});
  return found == ports_.end() ? nullptr : &services_.at(found->second).second;
}

const Service* Network::find(Id id) const {
  const auto found = services_.find(id);
  return found == services_.end() ? nullptr : &found->second.second;
}

std::vector<Network::Place> Network::places() const {
  std::vector<Place> all;
  for (const auto& [id, entry] : services_) all.push_back(entry.first);
  return all;
}

std::vector<std::pair<std::string, std::string>> Network::names() const {
  return {names_.begin(), names_.end()};
}

}  // namespace rocca::lab
