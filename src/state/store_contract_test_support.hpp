#pragma once

// What every Store promises, whatever it stands on. A test program includes this once and
// instantiates StoreContract with its places.

#include "base/error.hpp"
#include "base/strings.hpp"
#include "state/journaled_store.hpp"
#include "state/store.hpp"
#include "state/store_lifecycle_test_support.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rocca::state::test {

using namespace std::chrono_literals;

/// One place where a state can lie, and what can go wrong on the way to it.
class Place {
 public:
  virtual ~Place() = default;
  /// The same place as another process sees it.
  virtual std::unique_ptr<Store> open() = 0;
  virtual Instant now() = 0;
  virtual void advance(Duration by) = 0;
  /// The next write happens, but nobody is told.
  virtual void lose_next_answer() = 0;
  /// The next write does not happen, and nobody is told either.
  virtual void lose_next_request() = 0;
  /// The next write happens, nobody is told, and nothing can be reached any more until light().
  virtual void go_dark_after_next_write() = 0;
  virtual void light() = 0;
  /// Bytes sent to be written since the beginning.
  virtual std::uint64_t written() = 0;
  /// Can it add to a journal, or is every write a whole one?
  virtual bool adds() const { return true; }
  /// What becomes of a lock whose holder's process is killed.
  enum class Expiry { AtOnce, InTime, Never };
  virtual Expiry expiry() const { return Expiry::InTime; }
  /// The process dies at this edge of what it does to the place, counted from here: 0 is before its
  /// first act, 1 after it and before its answer, 2 before its second…; nothing reaches the place
  /// any more until revive(), which tells whether it came to that.
  virtual void die_at(std::uint64_t edge) = 0;
  virtual bool revive() = 0;
  /// The process that held the lock is killed.
  virtual void kill(std::unique_ptr<Lock> lock) = 0;
};

struct NamedPlace {
  std::string name;
  std::function<std::unique_ptr<Place>()> make;
};

inline Fault fault_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.fault();
  }
  ADD_FAILURE() << "no error came";
  return Fault::Bug;
}

/// Serials are the Store's own business where a test speaks of meaning.
inline State without_serial(State state) {
  state.serial = 0;
  return state;
}

inline State with(State state, const std::vector<Record>& records) {
  for (const Record& record : records) apply(state, record);
  return without_serial(std::move(state));
}

class StoreContract : public testing::TestWithParam<NamedPlace> {
 protected:
  Holder holder(std::string id, Duration lease = 60s) {
    return {id, id + "@somewhere", "up", place->now(), place->now() + lease};
  }
  std::optional<State> stored() {
    auto found = place->open()->load();
    if (found) found = without_serial(*found);
    return found;
  }

  std::unique_ptr<Place> place = GetParam().make();
};

TEST_P(StoreContract, LoadsNothingWhereNothingIs) {
  EXPECT_EQ(place->open()->load(), std::nullopt);
  EXPECT_EQ(place->open()->holder(), std::nullopt);
}

