#include "cluster/run.hpp"

#include "base/diagnostics.hpp"
#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "cluster/refusals.hpp"
#include "cluster/run_impl.hpp"
#include "engine/fan_out.hpp"
#include "kubernetes/addon_source.hpp"
#include "kubernetes/expand.hpp"
#include "kubernetes/handover.hpp"
#include "locking/choose.hpp"
#include "locking/resolve.hpp"
#include "machine/kinds.hpp"
#include "platform/kinds.hpp"
#include "platform/proxmox/kinds.hpp"
#include "platform/proxmox/orphan_vm.hpp"
#include "platform/proxmox/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rocca::resources {

namespace {

// A look is mostly work of this machine's own: more at once only hold more memory, and connections,
// which cost more than what is asked over them.
constexpr unsigned looks_at_once = 16;
constexpr std::size_t few_workers = 4;

using namespace std::chrono_literals;

constexpr Duration lock_for = 2min;  // and renewed while we live
constexpr Duration a_moment = 10s;

/// A host that the spec names and Proxmox has not is a mistake of the spec, and said at its place.
void require_hosts(const spec::Spec& spec, const std::vector<proxmox::NodeInfo>& hosts) {
  std::vector<std::string> names;
  for (const proxmox::NodeInfo& host : hosts) names.push_back(host.name);
  const auto require = [&](const std::string& host, const std::string& where) {
    if (std::find(names.begin(), names.end(), host) != names.end()) return;
    throw Error(Fault::NotFound,
                fmt::format("{} names the host '{}', and Proxmox has no such host{}", where, host,
                            did_you_mean(host, names)))
        .hint(fmt::format("the hosts of this Proxmox: {}", enumerate(names)));
  };
  for (const auto& host : spec.proxmox->hosts) require(*host, "proxmox.hosts");
  for (const spec::Node& node : spec.nodes)
    if (node.machine && node.machine->host)
      require(**node.machine->host, fmt::format("nodes.{}.machine.host", node.name));
}

/// Storages that all hosts share, as far as images on them are remembered: `image/STORAGE/FILE`.
std::set<std::string> remembered_shared(const state::State& prior) {
  std::set<std::string> shared;
  for (const auto& [address, item] : prior.items) {
    if (engine::kind_of(address) != "image") continue;
    const std::string storage = split(address, '/').at(1);
    if (storage.find('@') == std::string::npos) shared.insert(storage);
  }
  return shared;
}

/// The lock is gone: what VMs were taken over with is in the state as well. Nothing else shows that
/// they are ours.
void recall_adopted(spec::Lock& lock, const state::State& prior) {
  for (const auto& [address, item] : prior.items) {
    if (engine::kind_of(address) != "vm" || fact(item.facts, "adopted") != "yes") continue;
    const auto vmid = parse_uint(fact(item.facts, "vmid"));
    const auto uuid = Uuid::parse(fact(item.facts, "uuid"));
    if (vmid && uuid) lock.nodes[fact(item.facts, "node")] = {fact(item.facts, "host"), vmid, uuid};
  }
}

}  // namespace

void forget_adopted(spec::Lock& lock, const std::function<bool(const std::string& node)>& gone) {
  for (auto& [node, chosen] : lock.nodes)
    if (chosen.vmid && chosen.uuid && gone(node)) chosen.uuid.reset();
}

void RunWorlds::with(const std::string&, std::stop_token stop,
                     const std::function<void(World&)>& body) {
  World world{cluster_,       survey_,      known_,         doors_.transport, doors_.files,
              doors_.storage, doors_.clock, doors_.entropy, std::move(stop)};
  body(world);
}

void RunWorlds::learn(const std::string& address, const std::optional<Fields>& facts) {
  known_.learn(address, facts);
}

// ---- one look at the world

void Run::Impl::call(const std::string& name, const std::function<void()>& body,
                     const std::vector<engine::Lane>& lanes) {
  engine::FanOut how;
  how.lanes = [&](const std::string&) { return lanes; };
  engine::fan_out(doors.runner, {name}, how, [&](const std::string&) { body(); });
}

