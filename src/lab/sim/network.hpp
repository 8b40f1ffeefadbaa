#pragma once

#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "net/server/server.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rocca::lab {

class Outside;
class World;

/// Something that answers at an address and a port of the simulated network.
struct Service {
  std::string name;                           // in traces: "pve/pve1"
  mutable std::optional<net::ServerTls> tls;  // nothing: clear text, or not made yet
  net::Handler handler;
  /// Makes the certificate when the first client asks for it: most machines of a simulation are
  /// gone before anybody did.
  std::function<net::ServerTls()> mint{};
  /// A real program answers for it at this address and port of the machine, TLS and all; only
  /// Sockets can lead there.
  std::optional<std::pair<std::string, unsigned>> elsewhere{};

  const std::optional<net::ServerTls>& secured() const {
    if (!tls && mint) tls = mint();
    return tls;
  }
};

/// One way, per message: base plus a seeded part up to jitter.
struct Latency {
  Duration base = std::chrono::microseconds{500};
  Duration jitter = std::chrono::microseconds{500};
};

/// Who answers where. Names lead to addresses, addresses belong to machines that may be down
/// (packets vanish) and carry services at ports. Both doors read it: the Wire at every exchange,
/// Sockets when it changes.
class Network {
 public:
  explicit Network(World& world);

  void set_name(std::string name, std::string address);
  void remove_name(std::string_view name);
  /// The address of a name, an address itself, or nothing for a name nobody knows.
  std::optional<std::string> resolve(std::string_view host) const;

  /// Who may answer at an address: a machine, by a number of its own. `fixture` is what stands
  /// where it stands: PVE hosts, the factory.
  using Host = std::uint64_t;
  static constexpr Host fixture = 0;
  Host new_host() { return ++hosts_; }

  /// An address that exists: closed ports refuse at once. Anything else is silence.
  void add_address(std::string address) { claim(std::move(address), fixture); }
  void remove_address(std::string_view address);
  void set_up(std::string_view address, bool up);
  bool is_up(std::string_view address) const;
  /// A machine takes an address. Two at one address is a conflict: the higher rank answers, among
  /// equals who came last, and when it leaves the other one is heard again.
  void claim(std::string address, Host host, int rank = 0);
  void release(std::string_view address, Host host);
  /// Who answers there now; nothing: silence.
  std::optional<Host> holder(std::string_view address) const;
  /// Addresses that more than one machine uses, with how many do.
  std::vector<std::pair<std::string, std::size_t>> conflicts() const;
  void set_latency(std::string_view address, Latency latency);
  void set_latency(Latency latency) { latency_ = latency; }
  Duration draw_latency(std::string_view address);

  using Id = std::uint64_t;
  /// Throws Error(Conflict) if this machine has something at that port already.
  Id open(std::string address, unsigned port, Service service, Host host = fixture);
  void close(Id id);
  void replace_tls(Id id, std::optional<net::ServerTls> tls);
  void replace_tls(Id id, std::function<net::ServerTls()> mint);
  /// The service at a place, also while its machine is down; of the machine that answers there.
  const Service* find(std::string_view address, unsigned port) const;

  struct Place {
    Id id = 0;
    std::string address;
    unsigned port = 0;
    Host host = fixture;
  };
  /// Those of the machines that are heard at their addresses.
  std::vector<Place> places() const;
  const Service* find(Id id) const;
  /// Where it is; nullptr: it was closed.
  const Place* find_place(Id id) const;
  /// Who is heard there; nullptr: nobody.
  const Place* find_place(std::string_view address, unsigned port) const;
  std::vector<std::pair<std::string, std::string>> names() const;
  /// Called after every opening, closing, replacement and up or down. One observer.
  void on_change(std::function<void()> then) { changed_ = std::move(then); }

  /// The loopback address behind which clients on sockets find a simulated one; without sockets
  /// none.
  std::optional<std::string> door_of(const std::string& address) const {
    return doors_ ? std::optional{doors_(address)} : std::nullopt;
  }
  void set_doors(std::function<std::string(const std::string&)> doors) {
    doors_ = std::move(doors);
  }

  /// Real servers that can be reached from inside; nothing: none, as in every test on virtual time.
  void set_outside(Outside* outside) { outside_ = outside; }
  Outside* outside() const noexcept { return outside_; }

 private:
  struct Claim {
    bool up = true;
    int rank = 0;
    std::uint64_t order = 0;
  };
  struct Machine {
    std::map<Host, Claim> claims;
    std::optional<Latency> latency;
  };
  static std::optional<Host> holder(const Machine& machine);
  void changed() const {
    if (changed_) changed_();
  }

  Latency latency_;
  SeededEntropy entropy_;
  std::map<std::string, std::string, std::less<>> names_;
  std::map<std::string, Machine, std::less<>> machines_;
  using Port = std::pair<unsigned, Host>;
  std::map<std::string, std::map<Port, Id>, std::less<>> ports_;
  Host hosts_ = fixture;
  std::uint64_t claims_ = 0;
  std::map<Id, std::pair<Place, Service>> services_;
  Id next_ = 1;
  std::function<void()> changed_;
  std::function<std::string(const std::string&)> doors_;
  Outside* outside_ = nullptr;
};

}  // namespace rocca::lab
