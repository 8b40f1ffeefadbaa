// Many clusters in one process: one pool, limits over all of them, ids that never collide. Once in
// virtual time, where the order is always the same, and once on 64 threads over sockets.

#include "lab/sim/sockets.hpp"
#include "net/curl_transport.hpp"
#include "scenarios/engine_rig.hpp"
#include "scenarios/request_log.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>

namespace rocca::scenarios {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

constexpr unsigned clusters = 20;

std::string name_of(unsigned number) {
  return fmt::format("c{:02}", number);
}

/// One control plane and one worker; every second cluster on another storage.
std::string spec_of(unsigned number) {
  return fmt::format(R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: {{ name: {0} }}
spec:
  talos: {{ version: v1.11.5, extensions: [qemu-guest-agent] }}
  kubernetes:
    version: v1.34.1
    endpoint: {{ vip: 10.0.{1}.10 }}
  network:
    addressing: static
    subnet: 10.0.0.0/16
    gateway: 10.0.0.1
    nameservers: [10.0.0.1]
  proxmox:
    endpoints: [https://pve.home:8006]
    insecure: true
    token: {{ secret: proxmox.token }}
    hosts: [pve1]
    storage: {{ images: local, disks: {2} }}
  timeouts: {{ boot: 1h, bootstrap: 1h }}
  pools:
    cp: {{ role: controlplane, count: 1, addresses: 10.0.{1}.11-10.0.{1}.15 }}
    worker: {{ count: 1, addresses: 10.0.{1}.21-10.0.{1}.29 }}
)",
                     name_of(number), 100 + number, number % 2 == 0 ? "local-lvm" : "tank");
}

const secrets::Bundle& bundle_of(unsigned number) {
  static std::map<unsigned, secrets::Bundle> bundles;
  const auto [found, fresh] = bundles.try_emplace(number);
  if (fresh) found->second = make_bundle(1000 + number);
  return found->second;
}

/// What one cluster's runs stand on.
struct Member {
  std::string folder;
  const secrets::Bundle* bundle = nullptr;
  resources::Credentials credentials;
  std::unique_ptr<state::Store> store;
  SeededEntropy entropy;
};

/// What came of one command for all clusters.
struct Outcome {
  std::map<std::string, std::string> problems;  // by cluster
  std::map<std::string, std::string> unhealthy;
  std::set<std::string> done;
};

class Fleet {
 public:
  Fleet(lab::Home& home, Files& files, const Clock& clock, std::string folder)
      : home_(home), files_(files), clock_(clock) {
    SeededEntropy entropy{1};
    for (unsigned number = 0; number < clusters; ++number) {
      const std::string its = folder + "/" + name_of(number);
      files_.make_folder(its);
      files_.write(its + "/cluster.yaml", spec_of(number));
      const secrets::Bundle& bundle = bundle_of(number);
      members_.push_back({its, &bundle, resources::mint_credentials(bundle, clock.now(), entropy),
                          state::local_store(files_, its + "/.rocca"), SeededEntropy{number}});
    }
  }

  resources::Run run(unsigned number, net::Transport& transport, engine::Runner& runner) {
    Member& member = members_[number];
    spec::Loaded loaded = spec::load(files_, member.folder + "/cluster.yaml");
    if (loaded.diagnostics.has_errors()) throw Error(Fault::Usage, loaded.diagnostics.render());
    talos::Surroundings around;
    around.bundle = *member.bundle;
    proxmox::Access access{
        {home_.endpoint()}, Secret{home_.token}, net::Tls::pinned(home_.first().fingerprint)};
    resources::Cluster cluster = resources::make_cluster(
        std::move(loaded.spec), spec::find_lock(files_, member.folder).value_or(spec::Lock{}),
        std::move(around), std::move(access), files_, member.credentials);
    cluster.factory_trust = net::Tls::unverified();
    resources::RunOptions options;
    options.who = "tester@lab";
    options.doing = "test";
    return {std::move(cluster),
            resources::Doors{transport, files_, clock_, member.entropy, runner, *member.store},
            options};
  }

  /// Creates one cluster and looks at it, or destroys it.
  void carry_out(const std::string& command, unsigned number, net::Transport& transport,
                 engine::Runner& runner, Outcome& outcome) {
    std::string problem, health;
    try {
      if (command == "down") {
        problem = problems(run(number, transport, runner).down({}));
      } else {
        problem = problems(run(number, transport, runner).up({}));
        resources::Run after = run(number, transport, runner);
        const resources::ClusterStatus status = after.status();
        if (!status.healthy) health = status.etcd;
        for (const std::string& line : differences(after.plan())) health += "\n" + line;
      }
    } catch (const Error& error) {
      problem = error.render();
    }
    const std::lock_guard lock{mutex_};
    if (!problem.empty()) outcome.problems[name_of(number)] = problem;
    if (!health.empty()) outcome.unhealthy[name_of(number)] = health;
    outcome.done.insert(name_of(number));
  }

