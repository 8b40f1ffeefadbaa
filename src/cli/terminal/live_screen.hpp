#pragma once

#include "base/clock.hpp"
#include "report/progress.hpp"

#include <atomic>
#include <condition_variable>
#include <iosfwd>
#include <mutex>
#include <thread>

namespace rocca::cli {

struct Context;

/// Shows how a run goes: a table that is redrawn in place where there is a terminal, one line per
/// transition elsewhere. Events may come from any thread.
class LiveScreen {
 public:
  LiveScreen(Context& context, const engine::Plan& plan);
  ~LiveScreen();
  LiveScreen(const LiveScreen&) = delete;
  LiveScreen& operator=(const LiveScreen&) = delete;

  void take(const engine::Event& event);
  /// The last picture stays on the screen; nothing is drawn after it.
  void finish();
  /// Does any screen show how a run goes? Then nothing else is printed on this terminal.
  static bool is_shown() { return shown_ > 0; }

 private:
  void draw();
  void tick(std::stop_token stop);

  Context& context_;
  bool live_;
  report::Board board_;
  static inline std::atomic<int> shown_ = 0;  // of this process
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::size_t drawn_ = 0;  // lines of the last picture, to go back over
  bool finished_ = false;
  std::jthread ticker_;  // the last member: it joins before what it draws dies
};

}  // namespace rocca::cli
