#include "lab/sim/world.hpp"

#include "lab/sim/network.hpp"

namespace rocca::lab {

Signal::~Signal() {
  for (detail::Waiting* waiting : waiting_) {
    waiting->signal_ = nullptr;
    waiting->queued_ = false;
  }
}

void Signal::wake_one() {
  if (!waiting_.empty()) waiting_.front()->wake(Woke::Signalled);
}

void Signal::wake_all() {
  while (!waiting_.empty()) waiting_.front()->wake(Woke::Signalled);
}

Interrupt::~Interrupt() {
  if (waiting_ != nullptr) waiting_->interrupt_ = nullptr;
}

void Interrupt::raise(std::string reason) {
  if (!reason_) reason_ = std::move(reason);
  if (waiting_ != nullptr) waiting_->wake(Woke::Signalled);
}

namespace detail {

void Waiting::await_suspend(std::coroutine_handle<> self) {
  self_ = self;
  if (signal_ != nullptr) {
    signal_->waiting_.push_back(this);
    queued_ = true;
  }
  if (deadline_)
    timer_ = world_.at(*deadline_, [this] {
      timer_.reset();
      wake(Woke::TimedOut);
    });
  if (interrupt_ != nullptr) interrupt_->waiting_ = this;
}

// Through the queue and never at once: who wakes is in the middle of something.
void Waiting::wake(Woke how) {
  leave();
  how_ = how;
  timer_ = world_.at(world_.now(), [this] {
    timer_.reset();
    self_.resume();
  });
}

void Waiting::leave() noexcept {
  if (queued_) {
    signal_->waiting_.remove(this);
    queued_ = false;
  }
  if (timer_) {
    world_.cancel(*timer_);
    timer_.reset();
  }
  if (interrupt_ != nullptr && interrupt_->waiting_ == this) interrupt_->waiting_ = nullptr;
}

Woke Waiting::await_resume() {
  if (interrupt_ != nullptr && interrupt_->reason_) throw Interrupted{*interrupt_->reason_};
  return how_;
}

}  // namespace detail

void Trace::add(Instant when, std::string_view what) {
  constexpr std::uint64_t prime = 1099511628211ull;
  const auto mix = [&](unsigned char byte) { hash_ = (hash_ ^ byte) * prime; };
  const std::string time = std::to_string(when.time_since_epoch().count());
  for (const char c : time) mix(static_cast<unsigned char>(c));
  mix(' ');
  for (const char c : what) mix(static_cast<unsigned char>(c));
  mix('\n');
  ++count_;
  if (keep_) lines_.push_back(time + " " + std::string(what));
}

/// The outermost frame of a spawned routine: takes itself off the world's list when it is over.
struct World::Root {
  struct promise_type {
    World& world;
    std::uint64_t id;

    promise_type(World& owner, const Routine<void>&) : world(owner), id(owner.next_root_++) {}
    ~promise_type() { world.roots_.erase(id); }
    Root get_return_object() {
      world.roots_.emplace(id, std::coroutine_handle<promise_type>::from_promise(*this));
      return {};
    }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() { world.escaped_ = std::current_exception(); }
  };

  static Root run(World&, Routine<void> body) { co_await body; }
};

World::World() : World(Options{}) {}

World::World(Options options)
    : seed_(options.seed),
      clock_(options.start),
      entropy_(options.seed),
      network_(std::make_unique<Network>(*this)) {}

World::~World() {
  end_routines();
  // What events hold may, as it dies, ask for new ones (a dropped responder cuts its connection):
  // none are taken.
  closing_ = true;
  while (!events_.empty()) {
    const auto node = events_.extract(events_.begin());
    timers_.erase(node.key().sequence);
  }
}

std::int64_t World::unix_time() const {
  return std::chrono::duration_cast<std::chrono::seconds>(now().time_since_epoch()).count();
}

World::Timer World::at(Instant when, std::function<void()> then) {
  const Timer timer = sequence_++;
  if (closing_) return timer;
  const Instant due = std::max(when, now());
  events_.emplace(Key{due, timer}, std::move(then));
  timers_.emplace(timer, due);
  return timer;
}

void World::cancel(Timer timer) {
  const auto found = timers_.find(timer);
  if (found == timers_.end()) return;
  events_.erase(Key{found->second, timer});
  timers_.erase(found);
}

std::optional<Instant> World::next_due() const {
  if (events_.empty()) return std::nullopt;
  return events_.begin()->first.when;
}

bool World::step() {
  if (events_.empty()) return false;
  const auto first = events_.begin();
  const Key key = first->first;
  const std::function<void()> then = std::move(first->second);
  events_.erase(first);
  timers_.erase(key.sequence);
  clock_.advance_to(key.when);
  then();
  if (escaped_) std::rethrow_exception(std::exchange(escaped_, nullptr));
  return true;
}

void World::run_until(Instant when) {
  while (!events_.empty() && events_.begin()->first.when <= when) step();
  if (when > now()) clock_.advance_to(when);
}

void World::settle(Duration limit) {
  const Instant end = now() + limit;
  while (!events_.empty() && events_.begin()->first.when <= end) step();
}

void World::spawn(Routine<void> routine) {
  Root::run(*this, std::move(routine));
  if (escaped_) std::rethrow_exception(std::exchange(escaped_, nullptr));
}

void World::end_routines() {
  // Destroying a frame may run destructors that spawn nothing but may wake others: those wakes die
  // with the queue.
  while (!roots_.empty()) roots_.begin()->second.destroy();
}

}  // namespace rocca::lab
