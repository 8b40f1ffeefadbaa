#pragma once

#include "base/clock.hpp"
#include "base/secret.hpp"
#include "net/http.hpp"
#include "net/tls.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace rocca::net {

/// One request as a handler sees it, however it came in.
struct Incoming {
  std::string method;
  std::string target;     // as sent: path and query; for CONNECT the authority
  std::string authority;  // Host or :authority
  Headers headers;
  std::string body;
  HttpVersion version = HttpVersion::Http1;
  std::string local_address;  // where it came in: "127.0.3.1"
  unsigned local_port = 0;
  std::string peer_address;
  std::string peer_certificate;  // DER; empty without one
  bool tls = false;
};

/// Where a handler's answer goes. It may be kept and used later, from any thread; the first call
/// decides. An answer to a client that left goes nowhere and is no error. One that is let go
/// unanswered answers 500, or cuts the stream it had begun.
class Responder {
 public:
  virtual ~Responder() = default;

  /// A whole answer. Any status, any reason bytes (none: the standard ones), headers may repeat.
  /// Line breaks in a reason or a header become blanks.
  virtual void answer(int status, std::string reason, Headers headers, std::string body,
                      Headers trailers = {}) = 0;

  /// A streamed answer: begin, any number of writes, finish. A client that does not read is cut
  /// when more than stream_limit bytes wait for it; unsent() tells a producer when to pause.
  static constexpr std::size_t stream_limit = 64 * 1024 * 1024;
  virtual void begin(int status, std::string reason, Headers headers) = 0;
  virtual void write(std::string bytes) = 0;
  virtual void finish(Headers trailers = {}) = 0;
  virtual std::size_t unsent() const { return 0; }

  /// Ends the connection without (more of) an answer: RST for HTTP/1.1, RST_STREAM for HTTP/2.
  virtual void cut() = 0;

  /// For CONNECT: connects to this address, answers 200 when that worked and 502 when not, and from
  /// then on passes bytes both ways, half-closes included. HTTP/1.1 only.
  virtual void tunnel(std::string address, unsigned port) = 0;

  virtual bool gone() const = 0;
  /// Called once, on the server's thread, when the client leaves before the answer is finished. A
  /// client that closes only its sending half has left, unless the answer is there already.
  virtual void on_gone(std::function<void()> then) = 0;
};

using Handler = std::function<void(Incoming, std::shared_ptr<Responder>)>;

/// The TLS side of one listener; nothing of it touches a disk.
struct ServerTls {
  Identity identity;
  enum class Clients {
    Ignore,
    Ask,
    Require
  } clients = Clients::Ignore;  // Ask: optional, but verified if given
  std::string client_authority_pem{};
  /// The client's extended key usage must be clientAuth and nothing else, as Talos demands it.
  bool exact_client_usage = false;
  bool offer_http2 = true;
};

struct Listen {
  std::string address;             // "127.0.3.1" or "::1"
  unsigned port = 0;               // 0: any free one
  std::optional<ServerTls> tls{};  // nothing: clear text (HTTP/1.1, and HTTP/2 by prior knowledge)
  Handler handler{};
  std::size_t body_limit = 64 * 1024 * 1024;
};

/// HTTP/1.1 and HTTP/2 for the lab, the dashboard and the API: one epoll loop on one thread, any
/// number of addresses. Handlers run on that thread and must not block: what takes time answers
/// later. What a handler throws becomes a 500 with its message.
class Server {
 public:
  Server();
  ~Server();  // stops
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  using Id = std::uint64_t;

  /// Starts listening; may be called while running, from any thread. Throws Error(Conflict) when
  /// the address is taken.
  Id listen(Listen listen);
  unsigned port(Id id) const;
  /// New connections get this identity and client policy; running ones keep what they have.
  void replace_tls(Id id, ServerTls tls);
  /// Ends the listener and every connection that came in through it.
  void close(Id id);

  /// Runs `task` on the loop's thread, now or after a while. What it throws is dropped; after
  /// stop() nothing runs.
  void post(std::function<void()> task);
  void after(Duration delay, std::function<void()> task);

  /// Ends everything at once, open watches and tunnels too. Idempotent; from a handler it takes
  /// effect when the handler returns, from any other thread it returns when all is over.
  void stop();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace rocca::net
