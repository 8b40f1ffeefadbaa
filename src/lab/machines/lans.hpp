#pragma once

#include "base/address.hpp"
#include "base/entropy.hpp"
#include "lab/sim/network.hpp"
#include "lab/sim/world.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab {

/// The wires of a site, what a router knows of them, and the DHCP server. A wire is a bridge with a
/// VLAN: "vmbr0", "vmbr0.20". Clients sit behind the router: a machine is heard by them only if its
/// address belongs on its wire and its answers find the way back.
class Lans {
 public:
  explicit Lans(World& world);

  struct Lan {
    std::string wire;
    Cidr subnet;
    /// The router's address; nothing: the first of whatever subnet a machine believes to be in.
    std::optional<IpAddress> gateway{};
    /// What the DHCP server of this wire hands out; nothing: there is none.
    std::optional<AddressRange> pool{};
    std::vector<std::string> resolvers{};
  };
  void add(Lan lan);
  const std::vector<Lan>& all() const noexcept { return lans_; }

  /// Does a machine on this wire hear from and reach the rest of the world with this address, and
  /// these gateways of its default routes?
  bool routed(std::string_view wire, const Cidr& address,
              const std::vector<std::string>& gateways) const;

  struct Lease {
    Cidr address;
    std::string gateway;
    std::vector<std::string> resolvers;
  };
  /// What the DHCP server on that wire gives this card: the same again as long as nobody changes
  /// it. Nothing: nobody answers there.
  std::optional<Lease> lease(std::string_view wire, std::string_view mac);
  /// The server remembers this address for this card.
  void reserve(std::string_view mac, const IpAddress& address);
  /// The server forgets what it gave; the card gets another address, at once.
  void change_lease(std::string_view mac);
  void change_all_leases();
  bool dhcp_answers = true;
  /// Called after leases changed: who has one asks again. One observer.
  void on_change(std::function<void()> then) { changed_ = std::move(then); }

  /// A machine that is no VM of ours, at an address: answers at the ports given (an empty service
  /// name refuses), and louder than any VM that takes the same address.
  Network::Host add_foreign(const std::string& address,
                            std::vector<std::pair<unsigned, Service>> services = {});
  void remove_foreign(Network::Host host);

 private:
  std::optional<IpAddress> next_free(const AddressRange& pool);

  World& world_;
  std::vector<Lan> lans_;
  std::map<std::string, IpAddress, std::less<>> leases_;  // by lower-case MAC
  std::uint64_t handed_out_ = 0;
  std::function<void()> changed_;
  std::map<Network::Host, std::pair<std::string, std::vector<Network::Id>>> foreign_;
};

}  // namespace rocca::lab
