#pragma once

#include "base/clock.hpp"
#include "net/server/socket.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace rocca::net {

/// Where other threads leave work for a loop. It outlives the loop, so that a late answer has a
/// place to go.
class Mailbox {
 public:
  using Task = std::function<void()>;

  Mailbox();

  /// False when the loop has ended; the task is then left to the caller.
  bool post(Task& task);
  bool post(Task&& task) { return post(task); }

  bool on_loop_thread() const noexcept { return owner_.load() == std::this_thread::get_id(); }

 private:
  friend class EventLoop;
  std::vector<Task> take();
  bool empty() const;
  void wake() noexcept;
  void drain_wake() noexcept;

  Descriptor wake_;  // an eventfd
  std::atomic<std::thread::id> owner_{};
  mutable std::mutex mutex_;
  std::vector<Task> tasks_;
  bool closed_ = false;
};

/// One epoll instance, timers and a mailbox, run by one thread. What a task throws is dropped: one
/// caller's mistake must not end the connections of the others.
class EventLoop {
 public:
  using Task = Mailbox::Task;
  using Ready = std::function<void(std::uint32_t events)>;
  using Token = std::uint64_t;

  EventLoop();

  // From any thread.
  void post(Task task) { mailbox_->post(task); }
  void after(Duration delay, Task task);
  void stop() noexcept;
  bool stopping() const noexcept { return stopping_.load(); }
  const std::shared_ptr<Mailbox>& mailbox() const noexcept { return mailbox_; }
  bool on_thread() const noexcept { return mailbox_->on_loop_thread(); }

  // Only from the loop's thread. A token is never used twice, so an event that was already fetched
  // for a descriptor that has since been closed finds nobody, even when its number was given out
  // again.
  Token watch(int fd, std::uint32_t events, Ready ready);
  void change(Token token, int fd, std::uint32_t events);
  void forget(Token token, int fd);

  /// Runs until stop().
  void run();
  /// No task is taken any more; those that wait are destroyed unrun.
  void close_mailbox();
  /// The thread is about to end; its id may soon be another one's.
  void leave_thread() noexcept { mailbox_->owner_ = std::thread::id{}; }

 private:
  struct Timer {
    Tick when;
    std::uint64_t order;
    Task task;
  };

  void run_tasks();
  void run_timers();
  int wait_milliseconds() const;

  Descriptor epoll_;
  std::shared_ptr<Mailbox> mailbox_;
  std::atomic<bool> stopping_{false};
  std::unordered_map<Token, std::shared_ptr<Ready>> watches_;
  Token next_token_ = 1;
  std::vector<Timer> timers_;  // a heap: the earliest first
  std::uint64_t next_order_ = 0;
};

}  // namespace rocca::net
