// net::Server with 200 addresses, each with a certificate of its own, on one thread: memory and
// requests per second. One HTTPS request to each, then every certificate is swapped while it runs,
// then one to each again, and the certificate that came is compared with the one that was set.

#include "net/server/server.hpp"

#include "base/handle.hpp"
#include "net/server/socket.hpp"
#include "support/pki.hpp"

#include <fmt/core.h>
#include <openssl/ssl.h>
#include <sys/ioctl.h>
#include <sys/select.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace rocca;
using Context = Handle<SSL_CTX, SSL_CTX_free>;
using Ssl = Handle<SSL, SSL_free>;
using Clock = std::chrono::steady_clock;

constexpr int addresses = 200;
constexpr int memory_limit_kib = 40 * 1024;

struct Place {
  net::Server::Id id = 0;
  std::string address;
  std::string der;  // of the certificate it should show
};

long status_kib(const std::string& key) {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key + ":", 0) == 0) return std::stol(line.substr(key.size() + 1));
  }
  return 0;
}

net::ServerTls fresh(Place& place) {
  const auto pki = test::make_pki(
      {.name = place.address, .addresses = {place.address}, .key = test::KeyType::Ed25519});
  place.der = test::certificate_der(pki.certificate);
  return {.identity = {pki.certificate, Secret{pki.key}}};
}

/// One connection: handshake, the certificate compared, `requests` answers read. The connection
/// stays open.
Ssl ask(SSL_CTX* context, net::Descriptor& socket, const Place& place, unsigned port,
        int requests) {
  socket = net::start_connect(place.address, port);
  Ssl ssl{SSL_new(context)};
  fd_set writable;
  FD_ZERO(&writable);
  FD_SET(socket.get(), &writable);
  ::select(socket.get() + 1, nullptr, &writable, nullptr, nullptr);
  int flags = 0;
  ::ioctl(socket.get(), FIONBIO, &flags);
  SSL_set_fd(ssl.get(), socket.get());
  if (SSL_connect(ssl.get()) != 1) throw std::runtime_error("no handshake with " + place.address);
  unsigned char* der = nullptr;
  const int size = i2d_X509(SSL_get0_peer_certificate(ssl.get()), &der);
  const bool right =
      std::string{reinterpret_cast<char*>(der), static_cast<std::size_t>(size)} == place.der;
  OPENSSL_free(der);
  if (!right) throw std::runtime_error(place.address + " showed another certificate");
  const std::string request = "GET / HTTP/1.1\r\nHost: bench\r\n\r\n";
  for (int i = 0; i < requests; ++i) {
    SSL_write(ssl.get(), request.data(), static_cast<int>(request.size()));
    std::array<char, 4096> buffer{};
    if (SSL_read(ssl.get(), buffer.data(), static_cast<int>(buffer.size())) <= 0) {
      throw std::runtime_error(place.address + " did not answer");
    }
  }
  return ssl;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int run() {
  std::vector<Place> places(addresses);
  const Context context{SSL_CTX_new(TLS_client_method())};
  net::Server server;
  for (int i = 0; i < addresses; ++i) {
    auto& place = places[static_cast<std::size_t>(i)];
    place.address = fmt::format("127.{}.{}.1", 10 + i / 100, i % 100);
    place.id = server.listen(
        {.address = place.address,
         .tls = fresh(place),
         .handler = [](const net::Incoming& request, const std::shared_ptr<net::Responder>& out) {
           out->answer(200, "", {}, request.local_address);
         }});
  }
  std::vector<net::Descriptor> sockets(2 * addresses);
  std::vector<Ssl> open;  // all stay open: 400 connections at the end
  const auto round = [&](std::size_t first, const char* name) {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < places.size(); ++i) {
      open.push_back(
          ask(context.get(), sockets[first + i], places[i], server.port(places[i].id), 1));
    }
    fmt::print("{:<28}{:>8.0f} handshakes with a request per second\n", name,
               addresses / seconds_since(start));
  };
  round(0, "200 addresses");
  const auto swap = Clock::now();
  for (auto& place : places) server.replace_tls(place.id, fresh(place));
  fmt::print("{:<28}{:>8.0f} ms, new keys included\n", "200 certificates swapped",
             1000 * seconds_since(swap));
  round(addresses, "200 addresses again");

  constexpr int many = 20'000;
  const auto start = Clock::now();
  net::Descriptor socket;
  const auto one = ask(context.get(), socket, places[0], server.port(places[0].id), many);
  fmt::print("{:<28}{:>8.0f} requests per second, one after the other\n", "one connection",
             many / seconds_since(start));

  const long memory = status_kib("VmRSS");
  fmt::print("{:<28}{:>8.1f} MiB (peak {:.1f}), server and client in one process, limit 40\n",
             "resident memory", static_cast<double>(memory) / 1024,
             static_cast<double>(status_kib("VmHWM")) / 1024);
  fmt::print("{:<28}{:>8} (the loop and this client)\n", "threads", status_kib("Threads"));
  return memory < memory_limit_kib ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
