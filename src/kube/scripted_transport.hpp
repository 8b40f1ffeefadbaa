#pragma once

#include "net/transport.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace rocca::kube {

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

inline net::Answer answer(int status, std::string body) {
  net::Answer made;
  made.head.status = status;
  made.head.headers.add("Content-Type", "application/json");
  made.body = std::move(body);
  return made;
}

}  // namespace rocca::kube
