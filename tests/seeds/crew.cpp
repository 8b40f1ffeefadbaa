#include "seeds/crew.hpp"

#include "base/error.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <type_traits>
#include <vector>

namespace rocca::seeds {

namespace {

constexpr time_t patience = 120;  // seconds of CPU for one seed, so that a busy machine is no hang

/// What goes through a pipe in front of the text.
struct Head {
  Seeds begun;             // none: one has ended
  std::uint64_t seed = 0;  // that has ended
  std::uint64_t text = 0;  // bytes
  Counts counts;
};
static_assert(std::is_trivially_copyable_v<Head>);

/// Seen by all processes.
struct Shared {
  std::atomic<std::uint64_t> next = 0;  // family that nobody has taken
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

bool write_outcome(int to, std::uint64_t seed, const Outcome& outcome) {
  const Head head{{}, seed, outcome.broken.size(), outcome};
  return write_all(to, &head, sizeof head) &&
         write_all(to, outcome.broken.data(), outcome.broken.size());
}

std::optional<Outcome> read_text(int from, const Head& head) {
  Outcome outcome;
  static_cast<Counts&>(outcome) = head.counts;
  outcome.broken.resize(head.text);
  if (!read_all(from, outcome.broken.data(), head.text)) return std::nullopt;
  return outcome;
}

void be_patient() {
  const itimerval limit{{}, {patience, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
}

/// Somebody else who works, and what he is at.
struct Worker {
  int from = -1;
  pid_t process = -1;
  Seeds at_work{};  // those that he has begun and not told of

  /// The last words of somebody who is gone.
  void leave(const Tell& told) const {
    close(from);
    int status = 0;
    waitpid(process, &status, 0);
    Outcome outcome;
    outcome.broken = death(status);
    for (std::uint64_t i = 0; i < at_work.count; ++i) told(at_work.first + i, outcome);
  }
};

Worker hire(const std::function<void(int to)>& body) {
  int ends[2];
  if (pipe(ends) != 0) throw Error(Fault::Bug, "no pipe");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0) throw Error(Fault::Bug, "no process");
  if (child == 0) {
    close(ends[0]);
    body(ends[1]);
    std::fflush(stdout);
    _exit(0);
  }
  close(ends[1]);
  return {ends[0], child, {}};
}

/// False: he has nothing more to say.
bool hear(Worker& worker, const Tell& told) {
  Head head;
  if (!read_all(worker.from, &head, sizeof head)) return false;
  if (head.begun.count != 0) {
    worker.at_work = head.begun;
    return true;
  }
  const auto outcome = read_text(worker.from, head);
  if (!outcome) return false;
  worker.at_work = worker.at_work.behind(head.seed);
  told(head.seed, *outcome);
  return true;
}

class Crew {
 public:
  Crew(const Batch& batch, const Together& together) : batch_(batch), together_(together) {
    void* memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Error(Fault::Bug, "no memory to share");
    shared_ = new (memory) Shared;
    shared_->next = family_of(batch.from);
    shared_->end = family_of(batch.from + batch.count - 1) + 1;
    for (unsigned job = 0; job < batch.jobs; ++job) begin();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() { munmap(shared_, sizeof(Shared)); }

  bool empty() const noexcept { return workers_.empty(); }

  /// What ended since, as it comes.
  void wait(const Tell& told) {
    std::vector<pollfd> pipes;
    for (const Worker& worker : workers_) pipes.push_back({worker.from, POLLIN, 0});
    if (poll(pipes.data(), pipes.size(), -1) < 0) return;
    for (std::size_t i = pipes.size(); i-- > 0;) {
      if (pipes[i].revents == 0 || hear(workers_[i], told)) continue;
      const Worker gone = workers_[i];
      workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(i));
      gone.leave(told);
      if (gone.at_work.count != 0) begin();  // for what is left
    }
  }

  /// No family behind that of this seed is begun.
  void stop_at(std::uint64_t seed) {
    const std::uint64_t end = family_of(seed) + 1;
    if (end < shared_->end) shared_->end = end;
  }

 private:
  std::uint64_t family_of(std::uint64_t seed) const { return (seed - 1) / batch_.family; }

  void begin() {
    workers_.push_back(hire([this](int to) { run(to); }));
  }

  void run(int to) const {
    while (true) {
      const std::uint64_t family = shared_->next++;
      if (family >= shared_->end) return;
      const std::uint64_t first = std::max(family * batch_.family + 1, batch_.from);
      const std::uint64_t end =
          std::min((family + 1) * batch_.family + 1, batch_.from + batch_.count);
      // First which ones are begun: whoever dies with them cannot say so any more.
      const Head head{{first, end - first}, 0, 0, {}};
      bool heard = write_all(to, &head, sizeof head);
      be_patient();
      if (heard)
        together_(head.begun, [&](std::uint64_t seed, const Outcome& outcome) {
          heard = heard && write_outcome(to, seed, outcome);
          be_patient();
        });
      if (!heard) return;
    }
  }

  const Batch& batch_;
  const Together& together_;
  Shared* shared_ = nullptr;
  std::vector<Worker> workers_;
};

}  // namespace

void apart(Seeds seeds, const std::function<void(const Tell&)>& body, const Tell& told) {
  Worker worker = hire([&](int to) {
    be_patient();
    body([&](std::uint64_t seed, const Outcome& outcome) {
      if (!write_outcome(to, seed, outcome)) _exit(1);
    });
  });
  worker.at_work = seeds;
  while (hear(worker, told)) continue;
  worker.leave(told);
}

void work(const Batch& batch, const Together& together, const Tell& told) {
  Crew crew{batch, together};
  std::map<std::uint64_t, Outcome> waiting;
  std::uint64_t next = batch.from;
  bool broken = false;
  while (!crew.empty()) {
    crew.wait([&](std::uint64_t seed, const Outcome& outcome) {
      // Those before it are all begun and will end; nobody waits for the ones behind it.
      if (!outcome.broken.empty() && !batch.go_on) crew.stop_at(seed);
      waiting.emplace(seed, outcome);
    });
    for (auto first = waiting.begin(); first != waiting.end() && first->first == next && !broken;
         first = waiting.erase(first), ++next) {
      told(next, first->second);
      broken = !first->second.broken.empty() && !batch.go_on;
    }
  }
}

}  // namespace rocca::seeds
