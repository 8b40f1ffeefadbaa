#include "lab/sim/faults.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "lab/machines/machines.hpp"
#include "lab/pve/datacenter.hpp"
#include "lab/pve/http.hpp"
#include "lab/pve/qemu/qemu.hpp"
#include "lab/services/infisical.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <memory>

namespace rocca::lab {

namespace {

constexpr const char* infisical_host = "infisical";

const std::vector<std::string>& action_names() {
  static const std::vector<std::string> names{
      "down",   "up",      "fill",       "free",     "quorum",   "lock",
      "unlock", "backup",  "change",     "create",   "crash",    "lease",
      "dhcp",   "foreign", "unpullable", "webhooks", "crashing", "working"};
  return names;
}

}  // namespace

std::optional<std::pair<Duration, Duration>> Faults::parse_lateness(const std::string& text) {
  const std::size_t dash = text.find('-');
  const auto least = parse_duration(text.substr(0, dash));
  const auto most = dash == std::string::npos ? least : parse_duration(text.substr(dash + 1));
  if (!least || !most || *most < *least) return std::nullopt;
  return std::pair{*least, *most};
}

class Faults::Reader {
 public:
  explicit Reader(std::string_view name) : name_(name) {}

  [[noreturn]] void refuse(const text::Value& at, const std::string& problem) const {
    throw Error(Fault::Usage,
                fmt::format("{}:{}:{}: {}", name_, at.place().line, at.place().column, problem));
  }

  std::string word(const text::Value& value) const {
    if (!value.is_scalar() || value.is_null()) refuse(value, "a word or number is expected");
    return value.text();
  }

  unsigned count(const text::Value& value) const {
    const auto number = value.as_uint();
    if (!number || *number > 1'000'000) refuse(value, "a small whole number is expected");
    return static_cast<unsigned>(*number);
  }

  bool flag(const text::Value& value) const {
    const auto given = value.as_bool();
    if (!given) refuse(value, "true or false is expected");
    return *given;
  }

  Duration duration(const text::Value& value) const {
    const auto given = parse_duration(word(value));
    if (!given) refuse(value, "a duration such as 30s or 5m is expected");
    return *given;
  }

  /// The scalar fields of `where`, each of which must be one of `known`.
  std::map<std::string, std::string> fields(const text::Value& where,
                                            const std::vector<std::string>& known) const {
    if (!where.is_map()) refuse(where, "a map is expected");
    std::map<std::string, std::string> all;
    for (const text::Entry& entry : where.entries()) {
      if (std::find(known.begin(), known.end(), entry.key) == known.end())
        refuse(entry.value, fmt::format("'{}' is not one of {}", entry.key, join(known, ", ")));
      all[entry.key] = word(entry.value);
    }
    return all;
  }

  /// What a timed fault does, and to what: refused here, not when its time has come.
  void check_action(const std::string& action, const text::Value& value) const {
    const auto vm = [&](const text::Value& id) {
      if (word(id) != "any" && !id.as_uint()) refuse(id, "the number of a VM or `any` is expected");
    };
    if (action == "quorum" || action == "dhcp") {
      flag(value);
    } else if (action == "unlock" || action == "crash") {
      vm(value);
    } else if (action == "lease") {
      if (word(value) != "all") vm(value);
    } else if (action == "webhooks") {
      if (!parse_lateness(word(value))) refuse(value, "60s or 0s-120s is expected");
    } else if (action == "foreign") {
      if (!IpAddress::parse(word(value))) refuse(value, "an address is expected");
    } else if (action == "lock" || action == "backup" || action == "change" || action == "create") {
      if (!value.is_map()) refuse(value, "a map is expected");
      const text::Value* id = value.find("vm");
      if (id == nullptr) refuse(value, "`vm` is needed");
      vm(*id);
      for (const text::Entry& entry : value.entries()) {
        if (entry.key == "vm") continue;
        const bool person = entry.key == "by" || entry.key == "set";
        const bool fits = action == "lock" ? entry.key == "as"
                          : action == "backup"
                              ? entry.key == "to"
                              : person || (action == "create" && entry.key == "host") ||
                                    (action == "change" && entry.key == "at-once");
        if (!fits) refuse(entry.value, fmt::format("{} cannot have '{}'", action, entry.key));
        if (entry.key == "at-once") flag(entry.value);
        if (entry.key != "set") word(entry.value);
        if (entry.key == "set" && !entry.value.is_map()) refuse(entry.value, "a map is expected");
        if (entry.key == "set")
          for (const text::Entry& each : entry.value.entries()) word(each.value);
      }
    } else {
      word(value);
    }
  }

