#include "net/server/event_loop.hpp"

#include "base/error.hpp"

#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace rocca::net {
namespace {

Tick now() {
  return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

constexpr auto later = [](const auto& a, const auto& b) {
  return a.when != b.when ? a.when > b.when : a.order > b.order;
};

void run_guarded(const Mailbox::Task& task) noexcept {
  try {
    task();
  } catch (...) {
    // ignored: see the class comment
  }
}

[[noreturn]] void throw_system(const char* what) {
  throw Error(Fault::Busy, fmt::format("{}: {}", what, std::generic_category().message(errno)));
}

}  // namespace

Mailbox::Mailbox() : wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!wake_) throw_system("cannot make an eventfd");
}

bool Mailbox::post(Task& task) {
  bool first = false;
  {
    const std::lock_guard lock{mutex_};
    if (closed_) return false;
    first = tasks_.empty();
    tasks_.push_back(std::move(task));
  }
  // The loop looks into its mailbox before it sleeps, so its own thread need not wake it.
  if (first && !on_loop_thread()) wake();
  return true;
}

std::vector<Mailbox::Task> Mailbox::take() {
  const std::lock_guard lock{mutex_};
  return std::exchange(tasks_, {});
}

bool Mailbox::empty() const {
  const std::lock_guard lock{mutex_};
  return tasks_.empty();
}

void Mailbox::wake() noexcept {
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the loop is awake anyway.
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void Mailbox::drain_wake() noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(wake_.get(), &count, sizeof count);
}

EventLoop::EventLoop()
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), mailbox_(std::make_shared<Mailbox>()) {
  if (!epoll_) throw_system("cannot make an epoll instance");
  watch(mailbox_->wake_.get(), EPOLLIN, [this](std::uint32_t) { mailbox_->drain_wake(); });
}

void EventLoop::after(Duration delay, Task task) {
  const Tick when = now() + delay;
  post([this, when, task = std::move(task)]() mutable {
    timers_.push_back({when, next_order_++, std::move(task)});
    std::push_heap(timers_.begin(), timers_.end(), later);
  });
}

void EventLoop::stop() noexcept {
  stopping_ = true;
  mailbox_->wake();
}

EventLoop::Token EventLoop::watch(int fd, std::uint32_t events, Ready ready) {
  const Token token = next_token_++;
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    throw_system("cannot watch a socket");
  watches_.emplace(token, std::make_shared<Ready>(std::move(ready)));
  return token;
}

void EventLoop::change(Token token, int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void EventLoop::forget(Token token, int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  watches_.erase(token);
}

void EventLoop::run_tasks() {
  for (auto& task : mailbox_->take()) {
    if (stopping()) return;
    run_guarded(task);
    task = nullptr;  // what it holds goes with it, not with the last of the batch
  }
}

void EventLoop::run_timers() {
  while (!stopping() && !timers_.empty() && timers_.front().when <= now()) {
    std::pop_heap(timers_.begin(), timers_.end(), later);
    const Task task = std::move(timers_.back().task);
    timers_.pop_back();
    run_guarded(task);
  }
}

int EventLoop::wait_milliseconds() const {
  if (!mailbox_->empty()) return 0;
  if (timers_.empty()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(timers_.front().when - now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

void EventLoop::run() {
  mailbox_->owner_ = std::this_thread::get_id();
  std::array<epoll_event, 256> events{};
  while (!stopping()) {
    run_tasks();
    run_timers();
    if (stopping()) break;
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   wait_milliseconds());
    for (int i = 0; i < count && !stopping(); ++i) {
      const auto& event = events[static_cast<std::size_t>(i)];
      // The kernel's struct is packed: a reference to its member would be misaligned.
      const Token token = event.data.u64;
      const auto found = watches_.find(token);
      if (found == watches_.end()) continue;
      const auto ready = found->second;  // it may forget itself
      run_guarded([&] { (*ready)(event.events); });
    }
  }
}

void EventLoop::close_mailbox() {
  std::vector<Mailbox::Task> unrun;  // destroyed without the lock: a task's last act may be to post
  {
    const std::lock_guard lock{mailbox_->mutex_};
    mailbox_->closed_ = true;
    unrun = std::exchange(mailbox_->tasks_, {});
  }
  unrun.clear();
  timers_.clear();
}

}  // namespace rocca::net