void Run::Impl::with_world(Look& look, const std::function<void(World&)>& body) {
  RunWorlds worlds{cluster, look.survey, look.known, doors};
  call("survey", [&] { worlds.with("", stop, body); });
}

void Run::Impl::with_proxmox(Look& look, const std::function<void(World&)>& body) {
  std::vector<engine::Lane> lanes;
  if (cluster.spec.proxmox)
    for (const auto& host : cluster.spec.proxmox->hosts) lanes.push_back(host_lane(*host));
  RunWorlds worlds{cluster, look.survey, look.known, doors};
  call(
      "inventory", [&] { worlds.with("", stop, body); }, lanes);
}

void Run::Impl::load(Look& look) {
  call("state", [&] {
    if (auto state = doors.store.load()) {
      look.prior = std::move(*state);
      look.remembered = true;
    }
  });
  if (!look.remembered) {
    look.prior.cluster = cluster.name();
    look.prior.cluster_id = cluster.id();
    return;
  }
  if (look.prior.cluster_id != cluster.id())
    throw Error(Fault::Refused,
                fmt::format("{} is of another cluster: its id is not the one of these secrets",
                            doors.store.describe()))
        .hint(
            "did the secrets bundle change? A cluster keeps its bundle for ever; a copied folder "
            "needs a state of its own");
  if (cluster.lock.nodes.empty()) recall_adopted(cluster.lock, look.prior);
  cluster.met.clear();
  for (const auto& [address, item] : look.prior.items)
    if (engine::kind_of(address) == "machine")
      if (const auto uuid = Uuid::parse(fact(item.facts, "uuid")))
        cluster.met[address.substr(address.find('/') + 1)] = *uuid;
}

bool Run::Impl::is_ours(const Marked& vm) const {
  return engine::prove(vm.shown, cluster.identity_of(vm.node)).ownership == engine::Ownership::Ours;
}

void Run::Impl::name_copies(const std::vector<Marked>& marked, engine::Plan& plan) const {
  for (const Marked& vm : marked)
    if (!is_ours(vm)) plan.kept[fmt::format("VM {}", vm.row.vmid)] = copy_text(vm);
}

std::string Run::Impl::copy_text(const Marked& vm) const {
  return fmt::format("{}: a clone that another user made? It is left alone",
                     engine::prove(vm.shown, cluster.identity_of(vm.node)).reason);
}

void Run::Impl::meet_strays(const Look& look, World& world, std::vector<Marked>& marked) {
  for (Marked& vm : marked) {
    const spec::Node* node = cluster.spec.find_node(vm.node);
    if (node != nullptr && node->machine) continue;
    if (look.prior.items.contains(vm_address(vm.node))) continue;
    // A clone that somebody made has the mark as well; its machine is none of ours.
    if (is_ours(vm)) vm.stray = facts_of_stray(world, vm);
  }
}

/// A VM is about to be made where none is. Before that everybody is asked, once for all of them: a
/// backup of it may have been restored under another id and name, without our tags. Who stands at
/// an id of ours is asked when its turn comes.
void Run::Impl::look_for_missing(Look& look, World& world, std::vector<Marked>& marked) {
  std::set<proxmox::Vmid> there;
  for (const proxmox::VmRow& row : look.survey.rows(world.proxmox())) there.insert(row.vmid);
  std::set<std::string> missing;
  Survey::Scan scan{cluster.name(), /*everywhere=*/true};
  for (const spec::Node& node : cluster.spec.nodes) {
    if (!node.machine) continue;
    const auto vmid = vmid_of(node);
    if (vmid) scan.but.insert(*vmid);
    const bool met = std::any_of(marked.begin(), marked.end(), [&](const Marked& vm) {
      return vm.node == node.name && is_ours(vm);
    });
    if (!met && !(vmid && there.contains(*vmid))) missing.insert(node.name);
  }
  if (missing.empty()) return;
  for (Marked& vm : look.survey.marked(world.proxmox(), scan))
    // Others that carry our mark are no more ours to clear away than in any other plan.
    if (missing.contains(vm.node)) marked.push_back(std::move(vm));
}

