#include "base/error.hpp"
#include "engine/runner.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace rocca::engine {

namespace {

constexpr std::size_t most_watches = 64;

struct Queue;

struct Call {
  Queue* queue = nullptr;
  std::string name;
  std::function<void()> body;
};

/// What the pool keeps for one run; guarded by the pool's mutex.
struct Queue {
  std::deque<Call> steps;  // not begun
  bool listed = false;     // has its turn among the runs with steps
  std::size_t running = 0;
  std::vector<std::string> ended;
  bool nudged = false;
  std::condition_variable news;
};

class ThreadPool final : public Pool, public std::enable_shared_from_this<ThreadPool> {
 public:
  ThreadPool(unsigned threads, const Clock& clock)
      : clock_(clock),
        steps_at_once_(std::max(1u, threads)),
        in_reserve_(std::clamp<std::size_t>(steps_at_once_ / 16, 1, 4)),
        reservations_(clock) {}

  ~ThreadPool() override {
    {
      const std::lock_guard lock{mutex_};
      over_ = true;
    }
    workers_.wake.notify_all();
    watchers_.wake.notify_all();
  }

  std::unique_ptr<Runner> open() override;
  Limiter& limiter() override { return limiter_; }
  Reservations& reservations() { return reservations_; }
  const Clock& clock() const { return clock_; }

  void start(Queue& queue, std::string name, std::function<void()> body, Runner::Work work) {
    Crew& crew = work == Runner::Work::Watch ? watchers_ : workers_;
    {
      const std::lock_guard lock{mutex_};
      Call call{&queue, std::move(name), std::move(body)};
      switch (work) {
        case Runner::Work::Step:
          queue.steps.push_back(std::move(call));
          ++waiting_steps_;
          if (!std::exchange(queue.listed, true)) turns_.push_back(&queue);
          add_thread_if(waiting_steps_ + records_.size() > workers_.idle, workers_, steps_at_once_);
          break;
        case Runner::Work::Record:
          records_.push_back(std::move(call));
          add_thread_if(waiting_steps_ + records_.size() > workers_.idle, workers_,
                        steps_at_once_ + in_reserve_);
          break;
        case Runner::Work::Watch:
          watches_.push_back(std::move(call));
          add_thread_if(watches_.size() > watchers_.idle, watchers_, most_watches);
          break;
      }
    }
    // Without the lock: the thread that wakes up would have to wait for it.
    crew.wake.notify_one();
  }

  std::vector<std::string> wait_until(Queue& queue, std::optional<Tick> until) {
    std::unique_lock lock{mutex_};
    const auto something = [&] { return !queue.ended.empty() || queue.nudged; };
    if (until) {
      const Duration left = *until - clock_.tick();
      if (left > Duration::zero()) queue.news.wait_for(lock, left, something);
    } else {
      queue.news.wait(lock, something);
    }
    queue.nudged = false;
    return std::exchange(queue.ended, {});
  }

  void nudge(Queue& queue) {
    const std::lock_guard lock{mutex_};
    queue.nudged = true;
    queue.news.notify_all();
  }

  /// The run is over: what has not begun is dropped, what is under way is waited for.
  void close(Queue& queue) {
    std::vector<Call> dropped;  // what they captured dies without the lock
    std::unique_lock lock{mutex_};
    waiting_steps_ -= queue.steps.size();
    for (std::deque<Call>* calls : {&queue.steps, &records_, &watches_}) {
      const auto others = std::stable_partition(
          calls->begin(), calls->end(), [&](const Call& call) { return call.queue != &queue; });
      std::move(others, calls->end(), std::back_inserter(dropped));
      calls->erase(others, calls->end());
    }
    std::erase(turns_, &queue);
    queue.news.wait(lock, [&] { return queue.running == 0; });
    lock.unlock();
  }

 private:
  struct Crew {
    std::condition_variable wake;
    std::size_t idle = 0;
    std::vector<std::jthread> threads;
  };

