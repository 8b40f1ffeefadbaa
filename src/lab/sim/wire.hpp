#pragma once

#include "lab/sim/chain_cache.hpp"
#include "lab/sim/network.hpp"
#include "lab/sim/world.hpp"
#include "net/transport.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace rocca::lab {

/// What somebody outside the simulation waits for; made over by an event of the world.
class Pending {
 public:
  bool over() const noexcept { return over_; }
  void finish() {
    over_ = true;
    if (then_) then_();
  }
  void rearm() noexcept { over_ = false; }
  /// Called inside the event that makes it over; a runner makes the parked fiber ready there.
  void when_over(std::function<void()> then) { then_ = std::move(then); }

 private:
  bool over_ = false;
  std::function<void()> then_;
};

/// How a caller of the Wire waits while the world goes on: here by running the world's events
/// itself, in a fiber runner by letting other fibers go on.
class Parker {
 public:
  virtual ~Parker() = default;
  /// Returns when `pending` is over. Throws Error(Bug) if the world has no event left that could
  /// make it so.
  virtual void park(World& world, Pending& pending) = 0;
};

/// Runs the event queue until the answer is there. For one caller on one thread.
class InlineParker final : public Parker {
 public:
  void park(World& world, Pending& pending) override;
};

/// Lets `duration` of the world's time pass for the caller.
void pause(World& world, Parker& parker, Duration duration);

/// The door for programs in this process: an exchange goes straight to the simulated service, takes
/// simulated time and fails as the sockets would: Unreachable before anything was sent, Lost after,
/// Denied for a certificate that is not trusted. One thread; with fibers, many exchanges are in
/// flight at once.
class Wire final : public net::Transport {
 public:
  explicit Wire(World& world);
  Wire(World& world, Parker& parker) : world_(world), parker_(parker) {}

  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override;

  /// Exchanges that were in flight at once, at the most, to one service ("pve/pve1").
  std::size_t peak_in_flight(const std::string& service) const;
  std::uint64_t exchanges() const noexcept { return exchanges_; }

 private:
  class Exchange;
  class WireResponder;
  struct Load {
    std::size_t now = 0;
    std::size_t peak = 0;
  };

  std::optional<std::string> handshake(const net::ServerTls& server, const net::Tls& client,
                                       const std::string& host, net::Incoming& incoming);

  World& world_;
  InlineParker inline_;
  Parker& parker_;
  ChainCache chains_;
  std::map<std::string, Load> load_;
  std::uint64_t exchanges_ = 0;
};

}  // namespace rocca::lab
