#include "cli/terminal/live_screen.hpp"

#include "cli/context.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <ostream>

namespace rocca::cli {

namespace {

/// The window may be resized while a run goes on.
report::Style style_of(const Context& context, std::size_t& height) {
  std::size_t width = context.terminal.width;
  height = 24;
  winsize window{};
  if (context.terminal.resizable && ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 &&
      window.ws_col > 0) {
    width = window.ws_col;
    height = window.ws_row;
  }
  // The last column stays free: a line that fills it makes some terminals wrap.
  return {.colour = context.terminal.colour_err, .width = std::max<std::size_t>(width, 40) - 1};
}

}  // namespace

LiveScreen::LiveScreen(Context& context, const engine::Plan& plan)
    : context_(context), live_(context.terminal.err), board_(plan) {
  ++shown_;
  if (live_) ticker_ = std::jthread([this](std::stop_token stop) { tick(std::move(stop)); });
}

LiveScreen::~LiveScreen() {
  finish();
}

void LiveScreen::take(const engine::Event& event) {
  const std::scoped_lock lock{mutex_};
  board_.take(event);
  if (live_) return;  // the ticker draws; a storm of events is one picture
  if (const auto line = report::plain_line(event)) context_.err << *line << "\n" << std::flush;
}

void LiveScreen::draw() {
  std::size_t height = 24;
  const report::Style style = style_of(context_, height);
  std::string picture;
  if (drawn_ > 0) picture = "\x1b[" + std::to_string(drawn_) + "A";
  picture += "\r\x1b[J";  // what was there goes, also lines that are no longer needed
  const std::string table = render_table(board_, context_.clock.now(), style, height - 1);
  drawn_ = static_cast<std::size_t>(std::count(table.begin(), table.end(), '\n'));
  context_.err << picture + table << std::flush;
}

void LiveScreen::tick(std::stop_token stop) {
  std::unique_lock lock{mutex_};
  while (!stop.stop_requested()) {
    draw();
    changed_.wait_for(lock, stop, std::chrono::milliseconds{200}, [] { return false; });
  }
}

void LiveScreen::finish() {
  if (ticker_.joinable()) {
    ticker_.request_stop();
    ticker_.join();
  }
  const std::scoped_lock lock{mutex_};
  if (finished_) return;
  finished_ = true;
  --shown_;
  if (live_) draw();
}

}  // namespace rocca::cli