void Run::Impl::expect_vms(Look& look, World& world) {
  std::map<std::string, std::string> names;
  for (const auto& [node, chosen] : cluster.lock.nodes)
    if (chosen.vmid) look.survey.expect(static_cast<proxmox::Vmid>(*chosen.vmid), node);
  for (const spec::Node& node : cluster.spec.nodes) {
    if (!node.machine) continue;
    if (const auto vmid = vmid_of(node)) look.survey.expect(*vmid, node.name);
    names.emplace(node.vm_name, node.name);
  }
  for (const auto& [address, item] : look.prior.items) {
    if (engine::kind_of(address) != "vm") continue;
    const std::string node = address.substr(address.find('/') + 1);
    if (const auto vmid = parse_uint(fact(item.facts, "vmid")))
      look.survey.expect(static_cast<proxmox::Vmid>(*vmid), node);
    names.emplace(fact(item.facts, "name"), node);
  }
  for (const proxmox::VmRow& row : look.survey.rows(world.proxmox()))
    if (const auto node = names.find(row.name);
        node != names.end() && has_our_tags(row, cluster.name()))
      look.survey.expect(row.vmid, node->second);
}

void Run::Impl::add_unasked(Look& look, bool whole) const {
  for (const proxmox::VmRow& row : look.unasked) {
    std::string node = look.survey.seems(row.vmid);
    if (node.empty()) node = row.name.empty() ? std::to_string(row.vmid) : row.name;
    const std::string address = vm_address(node);
    if (look.desired.wanted.contains(address) || look.desired.leftover.contains(address)) continue;
    Leftover leftover{address, {}, {{"vmid", std::to_string(row.vmid)}, {"host", row.node}}};
    if (whole) leftover.facts["whole cluster"] = "yes";
    look.desired.leftover[address] = leftover_vm(cluster, leftover);
  }
}

/// Any host tells that is on; where none is, what an earlier run found out.
std::set<std::string> Run::Impl::shared_storages(Look& look, proxmox::Client& client) const {
  std::set<std::string> shared;
  for (const auto& host : cluster.spec.proxmox->hosts) try {
      for (const proxmox::StorageInfo& storage : look.survey.storages(client, *host))
        if (storage.shared) shared.insert(storage.name);
      return shared;
    } catch (const Error& error) {
      if (error.fault() == Fault::NotFound) require_hosts(cluster.spec, client.nodes());
      if (!look.survey.is_off(*host)) throw;
    }
  return remembered_shared(look.prior);
}

/// Where a node's VM should be, if that was said or chosen.
std::optional<proxmox::Vmid> Run::Impl::vmid_of(const spec::Node& node) const {
  if (node.machine && node.machine->vmid) return static_cast<proxmox::Vmid>(**node.machine->vmid);
  const auto chosen = cluster.lock.nodes.find(node.name);
  if (chosen == cluster.lock.nodes.end() || !chosen->second.vmid) return std::nullopt;
  return static_cast<proxmox::Vmid>(*chosen->second.vmid);
}

void Run::Impl::choose_and_reserve(const spec::Lock& kept, Choices& choices) {
  // Another run of this process may have chosen ids that no VM has yet.
  vmids.reserve([&](const engine::Reservations::Ids& of_others) {
    for (const std::uint64_t id : of_others) choices.taken.insert(static_cast<proxmox::Vmid>(id));
    cluster.lock = choose(cluster.spec, kept, choices);
    engine::Reservations::Ids ours;
    for (const auto& [node, chosen] : cluster.lock.nodes)
      if (chosen.vmid) ours.insert(*chosen.vmid);
    return ours;
  });
}

