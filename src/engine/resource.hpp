#pragma once

#include "base/clock.hpp"
#include "engine/guards.hpp"
#include "state/state.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace rocca::resources {
class World;  // the clients, bound to one step; only kinds know what is in it
}

namespace rocca::engine {

using resources::World;
using state::Fields;

/// A thing as it is now.
struct Live {
  std::string id;  // what the far side calls it: "104 on atlas", "local:import/talos.qcow2"
  Fields fields;   // what is compared; may be shown (a secret is here as a digest)
  Fields facts;    // what others ask for: address, host, vmid, uuid…; kept in the state

  friend bool operator==(const Live&, const Live&) = default;
};

enum class Action { None, Create, Update, Replace, Destroy };
const char* to_string(Action action) noexcept;
const char* sign_of(Action action) noexcept;  // " ", "+", "~", "-/+", "-"

struct FieldChange {
  std::string field;
  std::string before;  // empty: not there
  std::string after;
  Effect effect = Effect::Live;

  friend bool operator==(const FieldChange&, const FieldChange&) = default;
};

/// What has to be done with one thing, and why.
struct Change {
  Action action = Action::None;
  std::string reason;
  std::vector<FieldChange> fields;
  Effect effect = Effect::None;  // the costliest; creating something new is Live
  /// Not empty: this cannot be done, and why (a foreign VM at that id, a class that day 2 brings).
  std::string refusal;
  std::string hint;
  /// Not empty: what is left over stays, and why. It is remembered, and looked at again next time.
  std::string keep;
  /// It cannot all be seen yet: the costliest that may come to light in the same run.
  Effect perhaps = Effect::None;
  /// Nothing is to be done but to wait for what `reason` says. However often the state changes
  /// meanwhile, all waits in a row end within the kind's patience, and none of them is judged as a
  /// change without effect.
  bool waits = false;
  /// The user agreed to this cost before: an earlier run began it with that permission and was
  /// interrupted. It needs no further permission.
  bool confirmed = false;

  bool none() const { return action == Action::None && refusal.empty(); }
  friend bool operator==(const Change&, const Change&) = default;
};

/// What an act left behind to ask after; kept in the journal. Empty: nothing to ask after but the
/// thing itself.
struct Receipt {
  std::string token;
  std::string act{};          // for people: "create", "resize", "start"; empty: the change's action
  Duration ask_after{};       // no sense in asking earlier: saves a request
  std::string waiting_for{};  // for people, until it is first asked after
};

/// A lane caps how much of something goes on at once.
struct Lane {
  /// While a call is in flight; from an act until that has settled; or from the first act of a step
  /// until the step itself has.
  enum class Hold { Call, Act, Step };
  std::string name;  // "pve/atlas", "vmid/104", "import/local@atlas"
  unsigned width = 1;
  Hold hold = Hold::Call;
  std::string turn{};  // for people who see an act queue there: "two disks at a time on local"
  /// One alone, until a step that held this lane has settled well: others would share its fate.
  bool one_first = false;
  bool in_plan = false;  // a plan tells the turn as well
  /// Held over all runs of the process (see Limiter), because what it protects is the same for all.
  /// Slots are taken in the order of their names: what is held for long must come before what is
  /// held for a call.
  bool shared = false;
};

struct Ready {};
struct NotYet {
  std::string waiting_for;  // in the far side's own words
  Duration ask_again = std::chrono::seconds{2};
  std::vector<Lane> with{};  // what the next asking takes part in besides: it goes to another door
  /// Returns as soon as there is something new, and after some seconds in any case: then it is
  /// asked again at once, not only after `ask_again`. Runs beside the steps, and holds no lane.
  /// What it throws counts as news.
  std::function<void(World&)> watch{};
};
using Progress = std::variant<Ready, NotYet>;

/// Why something does not happen, as far as the platform can tell.
struct Explanation {
  std::string likely;  // the likeliest cause and its fix, in one line; empty: unknown
  std::string full;    // facts and causes, for the hint of an error; empty: unknown
};

/// One thing we keep true: a value that says what is wanted, nothing else. Effects come in as
/// World&; diff gets none and cannot cheat. A step is a loop: read, diff, one short act, probe
/// until the act is over, read again… until there is nothing left to do. So every act may be
/// decided anew from what is really there, and a run that was killed goes on by itself.
///
/// A leftover is asked the same way: its diff says Destroy (with effect, reason or refusal) while
/// it is there, or why it is kept; any other answer is taken as Destroy with data loss.
class Resource {
 public:
  virtual ~Resource() = default;

