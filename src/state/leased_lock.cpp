#include "state/leased_lock.hpp"

#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/units.hpp"
#include "state/holder.hpp"

#include <fmt/format.h>

#include <mutex>
#include <utility>

namespace rocca::state {

class LeasedLocks::Held final : public Lock {
 public:
  Held(std::shared_ptr<LockCell> cell, std::string described, Holder holder, Duration lease,
       std::string tag)
      : cell_(std::move(cell)),
        described_(std::move(described)),
        lease_(lease),
        holder_(std::move(holder)),
        tag_(std::move(tag)) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  ~Held() override {
    try {
      give_back();
    } catch (const Error&) {
      // ignored: a destructor cannot throw. The lock expires.
    }
  }

  void renew() override {
    for (int tries = 0; tries < 3; ++tries) {
      const LockCell::Seen over = ours();
      Holder next = *over.holder;
      next.until = cell_->now() + lease_;
      std::optional<std::string> tag;
      try {
        tag = cell_->write(next, over);
        if (!tag) {
          const LockCell::Seen now = cell_->read();
          // Ours with another tag: a renewal whose answer was lost, or one beside this one.
          if (!now.holder || now.holder->id != over.holder->id) lose(now.holder);
          keep(*now.holder, now.tag);
          continue;
        }
      } catch (const Error& error) {
        if (!may_retry(error.fault()) || cell_->now() >= over.holder->until) throw;
        return;  // it is ours until then; the next renewal tries again
      }
      keep(next, *tag);
      return;
    }
    throw Error(Fault::Busy, fmt::format("the lock of {} changes too often", described_));
  }

  Instant until() const {
    const std::lock_guard guard(mutex_);
    return holder_.until;
  }
  const LockCell& cell() const { return *cell_; }
  void need_ours() { ours(); }

 private:
  LockCell::Seen ours() const {
    const std::lock_guard guard(mutex_);
    if (lost_) throw taken_over(described_, by_);
    return {holder_, tag_};
  }

  void keep(Holder holder, std::string tag) {
    const std::lock_guard guard(mutex_);
    holder_ = std::move(holder);
    tag_ = std::move(tag);
  }

  [[noreturn]] void lose(std::optional<Holder> by) {
    const std::lock_guard guard(mutex_);
    lost_ = true;
    by_ = std::move(by);
    throw taken_over(described_, by_);
  }

  void give_back() {
    LockCell::Seen over = ours();
    if (cell_->write(std::nullopt, over)) return;
    const LockCell::Seen now = cell_->read();
    if (now.holder && now.holder->id == over.holder->id) cell_->write(std::nullopt, now);
  }

  std::shared_ptr<LockCell> cell_;
  std::string described_;
  Duration lease_;
  mutable std::mutex mutex_;  // never held across a call to the cell
  Holder holder_;
  std::string tag_;
  bool lost_ = false;
  std::optional<Holder> by_;
};

LeasedLocks::LeasedLocks(std::shared_ptr<LockCell> cell, std::string described)
    : cell_(std::move(cell)), described_(std::move(described)) {}

std::unique_ptr<Lock> LeasedLocks::take(const Holder& holder, bool force) {
  const Duration asked = holder.until - holder.since;
  const Duration lease = asked > Duration{} ? asked : default_lease;
  for (int tries = 0; tries < 3; ++tries) {
    const LockCell::Seen seen = cell_->read();
    // Ours already: an earlier try whose answer was lost.
    const bool ours = seen.holder && seen.holder->id == holder.id;
    if (seen.holder && !ours && !force && cell_->now() <= seen.holder->until + grace)
      throw locked_by(
          described_, *seen.holder,
          fmt::format(
              "wait until that run is over; if it is dead, its lock expires at {} "
              "(`--take-over` does not wait)",
              to_string(std::chrono::floor<std::chrono::seconds>(seen.holder->until + grace) +
                        Duration{})));
    Holder mine = holder;
    mine.since = cell_->now();
    mine.until = mine.since + lease;
    std::optional<std::string> tag;
    try {
      tag = cell_->write(mine, seen);
    } catch (const Error& error) {
      if (error.fault() != Fault::Lost) throw;
      continue;  // the next look shows whether it is ours
    }
    if (!tag) continue;  // somebody was faster
    auto held = std::make_shared<Held>(cell_, described_, std::move(mine), lease, std::move(*tag));
    held_ = held;

    class Handed final : public Lock {
     public:
      explicit Handed(std::shared_ptr<Held> held) : held_(std::move(held)) {}
      void renew() override { held_->renew(); }

     private:
      std::shared_ptr<Held> held_;
    };
    return std::make_unique<Handed>(std::move(held));
  }
  throw Error(Fault::Busy, fmt::format("the lock of {} changes too often", described_))
      .hint("others take it at this moment; try again");
}

std::optional<Holder> LeasedLocks::holder() {
  const LockCell::Seen seen = cell_->read();
  if (!seen.holder || cell_->now() > seen.holder->until + grace) return std::nullopt;
  return seen.holder;
}

void LeasedLocks::need() {
  const auto held = held_.lock();
  if (!held) throw Error(Fault::Bug, fmt::format("{} is written without its lock", described_));
  held->need_ours();
  if (cell_->now() >= held->until()) held->renew();
}

}  // namespace rocca::state