void Run::Impl::choose_places(Look& look, World& world, const std::vector<Marked>& marked) {
  Choices choices;
  for (const proxmox::VmRow& row : look.survey.rows(world.proxmox()))
    choices.taken.insert(row.vmid);
  // A VM that proves to be a node's has that node's place, whatever was lost, and whoever put it
  // there: a backup that was restored under another id is where the node is from now on.
  for (const Marked& vm : marked) {
    const spec::Node* node = cluster.spec.find_node(vm.node);
    if (node == nullptr || !node->machine || !is_ours(vm)) continue;
    spec::LockedNode& chosen = cluster.lock.nodes[vm.node];
    const bool moved = chosen.vmid && !chosen.uuid && !node->machine->vmid &&
                       !choices.taken.contains(static_cast<proxmox::Vmid>(*chosen.vmid));
    if (!chosen.vmid || moved) locking::place(chosen, vm.row.vmid);
    if (chosen.host.empty() || moved) chosen.host = vm.row.node;
  }
  // Where there is but one host to choose from, nobody needs to know who else is there.
  const auto& hosts_of_spec = cluster.spec.proxmox->hosts;
  const bool open = std::any_of(
      cluster.spec.nodes.begin(), cluster.spec.nodes.end(), [&](const spec::Node& node) {
        if (!node.machine) return false;
        if (hosts_of_spec.size() == 1 &&
            (!node.machine->host || **node.machine->host == *hosts_of_spec.front()))
          return false;
        const auto chosen = cluster.lock.nodes.find(node.name);
        return chosen == cluster.lock.nodes.end() || chosen->second.host.empty();
      });
  if (open) {
    const std::vector<proxmox::NodeInfo> hosts = world.proxmox().nodes();
    require_hosts(cluster.spec, hosts);
    for (const proxmox::NodeInfo& host : hosts)
      if (!host.online) choices.offline_hosts.insert(host.name);
  }
  const spec::Lock before = cluster.lock;
  choose_and_reserve(before, choices);
  verify_ids(look, world, before, choices);
}

/// Versions, images and extensions are pinned before anything is compared: what a run does is what
/// rocca.lock says.
void Run::Impl::pin(Look& look) {
  with_world(look, [&](World& world) {
    cluster.lock = locking::pin(doors.files, cluster.spec, cluster.lock);
    factory::Client factory = world.factory();
    spec::Lock checked = cluster.lock;
    try {
      locking::check_extensions(cluster.spec, checked, factory);
      cluster.lock = std::move(checked);
    } catch (const Error& error) {
      // ignored: a running cluster needs no factory; creating one fails at its schematic, which
      // names the cause.
      if (!is_external(error.fault())) throw;
    }
  });
}

std::unique_ptr<Look> Run::Impl::look_up() {
  auto look = std::make_unique<Look>(doors.clock);
  load(*look);
  if (look->prior.teardown) judge_teardown(*look);
  pin(*look);
  if (options.outside) {
    require_other_repository(cluster.spec, doors.files);
    with_world(*look, [&](World& world) {
      fetch_addons(cluster.spec, cluster.lock, *options.outside, world.transport, world.files,
                   *world.storage.manifests, world.stop);
    });
  }
  std::vector<Marked> marked;
  Ground ground{look->prior, {}, to_string(Uuid::v4(doors.entropy))};
  Survey::Scan scan{cluster.name()};
  // Those at our nodes' ids are asked when their turn comes. Without a state nobody knows where
  // ours are: then all are asked.
  scan.everywhere = !look->remembered;
  if (look->remembered)
    for (const spec::Node& node : cluster.spec.nodes)
      if (const auto vmid = vmid_of(node)) scan.but.insert(*vmid);
  if (cluster.proxmox) try {
      read_ahead(*look, scan);
    } catch (const Error& error) {
      if (is_silence(error.fault())) away = error;
      throw;
    }
  if (cluster.proxmox)
    with_proxmox(*look, [&](World& world) {
      proxmox::Client& client = world.proxmox();
      expect_vms(*look, world);
      marked = look->survey.marked(client, scan, &look->unasked);
      if (look->remembered) look_for_missing(*look, world, marked);
      meet_strays(*look, world, marked);
      choose_places(*look, world, marked);
      ground.shared_storages = shared_storages(*look, client);
    });
  if (options.locked) spec::require_unchanged(written, cluster.lock);
  if (look->remains) {
    plan_recreation(*look, ground.shared_storages);
    add_notice(*look);
    look->made = doors.clock.tick();
    return look;
  }
  look->desired = expand(cluster, ground, marked);
  add_unasked(*look, /*whole=*/false);
  if (options.outside) add_kubernetes_things(cluster, options.outside, look->prior, look->desired);
  look->graph = engine::build(look->desired, look->prior);
  observe(*look);
  engine::PlanOptions how{options.policy, targets(look->desired)};
  how.policy.protect = how.policy.protect || *cluster.spec.protect;
  look->plan =
      engine::plan(look->desired, look->graph, look->observed, look->prior, cluster.name(), how);
  name_copies(marked, look->plan);
  add_notice(*look);
  look->made = doors.clock.tick();
  return look;
}

