#pragma once

#include "net/tls.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

// A server that misbehaves on demand, and the certificates it needs. For tests only.

namespace rocca::net::test {

enum class KeyKind { Ed25519, Ecdsa, Rsa };

struct Issued {
  std::string certificate_pem;
  std::string key_pem;  // PKCS#8
  Fingerprint fingerprint;

  std::shared_ptr<const Identity> identity() const;
};

/// A CA in memory.
class Authority {
 public:
  explicit Authority(const std::string& name = "test CA");
  ~Authority();
  const std::string& pem() const { return pem_; }
  /// `names`: DNS names and IP addresses.
  Issued issue(const std::vector<std::string>& names, KeyKind kind = KeyKind::Ecdsa) const;

 private:
  struct Keys;
  std::unique_ptr<Keys> keys_;
  std::string pem_;
};

/// One accepted connection, used by one script on one thread.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual unsigned number() const = 0;  // from 1
  /// The next request: head as sent, body by its Content-Length or chunks. Nothing: the client
  /// left.
  struct Seen {
    std::string head;
    std::string body;
    std::string method() const { return head.substr(0, head.find(' ')); }
  };
  virtual std::optional<Seen> read_request() = 0;
  virtual std::string read_bytes() = 0;  // whatever came, of any protocol; empty: the client left
  virtual bool send(std::string_view bytes) = 0;
  virtual void reset() = 0;           // RST in place of FIN
  virtual void wait_for_leave() = 0;  // until the client closes or the server stops
};

using Script = std::function<void(Connection&)>;

/// Listens on 127.0.0.1, a free port; runs `script` on a thread for each connection.
class TestServer {
 public:
  struct Options {
    std::optional<Issued> tls;
    std::string client_authority_pem;  // not empty: a client certificate is required
    std::vector<std::string> alpn = {"http/1.1"};
    int max_tls = 0;  // TLS1_2_VERSION…; 0: newest
  };

  explicit TestServer(Script script) : TestServer(Options{}, std::move(script)) {}
  TestServer(Options options, Script script);
  ~TestServer();

  std::string url(std::string_view target = "/") const;
  unsigned port() const { return port_; }
  unsigned connections() const { return connections_; }

 private:
  struct Context;
  void accept_loop();
  void serve(int socket, unsigned number);

  Options options_;
  Script script_;
  std::unique_ptr<Context> context_;
  int listener_ = -1;
  unsigned port_ = 0;
  std::atomic<unsigned> connections_{0};
  std::mutex mutex_;
  std::vector<int> open_;
  std::vector<std::jthread> threads_;
  bool stopping_ = false;
  std::jthread acceptor_;
};

/// A script that answers every request with 200 and this body, on a kept connection.
Script always(std::string body);

std::string http_answer(std::string_view body, std::string_view status_line = "HTTP/1.1 200 OK");

}  // namespace rocca::net::test
