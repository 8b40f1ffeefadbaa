#pragma once

#include "net/transport.hpp"

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace rocca::cli {

/// Says whose answer is waited for while nothing else is printed: a far side that accepts requests
/// and does not answer them must not look like a program that hangs.
class SlowAnswers final : public net::Transport {
 public:
  struct Options {
    Duration first = std::chrono::seconds{6};   // longer than a connection may take
    Duration again = std::chrono::seconds{15};  // while the same request goes on
    std::function<void(const std::string& line)> say;
    std::function<bool()> is_quiet;  // something else tells how it goes
  };
  SlowAnswers(std::unique_ptr<net::Transport> inner, Options options);
  ~SlowAnswers() override;

  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override;

 private:
  struct Open {
    std::string what;
    Tick since{};
  };
  void watch(std::stop_token stop);
  void remind();

  std::unique_ptr<net::Transport> inner_;
  Options options_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::uint64_t, Open> open_;  // by number: the oldest first
  std::uint64_t next_ = 0;
  Tick said_{};
  std::jthread watcher_;  // begins with the first exchange; the last member
};

}  // namespace rocca::cli