/// Reads the list of VMs, and what a scan will ask of each of them: many at once, where the scan
/// itself goes from one to the next. Whoever does not answer is asked again there, which says so.
void Run::Impl::read_ahead(Look& look, const Survey::Scan& scan) {
  std::vector<proxmox::VmRow> rows;
  with_proxmox(look, [&](World& world) {
    look.survey.refresh(world.proxmox());
    for (proxmox::VmRow& row : look.survey.rows(world.proxmox()))
      // What a host that is off has is unknown: one question is enough there.
      if (!row.is_container && row.status != "unknown" && scan.asks(row))
        rows.push_back(std::move(row));
  });
  std::vector<std::string> names;
  std::map<std::string, const proxmox::VmRow*> by_name;
  for (const proxmox::VmRow& row : rows) {
    names.push_back(fmt::format("{} {}", row.node, row.vmid));
    by_name.emplace(names.back(), &row);
  }
  RunWorlds worlds{cluster, look.survey, look.known, doors};
  engine::FanOut how;
  how.parallelism = std::min(options.parallelism, looks_at_once);
  how.stop = stop;
  how.lanes = [&](const std::string& name) {
    return std::vector{host_lane(by_name.at(name)->node)};
  };
  engine::fan_out(doors.runner, names, how, [&](const std::string& name) {
    const proxmox::VmRow& row = *by_name.at(name);
    try {
      worlds.with(name, stop,
                  [&](World& world) { look.survey.config(world.proxmox(), row.node, row.vmid); });
    } catch (const Error&) {
      // ignored: this only fills the inventory early; the scan below reads again and reports it.
    }
  });
}

/// Workers are asked through control planes once one has answered, and a handshake with each of
/// many costs more than to wait for the first.
graph::Graph Run::Impl::order_of_looks(const Look& look) const {
  graph::Graph order = look.graph;
  const auto planes = cluster.spec.control_planes();
  if (planes.empty()) return order;
  const std::string first = machine_address(planes.front()->name);
  std::vector<std::string> workers;
  for (const spec::Node& node : cluster.spec.nodes)
    if (const std::string worker = machine_address(node.name);
        !node.control_plane() && look.prior.items.contains(worker) && order.contains(worker))
      workers.push_back(worker);
  const bool answers = look.prior.items.contains(first) && order.contains(first);
  if (!answers || workers.size() <= few_workers) return order;
  for (const std::string& worker : workers) order.needs(worker, first);
  return order.find_cycle() ? look.graph : order;
}

void Run::Impl::observe(Look& look) {
  RunWorlds worlds{cluster, look.survey, look.known, doors};
  engine::recall(look.prior, worlds);
  look.survey.look_begins();
  look.observed = engine::observe(look.desired, order_of_looks(look), worlds, doors.runner,
                                  std::min(options.parallelism, looks_at_once), stop);
  look.survey.look_ends();
}

/// Every step reads again before it acts; what this spares is a second look at all the rest.
bool Run::Impl::still_counts(const Look* look) {
  if (!at_once || look == nullptr || doors.clock.tick() - look->made > a_moment) return false;
  const auto open = [](const auto& entry) { return !entry.second.receipt.empty(); };
  if (std::any_of(look->prior.items.begin(), look->prior.items.end(), open)) return false;
  std::optional<state::State> now;
  call("state", [&] { now = doors.store.load(); });
  if (!now) return !look->remembered;
  return look->remembered && now->lineage == look->prior.lineage &&
         now->serial == look->prior.serial;
}

Look& Run::Impl::seen() {
  if (!up) up = look_up();
  return *up;
}

