#pragma once

#include "base/clock.hpp"
#include "base/secret.hpp"
#include "net/http.hpp"
#include "net/tls.hpp"

#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <variant>

namespace rocca::net {

/// A body that is read as it is sent, for uploads that should not stand in memory.
class BodySource {
 public:
  virtual ~BodySource() = default;
  virtual std::optional<std::uint64_t> size() const = 0;  // nothing: chunked
  virtual std::size_t read(std::span<char> out) = 0;      // 0: the end
};

struct Request {
  std::string method = "GET";
  std::string url;  // absolute, http or https
  Headers headers;
  std::optional<Secret> authorization;  // the Authorization header's value; never shown
  std::variant<std::monostate, std::string, std::shared_ptr<BodySource>> body;
  Tls tls;
  HttpVersion version = HttpVersion::Any;
  Duration connect_timeout = std::chrono::seconds{5};
  /// For the whole exchange; nothing: as long as bytes come (see idle_timeout).
  std::optional<Duration> timeout = std::chrono::seconds{60};
  /// Longest silence of the far side once the body has begun; nothing: no limit.
  std::optional<Duration> idle_timeout;
  /// It only reads, whatever its method says: it may go out twice, and so over a connection that
  /// was used a moment ago.
  bool reads = false;
  /// The user has agreed that a credential crosses a network in clear on the way to this address
  /// (`plainHttp: true`): see net/plain_http.hpp.
  bool plain_http = false;
};

/// What came back. A 4xx or 5xx is an answer like any other.
struct Response {
  int status = 0;
  std::string
      reason;  // the raw bytes behind the status of an HTTP/1.1 answer; Proxmox speaks through them
  Headers headers;
  Headers trailers;
  HttpVersion version = HttpVersion::Any;
  std::optional<Fingerprint> peer;  // the certificate the far side showed
};

/// Takes an answer as it arrives.
class BodySink {
 public:
  virtual ~BodySink() = default;
  /// Status and headers are known; comes once, before the first byte.
  virtual void begin(const Response& head) { static_cast<void>(head); }
  /// False ends the exchange early without an error (enough was read).
  virtual bool write(std::string_view bytes) = 0;
};

/// Keeps the body in memory, up to a limit; beyond it the exchange ends in Error(Rejected).
class MemorySink final : public BodySink {
 public:
  explicit MemorySink(std::size_t limit = 64 * 1024 * 1024) : limit_(limit) {}
  bool write(std::string_view bytes) override;
  std::string& text() noexcept { return text_; }

 private:
  std::size_t limit_;
  std::string text_;
};

/// One of the four doors: one HTTP exchange. A 4xx or 5xx is returned; no answer at all throws:
/// Unreachable when nothing was sent (may be repeated), Lost when the far side may have acted (look
/// first), Denied when its certificate is not the one we trust, Interrupted when `stop` was
/// requested. Safe to call from many threads.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual Response exchange(const Request& request, BodySink& sink, std::stop_token stop) = 0;
};

struct Answer {
  Response head;
  std::string body;
};

/// The exchange with its body in memory.
Answer fetch(Transport& transport, const Request& request, std::stop_token stop = {});

}  // namespace rocca::net
