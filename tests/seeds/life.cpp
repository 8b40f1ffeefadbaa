#include "seeds/life.hpp"

#include "scenarios/engine_machines.hpp"
#include "seeds/crew.hpp"
#include "seeds/others.hpp"
#include "seeds/place.hpp"
#include "seeds/promises.hpp"
#include "seeds/shape.hpp"
#include "seeds/weather.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stop_token>
#include <utility>

namespace rocca::seeds {

namespace {

using namespace std::chrono_literals;

constexpr Duration longest_run = 3h;  // of simulated time; every wait is bounded
constexpr std::uint64_t bundles = 3;

/// Of the group of so many that a seed belongs to.
std::uint64_t number_of(std::uint64_t seed, std::uint64_t group) {
  return (seed - 1) / group + 1;
}

const secrets::Bundle& bundle(std::uint64_t number) {
  static const std::array<secrets::Bundle, bundles> all = {
      scenarios::make_bundle(1), scenarios::make_bundle(2), scenarios::make_bundle(3)};
  return all[number];
}

class Life {
 public:
  Life(std::uint64_t number, bool loud)
      : dice_(SeededEntropy{number}.fork("family")),
        shape_(draw_shape(dice_, bundles)),
        rig_(home_of(number, shape_)),
        place_(shape_, rig_),
        weather_(rig_, Dice{SeededEntropy{number}.fork("family weather")},
                 Dice{SeededEntropy{number}.fork("family etcd")}, outcome_),
        watch_(rig_),
        promises_((rig_.bundle = &bundle(shape_.bundle), rig_)),
        others_(rig_, promises_),
        loud_(loud) {
    rig_.loud = loud;
    rig_.self_contained = true;
    rig_.open_store = [this] { return place_.open(); };
    weather_.dhcp = shape_.dhcp();
    watch_.hosts_lost = [this] { return outcome_.of(Trouble::LostHost); };
    watch_.is_restless = [this] { return weather_.is_etcd_restless(); };
  }

  /// Until the cluster is up for the first time. False: it broke a promise.
  bool begin() {
    begun_ = rig_.home.world.now();
    const bool kept = guarded([&] {
      rig_.transport = &watch_;
      some_foreigners();
      if (shape_.boot == Shape::Boot::Template) some_templates();
      outcome_.hosts = shape_.hosts > 1 ? 1 : 0;
      outcome_.old = shape_.new_release ? 0 : 1;
      note_modes();
      want(shape_.planes, shape_.workers);
      // Many share it, so that most have troubles there.
      raise(dice_.one_in(8) ? 0 : dice_.between(1, 2));
    });
    outcome_.beginnings = 1;
    for (const std::uint64_t struck : outcome_.troubles) outcome_.early_troubles += struck;
    outcome_.stormy_beginnings = outcome_.early_troubles > 0 ? 1 : 0;
    measure();
    return kept;
  }

  /// What happens to the cluster, until it is up for the last time.
  bool go_on(std::uint64_t number) {
    reroll(number, "middle");
    const bool kept = guarded([&] {
      const unsigned chapters = dice_.one_in(5) ? 0 : dice_.one_in(6) ? 2 : 1;
      for (unsigned i = 0; i < chapters; ++i) {
        chapter();
        raise();
      }
      // Drawn after all the rest, so that lives without them are as they were before.
      if (!promises_.ours().empty() && dice_.one_in(3)) others_chapter();
    });
    measure();
    return kept;
  }

  void end(std::uint64_t seed) {
    reroll(seed, "end");
    guarded([&] {
      const std::vector<std::string> before = ours();
      raze();
      if (dice_.one_in(30)) rebirth(before);
    });
    weather_.clear();
    measure();
  }

  const Outcome& outcome() const noexcept { return outcome_; }

  /// Without what somebody else counts.
  Outcome since(const Counts& before) const {
    Outcome own = outcome_;
    const auto less = [](auto& counts, const auto& counted) {
      for (std::size_t i = 0; i < counts.size(); ++i) counts[i] -= counted[i];
    };
    less(own.troubles, before.troubles);
    less(own.turns, before.turns);
    own.runs -= before.runs;
    own.troubled -= before.troubled;
    own.exchanges -= before.exchanges;
    own.simulated_seconds -= before.simulated_seconds;
    own.beginnings -= before.beginnings;
    own.stormy_beginnings -= before.stormy_beginnings;
    own.early_troubles -= before.early_troubles;
    return own;
  }