  const text::Value& map(const text::Value& value) const {
    if (!value.is_map()) refuse(value, "a map is expected");
    return value;
  }

  bool limit(const text::Entry& entry, Limits& limits) const {
    if (entry.key == "skip")
      limits.skip = count(entry.value);
    else if (entry.key == "times")
      limits.times = count(entry.value);
    else if (entry.key == "chance")
      limits.chance = count(entry.value);
    else
      return false;
    return true;
  }

  RequestRule request(const text::Value& rule) const {
    RequestRule one;
    auto where = fields(*rule.find("request"), {"host", "method", "path"});
    one.host = where["host"];
    one.method = where["method"];
    one.path = where["path"];
    for (const text::Entry& entry : rule.entries()) {
      if (entry.key == "request" || limit(entry, one.limits)) continue;
      if (entry.key == "delay")
        one.delay = duration(entry.value);
      else if (entry.key == "answer")
        one.status = static_cast<int>(count(entry.value));
      else if (entry.key == "reason")
        one.reason = word(entry.value);
      else if (entry.key == "type")
        one.type = word(entry.value);
      else if (entry.key == "body")
        one.body = word(entry.value);
      else if (entry.key == "truncate")
        one.truncate = count(entry.value);
      else if (entry.key == "strings")
        one.strings = flag(entry.value);
      else if (entry.key == "race") {
        auto race = fields(entry.value, {"by", "host"});
        one.race = Race{race["by"], race["host"]};
      } else if (entry.key == "cut")
        one.cut = flag(entry.value);
      else if (entry.key == "lose")
        one.lose = flag(entry.value);
      else if (entry.key == "silent" && one.host == infisical_host)
        one.silent = flag(entry.value);
      else if (entry.key == "retryAfter" && one.host == infisical_host)
        one.retry_after = count(entry.value);
      else
        refuse(entry.value, fmt::format("a request cannot have '{}'", entry.key));
    }
    if (one.status != 0 && (one.status < 200 || one.status > 599))
      refuse(rule, "answer is a status from 200 to 599");
    if (one.status == 0 && !(one.reason + one.type + one.body).empty())
      refuse(rule, "reason, type and body belong to an answer");
    if (one.delay.count() == 0 && one.status == 0 && !one.cut && !one.lose && !one.truncate &&
        !one.strings && !one.race && !one.silent)
      refuse(rule, "one of delay, answer, cut, lose, truncate, strings or race is needed");
    return one;
  }

  TaskRule task(const text::Value& rule) const {
    TaskRule one;
    auto where = fields(*rule.find("task"), {"type", "id"});
    one.type = where["type"];
    one.id = where["id"];
    for (const text::Entry& entry : rule.entries()) {
      if (entry.key == "task" || limit(entry, one.limits)) continue;
      if (entry.key == "hang")
        one.hang = flag(entry.value);
      else if (entry.key == "fail")
        one.fail = word(entry.value);
      else if (entry.key == "afterwards")
        one.afterwards = flag(entry.value);
      else
        refuse(entry.value, fmt::format("a task cannot have '{}'", entry.key));
    }
    if (!one.hang && one.fail.empty()) refuse(rule, "fail or hang is needed");
    return one;
  }

