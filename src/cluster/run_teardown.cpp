// A teardown that was interrupted, and what the next `up` makes of it. The rule itself is
// `decide()` in teardown.cpp.

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "cluster/run_impl.hpp"
#include "kubernetes/expand.hpp"
#include "machine/kinds.hpp"
#include "platform/kinds.hpp"
#include "secrets/crypto.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

// Our own shutdowns wait half a minute for the guest; what takes longer than this is not awaited.
constexpr Duration longest_task = 90s;
constexpr Duration renew_every = 20s;
constexpr int most_tries = 5;

/// As the user can paste it: `rocca down blue`.
std::string command(const RunOptions& options, const char* verb) {
  return fmt::format("rocca {}{}{}", verb, options.called.empty() ? "" : " ", options.called);
}

std::string node_of(const std::string& address) {
  return address.substr(address.find('/') + 1);
}

/// The VM that LeftoverVm found, also one that may not be destroyed now (protection, a lock); not a
/// doubtful one, and not volumes alone.
bool is_there(const std::optional<engine::Live>& live) {
  return live &&
         (live->fields.contains("vm") || (live->fields.contains("refused") && !live->id.empty()));
}

/// The journal has an act for it that was announced or begun, or that it is gone.
bool is_announced(const state::State& prior, const std::string& address) {
  const auto item = prior.items.find(address);
  return item == prior.items.end() || !item->second.receipt.empty();
}

bool is_control_plane(const Cluster& cluster, const state::State& prior, const std::string& node) {
  if (const spec::Node* wanted = cluster.spec.find_node(node)) return wanted->control_plane();
  for (const std::string& address : {vm_address(node), machine_address(node)})
    if (const auto item = prior.items.find(address); item != prior.items.end())
      return fact(item->second.facts, "role") == "controlplane";
  return false;
}

/// What stays as it is when all VMs of the cluster go.
bool survives(const Cluster& cluster, const std::string& address, bool reset_existing) {
  const std::string kind = engine::kind_of(address);
  if (kind == "schematic" || kind == "image") return true;
  if (reset_existing) return false;
  if (kind == "access")
    return std::any_of(cluster.spec.nodes.begin(), cluster.spec.nodes.end(),
                       [](const spec::Node& node) { return node.existing.has_value(); });
  if (kind != "machine") return false;
  const spec::Node* node = cluster.spec.find_node(node_of(address));
  return node != nullptr && node->existing;
}

/// "cp-1 was destroyed", as far as it went: Proxmox may still be at work.
std::string destroyed_text(const std::vector<std::string>& destroyed,
                           const std::vector<std::string>& going) {
  std::vector<std::string> gone;
  for (const std::string& node : destroyed)
    if (std::find(going.begin(), going.end(), node) == going.end()) gone.push_back(node);
  const auto say = [](const std::vector<std::string>& nodes, const char* one, const char* many) {
    return fmt::format("{} {}", enumerate(nodes), nodes.size() == 1 ? one : many);
  };
  if (going.empty()) return say(gone, "was destroyed", "were destroyed");
  const std::string now = say(going, "is being destroyed", "are being destroyed");
  return gone.empty()
             ? now
             : fmt::format("{}, and {}", say(gone, "was destroyed", "were destroyed"), now);
}

void add(engine::Summary& sum, const engine::Summary& more) {
  sum.create += more.create;
  sum.update += more.update;
  sum.replace += more.replace;
  sum.destroy += more.destroy;
  sum.refused += more.refused;
}

}  // namespace

std::string begin_of(const state::Teardown& teardown) {
  return rocca::to_string(std::chrono::floor<std::chrono::seconds>(teardown.since));
}

