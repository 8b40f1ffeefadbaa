// startup OTHER…: how long `rocca version` takes and how much memory it needs, against another
// command line.
//
//   build/release/bench/startup terraform version
//
// Runs alternate, so that a busy moment of the machine hits both. ru_maxrss of a child begins at
// what its parent held at the fork, so a small helper process that has done nothing else starts
// them.

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

extern char** environ;

namespace {

constexpr int runs = 60;

struct Sample {
  double milliseconds;
  double mebibytes;
  int exit;
};

Sample run_once(char* const* words) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const auto begin = std::chrono::steady_clock::now();
  if (posix_spawnp(&child, words[0], &actions, nullptr, words, environ) != 0) return {0, 0, 127};
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, 0, &usage) < 0) {
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  posix_spawn_file_actions_destroy(&actions);
  return {took.count(), static_cast<double>(usage.ru_maxrss) / 1024,
          WIFEXITED(status) ? WEXITSTATUS(status) : 128};
}

/// Starts both commands in turn and writes the samples to `out`. Allocates nothing, so that it
/// stays small.
[[noreturn]] void helper(int out, char* const* ours, char* const* other) {
  for (int i = 0; i < runs + 2; ++i) {
    for (char* const* words : {ours, other}) {
      const Sample sample = run_once(words);
      if (i < 2 && sample.exit != 127) continue;  // the first runs only warm the page cache
      if (write(out, &sample, sizeof sample) != sizeof sample) _exit(1);
      if (sample.exit == 127) _exit(1);
    }
  }
  _exit(0);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct Measured {
  std::vector<double> milliseconds;
  std::vector<double> mebibytes;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: startup OTHER [ARGUMENTS...]   (ROCCA=PATH names another rocca)\n");
    return 2;
  }
  const char* named = std::getenv("ROCCA");
  char binary[4096];
  std::snprintf(binary, sizeof binary, "%s", named != nullptr ? named : ROCCA_BINARY);
  char verb[] = "version";
  char* ours[] = {binary, verb, nullptr};

  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return 1;
  fcntl(pipe_ends[1], F_SETFD, FD_CLOEXEC);
  const pid_t child = fork();
  if (child < 0) return 1;
  if (child == 0) {
    close(pipe_ends[0]);
    helper(pipe_ends[1], ours, argv + 1);
  }
  close(pipe_ends[1]);

  Measured measured[2];
  Sample sample{};
  int failed = 0;
  for (std::size_t i = 0; read(pipe_ends[0], &sample, sizeof sample) == sizeof sample; ++i) {
    if (sample.exit != 0) {
      failed = sample.exit;
      std::fprintf(stderr, "error: %s ended with exit code %d\n", i % 2 == 0 ? binary : argv[1],
                   sample.exit);
      break;
    }
    measured[i % 2].milliseconds.push_back(sample.milliseconds);
    measured[i % 2].mebibytes.push_back(sample.mebibytes);
  }
  close(pipe_ends[0]);
  waitpid(child, nullptr, 0);
  if (failed != 0 || measured[1].milliseconds.empty()) return 1;

  const double our_time = median(measured[0].milliseconds);
  const double their_time = median(measured[1].milliseconds);
  const double our_memory = median(measured[0].mebibytes);
  const double their_memory = median(measured[1].mebibytes);
  std::printf("%-24s %10s %12s\n", "median of runs", "wall ms", "peak MiB");
  std::printf("%-24s %10.2f %12.2f\n", "rocca version", our_time, our_memory);
  std::printf("%-24s %10.2f %12.2f\n", argv[1], their_time, their_memory);
  std::printf("%-24s %10.3f %12.3f\n", "ratio", our_time / their_time, our_memory / their_memory);
  std::printf("(%zu runs of each, in turn)\n", measured[1].milliseconds.size());
  return 0;
}
