#include "cli/terminal/program.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

namespace rocca::cli {

namespace {

constexpr std::size_t output_limit = 16u << 20;

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  int number() const { return number_; }
  void set(int number) {
    close();
    number_ = number;
  }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      throw Error(Fault::Busy, fmt::format("no pipe can be made: {}", std::strerror(errno)));
    read.set(ends[0]);
    write.set(ends[1]);
  }
  Descriptor read, write;
};

/// What a program is started with: descriptors, and signals as if nobody had touched them.
class Setup {
 public:
  Setup(int out, int err) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, err, STDERR_FILENO);
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;
  ~Setup() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  int start(pid_t& child, const std::vector<std::string>& words,
            const std::map<std::string, std::string>& environment) const {
    std::vector<std::string> variables;
    for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
    std::vector<std::string> copies = words;
    std::vector<char*> argv, envp;
    for (std::string& word : copies) argv.push_back(word.data());
    for (std::string& variable : variables) envp.push_back(variable.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    const int failed = ::posix_spawnp(&child, copies.front().c_str(), &actions_, &attributes_,
                                      argv.data(), envp.data());
    for (std::string& variable : variables) wipe(variable);
    return failed;
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

/// Text that is wiped when it dies, also while it grows.
class Wiped {
 public:
  Wiped() = default;
  Wiped(const Wiped&) = delete;
  Wiped& operator=(const Wiped&) = delete;
  ~Wiped() { wipe(text_); }
  void add(std::string_view bytes) {
    if (text_.size() + bytes.size() > text_.capacity()) {
      std::string larger;
      larger.reserve(2 * (text_.size() + bytes.size()));
      larger = text_;
      std::swap(larger, text_);
      wipe(larger);
    }
    text_ += bytes;
  }
  std::string& text() { return text_; }

 private:
  std::string text_;
};

std::string last_line(std::string_view text) {
  text = trim(text);
  const std::size_t newline = text.find_last_of("\r\n");
  std::string line{newline == std::string_view::npos ? text : text.substr(newline + 1)};
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return line.substr(0, 300);
}

enum class Drained { Ended, TooMuch, TooLong };

/// Reads both streams to their ends.
Drained drain(Pipe& out, Pipe& err, Wiped& said, Wiped& complained, const std::string& program,
              const Patience& patience) {
  std::array<char, 4096> buffer{};
  std::array<pollfd, 2> waits{{{out.read.number(), POLLIN, 0}, {err.read.number(), POLLIN, 0}}};
  const auto begun = std::chrono::steady_clock::now();
  bool told = !patience.tell;
  Drained result = Drained::Ended;
  while (result == Drained::Ended && (waits[0].fd >= 0 || waits[1].fd >= 0)) {
    const Duration past = std::chrono::steady_clock::now() - begun;
    if (past >= patience.limit) {
      result = Drained::TooLong;
      break;
    }
    if (!told && past >= patience.tell_after) {
      patience.tell(program);
      told = true;
    }
    const Duration next = (told ? patience.limit : patience.tell_after) - past;
    const auto pause = std::chrono::ceil<std::chrono::milliseconds>(next).count();
    if (::poll(waits.data(), waits.size(), static_cast<int>(pause)) < 0 && errno != EINTR) break;
    for (pollfd& wait : waits) {
      if (wait.fd < 0 || wait.revents == 0) continue;
      const ssize_t got = ::read(wait.fd, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      Wiped& into = &wait == waits.data() ? said : complained;
      if (got > 0) into.add({buffer.data(), static_cast<std::size_t>(got)});
      if (got <= 0) wait.fd = -1;
      if (into.text().size() > output_limit) result = Drained::TooMuch;
    }
  }
  wipe(buffer.data(), buffer.size());
  return result;
}

}  // namespace

Secret run_program(const std::vector<std::string>& words,
                   const std::map<std::string, std::string>& environment, std::stop_token stop,
                   const Patience& patience) {
  if (words.empty() || words.front().empty())
    throw Error(Fault::Usage, "there is no program to run");
  const std::string& program = words.front();
  Pipe out, err;
  pid_t child = 0;
  const int failed = Setup{out.write.number(), err.write.number()}.start(child, words, environment);
  if (failed == ENOENT)
    throw Error(Fault::NotFound, fmt::format("there is no program `{}`", program))
        .hint("install it, or give its full path");
  if (failed != 0)
    throw Error(Fault::Rejected,
                fmt::format("`{}` cannot be started: {}", program, std::strerror(failed)));
  out.write.close();
  err.write.close();

  Wiped said, complained;
  Drained drained = Drained::Ended;
  {
    const std::stop_callback end{stop, [child] { ::kill(child, SIGTERM); }};
    drained = drain(out, err, said, complained, program, patience);
    if (drained != Drained::Ended) ::kill(child, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (stop.stop_requested())
    throw Error(Fault::Interrupted, fmt::format("`{}` was ended", program));
  if (drained == Drained::TooMuch)
    throw Error(Fault::Rejected, fmt::format("`{}` printed more than 16 MiB", program));
  if (drained == Drained::TooLong)
    throw Error(Fault::Timeout,
                fmt::format("`{}` did not end within {}", program, to_string(patience.limit)))
        .hint("run it by hand: it may wait for an answer on a terminal that it has not");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Secret::take(std::move(said.text()));
  const std::string how = WIFSIGNALED(status)
                              ? fmt::format("was killed by signal {}", WTERMSIG(status))
                              : fmt::format("ended with exit code {}", WEXITSTATUS(status));
  const std::string reason = last_line(complained.text());
  throw Error(Fault::Rejected, fmt::format("`{}` {}{}", program, how,
                                           reason.empty() ? std::string{} : ": " + reason));
}

}  // namespace rocca::cli
