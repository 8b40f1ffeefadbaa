#pragma once

#include "net/server/event_loop.hpp"
#include "net/server/server.hpp"
#include "net/server/server_tls.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace rocca::net {

/// The protocol that speaks on a connection. All calls come from the loop's thread.
class Session {
 public:
  virtual ~Session() = default;
  virtual void input(std::string_view bytes) = 0;
  virtual void end_of_input() = 0;
  virtual void room() = 0;     // what was to be sent has left: more may be made
  virtual void goodbye() = 0;  // the server stops: last words
  virtual void lost() = 0;     // the connection is over
};

/// One accepted socket, with TLS or without: reads, writes, and the ways to end. It picks the
/// session by ALPN or, where there is none, by HTTP/2's preface. It outlives its socket until the
/// loop lets it go, so a session may end the connection from anywhere; what is sent afterwards goes
/// nowhere.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// What the listener gives to each of its connections.
  struct Door {
    std::uint64_t listener = 0;
    std::shared_ptr<const Handler> handler;
    std::size_t body_limit = 0;
    TlsContext tls;  // null: clear text
  };

  /// Sessions make no more bytes while this many wait to be sent.
  static constexpr std::size_t high_water = 256 * 1024;

  Connection(EventLoop& loop, Descriptor socket, Door door,
             std::function<void(Connection&)> when_over);
  ~Connection();

  void start();

  // For sessions.
  void send(std::string_view plain);
  std::size_t unsent() const noexcept { return out_.size() - sent_; }
  bool full() const noexcept { return unsent() >= high_water; }
  void pause_input(bool pause);
  /// `room()`, once, after what the loop has at hand.
  void call_back_soon();
  /// No more will be sent; input goes on.
  void end_output();
  /// The orderly end: sends what waits, then closes, and drains input first so that no RST
  /// overtakes the last bytes.
  void finish();
  /// The orderly end, of which the session is told now.
  void leave();
  /// RST, at once; what waits is lost, and TLS says no goodbye.
  void cut();
  /// At once: one attempt to send what waits, then close.
  void close();
  bool open() const noexcept { return static_cast<bool>(socket_); }
  void become(std::unique_ptr<Session> session);
  /// Everything about a request that the connection knows.
  Incoming blank_request() const;

  EventLoop& loop() noexcept { return loop_; }
  const Door& door() const noexcept { return door_; }

  /// The server stops: last words, and the session is told now.
  void stop_now();

 private:
  void ready(std::uint32_t events);
  void read_in();
  void write_out();
  void from_wire(std::string_view bytes);
  void deliver(std::string_view plain);
  void input_ended();
  void choose_session();
  void flush_tls();
  void update_interest();
  void shut_down_output();
  void close_after(Duration delay);
  void release();

  EventLoop& loop_;
  Descriptor socket_;
  Door door_;
  std::function<void(Connection&)> when_over_;
  std::unique_ptr<TlsStream> tls_;
  std::unique_ptr<Session> session_;
  Endpoint local_;
  Endpoint peer_;
  std::string peer_certificate_;
  std::optional<EventLoop::Token> token_;
  std::uint32_t interest_ = 0;
  std::string out_;
  std::size_t sent_ = 0;
  std::string preface_;       // bytes seen before a session was chosen
  bool called_back_ = false;  // it will be
  bool input_over_ = false;
  bool paused_ = false;
  bool output_ending_ = false;  // shut down once out_ is empty
  bool output_over_ = false;
  bool draining_ = false;  // input is thrown away until the peer closes too
  std::size_t drained_ = 0;
};

}  // namespace rocca::net
