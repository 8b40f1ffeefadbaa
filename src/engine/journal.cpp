#include "engine/journal.hpp"

#include "base/faults.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rocca::engine {

namespace {

using namespace std::chrono_literals;

// No address looks like these: each has a slash.
constexpr const char* write_call = "journal";
constexpr const char* keep_call = "lock";

constexpr unsigned most_tries = 5;

template <class Body>
std::optional<Error> failure_of(Body&& body) {
  try {
    body();
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(Fault::Bug, error.what());
  }
}

}  // namespace

Journal::Journal(state::State& state, state::Store& store, Runner& runner,
                 std::function<void()> keep_lock, Duration keep_lock_every)
    : state_(state),
      store_(store),
      runner_(runner),
      keep_lock_(std::move(keep_lock)),
      keep_every_(std::max<Duration>(keep_lock_every, 10ms)),
      keep_due_(runner.now() + keep_every_),
      kept_at_(runner.now()) {}

void Journal::add(std::vector<state::Record> records, Then then) {
  if (error_) {
    if (then) then(&*error_);
    return;
  }
  std::move(records.begin(), records.end(), std::back_inserter(pending_));
  if (then) pending_thens_.push_back(std::move(then));
}

void Journal::pump() {
  if (error_) return;
  const Tick now = runner_.now();
  if (!keeping_ && keep_lock_ && now >= keep_due_) keep();
  if (writing_) return;
  if (!batch_.empty() ? !try_again_ || now >= *try_again_ : !pending_.empty()) write();
}

void Journal::write() {
  if (batch_.empty()) {
    batch_ = std::exchange(pending_, {});
    batch_thens_ = std::exchange(pending_thens_, {});
  }
  writing_ = true;
  try_again_.reset();
  runner_.start(
      write_call, [this] { write_failure_ = failure_of([this] { store_.append(batch_); }); },
      Runner::Work::Record);
}

void Journal::keep() {
  keeping_ = true;
  runner_.start(
      keep_call, [this] { keep_failure_ = failure_of(keep_lock_); }, Runner::Work::Record);
}

bool Journal::ended(const std::string& call) {
  if (call != write_call && call != keep_call) return false;
  if (call == write_call) {
    writing_ = false;
    written();
  } else {
    keeping_ = false;
    kept();
  }
  return true;
}

void Journal::written() {
  if (error_) {  // the lock went meanwhile, and everybody was told
    batch_.clear();
    return;
  }
  const std::optional<Error> failure = std::exchange(write_failure_, {});
  if (!failure) {
    for (const state::Record& record : batch_) state::apply(state_, record);
    batch_.clear();
    tries_ = 0;
    for (const Then& then : std::exchange(batch_thens_, {})) then(nullptr);
    return;
  }
  // Records may be written twice without harm, so also an answer that was lost is no reason to
  // stop.
  if (may_retry(failure->fault()) && ++tries_ < most_tries) {
    try_again_ = runner_.now() + Duration{1s} * (1 << (tries_ - 1));
    return;
  }
  Error error = *failure;
  error.during("writing " + store_.describe());
  give_up(std::move(error));
}

void Journal::kept() {
  if (error_) return;
  const std::optional<Error> failure = std::exchange(keep_failure_, {});
  const Tick now = runner_.now();
  if (!failure) {
    kept_at_ = now;
    keep_due_ = now + keep_every_;
    return;
  }
  // A lock outlives two renewals that did not get through; nobody can have taken it yet.
  if (may_retry(failure->fault()) && now - kept_at_ < keep_every_ * 2) {
    keep_due_ = now + keep_every_ / 4;
    return;
  }
  lock_lost_ = true;
  Error error = *failure;
  error.during("keeping the lock of " + store_.describe());
  give_up(std::move(error));
}

void Journal::give_up(Error error) {
  error_ = std::move(error);
  if (!writing_) batch_.clear();  // else another thread reads it
  pending_.clear();
  try_again_.reset();
  std::vector<Then> thens = std::exchange(batch_thens_, {});
  std::move(pending_thens_.begin(), pending_thens_.end(), std::back_inserter(thens));
  pending_thens_.clear();
  for (const Then& then : thens) then(&*error_);
}

void Journal::forget() {
  batch_thens_.clear();
  pending_thens_.clear();
}

std::optional<Tick> Journal::next_wake() const {
  if (error_) return std::nullopt;
  std::optional<Tick> wake;
  if (keep_lock_ && !keeping_) wake = keep_due_;
  if (!writing_ && !batch_.empty() && try_again_ && (!wake || *try_again_ < *wake))
    wake = try_again_;
  return wake;
}

}  // namespace rocca::engine
