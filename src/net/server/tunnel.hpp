#pragma once

#include "net/server/connection.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace rocca::net {

/// A connection that has become a pipe to another address (CONNECT). Each side's end is passed on
/// by itself, a reset becomes a reset, and a side is read only while the other one takes its bytes.
class Tunnel final : public Session {
 public:
  /// Connects, then takes the connection over. `early` came behind the request.
  static void open(Connection& connection, const Endpoint& to, std::string early,
                   bool client_ended);

  Tunnel(Connection& connection, Descriptor upstream, std::string early, bool client_ended);
  ~Tunnel() override;

  void input(std::string_view bytes) override;
  void end_of_input() override;
  void room() override;
  void goodbye() override {}
  void lost() override;

 private:
  static void refuse(Connection& connection, const std::string& why);
  void start();
  void ready(std::uint32_t events);
  void connected();
  void read_upstream();
  void write_upstream();
  void update();
  void close_if_over();

  Connection& connection_;
  Descriptor upstream_;
  std::optional<EventLoop::Token> token_;
  std::uint32_t interest_ = 0;
  std::string out_;  // for upstream
  bool connected_ = false;
  bool client_ended_;
  bool upstream_ended_ = false;
  bool upstream_shut_ = false;
};

}  // namespace rocca::net
