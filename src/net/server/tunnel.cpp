#include "net/server/tunnel.hpp"

#include "base/error.hpp"

#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace rocca::net {
namespace {

constexpr Duration connect_time = std::chrono::seconds{10};
constexpr int reads_per_turn = 16;

}  // namespace

void Tunnel::open(Connection& connection, const Endpoint& to, std::string early,
                  bool client_ended) {
  Descriptor upstream;
  try {
    upstream = start_connect(to.address, to.port);
  } catch (const Error& error) {
    return refuse(connection, error.message());
  }
  auto tunnel =
      std::make_unique<Tunnel>(connection, std::move(upstream), std::move(early), client_ended);
  auto& started = *tunnel;
  connection.become(std::move(tunnel));
  started.start();
}

Tunnel::Tunnel(Connection& connection, Descriptor upstream, std::string early, bool client_ended)
    : connection_(connection),
      upstream_(std::move(upstream)),
      out_(std::move(early)),
      client_ended_(client_ended) {}

Tunnel::~Tunnel() {
  lost();
}

void Tunnel::refuse(Connection& connection, const std::string& why) {
  connection.send(
      fmt::format("HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain; "
                  "charset=utf-8\r\nContent-Length: {}\r\n"
                  "Connection: close\r\n\r\n{}\n",
                  why.size() + 1, why));
  connection.finish();
}

void Tunnel::start() {
  update();
  connection_.loop().after(connect_time, [weak = connection_.weak_from_this(), this] {
    // While the connection lives and has not been closed, its last session is this one.
    const auto alive = weak.lock();
    if (alive && alive->open() && !connected_ && upstream_) {
      lost();
      refuse(*alive, "the address did not answer in time");
    }
  });
}

void Tunnel::ready(std::uint32_t events) {
  if (!connected_) return connected();
  if ((events & EPOLLERR) != 0) {
    lost();
    return connection_.cut();
  }
  if ((events & EPOLLOUT) != 0) write_upstream();
  if (upstream_ && (events & (EPOLLIN | EPOLLHUP)) != 0) read_upstream();
}

void Tunnel::connected() {
  if (const int error = connect_error(upstream_); error != 0) {
    lost();
    return refuse(connection_, std::generic_category().message(error));
  }
  connected_ = true;
  connection_.send("HTTP/1.1 200 Connection established\r\n\r\n");
  write_upstream();
}

void Tunnel::input(std::string_view bytes) {
  out_ += bytes;
  if (connected_) return write_upstream();
  update();
}

void Tunnel::end_of_input() {
  client_ended_ = true;
  if (!connected_) return connection_.close();  // it left before there was a tunnel
  write_upstream();
}

void Tunnel::room() {
  update();
}

void Tunnel::read_upstream() {
  std::array<char, 16 * 1024> buffer;
  for (int i = 0; i < reads_per_turn && upstream_ && !upstream_ended_ && !connection_.full(); ++i) {
    const auto got = ::recv(upstream_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0) {
      if (errno == EAGAIN || errno == EINTR) break;
      lost();
      return connection_.cut();
    }
    if (got == 0) {
      upstream_ended_ = true;
      connection_.end_output();
      break;
    }
    connection_.send({buffer.data(), static_cast<std::size_t>(got)});
  }
  close_if_over();
  update();
}

void Tunnel::write_upstream() {
  std::size_t sent = 0;
  while (upstream_ && sent < out_.size()) {
    const auto count =
        ::send(upstream_.get(), out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL);
    if (count < 0) {
      if (errno == EAGAIN || errno == EINTR) break;
      lost();
      return connection_.cut();
    }
    sent += static_cast<std::size_t>(count);
  }
  out_.erase(0, sent);
  if (upstream_ && out_.empty() && client_ended_ && !upstream_shut_) {
    upstream_shut_ = true;
    ::shutdown(upstream_.get(), SHUT_WR);
  }
  close_if_over();
  update();
}

void Tunnel::close_if_over() {
  if (!upstream_ended_ || !upstream_shut_) return;
  if (token_) connection_.loop().forget(*token_, upstream_.get());
  token_.reset();
  upstream_.reset();
  connection_.finish();  // its output is ending already; this waits for the last bytes
}

void Tunnel::update() {
  if (!upstream_) return;
  connection_.pause_input(out_.size() >= Connection::high_water);
  std::uint32_t wanted = 0;
  if (!connected_) {
    wanted = EPOLLOUT;
  } else {
    if (!upstream_ended_ && !connection_.full()) wanted |= EPOLLIN;
    if (!out_.empty()) wanted |= EPOLLOUT;
  }
  auto& loop = connection_.loop();
  // EPOLLHUP cannot be masked, so a side nobody wants to hear of is not watched at all.
  if (wanted == 0) {
    if (token_) loop.forget(*token_, upstream_.get());
    token_.reset();
  } else if (!token_) {
    token_ = loop.watch(upstream_.get(), wanted,
                        [weak = connection_.weak_from_this(), this](std::uint32_t events) {
                          const auto alive = weak.lock();
                          if (alive && upstream_) ready(events);
                        });
  } else if (wanted != interest_) {
    loop.change(*token_, upstream_.get(), wanted);
  }
  interest_ = wanted;
}

void Tunnel::lost() {
  if (!upstream_) return;
  if (token_) connection_.loop().forget(*token_, upstream_.get());
  token_.reset();
  // The client broke off, or we do: upstream must not take it for an orderly end.
  if (!upstream_shut_) reset_on_close(upstream_);
  upstream_.reset();
}

}  // namespace rocca::net
