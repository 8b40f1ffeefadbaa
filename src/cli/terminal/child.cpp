#include "cli/terminal/child.hpp"

#include "base/error.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

extern char** environ;

namespace rocca::cli {
namespace {

constexpr std::array held{SIGINT, SIGQUIT, SIGTERM, SIGHUP};
volatile std::sig_atomic_t came = 0;

void remember(int number) {
  came = number;
}

}  // namespace

HeldSignals::HeldSignals() {
  came = 0;
  struct sigaction action {};
  action.sa_handler = remember;  // without SA_RESTART: a prompt that waits is to wake up
  for (std::size_t i = 0; i < held.size(); ++i) ::sigaction(held[i], &action, &before_[i]);
}

HeldSignals::~HeldSignals() {
  for (std::size_t i = 0; i < held.size(); ++i) ::sigaction(held[i], &before_[i], nullptr);
  if (came != 0) ::raise(came);
}

int HeldSignals::caught() const noexcept {
  return came;
}

void HeldSignals::forget_keys() noexcept {
  if (came == SIGINT || came == SIGQUIT) came = 0;
}

int run_on_terminal(const std::vector<std::string>& words, HeldSignals& signals) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  // Signals come only while sigsuspend waits: none can slip in between a look and the wait. SIGCHLD
  // needs a handler, for one that is ignored wakes nobody.
  struct sigaction wake {};
  wake.sa_handler = [](int) {};
  struct sigaction before_child {};
  ::sigaction(SIGCHLD, &wake, &before_child);
  sigset_t waiting;
  sigset_t before;
  sigemptyset(&waiting);
  for (const int number : held) sigaddset(&waiting, number);
  sigaddset(&waiting, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &waiting, &before);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &before);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, arguments[0], nullptr, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  int status = 0;
  while (error == 0 && ::waitpid(child, &status, WNOHANG) == 0) {
    ::sigsuspend(&before);
    signals.forget_keys();
    if (const int number = signals.caught(); number != 0) ::kill(child, number);
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::sigaction(SIGCHLD, &before_child, nullptr);
  signals.forget_keys();
  if (error != 0)
    throw Error(error == ENOENT ? Fault::NotFound : Fault::Rejected,
                fmt::format("`{}` cannot be run: {}", words.front(), std::strerror(error)));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace rocca::cli