  /// One for each act: several may stand at one time.
  std::vector<TimedRule> timed(const text::Value& rule) const {
    std::vector<TimedRule> all;
    TimedRule one;
    one.at = duration(*rule.find("at"));
    if (const text::Value* within = rule.find("within")) one.within = duration(*within);
    if (const text::Value* chance = rule.find("chance")) one.chance = count(*chance);
    for (const text::Entry& entry : rule.entries()) {
      if (entry.key == "at" || entry.key == "within" || entry.key == "chance") continue;
      if (std::find(action_names().begin(), action_names().end(), entry.key) ==
          action_names().end())
        refuse(entry.value,
               fmt::format("'{}' is not one of {}", entry.key, join(action_names(), ", ")));
      check_action(entry.key, entry.value);
      one.action = entry.key;
      one.value = entry.value;
      all.push_back(one);
    }
    if (all.empty()) refuse(rule, fmt::format("one of {} is needed", join(action_names(), ", ")));
    return all;
  }

  MachineRule machine(const text::Value& rule) const {
    MachineRule one;
    for (const text::Entry& entry : map(*rule.find("machine")).entries()) {
      if (entry.key == "vm")
        one.vmid = count(entry.value);
      else if (entry.key == "host")
        one.host = word(entry.value);
      else
        refuse(entry.value, fmt::format("'{}' is not one of vm, host", entry.key));
    }
    for (const text::Entry& entry : rule.entries()) {
      if (entry.key == "machine") continue;
      if (entry.key != "trouble")
        refuse(entry.value, fmt::format("a machine cannot have '{}'", entry.key));
      one.trouble = word(entry.value);
      if (!parse_trouble(one.trouble))
        refuse(entry.value,
               fmt::format("'{}' is not one of {}", one.trouble, join(trouble_names(), ", ")));
    }
    if (one.trouble.empty()) refuse(rule, "trouble is needed");
    return one;
  }

 private:
  std::string_view name_;
};

Faults Faults::parse(std::string_view yaml, std::string_view name) {
  const Reader reader{name};
  const text::Value root = text::parse_yaml(yaml, name);
  Faults faults;
  if (root.is_null()) return faults;
  if (!root.is_list()) reader.refuse(root, "a list of faults is expected");
  std::vector<std::string> problems;
  for (const text::Value& rule : root.items()) {
    try {
      if (!rule.is_map())
        reader.refuse(rule, "a fault is a map that begins with request, task, at or machine");
      if (rule.find("request") != nullptr) {
        faults.requests_.push_back(reader.request(rule));
      } else if (rule.find("task") != nullptr) {
        faults.tasks_.push_back(reader.task(rule));
      } else if (rule.find("at") != nullptr) {
        for (TimedRule& one : reader.timed(rule)) faults.timed_.push_back(std::move(one));
      } else if (rule.find("machine") != nullptr) {
        faults.machines_.push_back(reader.machine(rule));
      } else {
        reader.refuse(rule, "a fault begins with request, task, at or machine");
      }
    } catch (const Error& error) {
      problems.push_back(error.message());
    }
  }
  if (!problems.empty()) throw Error(Fault::Usage, join(problems, "\n"));
  return faults;
}

/// Counts what fits a rule, and says when it strikes.
class Faults::Counter {
 public:
  Counter(Limits limits, SeededEntropy entropy) : limits_(limits), entropy_(std::move(entropy)) {}

  bool strikes() {
    if (limits_.times != 0 && struck_ >= limits_.times) return false;
    if (seen_++ < limits_.skip) return false;
    if (limits_.chance && entropy_.below(1000) >= *limits_.chance) return false;
    ++struck_;
    return true;
  }
  /// A head start in a race: as long as a config file is being written, more or less.
  Duration moment() { return std::chrono::milliseconds{entropy_.below(40)}; }

