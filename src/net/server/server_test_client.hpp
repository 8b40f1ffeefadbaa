#pragma once

#include "net/http.hpp"
#include "net/server/server.hpp"
#include "net/server/socket.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct ssl_st;
struct ssl_ctx_st;
struct nghttp2_session;

namespace rocca::net::test {

/// A blocking client socket that says what really came over the wire. Each read gives up after a
/// while, so that a server that does not answer fails the test and does not hang it.
class RawClient {
 public:
  explicit RawClient(unsigned port, const std::string& address = "127.0.0.1");
  virtual ~RawClient() = default;

  virtual void send(std::string_view bytes);
  /// Reads until `end` has come (inclusive) or the connection ended.
  std::string read_until(std::string_view end);
  std::string read_exactly(std::size_t size);
  std::string read_all();
  /// One HTTP/1.1 answer with its Content-Length body.
  std::string read_answer();
  /// One read; empty at the end of the connection or on an error.
  virtual std::string read_some();
  void shut_down_writing();
  void leave();      // FIN
  void break_off();  // RST
  bool was_reset() const noexcept { return was_reset_; }
  int fd() const noexcept { return socket_.get(); }

 protected:
  Descriptor socket_;
  std::string buffer_;
  bool was_reset_ = false;
};

struct TlsOptions {
  std::vector<std::string> protocols{};  // ALPN
  std::optional<Identity> identity{};    // the client's
  int newest = 0;                        // TLS1_2_VERSION…; 0: any
};

/// The same over TLS; trusts anybody, remembers the alert that came.
class TlsClient final : public RawClient {
 public:
  TlsClient(unsigned port, const TlsOptions& options, const std::string& address = "127.0.0.1");
  ~TlsClient() override;

  void send(std::string_view bytes) override;
  std::string read_some() override;
  bool connected() const noexcept { return connected_; }
  int alert() const noexcept { return alert_; }                       // 0: none
  bool closed_properly() const noexcept { return closed_properly_; }  // close_notify came
  std::string protocol() const;
  std::string peer_der() const;
  void close_notify();

 private:
  std::unique_ptr<ssl_ctx_st, void (*)(ssl_ctx_st*)> context_;
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_;
  bool connected_ = false;
  int alert_ = 0;
  bool closed_properly_ = false;
};

/// An HTTP/2 client on one of the above.
class Http2Client {
 public:
  struct Answer {
    Headers headers;
    std::string body;
    Headers trailers;
    bool ended = false;            // END_STREAM came
    bool ended_with_head = false;  // and it came on the first HEADERS
    std::optional<std::uint32_t> reset;
    std::string status() const { return std::string{headers.find(":status").value_or("")}; }
  };

  explicit Http2Client(RawClient& wire, bool automatic_windows = true);
  ~Http2Client();

  std::int32_t request(const std::string& method, const std::string& target,
                       const Headers& headers = {}, const std::string& body = {});
  /// Opens a stream and leaves it open for more of a body.
  std::int32_t open(const std::string& method, const std::string& target);
  void reset(std::int32_t stream);
  void flush();
  /// Reads until `enough` says so or the connection ends; false if it ended first.
  bool read_until(const std::function<bool()>& enough);
  Answer& wait(std::int32_t stream);
  Answer& answer(std::int32_t stream) { return answers_[stream]; }
  void allow(std::int32_t stream, std::int32_t bytes);  // opens the windows
  std::optional<std::uint32_t> goaway() const { return goaway_; }

 private:
  struct Callbacks;
  std::int32_t submit(const std::string& method, const std::string& target, const Headers& headers,
                      const std::string* body, bool stay_open);

  RawClient& wire_;
  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, Answer> answers_;
  std::map<std::int32_t, std::string> bodies_;
  std::optional<std::uint32_t> goaway_;
};

}  // namespace rocca::net::test
