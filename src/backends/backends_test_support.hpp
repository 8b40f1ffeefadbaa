#pragma once

#include "base/clock.hpp"
#include "net/transport.hpp"
#include "text/value.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rocca::backends::test {

/// A far side in memory, and trouble on demand. Its clock is three hours ahead of everybody else's.
class FarSide : public net::Transport {
 public:
  enum class Trick { None, LoseAnswer, LoseRequest, GoDark, Deaf };

  net::Response exchange(const net::Request& request, net::BodySink& sink, std::stop_token) final;

  Trick trick = Trick::None;  // for the next write of a state; Deaf until it is taken back
  /// Nothing is heard from this edge on: 2n before, 2n+1 after the n-th request from here.
  std::optional<std::uint64_t> die_at;
  VirtualClock clock{VirtualClock{}.now() + std::chrono::hours{3}};
  std::uint64_t written = 0;
  std::vector<std::string> seen;  // "PUT /bucket/key"

 protected:
  virtual net::Answer answer(const net::Request& request, const std::string& target,
                             const std::string& body) = 0;
  /// Is it a write of the state or its journal (and not of the lock)?
  virtual bool writes_state(const net::Request& request, const std::string& target) const = 0;
};

/// As the recordings of a real one: If-None-Match: *, If-Match, 412, 404, list v2.
class MemoryS3 final : public FarSide {
 public:
  bool ignores_conditions = false;
  unsigned page = 1000;
  std::map<std::string, std::string> objects;  // "key" → body, of the bucket `state`

 protected:
  net::Answer answer(const net::Request& request, const std::string& target,
                     const std::string& body) override;
  bool writes_state(const net::Request& request, const std::string& target) const override;
};

/// Secrets and Leases as the recordings of a real API server: resourceVersion, 404, 409, 422.
class MemoryKube final : public FarSide {
 public:
  std::map<std::string, text::Value> objects;  // by path

 protected:
  net::Answer answer(const net::Request& request, const std::string& target,
                     const std::string& body) override;
  bool writes_state(const net::Request& request, const std::string& target) const override;

 private:
  std::uint64_t version_ = 100;
};

}  // namespace rocca::backends::test
