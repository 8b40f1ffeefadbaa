#pragma once

#include "base/error.hpp"
#include "engine/execute.hpp"
#include "engine/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// A world small enough to see through: things with fields, tasks that take time, answers that get
// lost. It stands in for the clients in the engine's own tests.

namespace rocca::engine::toy {

/// Virtual time and its events.
class Time {
 public:
  VirtualClock clock;

  void after(Duration delay, std::function<void()> then) {
    events_.emplace(std::pair{clock.tick() + delay, ++sequence_}, std::move(then));
  }
  bool advance(std::optional<Tick> until) {
    if (events_.empty() || (until && *until < events_.begin()->first.first)) {
      if (!until) return false;
      clock.advance(std::max(Duration::zero(), *until - clock.tick()));
      return true;
    }
    auto event = events_.extract(events_.begin());
    clock.advance(std::max(Duration::zero(), event.key().first - clock.tick()));
    event.mapped()();
    return true;
  }

 private:
  std::map<std::pair<Tick, std::uint64_t>, std::function<void()>> events_;
  std::uint64_t sequence_ = 0;
};

struct Task {
  std::string address;
  Tick ends{};
  std::string failure;
  std::function<void()> effect;
  bool over = false;
};

/// The far side. Safe to call from many threads when it has no fibers.
class Site {
 public:
  explicit Site(const Clock& clock) : clock_(clock) {}

  /// With fibers an exchange takes this long there and back.
  void use(Time& time, Fibers& fibers, Duration latency) {
    time_ = &time;
    fibers_ = &fibers;
    latency_ = latency;
  }

  std::map<std::string, Fields> things;
  std::map<std::string, Task> tasks;
  std::vector<std::string> log;  // "create vm/a"
  /// What happens to the next exchanges of this name, in order: nothing at all is a success.
  std::map<std::string, std::deque<std::optional<Error>>> faults;
  std::map<std::string, unsigned> done;  // how often each act reached the site
  /// Called at each end of an exchange, for who wants to kill, stop or change something there.
  std::function<void(const std::string& edge)> on_edge;

  template <class Body>
  auto exchange(const std::string& name, Body body) {
    edge("before " + name);
    pause();
    std::optional<Error> fault;
    std::unique_lock lock{mutex_};
    log.push_back(name);
    settle_tasks();
    auto& planned = faults[name];
    if (!planned.empty()) {
      fault = planned.front();
      planned.pop_front();
    }
    if (fault && fault->fault() != Fault::Lost) throw *fault;
    auto answer = body();
    lock.unlock();
    pause();
    edge("after " + name);
    if (fault) throw *fault;
    return answer;
  }

  std::string begin(const std::string& address, Duration takes, std::string failure,
                    std::function<void()> effect) {
    std::string id = fmt::format("task-{}", ++task_count_);
    tasks[id] = {address, clock_.tick() + takes, std::move(failure), std::move(effect), false};
    running_.emplace(tasks[id].ends, id);
    settle_tasks();
    return id;
  }

  void settle_tasks() {
    while (!running_.empty() && running_.begin()->first <= clock_.tick()) {
      Task& task = tasks.at(running_.begin()->second);
      running_.erase(running_.begin());
      task.over = true;
      if (task.failure.empty()) task.effect();
    }
  }
  bool busy_with(const std::string& address) const {
    return std::any_of(running_.begin(), running_.end(), [&](const auto& entry) {
      return tasks.at(entry.second).address == address;
    });
  }
  /// What is there in the end, without what depends on when.
  std::string picture() {
    settle_tasks();
    std::string text;
    for (const auto& [address, fields] : things) {
      text += address;
      for (const auto& [name, value] : fields) text += fmt::format(" {}={}", name, value);
      text += '\n';
    }
    return text;
  }

 private:
  void pause() {
    if (fibers_ == nullptr || !fibers_->inside() || latency_ == Duration::zero()) return;
    fibers_->park([&](std::function<void()> wake) { time_->after(latency_, std::move(wake)); });
  }
  void edge(const std::string& name) {
    if (on_edge) on_edge(name);
  }

  const Clock& clock_;
  Time* time_ = nullptr;
  Fibers* fibers_ = nullptr;
  Duration latency_{};
  std::mutex mutex_;
  std::multimap<Tick, std::string> running_;
  std::uint64_t task_count_ = 0;
};

}  // namespace rocca::engine::toy

namespace rocca::resources {

/// In this program the World of the real kinds does not exist.
class World {
 public:
  engine::toy::Site& site;
  std::stop_token stop;
};

}  // namespace rocca::resources

namespace rocca::engine::toy {

using namespace std::chrono_literals;

class ToyWorlds final : public Worlds {
 public:
  explicit ToyWorlds(Site& site) : site_(site) {}
  void with(const std::string&, std::stop_token stop,
            const std::function<void(World&)>& body) override {
    World world{site_, std::move(stop)};
    body(world);
  }
  void learn(const std::string& address, const std::optional<Fields>& facts) override {
    const std::lock_guard lock{mutex_};
    if (facts) {
      known_[address] = *facts;
    } else {
      known_.erase(address);
    }
  }
  std::map<std::string, Fields> known() const {
    const std::lock_guard lock{mutex_};
    return known_;
  }

