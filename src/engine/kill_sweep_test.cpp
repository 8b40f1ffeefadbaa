// A toy cluster is killed before and after everything it does, and loses every answer once.

#include "support/kill_sweep.hpp"

#include "engine/toy_test_support.hpp"
#include "state/local_store.hpp"

#include <gmock/gmock.h>

namespace rocca::engine {
namespace {

using test::KillSweep;
using toy::resources;
using toy::Wish;
using namespace std::chrono_literals;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

/// A site and a folder. Each verb is a process of its own: it has only what these two hold.
class ToyCluster {
 public:
  explicit ToyCluster(std::vector<Wish> wishes) : site_(time_.clock), wishes_(std::move(wishes)) {
    files_.make_folder("/blue");
  }

  void use(KillSweep* sweep) {
    site_.on_edge = {};
    edges_.reset();
    if (sweep == nullptr) return;
    edges_ = std::make_unique<test::EdgeFiles>(files_, *sweep);
    site_.on_edge = [sweep](const std::string& edge) {
      sweep->edge("around an exchange", edge, true);
    };
  }

  void up() {
    Desired desired;
    desired.wanted = resources(wishes_);
    run(desired, {});
  }
  void down() {
    Desired desired;
    desired.leftover = resources(wishes_);
    EffectPolicy policy;
    policy.allowed.insert(Effect::DataLoss);
    run(desired, policy);
  }
  void die() { files_.power_cut(); }

  std::string end_state() {
    // A task that nobody waits for any more ends as well.
    time_.advance(time_.clock.tick() + 1h);
    std::string text = site_.picture();
    for (const auto& [act, count] : site_.done) text += fmt::format("{} × {}\n", act, count);
    const auto state = state::local_store(files_, "/blue/.rocca")->load().value_or(state::State{});
    if (state.bootstrapped) text += "bootstrapped\n";
    for (const auto& [address, item] : state.items)
      text += fmt::format("remembered {} {}{}\n", address, item.applied, item.receipt);
    return text;
  }

 private:
  void run(const Desired& desired, const EffectPolicy& policy) {
    Files& files = edges_ ? static_cast<Files&>(*edges_) : files_;
    const auto runner = inline_runner(
        time_.clock, {[this](std::optional<Tick> until) { return time_.advance(until); }});
    site_.use(time_, *runner, 50ms);
    toy::ToyWorlds worlds{site_};
    const auto store = state::local_store(files, "/blue/.rocca");
    const Instant now = time_.clock.now();
    const auto lock = store->lock({"run", "toy", "up", now, now + 1min}, false);
    std::optional<state::State> prior = store->load();
    if (!prior) {
      prior.emplace();
      prior->lineage = "toy";
      store->replace(*prior);
    }
    const graph::Graph graph = build(desired, *prior);
    recall(*prior, worlds);
    const Observed observed = observe(desired, graph, worlds, *runner, 8, {});
    PlanOptions plan_options;
    plan_options.policy = policy;
    const Plan made = plan(desired, graph, observed, *prior, "toy", plan_options);
    ExecuteOptions options;
    options.policy = policy;
    const Report report =
        execute(made, desired, graph, *prior, *store, worlds, *runner, {}, options, {});
    for (const auto& [address, result] : report.steps)
      if (result.error) throw *result.error;
    if (!report.ok()) throw Error(Fault::Bug, "not everything was done");
  }

