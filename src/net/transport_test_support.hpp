#pragma once

#include "net/transport.hpp"

#include <functional>
#include <utility>
#include <vector>

namespace rocca::net {

/// For tests: answers each request by a function, and keeps what was asked.
class ScriptedTransport final : public Transport {
 public:
  using Script = std::function<Answer(const Request&)>;
  explicit ScriptedTransport(Script script) : script_(std::move(script)) {}

  Response exchange(const Request& request, BodySink& sink, std::stop_token) override {
    requests.push_back(request);
    Answer answer = script_(request);
    sink.begin(answer.head);
    if (!answer.body.empty()) sink.write(answer.body);
    return answer.head;
  }

  std::vector<Request> requests;

 private:
  Script script_;
};

}  // namespace rocca::net
