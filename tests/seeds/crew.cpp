#include "seeds/crew.hpp"

#include "base/error.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <map>
#include <type_traits>
#include <utility>
#include <vector>

namespace rocca::seeds {

namespace {

constexpr time_t patience = 120;  // seconds of CPU for one seed, so that a busy machine is no hang

/// What goes through a pipe in front of the text.
struct Head {
  std::uint64_t index = 0;
  std::uint64_t text = 0;  // bytes
  Counts counts;
};
static_assert(std::is_trivially_copyable_v<Head>);

/// Seen by all processes.
struct Shared {
  std::atomic<std::uint64_t> next = 0;  // that nobody has taken
  std::atomic<std::uint64_t> end = 0;   // none is begun from here on
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

bool write_all(int to, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t wrote = write(to, at, size);
    if (wrote <= 0) return false;
    at += wrote;
    size -= static_cast<std::size_t>(wrote);
  }
  return true;
}

bool read_all(int from, void* data, std::size_t size) {
  char* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = read(from, at, size);
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

std::string death(int status) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF)
    return fmt::format("it did not end within {} s of CPU time", patience);
  if (WIFSIGNALED(status)) return fmt::format("it died of signal {}", WTERMSIG(status));
  return fmt::format("it ended with exit code {}", WEXITSTATUS(status));
}

class Crew {
 public:
  Crew(const Batch& batch, const std::function<Outcome(std::uint64_t)>& one)
      : batch_(batch), one_(one) {
    void* memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Error(Fault::Bug, "no memory to share");
    shared_ = new (memory) Shared;
    shared_->end = batch.count;
    for (unsigned job = 0; job < batch.jobs; ++job) begin();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() { munmap(shared_, sizeof(Shared)); }

  bool empty() const noexcept { return workers_.empty(); }

  /// What ended since, as it comes.
  std::vector<std::pair<std::uint64_t, Outcome>> wait() {
    std::vector<pollfd> pipes;
    for (const Worker& worker : workers_) pipes.push_back({worker.from, POLLIN, 0});
    std::vector<std::pair<std::uint64_t, Outcome>> ended;
    if (poll(pipes.data(), pipes.size(), -1) < 0) return ended;
    for (std::size_t i = pipes.size(); i-- > 0;)
      if (pipes[i].revents != 0) hear(i, ended);
    return ended;
  }

  /// No seed from this one on is begun.
  void stop_at(std::uint64_t index) {
    if (index < shared_->end) shared_->end = index;
  }

 private:
  struct Worker {
    int from = -1;
    pid_t process = -1;
    std::uint64_t at_work = none;
  };
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  void begin() {
    int ends[2];
    if (pipe(ends) != 0) throw Error(Fault::Bug, "no pipe");
    std::fflush(stdout);
    const pid_t child = fork();
    if (child < 0) throw Error(Fault::Bug, "no process");
    if (child == 0) {
      close(ends[0]);
      run(ends[1]);
      _exit(0);
    }
    close(ends[1]);
    workers_.push_back({ends[0], child});
  }

  void run(int to) const {
    while (true) {
      const std::uint64_t index = shared_->next++;
      if (index >= shared_->end) return;
      // First which one is begun: whoever dies with it cannot say so any more.
      if (!write_all(to, &index, sizeof index)) return;
      const itimerval limit{{}, {patience, 0}};
      setitimer(ITIMER_PROF, &limit, nullptr);
      const Outcome outcome = one_(batch_.from + index);
      const Head head{index, outcome.broken.size(), outcome};
      if (!write_all(to, &head, sizeof head) ||
          !write_all(to, outcome.broken.data(), outcome.broken.size()))
        return;
    }
  }

  void hear(std::size_t which, std::vector<std::pair<std::uint64_t, Outcome>>& ended) {
    Worker& worker = workers_[which];
    if (worker.at_work == none) {
      if (!read_all(worker.from, &worker.at_work, sizeof worker.at_work)) leave(which, ended);
      return;
    }
    Head head;
    Outcome outcome;
    if (!read_all(worker.from, &head, sizeof head)) return leave(which, ended);
    static_cast<Counts&>(outcome) = head.counts;
    outcome.broken.resize(head.text);
    if (!read_all(worker.from, outcome.broken.data(), head.text)) return leave(which, ended);
    worker.at_work = none;
    ended.emplace_back(head.index, std::move(outcome));
  }

  void leave(std::size_t which, std::vector<std::pair<std::uint64_t, Outcome>>& ended) {
    const Worker worker = workers_[which];
    workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(which));
    close(worker.from);
    int status = 0;
    waitpid(worker.process, &status, 0);
    if (worker.at_work == none) return;
    Outcome outcome;
    outcome.broken = death(status);
    ended.emplace_back(worker.at_work, std::move(outcome));
    begin();  // for what is left
  }

  const Batch& batch_;
  const std::function<Outcome(std::uint64_t)>& one_;
  Shared* shared_ = nullptr;
  std::vector<Worker> workers_;
};

}  // namespace

void work(const Batch& batch, const std::function<Outcome(std::uint64_t)>& one,
          const std::function<void(std::uint64_t, const Outcome&)>& told) {
  Crew crew{batch, one};
  std::map<std::uint64_t, Outcome> waiting;
  std::uint64_t next = 0;
  bool broken = false;
  while (!crew.empty()) {
    for (auto& [index, outcome] : crew.wait()) {
      // Those before it are all begun and will end; nobody waits for the ones behind it.
      if (!outcome.broken.empty() && !batch.go_on) crew.stop_at(index);
      waiting.emplace(index, std::move(outcome));
    }
    for (auto first = waiting.begin(); first != waiting.end() && first->first == next && !broken;
         first = waiting.erase(first), ++next) {
      told(batch.from + next, first->second);
      broken = !first->second.broken.empty() && !batch.go_on;
    }
  }
}

}  // namespace rocca::seeds