 private:
  template <class Body>
  bool guarded(const Body& body) {
    try {
      body();
      return true;
    } catch (const Broken& broken) {
      outcome_.broken = fmt::format("{}: {}", doing_, broken.text);
    } catch (const Error& error) {
      outcome_.broken = fmt::format("{}: {}", doing_, error.render());
    } catch (const std::exception& error) {
      outcome_.broken = fmt::format("{}: {}", doing_, error.what());
    }
    return false;
  }

  /// From here on it is this number's own life.
  void reroll(std::uint64_t number, const char* part) {
    const SeededEntropy chance{number};
    dice_ = Dice{chance.fork(part)};
    weather_.reroll(Dice{chance.fork(std::string(part) + " weather")},
                    Dice{chance.fork(std::string(part) + " etcd")});
  }

  void measure() {
    outcome_.exchanges = rig_.wire.exchanges();
    outcome_.trace = rig_.home.world.trace().hash();
    outcome_.simulated_seconds =
        std::chrono::duration<double>(rig_.home.world.now() - begun_).count();
  }

  void say(const std::string& what) {
    doing_ = what;
    if (loud_) fmt::print("== {}\n", what);
  }

  void note_modes() {
    if (shape_.addressing == Shape::Addressing::Dhcp) outcome_.note(Mode::Dhcp);
    if (shape_.addressing == Shape::Addressing::Searched) outcome_.note(Mode::Searched);
    if (shape_.addressing == Shape::Addressing::Meta) outcome_.note(Mode::Meta);
    if (shape_.boot == Shape::Boot::Iso) outcome_.note(Mode::Iso);
    if (shape_.boot == Shape::Boot::Template) outcome_.note(Mode::Template);
    if (shape_.existing == Shape::Existing::Worker) outcome_.note(Mode::ExistingWorker);
    if (shape_.existing == Shape::Existing::All) outcome_.note(Mode::AllExisting);
    if (shape_.place == Shape::Place::Kubernetes) outcome_.note(Mode::KubernetesState);
    if (shape_.place == Shape::Place::S3) outcome_.note(Mode::S3State);
    if (shape_.place == Shape::Place::Http) outcome_.note(Mode::HttpState);
    if (shape_.sealed) outcome_.note(Mode::SealedState);
  }

  // ---- what the user wants

  void want(unsigned planes, unsigned workers) {
    shape_.planes = planes;
    shape_.workers = workers;
    weather_.etcd = planes == 3;
    if (planes == 3) outcome_.large = 1;
    if (workers > 0) outcome_.workers = 1;
    for (const std::string& node : shape_.vms()) promises_.nodes.insert(node);
    need_machines();
    rig_.write_spec(spec_of(shape_));
  }

  /// Somebody puts them there, and they boot into maintenance mode.
  void need_machines() {
    promises_.wanted_machines.clear();
    for (const Shape::Machine& machine : shape_.machines()) {
      if (!promises_.machines().contains(machine.vmid)) {
        scenarios::make_machine(rig_, machine.vmid, machine.address);
        promises_.add_machine(machine.vmid);
      }
      promises_.wanted_machines[machine.vmid] = machine.node;
    }
  }

  /// What nobody but its owner can: rocca has no hand at its button.
  void switch_on_machines() {
    bool any = false;
    for (const auto& [vmid, machine] : promises_.machines()) {
      const lab::pve::Vm& now = rig_.home.dc.vms.at(vmid);
      if (!now.running.empty()) continue;
      administrator().start_vm(now.node, vmid);
      any = true;
    }
    if (any) rig_.home.world.run_for(2min);
  }

  resources::RunOptions allowed() const {
    resources::RunOptions options;
    options.policy.allowed.insert(engine::Effect::PowerCycle);
    if (loses_data_) options.policy.allowed.insert(engine::Effect::DataLoss);
    if (!target_.empty()) options.targets = {target_};
    return options;
  }

  resources::RunOptions leaving() const {
    resources::RunOptions options;
    options.reset_existing = resets_;
    return options;
  }

  // ---- runs

  enum class Verb { Up, Down };

