#pragma once

#include "net/curl_transport.hpp"
#include "net/server/server.hpp"
#include "state/http_store.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace rocca::state::test {

/// A server of Terraform's `http` protocol on a real socket, for tests: one state, one lock, and
/// trouble on demand. Its clock is three hours ahead of everybody else's.
class TerraformServer {
 public:
  struct Habits {
    bool relock = false;  // may a holder lock again what it holds?
    std::string authorization{};
  };
  enum class Trick { None, LoseAnswer, LoseRequest, GoDark, Deaf };
  struct Seen {
    std::string method;
    std::string target;
    std::string body;
  };

  explicit TerraformServer(Habits habits);
  ~TerraformServer();

  const Habits& habits() const { return habits_; }
  std::string address() const;
  HttpAccess access() const;
  std::unique_ptr<Store> open(const Clock& clock, Sealing sealing = {});
  net::Transport& transport() { return transport_; }

  /// For the next write (of the state or of anything with None), or until it is taken back (Deaf).
  void trick(Trick trick);
  /// Nothing is heard from this edge on: 2n before, 2n+1 after the n-th request from here.
  void die_at(std::uint64_t edge);
  bool revive();
  void advance(Duration by);
  std::uint64_t written() const;
  std::vector<Seen> seen() const;
  std::optional<std::string> state() const;
  void put(std::optional<std::string> state);
  std::optional<std::string> lock() const;
  /// The next request gets this answer.
  void answer_next(int status, std::string body);

 private:
  void handle(const net::Incoming& request, net::Responder& out);
  /// Status and body.
  std::pair<int, std::string> act(const net::Incoming& request);

  const Habits habits_;
  mutable std::mutex mutex_;
  VirtualClock clock_;
  std::optional<std::string> state_;
  std::optional<std::string> lock_;  // lock info
  std::uint64_t written_ = 0;
  std::vector<Seen> seen_;
  Trick trick_ = Trick::None;
  std::optional<std::uint64_t> die_at_;
  std::optional<std::pair<int, std::string>> scripted_;
  net::CurlTransport transport_;
  net::Server server_;
  net::Server::Id listener_ = 0;
};

}  // namespace rocca::state::test
