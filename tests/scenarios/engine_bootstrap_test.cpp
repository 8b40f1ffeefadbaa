// etcd begins once, on the first control plane, as soon as that one is ready.

#include "scenarios/engine_rig.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using End = engine::StepResult::End;

test::Administrator administrator(ClusterRig& rig) {
  return client_with(rig, rig.home.root_token);
}

void destroy(ClusterRig& rig, unsigned vmid) {
  administrator(rig).start_stop("pve1", vmid);
  rig.home.world.run_for(30s);
  administrator(rig).start_destroy("pve1", vmid, true);
  rig.home.world.run_for(30s);
}

/// Nobody hears us at some addresses.
class Deaf final : public net::Transport {
 public:
  explicit Deaf(net::Transport& inner) : inner_(inner) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    for (const std::string& address : addresses)
      if (request.url.find(address) != std::string::npos)
        throw Error(Fault::Unreachable, address + ": connection timed out");
    return inner_.exchange(request, sink, std::move(stop));
  }
  std::vector<std::string> addresses;

 private:
  net::Transport& inner_;
};

/// The first call of Bootstrap gets lost on its way, or, if `heard`, its answer does.
class LostBootstrap final : public net::Transport {
 public:
  LostBootstrap(net::Transport& inner, const Clock& clock, bool heard)
      : inner_(inner), clock_(clock), heard_(heard) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (!request.url.ends_with("/Bootstrap"))
      return inner_.exchange(request, sink, std::move(stop));
    calls.push_back(clock_.now());
    if (calls.size() > 1) return inner_.exchange(request, sink, std::move(stop));
    if (heard_) inner_.exchange(request, sink, std::move(stop));
    throw Error(Fault::Lost, "the connection was cut");
  }
  std::vector<Instant> calls;

 private:
  net::Transport& inner_;
  const Clock& clock_;
  bool heard_;
};

TEST(EngineBootstrap, ACallThatNeverCameIsRepeatedSoon) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  LostBootstrap lossy{rig.wire, rig.home.world.clock(), /*heard=*/false};
  rig.transport = &lossy;
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  ASSERT_EQ(lossy.calls.size(), 2u);
  // Not after the minutes that pulling etcd's image may take.
  EXPECT_LT(lossy.calls[1] - lossy.calls[0], 30s);
}

TEST(EngineBootstrap, ACallThatWasHeardIsNotRepeated) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  LostBootstrap lossy{rig.wire, rig.home.world.clock(), /*heard=*/true};
  rig.transport = &lossy;
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(lossy.calls.size(), 1u);
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
}

/// Hears every call of Bootstrap, and lets all of them pass.
class HeardBootstrap final : public net::Transport {
 public:
  explicit HeardBootstrap(net::Transport& inner) : inner_(inner) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    calls += request.url.ends_with("/Bootstrap");
    return inner_.exchange(request, sink, std::move(stop));
  }
  std::size_t calls = 0;

 private:
  net::Transport& inner_;
};

lab::Home::Options slow_registry() {
  lab::Home::Options options;
  options.node_timing.etcd_pull = 6min;
  return options;
}

// Another call would end the pull of etcd's image and begin it anew.
TEST(EngineBootstrap, AnAnswerIsNotAskedForTwiceHoweverLongTheImageTakes) {
  ClusterRig rig{slow_registry()};
  rig.write_spec(static_spec(pools(1, 0)));
  HeardBootstrap heard{rig.wire};
  rig.transport = &heard;
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(heard.calls, 1u);
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
}

TEST(EngineBootstrap, ALostAnswerIsNotAskedForTwiceHoweverLongTheImageTakes) {
  ClusterRig rig{slow_registry()};
  rig.write_spec(static_spec(pools(1, 0)));
  LostBootstrap lossy{rig.wire, rig.home.world.clock(), /*heard=*/true};
  rig.transport = &lossy;
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(lossy.calls.size(), 1u);
}

// A node that restarts before etcd has written anything has forgotten that it was asked.
TEST(EngineBootstrap, ANodeThatHasForgottenTheCallIsAskedAgain) {
  ClusterRig rig{slow_registry()};
  rig.write_spec(static_spec(pools(1, 0)));
  LostBootstrap lossy{rig.wire, rig.home.world.clock(), /*heard=*/true};
  rig.transport = &lossy;
  rig.home.world.after(5min, [&rig] {
    lab::pve::Vm& vm = rig.home.dc.vms.at(100);
    rig.home.dc.on_power(vm, false);
    rig.home.dc.on_power(vm, true);
  });
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(lossy.calls.size(), 2u);
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
}

TEST(EngineBootstrap, WaitsForTheFirstControlPlaneOnly) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(3, 1)));
  arm(rig, "- task: { type: qmcreate, id: \"101\" }\n  times: 1\n  fail: \"no luck today\"\n");
  const engine::Report report = rig.up();
  EXPECT_EQ(report.steps.at("vm/cp-2").end, End::Failed);
  EXPECT_EQ(report.steps.at("bootstrap/blue").end, End::Done) << problems(report);
  EXPECT_EQ(report.steps.at("member/cp-1").end, End::Unchanged) << problems(report);
  EXPECT_EQ(report.steps.at("member/cp-3").end, End::Done) << problems(report);
  EXPECT_EQ(report.steps.at("vip/blue").end, End::Done) << problems(report);
  EXPECT_EQ(report.steps.at("member/cp-2").end, End::Skipped);
  const engine::Report again = rig.up();
  EXPECT_TRUE(again.ok()) << problems(again);
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
  EXPECT_EQ(rig.run()->status().etcd, "3 members, healthy");
}

TEST(EngineBootstrap, ANewFirstControlPlaneJoinsTheOthers) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(3, 0)));
  ASSERT_TRUE(rig.up().ok());
  destroy(rig, 100);
  rig.lose_state();
  static_cast<void>(rig.up());
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
}

TEST(EngineBootstrap, ASilentControlPlaneMayHaveData) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(3, 0), "[pve1]", "  timeouts: { boot: 3m, bootstrap: 3m }\n"));
  ASSERT_TRUE(rig.up().ok());
  destroy(rig, 100);
  rig.lose_state();
  // The others run, and nobody can ask them.
  Deaf deaf{rig.wire};
  deaf.addresses = {"10.0.1.12", "10.0.1.13"};
  rig.transport = &deaf;
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(rig.log, testing::Contains(
                           HasSubstr("cp-2 and cp-3 may have etcd's data, and do not answer")));
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
}

}  // namespace
}  // namespace rocca::scenarios
