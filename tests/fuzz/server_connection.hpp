#pragma once

#include "net/server/connection.hpp"
#include "net/server/event_loop.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

// One connection of the server without TLS, fed with bytes in pieces as a network may cut them.
namespace rocca::fuzz {

inline constexpr std::size_t body_limit = 4096;
inline constexpr std::size_t head_limit = 64 * 1024;
inline constexpr std::size_t most_headers = 256;

/// What every request that reaches a handler must keep.
inline void check(const net::Incoming& request) {
  if (request.method.empty() || request.body.size() > body_limit) std::abort();
  std::size_t count = 0, size = request.target.size();
  for (const auto& header : request.headers) {
    ++count;
    size += header.name.size() + header.value.size();
    // A line break in a value would be a header of its own wherever it is passed on.
    if (header.name.empty() ||
        header.value.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos)
      std::abort();
  }
  if (count > most_headers || size > head_limit) std::abort();
  if (request.target.find_first_of(" \r\n") != std::string::npos) std::abort();
}

/// Sends `bytes` in pieces of at most `piece`, closes the sending half, and runs the server until
/// the connection is over.
inline void serve(std::string_view bytes, std::size_t piece) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
    std::abort();
  net::Descriptor client{ends[1]};
  net::EventLoop loop;
  net::Connection::Door door;
  door.body_limit = body_limit;
  door.handler = std::make_shared<const net::Handler>(
      [](net::Incoming request, const std::shared_ptr<net::Responder>& out) {
        check(request);
        if (request.target.find("cut") != std::string::npos) return out->cut();
        if (request.target.find("stream") != std::string::npos) {
          out->begin(200, "", {});
          out->write(request.body);
          return out->finish();
        }
        out->answer(200, "", {}, request.method + request.target);
      });
  auto connection = std::make_shared<net::Connection>(loop, net::Descriptor{ends[0]}, door,
                                                      [&](net::Connection&) { loop.stop(); });
  bool ended = false;
  std::function<void()> feed = [&] {
    std::array<char, 4096> answers;
    while (::recv(client.get(), answers.data(), answers.size(), 0) > 0) {
    }
    if (!bytes.empty()) {
      const auto count =
          ::send(client.get(), bytes.data(), std::min(piece, bytes.size()), MSG_NOSIGNAL);
      if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (!std::exchange(ended, true)) {
      ::shutdown(client.get(), SHUT_WR);
    }
    loop.post(feed);  // until the connection is over
  };
  loop.post([&] {
    connection->start();
    feed();
  });
  // Every connection whose client has closed must end by itself, and soon.
  loop.after(std::chrono::seconds{5}, [] { std::abort(); });
  loop.run();
  connection.reset();
  loop.close_mailbox();
}

}  // namespace rocca::fuzz