std::unique_ptr<Look> Run::Impl::look_at_nothing() {
  auto look = std::make_unique<Look>(doors.clock);
  load(*look);
  if (cluster.spec.proxmox) cluster.lock = choose(cluster.spec, cluster.lock, {});
  const Ground ground{look->prior, remembered_shared(look->prior)};
  look->desired = expand(cluster, ground, {});
  if (options.outside) add_kubernetes_things(cluster, options.outside, look->prior, look->desired);
  look->graph = engine::build(look->desired, look->prior);
  RunWorlds worlds{cluster, look->survey, look->known, doors};
  engine::recall(look->prior, worlds);
  return look;
}

Look& Run::Impl::seen_or_remembered() {
  if (blind) return *blind;
  try {
    return seen();
  } catch (const Error&) {
    if (!away) throw;
  }
  blind = look_at_nothing();
  return *blind;
}

std::vector<std::string> Run::Impl::targets(const engine::Desired& desired) const {
  std::vector<std::string> all;
  for (const std::string& target : options.targets) {
    if (desired.wanted.contains(target) || desired.leftover.contains(target)) {
      all.push_back(target);
      continue;
    }
    // A node's name means all that is this node.
    bool found = false;
    for (const engine::Resources* things : {&desired.wanted, &desired.leftover})
      for (const auto& [address, thing] : *things)
        if (address.substr(address.find('/') + 1) == target) {
          all.push_back(address);
          found = true;
        }
    if (found) continue;
    std::vector<std::string> names;
    for (const engine::Resources* things : {&desired.wanted, &desired.leftover})
      for (const auto& [address, thing] : *things) names.push_back(address);
    for (const spec::Node& node : cluster.spec.nodes) names.push_back(node.name);
    throw Error(Fault::Usage,
                fmt::format("there is no '{}' to plan for{}", target, did_you_mean(target, names)))
        .hint("a target is a node's name or an address; `rocca graph` lists all addresses");
  }
  return all;
}

// ---- carrying it out

std::unique_ptr<state::Lock> Run::Impl::take_lock() {
  state::Holder holder;
  holder.id = to_string(Uuid::v4(doors.entropy));
  holder.who = options.who;
  holder.doing = options.doing;
  holder.since = doors.clock.now();
  holder.until = holder.since + lock_for;
  std::unique_ptr<state::Lock> lock;
  call("lock", [&] { lock = doors.store.lock(holder, options.force_lock); });
  return lock;
}

void Run::Impl::write_lock(const spec::Lock& lock) {
  if (lock == written) return;
  if (options.locked) spec::require_unchanged(written, lock);
  call("rocca.lock", [&] { doors.storage.lock->write(lock); });
  written = lock;
}

/// What must last before the first act: the places that were chosen, and who this state is.
void Run::Impl::store_first(Look& look) {
  write_lock(cluster.lock);
  if (look.remembered) return;
  look.prior.lineage = to_string(Uuid::v4(doors.entropy));
  call("state", [&] { doors.store.replace(look.prior); });
  look.remembered = true;
}

engine::Report Run::Impl::carry_out(Look& look, state::Lock& lock, const engine::EventSink& events,
                                    const engine::EffectPolicy& policy) {
  RunWorlds worlds{cluster, look.survey, look.known, doors};
  engine::ExecuteOptions how;
  how.parallelism = options.parallelism;
  how.policy = policy;
  how.keep_lock = [&lock] { lock.renew(); };
  return engine::execute(look.plan, look.desired, look.graph, look.prior, doors.store, worlds,
                         doors.runner, events, how, stop);
}

Run::Run(Cluster cluster, Doors doors, RunOptions options, std::stop_token stop)
    : impl_(
          std::make_unique<Impl>(std::move(cluster), doors, std::move(options), std::move(stop))) {}
Run::~Run() = default;

void Run::on_change(std::function<bool(const engine::Plan&)> ask) {
  impl_->ask = std::move(ask);
}

void Run::at_once() {
  impl_->at_once = true;
}

const engine::Plan& Run::plan() {
  Look& look = impl_->seen();
  impl_->check_before_change(look);
  return look.plan;
}

const graph::Graph& Run::graph() {
  return impl_->seen_or_remembered().graph;
}

