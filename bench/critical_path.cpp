// How long `up` takes in virtual time, against the least that the simulated data centre allows.
//   critical-path [--at-most RATIO] [NODES…]      by default 5 50 500
//
// The least time is computed, not measured on the run it is held against. Small clusters, each VM
// alone on its host, show how long the lab itself takes for every part, from the arrival of a
// request to what follows from it inside; the shortest of several seeds counts. A chain of these
// parts, with the network's own latency between them and nothing else, is the critical path.
// Where a host makes many VMs, its lane for imports may be the longer way: they go two at a time.

#include "scenarios/engine_rig.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace rocca;
using namespace std::chrono_literals;

const char* const shared_address = "10.0.1.10";

std::string spec_of(unsigned planes, unsigned workers, const std::vector<std::string>& hosts) {
  return scenarios::static_spec(
      fmt::format("  machine: {{ memory: 4GiB, cores: 2 }}\n  pools:\n"
                  "    cp: {{ role: controlplane, count: {}, addresses: 10.0.1.11-10.0.1.15 }}\n"
                  "    worker: {{ count: {}, addresses: 10.0.4.1-10.0.7.250 }}\n",
                  planes, workers),
      "[" + join(hosts, ", ") + "]");
}

/// When something happened first, by what happened.
using Marks = std::map<std::string, Instant>;

/// The lab's own record of one `up`: what arrived and what it led to.
class Record {
 public:
  explicit Record(scenarios::ClusterRig& rig) : rig_(rig) {
    rig.home.world.trace().keep_lines(true);
    engine::InlineOptions options = test::on(rig.home.world);
    options.advance = [this, advance = options.advance](std::optional<Tick> until) {
      const bool more = advance(until);
      look();
      return more;
    };
    rig.runner = engine::inline_runner(rig.home.world.clock(), std::move(options));
    rig.parker.use(rig.runner.get());
  }

  /// Between the first mark and the last one that begin so.
  std::optional<Duration> between(const std::string& from, const std::string& to) const {
    const auto begin = first(from);
    const auto end = last(to);
    if (!begin || !end || *end < *begin) return std::nullopt;
    return *end - *begin;
  }

  /// Reads what the lab wrote down. After the run.
  void read_trace() {
    for (const std::string& line : rig_.home.world.trace().lines()) {
      const auto space = line.find(' ');
      const Instant when{Duration{std::stoll(line.substr(0, space))}};
      mark(line.substr(space + 1), when);
    }
  }

 private:
  void mark(const std::string& what, Instant when) { marks_.try_emplace(what, when); }

  std::optional<Instant> first(const std::string& begins) const {
    std::optional<Instant> found;
    for (auto it = marks_.lower_bound(begins); it != marks_.end() && it->first.starts_with(begins);
         ++it)
      found = std::min(found.value_or(it->second), it->second);
    return found;
  }
  std::optional<Instant> last(const std::string& begins) const {
    std::optional<Instant> found;
    for (auto it = marks_.lower_bound(begins); it != marks_.end() && it->first.starts_with(begins);
         ++it)
      found = std::max(found.value_or(it->second), it->second);
    return found;
  }

  void look() {
    const Instant now = rig_.home.world.now();
    bool api = false;
    for (const auto& [vmid, vm] : rig_.home.dc.vms) {
      const lab::Truth truth = rig_.home.estate.truth(vmid);
      const std::string stage = lab::talos::to_string(truth.stage);
      mark(fmt::format("VM {} is {}", vmid, stage), now);
      if (truth.configured) mark(fmt::format("VM {} has its configuration", vmid), now);
      if (truth.etcd_member) mark(fmt::format("member {}", vmid), now);
      api = api || truth.apiserver_runs;
    }
    if (api && rig_.home.estate.owner_of(shared_address)) mark("shared", now);
  }

  scenarios::ClusterRig& rig_;
  Marks marks_;
};

/// What the lab takes for its parts, at the least.
struct Parts {
  Duration download{}, create{}, resize{}, start{};  // a task, from its request's arrival
  Duration boot{};                                   // from power to a node that can be configured
  Duration worker{};                                 // from its configuration to a node that runs
  Duration members{};                                // from Bootstrap to the last voting member
  Duration shared{};  // from Bootstrap to an API server at the shared address
};

void shorten(Duration& part, std::optional<Duration> seen) {
  if (seen && seen->count() > 0 && (part == Duration{} || *seen < part)) part = *seen;
}

