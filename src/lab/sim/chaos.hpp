#pragma once

#include "base/entropy.hpp"
#include "lab/sim/wire.hpp"
#include "net/transport.hpp"

namespace rocca::lab {

/// Wraps a transport and, by seed, is unkind: exchanges are late, never arrive, arrive but lose
/// their answer, or are answered by something that is overloaded. Chances are in thousandths, tried
/// in this order.
class Chaos final : public net::Transport {
 public:
  struct Options {
    unsigned dropped_before = 0;  // Unreachable; nothing happened
    unsigned dropped_after = 0;   // the far side has acted; Lost
    unsigned busy = 0;            // 429 or 503 with Retry-After, nothing happened
    unsigned broken = 0;          // 500, 502 or 504 of a proxy on the way, nothing happened
    unsigned delayed = 0;
    Duration longest_delay = std::chrono::seconds{5};
  };

  Chaos(net::Transport& inner, World& world, Parker& parker, SeededEntropy entropy, Options options)
      : inner_(inner),
        world_(world),
        parker_(parker),
        entropy_(std::move(entropy)),
        options_(options) {}

  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override;
  /// How often it was unkind; a test under chaos that met none has shown nothing.
  std::uint64_t struck() const noexcept { return struck_; }

 private:
  bool strikes(unsigned thousandths);

  net::Transport& inner_;
  World& world_;
  Parker& parker_;
  SeededEntropy entropy_;
  Options options_;
  std::uint64_t struck_ = 0;
};

}  // namespace rocca::lab
