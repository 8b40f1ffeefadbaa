#pragma once

#include "base/clock.hpp"
#include "base/secret.hpp"
#include "net/transport.hpp"
#include "s3/failure.hpp"
#include "s3/signature.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::s3 {

struct Access {
  std::string endpoint;  // https://s3.eu-central-1.amazonaws.com, http://nas.home:9000
  std::string region;
  std::string bucket;
  std::string access_key;
  Secret secret_key;
  net::Tls tls;
  bool plain_http = false;  // what the key signs may cross a network in clear
};

struct Object {
  std::string body;
  std::string etag;
};

struct Entry {
  std::string key;
  std::string etag;
  std::uint64_t size = 0;

  friend bool operator==(const Entry&, const Entry&) = default;
};

/// When a PUT may happen. Only the two that every server with conditional writes keeps.
struct Condition {
  static Condition none() { return {}; }
  static Condition if_absent() { return {"If-None-Match", "*"}; }
  static Condition if_match(std::string etag) { return {"If-Match", std::move(etag)}; }

  std::string header;
  std::string value;
};

/// One bucket of an S3 server, with path-style addresses and SigV4. No retries. A refusal that is
/// not named below throws (Failure::error).
class Client {
 public:
  Client(net::Transport& transport, const Clock& clock, Access access, std::stop_token stop = {});

  std::optional<Object> find(const std::string& key);
  std::optional<Entry> head(const std::string& key);
  /// The new ETag; nothing when the condition did not hold: it is there already, is another one by
  /// now, or (if_match) is gone.
  std::optional<std::string> put(const std::string& key, std::string body,
                                 const Condition& condition = Condition::none(),
                                 const std::string& content_type = "application/octet-stream");
  void remove(const std::string& key);  // what is not there is removed already
  /// All keys that begin so, in order; `page` at a time.
  std::vector<Entry> list(const std::string& prefix, unsigned page = 1000);

  /// Called with the headers of every answer.
  void on_answer(std::function<void(const net::Headers&)> heard) { heard_ = std::move(heard); }
  const Access& access() const { return access_; }

 private:
  net::Answer send(const std::string& method, const std::string& key, const Query& query,
                   net::Headers headers, std::optional<std::string> body);

  net::Transport& transport_;
  const Clock& clock_;
  Access access_;
  net::Url url_;
  std::stop_token stop_;
  std::function<void(const net::Headers&)> heard_;
};

}  // namespace rocca::s3
