#pragma once

#include "net/server/server.hpp"

#include <memory>
#include <string>
#include <string_view>

struct ssl_ctx_st;
struct ssl_st;

namespace rocca::net {

/// What every connection of one listener shares: certificate, key, client policy, protocols.
using TlsContext = std::shared_ptr<ssl_ctx_st>;

/// Throws Error(Usage) when the PEM texts cannot be read or do not belong together.
TlsContext make_tls_context(const ServerTls& settings);

/// The server's side of one TLS connection as a filter between bytes: no socket, so what it wants
/// to say (an alert above all) can always be collected and delivered.
class TlsStream {
 public:
  explicit TlsStream(const TlsContext& context);
  ~TlsStream();

  enum class State { Handshaking, Open, PeerClosed, Failed };

  /// Takes bytes from the wire and adds what they decrypt to.
  State feed(std::string_view wire, std::string& plain);
  /// Encrypts; only when Open or PeerClosed.
  void seal(std::string_view plain);
  void close_notify();
  /// What must go to the wire now.
  std::string take_wire();

  State state() const noexcept { return state_; }
  std::string protocol() const;          // by ALPN; empty without
  std::string peer_certificate() const;  // DER

 private:
  void shake();

  TlsContext context_;
  ssl_st* ssl_;
  State state_ = State::Handshaking;
};

}  // namespace rocca::net