  void add_thread_if(bool needed, Crew& crew, std::size_t limit) {
    if (!needed || crew.threads.size() >= limit) return;
    try {
      if (&crew == &watchers_) {
        crew.threads.emplace_back([this] { watch(); });
      } else {
        crew.threads.emplace_back([this] { work(); });
      }
    } catch (const std::system_error& error) {
      // The system gives no more: go on with those there are.
      if (crew.threads.empty())
        throw Error(Fault::Busy, std::string("no thread can be started: ") + error.what());
    }
  }

  /// The next step of the run whose turn it is.
  Call next_step() {
    Queue& queue = *turns_.front();
    turns_.pop_front();
    Call call = std::move(queue.steps.front());
    queue.steps.pop_front();
    --waiting_steps_;
    queue.listed = !queue.steps.empty();
    if (queue.listed) turns_.push_back(&queue);
    return call;
  }

  void work() noexcept {
    std::unique_lock lock{mutex_};
    while (true) {
      ++workers_.idle;
      workers_.wake.wait(lock, [&] {
        return over_ || !records_.empty() || (waiting_steps_ > 0 && steps_ < steps_at_once_);
      });
      --workers_.idle;
      if (over_) return;
      const bool is_record = !records_.empty();
      Call call;
      if (is_record) {
        call = std::move(records_.front());
        records_.pop_front();
      } else {
        call = next_step();
        ++steps_;
      }
      run(lock, call);
      if (!is_record) --steps_;
    }
  }

  void watch() noexcept {
    std::unique_lock lock{mutex_};
    while (true) {
      ++watchers_.idle;
      watchers_.wake.wait(lock, [&] { return over_ || !watches_.empty(); });
      --watchers_.idle;
      if (over_) return;
      Call call = std::move(watches_.front());
      watches_.pop_front();
      run(lock, call);
    }
  }

  static void run(std::unique_lock<std::mutex>& lock, Call& call) {
    Queue& queue = *call.queue;
    ++queue.running;
    lock.unlock();
    call.body();
    call.body = nullptr;  // what it captured dies before its end is reported
    lock.lock();
    --queue.running;
    queue.ended.push_back(std::move(call.name));
    // With the lock: afterwards the queue may be gone.
    queue.news.notify_all();
  }

  const Clock& clock_;
  const std::size_t steps_at_once_;
  const std::size_t in_reserve_;  // further threads, for records
  Limiter limiter_;
  Reservations reservations_;
  std::mutex mutex_;
  std::deque<Queue*> turns_;  // runs with steps that have not begun
  std::deque<Call> records_;
  std::deque<Call> watches_;
  std::size_t waiting_steps_ = 0;
  std::size_t steps_ = 0;  // under way
  bool over_ = false;
  Crew workers_;  // last: their threads end before anything else goes
  Crew watchers_;
};

class PoolRunner final : public Runner {
 public:
  explicit PoolRunner(std::shared_ptr<ThreadPool> pool) : pool_(std::move(pool)) {}
  ~PoolRunner() override { pool_->close(queue_); }
  PoolRunner(const PoolRunner&) = delete;
  PoolRunner& operator=(const PoolRunner&) = delete;

  Tick now() const override { return pool_->clock().tick(); }
  Instant clock() const override { return pool_->clock().now(); }
  std::vector<std::string> wait_until(std::optional<Tick> until) override {
    return pool_->wait_until(queue_, until);
  }
  void nudge() override { pool_->nudge(queue_); }
  Limiter& limiter() override { return pool_->limiter(); }
  Reservations& reservations() override { return pool_->reservations(); }

 private:
  void begin(std::string name, std::function<void()> call, Work work) override {
    pool_->start(queue_, std::move(name), std::move(call), work);
  }

  std::shared_ptr<ThreadPool> pool_;
  Queue queue_;
};

std::unique_ptr<Runner> ThreadPool::open() {
  return std::make_unique<PoolRunner>(shared_from_this());
}

}  // namespace

std::shared_ptr<Pool> thread_pool(unsigned threads, const Clock& clock) {
  return std::make_shared<ThreadPool>(threads, clock);
}

std::unique_ptr<Runner> pool_runner(unsigned threads, const Clock& clock) {
  return thread_pool(threads, clock)->open();
}

}  // namespace rocca::engine
