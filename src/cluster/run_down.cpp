#include "base/error.hpp"
#include "base/faults.hpp"
#include "cluster/refusals.hpp"
#include "cluster/run_impl.hpp"
#include "kubernetes/expand.hpp"
#include "machine/kinds.hpp"
#include "platform/proxmox/orphan_volumes.hpp"
#include "platform/proxmox/vm_removal.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

// How often what comes late is taken away before somebody has to look.
constexpr int most_latecomers = 3;

/// Trouble with the place of the state, and not with what is in it or with who holds it.
bool is_out_of_reach(Fault fault) {
  switch (fault) {
    case Fault::NotFound:
    case Fault::Rejected:
    case Fault::Denied:
    case Fault::Busy:
    case Fault::Unreachable:
    case Fault::Lost:
    case Fault::Timeout:
      return true;
    default:
      return false;
  }
}

Error with_way_on(const Error& error) {
  if (!is_out_of_reach(error.fault())) return error;
  Error told{error.fault(), error.message()};
  for (const std::string& step : error.trail()) told.during(step);
  const std::string way_on =
      "`rocca down --without-state` needs only Proxmox: it goes by the marks on the VMs, and takes "
      "no lock";
  told.hint(error.hint().empty() ? way_on : fmt::format("{}; {}", error.hint(), way_on));
  return told;
}

}  // namespace

void throw_without_state(const Error& error) {
  throw with_way_on(error);
}

std::unique_ptr<Look> Run::Impl::look_down(const DownOptions& what, bool all) {
  auto look = std::make_unique<Look>(doors.clock);
  try {
    load(*look);
  } catch (const Error& error) {
    throw_without_state(error);
  }
  std::vector<Marked> marked;
  Survey::Scan scan{cluster.name()};
  scan.everywhere = true;
  if (cluster.proxmox) {
    read_ahead(*look, scan);
    with_proxmox(*look, [&](World& world) {
      expect_vms(*look, world);
      marked = look->survey.marked(world.proxmox(), scan, &look->unasked);
    });
  }
  Ground ground{look->prior, {}};
  if (cluster.proxmox && what.purge_images)
    with_proxmox(*look, [&](World& world) {
      ground.shared_storages = shared_storages(*look, world.proxmox());
    });
  look->desired = expand_down(cluster, ground, marked, what);
  add_unasked(*look, /*whole=*/true);
  if (options.outside) add_withdrawals(options.outside, look->prior, look->desired);
  look->graph = engine::build(look->desired, look->prior);
  observe(*look);
  engine::PlanOptions how;
  // Whoever asked for `down` asked for this; only protect may say no.
  how.policy.allowed = {engine::Effect::Live,    engine::Effect::Service,
                        engine::Effect::Reboot,  engine::Effect::PowerCycle,
                        engine::Effect::Replace, engine::Effect::DataLoss};
  how.policy.protect = *cluster.spec.protect;
  if (!all) how.targets = targets(look->desired);
  look->plan =
      engine::plan(look->desired, look->graph, look->observed, look->prior, cluster.name(), how);
  name_copies(marked, look->plan);
  look->made = doors.clock.tick();
  return look;
}

/// All VMs of a host begin at once, and each needs to know what was asked of it lately.
void Run::Impl::list_tasks(Look& look) {
  if (!cluster.proxmox || look.plan.empty()) return;
  with_proxmox(look, [&](World& world) {
    std::map<std::string, proxmox::Vmid> hosts;
    for (const proxmox::VmRow& row : look.survey.select(
             world.proxmox(), [](const Survey::Candidate& each) { return each.marked; }))
      hosts.emplace(row.node, row.vmid);
    for (const auto& [host, vmid] : hosts) try {
        world.survey.recent_tasks(world.proxmox(), host, vmid, halt_lookback);
      } catch (const Error& error) {
        // ignored: each VM's own step asks again and reports it.
        if (!is_external(error.fault())) throw;
      }
  });
}

/// Nothing of ours is left: the proof is another look, at every VM there is. What is being cloned
/// is asked for first: a clone that is over by then is in the list.
Remains Run::Impl::what_remains() {
  Remains remains;
  if (!cluster.proxmox) return remains;
  Look after{doors.clock};
  with_proxmox(after, [&](World& world) {
    if (*cluster.spec.talos.boot == spec::Boot::Template &&
        clone_under_way(world, cluster.spec.talos.boot_template))
      remains.more = true;
    after.survey.refresh(world.proxmox());
    Survey::Scan scan{cluster.name()};
    scan.everywhere = true;
    remains.marked = after.survey.marked(world.proxmox(), scan, &remains.unasked);
    // Whose it is that stands at an id of ours, another look tells.
    std::set<proxmox::Vmid> ids;
    for (const spec::Node& node : cluster.spec.nodes)
      if (const auto vmid = vmid_of(node)) ids.insert(*vmid);
    for (const proxmox::VmRow& row : after.survey.rows(world.proxmox()))
      remains.more = remains.more || (ids.contains(row.vmid) && !row.is_container);
  });
  for (const Marked& vm : remains.marked) remains.more = remains.more || is_ours(vm);
  return remains;
}

const engine::Plan& Run::plan_down() {
  if (!impl_->down) impl_->down = impl_->look_down();
  return impl_->down->plan;
}

bool Run::remembers_down() const {
  return impl_->down && impl_->down->remembered;
}

