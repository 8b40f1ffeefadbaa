// Random lives of clusters in virtual time: raised, changed, hurt and razed, and the promises
// looked at after every step.
//   seeds N [--from S] [--jobs J]  the seeds S to S+N-1
//   seeds N --twice                each of them twice: the same seed goes the same way
//   seeds --one SEED [--loud]      one of them, and what happened in it
//   seeds --specs N                generated specs instead of lives: raised, and planned once more

#include "base/strings.hpp"
#include "seeds/life.hpp"
#include "seeds/specs.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace {

using rocca::seeds::Outcome;

constexpr unsigned patience = 120;  // seconds of real time for one life

struct Options {
  std::uint64_t count = 100;
  std::uint64_t from = 1;
  std::uint64_t jobs = 2;
  std::uint64_t one = 0;
  bool twice = false;
  bool loud = false;
  bool specs = false;
};

std::string program;
volatile std::uint64_t at_work = 0;

/// A life that does not end is a broken promise too. Only calls that are safe in a signal handler.
void too_long(int) {
  char text[64] = "SEED DOES NOT END: --one ";
  std::size_t length = std::strlen(text);
  char digits[24];
  std::size_t count = 0;
  for (std::uint64_t rest = at_work; rest != 0 || count == 0; rest /= 10)
    digits[count++] = static_cast<char>('0' + rest % 10);
  while (count > 0) text[length++] = digits[--count];
  text[length++] = '\n';
  static_cast<void>(!write(STDOUT_FILENO, text, length));
  _exit(2);
}

struct Sum {
  std::uint64_t lives = 0, broken = 0, runs = 0, troubled = 0, strikes = 0, exchanges = 0;
  std::uint64_t chapters = 0, large = 0, hosts_lost = 0;
  double simulated = 0;

  void add(const Sum& part) {
    lives += part.lives;
    broken += part.broken;
    runs += part.runs;
    troubled += part.troubled;
    strikes += part.strikes;
    exchanges += part.exchanges;
    chapters += part.chapters;
    large += part.large;
    hosts_lost += part.hosts_lost;
    simulated += part.simulated;
  }
};

/// False: a promise was broken.
bool try_seed(std::uint64_t seed, const Options& options, Sum& sum) {
  at_work = seed;
  alarm(patience);
  const auto run = options.specs ? rocca::seeds::second_plan : rocca::seeds::live;
  Outcome outcome = run(seed, options.loud);
  if (options.twice && outcome.broken.empty()) {
    const Outcome again = run(seed, false);
    if (again.trace != outcome.trace) outcome.broken = "the same seed went another way";
  }
  alarm(0);
  ++sum.lives;
  sum.runs += outcome.runs;
  sum.troubled += outcome.troubled;
  sum.strikes += outcome.strikes;
  sum.exchanges += outcome.exchanges;
  sum.chapters += outcome.chapters;
  sum.large += outcome.large;
  sum.hosts_lost += outcome.hosts_lost;
  sum.simulated += outcome.simulated_seconds;
  if (outcome.broken.empty()) return true;
  ++sum.broken;
  fmt::print("seed {} broke a promise while {}\n  repeat it: {} {}--one {} --loud\n", seed,
             outcome.broken, program, options.specs ? "--specs " : "", seed);
  std::fflush(stdout);
  return false;
}

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&]() -> std::uint64_t {
      const auto value = i + 1 < argc ? rocca::parse_uint(argv[++i]) : std::nullopt;
      return value.value_or(0);
    };
    if (word == "--from")
      options.from = number();
    else if (word == "--jobs")
      options.jobs = number();
    else if (word == "--one")
      options.one = number();
    else if (word == "--specs")
      options.specs = true;
    else if (word == "--twice")
      options.twice = true;
    else if (word == "--loud")
      options.loud = true;
    else if (const auto count = rocca::parse_uint(word))
      options.count = *count;
    else
      return false;
  }
  return options.jobs > 0 && options.jobs <= 64;
}

/// Every `jobs`-th seed, in a process of its own; its sums come back through a pipe.
int start_job(const Options& options, std::uint64_t number) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    Sum sum;
    for (std::uint64_t i = number; i < options.count; i += options.jobs)
      try_seed(options.from + i, options, sum);
    static_cast<void>(!write(ends[1], &sum, sizeof sum));
    std::fflush(stdout);
    _exit(sum.broken == 0 ? 0 : 1);
  }
  close(ends[1]);
  return child < 0 ? -1 : ends[0];
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  program = argv[0];
  if (!parse(argc, argv, options)) {
    fmt::print(stderr, "usage: {} N [--from S] [--jobs J] [--twice] | --one SEED [--loud]\n",
               program);
    return 1;
  }
  std::signal(SIGALRM, too_long);
  const auto begun = std::chrono::steady_clock::now();
  Sum sum;
  bool all_ended = true;
  if (options.one != 0) {
    try_seed(options.one, options, sum);
  } else {
    std::vector<int> pipes;
    for (std::uint64_t job = 0; job < options.jobs; ++job) pipes.push_back(start_job(options, job));
    for (const int from : pipes) {
      Sum part;
      if (from < 0 || read(from, &part, sizeof part) != static_cast<ssize_t>(sizeof part)) {
        all_ended = false;
        continue;
      }
      sum.add(part);
      close(from);
    }
    while (wait(nullptr) > 0) {
    }
  }
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  const double lives = std::max(1.0, static_cast<double>(sum.lives));
  fmt::print("{} lives, {} broke a promise; {:.0f} h simulated in {:.1f} s: {:.1f} lives/s\n",
             sum.lives, sum.broken, sum.simulated / 3600, took, lives / took);
  fmt::print(
      "each: {:.1f} runs ({:.1f} in trouble), {:.1f} changes in between, {:.1f} faults struck, "
      "{:.0f} exchanges; {} with three control planes, {} hosts lost\n",
      static_cast<double>(sum.runs) / lives, static_cast<double>(sum.troubled) / lives,
      static_cast<double>(sum.chapters) / lives, static_cast<double>(sum.strikes) / lives,
      static_cast<double>(sum.exchanges) / lives, sum.large, sum.hosts_lost);
  if (!all_ended) fmt::print("a job did not end by itself\n");
  if (options.one == 0 && !options.specs && sum.lives >= 20 && sum.strikes == 0) {
    fmt::print("no fault struck: this has shown nothing\n");
    return 1;
  }
  return sum.broken == 0 && all_ended ? 0 : 1;
}