 private:
  Site& site_;
  mutable std::mutex mutex_;
  std::map<std::string, Fields> known_;
};

struct Wish {
  std::string address;
  std::vector<std::string> needs;
  Fields fields;
  std::vector<Lane> read_lanes;
  std::vector<Lane> act_lanes;
  Duration takes = 10s;
  Duration foreseen = 1s;
  Duration ask_again = 2s;
  Duration patience = 10min;
  std::map<std::string, Effect> effects;  // by field; Live otherwise
  std::set<std::string> replace_on;
  Fields claims;
  std::string stubborn;  // this field never changes, whatever is set
  std::string task_failure;
  std::string refusal;
  bool announces = false;
  bool bootstraps = false;
  bool goes_with_needs = false;
  bool no_token = false;
  Duration ask_after{};
  std::vector<Lane> ask_with;  // from the second asking on
};

inline Wish wish(std::string address, std::vector<std::string> needs = {},
                 Fields fields = {{"v", "1"}}) {
  Wish wish;
  wish.address = std::move(address);
  wish.needs = std::move(needs);
  wish.fields = std::move(fields);
  return wish;
}

inline std::map<std::string, StepResult::End> ends(const Report& report) {
  std::map<std::string, StepResult::End> all;
  for (const auto& [address, result] : report.steps) all[address] = result.end;
  return all;
}

inline Error lost() {
  return {Fault::Lost, "the answer never came"};
}
inline Error unreachable() {
  return {Fault::Unreachable, "nobody listens"};
}
inline Error busy() {
  return {Fault::Busy, "try again later"};
}

class Toy final : public Resource {
 public:
  explicit Toy(Wish wish) : wish_(std::move(wish)) {}

  const std::string& address() const override { return wish_.address; }
  std::vector<std::string> needs() const override { return wish_.needs; }
  std::string place() const override { return "cluster.yaml:1:1"; }
  std::string wanted() const override {
    std::string text;
    for (const auto& [name, value] : wish_.fields) text += name + "=" + value + ";";
    return text;
  }

  std::optional<Live> read(World& world) const override {
    return world.site.exchange("read " + wish_.address, [&]() -> std::optional<Live> {
      const auto found = world.site.things.find(wish_.address);
      if (found == world.site.things.end()) return std::nullopt;
      return Live{"id of " + wish_.address, found->second, {{"id", wish_.address}}};
    });
  }

  Change diff(const std::optional<Live>& live) const override {
    Change change;
    if (!wish_.refusal.empty()) change.refusal = wish_.refusal;
    if (!live) {
      change.action = Action::Create;
      change.reason = "is not there";
      change.effect = Effect::Live;
      return change;
    }
    for (const auto& [name, value] : wish_.fields) {
      const auto now = live->fields.find(name);
      const std::string before = now == live->fields.end() ? "" : now->second;
      if (before == value) continue;
      const auto cost = wish_.effects.find(name);
      const Effect effect = cost == wish_.effects.end() ? Effect::Live : cost->second;
      change.fields.push_back({name, before, value, effect});
      change.effect = std::max(change.effect, effect);
      change.action = std::max(change.action,
                               wish_.replace_on.contains(name) ? Action::Replace : Action::Update);
      change.reason = name + " differs";
    }
    return change;
  }

  Receipt apply(World& world, const Change& change, const std::optional<Live>&) const override {
    const std::string name = fmt::format("{} {}", to_string(change.action), wish_.address);
    return world.site.exchange(name, [&]() -> Receipt {
      Site& site = world.site;
      if (change.action == Action::Create && site.things.contains(wish_.address))
        throw Error(Fault::Conflict, wish_.address + " is there already");
      if (site.busy_with(wish_.address)) throw Error(Fault::Busy, wish_.address + " is locked");
      ++site.done[name];
      const std::string id =
          site.begin(wish_.address, wish_.takes, wish_.task_failure, [this, &site] {
            Fields& fields = site.things[wish_.address];
            for (const auto& [field, value] : wish_.fields)
              if (field != wish_.stubborn) fields[field] = value;
          });
      return {wish_.no_token ? "" : id, "", wish_.ask_after,
              wish_.ask_after == 0s ? "" : wish_.address + " to be made"};
    });
  }

  Progress probe(World& world, const Receipt& receipt) const override {
    return world.site.exchange("probe " + wish_.address, [&]() -> Progress {
      if (receipt.token.empty()) {
        if (!world.site.busy_with(wish_.address)) return Ready{};
        return NotYet{wish_.address + " works", wish_.ask_again};
      }
      const auto task = world.site.tasks.find(receipt.token);
      if (task == world.site.tasks.end()) throw Error(Fault::NotFound, "no such task");
      if (!task->second.over)
        return NotYet{"task of " + wish_.address, wish_.ask_again, wish_.ask_with};
      if (!task->second.failure.empty()) throw Error(Fault::Rejected, task->second.failure);
      return Ready{};
    });
  }

