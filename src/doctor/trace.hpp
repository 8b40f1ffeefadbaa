#pragma once

#include "base/clock.hpp"
#include "net/transport.hpp"

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::doctor {

/// Passes every exchange on and writes it down as one JSON line: method, path, parameters, status,
/// reason, body, time taken. What could be a secret or says who the user is never gets in: no
/// Authorization header, no host name, and user and token names become <user>.
class Tracing final : public net::Transport {
 public:
  Tracing(net::Transport& inner, const Clock& clock, std::string token_id,
          std::function<void(std::string_view)> write);
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override;

 private:
  std::string redact(std::string text) const;

  net::Transport& inner_;
  const Clock& clock_;
  std::string token_id_;
  std::function<void(std::string_view)> write_;
};

/// Answers from such a trace, request by request: method and path must be the recorded ones, in the
/// recorded order. With it a run on somebody's own Proxmox becomes a test of ours.
class Replaying final : public net::Transport {
 public:
  explicit Replaying(std::string_view trace);
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override;
  std::size_t left() const { return exchanges_.size(); }

 private:
  struct Exchange {
    std::string method, path, reason, content_type, body;
    int status = 0;
  };
  std::deque<Exchange> exchanges_;
};

}  // namespace rocca::doctor
