// What a cluster costs its hosts in requests: a plan that finds nothing to do, making one VM, and
// `down`, of guests that shut down when asked and of guests that ignore it. Counts only, so one run
// says it all.
//   requests [--trace] [--limits] [NODES…]      by default 5 50 500
// --trace lists what one more VM and a `down` cost. --limits fails where something costs more than
// it may: a plan that finds nothing to do one request for each VM, one for each host (its storages)
// and two lists of the whole cluster; making and starting one VM eight; a whole `up` eight for each
// VM and five for each host; `down` eight for each VM that shuts down, fourteen for each that does
// not, waits included.

#include "scenarios/engine_rig.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace rocca;

/// Everything that is asked, by whom it is asked of.
class Split final : public net::Transport {
 public:
  explicit Split(net::Transport& inner) : inner_(inner) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (request.url.find(":8006/") != std::string::npos && trace != nullptr)
      trace->push_back(fmt::format("{} {}", request.method,
                                   request.url.substr(request.url.find("/api2/json") + 10)));
    ++(request.url.find(":8006/") != std::string::npos    ? counts_.proxmox
       : request.url.find(":50000/") != std::string::npos ? counts_.talos
                                                          : counts_.others);
    return inner_.exchange(request, sink, std::move(stop));
  }
  struct Counts {
    std::size_t proxmox = 0, talos = 0, others = 0;
  };
  /// Since the last time.
  Counts take() { return std::exchange(counts_, {}); }
  std::vector<std::string>* trace = nullptr;  // of what Proxmox is asked

 private:
  net::Transport& inner_;
  Counts counts_;
};

std::string spec_of(unsigned workers, const std::vector<std::string>& hosts) {
  return scenarios::static_spec(
      fmt::format("  machine: {{ memory: 4GiB, cores: 2 }}\n  pools:\n"
                  "    cp: {{ role: controlplane, count: 3, addresses: 10.0.1.11-10.0.1.15 }}\n"
                  "    worker: {{ count: {}, addresses: 10.0.4.1-10.0.7.250 }}\n",
                  workers),
      "[" + join(hosts, ", ") + "]");
}

bool within(const char* what, std::size_t asked, std::size_t limit) {
  if (asked <= limit) return true;
  fmt::print("too many: {} took {} requests to Proxmox, and may take {}\n", what, asked, limit);
  return false;
}

/// All of it, the wait for the guests and the last look included.
bool measure_down(scenarios::ClusterRig& rig, Split& split, unsigned vms, bool deaf, bool trace,
                  bool limits) {
  if (deaf) scenarios::deafen(rig);
  split.take();
  std::vector<std::string> asked;
  if (trace) split.trace = &asked;
  const engine::Report down = rig.down();
  split.trace = nullptr;
  for (const std::string& line : asked) fmt::print("       {}\n", line);
  const std::size_t requests = split.take().proxmox;
  fmt::print("{:>4} nodes{}: down {} requests to Proxmox ({:.1f} per VM)\n", vms,
             deaf ? " that ignore a shutdown" : "", requests,
             static_cast<double>(requests) / static_cast<double>(vms));
  if (!down.ok()) fmt::print("down failed: {}\n", scenarios::problems(down).substr(0, 500));
  return down.ok() && rig.home.dc.vms.empty() &&
         (!limits || within("down", requests, deaf ? 14u * vms : 8u * vms));
}

bool measure_down_of_deaf(unsigned nodes, bool trace, bool limits) {
  lab::Home::Options options;
  options.hosts = lab::parse_hosts(std::to_string(std::clamp(nodes / 25, 1u, 20u)));
  scenarios::ClusterRig rig{options};
  Split split{rig.wire};
  rig.transport = &split;
  rig.write_spec(spec_of(nodes - 3, options.hosts));
  return rig.up().ok() && measure_down(rig, split, nodes, /*deaf=*/true, trace, limits);
}

bool measure(unsigned nodes, bool trace, bool limits) {
  lab::Home::Options options;
  options.hosts = lab::parse_hosts(std::to_string(std::clamp(nodes / 25, 1u, 20u)));
  scenarios::ClusterRig rig{options};
  Split split{rig.wire};
  rig.transport = &split;
  rig.write_spec(spec_of(nodes - 3, options.hosts));
  const engine::Report up = rig.up();
  if (!up.ok()) {
    fmt::print("up failed: {}\n", scenarios::problems(up).substr(0, 500));
    return false;
  }
  const Split::Counts whole = split.take();
  const auto left = scenarios::differences(rig.plan());
  const Split::Counts plan = split.take();
  rig.write_spec(spec_of(nodes - 2, options.hosts));
  std::vector<std::string> asked;
  if (trace) split.trace = &asked;
  const bool more = rig.up().ok();
  split.trace = nullptr;
  for (const std::string& line : asked) fmt::print("       {}\n", line);
  const Split::Counts one = split.take();
  const bool again = rig.up().ok();
  const Split::Counts nothing = split.take();
  fmt::print(
      "{:>4} nodes on {:>2} hosts: no-change plan {} requests to Proxmox ({:.2f} per VM) and {} to "
      "Talos, {} differences; up {:.1f} per VM; one VM more: {} beyond an up that does nothing\n",
      nodes, options.hosts.size(), plan.proxmox,
      static_cast<double>(plan.proxmox) / static_cast<double>(nodes), plan.talos, left.size(),
      static_cast<double>(whole.proxmox) / static_cast<double>(nodes),
      static_cast<long>(one.proxmox) - static_cast<long>(nothing.proxmox));
  bool well = more && again && left.empty();
  if (limits) {
    const std::size_t hosts = options.hosts.size();
    well = within("a plan without changes", plan.proxmox, nodes + hosts + 2) && well;
    // Before VMs are created: what the token may do, and the bridges and storages of their hosts.
    well = within("one VM more", one.proxmox, nothing.proxmox + 8 + 3) && well;
    well = within("up", whole.proxmox, 8 * nodes + 5 * hosts + 1 + 2 * hosts) && well;
  }
  well = measure_down(rig, split, nodes + 1, /*deaf=*/false, trace, limits) && well;
  return measure_down_of_deaf(nodes, trace, limits) && well;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<unsigned> sizes;
  bool trace = false, limits = false;
  for (int i = 1; i < argc; ++i) {
    trace = trace || std::string(argv[i]) == "--trace";
    limits = limits || std::string(argv[i]) == "--limits";
    if (const auto number = rocca::parse_uint(argv[i]); number && *number >= 4)
      sizes.push_back(static_cast<unsigned>(*number));
  }
  if (sizes.empty()) sizes = {5, 50, 500};
  bool well = true;
  for (const unsigned nodes : sizes) well = measure(nodes, trace, limits) && well;
  return well ? 0 : 1;
}
