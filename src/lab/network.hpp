#pragma once

#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "net/server.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rocca::lab {

class World;

/// Something that answers at an address and a port of the simulated network.
struct Service {
  std::string name;                   // in traces: "pve/pve1"
  std::optional<net::ServerTls> tls;  // nothing: clear text
  net::Handler handler;
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

  /// An address that exists: closed ports refuse at once. Anything else is silence.
  void add_address(std::string address);
  void remove_address(std::string_view address);
  void set_up(std::string_view address, bool up);
  bool is_up(std::string_view address) const;
  void set_latency(std::string_view address, Latency latency);
  void set_latency(Latency latency) { latency_ = latency; }
  Duration draw_latency(std::string_view address);

  using Id = std::uint64_t;
  /// Throws Error(Conflict) if something answers there already.
  Id open(std::string address, unsigned port, Service service);
  void close(Id id);
  void replace_tls(Id id, std::optional<net::ServerTls> tls);
  /// The service at a place, also while its machine is down.
  const Service* find(std::string_view address, unsigned port) const;

  struct Place {
    Id id = 0;
    std::string address;
    unsigned port = 0;
  };
  std::vector<Place> places() const;
  const Service* find(Id id) const;
  std::vector<std::pair<std::string, std::string>> names() const;
  /// Called after every opening, closing, replacement and up or down. One observer.
  void on_change(std::function<void()> then) { changed_ = std::move(then); }

 private:
  struct Machine {
    bool up = true;
    std::optional<Latency> latency;
  };
  void changed() const {
    if (changed_) changed_();
  }

  Latency latency_;
  SeededEntropy entropy_;
  std::map<std::string, std::string, std::less<>> names_;
  std::map<std::string, Machine, std::less<>> machines_;
  std::map<std::pair<std::string, unsigned>, Id> ports_;
  std::map<Id, std::pair<Place, Service>> services_;
  Id next_ = 1;
  std::function<void()> changed_;
};

}  // namespace rocca::lab
