// The whole path on threads instead of fibers: sixty-four of them, curl, TLS and sockets, with the
// lab on a thread of its own. What `scripts/sanitize thread` looks at; without it these are plain
// tests.

#include "base/error.hpp"
#include "engine/runner.hpp"
#include "lab/data_centre.hpp"
#include "lab/sim/sockets.hpp"
#include "net/curl_transport.hpp"
#include "scenarios/engine_rig.hpp"
#include "state/local_store.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>

namespace rocca::scenarios {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

lab::Home::Options at_present(const Clock& clock) {
  lab::Home::Options options;
  options.hosts = {"pve1", "pve2"};
  options.start = clock.now();
  return options;
}

lab::Sockets::Options in_time_lapse() {
  lab::Sockets::Options options;
  options.speed = 40;
  return options;
}

/// A cluster's folder on the disk, the lab on sockets, and runs on threads.
class Threads : public testing::Test {
 protected:
  Threads() {
    std::string name = (fs::temp_directory_path() / "rocca-threads-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Error(Fault::Bug, "no folder");
    folder_ = name;
  }
  ~Threads() override { fs::remove_all(folder_); }

  void write_spec(const std::string& nodes) {
    files_.write(folder_ + "/cluster.yaml", static_spec(nodes, "[pve1, pve2]"));
  }

  std::unique_ptr<resources::Run> run(resources::RunOptions options = {}) {
    spec::Loaded loaded = spec::load(files_, folder_ + "/cluster.yaml");
    if (loaded.diagnostics.has_errors()) throw Error(Fault::Usage, loaded.diagnostics.render());
    talos::Surroundings around;
    around.bundle = test_bundle();
    proxmox::Access access{
        {home_.endpoint()}, Secret{home_.token}, net::Tls::pinned(home_.first().fingerprint)};
    resources::Cluster cluster = resources::make_cluster(
        std::move(loaded.spec), spec::find_lock(files_, folder_).value_or(spec::Lock{}),
        std::move(around), std::move(access), files_,
        resources::mint_credentials(test_bundle(), clock_.now(), entropy_));
    cluster.factory_trust = net::Tls::unverified();
    store_ = state::local_store(files_, folder_ + "/.rocca");
    runner_ = engine::pool_runner(65, clock_);
    options.who = "tester@lab";
    options.doing = "test";
    return std::make_unique<resources::Run>(
        std::move(cluster), resources::Doors{curl_, files_, clock_, entropy_, *runner_, *store_},
        options, stop_.get_token());
  }

  engine::Report up() {
    return run()->up([this](const engine::Event& event) { heard(event); });
  }
  engine::Report down() {
    return run()->down([this](const engine::Event& event) { heard(event); });
  }

  std::size_t count_vms() {
    std::size_t count = 0;
    sockets_.run([&] { count = home_.dc.vms.size(); });
    return count;
  }

  std::function<void(const engine::Event&)> on_event;
  std::stop_source stop_;
  SystemClock clock_;
  lab::Home home_{at_present(clock_)};
  lab::Sockets sockets_{home_.world, clock_, in_time_lapse()};

 private:
  /// From any thread.
  void heard(const engine::Event& event) {
    const std::lock_guard guard{mutex_};
    if (on_event) on_event(event);
  }

  std::string folder_;
  RealFiles files_;
  SystemEntropy entropy_;
  net::CurlTransport curl_{{.proxy = sockets_.proxy()}};
  std::unique_ptr<state::Store> store_;
  std::unique_ptr<engine::Runner> runner_;
  std::mutex mutex_;
};

TEST_F(Threads, RaiseFiveNodesAndRazeThem) {
  write_spec(three_and_two);
  const engine::Report raised = up();
  EXPECT_TRUE(raised.ok()) << problems(raised);
  EXPECT_EQ(count_vms(), 5u);
  EXPECT_THAT(differences(run()->plan()), IsEmpty());
  const engine::Report razed = down();
  EXPECT_TRUE(razed.ok()) << problems(razed);
  EXPECT_EQ(count_vms(), 0u);
}

TEST_F(Threads, AStopFromAnotherThreadSettlesAndTheNextRunGoesOn) {
  write_spec(pools(1, 1));
  std::jthread presses;
  on_event = [&](const engine::Event& event) {
    // As a signal's thread would: in the middle of the first VM's making.
    if (event.address == "vm/cp-1" && !presses.joinable())
      presses = std::jthread{[this] { stop_.request_stop(); }};
  };
  const engine::Report stopped = up();
  EXPECT_TRUE(stopped.interrupted);
  ASSERT_TRUE(presses.joinable());
  presses.join();
  on_event = nullptr;
  stop_ = std::stop_source{};
  const engine::Report raised = up();
  EXPECT_TRUE(raised.ok()) << problems(raised);
  EXPECT_EQ(count_vms(), 2u);
}

}  // namespace
}  // namespace rocca::scenarios
