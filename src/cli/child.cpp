#include "cli/child.hpp"

#include "base/error.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstring>

extern char** environ;

namespace rocca::cli {

int run_on_terminal(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ);
  if (error != 0)
    throw Error(error == ENOENT ? Fault::NotFound : Fault::Rejected,
                fmt::format("`{}` cannot be run: {}", words.front(), std::strerror(error)));
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  struct sigaction before_interrupt {};
  struct sigaction before_quit {};
  ::sigaction(SIGINT, &ignore, &before_interrupt);
  ::sigaction(SIGQUIT, &ignore, &before_quit);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ::sigaction(SIGINT, &before_interrupt, nullptr);
  ::sigaction(SIGQUIT, &before_quit, nullptr);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace rocca::cli