  Progress probe_unknown(World& world) const override {
    return world.site.exchange("look for " + wish_.address, [&]() -> Progress {
      if (!world.site.busy_with(wish_.address)) return Ready{};
      return NotYet{wish_.address + " works", wish_.ask_again};
    });
  }

  Receipt destroy(World& world, const Live&) const override {
    return world.site.exchange("destroy " + wish_.address, [&]() -> Receipt {
      Site& site = world.site;
      if (site.busy_with(wish_.address)) throw Error(Fault::Busy, wish_.address + " is locked");
      ++site.done["destroy " + wish_.address];
      return {site.begin(wish_.address, wish_.takes, "",
                         [this, &site] { site.things.erase(wish_.address); })};
    });
  }

  std::vector<Lane> lanes(const Change* change) const override {
    return change == nullptr ? wish_.read_lanes : wish_.act_lanes;
  }
  Duration patience(const Change&) const override { return wish_.patience; }
  Duration takes() const override { return wish_.foreseen; }
  bool announces(const Change&) const override { return wish_.announces; }
  std::vector<state::Record> remembers(const Live&) const override {
    if (!wish_.bootstraps) return {};
    state::Record record;
    record.kind = state::Record::Kind::Bootstrapped;
    return {record};
  }
  Fields claims() const override { return wish_.claims; }
  bool goes_with(const std::string&) const override { return wish_.goes_with_needs; }

 private:
  Wish wish_;
};

inline Resources resources(std::vector<Wish> wishes) {
  Resources all;
  for (Wish& wish : wishes) {
    const std::string address = wish.address;
    all[address] = std::make_shared<Toy>(std::move(wish));
  }
  return all;
}

/// Keeps records; can be told to fail or to take its time.
class ToyStore final : public state::Store {
 public:
  std::string describe() const override { return "the toy state"; }
  std::optional<state::State> load() override {
    state::State state = whole;
    for (const state::Record& record : journal) state::apply(state, record);
    return state;
  }
  void append(std::span<const state::Record> records) override {
    if (before_write) before_write();
    if (!failures.empty()) {
      const std::optional<Error> failure = failures.front();
      failures.pop_front();
      if (failure) throw *failure;
    }
    writes.push_back(records.size());
    journal.insert(journal.end(), records.begin(), records.end());
    if (after_write) after_write();
  }
  void replace(const state::State& state) override {
    whole = state;
    journal.clear();
  }
  void clear() override { replace({}); }
  std::unique_ptr<state::Lock> lock(const state::Holder&, bool) override { return nullptr; }
  std::optional<state::Holder> holder() override { return std::nullopt; }

  state::State whole;
  std::vector<state::Record> journal;
  std::vector<std::size_t> writes;
  std::deque<std::optional<Error>> failures;
  std::function<void()> before_write, after_write;
};

/// A site, its state and everything to run the main path on it, in virtual time.
struct Rig {
  explicit Rig(Duration latency = 50ms) : site(time.clock), worlds(site) {
    runner = inline_runner(time.clock,
                           {[this](std::optional<Tick> until) { return time.advance(until); }});
    site.use(time, *runner, latency);
    fibers = runner.get();
  }

  Plan plan(const PlanOptions& plan_options = {}) {
    state = store.load().value();
    graph = build(desired, state);
    recall(state, worlds);
    observed = observe(desired, graph, worlds, *runner, options.parallelism, {});
    return engine::plan(desired, graph, observed, state, "toy", plan_options);
  }
  Report run(const Plan& plan) {
    return execute(
        plan, desired, graph, state, store, worlds, *runner,
        [this](const Event& event) { events.push_back(event); }, options, stop.get_token());
  }
  Report up(const PlanOptions& plan_options = {}) { return run(plan(plan_options)); }

  std::vector<std::string> told(Event::Kind kind) const {
    std::vector<std::string> lines;
    for (const Event& event : events)
      if (event.kind == kind)
        lines.push_back(event.address + (event.text.empty() ? "" : ": " + event.text));
    return lines;
  }
  unsigned count(const std::string& call) const {
    unsigned found = 0;
    for (const std::string& line : site.log) found += line == call ? 1 : 0;
    return found;
  }

  Time time;
  Site site;
  ToyWorlds worlds;
  ToyStore store;
  std::unique_ptr<InlineRunner> runner;
  Fibers* fibers = nullptr;
  Desired desired;
  state::State state;
  graph::Graph graph;
  Observed observed;
  ExecuteOptions options;
  std::vector<Event> events;
  std::stop_source stop;
};

}  // namespace rocca::engine::toy