TEST_P(StoreContract, GivesBackWhatWasWritten) {
  const auto store = place->open();
  const auto lock = store->lock(holder("a"));
  EXPECT_EQ(store->load(), std::nullopt);
  State state = fresh();
  apply(state, settled("vm/cp-1", "101"));
  state.bootstrapped = Instant{1'750'000'123s};
  state.durations["vm/create"] = 42s;
  state.notes["ignore/vm/cp-1/cores"] = "8 \"ö\"\n";
  store->replace(state);
  const auto found = place->open()->load();
  ASSERT_TRUE(found);
  EXPECT_EQ(without_serial(*found), without_serial(state));
  EXPECT_GT(found->serial, 0u);
}

TEST_P(StoreContract, RemembersATeardownThatBegan) {
  const auto store = place->open();
  const auto lock = store->lock(holder("a"));
  store->replace(fresh());
  const Teardown teardown{Instant{1'750'000'200s}, {"cp-1", "cp-2"}, true};
  const std::vector<Record> begun{teardown_begun(teardown)};
  store->append(begun);
  const auto journaled = place->open()->load();
  ASSERT_TRUE(journaled);
  EXPECT_EQ(journaled->teardown, teardown);
  store->replace(*journaled);
  EXPECT_EQ(place->open()->load()->teardown, teardown);
  const std::vector<Record> kept{teardown_cancelled(Instant{1'750'000'201s})};
  store->append(kept);
  EXPECT_EQ(place->open()->load()->teardown, std::nullopt);
}

TEST_P(StoreContract, AppliesRecordsInOrderAndCountsWrites) {
  const auto store = place->open();
  const auto lock = store->lock(holder("a"));
  store->replace(fresh());
  const std::uint64_t first = place->open()->load()->serial;
  const std::vector<Record> one{settled("vm/cp-1", "101"), settled("vm/cp-2", "102")};
  Record gone;
  gone.kind = Record::Kind::Gone;
  gone.name = "vm/cp-1";
  const std::vector<Record> two{gone, note("k", "v")};
  store->append(one);
  store->append(two);
  const auto found = place->open()->load();
  EXPECT_EQ(without_serial(*found), with(with(fresh(), one), two));
  EXPECT_EQ(found->serial, first + 2);
  // Another process goes on where this one stopped.
  const auto other = place->open();
  other->load();
  const auto taken = other->lock(holder("b"), /*force=*/true);
  other->append(std::vector{note("k", "w")});
  EXPECT_EQ(stored()->notes.at("k"), "w");
  EXPECT_EQ(place->open()->load()->serial, first + 3);
}

TEST_P(StoreContract, ReplaceEmptiesTheJournal) {
  const auto store = place->open();
  const auto lock = store->lock(holder("a"));
  store->replace(fresh());
  store->append(std::vector{settled("vm/cp-1", "101"), note("k", "v")});
  store->replace(fresh());  // without the item
  EXPECT_EQ(stored(), without_serial(fresh()));
  store->append(std::vector{note("k", "w")});
  EXPECT_EQ(stored(), with(fresh(), {note("k", "w")}));
}

TEST_P(StoreContract, NothingToAddIsNoWrite) {
  const auto store = place->open();
  const auto lock = store->lock(holder("a"));
  store->replace(fresh());
  const std::uint64_t before = place->written();
  store->append({});
  EXPECT_EQ(place->written(), before);
}

TEST_P(StoreContract, ClearForgetsEverythingAndALineageMayBegin) {
  const auto store = place->open();
  const auto lock = store->lock(holder("a"));
  store->replace(fresh("one"));
  store->append(std::vector{note("k", "v")});
  store->clear();
  EXPECT_EQ(stored(), std::nullopt);
  store->replace(fresh("two"));
  EXPECT_EQ(stored()->lineage, "two");
  EXPECT_TRUE(stored()->notes.empty());
}

TEST_P(StoreContract, RefusesAnotherLineage) {
  const auto store = place->open();
  const auto lock = store->lock(holder("a"));
  store->replace(fresh("one"));
  EXPECT_EQ(fault_of([&] { store->replace(fresh("two")); }), Fault::Conflict);
  EXPECT_EQ(stored()->lineage, "one");
}

TEST_P(StoreContract, RefusesToContinueWhatIsNotThere) {
  const auto store = place->open();
  const auto lock = store->lock(holder("a"));
  EXPECT_EQ(fault_of([&] { store->append(std::vector{note("k", "v")}); }), Fault::Conflict);
  EXPECT_EQ(stored(), std::nullopt);
}

TEST_P(StoreContract, RefusesToReplaceWhatItHasNotRead) {
  {
    const auto store = place->open();
    const auto lock = store->lock(holder("a"));
    store->replace(fresh());
  }
  const auto store = place->open();
  const auto lock = store->lock(holder("b"));
  EXPECT_EQ(fault_of([&] { store->replace(fresh()); }), Fault::Conflict);
}

TEST_P(StoreContract, WritesNeedTheLock) {
  const auto store = place->open();
  EXPECT_EQ(fault_of([&] { store->replace(fresh()); }), Fault::Bug);
  { const auto lock = store->lock(holder("a")); }
  EXPECT_EQ(fault_of([&] { store->replace(fresh()); }), Fault::Bug);
  EXPECT_EQ(stored(), std::nullopt);
}

struct Meanwhile {
  std::string name;
  std::function<void(Store&)> act;
};

TEST_P(StoreContract, RefusesWhenSomebodyElseWroteMeanwhile) {
  const std::vector<Meanwhile> cases{
      {"appended", [](Store& store) { store.append(std::vector{note("theirs", "1")}); }},
      {"replaced", [](Store& store) { store.replace(with(fresh(), {note("theirs", "1")})); }},
      {"cleared and began anew", [](Store& store) {
         store.clear();
         store.replace(with(fresh("anew"), {note("theirs", "1")}));
       }}};
  for (const Meanwhile& meanwhile : cases) {
    for (const bool with_journal : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, journal {}", meanwhile.name, with_journal));
      place = GetParam().make();
      const auto ours = place->open();
      {
        const auto lock = ours->lock(holder("a"));
        ours->replace(fresh());
        if (with_journal) ours->append(std::vector{note("before", "1")});
      }
      {
        const auto theirs = place->open();
        const auto lock = theirs->lock(holder("b"));
        theirs->load();
        meanwhile.act(*theirs);
      }
      const auto lock = ours->lock(holder("a2"));
      const auto kept = stored();
      EXPECT_EQ(fault_of([&] { ours->append(std::vector{note("ours", "1")}); }), Fault::Conflict);
      EXPECT_EQ(fault_of([&] { ours->replace(fresh()); }), Fault::Conflict);
      EXPECT_EQ(stored(), kept);
      // Having looked, it goes on.
      ours->load();
      ours->append(std::vector{note("ours", "1")});
      EXPECT_EQ(stored()->notes.at("theirs"), "1");
      EXPECT_EQ(stored()->notes.at("ours"), "1");
    }
  }
}

TEST_P(StoreContract, AStateOfTheFutureIsRefusedAndLeftAlone) {
  const auto newer = place->open();
  auto lock = newer->lock(holder("a"));
  newer->replace(with(fresh(), {note("k", "v")}));
  // The next format, as a newer rocca would write it over this one; sealed or not, it says so.
  Shelf& shelf = dynamic_cast<JournaledStore&>(*newer).shelf();
  const std::string known = shelf.read().state.value();
  const std::string number = fmt::format("\"format\": {}", State::format);
  ASSERT_THAT(known, testing::HasSubstr(number + ","));
  const std::string future =
      replace_all(known, number + ",", fmt::format("\"format\": {},", State::format + 1));
  shelf.write(future);
  lock.reset();
  const auto older = place->open();
  const auto taken = older->lock(holder("b"));
  const std::vector<Meanwhile> acts{{"load", [](Store& store) { store.load(); }},
                                    {"replace", [](Store& store) { store.replace(fresh()); }}};
  for (const Meanwhile& act : acts) {
    SCOPED_TRACE(act.name);
    try {
      act.act(*older);
      ADD_FAILURE() << "was taken for one of ours";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Refused);
      EXPECT_THAT(error.message(), testing::HasSubstr(fmt::format(
                                       "was written by a newer rocca: its format is {}, this one "
                                       "knows up to {}",
                                       State::format + 1, State::format)));
      EXPECT_THAT(error.message(), testing::StartsWith(older->describe()));
      EXPECT_THAT(error.hint(), testing::HasSubstr("use that version"));
    }
  }
  EXPECT_EQ(fault_of([&] { older->append(std::vector{note("k", "w")}); }), Fault::Conflict);
  EXPECT_EQ(dynamic_cast<JournaledStore&>(*place->open()).shelf().read().state, future);
}

TEST_P(StoreContract, ALockIsHeldByOne) {
  const auto first = place->open();
  const auto second = place->open();
  auto lock = first->lock(holder("a"));
  ASSERT_TRUE(second->holder());
  EXPECT_EQ(second->holder()->who, "a@somewhere");
  EXPECT_EQ(second->holder()->doing, "up");
  try {
    second->lock(holder("b"));
    ADD_FAILURE() << "taken twice";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Locked);
    EXPECT_THAT(error.message(), testing::HasSubstr("a@somewhere (up)"));
    EXPECT_FALSE(error.hint().empty());
  }
  lock->renew();  // the other's try did no harm
  lock.reset();
  EXPECT_EQ(second->holder(), std::nullopt);
  const auto next = second->lock(holder("b"));
  EXPECT_EQ(first->holder()->who, "b@somewhere");
}

TEST_P(StoreContract, ForceTakesALiveLockAndTheOldOneKnows) {
  const auto first = place->open();
  const auto second = place->open();
  auto lost = first->lock(holder("a"));
  first->replace(fresh());
  const auto lock = second->lock(holder("b"), /*force=*/true);
  EXPECT_EQ(first->holder()->who, "b@somewhere");
  EXPECT_EQ(fault_of([&] { lost->renew(); }), Fault::Locked);
  EXPECT_EQ(fault_of([&] { first->append(std::vector{note("k", "v")}); }), Fault::Locked);
  EXPECT_EQ(fault_of([&] { first->replace(fresh()); }), Fault::Locked);
  EXPECT_EQ(fault_of([&] { first->clear(); }), Fault::Locked);
  lost.reset();  // giving back what is not ours any more takes nothing from its holder
  EXPECT_EQ(first->holder()->who, "b@somewhere");
  second->load();
  second->append(std::vector{note("k", "w")});
  lock->renew();
  EXPECT_EQ(stored()->notes.at("k"), "w");
}

TEST_P(StoreContract, ADeadHoldersLockIsTakenOverWhenItsTimeIsOver) {
  const auto first = place->open();
  const auto second = place->open();
  auto lock = first->lock(holder("a", 60s));
  place->advance(40s);
  lock->renew();
  place->advance(40s);  // 80 s after the beginning, 40 s after the renewal: alive
  EXPECT_EQ(fault_of([&] { second->lock(holder("b")); }), Fault::Locked);
  place->kill(std::move(lock));
  const bool at_once = place->expiry() == Place::Expiry::AtOnce;
  const bool never = place->expiry() == Place::Expiry::Never;
  if (!at_once) {
    EXPECT_EQ(fault_of([&] { second->lock(holder("b")); }), Fault::Locked);
    place->advance(120s);
  }
  if (never) {
    EXPECT_EQ(fault_of([&] { second->lock(holder("b")); }), Fault::Locked);
  } else {
    EXPECT_EQ(second->holder(), std::nullopt);
  }
  const auto taken = second->lock(holder("b"), /*force=*/never);
  EXPECT_EQ(second->holder()->who, "b@somewhere");
  second->replace(fresh());
}

TEST_P(StoreContract, WhoSleptPastItsTimeFindsOutBeforeItWrites) {
  const auto first = place->open();
  const auto second = place->open();
  const auto lost = first->lock(holder("a", 60s));
  first->replace(fresh());
  place->advance(10min);                              // a laptop's lid
  first->append(std::vector{note("mine", "still")});  // nobody took it: it is renewed on the way
  EXPECT_EQ(fault_of([&] { second->lock(holder("b")); }), Fault::Locked);
  place->advance(10min);
  if (place->expiry() != Place::Expiry::InTime) {
    EXPECT_EQ(fault_of([&] { second->lock(holder("b")); }), Fault::Locked);
    first->append(std::vector{note("mine", "still")});
    return;
  }
  const auto lock = second->lock(holder("b", 60s));
  EXPECT_EQ(fault_of([&] { first->append(std::vector{note("mine", "no")}); }), Fault::Locked);
  EXPECT_EQ(fault_of([&] { first->append(std::vector{note("mine", "no")}); }), Fault::Locked);
  EXPECT_EQ(stored()->notes.at("mine"), "still");
}

TEST_P(StoreContract, AWriteWhoseAnswerWasLostIsNeitherDoubledNorRefused) {
  const auto store = place->open();
  const auto lock = store->lock(holder("a"));
  store->replace(fresh());
  const std::vector<Record> first{note("a", "1"), settled("vm/cp-1", "101")};
  const std::vector<Record> rest{note("b", "2")};
  const std::uint64_t before = place->open()->load()->serial;
  for (const bool happened : {true, false}) {
    SCOPED_TRACE(happened);
    happened ? place->lose_next_answer() : place->lose_next_request();
    std::vector<Record> next = first;
    try {
      store->append(first);
      next.clear();  // the store has looked by itself
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Lost);
    }
    next.insert(next.end(), rest.begin(), rest.end());
    store->append(next);
    EXPECT_EQ(stored(), with(with(fresh(), first), rest));
    store->append(std::vector{note("c", happened ? "3" : "4")});
    EXPECT_EQ(stored()->notes.at("c"), happened ? "3" : "4");
    store->replace(fresh());
  }
  EXPECT_LE(place->open()->load()->serial, before + 8);
}

TEST_P(StoreContract, WhatCouldNotBeLookedAfterAtOnceIsLookedAfterLater) {
  const auto store = place->open();
  const auto lock = store->lock(holder("a"));
  store->replace(fresh());
  const std::uint64_t before = place->open()->load()->serial;
  const std::vector<Record> first{note("a", "1"), settled("vm/cp-1", "101")};
  place->go_dark_after_next_write();
  EXPECT_EQ(fault_of([&] { store->append(first); }), Fault::Lost);
  EXPECT_NE(fault_of([&] { store->append(first); }), Fault::Conflict);  // still dark
  place->light();
  store->append(first);  // it was written: nothing is left to do
  EXPECT_EQ(place->open()->load()->serial, before + 1);
  place->go_dark_after_next_write();
  EXPECT_EQ(fault_of([&] { store->append(std::vector{note("b", "2")}); }), Fault::Lost);
  place->light();
  store->append(std::vector{note("c", "3")});  // the caller may also have given up on it
  EXPECT_EQ(stored(), with(with(fresh(), first), {note("b", "2"), note("c", "3")}));
  EXPECT_EQ(place->open()->load()->serial, before + 3);
}

TEST_P(StoreContract, AWholeWriteWhoseAnswerWasLostIsFound) {
  const auto store = place->open();
  const auto lock = store->lock(holder("a"));
  for (const bool happened : {true, false}) {
    for (const char* value : {"1", "2"}) {
      SCOPED_TRACE(fmt::format("{} {}", happened, value));
      const State wanted = with(fresh(), {note("k", value), note("h", happened ? "y" : "n")});
      happened ? place->lose_next_answer() : place->lose_next_request();
      try {
        store->replace(wanted);
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::Lost);
        store->replace(wanted);
      }
      EXPECT_EQ(stored(), wanted);
      store->append(std::vector{note("after", "1")});
      EXPECT_EQ(stored(), with(wanted, {note("after", "1")}));
    }
  }
}

TEST_P(StoreContract, AKilledRunIsGoneOnWithWhereverItDied) {
  std::uint64_t edge = 0;
  for (bool died = true; died; ++edge) {
    SCOPED_TRACE(edge);
    ASSERT_LT(edge, 500u) << "it never came to its end";
    place = GetParam().make();
    int done = 0;
    {
      const auto store = place->open();
      place->die_at(edge);
      try {
        live(*store, holder("a"), done);
      } catch (const Error& error) {
        EXPECT_NE(error.fault(), Fault::Bug) << error.message();
      }
    }
    died = place->revive();
    const bool never = place->expiry() == Place::Expiry::Never;
    if (place->expiry() == Place::Expiry::InTime) place->advance(5min);
    const auto store = place->open();
    const auto lock = store->lock(holder("b"), /*force=*/never);
    const auto found = store->load();
    EXPECT_THAT(possible(done),
                testing::Contains(found ? std::optional(found->notes) : std::nullopt));
    if (!found) store->replace(fresh());
    store->append(std::vector{note("next", "1")});
    store->append(std::vector{note("next", "2")});
    Fields wanted = found ? found->notes : Fields{};
    wanted["next"] = "2";
    EXPECT_EQ(stored()->notes, wanted);
  }
  EXPECT_GT(edge, 15u);
  RecordProperty("edges", static_cast<int>(edge));
}

TEST_P(StoreContract, AStepOfABigClusterDoesNotRewriteTheState) {
  const auto store = place->open();
  const auto lock = store->lock(holder("a"));
  State big = fresh();
  for (int i = 0; i < 1000; ++i)
    apply(big, settled(fmt::format("vm/node-{}", i), std::to_string(1000 + i)));
  store->replace(big);
  const std::size_t size = to_text(big).size();
  if (!place->adds()) {
    const std::uint64_t before = place->written();
    std::vector<Record> batch;
    for (int i = 0; i < 50; ++i) batch.push_back(note(std::to_string(i), "x"));
    store->append(batch);
    EXPECT_LT(place->written() - before, size * 2) << "one write however many they are";
    EXPECT_EQ(stored(), with(big, batch));
    return;
  }
  State wanted = big;
  const std::uint64_t before = place->written();
  store->append(std::vector{settled("vm/node-7", "7")});
  apply(wanted, settled("vm/node-7", "7"));
  EXPECT_LT(place->written() - before, 4096u);
  for (int i = 0; i < 300; ++i) {
    const Record record = settled(fmt::format("vm/node-{}", i), std::to_string(2000 + i));
    store->append(std::span(&record, 1));
    apply(wanted, record);
  }
  EXPECT_LT(place->written() - before, size * 3 + 301 * 4096) << "folded now and then, not always";
  EXPECT_EQ(stored(), without_serial(wanted));
}

}  // namespace rocca::state::test
