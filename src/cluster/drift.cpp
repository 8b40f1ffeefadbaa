#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "cluster/drift_parts.hpp"
#include "cluster/run_impl.hpp"
#include "machine/kinds.hpp"
#include "platform/proxmox/desired_vm.hpp"
#include "platform/proxmox/kinds.hpp"
#include "platform/resource_base.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

namespace rocca::resources {

namespace {

/// The value of one option as it was read, by its digest; nothing: it was not there.
std::optional<std::string> remembered_option(const Fields& facts, const std::string& option) {
  for (const std::string& entry : split(fact(facts, options_seen), ' '))
    if (entry.starts_with(option + "=")) return entry.substr(option.size() + 1);
  return std::nullopt;
}

/// Whose doing a difference is.
enum class Doing { Spec, Somebody, Unknown };

/// The wish has changed since the thing settled: is this value still as it was then?
Doing judge(const std::string& address, const std::string& field, const state::Item& item,
            const std::optional<engine::Live>& live) {
  if (!live) return Doing::Somebody;  // it was there, and nobody has to be there for another wish
  const std::string kind = engine::kind_of(address);
  if (kind == "machine") {
    const std::string before = fact(item.facts, config_seen), now = fact(live->facts, config_seen);
    return !before.empty() && before == now ? Doing::Spec : Doing::Unknown;
  }
  if (kind != "vm") return Doing::Unknown;
  // Both come after a thing that has settled: the spec makes neither.
  if (field == "power" || !pending_option(field).empty()) return Doing::Somebody;
  if (!item.facts.contains(options_seen)) return Doing::Unknown;
  const std::string option = field.substr(0, field.find('.'));
  return remembered_option(item.facts, option) == remembered_option(live->facts, option)
             ? Doing::Spec
             : Doing::Somebody;
}

/// What is left as it is found: no step of the plan speaks of it.
void add_ignored(const Look& look, std::vector<Drift>& all) {
  for (const auto& [address, live] : look.observed.live) {
    if (!live || !look.prior.items.contains(address)) continue;
    const std::string key = left_key(address, "");
    for (auto note = look.prior.notes.lower_bound(key);
         note != look.prior.notes.end() && note->first.starts_with(key); ++note) {
      Drift drift;
      drift.address = address;
      drift.field = note->first.substr(key.size());
      const auto found = live->fields.find(drift.field);
      drift.found = found == live->fields.end() ? "" : found->second;
      // `'8' in place of '4'`
      const std::string begin = left_value(drift.found, "");
      if (!note->second.starts_with(begin.substr(0, begin.size() - 1))) continue;
      drift.declared = note->second.substr(begin.size() - 1);
      drift.declared.pop_back();
      drift.ignored = true;
      const bool speaks = std::any_of(all.begin(), all.end(), [&](const Drift& other) {
        return other.address == drift.address && other.field == drift.field;
      });
      if (!speaks) all.push_back(std::move(drift));
    }
  }
}

}  // namespace

namespace {

/// What differs, step by step, before anybody is asked whose doing it is.
class Findings {
 public:
  explicit Findings(const Look& look)
      : look_(look), never_raised_(!look.remembered && !any_machine(look.observed)) {}

  void consider(const engine::Planned& step) {
    const auto thing = look_.desired.wanted.find(step.address);
    const auto item = look_.prior.items.find(step.address);
    if (thing == look_.desired.wanted.end()) {
      by_spec.push_back(step.address);  // it is no longer wanted
      return;
    }
    if (item == look_.prior.items.end() && (look_.remembered || never_raised_)) {
      by_spec.push_back(step.address);  // it is new
      return;
    }
    if (item == look_.prior.items.end()) {
      add(step, "nothing is remembered of it: no `up` has ended here, or the state was lost");
      return;
    }
    if (!item->second.settled) {
      by_spec.push_back(step.address);  // it was never as it should be
      return;
    }
    if (item->second.applied == thing->second->wanted()) {
      add(step, "");
      return;
    }
    const auto seen = look_.observed.live.find(step.address);
    const std::optional<engine::Live> live =
        seen == look_.observed.live.end() ? std::nullopt : seen->second;
    add(step, "the spec has changed since it was last applied",
        [&](const std::string& field) { return judge(step.address, field, item->second, live); });
  }

