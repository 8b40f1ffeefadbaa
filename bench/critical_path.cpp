// How long `up` takes in virtual time, against the least that the simulated data centre allows.
//   critical-path [--at-most RATIO] [NODES…]      by default 5 50 500
//
// The least time is computed, not measured on the run it is held against. Small clusters, each VM
// alone on its host, show how long the lab itself takes for every part, from the arrival of a
// request to what follows from it inside; the shortest of several seeds counts. A chain of these
// parts, with the network's own latency between them and nothing else, is the critical path; when
// etcd takes in a control plane is computed from when each of them can ask at the earliest and from
// the lab's own pauses between two questions. Where a host makes many VMs, its lane for imports may
// be the longer way: they go two at a time.

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
  shorten(parts.shared, record.between(bootstrap, "shared"));
  return true;
}

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

struct Bound {
  Duration path{}, lane{};
  Duration lucky{};  // the path, if no control plane ever asked etcd in vain
  Duration longest() const { return std::max(path, lane); }
};

/// When the last member of etcd is healthy, seen from the moment when the first control plane gets
/// its configuration. Each asks to be taken in as soon as it has etcd's image; while there is no
/// etcd yet, or another learns, it is refused and asks again after a pause of Talos's own.
Duration members_of(const lab::World& world, const lab::talos::NodeTiming& node, Duration bootstrap,
                    const std::vector<Duration>& configured, bool in_vain) {
  const Duration jitter = in_vain ? node.etcd_jitter : Duration{};
  const Duration cri = node.transition + node.service;
  // A call that comes while the image is pulled begins that anew.
  const bool pulled = bootstrap >= cri + node.etcd_pull;
  Duration free = bootstrap + (pulled ? Duration{} : node.etcd_pull) + node.etcd_start;
  Duration healthy = free + node.etcd_healthy;
  struct Asker {
    Duration next;
    std::string name;
    lab::talos::Pauses pauses;
  };
  std::vector<Asker> askers;
  for (std::size_t i = 1; i < configured.size(); ++i) {
    const std::string name = fmt::format("cp-{}", i + 1);
    askers.push_back({configured[i] + cri + node.etcd_pull, name,
                      lab::talos::Pauses::of_asking(world, name, jitter)});
  }
  while (!askers.empty()) {
    const auto first =
        std::min_element(askers.begin(), askers.end(),
                         [](const Asker& a, const Asker& b) { return a.next < b.next; });
    if (first->next < free) {
      first->next = in_vain ? first->next + first->pauses.next(node.etcd_ask) : free;
      continue;
    }
    const Duration running = first->next + node.etcd_start;
    auto pauses = lab::talos::Pauses::of_promoting(world, first->name, jitter);
    for (free = first->next; free < running + node.etcd_join;)
      free += pauses.next(node.etcd_promote);
    Duration look = running + node.etcd_healthy;
    while (look < free) look += node.etcd_look;
    healthy = std::max(healthy, look);
    askers.erase(first);
  }
  return healthy;
}

Bound bound_of(const Parts& parts, const lab::World& world, unsigned planes, unsigned hosts,
               unsigned per_host) {
  const lab::Home::Options home;
  // A connection, a request and the first byte of its answer: four times through the network.
  const Duration hop = lab::Latency{}.base * 4 + home.timing.light;
  const lab::talos::NodeTiming& node = home.node_timing;
  // What a host can do, whatever rocca makes of it: more at once share its speed.
  const unsigned width = home.timing.full_speed;
  // The schematic, the image's size, then a request for each act and one to learn that it is over.
  const Duration image = hop * 4 + parts.download;
  const Duration made = hop * 2 + parts.create;
  const Duration on = hop * 4 + parts.resize + parts.start + parts.boot + node.maintenance;
  const Duration worker = hop * 2 + parts.worker;
  const Duration bootstrap = node.transition + node.service + hop * 2;
  // Those of one host are made in rounds.
  std::vector<Duration> configured;
  for (unsigned i = 0; i < planes; ++i) configured.push_back(parts.create * (i / hosts / width));
  const auto plane = [&](bool in_vain) {
    return hop * 2 + std::max(bootstrap + parts.shared,
                              members_of(world, node, bootstrap, configured, in_vain));
  };
  Bound bound;
  bound.path = image + made + on + std::max(worker, plane(true));
  bound.lucky = image + made + on + std::max(worker, plane(false));
  // Control planes go first; the last of a host's VMs is a worker. Imports of one length go in
  // rounds.
  const Duration imports = parts.create * ((per_host + width - 1) / width);
  bound.lane = image + std::max(imports, made) + on + (per_host > planes ? worker : plane(true));
  return bound;
}

/// Where a run had to wait for nothing: between the end of one thing in the lab and the beginning
/// of the next that only waited for it.
class Gaps {
 public:
  void add(const std::string& what, Duration gap) {
    Sum& sum = sums_[what];
    sum.all += gap;
    sum.most = std::max(sum.most, gap);
    ++sum.count;
  }
  void print() const {
    for (const auto& [what, sum] : sums_)
      fmt::print("       {:<44} {:>4} times, mean {:.3f} s, most {:.3f} s\n", what, sum.count,
                 seconds(sum.all) / sum.count, seconds(sum.most));
  }

 private:
  struct Sum {
    Duration all{}, most{};
    unsigned count = 0;
  };
  std::map<std::string, Sum> sums_;
};

