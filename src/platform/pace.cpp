#include "platform/pace.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

// However long a thing usually takes: it may fail early, and somebody waits for it.
constexpr Duration most_patient = 8s;
constexpr Duration least_margin = 15ms;

Duration part_of(Duration whole, double part) {
  return std::chrono::duration_cast<Duration>(whole * part);
}

}  // namespace

Tick Pace::begin(const std::string& name, const std::string& kind, Tick now, Duration least,
                 Duration leeway) {
  Wait wait;
  wait.kind = kind;
  wait.begun = now;
  wait.least = least;
  wait.leeway = leeway;
  const bool early = !takes_time_ && steps_.early > Duration{};
  Duration first = early ? std::min(least, steps_.early) : least;
  if (const auto usual = expected(kind))
    first = std::max(first, std::min(*usual + margin(kind, *usual), most_patient));
  wait.ask = together(name, wait, now + first);
  return (waits_[name] = wait).ask;
}

void Pace::join(const std::string& name, const std::string& kind, Tick now) {
  Wait wait;
  wait.kind = kind;
  wait.begun = wait.ask = now;
  wait.teaches = false;
  waits_[name] = wait;
}

Tick Pace::due(const std::string& name) const {
  const auto found = waits_.find(name);
  return found == waits_.end() ? Tick{} : found->second.ask;
}

void Pace::seen(const std::string& name, Tick when) {
  const auto found = waits_.find(name);
  if (found != waits_.end()) found->second.seen = when;
}

Tick Pace::again(const std::string& name, Tick now, bool soon) {
  const auto found = waits_.find(name);
  if (found == waits_.end()) throw Error(Fault::Bug, "nobody waits for " + name);
  Wait& wait = found->second;
  const Duration waited = now - wait.begun;
  const auto usual = wait.teaches ? expected(wait.kind) : std::nullopt;
  // Whoever has waited for minutes already does not mind some seconds; nor does it ask a thousand
  // times.
  const Duration most = std::max(steps_.most, part_of(waited, 0.05));
  Duration step = std::max(steps_.least, part_of(waited, 0.01));
  if (!soon) {
    const Duration end = usual ? *usual + margin(wait.kind, *usual) : Duration{};
    if (usual && waited < end)
      step = std::min(end - waited, most_patient);
    else if (!usual && waited < wait.least)
      step = wait.least - waited;  // it was looked at early
    else if (usual)                // any moment now, unless this one is another than the others
      step = std::max(part_of(*usual, 0.03),
                      std::min(part_of(waited - *usual, 0.25), part_of(waited, 0.1)));
    else
      step = std::min(part_of(waited, steps_.growth), most);
    step = std::max(step, steps_.least);
    if (usual ? waited >= end : waited >= wait.least) step = std::min(step, most);
  }
  // A list that many share may have been read a little earlier.
  if (!wait.seen || *wait.seen < wait.ask) wait.seen = now;
  wait.ask = together(name, wait, now + step);
  return wait.ask;
}

void Pace::over(const std::string& name, Tick when, bool teaches, std::optional<Duration> logged) {
  const auto found = waits_.find(name);
  if (found == waits_.end()) return;
  const Wait wait = found->second;
  waits_.erase(found);
  if (!wait.teaches || !teaches) return;
  Duration most = when - wait.begun;
  // However late it was asked after: a log of whole seconds is wrong by less than one.
  if (logged) most = std::min(most, *logged + 1s);
  std::optional<Duration>& measured = kinds_[wait.kind].measured;
  const Duration least = wait.seen ? *wait.seen - wait.begun : Duration{};
  if (wait.least > steps_.early && least > wait.least / 2) takes_time_ = true;
  if (least < part_of(most, 0.85)) {
    // Nobody knows since when it is over: the next is asked after a little earlier, else what was
    // once taken for long would never be found to be shorter. Where things end at once, much
    // earlier: there is most to be gained by it.
    const bool at_once = !takes_time_ && logged && *logged == Duration{};
    measured = part_of(std::min(measured.value_or(most), most), at_once ? 0.5 : 0.97);
    return;
  }
  const bool fits = measured && *measured >= least && *measured <= most;
  if (!fits || most - least > most / 20) measured = least + (most - least) / 2;
}

void Pace::logged(const std::string& kind, Duration took) {
  kinds_[kind].logged.push_back(took);
}

std::optional<Duration> Pace::expected(const std::string& kind) const {
  const auto found = kinds_.find(kind);
  if (found == kinds_.end()) return std::nullopt;
  if (found->second.measured) return found->second.measured;
  std::vector<Duration> all = found->second.logged;
  if (all.empty()) return std::nullopt;
  // A log counts whole seconds, so that one alone may be wrong by one, and the mean of many is
  // right. What is far from the middle was another work.
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  const Duration usual = *middle;
  std::erase_if(all, [&](Duration each) { return each > usual + 1s || each + 1s < usual; });
  Duration sum{};
  for (const Duration each : all) sum += each;
  return sum / static_cast<std::int64_t>(all.size());
}

Duration Pace::margin(const std::string& kind, Duration expected) const {
  const auto found = kinds_.find(kind);
  const Duration small = std::max(least_margin, part_of(expected, 0.01));
  if (found == kinds_.end() || found->second.measured || found->second.logged.empty()) return small;
  const auto count = static_cast<double>(found->second.logged.size());
  return std::max(small, part_of(600ms, 1 / std::sqrt(count)));
}

/// When another is asked after, if that is in time. As long as nobody knows how long it takes, a
/// little too early is as good as a little too late.
Tick Pace::together(const std::string& name, const Wait& wait, Tick ask) const {
  if (wait.leeway == Duration{}) return ask;
  // Where nobody knows how long it takes, a little earlier will do.
  const Tick from =
      expected(wait.kind) ? ask : ask - std::min(wait.leeway, part_of(ask - wait.begun, 0.25));
  std::optional<Tick> found;
  for (const auto& [other, each] : waits_)
    if (other != name && each.ask >= from && each.ask <= ask + wait.leeway &&
        (!found || each.ask < *found))
      found = each.ask;
  return found.value_or(ask);
}

}  // namespace rocca::resources
