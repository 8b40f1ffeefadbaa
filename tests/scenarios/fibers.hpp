#pragma once

#include "base/error.hpp"
#include "support/fiber_parker.hpp"

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace rocca::test {

/// Many callers of one simulated world on one thread: each runs until it waits, then the next. The
/// order follows from the world's events alone, so the same seed gives the same run.
class Fibers final : public lab::Parker {
 public:
  explicit Fibers(lab::World& world)
      : runner_(engine::inline_runner(world.clock(), on(world))), parker_(*runner_) {}

  void start(std::function<void()> body) {
    ++running_;
    runner_->start("caller", [this, body = std::move(body)] {
      try {
        body();
      } catch (...) {
        escaped_ = std::current_exception();
      }
    });
  }

  /// Until every caller has ended. Throws what one of them let escape.
  void run() {
    while (running_ > 0) {
      running_ -= runner_->wait_until({}).size();
      if (escaped_) std::rethrow_exception(escaped_);
    }
  }

  void park(lab::World& world, lab::Pending& pending) override { parker_.park(world, pending); }

  /// A lane: so many at once, the others in the order in which they came.
  class Lane {
   public:
    Lane(Fibers& fibers, unsigned width) : fibers_(fibers), free_(width) {}
    void enter() {
      if (free_ > 0) {
        --free_;
        return;
      }
      fibers_.runner_->park(
          [&](std::function<void()> wake) { waiting_.push_back(std::move(wake)); });
    }
    void leave() {
      if (waiting_.empty()) {
        ++free_;
        return;
      }
      const std::function<void()> wake = std::move(waiting_.front());
      waiting_.pop_front();
      wake();
    }

   private:
    Fibers& fibers_;
    unsigned free_;
    std::deque<std::function<void()>> waiting_;
  };

 private:
  std::unique_ptr<engine::InlineRunner> runner_;
  FiberParker parker_;
  std::size_t running_ = 0;
  std::exception_ptr escaped_;
};

}  // namespace rocca::test