  /// True: it ended well. What it says in bad weather is its own affair, but never a bug of ours.
  bool attempt(Verb verb, std::string& words) {
    ++outcome_.runs;
    const Instant begun = rig_.home.world.now();
    watch_.inner = &weather_.door();
    watch_.watches = verb == Verb::Up;
    bool well = false;
    running_ = true;
    try {
      const engine::Report report = verb == Verb::Up ? rig_.up(allowed()) : rig_.down(leaving());
      well = report.ok();
      words = scenarios::problems(report);
      for (const auto& [address, step] : report.steps)
        if (step.error && step.error->fault() == Fault::Bug)
          throw Broken{address + ": " + step.error->render()};
    } catch (const Error& error) {
      words = error.render();
      if (error.fault() == Fault::Bug) throw Broken{words};
    }
    running_ = false;
    if (loud_ && !well) fmt::print("{}\n", words);
    promises_.check_text(words, "what was said");
    for (const std::string& line : rig_.log) promises_.check_text(line, "an event");
    rig_.log.clear();
    if (!watch_.broken.empty()) throw Broken{watch_.broken};
    promises_.check();
    for (const std::string& text : place_.texts()) {
      promises_.check_text(text, "the state");
      if (shape_.sealed && text.find("machine/") != std::string::npos)
        throw Broken{"the state is not sealed"};
    }
    if (rig_.home.world.now() - begun > longest_run)
      throw Broken{fmt::format("it took {} h", (rig_.home.world.now() - begun) / 1h)};
    if (!well) ++outcome_.troubled;
    return well;
  }

  /// Some runs in bad weather, and some that are interrupted or lose their disk.
  void stormy(Verb verb, unsigned storms) {
    for (unsigned i = 0; i < storms; ++i) {
      std::string words = weather_.worsen(verb == Verb::Up);
      std::stop_source stop;
      std::uint64_t cut_at = 0;
      if (dice_.one_in(4)) {
        const unsigned when = dice_.between(0, verb == Verb::Up ? 60 : 8);
        words += fmt::format("- after {} s somebody presses Ctrl-C\n", when);
        rig_.home.world.after(std::chrono::seconds{when}, [this, stop]() mutable {
          if (running_) outcome_.count(Trouble::CtrlC);
          stop.request_stop();
        });
        rig_.stop = stop.get_token();
      }
      if (dice_.one_in(3)) {
        // Few writes are its own where the state is far away.
        const unsigned when = dice_.between(1, place_.is_far() ? 4 : 20);
        words += fmt::format("- the machine loses its power at write {}\n", when);
        rig_.files.cut_in(when);
        cut_at = rig_.files.durable_steps() + when;
      }
      if (place_.is_far() && dice_.one_in(2)) {
        const bool arrives = dice_.one_in(2);
        words += fmt::format("- a write of the state {}\n",
                             arrives ? "loses its answer" : "does not arrive");
        place_.lose_next_write(arrives);
      }
      say(fmt::format("{} in bad weather:\n{}", name_of(verb), words));
      std::string told;
      const bool well = attempt(verb, told);
      if (cut_at != 0 && rig_.files.durable_steps() >= cut_at) outcome_.count(Trouble::PowerCut);
      if (place_.has_lost_a_write()) outcome_.count(Trouble::LostWrite);
      rig_.files.cut_in(0);
      rig_.files.power_cut();
      rig_.store.reset();
      rig_.stop = {};
      if (dice_.one_in(2)) rig_.home.world.run_for(std::chrono::seconds{dice_.between(0, 90)});
      if (well) break;
    }
    weather_.clear();
    switch_on_machines();
  }

  unsigned some_storms() { return dice_.one_in(2) ? 0 : dice_.one_in(4) ? 2 : 1; }

  /// Raises what is wanted: whatever happened before, one run without troubles is enough.
  void raise() { raise(some_storms()); }
  void raise(unsigned storms) {
    stormy(Verb::Up, storms);
    say("up");
    std::string words;
    bool well = attempt(Verb::Up, words);
    if (!well && helped(words)) well = attempt(Verb::Up, words);
    if (!well) throw Broken{"it did not converge:\n" + words};
    loses_data_ = false;
    // Whether the interrupted `down` had destroyed etcd shows only now.
    if (std::exchange(perhaps_new_, false) &&
        rig_.home.estate.bootstraps().size() + 1 == promises_.lives)
      --promises_.lives;
    promises_.check_up(rig_.plan(allowed()), shape_.vms().size());
  }

