// Our own client of the Talos API, for scenarios that do the same with it and with talosctl.
//
//   peer_talos apply ADDRESS FILE     gives a node in maintenance mode its configuration

#include "base/error.hpp"
#include "base/files.hpp"
#include "net/curl_transport.hpp"
#include "talos/client.hpp"

#include <fmt/core.h>

#include <string>

int main(int argc, char** argv) {
  using namespace rocca;
  if (argc != 4 || std::string_view(argv[1]) != "apply") {
    fmt::print(stderr, "usage: peer_talos apply ADDRESS FILE\n");
    return 2;
  }
  try {
    net::CurlTransport transport;
    talos::Client node{transport, talos::Access::maintenance(argv[2])};
    RealFiles files;
    const talos::Applied applied = node.apply(Secret(files.get(argv[3])), {});
    fmt::print("{}\n", applied.details);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.render());
    return 1;
  }
}
