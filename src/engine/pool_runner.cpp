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

class PoolRunner final : public Runner {
 public:
  PoolRunner(unsigned threads, const Clock& clock) : clock_(clock), limit_(std::max(1u, threads)) {}

  ~PoolRunner() override {
    {
      const std::lock_guard lock{mutex_};
      over_ = true;
    }
    work_.notify_all();
  }

  Tick now() const override { return clock_.tick(); }
  Instant clock() const override { return clock_.now(); }

  void start(std::string name, std::function<void()> call) override {
    {
      const std::lock_guard lock{mutex_};
      calls_.push_back({std::move(name), std::move(call)});
      if (calls_.size() > idle_ && threads_.size() < limit_) add_thread();
    }
    // Without the lock, or who wakes waits for it.
    work_.notify_one();
  }

  std::vector<std::string> wait_until(std::optional<Tick> until) override {
    std::unique_lock lock{mutex_};
    const auto something = [&] { return !ended_.empty() || nudged_; };
    if (until) {
      const Duration left = *until - clock_.tick();
      if (left > Duration::zero()) news_.wait_for(lock, left, something);
    } else {
      news_.wait(lock, something);
    }
    nudged_ = false;
    return std::exchange(ended_, {});
  }

  void nudge() override {
    const std::lock_guard lock{mutex_};
    nudged_ = true;
    news_.notify_one();
  }

 private:
  struct Call {
    std::string name;
    std::function<void()> body;
  };

  void add_thread() {
    try {
      threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error& error) {
      // The system gives no more: go on with those there are.
      if (threads_.empty())
        throw Error(Fault::Busy, std::string("no thread can be started: ") + error.what());
    }
  }

  void serve() noexcept {
    std::unique_lock lock{mutex_};
    while (true) {
      ++idle_;
      work_.wait(lock, [&] { return over_ || !calls_.empty(); });
      --idle_;
      if (over_) return;
      Call call = std::move(calls_.front());
      calls_.pop_front();
      lock.unlock();
      call.body();
      call.body = nullptr;  // what it captured dies before the end is told
      lock.lock();
      ended_.push_back(std::move(call.name));
      news_.notify_one();
    }
  }

  const Clock& clock_;
  const std::size_t limit_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable news_;
  std::deque<Call> calls_;
  std::vector<std::string> ended_;
  std::size_t idle_ = 0;
  bool nudged_ = false;
  bool over_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace

std::unique_ptr<Runner> pool_runner(unsigned threads, const Clock& clock) {
  return std::make_unique<PoolRunner>(threads, clock);
}

}  // namespace rocca::engine
