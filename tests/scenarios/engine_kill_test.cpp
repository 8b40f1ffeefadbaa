// A run that raises or razes the five-node cluster is killed before and after its requests and
// writes; the next one ends where an undisturbed one would have. By default a sample;
// ROCCA_SWEEP_EVERY=1 tries every edge.

#include "scenarios/engine_rig.hpp"
#include "support/kill_sweep.hpp"

#include <cstdlib>

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using test::KillSweep;
using testing::HasSubstr;
using testing::IsEmpty;

std::size_t every(std::size_t otherwise) {
  const char* asked = std::getenv("ROCCA_SWEEP_EVERY");
  const auto number = asked == nullptr ? std::nullopt : parse_uint(asked);
  return number && *number > 0 ? static_cast<std::size_t>(*number) : otherwise;
}

/// Everything that must be the same however one got there.
std::string end_state(ClusterRig& rig) {
  rig.home.world.run_for(2min);  // tasks that nobody waits for any more end as well
  std::string text;
  for (const std::string& vm : identities(rig)) text += vm + "\n";
  for (const lab::Truth& truth : rig.home.estate.truths())
    text += fmt::format("{} {} {}{}{}\n", truth.vmid, truth.hostname,
                        lab::talos::to_string(truth.stage), truth.configured ? " configured" : "",
                        truth.etcd_member ? " member" : "");
  text += fmt::format("{} bootstraps\n", rig.home.estate.bootstraps().size());
  for (const auto& [id, storage] : rig.home.dc.storages)
    for (const auto& [name, node] : rig.home.dc.nodes())
      for (const auto& [volume, what] : rig.home.dc.storages.at(id).on(name))
        text += fmt::format("{}:{} on {}\n", id, volume, name);
  const auto state =
      state::local_store(rig.files, "/clusters/blue/.rocca")->load().value_or(state::State{});
  for (const auto& [address, item] : state.items)
    text += fmt::format("remembered {} {}\n", address, item.receipt);
  text += state.bootstrapped ? "bootstrapped\n" : "";
  if (const auto lock = rig.files.find("/clusters/blue/rocca.lock")) text += *lock;
  return text;
}

void must(const engine::Report& report) {
  if (!report.ok()) throw Error(Fault::Bug, problems(report));
}

KillSweep::Result sweep(ClusterRig& rig, KillSweep::Mode mode, std::size_t step,
                        const std::function<void()>& verb) {
  KillSweep::Options options;
  options.mode = mode;
  options.every = step;
  options.run = options.recover = verb;
  options.died = [&] { rig.die(); };
  options.end_state = [&] { return end_state(rig); };
  KillSweep sweep{options};
  test::EdgeTransport wire{rig.wire, sweep};
  test::EdgeFiles files{rig.files, sweep};
  rig.transport = &wire;
  rig.door_files = &files;
  rig.store.reset();
  const KillSweep::Result result = sweep.sweep();
  rig.transport = nullptr;
  rig.door_files = nullptr;
  rig.store.reset();
  fmt::print("{}\n", result.summary());
  return result;
}

TEST(EngineKill, UpConvergesWhereverItIsKilled) {
  ClusterRig rig;
  rig.write_spec(static_spec(three_and_two));
  const auto result = sweep(rig, KillSweep::Mode::Kill, every(67), [&] { must(rig.up()); });
  EXPECT_THAT(result.failures, IsEmpty());
  EXPECT_GT(result.edges, 300u);
  EXPECT_THAT(result.expected, HasSubstr("\n1 bootstraps\n"));
}

TEST(EngineKill, UpConvergesWhicheverAnswerIsLost) {
  ClusterRig rig;
  rig.write_spec(static_spec(three_and_two));
  const auto result = sweep(rig, KillSweep::Mode::LoseAnswer, every(67), [&] { must(rig.up()); });
  EXPECT_THAT(result.failures, IsEmpty());
}

TEST(EngineKill, DownConvergesWhereverItIsKilled) {
  ClusterRig rig;
  rig.write_spec(static_spec(three_and_two));
  must(rig.up());
  const auto result = sweep(rig, KillSweep::Mode::Kill, every(31), [&] { must(rig.down()); });
  EXPECT_THAT(result.failures, IsEmpty());
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

}  // namespace
}  // namespace rocca::scenarios