  void raze() {
    resets_ = !promises_.machines().empty() && dice_.one_in(2);
    const auto before = promises_.configurations();
    const std::uint64_t hosts_lost = outcome_.of(Trouble::LostHost);
    stormy(Verb::Down, some_storms());
    say("down");
    std::string words;
    bool well = attempt(Verb::Down, words);
    if (!well && helped(words)) well = attempt(Verb::Down, words);
    const bool reset = std::exchange(resets_, false);
    // A worker that was off meanwhile opens no door any more: nobody is left to sign its
    // certificate. Its owner is told, and goes on without it.
    const bool reached = outcome_.of(Trouble::LostHost) == hosts_lost;
    if (!well && reset && !reached && words.find("is not reset") != std::string::npos)
      well = attempt(Verb::Down, words);
    if (!well) throw Broken{"it did not end well:\n" + words};
    if (reset) rig_.home.world.run_for(3min);
    promises_.check_down(before, !reset    ? Promises::Reset::None
                                 : reached ? Promises::Reset::All
                                           : Promises::Reset::Some);
    // Control planes that were left alone go on with their etcd.
    if (shape_.existing != Shape::Existing::All || reset) ++promises_.lives;
  }

  /// Id, name, address, card and UUID of each of our VMs.
  std::vector<std::string> ours() const {
    std::vector<std::string> all = scenarios::identities(rig_);
    std::erase_if(all, [&](const std::string& each) {
      const auto vmid = parse_uint(each.substr(0, each.find(' ')));
      return vmid && (promises_.is_foreign(static_cast<unsigned>(*vmid)) ||
                      promises_.machines().contains(static_cast<unsigned>(*vmid)));
    });
    return all;
  }

  /// The same names, ids, addresses, cards and UUIDs come back, and `status` finds them well.
  void rebirth(const std::vector<std::string>& before) {
    outcome_.count(Turn::Rebirth);
    raise();
    if (const auto after = ours(); after != before)
      throw Broken{fmt::format("it came back as another one:\n{}\nwas\n{}", join(after, "\n"),
                               join(before, "\n"))};
    watch_.inner = &rig_.wire;
    const auto status = rig_.run()->status();
    if (!status.healthy) {
      std::string text = "it is up, and its status is not healthy: etcd: " + status.etcd;
      for (const resources::NodeStatus& node : status.nodes)
        if (!node.healthy)
          text +=
              fmt::format("\n{} ({}): {} {}", node.name, node.address, node.stage, node.problem);
      if (!status.vip.empty() && status.vip_owner.empty()) text += "\nno node has " + status.vip;
      throw Broken{text};
    }
    raze();
  }

  /// A host that dies while it makes a VM leaves a lock that only its administrator may take away.
  /// He does as he was told; what the dead create put on storages stays, for no VM names it.
  bool helped(const std::string& words) {
    if (words.find("qm unlock") == std::string::npos) return false;
    bool did = false;
    for (auto vm = rig_.home.dc.vms.begin(); vm != rig_.home.dc.vms.end();) {
      const bool stuck = !promises_.is_foreign(vm->first) &&
                         !promises_.machines().contains(vm->first) &&
                         vm->second.find("lock") != nullptr;
      if (!stuck) {
        ++vm;
        continue;
      }
      vm = rig_.home.dc.vms.erase(vm);
      did = true;
    }
    return did;
  }

  // ---- what happens in between

  void chapter() {
    // What is seldom possible is tried more often.
    if (shape_.dhcp() && dice_.one_in(2)) return leases_change();
    switch (dice_.below(20)) {
      case 0:
      case 1:
      case 2:
        return somebody_changes();
      case 3:
        if (shape_.workers > 0) return worker_less();
        return somebody_stops(any_of_ours());
      case 4:
      case 5:
      case 6:
      case 7:
        return somebody_destroys();
      case 8:
      case 9:
      case 10:
      case 11:
      case 12:
        if (dice_.one_in(3)) return only_one_node();
        if (shape_.workers > 0 && !dice_.one_in(4)) return worker_less();
        say("a worker more");
        outcome_.count(Turn::WorkerMore);
        return want(shape_.planes, shape_.workers + 1);
      case 13:
      case 14:
        if (shape_.planes == 3) return lose_memory();
        say("three control planes instead of one");
        outcome_.count(Turn::ThreePlanes);
        return want(3, shape_.workers);
      case 15:
      case 16:
      case 17:
        return lose_memory();
      default:
        return intruder();
    }
  }

