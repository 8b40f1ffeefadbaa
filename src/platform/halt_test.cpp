// When a guest counts as asked. The log is written by whoever used the id, so the decision is
// checked against every short history of a VM, with the truth kept beside the log.

#include "platform/halt.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

namespace rocca::resources {
namespace {

using namespace std::chrono_literals;
using Next = Halt::Next;

const Instant epoch{1'790'000'000s};
const std::string timed_out = "VM quit/powerdown failed - got timeout";

HaltTask task(const std::string& type, Duration started, std::optional<Duration> ended,
              const std::string& result, const std::string& id = "300") {
  HaltTask made;
  made.upid.type = type;
  made.upid.id = id;
  made.upid.user = "root@pam";
  made.upid.started = std::chrono::floor<std::chrono::seconds>(epoch + started);
  made.upid.text = fmt::format("UPID:pve:{}:{}:", type, started.count());
  if (ended) made.ended = std::chrono::floor<std::chrono::seconds>(epoch + *ended);
  made.result = result;
  return made;
}

HaltFacts running_for(Duration uptime, Duration now, std::vector<HaltTask> tasks) {
  HaltFacts facts;
  facts.running = true;
  facts.uptime = uptime;
  facts.now = epoch + now;
  facts.tasks = std::move(tasks);
  return facts;
}

// ---- what was seen on Proxmox

TEST(IgnoresShutdown, NotAfterAShutdownThatEndedWellAndALaterStart) {
  const HaltFacts facts =
      running_for(13s, 33s, {task("qmshutdown", 0s, 10s, "OK"), task("qmstart", 15s, 20s, "OK")});
  EXPECT_FALSE(ignores_shutdown(facts));
  EXPECT_EQ(decide_halt(facts).next, Next::Shutdown);
}

TEST(IgnoresShutdown, NotForAnEarlierVmOfTheSameId) {
  const HaltFacts facts =
      running_for(300s, 900s,
                  {task("qmshutdown", 0s, 31s, timed_out), task("qmstop", 40s, 42s, "OK"),
                   task("qmdestroy", 43s, 45s, "OK"), task("qmcreate", 500s, 530s, "OK"),
                   task("qmstart", 590s, 600s, "OK")});
  EXPECT_EQ(decide_halt(facts).next, Next::Shutdown);
}

// A clone is logged under the id of its source, and a backup in stop mode restarts without a task
// of its own: then only the age of the process tells.
TEST(IgnoresShutdown, NotForAGuestThatIsYoungerThanTheRequest) {
  const std::vector tasks{task("qmshutdown", 0s, 31s, timed_out)};
  EXPECT_FALSE(ignores_shutdown(running_for(100s, 200s, tasks)));
  EXPECT_TRUE(ignores_shutdown(running_for(500s, 200s, tasks)));
  HaltFacts unknown = running_for(500s, 200s, tasks);
  unknown.uptime.reset();
  EXPECT_FALSE(ignores_shutdown(unknown));
}

TEST(IgnoresShutdown, IfAnyoneAskedThisGuestLongEnough) {
  struct Row {
    const char* type;
    Duration lasted;
    std::string result;
    bool counts;
  };
  const std::vector<Row> rows{
      {"qmshutdown", 30s, timed_out, true},
      {"qmshutdown", 60s, timed_out, true},
      {"qmshutdown", 600s, "received interrupt", true},
      {"qmreboot", 600s, "received interrupt", true},
      {"qmreboot", 60s, timed_out, true},
      {"qmshutdown", 5s, timed_out, false},             // too short to say anything
      {"qmshutdown", 5s, "received interrupt", false},  // ended from outside
      {"qmshutdown", 31s, "OK", false},
      {"qmshutdown", 31s, "WARNINGS: 1", false},
      {"qmshutdown", 31s, "can't lock file '/var/lock/qemu-server/lock-300.conf' - got timeout",
       false},
      {"qmshutdown", 31s, "VM is locked (backup)", false},
      {"qmshutdown", 31s, "unable to find configuration file for VM 300 on node 'pve'", false},
      {"qmstop", 31s, timed_out, false},
      {"qmstart", 31s, timed_out, false},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(fmt::format("{} {}", row.type, row.result));
    const HaltFacts facts =
        running_for(1h, 700s, {task(row.type, 10s, 10s + row.lasted, row.result)});
    EXPECT_EQ(ignores_shutdown(facts), row.counts);
  }
}

TEST(IgnoresShutdown, OnlyOursCountWhereTheClocksDisagree) {
  // The host's clock is ten minutes ahead: its log is in the future.
  std::vector tasks{task("qmshutdown", 600s, 631s, timed_out)};
  EXPECT_FALSE(ignores_shutdown(running_for(1h, 35s, tasks)));
  tasks.front().ours_since = 35s;
  EXPECT_TRUE(ignores_shutdown(running_for(1h, 35s, tasks)));
  EXPECT_FALSE(ignores_shutdown(running_for(3s, 35s, tasks))) << "it was restarted meanwhile";
  // Ten minutes behind: whatever others asked seems to be older than the guest.
  tasks = {task("qmshutdown", -600s, -569s, timed_out)};
  EXPECT_FALSE(ignores_shutdown(running_for(60s, 35s, tasks)));
  tasks.front().ours_since = 35s;
  EXPECT_TRUE(ignores_shutdown(running_for(60s, 35s, tasks)));
}

// ---- every short history

enum class Event {
  Start,
  Stop,
  ShutdownObeyed,
  ShutdownIgnored,  // by another
  OurShutdown,      // by this run, ignored
  ShortShutdown,    // ignored, but the guest had five seconds
  LockedShutdown,   // never reached the guest
  RebootObeyed,
  RebootIgnored,
  Reset,
  StartFails,  // it runs already
  StopFails,
  Recreated,          // destroyed, created, started
  Cloned,             // another VM takes the id; nothing of it is in this id's log
  RestartedSilently,  // a backup in stop mode
};
constexpr std::array events{Event::Start,           Event::Stop,         Event::ShutdownObeyed,
                            Event::ShutdownIgnored, Event::OurShutdown,  Event::ShortShutdown,
                            Event::LockedShutdown,  Event::RebootObeyed, Event::RebootIgnored,
                            Event::Reset,           Event::StartFails,   Event::StopFails,
                            Event::Recreated,       Event::Cloned,       Event::RestartedSilently};

/// A VM as it really is, and what is written about it.
class History {
 public:
  explicit History(Duration skew) : skew_(skew) { up(); }

  void happen(Event event) {
    wait(1700ms);
    switch (event) {
      case Event::Start:
        if (!running_) {
          log("qmstart", 2s, "OK");
          up();
        }
        break;
      case Event::Stop:
        log("qmstop", 1s, "OK");
        running_ = false;
        break;
      case Event::ShutdownObeyed:
        if (running_) log("qmshutdown", 35s, "OK");
        running_ = false;
        break;
      case Event::ShutdownIgnored:
        if (!running_) break;
        log("qmshutdown", 30s, timed_out);
        asked_ = true;
        break;
      case Event::OurShutdown:
        if (!running_) break;
        ours_.push_back({facts_.tasks.size(), now_});
        log("qmshutdown", 30s, timed_out);
        asked_ = true;
        asked_by_us_ = true;
        break;
      case Event::ShortShutdown:
        if (running_) log("qmshutdown", 5s, timed_out);
        break;
      case Event::LockedShutdown:
        log("qmshutdown", 10s, "can't lock file '/var/lock/x' - got timeout");
        break;
      case Event::RebootObeyed:
        if (!running_) break;
        log("qmreboot", 35s, "OK");
        wait(3s);
        up();
        break;
      case Event::RebootIgnored:
        if (!running_) break;
        log("qmreboot", 60s, "received interrupt");
        asked_ = true;
        break;
      case Event::Reset:
        if (!running_) break;
        log("qmreset", 1s, "OK");
        asked_ = asked_by_us_ = false;  // the same process, and the guest boots
        break;
      case Event::StartFails:
        if (running_) log("qmstart", 1s, "VM 300 already running");
        break;
      case Event::StopFails:
        if (running_) log("qmstop", 10s, "can't lock file '/var/lock/x' - got timeout");
        break;
      case Event::Recreated:
        log("qmstop", 1s, "OK");
        log("qmdestroy", 2s, "OK");
        log("qmcreate", 9s, "OK");
        log("qmstart", 2s, "OK");
        up();
        break;
      case Event::Cloned:
      case Event::RestartedSilently:
        silent_ = true;
        wait(4s);
        up();
        break;
    }
  }

  HaltFacts facts() const {
    HaltFacts facts = facts_;
    facts.running = running_;
    const Duration later = now_ + 2s;
    facts.now = epoch + later - skew_;
    facts.uptime = std::chrono::floor<std::chrono::seconds>(later - since_);
    for (const auto& [index, when] : ours_) facts.tasks[index].ours_since = later - when;
    return facts;
  }
  bool running() const { return running_; }
  bool asked() const { return asked_; }
  bool asked_by_us() const { return asked_by_us_; }
  bool silent() const { return silent_; }

 private:
  void up() {
    running_ = true;
    since_ = now_;
    asked_ = asked_by_us_ = false;
  }
  void wait(Duration how_long) { now_ += how_long; }
  void log(const std::string& type, Duration how_long, const std::string& result) {
    facts_.tasks.push_back(task(type, now_, now_ + how_long, result));
    wait(how_long);
  }

  Duration skew_;  // how far the host's clock is ahead of ours
  Duration now_ = 1h, since_ = 0s;
  bool running_ = false, asked_ = false, asked_by_us_ = false, silent_ = false;
  HaltFacts facts_;
  std::vector<std::pair<std::size_t, Duration>> ours_;
};

class EveryHistory : public testing::TestWithParam<int> {};

TEST_P(EveryHistory, PowerIsCutOnlyAfterThisGuestWasAsked) {
  const Duration skew = std::chrono::seconds{GetParam()};
  constexpr std::size_t length = 4;
  std::size_t histories = 0, counted = 0;
  std::array<std::size_t, length> at{};
  while (true) {
    History history{skew};
    std::string name;
    for (const std::size_t index : at) {
      history.happen(events[index]);
      name += fmt::format(" {}", index);
    }
    if (history.running()) {
      ++histories;
      const HaltFacts facts = history.facts();
      const bool ignores = ignores_shutdown(facts);
      counted += ignores;
      // A restart that no log shows is found by the process's age, as well as the clocks agree: a
      // request lasts half a minute.
      const bool can_tell = !history.silent() || std::chrono::abs(skew) < 29s;
      if (ignores && can_tell) {
        ASSERT_TRUE(history.asked()) << name;
      }
      // What this run asked is known whatever the clocks say.
      if (history.asked_by_us()) {
        ASSERT_TRUE(ignores) << name;
      }
      if (history.asked() && skew == 0s) {
        ASSERT_TRUE(ignores) << name;
      }
      ASSERT_EQ(decide_halt(facts).next, ignores ? Next::Stop : Next::Shutdown) << name;
    }
    std::size_t digit = 0;
    while (digit < length && ++at[digit] == events.size()) at[digit++] = 0;
    if (digit == length) break;
  }
  EXPECT_GT(histories, 30'000u);
  EXPECT_GT(counted, 1'000u);
}
INSTANTIATE_TEST_SUITE_P(Skews, EveryHistory, testing::Values(0, 1, -1, 20, -20, 3600, -3600),
                         [](const auto& one) {
                           return fmt::format("{}{}", one.param < 0 ? "behind" : "ahead",
                                              std::abs(one.param));
                         });

// ---- the whole decision, over every combination

TEST(DecideHalt, KeepsItsRulesForEveryCombination) {
  const Duration now = 1h;
  std::vector<std::vector<HaltTask>> logs{
      {},
      {task("qmshutdown", now - 5s, std::nullopt, "RUNNING")},
      {task("qmshutdown", now - 90s, std::nullopt, "RUNNING")},
      {task("qmreboot", now - 5s, std::nullopt, "RUNNING")},
      {task("qmstop", now - 5s, std::nullopt, "RUNNING")},
      {task("qmdestroy", now - 5s, std::nullopt, "RUNNING")},
      {task("vzdump", now - 5s, std::nullopt, "RUNNING")},
      {task("qmigrate", now - 5s, std::nullopt, "RUNNING")},
      {task("qmigrate", now - 90s, std::nullopt, "RUNNING")},
      {task("qmsnapshot", now - 90s, now - 2s, "OK")},
      {task("qmshutdown", now - 90s, now - 60s, timed_out)},
      {task("qmshutdown", now - 90s, now - 60s, "OK"), task("qmstart", now - 50s, now - 49s, "OK")},
      {task("hastop", now - 20s, now - 20s, "OK")},
      {task("hastop", now - 200s, now - 200s, "OK")},
  };
  unsigned combinations = 0;
  for (const auto& log : logs)
    for (unsigned bits = 0; bits < 32; ++bits)
      for (const std::string lock : {"", "backup", "suspended", "snapshot-delete"})
        for (const bool ours : {false, true}) {
          HaltFacts facts = running_for(50min, now, log);
          facts.running = (bits & 1) != 0;
          facts.paused = (bits & 2) != 0;
          facts.by_ha = (bits & 4) != 0;
          facts.contended = (bits & 8) != 0;
          if ((bits & 16) != 0 && lock == "backup" && holder_of(facts.tasks) == nullptr)
            facts.job_of_many = task("vzdump", now - 600s, std::nullopt, "RUNNING", "");
          facts.lock = lock;
          if (ours)
            for (HaltTask& each : facts.tasks) each.ours_since = facts.now - each.upid.started;
          const Halt halt = decide_halt(facts);
          ++combinations;
          SCOPED_TRACE(fmt::format("{} {} {} ours {}: {}", log.empty() ? "" : log[0].upid.type,
                                   bits, lock, ours, halt.text()));
          const bool locked = !lock.empty() && lock != "suspended";
          if (!facts.running && !locked && !facts.contended) {
            EXPECT_EQ(halt.next, Next::Nothing);
          }
          if (facts.running) {
            EXPECT_NE(halt.next, Next::Nothing);
          }
          if (halt.next == Next::Follow || halt.next == Next::EndTask) {
            ASSERT_TRUE(halt.task);
          } else {
            EXPECT_FALSE(halt.task);
          }
          if (halt.next == Next::EndTask) {
            EXPECT_FALSE(is_job_of_many(*halt.task));
          }
          if (halt.next == Next::Shutdown) {
            EXPECT_TRUE(facts.running && !locked);
          }
          if (halt.next == Next::Stop) {
            EXPECT_TRUE(facts.running && !locked);
            const bool asked_ha = facts.by_ha && ours && facts.tasks.size() == 1 &&
                                  facts.tasks[0].upid.type == "hastop" &&
                                  *facts.tasks[0].ours_since >= ha_patience;
            EXPECT_TRUE(asked_ha || facts.paused || (!facts.by_ha && ignores_shutdown(facts)));
          }
          if (halt.next == Next::Unlock) {
            EXPECT_TRUE(locked && holder_of(facts.tasks) == nullptr);
          }
          if (halt.next == Next::Unlock && !log.empty() && log[0].upid.type == "qmsnapshot") {
            EXPECT_FALSE(halt.lock_is_dead) << "its task has just ended";
          }
        }
  EXPECT_EQ(combinations, logs.size() * 32 * 4 * 2);
}

// Failed attempts of others are none of ours: a script that stops the VM in a loop must not make
// this run give up.
TEST(DecideHalt, CountsOnlyFailedAttemptsOfThisRun) {
  std::vector<HaltTask> tasks;
  for (int i = 0; i < 9; ++i)
    tasks.push_back(task("qmstop", std::chrono::seconds{i * 20}, std::chrono::seconds{i * 20 + 10},
                         "can't lock file '/var/lock/x' - got timeout"));
  EXPECT_EQ(decide_halt(running_for(1h, 200s, tasks)).failed, 0u);
  tasks[3].ours_since = 140s;
  tasks[5].ours_since = 100s;
  tasks[5].result = "VM is locked (backup)";
  const Halt halt = decide_halt(running_for(1h, 200s, tasks));
  EXPECT_EQ(halt.failed, 2u);
  EXPECT_EQ(halt.last_error, "VM is locked (backup)");
}

TEST(DecideHalt, AsksAgainWhereItsOwnRequestNeverReachedTheGuest) {
  std::vector tasks{task("qmshutdown", 10s, 20s, "can't lock file '/var/lock/x' - got timeout")};
  tasks.front().ours_since = 12s;
  const Halt halt = decide_halt(running_for(1h, 22s, tasks));
  EXPECT_EQ(halt.next, Next::Shutdown);
  EXPECT_EQ(halt.failed, 1u);
}

TEST(DecideHalt, WaitsForHaAndThenTellsItToStop) {
  HaltFacts facts = running_for(1h, 100s, {task("hastop", 80s, 80s, "OK")});
  facts.by_ha = true;
  EXPECT_EQ(decide_halt(facts).next, Next::Shutdown) << "what others asked of HA says nothing";
  facts.tasks.front().ours_since = 20s;
  EXPECT_EQ(decide_halt(facts).next, Next::Follow);
  facts.tasks.front().ours_since = 91s;
  EXPECT_EQ(decide_halt(facts).next, Next::Stop);
  EXPECT_EQ(decide_halt(facts).failed, 0u);
  facts.tasks.push_back(task("hastop", 90s, 90s, "OK"));
  facts.tasks.back().ours_since = 91s;
  facts.tasks.front().ours_since = 191s;
  EXPECT_EQ(decide_halt(facts).failed, 1u);
}

}  // namespace
}  // namespace rocca::resources
