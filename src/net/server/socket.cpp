#include "net/server/socket.hpp"

#include "base/error.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

namespace rocca::net {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const noexcept { return storage.ss_family; }
};

std::optional<SocketAddress> parse(const std::string& address, unsigned port) {
  if (port > 65535) return std::nullopt;
  SocketAddress result;
  sockaddr_in v4{};
  if (inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<std::uint16_t>(port));
    std::memcpy(&result.storage, &v4, sizeof v4);
    result.size = sizeof v4;
    return result;
  }
  sockaddr_in6 v6{};
  if (inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(static_cast<std::uint16_t>(port));
    std::memcpy(&result.storage, &v6, sizeof v6);
    result.size = sizeof v6;
    return result;
  }
  return std::nullopt;
}

Endpoint endpoint(const SocketAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.family() == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address.storage, sizeof v4);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return {text.data(), ntohs(v4.sin_port)};
  }
  if (address.family() == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address.storage, sizeof v6);
    inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    return {text.data(), ntohs(v6.sin6_port)};
  }
  return {};
}

std::string error_text(int code) {
  return std::generic_category().message(code);
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Descriptor::reset() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Descriptor listen_on(const std::string& address, unsigned port) {
  auto where = parse(address, port);
  if (!where) {
    throw Error(Fault::Usage, fmt::format("cannot listen on '{}' port {}", address, port))
        .hint("give an IPv4 or IPv6 address of this machine and a port up to 65535");
  }
  Descriptor socket{::socket(where->family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  const int on = 1;
  if (socket) setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!socket || ::bind(socket.get(), where->get(), where->size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    const int code = errno;
    const auto fault = code == EADDRINUSE ? Fault::Conflict
                       : code == EACCES   ? Fault::Rejected  // a port below 1024, not an API's no
                                          : Fault::Usage;
    throw Error(fault,
                fmt::format("cannot listen on {} port {}: {}", address, port, error_text(code)));
  }
  return socket;
}

Descriptor start_connect(const std::string& address, unsigned port) {
  auto where = parse(address, port);
  if (!where) {
    throw Error(Fault::Unreachable, fmt::format("'{}' port {} is no address", address, port));
  }
  Descriptor socket{::socket(where->family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (!socket ||
      (::connect(socket.get(), where->get(), where->size) != 0 && errno != EINPROGRESS)) {
    throw Error(Fault::Unreachable,
                fmt::format("cannot reach {} port {}: {}", address, port, error_text(errno)));
  }
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

int connect_error(const Descriptor& socket) noexcept {
  int code = 0;
  socklen_t size = sizeof code;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &size) != 0) return errno;
  return code;
}

Endpoint local_endpoint(const Descriptor& socket) {
  SocketAddress address;
  if (getsockname(socket.get(), address.get(), &address.size) != 0) return {};
  return endpoint(address);
}

Endpoint peer_endpoint(const Descriptor& socket) {
  SocketAddress address;
  if (getpeername(socket.get(), address.get(), &address.size) != 0) return {};
  return endpoint(address);
}

void reset_on_close(const Descriptor& socket) noexcept {
  const linger now{1, 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace rocca::net
