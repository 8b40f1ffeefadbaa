// In the place of the kubelet on real Talos nodes: it answers the health check of Talos, and runs
// nothing. Several real ones are too much for a small machine, and everything below Kubernetes
// works without.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string_view>

int main() {
  // It is the first process of its container, and such a one ignores what it does not ask for.
  std::signal(SIGTERM, [](int) { _exit(0); });
  std::signal(SIGPIPE, SIG_IGN);
  const int door = socket(AF_INET, SOCK_STREAM, 0);
  const int yes = 1;
  setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(10248);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(door, reinterpret_cast<sockaddr*>(&where), sizeof where) != 0 || listen(door, 16) != 0) {
    std::perror("127.0.0.1:10248");
    return 1;
  }
  constexpr std::string_view answer =
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
  for (;;) {
    const int guest = accept(door, nullptr, nullptr);
    if (guest < 0) continue;
    char request[4096];
    if (read(guest, request, sizeof request) > 0 &&
        write(guest, answer.data(), answer.size()) != static_cast<ssize_t>(answer.size()))
      std::perror("write");
    close(guest);
  }
}
