#pragma once

#include "base/error.hpp"
#include "lab/wire.hpp"

#include <ucontext.h>

#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace rocca::test {

/// Many callers of one simulated world on one thread: each runs until it waits, then the next. The
/// order follows from the world's events alone, so the same seed gives the same run.
class Fibers final : public lab::Parker {
 private:
  struct Fiber {
    std::function<void()> body;
    std::unique_ptr<char[]> stack;
    ucontext_t context{};
    bool started = false;
  };

 public:
  void start(std::function<void()> body) {
    auto fiber = std::make_unique<Fiber>();
    fiber->body = std::move(body);
    ready_.push_back(fiber.get());
    fibers_.push_back(std::move(fiber));
  }

  /// Until every fiber has ended. Throws what one of them let escape.
  void run(lab::World& world) {
    while (true) {
      while (!ready_.empty()) {
        current_ = ready_.front();
        ready_.pop_front();
        resume(*current_);
        current_ = nullptr;
        if (escaped_) std::rethrow_exception(escaped_);
      }
      if (ended_ == fibers_.size()) return;
      if (!world.step()) throw Error(Fault::Bug, "the world has come to rest and fibers wait");
    }
  }

  void park(lab::World&, lab::Pending& pending) override {
    if (pending.over()) return;
    Fiber* self = current_;
    pending.when_over([this, self] { ready_.push_back(self); });
    wait();
  }

  /// A lane: so many at once, the others in the order in which they came.
  class Lane {
   public:
    Lane(Fibers& fibers, unsigned width) : fibers_(fibers), free_(width) {}
    void enter() {
      if (free_ > 0) {
        --free_;
        return;
      }
      waiting_.push_back(fibers_.current_);
      fibers_.wait();
    }
    void leave() {
      if (waiting_.empty()) {
        ++free_;
        return;
      }
      fibers_.ready_.push_back(waiting_.front());
      waiting_.pop_front();
    }

   private:
    Fibers& fibers_;
    unsigned free_;
    std::deque<Fiber*> waiting_;
  };

 private:
  static constexpr std::size_t stack_size = 256 * 1024;

  void resume(Fiber& fiber) {
    if (!fiber.started) {
      fiber.started = true;
      fiber.stack = std::make_unique<char[]>(stack_size);
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = stack_size;
      fiber.context.uc_link = &scheduler_;
      entering_ = this;
      makecontext(&fiber.context, &Fibers::enter, 0);
    }
    swapcontext(&scheduler_, &fiber.context);
  }

  static void enter() {
    Fibers* self = entering_;
    try {
      self->current_->body();
    } catch (...) {
      self->escaped_ = std::current_exception();
    }
    ++self->ended_;
  }

  void wait() { swapcontext(&current_->context, &scheduler_); }

  static inline Fibers* entering_ = nullptr;  // makecontext hands over no pointers
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::deque<Fiber*> ready_;
  Fiber* current_ = nullptr;
  ucontext_t scheduler_{};
  std::size_t ended_ = 0;
  std::exception_ptr escaped_;
};

}  // namespace rocca::test