  /// A worker more is wanted and somebody has stopped another node, and only that one is meant.
  void only_one_node() {
    const auto before = promises_.ours();
    const auto configurations = promises_.configurations();
    want(shape_.planes, shape_.workers + 1);
    say("up for cp-1 only");
    outcome_.count(Turn::Target);
    if (!before.empty()) somebody_stops(before.front());
    target_ = "cp-1";
    std::string words;
    if (!attempt(Verb::Up, words)) throw Broken{"it did not converge:\n" + words};
    const auto left = scenarios::differences(rig_.plan(allowed()));
    target_.clear();
    if (!left.empty()) throw Broken{"its second plan is not empty:\n" + join(left, "\n")};
    if (promises_.ours() != before) throw Broken{"another node was made as well"};
    for (const auto& [vmid, config] : configurations)
      if (promises_.wanted_machines[vmid] != "cp-1" &&
          promises_.configurations().at(vmid) != config)
        throw Broken{fmt::format("machine {} was configured as well", vmid)};
  }

  void worker_less() {
    say("a worker less");
    outcome_.count(Turn::WorkerLess);
    loses_data_ = true;
    want(shape_.planes, shape_.workers - 1);
  }

  /// A VM, or, where there is none, a machine that runs as one in the simulation.
  unsigned any_of_ours() {
    auto all = promises_.ours();
    if (all.empty())
      for (const auto& [vmid, node] : promises_.wanted_machines) all.push_back(vmid);
    return all[dice_.below(all.size())];
  }

  test::Administrator administrator() {
    return {rig_.wire,
            {{rig_.home.endpoint()},
             Secret{rig_.home.root_token},
             net::Tls::pinned(rig_.home.first().fingerprint)}};
  }

  void somebody_changes() {
    static constexpr std::array changes = {
        "memory: 3072", "cores: 1",          "name: renamed",      "tags: mine",
        "onboot: 0",    "description: mine", "cpu: x86-64-v2-AES", "memory: 16384"};
    const unsigned vmid = any_of_ours();
    if (promises_.machines().contains(vmid)) return somebody_stops(vmid);
    const std::string what = dice_.of(changes);
    // What a running VM cannot change waits for its next start; this somebody may not.
    if ((what.starts_with("memory") || what.starts_with("c")) && dice_.one_in(2))
      somebody_stops(vmid);
    say(fmt::format("somebody changes VM {}: {}", vmid, what));
    outcome_.count(Turn::Change);
    lab::Faults::parse(
        fmt::format("- at: 0s\n  change: {{ vm: {}, by: alice@pam, set: {{ {} }} }}\n", vmid, what),
        "drift")
        .arm(rig_.home.dc);
    rig_.home.world.run_for(30s);
    watch_.inner = &rig_.wire;
    const auto run = rig_.run(allowed());
    if (run->plan().empty()) throw Broken{"and the plan is empty"};
    const auto drift = run->drift();
    const bool named = std::any_of(drift.begin(), drift.end(), [](const resources::Drift& each) {
      return each.by == "alice@pam" && each.unsure.empty();
    });
    if (!named) throw Broken{"and drift does not name her"};
  }

  void somebody_stops(unsigned vmid) {
    say(fmt::format("somebody stops VM {}", vmid));
    outcome_.count(Turn::Stop);
    administrator().start_stop(rig_.home.dc.vms.at(vmid).node, vmid);
    rig_.home.world.run_for(20s);
  }

  void somebody_destroys() {
    for (const unsigned vmid : promises_.ours()) {
      if (rig_.home.estate.truth(vmid).etcd_member) continue;
      say(fmt::format("somebody destroys VM {}", vmid));
      outcome_.count(Turn::Destroy);
      const std::string host = rig_.home.dc.vms.at(vmid).node;
      administrator().start_stop(host, vmid);
      rig_.home.world.run_for(20s);
      administrator().start_destroy(host, vmid, true);
      rig_.home.world.run_for(20s);
      return;
    }
    somebody_stops(any_of_ours());
  }