 private:
  Limits limits_;
  SeededEntropy entropy_;
  unsigned seen_ = 0;
  unsigned struck_ = 0;
};

namespace {

std::string member(const text::Value& value, std::string_view key) {
  const text::Value* found = value.find(key);
  return found == nullptr || !found->is_scalar() ? "" : found->text();
}

unsigned vm_of(const pve::Datacenter& dc, const text::Value& value, SeededEntropy& chance) {
  const std::string id = value.is_map() ? member(value, "vm") : value.text();
  if (id != "any") return static_cast<unsigned>(parse_uint(id).value_or(0));
  if (dc.vms.empty()) return 0;
  return std::next(dc.vms.begin(), static_cast<std::ptrdiff_t>(chance.below(dc.vms.size())))->first;
}

pve::RawParameters settings(const text::Value& value) {
  pve::RawParameters raw;
  if (const text::Value* set = value.find("set"))
    for (const text::Entry& entry : set->entries())
      raw[entry.key] = pve::Raw{{entry.value.text()}, false};
  return raw;
}

/// Somebody at the GUI: the same call as any other, under their name, in the task log like any
/// other.
void by_hand(pve::Datacenter& dc, const std::string& by, const std::string& host,
             const std::string& path, pve::RawParameters raw, const char* method = "POST") {
  pve::Node* node = dc.find_node(host);
  if (node == nullptr) return;
  const std::string who = by.empty() ? "root@pam" : by;
  // Whoever sits there has the rights; a name the lab does not know yet is made an administrator.
  if (!dc.access.users.contains(who)) {
    dc.access.users[who];
    dc.access.acl["/"][who]["Administrator"] = true;
  }
  dc.world.spawn(pve::act(dc, *node, {who, who, false}, method, path, std::move(raw)));
}

void create_by_hand(pve::Datacenter& dc, const std::string& by, const std::string& host,
                    unsigned vmid, pve::RawParameters raw) {
  raw["vmid"] = pve::Raw{{std::to_string(vmid)}, false};
  by_hand(dc, by, host, fmt::format("nodes/{}/qemu", host), std::move(raw));
}

/// Who asks for a VM finds somebody else asking for the same one: on another host if there is one,
/// a moment before or after, as the seed has it.
void race(pve::Datacenter& dc, const std::string& by, std::string host, const net::Incoming& in,
          Duration delay) {
  const auto raw = pve::parse_form(in.body);
  const auto wanted = raw.find("vmid");
  if (wanted == raw.end()) return;
  const auto vmid = static_cast<unsigned>(parse_uint(wanted->second.values.front()).value_or(0));
  if (host.empty()) {
    host = dc.nodes().begin()->first;
    for (const auto& [name, node] : dc.nodes())
      if (in.target.find("/" + name + "/") == std::string::npos && node->online) host = name;
  }
  pve::RawParameters mine;
  mine["name"] = pve::Raw{{"intruder"}, false};
  dc.world.after(delay, [&dc, by, host, vmid, mine] { create_by_hand(dc, by, host, vmid, mine); });
}

void do_timed(pve::Datacenter& dc, const std::string& action, const text::Value& value,
              SeededEntropy& chance) {
  dc.world.note("fault: " + action);
  if (action == "down" || action == "up") {
    dc.set_online(value.text(), action == "up");
  } else if (action == "fill" || action == "free") {
    if (pve::Storage* storage = dc.find_storage(value.text()))
      storage->reserved = action == "fill" ? storage->total : 0;
  } else if (action == "quorum") {
    dc.quorate = value.as_bool().value_or(true);
  } else if (action == "lock" || action == "unlock") {
    pve::Vm* vm = dc.find_vm(vm_of(dc, value, chance));
    if (vm == nullptr) return;
    if (action == "unlock")
      vm->config.erase("lock");
    else
      vm->config["lock"] = member(value, "as").empty() ? "backup" : member(value, "as");
  } else if (action == "backup") {
    pve::start_backup(dc, vm_of(dc, value, chance),
                      member(value, "to").empty() ? "local" : member(value, "to"));
  } else if (action == "change") {
    // Changed at once (PUT), as the GUI does for most options, it leaves no task.
    const bool at_once = member(value, "at-once") == "true";
    if (const pve::Vm* vm = dc.find_vm(vm_of(dc, value, chance)))
      by_hand(dc, member(value, "by"), vm->node,
              fmt::format("nodes/{}/qemu/{}/config", vm->node, vm->id), settings(value),
              at_once ? "PUT" : "POST");
  } else if (action == "create") {
    const std::string host =
        member(value, "host").empty() ? dc.nodes().begin()->first : member(value, "host");
    create_by_hand(dc, member(value, "by"), host, vm_of(dc, value, chance), settings(value));
  }
}

}  // namespace

void Faults::arm(pve::Datacenter& dc) const {
  arm(dc, [](const TimedRule&, SeededEntropy&) { return false; });
}

void Faults::arm(pve::Datacenter& dc, const First& first) const {
  struct State {
    std::vector<std::pair<RequestRule, Counter>> requests;
    std::vector<std::pair<TaskRule, Counter>> tasks;
  };
  auto state = std::make_shared<State>();
  std::size_t number = 0;
  for (const RequestRule& rule : requests_)
    state->requests.emplace_back(
        rule, Counter{rule.limits, dc.world.fork(fmt::format("fault/{}", number++))});
  for (const TaskRule& rule : tasks_)
    state->tasks.emplace_back(
        rule, Counter{rule.limits, dc.world.fork(fmt::format("fault/{}", number++))});
  if (!requests_.empty())
    dc.request_fault = [&dc, state](const pve::Node& node,
                                    const net::Incoming& in) -> std::optional<pve::RequestFault> {
      for (auto& [rule, counter] : state->requests) {
        if (!rule.host.empty() && rule.host != node.name) continue;
        if (!rule.method.empty() && rule.method != in.method) continue;
        if (in.target.find(rule.path) == std::string::npos) continue;
        if (!counter.strikes()) continue;
        pve::RequestFault fault;
        fault.delay = rule.delay;
        if (rule.race) {
          race(dc, rule.race->by, rule.race->host, in, counter.moment());
          fault.delay += counter.moment();
        }
        fault.status = rule.status;
        fault.reason = rule.reason;
        fault.content_type = rule.type;
        fault.body = rule.body;
        fault.cut = rule.cut;
        fault.lose = rule.lose;
        fault.truncate = rule.truncate;
        fault.strings = rule.strings;
        return fault;
      }
      return std::nullopt;
    };
  if (!tasks_.empty())
    dc.task_fault = [state](const pve::Node&,
                            const pve::Task& task) -> std::optional<pve::TaskFault> {
      for (auto& [rule, counter] : state->tasks) {
        if (!rule.type.empty() && rule.type != task.upid.type) continue;
        if (!rule.id.empty() && rule.id != task.upid.id) continue;
        if (!counter.strikes()) continue;
        return pve::TaskFault{rule.hang, rule.fail, rule.afterwards};
      }
      return std::nullopt;
    };
  for (const TimedRule& rule : timed_) {
    auto chance = std::make_shared<SeededEntropy>(dc.world.fork(fmt::format("fault/{}", number++)));
    if (rule.chance && chance->below(1000) >= *rule.chance) continue;
    const Duration later{rule.within.count() > 0
                             ? static_cast<Duration::rep>(
                                   chance->below(static_cast<std::uint64_t>(rule.within.count())))
                             : 0};
    dc.world.after(rule.at + later, [&dc, rule, chance, first] {
      if (!first(rule, *chance)) do_timed(dc, rule.action, rule.value, *chance);
    });
  }
}

void Faults::arm(Infisical& infisical, const World& world) const {
  auto rules = std::make_shared<std::vector<std::pair<RequestRule, Counter>>>();
  std::size_t number = 0;
  for (const RequestRule& rule : requests_)
    if (rule.host == infisical_host)
      rules->emplace_back(
          rule, Counter{rule.limits, world.fork(fmt::format("fault/infisical/{}", number++))});
  infisical.trouble = nullptr;  // what was armed before is over
  if (rules->empty()) return;
  infisical.trouble = [rules](const net::Incoming& in) -> std::optional<Infisical::Trouble> {
    for (auto& [rule, counter] : *rules) {
      if (!rule.method.empty() && rule.method != in.method) continue;
      if (in.target.find(rule.path) == std::string::npos) continue;
      if (!counter.strikes()) continue;
      return Infisical::Trouble{rule.status, rule.reason, rule.retry_after, rule.delay,
                                rule.cut,    rule.lose,   rule.silent};
    }
    return std::nullopt;
  };
}

}  // namespace rocca::lab