engine::Report Run::up(const engine::EventSink& events) {
  Impl& impl = *impl_;
  const std::string shown = impl.up ? impl.up->plan.bound_to : "";
  const auto lock = impl.take_lock();
  if (!impl.still_counts(impl.up.get())) impl.up = impl.look_up();
  // What an interrupted teardown asked of Proxmox may still have been carried out while we looked:
  // it is judged by its end.
  if (impl.up->prior.teardown) {
    impl.await_tasks(*impl.up, *lock);
    impl.up = impl.look_up();
  }
  if (!shown.empty() && impl.up->plan.bound_to != shown && !impl.goes_on(impl.up->plan))
    throw Error(Fault::Refused, "the world has changed since the plan was made")
        .hint("look at a new `rocca plan`");
  refuse_if_any(impl.up->plan);
  impl.check_before_change(*impl.up);
  std::optional<engine::Report> removed;
  if (impl.up->remains) {
    removed = impl.finish_teardown(*impl.up, *lock, events);
    if (!removed->ok()) return *removed;
    impl.up = impl.look_up();
    refuse_if_any(impl.up->plan);
    impl.check_before_change(*impl.up);
  }
  impl.store_first(*impl.up);
  engine::EffectPolicy policy = impl.options.policy;
  policy.protect = policy.protect || *impl.cluster.spec.protect;
  engine::Report report = impl.carry_out(*impl.up, *lock, events, policy);
  if (removed) {
    report.took += removed->took;
    report.steps.insert(removed->steps.begin(), removed->steps.end());
  }
  // What was found out on the way comes out the same the next time.
  spec::Lock learned = impl.cluster.lock;
  for (const auto& [address, item] : impl.up->prior.items) {
    if (engine::kind_of(address) == "image" && item.settled) {
      spec::LockedArtifact& artifact = learned.images[fact(item.facts, "file")];
      if (!artifact.size) artifact.size = parse_uint(fact(item.facts, "size"));
    }
    if (engine::kind_of(address) != "machine") continue;
    const spec::Node* node = impl.cluster.spec.find_node(fact(item.facts, "node"));
    if (node == nullptr || !node->existing) continue;
    // It was a VM before: while that is there its id stays, and without a UUID beside it, because
    // both together mean a VM that was taken over.
    spec::LockedNode& chosen = learned.nodes[node->name];
    if (chosen.vmid && impl.up->prior.items.contains(vm_address(node->name))) continue;
    if (chosen.vmid) chosen = {};
    // Once pinned, only the user says that it is another machine by now.
    const auto uuid = Uuid::parse(fact(item.facts, "uuid"));
    if (!uuid) continue;
    std::optional<Uuid>& pinned = chosen.uuid;
    if (!pinned || (node->existing->uuid && **node->existing->uuid == *uuid)) pinned = uuid;
  }
  forget_adopted(learned, [&](const std::string& node) {
    return impl.cluster.spec.find_node(node) == nullptr &&
           !impl.up->prior.items.contains(vm_address(node));
  });
  // One that has left is free for another name, and its name for another machine.
  std::erase_if(learned.nodes, [&](const auto& entry) {
    const std::string address = machine_address(entry.first);
    return entry.second.uuid && !entry.second.vmid && impl.up->desired.leftover.contains(address) &&
           !impl.up->prior.items.contains(address);
  });
  if (!impl.options.locked) impl.write_lock(learned);
  return report;
}

const state::State& Run::prior() {
  if (impl_->up) return impl_->up->prior;
  if (!impl_->memory) {
    impl_->memory = std::make_unique<Look>(impl_->doors.clock);
    impl_->load(*impl_->memory);
  }
  return impl_->memory->prior;
}

const std::optional<Error>& Run::unseen() const {
  return impl_->away;
}

bool Run::writes_lock() const {
  return !(impl_->cluster.lock == impl_->written);
}

const spec::Lock& Run::lock() {
  impl_->seen();
  return impl_->cluster.lock;
}

ClusterOverview Run::overview() {
  return overview_of(impl_->cluster, impl_->cluster.lock);
}

}  // namespace rocca::resources