  /// Of all nodes, but never of two members of etcd: their quorum would be gone.
  void leases_change() {
    const bool all = shape_.planes == 1 && dice_.one_in(2);
    const std::string whose = all ? "all" : std::to_string(any_of_ours());
    say(fmt::format("leases change: {}", whose));
    outcome_.count(Turn::Lease);
    lab::Faults::parse(fmt::format("- at: 0s\n  lease: {}\n", whose), "leases").arm(rig_.home);
    rig_.home.world.run_for(std::chrono::seconds{dice_.between(0, 90)});
  }

  void lose_memory() {
    say("the state is lost");
    rig_.lose_state();
    place_.forget();
    const bool lock_too = dice_.one_in(2);
    if (lock_too) rig_.files.remove("/clusters/blue/rocca.lock");
    outcome_.count(lock_too ? Turn::LostStateAndLock : Turn::LostState);
  }

  // ---- what others do to our VMs

  void others_chapter() {
    switch (dice_.below(6)) {
      case 0:
        return somebody_clones();
      case 1:
      case 2:
        return somebody_reuses_an_id();
      case 3:
        return somebody_protects();
      default:
        return interrupted_down();
    }
  }

  /// It makes no run fail, and is never touched. Some stay until the end.
  void somebody_clones() {
    const unsigned source = any_of_ours(), vmid = 920;
    outcome_.count(Turn::Clone);
    const std::string like = others_.clone(dice_, source, vmid);
    say(fmt::format("another user clones VM {} as {}:{}", source, vmid, like));
    std::string words;
    if (!attempt(Verb::Up, words) && !(helped(words) && attempt(Verb::Up, words)))
      throw Broken{"a clone makes it fail:\n" + words};
    // One without our mark that has a node's name stands in that node's way, once it must be made.
    if (like.find("renamed") == std::string::npos || dice_.one_in(2)) remove_clone(vmid);
    raise();
  }

  void remove_clone(unsigned vmid) {
    promises_.remove_foreign(vmid);
    rig_.home.world.run_for(15s);
  }

  /// A VM of ours is destroyed, and a clone of another one has its id: that is named, and waited
  /// for.
  void somebody_reuses_an_id() {
    unsigned gone = 0;
    for (const unsigned vmid : promises_.ours())
      if (!rig_.home.estate.truth(vmid).etcd_member) gone = vmid;
    if (gone == 0) return somebody_clones();
    const std::string host = rig_.home.dc.vms.at(gone).node;
    const unsigned source = promises_.ours().front();
    outcome_.count(Turn::ReusedId);
    administrator().start_stop(host, gone);
    rig_.home.world.run_for(20s);
    administrator().start_destroy(host, gone, true);
    rig_.home.world.run_for(20s);
    const std::string like = others_.clone(dice_, source, gone);
    say(fmt::format("another user destroys VM {}, and clones VM {} under its id:{}", gone, source,
                    like));
    std::string words;
    const bool well = attempt(Verb::Up, words);
    if (!well && words.find(std::to_string(gone)) == std::string::npos)
      throw Broken{"it is not named:\n" + words};
    remove_clone(gone);
    raise();
  }

  /// Nothing is stopped that may not be destroyed.
  void somebody_protects() {
    const bool less = shape_.workers > 0;
    const unsigned vmid =
        less ? others_.find(fmt::format("worker-{}", shape_.workers)) : promises_.ours().back();
    if (vmid == 0) return;
    outcome_.count(Turn::Protection);
    others_.set_protection(vmid, true);
    const std::string before = others_.picture(vmid);
    if (less) worker_less();
    say(fmt::format("another user protects VM {}, and then {}", vmid, less ? "up" : "down"));
    std::string words;
    if (attempt(less ? Verb::Up : Verb::Down, words))
      throw Broken{"it was done although the VM is protected"};
    if (words.find("protect") == std::string::npos) throw Broken{"it is not said:\n" + words};
    if (others_.picture(vmid) != before)
      throw Broken{"a protected VM was touched:\n" + others_.picture(vmid)};
    others_.set_protection(vmid, false);
    raise();
  }

  /// `down` is killed or stopped somewhere; the next command is `up`.
  void interrupted_down() {
    say("up after an interrupted down");
    stormy(Verb::Down, 1);
    if (!promises_.ours().empty()) outcome_.count(Turn::KilledDown);
    ++promises_.lives;
    perhaps_new_ = true;
    raise();
  }