void Run::Impl::record_teardown(Look& look, const DownOptions& how) {
  if (look.plan.steps.empty()) return;
  state::Teardown teardown = look.prior.teardown.value_or(state::Teardown{});
  if (!look.prior.teardown) teardown.since = doors.clock.now();
  std::set<std::string> planes(teardown.control_planes.begin(), teardown.control_planes.end());
  for (const auto& [address, live] : look.observed.live)
    if (engine::kind_of(address) == "vm" && is_there(live) &&
        is_control_plane(cluster, look.prior, node_of(address)))
      planes.insert(node_of(address));
  for (const spec::Node* node : cluster.spec.control_planes())
    if (node->existing) planes.insert(node->name);
  teardown.control_planes = {planes.begin(), planes.end()};
  teardown.reset_existing = teardown.reset_existing || how.reset_existing;
  if (look.prior.teardown == teardown) return;
  const state::Record record = state::teardown_begun(std::move(teardown));
  for (int tries = 1;; ++tries) try {
      call("state", [&] { doors.store.append(std::span{&record, 1}); });
      break;
    } catch (const Error& error) {
      // The same record twice is the same as once.
      if (!may_retry(error.fault()) || tries == most_tries) throw_without_state(error);
      doors.runner.wait_until(doors.runner.now() + Duration{1s} * (1 << (tries - 1)));
    }
  state::apply(look.prior, record);
}

std::map<proxmox::Vmid, std::string> Run::Impl::tasks_under_way(Look& look) {
  std::map<proxmox::Vmid, std::string> tasks;
  if (!cluster.proxmox) return tasks;
  std::set<std::string> ids, hosts;
  for (const auto& [node, chosen] : cluster.lock.nodes)
    if (chosen.vmid) ids.insert(std::to_string(*chosen.vmid));
  for (const auto& [address, item] : look.prior.items)
    if (engine::kind_of(address) == "vm") ids.insert(fact(item.facts, "vmid"));
  for (const auto& [address, live] : look.observed.live)
    if (live && engine::kind_of(address) == "vm") ids.insert(fact(live->facts, "vmid"));
  for (const auto& host : cluster.spec.proxmox->hosts) hosts.insert(*host);
  with_proxmox(look, [&](World& world) {
    proxmox::TaskFilter filter;
    filter.only_active = true;
    for (const std::string& host : hosts) try {
        for (const proxmox::TaskRow& task : world.proxmox().tasks(host, filter)) {
          const std::string& type = task.upid.type;
          if (type != "qmshutdown" && type != "qmstop" && type != "qmdestroy") continue;
          const auto vmid = parse_uint(task.upid.id);
          if (vmid && ids.contains(task.upid.id)) tasks[static_cast<proxmox::Vmid>(*vmid)] = type;
        }
      } catch (const Error& error) {
        // A host that is off, or that left the Proxmox cluster, runs no task.
        if (!is_silence(error.fault()) && error.fault() != Fault::NotFound) throw;
      }
  });
  return tasks;
}

void Run::Impl::await_tasks(Look& look, state::Lock& lock) {
  const Tick began = doors.runner.now();
  Tick renewed = began;
  while (!stop.stop_requested() && doors.runner.now() - began < longest_task &&
         !tasks_under_way(look).empty()) {
    doors.runner.wait_until(doors.runner.now() + 1s);
    if (doors.runner.now() - renewed < renew_every) continue;
    call("lock", [&] { lock.renew(); });
    renewed = doors.runner.now();
  }
}

std::vector<ControlPlaneFacts> Run::Impl::planes_of(const Look& look, const Look& remains,
                                                    const std::set<proxmox::Vmid>& going) const {
  std::vector<ControlPlaneFacts> planes;
  const state::Teardown& teardown = *look.prior.teardown;
  for (const std::string& name : teardown.control_planes) {
    const spec::Node* node = cluster.spec.find_node(name);
    const bool existing = node != nullptr && node->existing;
    const std::string address = existing ? machine_address(name) : vm_address(name);
    ControlPlaneFacts plane;
    plane.node = name;
    plane.announced = is_announced(look.prior, address);
    plane.stays = existing && !teardown.reset_existing;
    const auto seen = remains.observed.live.find(address);
    const std::optional<engine::Live> live =
        seen == remains.observed.live.end() ? std::nullopt : seen->second;
    if (plane.stays || remains.observed.failed.contains(address)) {
      plane.data = EtcdData::Silent;
    } else if (existing) {
      // Without a live one it is in maintenance mode: as a reset leaves it.
      plane.data =
          live && fact(live->fields, "stage") == "ours" ? EtcdData::Present : EtcdData::Empty;
    } else if (is_there(live)) {
      const auto vmid = parse_uint(fact(live->facts, "vmid"));
      const bool goes = vmid && going.contains(static_cast<proxmox::Vmid>(*vmid));
      plane.data = goes ? EtcdData::Gone : EtcdData::Present;
      plane.announced = plane.announced || goes;
    } else {
      // A destroy that failed on its way leaves nothing but the lock: its disks are gone.
      const bool gone =
          !live || live->fields.contains("rest") || fact(live->fields, "making") == "destroyed";
      plane.data = gone ? EtcdData::Gone : EtcdData::Silent;
    }
    planes.push_back(std::move(plane));
  }
  return planes;
}

