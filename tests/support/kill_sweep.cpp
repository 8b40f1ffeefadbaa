#include "support/kill_sweep.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "engine/fiber.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#if defined(__SANITIZE_THREAD__)
#define ROCCA_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ROCCA_TSAN 1
#endif
#endif
#if defined(ROCCA_TSAN)
#include <sanitizer/tsan_interface.h>
// Of TSan's own library; no header declares them.
extern "C" void AnnotateIgnoreSyncEnd(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);

namespace {
bool reported = false;  // by TSan in this process
}
// Its library calls this, in the middle of a report, where nothing may be looked at once more. A
// child that ends by _exit would tell nobody.
extern "C" __attribute__((no_sanitize_thread)) void __tsan_on_report(void* report) {
  static_cast<void>(report);
  reported = true;
}
#endif

namespace rocca::test {

namespace {

/// To TSan fibers are threads. After the fork of a process with threads it follows the one that
/// forked no more: neither what it reads and writes nor that it hands over to another, who then
/// seems to race with all that it did before. Here it is to go on.
pid_t fork_followed() {
#if defined(ROCCA_TSAN)
  void* const another = __tsan_create_fiber(0);  // so that it is never the only one
  const pid_t process = ::fork();
  if (process == 0) {
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
  __tsan_destroy_fiber(another);
  return process;
#else
  return ::fork();
#endif
}

constexpr std::size_t most_failures = 20;
constexpr std::size_t big_stack = 8 * 1024 * 1024;
constexpr char good = '=';
constexpr char bad = '!';

/// The first line in which two texts differ.
std::string difference(const std::string& expected, const std::string& found) {
  const std::vector<std::string> a = split(expected, '\n');
  const std::vector<std::string> b = split(found, '\n');
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string want = i < a.size() ? a[i] : "(nothing)";
    const std::string is = i < b.size() ? b[i] : "(nothing)";
    if (want != is) return fmt::format("line {} is '{}' and not '{}'", i + 1, is, want);
  }
  return "nothing";
}

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 65536> piece{};
  while (true) {
    const ssize_t count = ::read(descriptor, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

struct KillSweep::Child {
  pid_t process = 0;
  int pipe = -1;
  std::string edge;
};

KillSweep::KillSweep(Options options) : options_(std::move(options)) {}
KillSweep::~KillSweep() {
  reap(0);
}

KillSweep::Result KillSweep::sweep() {
  sweeping_ = true;
  if (pipe_) throw Error(Fault::Bug, "a child sweeps");
  try {
    options_.run();
  } catch (...) {
    // Only a child whose answer was lost may end like this; its recovery decides.
    if (!pipe_) throw;
  }
  sweeping_ = false;
  if (pipe_) tell(*pipe_, [this] { return recovered(); });
  result_.expected = options_.end_state();
  reap(0);
  result_.edges = edges_;
  for (const auto& [end, edges] : ends_) {
    if (end == result_.expected) continue;
    for (const std::string& edge : edges)
      broken_.push_back(edge + ": " + difference(result_.expected, end));
  }
  std::sort(broken_.begin(), broken_.end());
  const std::size_t count = broken_.size();
  broken_.resize(std::min(count, most_failures));
  if (count > most_failures) broken_.push_back(fmt::format("… and {} more", count - most_failures));
  result_.failures = std::exchange(broken_, {});
  return result_;
}

void KillSweep::edge(const std::string& kind, const std::string& name, bool may_be_lost) {
  if (!sweeping_ || pipe_) return;
  ++edges_;
  ++result_.kinds[kind];
  if (edges_ % options_.every != 0) return;
  if (options_.mode == Mode::LoseAnswer && !may_be_lost) return;
  ++result_.tried;
  reap(std::max<std::size_t>(options_.children, 1) - 1);
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0)
    throw Error(Fault::Busy, fmt::format("no pipe: {}", std::strerror(errno)));
  std::fflush(nullptr);  // else the child writes it once more
  const pid_t process = fork_followed();
  if (process < 0) throw Error(Fault::Busy, fmt::format("no fork: {}", std::strerror(errno)));
  if (process > 0) {
    ::close(ends[1]);
    auto child = std::make_unique<Child>();
    *child = {process, ends[0], fmt::format("edge {} ({} {})", edges_, kind, name)};
    children_.push_back(std::move(child));
    return;
  }
  ::close(ends[0]);
  for (const auto& sibling : children_) ::close(sibling->pipe);
  children_.clear();  // they are the parent's to wait for
  ::alarm(options_.patience);
  pipe_ = ends[1];
  if (options_.mode == Mode::LoseAnswer)
    throw Error(Fault::Lost, fmt::format("lost by the sweep: {} {}", kind, name));
  be_killed(ends[1]);
}

void KillSweep::be_killed(int pipe) {
  // The edge is deep inside a call, on its small stack. What recovers is a process of its own.
  engine::Fiber fresh{big_stack};
  fresh.assign([this, pipe] { tell(pipe, [this] { return recovered(); }); });
  fresh.resume();
  ::_exit(2);
}

std::string KillSweep::recovered() {
  if (options_.mode == Mode::Kill && options_.died) options_.died();
  options_.recover();
  return options_.end_state();
}

void KillSweep::tell(int pipe, const std::function<std::string()>& end) {
  std::string text;
  try {
    text = good + end();
  } catch (const Error& error) {
    text = bad + error.render();
  } catch (const std::exception& error) {
    text = std::string(1, bad) + error.what();
  }
#if defined(ROCCA_TSAN)
  if (reported) text = std::string(1, bad) + "ThreadSanitizer has something to say, see above";
#endif
  write_all(pipe, text);
  std::fflush(nullptr);
  ::_exit(0);  // no destructor runs: a process that was killed has none
}

void KillSweep::reap(std::size_t allowed) {
  while (children_.size() > allowed) {
    finish(*children_.front());
    children_.erase(children_.begin());
  }
}

void KillSweep::finish(Child& child) {
  const std::string text = read_all(child.pipe);
  ::close(child.pipe);
  int status = 0;
  while (::waitpid(child.process, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    broken_.push_back(fmt::format("{}: the recovery ended by signal {}{}", child.edge,
                                  WTERMSIG(status),
                                  WTERMSIG(status) == SIGALRM ? " (it never ends)" : ""));
  } else if (text.empty() || text.front() != good) {
    broken_.push_back(fmt::format("{}: the recovery failed: {}", child.edge,
                                  text.empty() ? "it said nothing" : text.substr(1)));
  } else {
    ends_[text.substr(1)].push_back(child.edge);
  }
}

std::string KillSweep::Result::summary() const {
  std::vector<std::string> parts;
  for (const auto& [kind, count] : kinds) parts.push_back(fmt::format("{} {}", count, kind));
  return fmt::format(
      "{} edges ({}), {} tried, {}", edges, enumerate(parts), tried,
      failures.empty() ? "all with the same end" : plural(failures.size(), "failure", "failures"));
}

net::Response EdgeTransport::exchange(const net::Request& request, net::BodySink& sink,
                                      std::stop_token stop) {
  const std::string name = request.method + " " + request.url;
  sweep_.edge("before an exchange", name, true);
  net::Response response = inner_.exchange(request, sink, std::move(stop));
  sweep_.edge("after an exchange", name, true);
  return response;
}

std::optional<std::string> EdgeFiles::find(const std::string& path, std::uint64_t limit) {
  return inner_.find(path, limit);
}
void EdgeFiles::write(const std::string& path, std::string_view content, unsigned mode) {
  sweep_.edge("before a write", path, false);
  inner_.write(path, content, mode);
  sweep_.edge("after a write", path, false);
}
void EdgeFiles::append(const std::string& path, std::string_view content) {
  sweep_.edge("before a write", path, false);
  const std::size_t half = content.size() / 2;
  if (half > 0) {
    inner_.append(path, content.substr(0, half));
    sweep_.edge("in the middle of a write", path, false);
  }
  inner_.append(path, content.substr(half));
  sweep_.edge("after a write", path, false);
}
bool EdgeFiles::remove(const std::string& path) {
  sweep_.edge("before a write", "removing " + path, false);
  const bool was_there = inner_.remove(path);
  sweep_.edge("after a write", "removing " + path, false);
  return was_there;
}
bool EdgeFiles::remove_folder(const std::string& path) {
  sweep_.edge("before a write", "removing " + path, false);
  const bool was_there = inner_.remove_folder(path);
  sweep_.edge("after a write", "removing " + path, false);
  return was_there;
}
void EdgeFiles::rename(const std::string& from, const std::string& to) {
  sweep_.edge("before a write", "renaming " + from, false);
  inner_.rename(from, to);
  sweep_.edge("after a write", "renaming " + from, false);
}
void EdgeFiles::make_folder(const std::string& path, unsigned mode) {
  sweep_.edge("before a write", path, false);
  inner_.make_folder(path, mode);
  sweep_.edge("after a write", path, false);
}
std::vector<std::string> EdgeFiles::list(const std::string& folder) {
  return inner_.list(folder);
}
std::optional<FileStatus> EdgeFiles::status(const std::string& path) {
  return inner_.status(path);
}
std::unique_ptr<FileLock> EdgeFiles::try_lock(const std::string& path) {
  return inner_.try_lock(path);
}

void EdgeStore::append(std::span<const state::Record> records) {
  sweep_.edge("before a write", "append", true);
  inner_.append(records);
  sweep_.edge("after a write", "append", true);
}
void EdgeStore::replace(const state::State& state) {
  sweep_.edge("before a write", "replace", true);
  inner_.replace(state);
  sweep_.edge("after a write", "replace", true);
}
void EdgeStore::clear() {
  sweep_.edge("before a write", "clear", true);
  inner_.clear();
  sweep_.edge("after a write", "clear", true);
}

}  // namespace rocca::test
