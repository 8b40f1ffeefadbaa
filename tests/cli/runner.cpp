// Runs one text script (README.md) against a binary: runner BINARY SCRIPT

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "script.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace {

using rocca::clitest::Script;
using rocca::clitest::Step;

constexpr int skipped = 77;

struct Outcome {
  std::string out;
  std::string err;
  int exit = 0;
};

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rocca-cli-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw rocca::Error(rocca::Fault::Bug, "no temporary folder");
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void need(bool good, const char* what) {
  if (!good)
    throw rocca::Error(rocca::Fault::Bug, fmt::format("{}: {}", what, std::strerror(errno)));
}

/// Reads both descriptors to their ends while `input` is fed in; any of them may be -1.
void exchange(int in, std::string_view input, int out, std::string& out_text, int err,
              std::string& err_text) {
  while (out >= 0 || err >= 0) {
    pollfd polled[3] = {{out, POLLIN, 0}, {err, POLLIN, 0}, {in, POLLOUT, 0}};
    need(::poll(polled, 3, -1) >= 0 || errno == EINTR, "poll");
    const auto drain = [](const pollfd& one, int& descriptor, std::string& text) {
      if (one.fd < 0 || one.revents == 0) return;
      char buffer[4096];
      const ssize_t got = ::read(one.fd, buffer, sizeof buffer);
      if (got > 0) {
        text.append(buffer, static_cast<std::size_t>(got));
      } else if (got == 0 || errno != EINTR) {  // a terminal without a process answers EIO
        ::close(descriptor);
        descriptor = -1;
      }
    };
    if (in >= 0 && polled[2].revents != 0) {
      const ssize_t wrote = input.empty() ? -1 : ::write(in, input.data(), input.size());
      if (wrote > 0) input.remove_prefix(static_cast<std::size_t>(wrote));
      if (wrote <= 0 || input.empty()) {
        if (in != out) ::close(in);
        in = -1;
      }
    }
    drain(polled[0], out, out_text);
    drain(polled[1], err, err_text);
  }
  if (in >= 0) ::close(in);
}

[[noreturn]] void become(const Step& step, const std::string& folder, const std::string& path) {
  if (::chdir(folder.c_str()) != 0) ::_exit(126);
  std::vector<std::string> variables{"PATH=" + path, "HOME=" + folder, "LANG=C.UTF-8",
                                     "TERM=xterm"};
  for (const auto& [name, value] : step.environment) variables.push_back(name + "=" + value);
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  const char* words[] = {"sh", "-c", step.command.c_str(), nullptr};
  ::execve("/bin/sh", const_cast<char* const*>(words), environment.data());
  ::_exit(127);
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) need(errno == EINTR, "waitpid");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Outcome run_on_terminal(const Step& step, const std::string& folder, const std::string& path) {
  winsize size{24, 80, 0, 0};
  termios quiet{};
  int main_end = -1;
  int other_end = -1;
  need(::openpty(&main_end, &other_end, nullptr, nullptr, &size) == 0, "openpty");
  need(::tcgetattr(other_end, &quiet) == 0, "tcgetattr");
  quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO);  // what is typed would stand in the output
  quiet.c_oflag &= ~static_cast<tcflag_t>(OPOST);
  need(::tcsetattr(other_end, TCSANOW, &quiet) == 0, "tcsetattr");
  const pid_t child = ::fork();
  need(child >= 0, "fork");
  if (child == 0) {
    ::close(main_end);
    if (::login_tty(other_end) != 0) ::_exit(126);
    become(step, folder, path);
  }
  ::close(other_end);
  Outcome outcome;
  exchange(step.input.empty() ? -1 : main_end, step.input, main_end, outcome.out, -1, outcome.err);
  outcome.exit = wait_for(child);
  return outcome;
}

Outcome run_on_pipes(const Step& step, const std::string& folder, const std::string& path) {
  int in[2];
  int out[2];
  int err[2];
  for (int* ends : {in, out, err}) need(::pipe2(ends, O_CLOEXEC) == 0, "pipe");
  const pid_t child = ::fork();
  need(child >= 0, "fork");
  if (child == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    std::signal(SIGPIPE, SIG_DFL);
    become(step, folder, path);
  }
  ::close(in[0]);
  ::close(out[1]);
  ::close(err[1]);
  Outcome outcome;
  exchange(in[1], step.input, out[0], outcome.out, err[0], outcome.err);
  outcome.exit = wait_for(child);
  return outcome;
}

bool installed(const std::string& program, const std::string& path) {
  for (const std::string& folder : rocca::split(path, ':'))
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

/// Says what does not fit; true if all does.
bool judge(const Step& step, const Outcome& outcome, const std::string& script) {
  const auto out = rocca::clitest::to_lines(outcome.out);
  const auto err = rocca::clitest::to_lines(outcome.err);
  const bool out_fits = rocca::clitest::all_fit(step.out, out);
  const bool err_fits = rocca::clitest::all_fit(step.err, err);
  if (out_fits && err_fits && outcome.exit == step.exit) return true;
  fmt::print("{}:{}: $ {}\n", script, step.line, step.command);
  if (!out_fits)
    fmt::print("stdout (- expected, + came):\n{}", rocca::clitest::difference(step.out, out));
  if (!err_fits)
    fmt::print("stderr (- expected, + came):\n{}", rocca::clitest::difference(step.err, err));
  if (outcome.exit != step.exit)
    fmt::print("exit: expected {}, came {}\n", step.exit, outcome.exit);
  fmt::print("\n");
  return false;
}

int run(const std::string& binary, const std::string& name) {
  rocca::RealFiles files;
  const Script script = rocca::clitest::parse_script(files.get(name), name);
  const std::string path = std::filesystem::absolute(binary).parent_path().string() +
                           ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
  for (const std::string& program : script.needs) {
    if (installed(program, path)) continue;
    fmt::print("SKIPPED: {} is not installed\n", program);
    return skipped;
  }
  const TemporaryFolder folder;
  std::size_t failed = 0;
  for (const Step& step : script.steps) {
    for (const auto& [file, content] : step.files) {
      const std::string target = folder.path() + "/" + file;
      files.make_folder(target.substr(0, target.find_last_of('/')), 0755);
      files.write(target, content, 0644);
    }
    const Outcome outcome = step.terminal ? run_on_terminal(step, folder.path(), path)
                                          : run_on_pipes(step, folder.path(), path);
    if (!judge(step, outcome, name)) ++failed;
  }
  fmt::print("{} of {} fit\n", script.steps.size() - failed,
             rocca::plural(script.steps.size(), "command"));
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: runner BINARY SCRIPT\n");
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return run(argv[1], argv[2]);
  } catch (const rocca::Error& error) {
    std::fputs(error.render().c_str(), stderr);
    return 2;
  }
}
