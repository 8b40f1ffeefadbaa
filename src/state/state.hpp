#pragma once

#include "base/clock.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::state {

using Fields = std::map<std::string, std::string>;

/// One thing that rocca keeps true, as it was when it last settled. No value is a secret: what
/// must be remembered of one is a digest.
struct Item {
  Fields facts;                    // vmid, host, uuid, address…: enough to find it again
  std::string applied;             // digest of what was wanted when it settled
  std::vector<std::string> needs;  // its arrows, so that it can be taken away without a spec
  std::string receipt;             // an act in flight: what to ask after instead of repeating it
  std::optional<Instant> settled;  // nothing: never yet, an act was begun

  friend bool operator==(const Item&, const Item&) = default;
};

/// `down` of the whole cluster has begun. One that ends removes the state, and this with it.
struct Teardown {
  Instant since{};
  std::vector<std::string> control_planes;  // that had a machine when it began
  bool reset_existing = false;              // existing machines are reset as well

  friend bool operator==(const Teardown&, const Teardown&) = default;
};

/// What rocca remembers of a cluster between two runs. A value; it can be rebuilt from the live
/// world, except `bootstrapped`, which is why that is also a thing of its own.
struct State {
  static constexpr std::uint64_t format = 1;

  std::string lineage;       // made once; two states of different lineage never replace one another
  std::uint64_t serial = 0;  // grows with every durable write
  std::string cluster;
  std::string cluster_id;  // `cluster.id` of the secrets bundle
  /// That etcd was bootstrapped, and when: after a total loss `up` asks for a restore instead of
  /// making an empty cluster.
  std::optional<Instant> bootstrapped;
  /// Written before the first act of a teardown, so that the next run knows what was meant.
  std::optional<Teardown> teardown;
  std::map<std::string, Item> items;          // by address: "vm/cp-1"
  std::map<std::string, Duration> durations;  // by "kind/action": how long it took lately
  Fields notes;  // ignored drift ("ignore/vm/cp-1/cores" → value) and what else must be remembered

  friend bool operator==(const State&, const State&) = default;
};

/// One change of a State, as the journal keeps it. Applying a record twice is the same as once.
struct Record {
  enum class Kind { Begun, Settled, Gone, Bootstrapped, Took, Note, Teardown, Kept };
  Kind kind = Kind::Settled;
  std::string name;  // the address; for Took "vm/create", for Note its key
  Item item;         // Begun: facts and receipt; Settled: all
  Duration took{};
  std::string value;  // of a Note; empty: forget it
  Instant at{};
  std::optional<Teardown> teardown = {};  // of a Teardown; Kept takes it back

  friend bool operator==(const Record&, const Record&) = default;
};

void apply(State& state, const Record& record);

Record teardown_begun(Teardown teardown);
/// The cluster is kept after all.
Record teardown_cancelled(Instant now);

/// The same state is the same text.
std::string to_text(const State& state);
/// Throws Usage for text that is no state, Refused for a format of the future.
State parse_state(std::string_view text, const std::string& name);

/// One line each, with a checksum of its own, newline at its end.
std::string to_line(const Record& record);
/// The records of a journal. A torn last line is what a power cut leaves: it is dropped; damage
/// before it throws Error(Rejected) that names the line.
std::vector<Record> parse_journal(std::string_view text, const std::string& name);

}  // namespace rocca::state