  // ---- foreigners

  void some_foreigners() {
    const unsigned count = dice_.between(0, 2);
    for (unsigned i = 0; i < count; ++i)
      promises_.add_foreign(100 + dice_.between(0, 3),
                            fmt::format("pve{}", 1 + dice_.below(shape_.hosts)),
                            {{"name", fmt::format("db-{}", i)},
                             {"memory", "2048"},
                             {"cores", "2"},
                             {"smbios1", "uuid=" + to_string(Uuid::v4(rig_.entropy))}});
    rig_.home.world.run_for(15s);
  }

  /// On each host one, because what lies on one cannot be cloned to another.
  void some_templates() {
    promises_.clones = true;
    for (unsigned i = 1; i <= shape_.hosts; ++i) {
      scenarios::make_template(rig_, 9000 + i, fmt::format("pve{}", i),
                               shape_.agent() ? scenarios::with_agent : "customization: {}\n");
      promises_.leave_alone(9000 + i);
    }
  }

  /// Somebody's VM looks like one of ours. It is not touched, whatever is said about it.
  void intruder() {
    const unsigned vmid = 900;
    lab::pve::ConfigSection config{{"name", "app-1"}, {"memory", "1024"}};
    switch (dice_.below(3)) {
      case 0:
        config["name"] = "blue-cp-1";
        break;
      case 1:
        config["tags"] = "rocca;blue";
        break;
      default:
        config["name"] = "blue-worker-9";
        config["tags"] = "blue";
        break;
    }
    say(fmt::format("a stranger like us: {}", config["name"]));
    outcome_.count(Turn::Stranger);
    promises_.add_foreign(vmid, "pve1", config);
    rig_.home.world.run_for(15s);
    std::string words;
    const bool well = attempt(Verb::Up, words);
    if (!well && words.find("900") == std::string::npos) throw Broken{"it is not named:\n" + words};
    promises_.remove_foreign(vmid);
    rig_.home.world.run_for(15s);
  }

  static const char* name_of(Verb verb) { return verb == Verb::Up ? "up" : "down"; }

  Dice dice_;
  Shape shape_;
  Outcome outcome_;
  scenarios::ClusterRig rig_;
  Place place_;
  Weather weather_;
  QuorumWatch watch_;
  Promises promises_;
  Others others_;
  bool loud_;
  std::string target_;  // of the runs to come; empty: all
  bool loses_data_ = false;
  bool perhaps_new_ = false;  // the next `up` may have to begin another etcd
  bool resets_ = false;       // down: machines that were there before, too
  bool running_ = false;
  Instant begun_{};
  std::string doing_ = "the beginning";
};

}  // namespace

void prepare() {
  bundle(0);
}

Outcome live(std::uint64_t seed, bool loud) {
  Life life{number_of(seed, family), loud};
  if (life.begin() && life.go_on(number_of(seed, siblings))) life.end(seed);
  return life.outcome();
}

void live_together(Seeds seeds, const Tell& told) {
  Life life{number_of(seeds.first, family), false};
  Counts counted;
  const auto tell_all = [&](Seeds all, const Tell& tell) {
    for (std::uint64_t i = 0; i < all.count; ++i) {
      tell(all.first + i, life.since(counted));
      counted = life.outcome();
    }
  };
  if (!life.begin()) return tell_all(seeds, told);
  for (Seeds left = seeds; left.count > 0;) {
    const Seeds some = left.before(number_of(left.first, siblings) * siblings + 1);
    const auto go_on = [&](const Tell& tell) {
      if (!life.go_on(number_of(some.first, siblings))) return tell_all(some, tell);
      for (std::uint64_t i = 0; i < some.count; ++i) {
        const auto end = [&](const Tell& tell_one) {
          life.end(some.first + i);
          tell_one(some.first + i, life.since(counted));
        };
        // The last one needs no copy: nobody goes on from here after it.
        if (i + 1 == some.count) return end(tell);
        apart({some.first + i, 1}, end, tell);
        counted = life.outcome();
      }
    };
    // Nor do the last of a family.
    if (some.count == left.count) return go_on(told);
    apart(some, go_on, told);
    counted = life.outcome();
    left = left.behind(some.first + some.count - 1);
  }
}

}  // namespace rocca::seeds