bool look_at_parts(std::uint64_t seed, Parts& parts) {
  lab::Home::Options options;
  options.seed = seed;
  options.hosts = lab::parse_hosts("4");
  scenarios::ClusterRig rig{options};
  Record record{rig};
  rig.write_spec(spec_of(3, 1, options.hosts));
  const engine::Report report = rig.up();
  if (!report.ok()) {
    fmt::print("up failed: {}\n", scenarios::problems(report).substr(0, 500));
    return false;
  }
  record.read_trace();
  // Each of the four is alone on its host; the worker's ids are the last.
  for (int i = 1; i <= 4; ++i) {
    const std::string host = fmt::format("pve{}", i);
    const auto task = [&](const char* type, const char* id) {
      return record.between(fmt::format("{} starts task {} {}", host, type, id),
                            fmt::format("{} ends task {} {}", host, type, id));
    };
    const std::string vmid = std::to_string(99 + i);
    shorten(parts.download, task("download", ""));
    shorten(parts.create, task("qmcreate", ""));
    shorten(parts.resize, task("resize", ""));
    shorten(parts.start, task("qmstart", ""));
    shorten(parts.boot, record.between(fmt::format("VM {} runs", vmid),
                                       fmt::format("VM {} is maintenance", vmid)));
  }
  const std::string bootstrap = "talos/cp-1 POST /machine.MachineService/Bootstrap";
  shorten(parts.worker, record.between("VM 103 has its configuration", "VM 103 is running"));
  shorten(parts.members, record.between(bootstrap, "member"));
  shorten(parts.shared, record.between(bootstrap, "shared"));
  return true;
}

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

struct Bound {
  Duration path{}, lane{};
  Duration longest() const { return std::max(path, lane); }
};

Bound bound_of(const Parts& parts, unsigned planes, unsigned per_host) {
  const lab::Home::Options home;
  // A connection, a request and the first byte of its answer: four times through the network.
  const Duration hop = lab::Latency{}.base * 4 + home.timing.light;
  const lab::talos::NodeTiming& node = home.node_timing;
  // The schematic, the image's size, then a request for each act and one to learn that it is over.
  const Duration image = hop * 4 + parts.download;
  const Duration made = hop * 2 + parts.create;
  const Duration on = hop * 4 + parts.resize + parts.start + parts.boot + node.maintenance;
  const Duration worker = hop * 2 + parts.worker;
  const Duration plane = hop * 4 + node.transition + node.service +
                         std::max(parts.shared, parts.members + node.etcd_healthy);
  Bound bound;
  bound.path = image + made + on + std::max(worker, plane);
  // Control planes go first; the last of a host's VMs is a worker.
  constexpr unsigned width = proxmox::Lanes::imports_per_storage;
  const Duration imports = parts.create * per_host / width;
  bound.lane = image + std::max(imports, made) + on + (per_host > planes ? worker : plane);
  return bound;
}

std::optional<double> measure(const Parts& parts, unsigned nodes) {
  constexpr unsigned planes = 3;
  lab::Home::Options options;
  options.hosts = lab::parse_hosts(std::to_string(std::clamp(nodes / 25, 1u, 20u)));
  scenarios::ClusterRig rig{options};
  rig.write_spec(spec_of(planes, nodes - planes, options.hosts));
  const Instant begun = rig.home.world.now();
  const engine::Report report = rig.up();
  const Duration took = rig.home.world.now() - begun;
  if (!report.ok()) {
    fmt::print("up failed: {}\n", scenarios::problems(report).substr(0, 500));
    return std::nullopt;
  }
  const auto hosts = static_cast<unsigned>(options.hosts.size());
  const Bound bound = bound_of(parts, planes, (nodes + hosts - 1) / hosts);
  const double ratio = seconds(took) / seconds(bound.longest());
  fmt::print(
      "{:>4} nodes on {:>2} hosts: up {:.1f} s; critical path {:.1f} s, busiest lane {:.1f} s: "
      "ratio {:.3f}\n",
      nodes, hosts, seconds(took), seconds(bound.path), seconds(bound.lane), ratio);
  std::fflush(stdout);
  return ratio;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<unsigned> sizes;
  double at_most = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--at-most" && i + 1 < argc)
      at_most = std::strtod(argv[++i], nullptr);
    else if (const auto number = rocca::parse_uint(word); number && *number >= 4)
      sizes.push_back(static_cast<unsigned>(*number));
  }
  if (sizes.empty()) sizes = {5, 50, 500};
  Parts parts;
  for (std::uint64_t seed = 1; seed <= 4; ++seed)
    if (!look_at_parts(seed, parts)) return 1;
  fmt::print(
      "the lab's parts, in seconds: download {:.2f}, create {:.2f}, resize {:.2f}, start {:.2f}, "
      "boot {:.2f}, worker {:.2f}, etcd members {:.2f}, shared address {:.2f}\n",
      seconds(parts.download), seconds(parts.create), seconds(parts.resize), seconds(parts.start),
      seconds(parts.boot), seconds(parts.worker), seconds(parts.members), seconds(parts.shared));
  bool well = true;
  for (const unsigned nodes : sizes) {
    const auto ratio = measure(parts, nodes);
    well = well && ratio && (at_most <= 0 || *ratio <= at_most);
  }
  return well ? 0 : 1;
}
