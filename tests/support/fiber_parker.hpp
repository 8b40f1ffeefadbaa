#pragma once

#include "engine/runner.hpp"
#include "lab/sim/wire.hpp"

#include <functional>
#include <optional>
#include <utility>

namespace rocca::test {

/// Lets other calls of a runner go on while one waits for the lab; outside of any call, the caller
/// runs the lab's events itself.
class FiberParker final : public lab::Parker {
 public:
  FiberParker() = default;
  explicit FiberParker(engine::Fibers& fibers) : fibers_(&fibers) {}
  /// From now on these; nothing: nobody's.
  void use(engine::Fibers* fibers) { fibers_ = fibers; }

  void park(lab::World& world, lab::Pending& pending) override {
    if (fibers_ == nullptr || !fibers_->inside()) {
      inline_.park(world, pending);
      return;
    }
    if (pending.over()) return;
    fibers_->park([&](std::function<void()> wake) { pending.when_over(std::move(wake)); });
  }

 private:
  engine::Fibers* fibers_ = nullptr;
  lab::InlineParker inline_;
};

/// For engine::inline_runner: the world outside is this one.
inline engine::InlineOptions on(lab::World& world) {
  engine::InlineOptions options;
  options.advance = [&world](std::optional<Tick> until) {
    const std::optional<Instant> due = world.next_due();
    if (until) {
      const Instant limit = world.now() + (*until - world.clock().tick());
      if (!due || *due > limit) {
        world.run_until(limit);
        return true;
      }
    }
    return due && world.step();
  };
  return options;
}

}  // namespace rocca::test
