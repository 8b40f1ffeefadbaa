#pragma once

#include "base/strings.hpp"
#include "lab/kube/api.hpp"
#include "lab/kube/json.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace rocca::lab::kube {

/// What came back, whole or as it streams.
class Answer final : public net::Responder {
 public:
  int status = 0;
  net::Headers headers;
  std::string body;
  bool finished = false;
  bool was_cut = false;

  void answer(int code, std::string, net::Headers fields, std::string text, net::Headers) override {
    status = code;
    headers = std::move(fields);
    body = std::move(text);
    finished = true;
  }
  void begin(int code, std::string, net::Headers) override { status = code; }
  void write(std::string bytes) override { body += bytes; }
  void finish(net::Headers) override { finished = true; }
  void cut() override { was_cut = finished = true; }
  void tunnel(std::string, unsigned) override {}
  bool gone() const override { return false; }
  void on_gone(std::function<void()>) override {}

  text::Value json() const { return read_json(body).value; }
  std::vector<std::string> types() const {
    std::vector<std::string> out;
    for (const std::string& line : split(body, '\n'))
      if (!line.empty()) out.push_back(text_at(read_json(line).value, {"type"}));
    return out;
  }
};

/// A cluster and a client that speaks straight to its handler.
class KubeApi : public testing::Test {
 protected:
  KubeApi() { start({}); }

  void start(Api::Options options) {
    options.quorum = [this] { return quorum; };
    api = std::make_unique<Api>(world, std::move(options));
  }

  std::shared_ptr<Answer> send(std::string method, std::string target, std::string body = "",
                               std::string type = "application/json",
                               User user = {"admin", {"system:masters"}}) {
    net::Incoming in;
    in.method = std::move(method);
    in.target = std::move(target);
    in.body = std::move(body);
    in.headers.add("Content-Type", std::move(type));
    in.headers.add("User-Agent", "tester/1");
    auto answer = std::make_shared<Answer>();
    api->handler(std::move(user))(std::move(in), answer);
    return answer;
  }
  std::shared_ptr<Answer> apply(const std::string& manager, const std::string& target,
                                const std::string& body, bool force = false) {
    return send("PATCH", fmt::format("{}?fieldManager={}&force={}", target, manager, force), body,
                "application/apply-patch+yaml");
  }

  World world;
  bool quorum = true;
  std::unique_ptr<Api> api;
  const std::string maps = "/api/v1/namespaces/default/configmaps";
};

}  // namespace rocca::lab::kube
