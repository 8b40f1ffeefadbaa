#include "base/error.hpp"
#include "base/strings.hpp"
#include "resources/run_impl.hpp"
#include "resources/vm_wish.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

/// Tasks of Proxmox that could have made a field what it is.
bool explains(const std::string& task, const std::string& field) {
  const auto one_of = [&](std::initializer_list<const char*> types) {
    return std::any_of(types.begin(), types.end(), [&](const char* each) { return task == each; });
  };
  if (field == "power")
    return one_of({"qmstop", "qmshutdown", "hastop", "qmreset", "qmreboot", "qmsuspend"});
  if (field.ends_with(".size")) return one_of({"resize", "qmconfig"});
  if (field.ends_with(".storage")) return one_of({"qmmove", "qmigrate"});
  if (field == "exists") return one_of({"qmdestroy"});
  return one_of({"qmconfig", "qmrestore", "qmrollback"});
}

/// The newest task of this VM, since it last settled, that explains the field.
std::optional<proxmox::TaskRow> culprit(const std::vector<proxmox::TaskRow>& tasks,
                                        const std::string& field, std::optional<Instant> since) {
  std::optional<proxmox::TaskRow> newest;
  for (const proxmox::TaskRow& task : tasks) {
    if (!explains(task.upid.type, field)) continue;
    if (since && task.started + 1s < *since) continue;
    if (!newest || task.started > newest->started) newest = task;
  }
  return newest;
}

/// Where the spec says a field of a node's VM, and how it would say what was found.
void accept(const spec::Node& node, Drift& drift) {
  if (!node.pool.empty()) return;  // a pool speaks for all of its nodes
  // What waits for the next start is accepted like what is in force.
  const std::string pending = pending_option(drift.field);
  const std::string& about = pending.empty() ? drift.field : pending;
  std::vector<std::string> path{"spec", "nodes", node.name, "machine"};
  static constexpr std::array same = {std::pair{"cores", "cores"}, std::pair{"cpu", "cpu"},
                                      std::pair{"scsihw", "scsi"}};
  for (const auto& [field, key] : same)
    if (about == field) {
      path.push_back(key);
      drift.accept_path = path;
      drift.accept_value = drift.found;
    }
  if (about == "onboot" || about == "agent") {
    path.push_back(about == "onboot" ? "onBoot" : "agent");
    drift.accept_path = path;
    drift.accept_value = drift.found.starts_with('1') ? "true" : "false";
  }
  if (about == "memory")
    if (const auto mib = parse_uint(drift.found)) {
      path.push_back("memory");
      drift.accept_path = path;
      drift.accept_value = to_string(Bytes::mib(*mib));
    }
  if (about.ends_with(".size") && node.machine) {
    const auto number = parse_uint(about.substr(4, about.find('.') - 4));
    if (!number || *number >= node.machine->disks.size()) return;
    path.insert(path.end(), {"disks", node.machine->disks[*number].name, "size"});
    drift.accept_path = path;
    drift.accept_value = drift.found;
  }
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

std::vector<Drift> Run::drift() {
  Impl& impl = *impl_;
  Look& look = impl.seen();
  std::vector<Drift> all;
  for (const engine::Planned& step : look.plan.steps) {
    const auto item = look.prior.items.find(step.address);
    // What never was as it should be is no drift, and neither is a wish that changed.
    if (item == look.prior.items.end() || !item->second.settled) continue;
    const auto thing = look.desired.wanted.find(step.address);
    if (thing == look.desired.wanted.end()) continue;
    if (item->second.applied != thing->second->wanted()) continue;
    const auto add = [&](const std::string& field, const std::string& declared,
                         const std::string& found, engine::Effect effect) {
      Drift drift;
      drift.address = step.address;
      drift.field = field;
      drift.declared = declared;
      drift.found = found;
      drift.effect = effect;
      all.push_back(std::move(drift));
    };
    if (step.change.action == engine::Action::Create)
      add("exists", "yes", "no", step.change.effect);
    else if (step.change.fields.empty())
      add("state", "as it should be", step.change.reason, step.change.effect);
    for (const engine::FieldChange& field : step.change.fields)
      add(field.field, field.after, field.before, field.effect);
  }
  add_ignored(look, all);
  if (!impl.cluster.proxmox || all.empty()) return all;
  impl.with_world(look, [&](World& world) {
    for (Drift& drift : all) {
      if (engine::kind_of(drift.address) != "vm") continue;
      const auto& item = look.prior.items.at(drift.address);
      const auto vmid = parse_uint(fact(item.facts, "vmid"));
      if (!vmid) continue;
      const auto known = world.known(drift.address);
      const std::string host = known ? fact(known, "host") : fact(item.facts, "host");
      proxmox::TaskFilter filter;
      filter.vmid = static_cast<proxmox::Vmid>(*vmid);
      filter.since = item.settled;
      const auto task = culprit(world.proxmox().tasks(host, filter), drift.field, item.settled);
      if (task) {
        drift.by = task->user;
        drift.task = fmt::format("{}, {}", task->upid.type, task->upid.text);
        drift.since = task->started;
      }
      const std::string node = drift.address.substr(drift.address.find('/') + 1);
      if (const spec::Node* wanted = impl.cluster.spec.find_node(node)) accept(*wanted, drift);
    }
  });
  return all;
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
