#include "engine/fan_out.hpp"

#include "base/error.hpp"
#include "engine/toy_test_support.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

namespace rocca::engine {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

struct FanRig {
  toy::Time time;
  std::unique_ptr<InlineRunner> runner = inline_runner(
      time.clock, {[this](std::optional<Tick> until) { return time.advance(until); }});
  std::vector<std::string> log;
  int now = 0, peak = 0;

  /// A body of one second.
  void work(const std::string& name) {
    log.push_back(name);
    peak = std::max(peak, ++now);
    runner->park([&](std::function<void()> wake) { time.after(1s, std::move(wake)); });
    --now;
  }
};

TEST(FanOut, CallsEveryBodyOnceAndManyAtOnce) {
  FanRig rig;
  FanOut how;
  how.parallelism = 2;
  fan_out(*rig.runner, {"a", "b", "c", "d"}, how, [&](const std::string& name) { rig.work(name); });
  EXPECT_THAT(rig.log, ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(rig.peak, 2);
  EXPECT_EQ(rig.runner->now(), Tick{2s});
}

TEST(FanOut, NothingToDoIsDoneAtOnce) {
  FanRig rig;
  fan_out(*rig.runner, std::vector<std::string>{}, {}, [](const std::string&) { FAIL(); });
}

TEST(FanOut, KeepsLanesAndOrder) {
  FanRig rig;
  FanOut how;
  how.lanes = [](const std::string&) { return std::vector<Lane>{{"pve/atlas", 1}}; };
  graph::Graph graph;
  graph.needs("a", "b");
  fan_out(*rig.runner, graph, how, [&](const std::string& name) { rig.work(name); });
  EXPECT_THAT(rig.log, ElementsAre("b", "a"));
  EXPECT_EQ(rig.peak, 1);
}

TEST(FanOut, CallsOnceMoreWhenAsked) {
  FanRig rig;
  FanOut how;
  how.again = [&](const std::string&) -> std::optional<Tick> {
    if (rig.log.size() == 3) return std::nullopt;
    return rig.runner->now() + 10s;
  };
  fan_out(*rig.runner, {"a"}, how, [&](const std::string& name) { rig.work(name); });
  EXPECT_THAT(rig.log, ElementsAre("a", "a", "a"));
  EXPECT_EQ(rig.runner->now(), Tick{23s});
}

TEST(FanOut, AnExceptionEndsItAfterTheCallsInFlight) {
  FanRig rig;
  FanOut how;
  how.parallelism = 2;
  int ended = 0;
  try {
    fan_out(*rig.runner, {"a", "b", "c"}, how, [&](const std::string& name) {
      if (name == "a") throw Error(Fault::Denied, "no");
      rig.work(name);
      ++ended;
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Denied);
  }
  EXPECT_THAT(rig.log, ElementsAre("b"));
  EXPECT_EQ(ended, 1) << "what was in flight has ended";
}

TEST(FanOut, AnExceptionFreesTheSlotsOfOtherRuns) {
  FanRig rig;
  FanOut how;
  how.lanes = [](const std::string&) {
    Lane lane{"pve/atlas", 1};
    lane.shared = true;
    return std::vector{lane};
  };
  EXPECT_THROW(fan_out(*rig.runner, {"a"}, how,
                       [](const std::string&) { throw Error(Fault::Denied, "no"); }),
               Error);
  EXPECT_EQ(rig.runner->limiter().in_use("pve/atlas"), 0u);
}

TEST(FanOut, AStopBeginsNothingMore) {
  FanRig rig;
  std::stop_source stop;
  FanOut how;
  how.parallelism = 1;
  how.stop = stop.get_token();
  fan_out(*rig.runner, {"a", "b"}, how, [&](const std::string& name) {
    stop.request_stop();
    rig.work(name);
  });
  EXPECT_THAT(rig.log, ElementsAre("a"));
}

TEST(FanOut, RunsOnThreads) {
  const SystemClock clock;
  const auto runner = pool_runner(8, clock);
  std::atomic<int> calls = 0;
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back(std::to_string(i));
  fan_out(*runner, names, {}, [&](const std::string&) { ++calls; });
  EXPECT_EQ(calls, 100);
}

}  // namespace
}  // namespace rocca::engine
