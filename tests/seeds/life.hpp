#pragma once

#include <cstdint>
#include <string>

namespace rocca::seeds {

/// What was in one life.
struct Counts {
  std::uint64_t trace = 0;       // hash of everything that happened in the simulated data centre
  std::uint64_t runs = 0;        // of up and down
  std::uint64_t troubled = 0;    // of these, those that did not end well and were repeated
  std::uint64_t chapters = 0;    // what users and other people did in between
  std::uint64_t large = 0;       // it had three control planes
  std::uint64_t strikes = 0;     // faults that hit
  std::uint64_t hosts_lost = 0;  // of these, hosts that went down
  std::uint64_t exchanges = 0;   // requests to everybody
  double simulated_seconds = 0;  // how long it was for those inside
};

/// How one life ended.
struct Outcome : Counts {
  std::string broken;  // the promise that was not kept, and where; empty: all were
};

/// A cluster's life, all of it drawn from the seed: raised in bad weather, changed by its user, by
/// other people and by lost hosts, and razed. After every step the promises are looked at.
Outcome live(std::uint64_t seed, bool loud);

/// Makes what all lives share, before there are many processes.
void prepare();

}  // namespace rocca::seeds