  void could_not_be_read(const std::string& address, const std::string& why) {
    Drift drift;
    drift.address = address;
    drift.field = "state";
    drift.declared = "as it should be";
    drift.found = "unknown";
    drift.effect = engine::Effect::None;
    drift.unread = true;
    drift.unsure = "it could not be read: " + why.substr(0, why.find('\n'));
    all.push_back(std::move(drift));
  }

  std::vector<Drift> all;
  std::vector<std::string> by_spec;

 private:
  using Judge = std::function<Doing(const std::string& field)>;

  static bool any_machine(const engine::Observed& observed) {
    return std::any_of(observed.live.begin(), observed.live.end(), [](const auto& seen) {
      return seen.second && (seen.first.starts_with("vm/") || seen.first.starts_with("machine/"));
    });
  }

  void add(const engine::Planned& step, const std::string& unsure, const Judge& judge = {}) {
    bool spec = false;
    const auto one = [&](const std::string& field, const std::string& declared,
                         const std::string& found, engine::Effect effect) {
      const Doing doing = judge ? judge(field) : Doing::Unknown;
      if (doing == Doing::Spec) {
        spec = true;
        return;
      }
      Drift drift;
      drift.address = step.address;
      drift.field = field;
      drift.declared = declared;
      drift.found = found;
      drift.effect = effect;
      drift.waits = step.change.waits;
      drift.refusal = step.change.refusal;
      if (doing == Doing::Unknown) drift.unsure = unsure;
      all.push_back(std::move(drift));
    };
    if (step.change.action == engine::Action::Create)
      one("exists", "yes", "no", step.change.effect);
    else if (step.change.fields.empty())
      one("state", "as it should be",
          step.change.reason.empty() ? step.change.refusal : step.change.reason,
          step.change.effect);
    for (const engine::FieldChange& field : step.change.fields)
      one(field.field, field.after, field.before, field.effect);
    if (spec) by_spec.push_back(step.address);
  }

  const Look& look_;
  bool never_raised_;  // nothing is remembered because there is nothing yet
};

/// The tasks of one VM since it settled, on every host where it may have been: those of a VM that
/// was moved or destroyed stay in the log of the host that did it.
class TaskLogs {
 public:
  TaskLogs(World& world, const spec::Spec& spec) : world_(world), spec_(spec) {}

  const std::vector<proxmox::TaskRow>& of(const std::string& address, const state::Item& item,
                                          proxmox::Vmid vmid, bool gone) {
    const auto [found, fresh] = logs_.try_emplace(address);
    if (!fresh) return found->second;
    const auto known = world_.known(address);
    const std::string then = fact(item.facts, "host"), now = gone ? "" : fact(known, "host");
    std::set<std::string> hosts{then, now};
    if (gone || then != now)
      for (const auto& host : spec_.proxmox->hosts) hosts.insert(*host);
    hosts.erase("");
    proxmox::TaskFilter filter;
    filter.vmid = vmid;
    filter.since = item.settled;
    for (const std::string& host : hosts) try {
        for (proxmox::TaskRow& task : world_.proxmox().tasks(host, filter))
          found->second.push_back(std::move(task));
      } catch (const Error& error) {
        // ignored: without this host's task log the report says that the culprit is unknown.
        if (!is_external(error.fault())) throw;
      }
    return found->second;
  }

  /// The cluster log's lines about one VM; the log is read once for all of them.
  std::vector<proxmox::LogEntry> changes_of(proxmox::Vmid vmid) {
    if (!log_) try {
        log_ = world_.proxmox().cluster_log(most_lines);
      } catch (const Error& error) {
        // ignored: without the cluster log the report says that the culprit is unknown.
        if (!is_external(error.fault())) throw;
        log_.emplace();
      }
    std::vector<proxmox::LogEntry> its;
    const std::string beginning = fmt::format("update VM {}: ", vmid);
    for (const proxmox::LogEntry& entry : *log_)
      if (entry.message.starts_with(beginning)) its.push_back(entry);
    return its;
  }

