// A run that raises or razes the five-node cluster is killed before and after its requests and
// writes; the next one ends where an undisturbed one would have. Every edge is tried, or every n-th
// with ROCCA_SWEEP_EVERY=n.

#include "scenarios/engine_machines.hpp"
#include "support/kill_sweep.hpp"

#include <cstdlib>

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using test::KillSweep;
using testing::HasSubstr;
using testing::IsEmpty;

std::size_t every() {
  const char* asked = std::getenv("ROCCA_SWEEP_EVERY");
  const auto number = asked == nullptr ? std::nullopt : parse_uint(asked);
  return number && *number > 0 ? static_cast<std::size_t>(*number) : 1;
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

KillSweep::Result sweep(ClusterRig& rig, KillSweep::Options options) {
  if (!options.recover) options.recover = options.run;
  options.died = [&] { rig.die(); };
  if (!options.end_state) options.end_state = [&] { return end_state(rig); };
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

KillSweep::Options killed(std::function<void()> run) {
  KillSweep::Options options;
  options.every = every();
  options.run = std::move(run);
  return options;
}

/// What is there once `down` has had its way, wherever `up` ended.
std::string razed(ClusterRig& rig) {
  must(rig.down());
  std::string text;
  for (const std::string& vm : identities(rig)) text += vm + "\n";
  for (const auto& [id, storage] : rig.home.dc.storages)
    for (const auto& [host, volumes] : storage.volumes)
      for (const auto& [name, volume] : volumes)
        if (volume.vmid) text += fmt::format("{}:{} on {}\n", id, name, host);
  return text;
}
KillSweep::Options then_down(ClusterRig& rig, KillSweep::Options options) {
  options.recover = [] {};
  options.end_state = [&rig] { return razed(rig); };
  return options;
}

TEST(EngineKill, UpConvergesWhereverItIsKilled) {
  ClusterRig rig;
  rig.write_spec(static_spec(three_and_two));
  const auto result = sweep(rig, killed([&] { must(rig.up()); }));
  EXPECT_THAT(result.failures, IsEmpty());
  EXPECT_GT(result.edges, 300u);
  EXPECT_THAT(result.expected, HasSubstr("\n1 bootstraps\n"));
}

TEST(EngineKill, UpConvergesWhicheverAnswerIsLost) {
  ClusterRig rig;
  rig.write_spec(static_spec(three_and_two));
  KillSweep::Options options = killed([&] { must(rig.up()); });
  options.mode = KillSweep::Mode::LoseAnswer;
  const auto result = sweep(rig, std::move(options));
  EXPECT_THAT(result.failures, IsEmpty());
}

TEST(EngineKill, ClonesConvergeWhereverUpIsKilled) {
  ClusterRig rig;
  make_template(rig);
  rig.write_spec(clones(pools(1, 1)));
  const auto result = sweep(rig, killed([&] { must(rig.up()); }));
  EXPECT_THAT(result.failures, IsEmpty());
}

/// A cluster whose worker is to be made anew.
void want_other_firmware(ClusterRig& rig) {
  rig.write_spec(static_spec(pools(1, 1)));
  must(rig.up());
  rig.home.world.run_for(1min);
  rig.write_spec(
      static_spec(replace_all(pools(1, 1), "cores: 4 }", "cores: 4, firmware: seabios }")));
}
resources::RunOptions allow_replace() {
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::Replace);
  return options;
}

TEST(EngineKill, AReplacementConvergesWhereverItIsKilled) {
  ClusterRig rig;
  want_other_firmware(rig);
  const auto result = sweep(rig, killed([&] { must(rig.up(allow_replace())); }));
  EXPECT_THAT(result.failures, IsEmpty());
  EXPECT_GT(result.edges, 50u);
  EXPECT_EQ(*rig.home.dc.vms.at(101).find("bios"), "seabios");
}

TEST(EngineKill, AReplacementConvergesWhicheverAnswerIsLost) {
  ClusterRig rig;
  want_other_firmware(rig);
  KillSweep::Options options = killed([&] { must(rig.up(allow_replace())); });
  options.mode = KillSweep::Mode::LoseAnswer;
  EXPECT_THAT(sweep(rig, std::move(options)).failures, IsEmpty());
}

TEST(EngineKill, DownTakesAwayWhateverAKilledUpHasLeft) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  const auto result = sweep(rig, then_down(rig, killed([&] { must(rig.up()); })));
  EXPECT_THAT(result.failures, IsEmpty());
  EXPECT_EQ(result.expected, "");
}

TEST(EngineKill, DownTakesAwayWhateverAKilledUpHasLeftOfClones) {
  ClusterRig rig;
  make_template(rig);
  rig.write_spec(clones(pools(1, 1)));
  const auto result = sweep(rig, then_down(rig, killed([&] { must(rig.up()); })));
  EXPECT_THAT(result.failures, IsEmpty());
  EXPECT_THAT(result.expected, HasSubstr("talos-template"));
}

TEST(EngineKill, DownConvergesWhereverItIsKilled) {
  ClusterRig rig;
  rig.write_spec(static_spec(three_and_two));
  must(rig.up());
  const auto result = sweep(rig, killed([&] { must(rig.down()); }));
  EXPECT_THAT(result.failures, IsEmpty());
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

TEST(EngineKill, DownConvergesWhicheverAnswerIsLost) {
  ClusterRig rig;
  rig.write_spec(static_spec(three_and_two));
  must(rig.up());
  KillSweep::Options options = killed([&] { must(rig.down()); });
  options.mode = KillSweep::Mode::LoseAnswer;
  const auto result = sweep(rig, std::move(options));
  EXPECT_THAT(result.failures, IsEmpty());
  EXPECT_GT(result.edges, 100u);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

}  // namespace
}  // namespace rocca::scenarios
