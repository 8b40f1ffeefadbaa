#include "lab/sim/child.hpp"

#include "base/error.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace rocca::lab {

Child::Child(std::vector<std::string> words, const std::string& log) {
  if (access(words.front().c_str(), X_OK) != 0)
    throw Error(Fault::NotFound, fmt::format("{} is no program", words.front()));
  // All that needs memory is made before the fork: between it and exec nothing may allocate.
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (out < 0 || in < 0) {
    if (out >= 0) close(out);
    if (in >= 0) close(in);
    throw Error(Fault::Denied, fmt::format("{} cannot be written", log));
  }
  const pid_t parent = getpid();
  id_ = fork();
  if (id_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // the lab ended in between
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    setpgid(0, 0);  // Ctrl-C is for the lab alone
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(in);
  close(out);
  if (id_ < 0) throw Error(Fault::Denied, fmt::format("{} cannot be started", words.front()));
}

Child::~Child() {
  if (over_) return;
  kill(id_, SIGKILL);
  while (waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool Child::running() {
  if (!over_ && waitpid(id_, nullptr, WNOHANG) == id_) over_ = true;
  return !over_;
}

}  // namespace rocca::lab