  /// What those of its tasks that change options say in their own logs.
  const std::map<std::string, std::string>& said(const std::string& address) {
    const auto [found, fresh] = said_.try_emplace(address);
    if (!fresh) return found->second;
    std::size_t read = 0;
    for (const proxmox::TaskRow& task : logs_[address]) {
      if (task.upid.type != "qmconfig" || ++read > most_read) continue;
      try {
        const auto lines = world_.proxmox().task_log(task.upid, 2);
        if (lines.empty() || !lines.front().starts_with("update VM ")) continue;
        // Notes have line breaks, and what is said behind them is on another line.
        const bool whole = lines.front().find(" -description ") == std::string::npos ||
                           lines.size() < 2 || lines[1].starts_with("TASK ");
        if (whole) found->second[task.upid.text] = lines.front();
      } catch (const Error& error) {
        // ignored: without this task's log the report says that the culprit is unknown.
        if (!is_external(error.fault())) throw;
      }
    }
    return found->second;
  }

 private:
  // The list has the newest first; who changes options more often than that is named with doubt.
  static constexpr std::size_t most_read = 20;
  static constexpr unsigned most_lines = 1000;
  World& world_;
  const spec::Spec& spec_;
  std::map<std::string, std::vector<proxmox::TaskRow>> logs_;
  std::map<std::string, std::map<std::string, std::string>> said_;
  std::optional<std::vector<proxmox::LogEntry>> log_;
};

}  // namespace

std::vector<std::string> Run::changed_by_spec() {
  const Look& look = impl_->seen();
  Findings findings{look};
  for (const engine::Planned& step : look.plan.steps)
    if (look.remains)  // our own teardown, and no drift
      findings.by_spec.push_back(step.address);
    else
      findings.consider(step);
  return findings.by_spec;
}

std::vector<Drift> Run::drift() {
  Impl& impl = *impl_;
  Look& look = impl.seen();
  if (look.remains) return {};  // all that is missing, `down` has destroyed
  Findings findings{look};
  for (const engine::Planned& step : look.plan.steps) findings.consider(step);
  for (const auto& [address, why] : look.plan.failed) findings.could_not_be_read(address, why);
  std::vector<Drift>& all = findings.all;
  add_ignored(look, all);
  if (!impl.cluster.proxmox || all.empty()) return all;
  impl.with_proxmox(look, [&](World& world) {
    TaskLogs logs{world, impl.cluster.spec};
    for (Drift& drift : all) {
      if (engine::kind_of(drift.address) != "vm") continue;
      const std::string node = drift.address.substr(drift.address.find('/') + 1);
      if (const spec::Node* wanted = impl.cluster.spec.find_node(node))
        find_acceptance(*wanted, drift);
      const auto item = look.prior.items.find(drift.address);
      if (item == look.prior.items.end() || !item->second.settled) continue;
      const auto vmid = parse_uint(fact(item->second.facts, "vmid"));
      if (!vmid) continue;
      const auto& tasks = logs.of(drift.address, item->second, static_cast<proxmox::Vmid>(*vmid),
                                  drift.field == "exists");
      name_culprit({tasks, item->second.settled, our_name(world), logs.said(drift.address),
                    logs.changes_of(static_cast<proxmox::Vmid>(*vmid))},
                   drift);
    }
  });
  return std::move(all);
}

void Run::ignore(const std::string& address, const std::string& field) {
  Impl& impl = *impl_;
  const auto lock = impl.take_lock();
  Look& look = impl.seen();
  const std::vector<Drift> all = drift();
  const auto drift = std::find_if(all.begin(), all.end(), [&](const Drift& each) {
    return each.address == address && each.field == field;
  });
  if (drift == all.end())
    throw Error(Fault::NotFound, fmt::format("{} of {} does not differ", field, address))
        .hint("`rocca drift` lists what does");
  if (engine::kind_of(address) != "vm" || field == "exists")
    throw Error(Fault::Refused,
                fmt::format("{} of {} cannot be left as it is: only values of a VM's hardware can",
                            field, address))
        .hint("`rocca up` puts it right; or change the spec");
  impl.store_first(look);
  state::Record record;
  record.kind = state::Record::Kind::Note;
  record.name = left_key(address, field);
  record.value = left_value(drift->found, drift->declared);
  record.at = impl.doors.clock.now();
  impl.call("state", [&] { impl.doors.store.append(std::span{&record, 1}); });
  state::apply(look.prior, record);
}

}  // namespace rocca::resources
