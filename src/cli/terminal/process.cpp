#include "cli/terminal/process.hpp"

#include "base/error.hpp"
#include "base/visible.hpp"
#include "cli/terminal/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <string>
#include <thread>

namespace rocca::cli {

void close_memory() {
  ::prctl(PR_SET_DUMPABLE, 0);
  // The limit too: a core_pattern that is a pipe asks for no file, but still honours dumpable; and
  // the other way round with some sandboxes.
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
}

namespace {

/// The controlling terminal with its echo off while this lives.
class SilentTerminal {
 public:
  SilentTerminal() : descriptor_(::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)) {
    if (descriptor_ < 0)
      throw Error(Fault::Refused, "a passphrase is needed, and there is no terminal to ask on");
    if (::tcgetattr(descriptor_, &before_) != 0) return;
    termios silent = before_;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    silent.c_cc[VSUSP] = _POSIX_VDISABLE;  // a shell in front of a stopped prompt would be mute
    silent_ = ::tcsetattr(descriptor_, TCSAFLUSH, &silent) == 0;
  }
  SilentTerminal(const SilentTerminal&) = delete;
  SilentTerminal& operator=(const SilentTerminal&) = delete;
  ~SilentTerminal() {
    if (silent_) ::tcsetattr(descriptor_, TCSAFLUSH, &before_);
    ::close(descriptor_);
  }

  void write(std::string_view text) const {
    [[maybe_unused]] const ssize_t wrote = ::write(descriptor_, text.data(), text.size());
  }
  bool read(char& c, const HeldSignals& signals) const {
    // Signals come only while ppoll waits: none can slip in between the look and the wait.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, &before);
    bool got = false;
    while (signals.caught() == 0) {
      pollfd waiting{descriptor_, POLLIN, 0};
      const int ready = ::ppoll(&waiting, 1, nullptr, &before);
      if (ready < 0 && errno == EINTR) continue;
      got = ready == 1 && ::read(descriptor_, &c, 1) == 1;
      break;
    }
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return got;
  }

 private:
  int descriptor_;
  bool silent_ = false;
  termios before_{};
};

}  // namespace

Secret ask_secret_on_terminal(std::string_view what) {
  const HeldSignals signals;  // before the terminal: its echo comes back first
  const SilentTerminal terminal;
  terminal.write("Passphrase for " + visible(what) + ": ");
  std::string line;
  line.reserve(1024);  // no copy of it is left behind by growing
  for (char c = 0; line.size() < 1024 && terminal.read(c, signals) && c != '\n';) line += c;
  terminal.write("\n");
  if (signals.caught() != 0) {
    wipe(line);
    throw Error(Fault::Interrupted, "interrupted");
  }
  return Secret::take(std::move(line));
}

namespace {

constexpr char signal_byte = 's';
constexpr char end_byte = 'e';

// A signal handler reaches nothing but statics.
std::atomic<int> bell{-1};
std::atomic<int> signals_seen{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void on_signal(int) noexcept {
  if (signals_seen.fetch_add(1) > 0) ::_exit(130);
  const int before = errno;
  [[maybe_unused]] const ssize_t wrote = ::write(bell.load(), &signal_byte, 1);
  errno = before;
}

}  // namespace

struct Interrupts::State {
  std::stop_source source;
  std::array<int, 2> pipe{-1, -1};
  struct sigaction before_interrupt {};
  struct sigaction before_terminate {};
  std::jthread listener;

  void listen() {
    char byte = 0;
    for (;;) {
      const ssize_t got = ::read(pipe[0], &byte, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got != 1 || byte == end_byte) return;
      source.request_stop();
    }
  }
};

Interrupts::Interrupts() : state_(std::make_unique<State>()) {
  if (::pipe2(state_->pipe.data(), O_CLOEXEC) != 0)
    throw Error(Fault::Busy, "no pipe can be made for signals");
  state_->listener = std::jthread{[state = state_.get()] { state->listen(); }};
  signals_seen = 0;
  bell = state_->pipe[1];
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &state_->before_interrupt);
  ::sigaction(SIGTERM, &action, &state_->before_terminate);
}

Interrupts::~Interrupts() {
  ::sigaction(SIGINT, &state_->before_interrupt, nullptr);
  ::sigaction(SIGTERM, &state_->before_terminate, nullptr);
  bell = -1;
  [[maybe_unused]] const ssize_t wrote = ::write(state_->pipe[1], &end_byte, 1);
  state_->listener.join();
  ::close(state_->pipe[0]);
  ::close(state_->pipe[1]);
}

std::stop_token Interrupts::token() const {
  return state_->source.get_token();
}

}  // namespace rocca::cli
