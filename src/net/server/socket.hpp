#pragma once

#include <string>
#include <utility>

namespace rocca::net {

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void reset() noexcept;

 private:
  int fd_ = -1;
};

struct Endpoint {
  std::string address;
  unsigned port = 0;
};

/// A listening, non-blocking socket. Throws Conflict when the address is taken, Usage when it is
/// none of ours.
Descriptor listen_on(const std::string& address, unsigned port);
/// A non-blocking socket on its way to the address: writable when it arrived or failed. Throws
/// Error(Unreachable).
Descriptor start_connect(const std::string& address, unsigned port);
/// What became of start_connect: 0, or an errno.
int connect_error(const Descriptor& socket) noexcept;

Endpoint local_endpoint(const Descriptor& socket);
Endpoint peer_endpoint(const Descriptor& socket);

/// The next close() sends RST and forgets what was not sent.
void reset_on_close(const Descriptor& socket) noexcept;

}  // namespace rocca::net