Gaps gaps_of(scenarios::ClusterRig& rig, const Parts& parts, Instant begun, Instant ended) {
  struct Vm {
    std::map<std::string, std::pair<Instant, Instant>> tasks;
    Instant configured{};
  };
  std::map<std::string, Vm> vms;                          // by id
  std::map<std::string, std::vector<std::string>> hosts;  // creates in their order
  std::map<std::string, Instant> talos;
  for (const std::string& line : rig.home.world.trace().lines()) {
    const std::vector<std::string> words = split(line, ' ');
    const Instant when{Duration{std::stoll(words[0])}};
    if (when < begun || words.size() < 4) continue;
    if (words.size() > 5 && words[2] == "starts" && words[3] == "task") {
      vms[words[5]].tasks[words[4]].first = when;
      if (words[4] == "qmcreate") hosts[words[1]].push_back(words[5]);
    } else if (words.size() > 5 && words[2] == "ends" && words[3] == "task") {
      std::string id = words[5];
      if (id.ends_with(':')) id.pop_back();
      vms[id].tasks[words[4]].second = when;
    } else if (words[1].starts_with("talos/") && words[3].ends_with("/ApplyConfiguration")) {
      // In maintenance mode it has the name of its VM.
      const std::string name = words[1].substr(6);
      talos.try_emplace("configured " + (name.starts_with("blue-") ? name.substr(5) : name), when);
    } else if (words[1].starts_with("talos/") && words[3].ends_with("/Bootstrap")) {
      talos.try_emplace("bootstrap", when);
    }
  }
  Gaps gaps;
  Instant first_create = ended, last_configured = begun;
  for (const auto& [host, ids] : hosts) {
    std::vector<Instant> free(proxmox::Lanes::imports_per_storage,
                              vms[ids.front()].tasks["qmcreate"].first);
    first_create = std::min(first_create, free.front());
    for (const std::string& id : ids) {
      const auto& [from, to] = vms[id].tasks["qmcreate"];
      auto& lane = *std::min_element(free.begin(), free.end());
      gaps.add("2 an import lane is empty", from - lane);
      gaps.add("3 a create takes longer than one alone", (to - from) - parts.create);
      lane = to;
    }
  }
  gaps.add("1 before the first create, the download aside", first_create - begun - parts.download);
  for (const auto& [number, machine] : rig.home.dc.vms) {
    Vm& vm = vms[std::to_string(number)];
    const std::string* name = machine.find("name");
    const std::string node = name == nullptr ? "" : name->substr(name->find('-') + 1);
    const auto configured = talos.find("configured " + node);
    gaps.add("4 from a create to its resize",
             vm.tasks["resize"].first - vm.tasks["qmcreate"].second);
    gaps.add("5 from a resize to its start", vm.tasks["qmstart"].first - vm.tasks["resize"].second);
    if (configured == talos.end()) continue;
    vm.configured = configured->second;
    last_configured = std::max(last_configured, vm.configured);
    gaps.add("6 from a booted node to its configuration",
             vm.configured - vm.tasks["qmstart"].second - parts.boot -
                 lab::Home::Options{}.node_timing.maintenance);
    if (node == "cp-1")
      gaps.add("7 from cp-1's configuration to Bootstrap", talos["bootstrap"] - vm.configured);
  }
  gaps.add("8 from Bootstrap to the end", ended - talos["bootstrap"]);
  gaps.add("9 from the last configuration to the end", ended - last_configured);
  return gaps;
}

std::optional<double> measure(const Parts& parts, unsigned nodes) {
  constexpr unsigned planes = 3;
  lab::Home::Options options;
  options.hosts = lab::parse_hosts(std::to_string(std::clamp(nodes / 25, 1u, 20u)));
  scenarios::ClusterRig rig{options};
  rig.write_spec(spec_of(planes, nodes - planes, options.hosts));
  rig.home.world.trace().keep_lines(true);
  const Instant begun = rig.home.world.now();
  const engine::Report report = rig.up();
  const Instant ended = rig.home.world.now();
  const Duration took = ended - begun;
  if (!report.ok()) {
    fmt::print("up failed: {}\n", scenarios::problems(report).substr(0, 500));
    return std::nullopt;
  }
  const auto hosts = static_cast<unsigned>(options.hosts.size());
  const Bound bound = bound_of(parts, rig.home.world, planes, hosts, (nodes + hosts - 1) / hosts);
  const Gaps gaps = gaps_of(rig, parts, begun, ended);
  const double ratio = seconds(took) / seconds(bound.longest());
  fmt::print(
      "{:>4} nodes on {:>2} hosts: up {:.1f} s; critical path {:.1f} s, busiest lane {:.1f} s: "
      "ratio {:.3f}\n",
      nodes, hosts, seconds(took), seconds(bound.path), seconds(bound.lane), ratio);
  fmt::print("       {:.1f} s if no control plane asked etcd in vain: ratio {:.3f}\n",
             seconds(std::max(bound.lucky, bound.lane)),
             seconds(took) / seconds(std::max(bound.lucky, bound.lane)));
  gaps.print();
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
      "boot {:.2f}, worker {:.2f}, shared address {:.2f}\n",
      seconds(parts.download), seconds(parts.create), seconds(parts.resize), seconds(parts.start),
      seconds(parts.boot), seconds(parts.worker), seconds(parts.shared));
  bool well = true;
  for (const unsigned nodes : sizes) {
    const auto ratio = measure(parts, nodes);
    well = well && ratio && (at_most <= 0 || *ratio <= at_most);
  }
  return well ? 0 : 1;
}
