#pragma once

#include "base/error.hpp"
#include "net/transport.hpp"

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace rocca::proxmox {

/// For tests: answers each request by a function, and keeps what was asked.
class ScriptedTransport final : public net::Transport {
 public:
  using Script = std::function<net::Answer(const net::Request&)>;
  explicit ScriptedTransport(Script script) : script_(std::move(script)) {}

  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token) override {
    requests.push_back(request);
    net::Answer answer = script_(request);
    sink.begin(answer.head);
    if (!answer.body.empty()) sink.write(answer.body);
    return answer.head;
  }

  std::vector<net::Request> requests;

 private:
  Script script_;
};

inline net::Answer json_answer(int status, std::string reason, std::string body) {
  net::Answer answer;
  answer.head.status = status;
  answer.head.reason = std::move(reason);
  answer.head.headers.add("Content-Type", "application/json;charset=UTF-8");
  answer.head.headers.add("Server", "pve-api-daemon/3.0");
  answer.body = std::move(body);
  return answer;
}

}  // namespace rocca::proxmox
