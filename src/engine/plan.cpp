#include "engine/plan.hpp"

#include "base/encoding.hpp"
#include "engine/records.hpp"
#include "secrets/crypto.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::engine {

namespace {

/// Text in which no two different lists of values look the same.
class Canon {
 public:
  Canon& add(std::string_view text) {
    fmt::format_to(std::back_inserter(text_), "{}:", text.size());
    text_ += text;
    return *this;
  }
  Canon& add(const Fields& fields) {
    add(fmt::format("{{{}", fields.size()));
    for (const auto& [name, value] : fields) add(name).add(value);
    return *this;
  }
  std::string digest() const { return to_hex(secrets::crypto::sha256(text_)); }

 private:
  std::string text_;
};

/// Facts are left out: a VM that HA has moved makes no plan stale.
std::string bind(const Desired& desired, const Observed& observed, const std::string& cluster,
                 const PlanOptions& options) {
  Canon canon;
  canon.add("rocca plan 1").add(cluster);
  for (const auto& [address, resource] : desired.wanted)
    canon.add("wanted").add(address).add(resource->wanted());
  for (const auto& [address, resource] : desired.leftover)
    canon.add("leftover").add(address).add(resource->wanted());
  for (const auto& [address, live] : observed.live) {
    canon.add(live ? "live" : "absent").add(address);
    if (live) canon.add(live->id).add(live->fields);
  }
  for (const auto& [address, text] : observed.failed) canon.add("failed").add(address);
  for (const std::string& target : options.targets) canon.add("target").add(target);
  return canon.digest();
}

class Planner {
 public:
  Planner(const Desired& desired, const graph::Graph& graph, const Observed& observed,
          const state::State& prior, const PlanOptions& options)
      : desired_(desired), graph_(graph), observed_(observed), prior_(prior), options_(options) {}

  void run(Plan& plan) {
    for (const std::string& address : graph_.order()) {
      const auto failed = observed_.failed.find(address);
      if (failed != observed_.failed.end()) {
        plan.failed.insert(*failed);
        const auto error = observed_.errors.find(address);
        if (error != observed_.errors.end()) plan.errors.insert(*error);
        continue;
      }
      const bool leftover = desired_.leftover.contains(address);
      const Resources& among = leftover ? desired_.leftover : desired_.wanted;
      const auto found = among.find(address);
      if (found == among.end())
        throw Error(Fault::Bug, address + " stands in the graph and nowhere else");
      consider(plan, *found->second, leftover);
    }
    estimate(plan);
  }

 private:
  void consider(Plan& plan, const Resource& resource, bool leftover) {
    const std::string& address = resource.address();
    const auto seen = observed_.live.find(address);
    const std::optional<Live> live = seen == observed_.live.end() ? std::nullopt : seen->second;
    Change change = leftover ? change_of(resource, true, live) : change_of_wanted(resource, live);
    const auto item = prior_.items.find(address);
    const bool pending = item != prior_.items.end() && !item->second.receipt.empty();
    if (change.none() && pending) {
      change.action = leftover ? Action::Destroy : Action::Update;
      change.reason = "an act of an earlier run may still be under way";
    }
    if (change.none() && !change.keep.empty()) {
      ++plan.summary.unchanged;
      plan.kept[address] = change.keep;
      return;
    }
    if (change.none()) {
      ++plan.summary.unchanged;
      remember(plan, resource, live);
      return;
    }
    guard(change);
    decided_[address] = {change.action, change.confirmed};
    count(plan.summary, change);
    plan.effect = std::max({plan.effect, change.effect, change.perhaps});
    Planned step;
    step.address = address;
    step.place = resource.place();
    if (live) step.id = live->id;
    step.needs = changing_needs(address);
    step.estimate = history(address, change.action);
    step.change = std::move(change);
    if (step.change.refusal.empty())
      for (const Lane& lane : resource.lanes(&step.change))
        if (lane.in_plan) step.turn = lane.turn;
    plan.steps.push_back(std::move(step));
  }

  Change change_of_wanted(const Resource& resource, const std::optional<Live>& live) const {
    if (live)
      for (const std::string& needed : graph_.needed_by(resource.address())) {
        const auto decided = decided_.find(needed);
        if (decided == decided_.end() || decided->second.action != Action::Replace) continue;
        if (!resource.goes_with(needed)) continue;
        Change change = resource.diff(std::nullopt);
        if (change.action == Action::Create) change.action = Action::Replace;
        change.reason = fmt::format("goes with {}, which is replaced", needed);
        change.effect = std::max(change.effect, Effect::Replace);
        change.confirmed = decided->second.confirmed;
        return change;
      }
    return resource.diff(live);
  }