engine::Report Run::Impl::tear_down(std::unique_ptr<Look>& look, state::Lock& lock,
                                    const engine::EventSink& events, const DownOptions& how,
                                    bool all, const std::function<void()>& forget) {
  if (!look->remembered) store_first(*look);
  const bool whole = all || options.targets.empty();
  if (whole) record_teardown(*look, how);
  engine::EffectPolicy policy;
  policy.allowed.insert(
      {engine::Effect::PowerCycle, engine::Effect::Replace, engine::Effect::DataLoss});
  list_tasks(*look);
  engine::Report report = carry_out(*look, lock, events, policy);
  const std::map<std::string, std::string> named = look->plan.kept;
  std::vector<Marked> left;
  std::vector<proxmox::VmRow> unasked;
  for (int again = 0;; ++again) {
    // It may live in the very cluster that goes.
    if (report.error) report.error = with_way_on(*report.error);
    if (!report.ok() || !whole) return report;
    const Remains remains = what_remains();
    left = remains.marked;
    unasked = remains.unasked;
    if (!remains.more || again == most_latecomers) break;
    // What a killed run had asked for came after we had looked: it goes as well.
    look = look_down(how, all);
    if (look->plan.empty()) break;
    refuse_if_any(look->plan);
    const engine::Report late = carry_out(*look, lock, events, policy);
    report.interrupted = late.interrupted;
    report.error = late.error;
    report.took += late.took;
    for (const auto& [address, step] : late.steps) report.steps.insert_or_assign(address, step);
  }
  // A clone takes the mark along and has a UUID of its own: it is not ours, and was named in the
  // plan unless it was made since.
  for (const Marked& vm : left) {
    if (is_ours(vm) || named.contains(fmt::format("VM {}", vm.row.vmid))) continue;
    engine::Event noted;
    noted.kind = engine::Event::Kind::Noted;
    noted.at = doors.clock.now();
    noted.address = vm_address(vm.node);
    noted.text = copy_text(vm);
    if (events) events(noted);
  }
  std::erase_if(left, [&](const Marked& vm) { return !is_ours(vm); });
  for (const Marked& vm : left) {
    engine::StepResult result;
    result.end = engine::StepResult::End::Failed;
    result.action = engine::Action::Destroy;
    result.error = Error(Fault::Conflict, vm.shown.where + " still carries our mark")
                       .hint("run `rocca down` again");
    report.steps[vm_address(vm.node)] = result;
  }
  // Its host went off at the very end.
  for (const proxmox::VmRow& row : unasked) {
    engine::StepResult result;
    result.end = engine::StepResult::End::Failed;
    result.action = engine::Action::Destroy;
    result.error = Error(Fault::Unreachable,
                         fmt::format("host {} is off, and {} stays there", row.node, describe(row)))
                       .hint(fmt::format("run `rocca down` again once {} is back", row.node));
    report.steps["vm/" + (row.name.empty() ? std::to_string(row.vmid) : row.name)] = result;
  }
  if (!left.empty() || !unasked.empty()) return report;
  forget_adopted(cluster.lock, [](const std::string&) { return true; });
  write_lock(cluster.lock);
  // Machines that were there before stay, and with them what these files open.
  const bool all_gone =
      std::none_of(cluster.spec.nodes.begin(), cluster.spec.nodes.end(),
                   [&](const spec::Node& node) { return node.existing && !how.reset_existing; });
  if (all_gone) {
    Look after{doors.clock};
    with_world(after, [](World& world) { remove_access(world); });
  }
  call("state", forget);
  return report;
}

engine::Report Run::down(const engine::EventSink& events) {
  Impl& impl = *impl_;
  if (*impl.cluster.spec.protect)
    throw Error(Fault::Refused, fmt::format("{} has protect: true", impl.cluster.name()))
        .hint("take `protect` out of the spec first");
  const std::string shown = impl.down ? impl.down->plan.bound_to : "";
  std::unique_ptr<state::Lock> lock;
  try {
    lock = impl.take_lock();
  } catch (const Error& error) {
    throw_without_state(error);
  }
  if (!impl.still_counts(impl.down.get())) impl.down = impl.look_down();
  if (!shown.empty() && impl.down->plan.bound_to != shown && !impl.goes_on(impl.down->plan))
    throw Error(Fault::Refused, "the world has changed since the plan was made")
        .hint("look at it again, and confirm again");
  refuse_if_any(impl.down->plan);
  return impl.tear_down(impl.down, *lock, events,
                        {impl.options.purge_images, impl.options.reset_existing}, /*all=*/false,
                        [&] { impl.doors.store.clear(); });
}

std::vector<std::string> Run::loose_volumes() {
  Impl& impl = *impl_;
  std::vector<std::string> all;
  if (!impl.cluster.proxmox) return all;
  Look look{impl.doors.clock};
  impl.with_proxmox(look, [&](World& world) {
    std::set<std::string> seen;
    for (const auto& host : impl.cluster.spec.proxmox->hosts)
      for (const proxmox::StorageInfo& storage : world.proxmox().storages(*host)) try {
          if (!storage.active) continue;
          for (const proxmox::Volume& volume :
               world.proxmox().volumes(*host, storage.name, "images"))
            // The plugin gives all of its volumes to a VM that is not there.
            if (volume.id.find("vm-9999-pvc-") != std::string::npos &&
                seen.insert(storage.shared ? volume.id : *host + " " + volume.id).second)
              all.push_back(fmt::format("{} on {}", volume.id, *host));
        } catch (const Error& error) {
          if (!is_external(error.fault())) throw;
          all.push_back(fmt::format("storage {} on {} cannot be listed: {}", storage.name, *host,
                                    error.message()));
        }
  });
  return all;
}

}  // namespace rocca::resources