 private:
  lab::Home& home_;
  Files& files_;
  const Clock& clock_;
  std::vector<Member> members_;
  std::mutex mutex_;
};

void expect_limits_held(const RequestLog& log) {
  for (const auto& [host, peak] : log.peak_requests())
    fmt::print("most requests at once on {}: {} (of {} in all)\n", host, peak,
               log.entries().size());
  for (const auto& [storage, peak] : log.peak_imports())
    fmt::print("most imports at once on {}: {}\n", storage, peak);
  EXPECT_THAT(log.peak_requests(), Each(Pair(testing::_, testing::Le(3))));
  EXPECT_THAT(log.peak_imports(), Each(Pair(testing::_, testing::Le(2))));
  EXPECT_THAT(log.refused_ids(), IsEmpty());
}

/// Clusters as they were asked for, and no VM that belongs to none of them.
void expect_created(const lab::Home& home, const Outcome& outcome) {
  EXPECT_THAT(outcome.problems, IsEmpty());
  EXPECT_THAT(outcome.unhealthy, IsEmpty());
  EXPECT_THAT(outcome.done, SizeIs(clusters));
  EXPECT_THAT(home.dc.vms, SizeIs(2 * clusters));
  EXPECT_THAT(home.estate.bootstraps(), SizeIs(clusters));
}

class ManyRuns : public testing::Test {
 protected:
  Outcome all(const std::string& command) {
    engine::InlineOptions options = test::on(home.world);
    options.stack = 1024 * 1024;  // a whole run is a call here
    const auto root = engine::inline_runner(home.world.clock(), std::move(options));
    parker.use(root.get());
    Outcome outcome;
    for (unsigned number = 0; number < clusters; ++number)
      root->start(name_of(number), [&, number] {
        const auto runner = root->open();
        fleet.carry_out(command, number, wire, *runner, outcome);
      });
    std::size_t ended = 0;
    while (ended < clusters) ended += root->wait_until({}).size();
    parker.use(nullptr);
    return outcome;
  }

  lab::Home home{{}};
  RequestLog log{home};
  test::FiberParker parker;
  lab::Wire wire{home.world, parker};
  MemoryFiles files;
  Fleet fleet{home, files, home.world.clock(), "/clusters"};
};

TEST_F(ManyRuns, TwentyClustersAreCreatedAndDestroyedAtOnceWithinTheLimits) {
  const Outcome created = all("up");
  expect_created(home, created);
  expect_limits_held(log);
  // The limits were reached: otherwise nothing was shown.
  EXPECT_EQ(log.peak_requests().at("pve1"), 3);
  EXPECT_EQ(log.peak_imports().at("local-lvm@pve1"), 2);
  EXPECT_EQ(log.peak_imports().at("tank@pve1"), 2);
  log.clear();
  const Outcome destroyed = all("down");
  EXPECT_THAT(destroyed.problems, IsEmpty());
  EXPECT_THAT(home.dc.vms, IsEmpty());
  expect_limits_held(log);
}

/// Reservations know nothing of other users: an id may still be taken before it is asked for.
TEST_F(ManyRuns, AnIdThatAnotherUserTakesFailsOneClusterAndTheirVmIsLeftAlone) {
  constexpr unsigned id = 100 + 2 * clusters - 1;  // the highest that is chosen
  bool taken = false;
  home.dc.request_fault =
      [&](const lab::pve::Node& node,
          const net::Incoming& request) -> std::optional<lab::pve::RequestFault> {
    if (!taken && request.method == "POST" && request.target.ends_with("/qemu")) {
      taken = true;
      lab::pve::Vm vm;
      vm.id = id;
      vm.node = node.name;
      vm.config["name"] = "of-another-user";
      home.dc.vms.emplace(id, std::move(vm));
    }
    return std::nullopt;
  };
  const Outcome outcome = all("up");
  ASSERT_TRUE(taken);
  EXPECT_THAT(outcome.problems, SizeIs(1));
  EXPECT_THAT(outcome.unhealthy, testing::SizeIs(testing::Le(1u)));
  EXPECT_THAT(home.dc.vms, SizeIs(2 * clusters)) << "one of them is the other user's";
  EXPECT_EQ(home.dc.vms.at(id).config.at("name"), "of-another-user");
}

lab::Home::Options at_present(const Clock& clock) {
  lab::Home::Options options;
  options.start = clock.now();
  return options;
}

lab::Sockets::Options in_time_lapse() {
  lab::Sockets::Options options;
  options.speed = 20;
  return options;
}

TEST(ManyRunsOnThreads, TwentyClustersAreCreatedAndDestroyedAtOnceWithinTheLimits) {
  std::string folder = (fs::temp_directory_path() / "rocca-many-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  SystemClock clock;
  lab::Home home{at_present(clock)};
  RequestLog log{home};
  lab::Sockets sockets{home.world, clock, in_time_lapse()};
  net::CurlTransport curl{{.proxy = sockets.proxy()}};
  RealFiles files;
  Fleet fleet{home, files, clock, folder};
  const auto pool = engine::thread_pool(64, clock);

  const auto all = [&](const std::string& command) {
    Outcome outcome;
    std::vector<std::jthread> runs;
    for (unsigned number = 0; number < clusters; ++number)
      runs.emplace_back([&, number] {
        const auto runner = pool->open();
        fleet.carry_out(command, number, curl, *runner, outcome);
      });
    runs.clear();
    return outcome;
  };
  const Outcome created = all("up");
  sockets.run([&] {
    expect_created(home, created);
    expect_limits_held(log);
    EXPECT_EQ(log.peak_requests().at("pve1"), 3);
    EXPECT_EQ(log.peak_imports().at("local-lvm@pve1"), 2);
    log.clear();
  });
  const Outcome destroyed = all("down");
  EXPECT_THAT(destroyed.problems, IsEmpty());
  sockets.run([&] {
    EXPECT_THAT(home.dc.vms, IsEmpty());
    expect_limits_held(log);
  });
  fs::remove_all(folder);
}

}  // namespace
}  // namespace rocca::scenarios