  void guard(Change& change) const {
    if (!change.refusal.empty() || change.effect == Effect::None) return;
    const Verdict verdict = may_run(change.effect, options_.policy, change.confirmed);
    if (!verdict.allowed) change.refusal = verdict.reason;
  }

  static void count(Summary& summary, const Change& change) {
    if (!change.refusal.empty()) {
      ++summary.refused;
      return;
    }
    switch (change.action) {
      case Action::None:
        break;
      case Action::Create:
        ++summary.create;
        break;
      case Action::Update:
        ++summary.update;
        break;
      case Action::Replace:
        ++summary.replace;
        break;
      case Action::Destroy:
        ++summary.destroy;
        break;
    }
  }

  /// What it waits for: the nearest that change, also through things that stay as they are.
  std::vector<std::string> changing_needs(const std::string& address) const {
    std::set<std::string> near;
    std::set<std::string> seen;
    std::vector<std::string> open(graph_.needed_by(address).begin(),
                                  graph_.needed_by(address).end());
    while (!open.empty()) {
      const std::string needed = std::move(open.back());
      open.pop_back();
      if (!seen.insert(needed).second) continue;
      if (decided_.contains(needed)) {
        near.insert(needed);
        continue;
      }
      const std::set<std::string>& further = graph_.needed_by(needed);
      open.insert(open.end(), further.begin(), further.end());
    }
    return {near.begin(), near.end()};
  }

  std::optional<Duration> history(const std::string& address, Action action) const {
    const auto found = prior_.durations.find(kind_of(address) + "/" + to_string(action));
    if (found == prior_.durations.end()) return std::nullopt;
    return found->second;
  }

  void remember(Plan& plan, const Resource& resource, const std::optional<Live>& live) const {
    const std::string& address = resource.address();
    const auto known = prior_.items.find(address);
    state::Record record;
    record.name = address;
    record.at = observed_.at;
    if (!live) {
      if (known == prior_.items.end()) return;
      record.kind = state::Record::Kind::Gone;
      plan.found.push_back(std::move(record));
      for (const std::string& name : resource.forgotten_notes())
        if (prior_.notes.contains(name)) plan.found.push_back(note_of(name, "", observed_.at));
      return;
    }
    record.kind = state::Record::Kind::Settled;
    record.item = settled_item(resource, *live, observed_.at);
    if (known == prior_.items.end() || !same_but_time(record.item, known->second))
      plan.found.push_back(std::move(record));
    for (state::Record& more : resource.remembers(*live)) {
      more.at = observed_.at;
      if (!is_known(prior_, more)) plan.found.push_back(std::move(more));
    }
  }

  /// Along the critical path, and only if the history of every step is known: a guess that leaves
  /// the longest part out is worse than none.
  void estimate(Plan& plan) const {
    std::map<std::string, Duration> costs;
    for (const Planned& step : plan.steps) {
      if (!step.estimate) return;
      costs[step.address] = *step.estimate;
    }
    if (costs.empty()) return;
    const auto seconds = [&](const std::string& address) {
      const auto found = costs.find(address);
      return found == costs.end() ? 0.0 : std::chrono::duration<double>(found->second).count();
    };
    plan.estimate = std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(graph_.critical_path(seconds).length));
  }

  const Desired& desired_;
  const graph::Graph& graph_;
  const Observed& observed_;
  const state::State& prior_;
  const PlanOptions& options_;
  struct Decided {
    Action action = Action::None;
    bool confirmed = false;
  };
  std::map<std::string, Decided> decided_;  // those that change
};

}  // namespace

Change change_of(const Resource& resource, bool leftover, const std::optional<Live>& live) {
  if (leftover && !live) return {};
  Change change = resource.diff(live);
  if (leftover && !change.keep.empty()) return change;
  if (leftover && change.action != Action::Destroy) {
    change.action = Action::Destroy;
    change.reason = "no longer wanted";
    change.effect = Effect::DataLoss;
    change.fields.clear();
  }
  return change;
}

Plan plan(const Desired& desired, const graph::Graph& graph, const Observed& observed,
          const state::State& prior, const std::string& cluster, const PlanOptions& options) {
  for (const std::string& target : options.targets)
    if (!graph.contains(target))
      throw Error(Fault::Usage, fmt::format("there is no {} to plan for", target))
          .hint("`rocca graph` lists all addresses");
  Plan plan;
  plan.cluster = cluster;
  plan.targets = options.targets;
  plan.bound_to = bind(desired, observed, cluster, options);
  const graph::Graph part = options.targets.empty() ? graph : graph.closure(options.targets);
  Planner{desired, part, observed, prior, options}.run(plan);
  return plan;
}

}  // namespace rocca::engine
