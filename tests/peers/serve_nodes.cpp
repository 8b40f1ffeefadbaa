// Serves Talos nodes of the lab over sockets, for the real talosctl.
//
//   serve_nodes VERSION NAME=ADDRESS[,iso]…
//
// Each is a machine that boots Talos VERSION into maintenance mode: from its disk, or from an ISO
// beside an empty one. Prints `proxy URL` (for HTTPS_PROXY: it leads to the simulated addresses)
// and `ready`, and then answers the lines that it is given:
//   state NAME   stage, host name and version
//   off NAME     pulls the plug
//   on NAME      powers it on
// until there are no more. Boots take a second here, and the world's clock is the real one: a
// client looks at the dates of certificates.

#include "base/clock.hpp"
#include "lab/machines/clusters.hpp"
#include "lab/sim/sockets.hpp"
#include "lab/talos/node.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>

namespace {

using namespace rocca;
using namespace std::chrono_literals;
using lab::talos::Machine;
using lab::talos::TalosNode;

lab::talos::NodeTiming quick() {
  lab::talos::NodeTiming timing;
  for (Duration* each :
       {&timing.firmware, &timing.network, &timing.maintenance, &timing.transition, &timing.service,
        &timing.etcd_pull, &timing.etcd_start, &timing.etcd_healthy, &timing.etcd_join,
        &timing.etcd_promote, &timing.etcd_look, &timing.etcd_jitter, &timing.kubelet,
        &timing.static_pods, &timing.node_ready})
    *each = 50ms;
  timing.install = timing.upgrade = timing.shutdown = 300ms;
  return timing;
}

Machine machine_of(const std::string& name, const std::string& address, bool iso,
                   const std::string& version, std::size_t number) {
  Machine machine;
  machine.version = version;
  machine.boot_disk = iso ? "" : "sda";
  lab::talos::Disk disk;
  disk.name = "sda";
  disk.size = 20'000'000'000;
  disk.serial = "system";
  machine.disks = {disk};
  machine.links = {{"eth0", fmt::format("bc:24:11:00:00:{:02x}", number),
                    lab::talos::Link::Lease{address + "/24", "10.0.0.1", {"10.0.0.1"}, name}}};
  machine.uuid = fmt::format("00000000-0000-4000-8000-{:012x}", number);
  machine.manufacturer = "QEMU";
  machine.product = "Standard PC";
  return machine;
}

void answer(lab::Sockets& sockets, const std::map<std::string, std::unique_ptr<TalosNode>>& nodes,
            const std::string& line) {
  std::istringstream words(line);
  std::string verb, name;
  words >> verb >> name;
  const auto found = nodes.find(name);
  if (found == nodes.end()) {
    fmt::print("no such node\n");
    return;
  }
  TalosNode& node = *found->second;
  sockets.run([&] {
    if (verb == "off") node.power_off();
    if (verb == "on") node.power_on();
    fmt::print("{} {} {}\n", node.powered() ? to_string(node.stage()) : "off", node.hostname(),
               to_string(node.version()));
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: serve_nodes VERSION NAME=ADDRESS[,iso]...\n");
    return 2;
  }
  SystemClock clock;
  lab::World world{{.seed = 1, .start = clock.now()}};
  lab::talos::Fleet fleet{world};
  lab::Clusters clusters{fleet};
  std::map<std::string, std::unique_ptr<TalosNode>> nodes;
  for (int i = 2; i < argc; ++i) {
    std::string word = argv[i];
    const bool iso = word.ends_with(",iso");
    if (iso) word.resize(word.size() - 4);
    const std::string name = word.substr(0, word.find('='));
    nodes[name] = std::make_unique<TalosNode>(fleet,
                                              machine_of(name, word.substr(word.find('=') + 1), iso,
                                                         argv[1], static_cast<std::size_t>(i)),
                                              quick());
    nodes[name]->power_on();
  }
  {
    lab::Sockets sockets{world, clock, {}};
    fmt::print("proxy {}\nready\n", sockets.proxy());
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
      answer(sockets, nodes, line);
      std::fflush(stdout);
    }
    sockets.stop();
  }
  world.end_routines();
}