  toy::Time time_;
  toy::Site site_;
  MemoryFiles files_;
  std::unique_ptr<test::EdgeFiles> edges_;
  std::vector<Wish> wishes_;
};

/// Three nodes with a VM and a machine each, and one bootstrap that must not happen twice.
std::vector<Wish> three_nodes() {
  std::vector<Wish> wishes;
  Wish bootstrap;
  bootstrap.address = "bootstrap/etcd";
  bootstrap.fields = {{"done", "yes"}};
  bootstrap.bootstraps = true;
  bootstrap.announces = true;
  bootstrap.no_token = true;
  for (const char* node : {"cp-1", "cp-2", "worker-1"}) {
    Wish vm;
    vm.address = fmt::format("vm/{}", node);
    vm.fields = {{"cores", "4"}};
    vm.read_lanes = vm.act_lanes = {{"pve", 3, Lane::Hold::Call}};
    vm.act_lanes.push_back({"import", 2, Lane::Hold::Act});
    Wish machine;
    machine.address = fmt::format("machine/{}", node);
    machine.needs = {vm.address};
    machine.fields = {{"config", "v1"}};
    machine.announces = true;
    machine.no_token = true;
    bootstrap.needs.push_back(machine.address);
    wishes.push_back(vm);
    wishes.push_back(machine);
  }
  wishes.push_back(bootstrap);
  return wishes;
}

KillSweep::Result sweep(ToyCluster& cluster, void (ToyCluster::*verb)(), KillSweep::Mode mode,
                        std::size_t every = 1) {
  KillSweep::Options options;
  options.mode = mode;
  options.every = every;
  options.run = options.recover = [&cluster, verb] { (cluster.*verb)(); };
  options.died = [&] { cluster.die(); };
  options.end_state = [&] { return cluster.end_state(); };
  KillSweep sweep{options};
  cluster.use(&sweep);
  KillSweep::Result result = sweep.sweep();
  cluster.use(nullptr);
  fmt::print("{}\n", result.summary());
  return result;
}

TEST(KillSweep, UpConvergesWhereverItIsKilled) {
  ToyCluster cluster{three_nodes()};
  const auto result = sweep(cluster, &ToyCluster::up, KillSweep::Mode::Kill);
  EXPECT_THAT(result.failures, IsEmpty());
  EXPECT_GT(result.edges, 150u);
  EXPECT_EQ(result.tried, result.edges);
  EXPECT_THAT(result.expected, HasSubstr("create bootstrap/etcd × 1\n"));
  EXPECT_THAT(result.expected, HasSubstr("create vm/cp-2 × 1\n"));
  EXPECT_THAT(result.expected, HasSubstr("\nbootstrapped\n"));
}

TEST(KillSweep, DownConvergesWhereverItIsKilled) {
  ToyCluster cluster{three_nodes()};
  cluster.up();
  const auto result = sweep(cluster, &ToyCluster::down, KillSweep::Mode::Kill);
  EXPECT_THAT(result.failures, IsEmpty());
  EXPECT_GT(result.edges, 100u);
  EXPECT_THAT(result.expected, testing::Not(HasSubstr("remembered")));
}

TEST(KillSweep, ConvergesWhicheverAnswerIsLost) {
  ToyCluster cluster{three_nodes()};
  EXPECT_THAT(sweep(cluster, &ToyCluster::up, KillSweep::Mode::LoseAnswer).failures, IsEmpty());
  EXPECT_THAT(sweep(cluster, &ToyCluster::down, KillSweep::Mode::LoseAnswer).failures, IsEmpty());
}

/// The sweep itself: what does not converge is found, and named by its edge.
TEST(KillSweep, FindsARunThatIsNotSafe) {
  MemoryFiles files;
  unsigned created = 0;
  KillSweep::Options options;
  KillSweep* here = nullptr;
  options.run = options.recover = [&] {
    if (files.find("/done")) return;
    here->edge("exchange", "before create", true);
    ++created;  // never looks first
    here->edge("exchange", "after create", true);
    files.write("/done", "yes");
    here->edge("write", "after done", false);
  };
  options.end_state = [&] { return fmt::format("{} created\n", created); };
  KillSweep sweep{options};
  here = &sweep;
  const auto result = sweep.sweep();
  EXPECT_EQ(result.edges, 3u);
  EXPECT_THAT(result.failures, testing::ElementsAre("edge 2 (exchange after create): line 1 is "
                                                    "'2 created' and not '1 created'"));
}

TEST(KillSweep, NamesARecoveryThatFailsOrCrashes) {
  KillSweep::Options options;
  KillSweep* here = nullptr;
  int next = 0;
  options.run = [&] {
    for (next = 0; next < 3; ++next) here->edge("step", std::to_string(next), true);
  };
  options.recover = [&] {
    if (next == 0) throw Error(Fault::Locked, "somebody holds the lock");
    if (next == 1) std::abort();
  };
  options.end_state = [] { return std::string("the same"); };
  KillSweep sweep{options};
  here = &sweep;
  const auto result = sweep.sweep();
  ASSERT_EQ(result.failures.size(), 2u);
  EXPECT_THAT(result.failures[0],
              HasSubstr("edge 1 (step 0): the recovery failed: error: somebody"));
  EXPECT_THAT(result.failures[1], HasSubstr("edge 2 (step 1): the recovery ended by signal 6"));
}

TEST(KillSweep, ASampleTriesEveryNthEdge) {
  ToyCluster cluster{three_nodes()};
  const auto result = sweep(cluster, &ToyCluster::up, KillSweep::Mode::Kill, 10);
  EXPECT_EQ(result.tried, result.edges / 10);
  EXPECT_THAT(result.failures, IsEmpty());
}

}  // namespace
}  // namespace rocca::engine
