// Random lives of clusters in virtual time: raised, changed, hurt and razed, and the promises
// looked at after every step.
//   seeds N [--from S] [--jobs J]  the seeds S to S+N-1, by J processes (one for each core)
//   seeds N --go-on                all of them, also after one that broke a promise
//   seeds N --twice                each of them twice, among its family and alone: it goes the
//                                  same way
//   seeds --one SEED [--loud]      one of them, and what happened in it
//   seeds --specs N                generated specs instead of lives: raised, and planned once more

#include "base/strings.hpp"
#include "seeds/crew.hpp"
#include "seeds/life.hpp"
#include "seeds/specs.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string>
#include <thread>

namespace {

using rocca::seeds::Counts;
using rocca::seeds::Outcome;

struct Options {
  rocca::seeds::Batch batch;
  std::uint64_t one = 0;
  bool twice = false;
  bool loud = false;
  bool specs = false;
};

struct Sum {
  std::uint64_t lives = 0, broken = 0;
  Counts all;

  void add(const Outcome& outcome) {
    ++lives;
    if (!outcome.broken.empty()) ++broken;
    all.trace = (all.trace ^ outcome.trace) * 1099511628211ull;
    all.runs += outcome.runs;
    all.troubled += outcome.troubled;
    for (std::size_t i = 0; i < all.troubles.size(); ++i) all.troubles[i] += outcome.troubles[i];
    for (std::size_t i = 0; i < all.turns.size(); ++i) all.turns[i] += outcome.turns[i];
    for (std::size_t i = 0; i < all.modes.size(); ++i) all.modes[i] += outcome.modes[i];
    all.large += outcome.large;
    all.workers += outcome.workers;
    all.hosts += outcome.hosts;
    all.old += outcome.old;
    all.exchanges += outcome.exchanges;
    all.simulated_seconds += outcome.simulated_seconds;
    all.beginnings += outcome.beginnings;
    all.stormy_beginnings += outcome.stormy_beginnings;
    all.early_troubles += outcome.early_troubles;
  }
};

/// A seed by itself, as its command repeats it.
Outcome alone(std::uint64_t seed, const Options& options, bool loud) {
  return options.specs ? rocca::seeds::second_plan(seed, loud) : rocca::seeds::live(seed, loud);
}

void compare(std::uint64_t seed, const Options& options, Outcome& outcome) {
  if (!options.twice || !outcome.broken.empty()) return;
  if (alone(seed, options, false).trace != outcome.trace)
    outcome.broken = "living twice: it went another way";
}

void together(rocca::seeds::Seeds seeds, const Options& options, const rocca::seeds::Tell& tell) {
  const auto compared = [&](std::uint64_t seed, Outcome outcome) {
    compare(seed, options, outcome);
    tell(seed, outcome);
  };
  if (!options.specs) return rocca::seeds::live_together(seeds, compared);
  for (std::uint64_t i = 0; i < seeds.count; ++i)
    compared(seeds.first + i, alone(seeds.first + i, options, false));
}

bool parse(int argc, char** argv, Options& options) {
  bool good = true;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&]() -> std::uint64_t {
      const auto value = i + 1 < argc ? rocca::parse_uint(argv[++i]) : std::nullopt;
      good = good && value && *value > 0;
      return value.value_or(0);
    };
    if (word == "--from")
      options.batch.from = number();
    else if (word == "--jobs")
      options.batch.jobs = static_cast<unsigned>(std::min<std::uint64_t>(number(), 65));
    else if (word == "--one")
      options.one = number();
    else if (word == "--go-on")
      options.batch.go_on = true;
    else if (word == "--specs")
      options.specs = true;
    else if (word == "--twice")
      options.twice = true;
    else if (word == "--loud")
      options.loud = true;
    else if (const auto count = rocca::parse_uint(word))
      options.batch.count = *count;
    else
      return false;
  }
  return good && options.batch.jobs <= 64 && (options.one > 0 || options.batch.count > 0);
}

/// Seconds of CPU time, of this process and those that have ended.
double cpu_seconds() {
  double all = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (const timeval& part : {usage.ru_utime, usage.ru_stime})
      all += static_cast<double>(part.tv_sec) + static_cast<double>(part.tv_usec) / 1e6;
  }
  return all;
}

