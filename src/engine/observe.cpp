#include "base/faults.hpp"
#include "engine/execute.hpp"
#include "engine/fan_out.hpp"
#include "engine/proven.hpp"
#include "engine/unfinished.hpp"

namespace rocca::engine {

namespace {

using namespace std::chrono_literals;

constexpr unsigned most_tries = 3;

struct Reading {
  const Resource* resource = nullptr;
  std::optional<Live> live;
  std::optional<Error> error;
  unsigned tries = 0;
  bool unfinished = false;
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
  std::map<std::string, Reading> readings;
  for (const Resources* all : {&desired.wanted, &desired.leftover})
    for (const auto& [address, resource] : *all)
      if (graph.contains(address)) readings[address].resource = resource.get();

  const auto read = [&](const std::string& address) {
    Reading& reading = readings.at(address);
    reading.error.reset();
    reading.unfinished = false;
    try {
      worlds.with(address, stop,
                  [&](World& world) { reading.live = reading.resource->read(world); });
    } catch (const Unfinished&) {
      reading.unfinished = true;
    } catch (const Proven& error) {
      reading.error = error;
      reading.tries = most_tries;
    } catch (const Error& error) {
      reading.error = error;
    } catch (const std::exception& error) {
      reading.error = Error(Fault::Bug, error.what());
    }
  };
  const auto ended = [&](const std::string& address) -> std::optional<Tick> {
    Reading& reading = readings.at(address);
    if (reading.unfinished) return runner.now();
    ++reading.tries;
    if (reading.error && may_retry(reading.error->fault()) && reading.tries < most_tries)
      return runner.now() + Duration{1s} * reading.tries;
    if (reading.error) {
      const std::string place = reading.resource->place();
      reading.error->during("reading " + address + (place.empty() ? "" : " (" + place + ")"));
      observed.failed[address] = reading.error->message();
      observed.errors.insert_or_assign(address, *reading.error);
    } else {
      worlds.learn(address, reading.live ? std::optional{reading.live->facts} : std::nullopt);
      observed.live[address] = std::move(reading.live);
    }
    return std::nullopt;
  };

  FanOut how;
  how.parallelism = parallelism;
  how.stop = stop;
  how.lanes = [&](const std::string& address) {
    return readings.at(address).resource->lanes(nullptr);
  };
  how.again = ended;
  fan_out(runner, graph, how, read);
  for (const auto& [address, reading] : readings) {
    if (observed.live.contains(address) || observed.failed.contains(address)) continue;
    const Error error(Fault::Interrupted, "was not read before the stop");
    observed.failed[address] = error.message();
    observed.errors.insert_or_assign(address, error);
  }
  return observed;
}

}  // namespace rocca::engine