void Run::Impl::add_gone_meanwhile(const Look& look, Look& remains,
                                   std::set<proxmox::Vmid>& going) {
  // A destroy that ended between the list of VMs and the list of tasks is in neither of them.
  with_proxmox(remains, [&](World& world) {
    for (const std::string& name : look.prior.teardown->control_planes) {
      const std::string address = vm_address(name);
      const auto seen = remains.observed.live.find(address);
      if (seen == remains.observed.live.end() || !is_there(seen->second)) continue;
      const auto vmid = parse_uint(fact(seen->second->facts, "vmid"));
      if (!vmid || !is_announced(look.prior, address)) continue;
      const auto id = static_cast<proxmox::Vmid>(*vmid);
      if (!world.proxmox().find_status(fact(seen->second->facts, "host"), id)) going.insert(id);
    }
  });
}

void Run::Impl::judge_teardown(Look& look) {
  auto remains = look_down({/*purge_images=*/false, look.prior.teardown->reset_existing},
                           /*all=*/true);
  std::set<proxmox::Vmid> going;
  for (const auto& [vmid, type] : tasks_under_way(*remains))
    if (type == "qmdestroy") going.insert(vmid);
  add_gone_meanwhile(look, *remains, going);
  look.planes = planes_of(look, *remains, going);
  look.course = decide(look.planes, {look.prior.bootstrapped.has_value(), /*teardown=*/true,
                                     /*etcd_answers=*/false});
  if (look.course != Course::Recreate) return;
  if (!options.targets.empty())
    throw Error(Fault::Refused,
                fmt::format("the teardown of {} was interrupted after {} had been destroyed: a "
                            "part of the cluster cannot be brought up",
                            cluster.name(), enumerate(destroyed_by_teardown(look.planes))))
        .hint(fmt::format("`{}` without --target destroys what remains and creates it again; `{}` "
                          "finishes the teardown",
                          command(options, "up"), command(options, "down")));
  look.remains = std::move(remains);
}

state::State Run::Impl::forgotten(const state::State& prior) const {
  state::State fresh;
  fresh.lineage = prior.lineage;
  fresh.serial = prior.serial;
  fresh.cluster = cluster.name();
  fresh.cluster_id = cluster.id();
  fresh.durations = prior.durations;
  return fresh;
}

engine::Report Run::Impl::finish_teardown(Look& look, state::Lock& lock,
                                          const engine::EventSink& events) {
  const DownOptions how{/*purge_images=*/false, look.prior.teardown->reset_existing};
  // One write from the old cluster's memory to the new one's: there is no moment between them.
  return tear_down(look.remains, lock, events, how, /*all=*/true,
                   [this, fresh = forgotten(look.prior)] { doors.store.replace(fresh); });
}

void Run::Impl::plan_recreation(Look& look, const std::set<std::string>& shared_storages) {
  const bool reset_existing = look.prior.teardown->reset_existing;
  // VMs that were taken over go as well: what comes in their place is made by us.
  Cluster as_if = cluster;
  forget_adopted(as_if.lock, [](const std::string&) { return true; });
  const state::State fresh = forgotten(look.prior);
  look.desired = expand(as_if, {fresh, shared_storages}, {});
  if (options.outside) add_kubernetes_things(as_if, options.outside, fresh, look.desired);
  look.graph = engine::build(look.desired, fresh);
  observe(look);
  for (const auto& [address, resource] : look.desired.wanted) {
    if (survives(as_if, address, reset_existing)) continue;
    look.observed.live[address] = std::nullopt;
    look.observed.failed.erase(address);
    look.observed.errors.erase(address);
  }
  engine::PlanOptions how{options.policy, {}};
  how.policy.protect = how.policy.protect || *cluster.spec.protect;
  look.plan = engine::plan(look.desired, look.graph, look.observed, fresh, cluster.name(), how);
  const engine::Plan& first = look.remains->plan;
  engine::Plan& plan = look.plan;
  plan.found.clear();  // of a state that is not there yet
  plan.steps.insert(plan.steps.begin(), first.steps.begin(), first.steps.end());
  add(plan.summary, first.summary);
  plan.failed.insert(first.failed.begin(), first.failed.end());
  plan.errors.insert(first.errors.begin(), first.errors.end());
  plan.kept.insert(first.kept.begin(), first.kept.end());
  plan.effect = std::max(plan.effect, first.effect);
  plan.estimate.reset();
  plan.bound_to = to_hex(secrets::crypto::sha256(first.bound_to + plan.bound_to));
}

