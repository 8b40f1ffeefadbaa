#include "engine/execute.hpp"
#include "engine/proven.hpp"
#include "engine/schedule.hpp"

namespace rocca::engine {

namespace {

using namespace std::chrono_literals;

constexpr unsigned most_tries = 3;

bool may_pass(Fault fault) {
  return fault == Fault::Busy || fault == Fault::Unreachable || fault == Fault::Lost;
}

struct Reading {
  const Resource* resource = nullptr;
  std::optional<Live> live;
  std::optional<Error> error;
  unsigned tries = 0;
};

}  // namespace

void recall(const state::State& prior, Worlds& worlds) {
  for (const auto& [address, item] : prior.items)
    // Of what never settled there are only facts that were announced: nothing to be found by.
    if (item.settled && !item.facts.empty()) worlds.learn(address, item.facts);
}

Observed observe(const Desired& desired, const graph::Graph& graph, Worlds& worlds, Runner& runner,
                 unsigned parallelism, std::stop_token stop) {
  Observed observed;
  observed.at = runner.clock();
  Schedule schedule{graph, parallelism};
  std::map<std::string, Reading> readings;
  for (const Resources* all : {&desired.wanted, &desired.leftover})
    for (const auto& [address, resource] : *all) {
      if (!graph.contains(address)) continue;
      readings[address].resource = resource.get();
      schedule.set_lanes(address, resource->lanes(nullptr));
    }
  const std::stop_callback wake{stop, [&] { runner.nudge(); }};

  const auto begin = [&](const std::string& address) {
    Reading& reading = readings.at(address);
    runner.start(address, [&worlds, &reading, address, stop] {
      reading.error.reset();
      try {
        worlds.with(address, stop,
                    [&](World& world) { reading.live = reading.resource->read(world); });
      } catch (const Proven& error) {
        reading.error = error;
        reading.tries = most_tries;
      } catch (const Error& error) {
        reading.error = error;
      } catch (const std::exception& error) {
        reading.error = Error(Fault::Bug, error.what());
      }
    });
  };
  const auto end = [&](const std::string& address) {
    Reading& reading = readings.at(address);
    ++reading.tries;
    if (reading.error && may_pass(reading.error->fault()) && reading.tries < most_tries) {
      schedule.again(address, runner.now() + Duration{1s} * reading.tries);
      return;
    }
    if (reading.error) {
      const std::string place = reading.resource->place();
      reading.error->during("reading " + address + (place.empty() ? "" : " (" + place + ")"));
      observed.failed[address] = reading.error->message();
      observed.errors.insert_or_assign(address, *reading.error);
    } else {
      worlds.learn(address, reading.live ? std::optional{reading.live->facts} : std::nullopt);
      observed.live[address] = std::move(reading.live);
    }
    schedule.settle(address, Schedule::Outcome::Settled);
  };

  while (!schedule.done()) {
    if (stop.stop_requested()) schedule.close();
    while (const auto address = schedule.next(runner.now())) begin(*address);
    if (schedule.done()) break;
    for (const std::string& address : runner.wait_until(schedule.next_wake())) end(address);
  }
  for (const auto& [address, reading] : readings) {
    if (observed.live.contains(address) || observed.failed.contains(address)) continue;
    const Error error(Fault::Interrupted, "was not read before the stop");
    observed.failed[address] = error.message();
    observed.errors.insert_or_assign(address, error);
  }
  return observed;
}

}  // namespace rocca::engine
