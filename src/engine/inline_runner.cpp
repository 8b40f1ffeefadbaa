#include "base/error.hpp"
#include "base/strings.hpp"
#include "engine/fiber.hpp"
#include "engine/runner.hpp"

#include <fmt/format.h>

#include <atomic>
#include <deque>
#include <memory>
#include <utility>

namespace rocca::engine {

namespace {

class Inline final : public InlineRunner {
 public:
  Inline(const Clock& clock, InlineOptions options) : clock_(clock), options_(std::move(options)) {}

  Tick now() const override { return clock_.tick(); }
  Instant clock() const override { return clock_.now(); }
  void nudge() override { nudged_ = true; }
  bool inside() const noexcept override { return current_ != nullptr; }

  void start(std::string name, std::function<void()> call) override {
    Call& made = free_call();
    made.name = std::move(name);
    made.fiber.assign(std::move(call));
    ready_.push_back(&made);
  }

  std::vector<std::string> wait_until(std::optional<Tick> until) override {
    if (inside()) throw Error(Fault::Bug, "a call waits for calls");
    while (true) {
      while (!ready_.empty()) {
        Call& call = *ready_.front();
        ready_.pop_front();
        run(call);
      }
      if (!ended_.empty()) return std::exchange(ended_, {});
      if (nudged_.exchange(false)) return {};
      if (until && clock_.tick() >= *until) return {};
      if (!options_.advance || !options_.advance(until)) come_to_rest();
    }
  }

  void park(const std::function<void(std::function<void()> wake)>& arrange) override {
    if (!inside()) throw Error(Fault::Bug, "only a call of this runner can be parked");
    Call& self = *current_;
    const std::uint64_t ticket = ++self.parked;
    arrange([this, &self, ticket, alive = std::weak_ptr<Alive>(alive_)] {
      if (alive.expired()) return;        // the world goes on without this runner
      if (self.parked != ticket) return;  // a wake of an earlier time
      ++self.parked;
      ready_.push_back(&self);
    });
    self.fiber.yield();
  }

 private:
  struct Alive {};
  struct Call {
    explicit Call(std::size_t stack) : fiber(stack) {}
    std::string name;
    Fiber fiber;
    std::uint64_t parked = 0;
  };

  Call& free_call() {
    if (free_.empty()) {
      calls_.emplace_back(options_.stack);
      return calls_.back();
    }
    Call& call = *free_.back();  // the last one used: its stack is warm
    free_.pop_back();
    return call;
  }

  void run(Call& call) {
    current_ = &call;
    call.fiber.resume();
    current_ = nullptr;
    if (!call.fiber.idle()) return;
    ended_.push_back(std::move(call.name));
    free_.push_back(&call);
  }

  [[noreturn]] void come_to_rest() const {
    std::vector<std::string> names;
    for (const Call& call : calls_)
      if (!call.fiber.idle()) names.push_back(call.name);
    throw Error(Fault::Bug, names.empty()
                                ? std::string("nothing runs and nothing will ever happen")
                                : fmt::format("the world has come to rest, and {} wait for it",
                                              enumerate(names)));
  }

  const Clock& clock_;
  InlineOptions options_;
  std::deque<Call> calls_;  // never move: fibers know where they are
  std::vector<Call*> free_;
  std::deque<Call*> ready_;
  std::vector<std::string> ended_;
  Call* current_ = nullptr;
  std::atomic<bool> nudged_ = false;
  std::shared_ptr<Alive> alive_ = std::make_shared<Alive>();
};

}  // namespace

std::unique_ptr<InlineRunner> inline_runner(const Clock& clock, InlineOptions options) {
  return std::make_unique<Inline>(clock, std::move(options));
}

}  // namespace rocca::engine