void Run::Impl::add_notice(Look& look) const {
  if (!look.prior.teardown) return;
  const std::string& name = cluster.name();
  const std::string since = begin_of(*look.prior.teardown);
  engine::Plan& plan = look.plan;
  switch (look.course) {
    case Course::Proceed:
      return;
    case Course::Keep: {
      std::vector<std::string> missing;
      for (const engine::Planned& step : plan.steps)
        if (engine::kind_of(step.address) == "vm" && step.change.action == engine::Action::Create)
          missing.push_back(node_of(step.address));
      plan.notice = fmt::format(
          "The teardown of {} that began at {} was interrupted before a control plane was "
          "destroyed: `rocca up` keeps the cluster{}. To finish the teardown instead: `{}`.",
          name, since,
          missing.empty() ? "" : fmt::format(" and creates {} again", enumerate(missing)),
          command(options, "down"));
      plan.found.push_back(state::teardown_cancelled(look.observed.at));
      return;
    }
    case Course::Recreate: {
      const std::vector<std::string> destroyed = destroyed_by_teardown(look.planes);
      std::vector<std::string> left, going;
      for (const engine::Planned& step : look.remains->plan.steps) {
        if (engine::kind_of(step.address) != "vm") continue;
        const std::string node = node_of(step.address);
        const bool counts_as_gone =
            std::find(destroyed.begin(), destroyed.end(), node) != destroyed.end();
        (counts_as_gone ? going : left).push_back(node);
      }
      plan.notice = fmt::format(
          "The teardown of {} that began at {} was interrupted after it had begun to destroy "
          "control "
          "planes ({}): the cluster cannot be kept. {} then {} is created again, with an empty "
          "etcd. Save what you need of it before `rocca up`. To finish the teardown only: `{}`.",
          name, since, destroyed_text(destroyed, going),
          left.empty() ? std::string("No other VM remains;")
                       : fmt::format("{} remain{} and {} destroyed first ({}; data-loss),",
                                     plural(left.size(), "VM"), left.size() == 1 ? "s" : "",
                                     left.size() == 1 ? "is" : "are", enumerate(left)),
          name, command(options, "down"));
      return;
    }
    case Course::Lost:
      plan.notice = fmt::format(
          "The teardown of {} that began at {} was interrupted before it destroyed a control "
          "plane, but control planes are lost.",
          name, since);
      return;
    case Course::Undecided: {
      plan.notice =
          fmt::format("The teardown of {} that began at {} was interrupted.", name, since);
      std::vector<std::string> unseen;
      for (const ControlPlaneFacts& plane : look.planes)
        if (plane.announced && plane.data == EtcdData::Silent) unseen.push_back(plane.node);
      const std::string address = bootstrap_address(name);
      auto step = std::find_if(plan.steps.begin(), plan.steps.end(),
                               [&](const auto& each) { return each.address == address; });
      if (step == plan.steps.end()) {
        plan.steps.push_back({});
        step = std::prev(plan.steps.end());
        step->address = address;
      }
      if (step->change.refusal.empty()) ++plan.summary.refused;
      step->change.refusal = fmt::format(
          "whether the interrupted teardown has destroyed {} cannot be seen", enumerate(unseen));
      step->change.hint =
          fmt::format("once it can be asked, `{}` decides; `{}` goes on with the teardown",
                      command(options, "up"), command(options, "down"));
      return;
    }
  }
}

}  // namespace rocca::resources