  virtual const std::string& address() const = 0;  // "vm/cp-1": kind, a slash, a name
  virtual std::vector<std::string> needs() const = 0;
  /// Where the user asked for it: "cluster.yaml:18:5"; empty for what is only left over.
  virtual std::string place() const { return {}; }
  /// Digest of all that is wanted (secrets by digest only).
  virtual std::string wanted() const = 0;

  /// Reads only. Absence is an answer, not an error. In `plan` it may be asked before what it needs
  /// exists. A search that takes seconds throws Unfinished after each part of it.
  virtual std::optional<Live> read(World& world) const = 0;
  virtual Change diff(const std::optional<Live>& live) const = 0;
  /// One short act towards `change`: look first, then do. Sees Create and Update only: a Replace is
  /// `destroy`, a read that finds nothing, and then Create.
  virtual Receipt apply(World& world, const Change& change,
                        const std::optional<Live>& live) const = 0;
  /// Asks after an act; also after one of an earlier run, from its receipt.
  virtual Progress probe(World& world, const Receipt& receipt) const = 0;
  /// An act was sent and nobody knows whether it arrived: its answer was lost, or the run was
  /// killed after it had announced it. NotYet: wait, do not act again. Ready: read and decide anew.
  virtual Progress probe_unknown(World&) const { return Ready{}; }
  /// Takes it away: proves identity, then one short act. For things that are left over or replaced.
  virtual Receipt destroy(World& world, const Live& live) const = 0;

  /// What its calls take part in. `change` is nothing for reading.
  virtual std::vector<Lane> lanes(const Change* change) const = 0;
  /// How long an act and its waits may take in all before it fails with what it last waited for.
  virtual Duration patience(const Change& change) const = 0;

  /// At least how long making it takes, as far as that can be said beforehand: who has the longest
  /// way before it goes first.
  virtual Duration takes() const { return std::chrono::seconds{1}; }

  /// Why a wait of this resource takes so long or has timed out. Reads only. Called once during a
  /// long wait and once after a timeout, before the failure is reported.
  virtual std::optional<Explanation> explain(World&) const { return std::nullopt; }
  /// False: `explain` has nothing to say, and is not called.
  virtual bool explains() const { return false; }
  /// What `explain` takes part in, beside the lanes of the step.
  virtual std::vector<Lane> explain_lanes() const { return {}; }

  /// True: that this act begins is durable before it begins, so that a killed run finds it out by
  /// `probe_unknown`. For acts that must not be repeated (bootstrap, apply in maintenance mode).
  virtual bool announces(const Change&) const { return false; }
  /// Facts that are written with the announcement, and kept until the thing settles or is gone.
  virtual Fields announced(const Change&) const { return {}; }
  /// Notes of the state that are written with the announcement; an empty value removes the note.
  virtual Fields announced_notes(const Change&) const { return {}; }
  /// Notes of the state that are removed when the resource is gone.
  virtual std::vector<std::string> forgotten_notes() const { return {}; }
  /// What must be remembered beside the thing itself once it has settled, in the same write: that
  /// etcd was bootstrapped (Record::Kind::Bootstrapped), a note. The engine fills in `at`.
  virtual std::vector<state::Record> remembers(const Live&) const { return {}; }
  /// What only one thing can have: `vmid` → `104`, `address` → `10.0.0.11`. A leftover whose facts
  /// say the same goes before it.
  virtual Fields claims() const { return {}; }
  /// True: when the needed thing is replaced, this goes with it and is made anew (a machine's
  /// configuration with its VM).
  virtual bool goes_with(const std::string&) const { return false; }
};

std::string kind_of(std::string_view address);  // "vm" of "vm/cp-1"

/// Gives each call its World. The engine owns none. `with` is called from many threads at once.
class Worlds {
 public:
  virtual ~Worlds() = default;
  /// Calls `body` with a World for this step; what it learns of other things is in `known`.
  virtual void with(const std::string& address, std::stop_token stop,
                    const std::function<void(World&)>& body) = 0;
  /// What a thing turned out to be; from now on `world.known(address)`. Absent: it is gone.
  virtual void learn(const std::string& address, const std::optional<Fields>& facts) = 0;
};

}  // namespace rocca::engine
