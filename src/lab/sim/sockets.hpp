#pragma once

#include "base/clock.hpp"
#include "lab/services/external_downloads.hpp"
#include "lab/sim/network.hpp"
#include "lab/sim/world.hpp"
#include "net/server/server.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rocca::lab {

/// The door for everybody else: every service of the simulated network on an address of
/// 127.0.0.0/8, and an HTTP CONNECT proxy that leads simulated names and addresses there and
/// refuses all others (403). The world then runs by the real clock, `speed` times as fast, and only
/// on the server's thread.
class Sockets {
 public:
  struct Options {
    double speed = 1;
    std::string proxy_address = "127.0.0.1";
    unsigned proxy_port = 0;  // any free one
    unsigned block = 77;      // simulated addresses outside 127.0.0.0/8 get 127.BLOCK.x.y
    std::vector<std::string> download_from;  // real hosts that Proxmox may download from
    /// Told of every request that reaches a service, on the server's thread.
    std::function<void(const Service&, const net::Incoming&)> seen;
    /// Asked about the same, behind that: true cuts the connection, and nothing has happened.
    std::function<bool(const Service&, const net::Incoming&)> drops;
  };

  Sockets(World& world, Clock& clock, Options options);
  ~Sockets();
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  std::string proxy() const;  // http://127.0.0.1:PORT
  struct Door {
    std::string address;
    unsigned port = 0;
  };
  /// Where a simulated place is reached directly; nothing if nobody listens there.
  std::optional<Door> find(const std::string& host, unsigned port);
  /// Runs `task` where the world may be touched, and waits for it.
  void run(const std::function<void()>& task);
  /// From now on the world runs so many times as fast as the real clock.
  void set_speed(double speed);
  void stop();

 private:
  struct Open {
    std::optional<net::Server::Id> id;  // nothing: a real program listens there
    Door door;
    std::string certificate;
  };

  void advance();
  void pump();
  void reconcile();
  void serve(Network::Id place, net::Incoming request, std::shared_ptr<net::Responder> responder);
  void connect(const net::Incoming& request, const std::shared_ptr<net::Responder>& responder);
  std::string loopback_of(const std::string& address);

  World& world_;
  Clock& clock_;
  Options options_;
  Tick real_start_;
  Instant world_start_;
  // Since when it runs at its present speed, on both clocks.
  Tick real_since_;
  Instant world_since_;
  std::uint64_t pumps_ = 0;  // only the newest timer counts
  bool dirty_ = false;
  std::map<Network::Id, Open> open_;
  std::map<std::string, std::string> loopback_;
  net::Server::Id proxy_ = 0;
  std::unique_ptr<Outside> outside_;
  net::Server server_;  // last: its thread ends before what it uses
};

}  // namespace rocca::lab