void summarise(const Sum& sum, const Options& options, double took) {
  const Counts& all = sum.all;
  const double lives = std::max(1.0, static_cast<double>(sum.lives));
  const auto each = [&](std::uint64_t number) { return static_cast<double>(number) / lives; };
  fmt::print(
      "{} {}, {} broke a promise; {:.0f} h simulated in {:.1f} s: {:.1f} a second, {:.1f} ms of "
      "CPU "
      "each\n",
      sum.lives, options.specs ? "specs" : "lives", sum.broken, all.simulated_seconds / 3600, took,
      lives / took, 1000 * cpu_seconds() / lives);
  const auto sum_of = [](const auto& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  };
  fmt::print(
      "each: {:.1f} runs ({:.1f} in trouble), {:.1f} changes in between, {:.1f} faults struck, "
      "{:.0f} exchanges; traces {:016x}\n",
      each(all.runs), each(all.troubled), each(sum_of(all.turns)), each(sum_of(all.troubles)),
      each(all.exchanges), all.trace);
  const auto listed = [](const auto& counts, const auto& names) {
    std::string text;
    for (std::size_t i = 0; i < counts.size(); ++i)
      text += fmt::format("{}{} {}", i == 0 ? "" : ", ", counts[i], names[i]);
    return text;
  };
  std::string modes;
  for (std::size_t i = 0; i < all.modes.size(); ++i)
    if (all.modes[i] > 0)
      modes += fmt::format("{}{} {}", modes.empty() ? "" : ", ", rocca::seeds::mode_names[i],
                           all.modes[i]);
  fmt::print("{} with {}\n", options.specs ? "specs" : "lives", modes);
  if (options.specs) return;
  fmt::print(
      "{} beginnings of {} lives each, {} of them in bad weather ({} faults struck); {} lives each "
      "go "
      "on alike until they end\n",
      all.beginnings, rocca::seeds::family, all.stormy_beginnings, all.early_troubles,
      rocca::seeds::siblings);
  fmt::print("faults: {}\n", listed(all.troubles, rocca::seeds::trouble_names));
  fmt::print("in between: {}\n", listed(all.turns, rocca::seeds::turn_names));
  fmt::print(
      "lives with workers {}, with three control planes {}, on several hosts {}, on Proxmox VE 8.4 "
      "{}\n",
      all.workers, all.large, all.hosts, all.old);
}

/// What was tried too seldom to show anything, for a thousand lives; empty: nothing.
std::string too_seldom(const Sum& sum) {
  if (sum.lives < 1000) return "";
  const std::uint64_t least = sum.lives / 10, seldom = sum.lives / 50, of_few = sum.lives / 100;
  using rocca::seeds::Trouble;
  using rocca::seeds::Turn;
  for (std::size_t i = 0; i < sum.all.troubles.size(); ++i) {
    const auto trouble = static_cast<Trouble>(i);
    // Few have leases, a state far away or three control planes.
    const bool of_some = trouble == Trouble::ChangedLease || trouble == Trouble::LostWrite ||
                         trouble == Trouble::OtherLeader || trouble == Trouble::EtcdRestart;
    if (sum.all.troubles[i] < (of_some ? of_few : least)) return rocca::seeds::trouble_names[i];
  }
  for (std::size_t i = 0; i < sum.all.turns.size(); ++i) {
    const bool of_some =
        static_cast<Turn>(i) == Turn::Lease || i >= static_cast<std::size_t>(Turn::Clone);
    if (sum.all.turns[i] < (of_some ? of_few : seldom)) return rocca::seeds::turn_names[i];
  }
  for (std::size_t i = 0; i < sum.all.modes.size(); ++i)
    if (sum.all.modes[i] < of_few) return std::string("lives with ") + rocca::seeds::mode_names[i];
  if (sum.all.beginnings < sum.lives / rocca::seeds::family) return "beginnings";
  if (sum.all.stormy_beginnings < sum.all.beginnings / 2) return "beginnings in bad weather";
  if (sum.all.early_troubles < least) return "faults in beginnings";
  if (sum.all.large < least) return "lives with three control planes";
  if (sum.all.workers < least) return "lives with workers";
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  options.batch.jobs = std::clamp(std::thread::hardware_concurrency(), 1u, 64u);
  const std::string program = argv[0];
  if (!parse(argc, argv, options)) {
    fmt::print(stderr,
               "usage: {} [--specs] N [--from S] [--jobs J] [--twice] [--go-on]\n"
               "       {} [--specs] --one SEED [--twice] [--loud]\n",
               program, program);
    return 2;
  }
  const auto begun = std::chrono::steady_clock::now();
  Sum sum;
  const auto told = [&](std::uint64_t seed, const Outcome& outcome) {
    sum.add(outcome);
    if (outcome.broken.empty()) return;
    fmt::print("seed {} broke a promise while {}\n  repeat it: {} {}--one {} --loud\n", seed,
               outcome.broken, program, options.specs ? "--specs " : "", seed);
    std::fflush(stdout);
  };
  rocca::seeds::prepare();
  if (options.one != 0) {
    Outcome outcome = alone(options.one, options, options.loud);
    compare(options.one, options, outcome);
    told(options.one, outcome);
  } else {
    options.batch.family = options.specs ? 1 : rocca::seeds::family;
    rocca::seeds::work(
        options.batch,
        [&](rocca::seeds::Seeds seeds, const rocca::seeds::Tell& tell) {
          together(seeds, options, tell);
        },
        told);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  summarise(sum, options, took.count());
  if (const std::string what = too_seldom(sum); !options.specs && !what.empty()) {
    fmt::print("too few {} to show anything\n", what);
    return 1;
  }
  return sum.broken == 0 ? 0 : 1;
}
