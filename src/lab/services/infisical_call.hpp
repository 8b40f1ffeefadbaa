#pragma once

#include "base/clock.hpp"
#include "net/server/server.hpp"
#include "text/value.hpp"

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab {

/// How Infisical says no: {reqId, statusCode, message, error}.
struct Refusal {
  int status = 500;
  std::string error;
  std::string message;
  std::optional<unsigned> retry_after{};
  text::Value issues{};  // a list of them in place of the message

  text::Value body(const std::string& id) const;
};

/// The parameters of a request, from its query (GET) or its JSON body, read by name. What is wrong
/// is collected; validate() then throws Refusal 422 with all of it, parameters that nobody read
/// included.
class Parameters {
 public:
  explicit Parameters(const net::Incoming& request);

  /// The segments of the path, decoded.
  const std::vector<std::string>& path() const noexcept { return path_; }
  bool has(std::string_view key) const { return given_.find(key) != nullptr; }
  std::string text(const char* key);
  std::optional<std::string> find_text(const char* key);
  bool flag(const char* key, bool fallback);
  std::optional<std::string> choice(const char* key, std::initializer_list<std::string_view> all);
  std::string folder_name(const char* key);
  std::string secret_name(const std::string& name, const char* key);

  struct Item {
    std::string key;
    std::optional<std::string> value;
    std::optional<std::string> comment;
  };
  /// The `secrets` of a batch: at least one.
  std::vector<Item> items(const char* key, bool with_values);

  void validate() const;

 private:
  void complain(const std::string& code, const std::string& path, const std::string& message);

  text::Value given_;
  std::vector<std::string> path_;
  std::set<std::string> read_;
  std::vector<text::Value> issues_;
};

/// Takes answers and tells nobody.
class DeafResponder final : public net::Responder {
 public:
  void answer(int, std::string, net::Headers, std::string, net::Headers) override {}
  void begin(int, std::string, net::Headers) override {}
  void write(std::string) override {}
  void finish(net::Headers) override {}
  void cut() override {}
  void tunnel(std::string, unsigned) override {}
  bool gone() const override { return false; }
  void on_gone(std::function<void()>) override {}
};

void send(net::Responder& responder, int status, const text::Value& body,
          std::optional<unsigned> retry_after);

/// 2026-08-22T10:11:12.000Z
std::string timestamp(Instant when);

}  // namespace rocca::lab
