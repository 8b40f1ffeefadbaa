#include "state/leased_lock.hpp"

#include "base/error.hpp"
#include "net/date.hpp"
#include "state/server_clock.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <utility>

namespace rocca::state {

namespace {

using namespace std::chrono_literals;

class MemoryCell final : public LockCell {
 public:
  Seen read() override {
    if (unreachable) throw Error(Fault::Unreachable, "no route");
    return {holder, tag};
  }
  std::optional<std::string> write(const std::optional<Holder>& next, const Seen& over) override {
    if (unreachable) throw Error(Fault::Unreachable, "no route");
    if (before_write) std::exchange(before_write, {})();
    if (over.tag != tag) return std::nullopt;
    holder = next;
    tag = std::to_string(++writes);
    if (std::exchange(lose_answer, false)) throw Error(Fault::Lost, "no answer");
    return tag;
  }
  Instant now() const override { return clock.now(); }

  VirtualClock clock;
  std::optional<Holder> holder;
  std::string tag;
  int writes = 0;
  bool unreachable = false;
  bool lose_answer = false;
  std::function<void()> before_write;
};

class LeasedLock : public testing::Test {
 protected:
  Holder run(std::string id) { return {id, id + "@machine", "up", cell->now(), cell->now() + 60s}; }
  Fault fault(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.fault();
    }
    ADD_FAILURE() << "no error came";
    return Fault::Bug;
  }

  std::shared_ptr<MemoryCell> cell = std::make_shared<MemoryCell>();
  LeasedLocks locks{cell, "the state"};
};

TEST_F(LeasedLock, OfTwoTakersOfAnExpiredOneWinsOnce) {
  cell->holder = run("dead");
  cell->tag = "x";
  cell->clock.advance(10min);
  LeasedLocks other{cell, "the state"};
  std::unique_ptr<Lock> theirs;
  cell->before_write = [&] { theirs = other.take(run("b"), false); };
  EXPECT_EQ(fault([&] { locks.take(run("a"), false); }), Fault::Locked);
  EXPECT_EQ(cell->holder->id, "b");
}

TEST_F(LeasedLock, ALostAnswerIsLookedAfter) {
  cell->lose_answer = true;
  const auto lock = locks.take(run("a"), false);
  EXPECT_EQ(cell->holder->id, "a");
  cell->lose_answer = true;
  lock->renew();  // not known whether it worked, but its time is not over
  cell->clock.advance(30s);
  lock->renew();
  EXPECT_EQ(cell->holder->until, cell->now() + 60s);
}

TEST_F(LeasedLock, AShortOutageIsSatOutALongOneEndsTheRun) {
  const auto lock = locks.take(run("a"), false);
  cell->unreachable = true;
  cell->clock.advance(50s);
  lock->renew();
  locks.need();
  cell->clock.advance(15s);
  EXPECT_EQ(fault([&] { lock->renew(); }), Fault::Unreachable);
  EXPECT_EQ(fault([&] { locks.need(); }), Fault::Unreachable);
  cell->unreachable = false;
  lock->renew();  // nobody took it meanwhile
  locks.need();
}

TEST_F(LeasedLock, GivesBackOnlyItsOwn) {
  auto lock = locks.take(run("a"), false);
  cell->holder = run("b");
  cell->tag = "other";
  lock.reset();
  EXPECT_EQ(cell->holder->id, "b");
}

TEST_F(LeasedLock, IsLeftAloneForAMomentAfterItsEnd) {
  cell->holder = run("dead");
  cell->tag = "x";
  cell->clock.advance(60s + LeasedLocks::grace);
  EXPECT_TRUE(locks.holder());
  EXPECT_EQ(fault([&] { locks.take(run("a"), false); }), Fault::Locked);
  cell->clock.advance(1ns);
  EXPECT_FALSE(locks.holder());
  EXPECT_NO_THROW(locks.take(run("a"), false));
}

TEST(FarClock, FollowsTheFarSidesDate) {
  VirtualClock own;
  FarClock far{own};
  EXPECT_EQ(far.now(), own.now());
  far.heard({{"Date", net::to_http_date(own.now() + 3h)}});
  EXPECT_EQ(far.now(), own.now() + 3h);
  own.advance(10s);
  EXPECT_EQ(far.now(), own.now() + 3h);
  far.heard({});
  far.heard({{"Date", "yesterday"}});
  EXPECT_EQ(far.now(), own.now() + 3h);
  far.heard({{"Date", net::to_http_date(own.now())}});
  EXPECT_EQ(far.now(), own.now());
}

}  // namespace

}  // namespace rocca::state
