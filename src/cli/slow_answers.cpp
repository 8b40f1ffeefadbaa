#include "cli/slow_answers.hpp"

#include "base/strings.hpp"
#include "net/http.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::cli {

namespace {

/// Without the query, which may name anything.
std::string describe(const net::Request& request) {
  const auto url = net::Url::parse(request.url);
  if (!url) return request.method;
  return fmt::format("{}:{} to answer {} {}", url->host, url->port, request.method,
                     url->target.substr(0, url->target.find('?')));
}

Tick now() {
  return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

}  // namespace

SlowAnswers::SlowAnswers(std::unique_ptr<net::Transport> inner, Options options)
    : inner_(std::move(inner)), options_(std::move(options)) {}

SlowAnswers::~SlowAnswers() = default;

net::Response SlowAnswers::exchange(const net::Request& request, net::BodySink& sink,
                                    std::stop_token stop) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock{mutex_};
    number = ++next_;
    open_.emplace(number, Open{describe(request), now()});
    if (!watcher_.joinable())
      watcher_ = std::jthread([this](std::stop_token end) { watch(std::move(end)); });
  }
  struct Ends {
    SlowAnswers& all;
    std::uint64_t number;
    ~Ends() {
      const std::lock_guard lock{all.mutex_};
      all.open_.erase(number);
    }
  } const ends{*this, number};
  return inner_->exchange(request, sink, std::move(stop));
}

void SlowAnswers::watch(std::stop_token stop) {
  const Duration often = std::max<Duration>(options_.first / 4, std::chrono::milliseconds{1});
  std::unique_lock lock{mutex_};
  while (!stop.stop_requested()) {
    changed_.wait_for(lock, stop, often, [] { return false; });
    if (!stop.stop_requested()) remind();
  }
}

/// Called with the lock.
void SlowAnswers::remind() {
  if (open_.empty() || (options_.is_quiet && options_.is_quiet())) return;
  const Open& oldest = open_.begin()->second;
  const Tick at = now();
  if (at - oldest.since < options_.first || at - said_ < options_.again) return;
  said_ = at;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at - oldest.since).count();
  const std::size_t others = open_.size() - 1;
  options_.say(fmt::format(
      "waiting for {} ({} s{})", oldest.what, seconds,
      others == 0 ? ""
                  : fmt::format(", {} more {}", others, others == 1 ? "request" : "requests")));
}

}  // namespace rocca::cli
