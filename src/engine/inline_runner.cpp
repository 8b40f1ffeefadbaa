#include "base/error.hpp"
#include "base/strings.hpp"
#include "engine/fiber.hpp"
#include "engine/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <utility>

namespace rocca::engine {

namespace {

struct Queue;

struct Call {
  explicit Call(std::size_t stack) : fiber(stack) {}
  Queue* queue = nullptr;  // nullptr: its run is gone, and it never goes on
  std::string name;
  Fiber fiber;
  std::uint64_t parked = 0;
};

/// What is kept for one run.
struct Queue {
  std::vector<std::string> ended;
  std::atomic<bool> nudged = false;
  Call* waiter = nullptr;  // the call that waits for calls of this run
  std::optional<Tick> until;
};

/// The fibers of all runs.
class Core {
 public:
  Core(const Clock& clock, InlineOptions options)
      : clock_(clock), options_(std::move(options)), reservations_(clock) {}

  const Clock& clock() const { return clock_; }
  Limiter& limiter() { return limiter_; }
  Reservations& reservations() { return reservations_; }
  bool inside() const noexcept { return current_ != nullptr; }

  void add(Queue& queue) { queues_.push_back(&queue); }
  void remove(Queue& queue) {
    std::erase(queues_, &queue);
    for (Call& call : calls_)
      if (call.queue == &queue) call.queue = nullptr;
    std::erase_if(ready_, [](const Call* call) { return call->queue == nullptr; });
  }

  void start(Queue& queue, std::string name, std::function<void()> call) {
    Call& made = free_call();
    made.queue = &queue;
    made.name = std::move(name);
    made.fiber.assign(std::move(call));
    ready_.push_back(&made);
  }

  std::vector<std::string> wait_until(Queue& queue, std::optional<Tick> until) {
    if (inside()) return wait_parked(queue, until);
    while (true) {
      while (!ready_.empty()) {
        Call& call = *ready_.front();
        ready_.pop_front();
        run(call);
      }
      if (!queue.ended.empty()) return std::exchange(queue.ended, {});
      if (queue.nudged.exchange(false)) return {};
      if (until && clock_.tick() >= *until) return {};
      if (wake_waiters()) continue;
      if (!options_.advance || !options_.advance(earliest(until))) come_to_rest();
    }
  }

  void park(const std::function<void(std::function<void()> wake)>& arrange) {
    if (!inside()) throw Error(Fault::Bug, "only a call of this runner can be parked");
    Call& self = *current_;
    const std::uint64_t ticket = ++self.parked;
    arrange([this, &self, ticket, alive = std::weak_ptr<Alive>(alive_)] {
      if (alive.expired()) return;        // the world goes on without this runner
      if (self.parked != ticket) return;  // a wake of an earlier time
      if (self.queue == nullptr) return;  // its run is gone
      ++self.parked;
      ready_.push_back(&self);
    });
    self.fiber.yield();
  }

 private:
  struct Alive {};

  /// Inside a call, which is the run itself: it parks until a call of its own has ended.
  std::vector<std::string> wait_parked(Queue& queue, std::optional<Tick> until) {
    Call& self = *current_;
    if (self.queue == &queue) throw Error(Fault::Bug, "a call waits for calls");
    while (true) {
      if (!queue.ended.empty()) return std::exchange(queue.ended, {});
      if (queue.nudged.exchange(false)) return {};
      if (until && clock_.tick() >= *until) return {};
      queue.waiter = &self;
      queue.until = until;
      self.fiber.yield();
    }
  }

  bool wake(Queue& queue) {
    Call* waiter = std::exchange(queue.waiter, nullptr);
    if (waiter == nullptr || waiter->queue == nullptr) return false;
    ready_.push_back(waiter);
    return true;
  }

  /// Those whose time has come and those that were nudged.
  bool wake_waiters() {
    bool any = false;
    for (Queue* queue : queues_)
      if (queue->waiter != nullptr &&
          (queue->nudged || (queue->until && clock_.tick() >= *queue->until)))
        any = wake(*queue) || any;
    return any;
  }

  std::optional<Tick> earliest(std::optional<Tick> until) const {
    for (const Queue* queue : queues_)
      if (queue->waiter != nullptr && queue->until && (!until || *queue->until < *until))
        until = queue->until;
    return until;
  }

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
    // It may have ended its own run's queue, if it was the last to use it.
    if (Queue* queue = std::exchange(call.queue, nullptr)) {
      queue->ended.push_back(std::move(call.name));
      wake(*queue);
    }
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
  Limiter limiter_;
  Reservations reservations_;
  std::vector<Queue*> queues_;
  std::deque<Call> calls_;  // never move: fibers know where they are
  std::vector<Call*> free_;
  std::deque<Call*> ready_;
  Call* current_ = nullptr;
  std::shared_ptr<Alive> alive_ = std::make_shared<Alive>();
};

/// A further run on the same fibers.
class InlineRun final : public Runner {
 public:
  explicit InlineRun(std::shared_ptr<Core> core) : core_(std::move(core)) { core_->add(queue_); }
  ~InlineRun() override { core_->remove(queue_); }
  InlineRun(const InlineRun&) = delete;
  InlineRun& operator=(const InlineRun&) = delete;

  Tick now() const override { return core_->clock().tick(); }
  Instant clock() const override { return core_->clock().now(); }
  void nudge() override { queue_.nudged = true; }
  Limiter& limiter() override { return core_->limiter(); }
  Reservations& reservations() override { return core_->reservations(); }
  std::vector<std::string> wait_until(std::optional<Tick> until) override {
    return core_->wait_until(queue_, until);
  }

 private:
  void begin(std::string name, std::function<void()> call, Work) override {
    core_->start(queue_, std::move(name), std::move(call));
  }

  std::shared_ptr<Core> core_;
  Queue queue_;
};

class Inline final : public InlineRunner {
 public:
  Inline(const Clock& clock, InlineOptions options)
      : core_(std::make_shared<Core>(clock, std::move(options))), run_(core_) {}

  Tick now() const override { return run_.now(); }
  Instant clock() const override { return run_.clock(); }
  void nudge() override { run_.nudge(); }
  Limiter& limiter() override { return core_->limiter(); }
  Reservations& reservations() override { return core_->reservations(); }
  bool inside() const noexcept override { return core_->inside(); }
  std::vector<std::string> wait_until(std::optional<Tick> until) override {
    return run_.wait_until(until);
  }
  void park(const std::function<void(std::function<void()> wake)>& arrange) override {
    core_->park(arrange);
  }
  std::unique_ptr<Runner> open() override { return std::make_unique<InlineRun>(core_); }

 private:
  void begin(std::string name, std::function<void()> call, Work work) override {
    run_.start(std::move(name), std::move(call), work);
  }

  std::shared_ptr<Core> core_;
  InlineRun run_;
};

}  // namespace

std::unique_ptr<InlineRunner> inline_runner(const Clock& clock, InlineOptions options) {
  return std::make_unique<Inline>(clock, std::move(options));
}

}  // namespace rocca::engine
