#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "machine/kinds.hpp"
#include "machine/node_removal.hpp"
#include "platform/kinds.hpp"
#include "platform/proxmox/kinds.hpp"
#include "platform/proxmox/orphan_vm.hpp"
#include "platform/proxmox/orphan_volumes.hpp"
#include "platform/proxmox/vm_obstacle.hpp"
#include "platform/proxmox/vm_removal.hpp"
#include "platform/survey.hpp"
#include "platform/vm_find.hpp"

#include <fmt/format.h>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

const std::string look_again = "look";  // a receipt that is no task

/// A VM of ours that no node of the spec wants any more.
class LeftoverVm final : public Thing {
 public:
  struct Traits {
    engine::Identity identity;
    std::optional<proxmox::Vmid> vmid;
    std::string host;
    std::string name;
    std::string pool;
    std::string role;     // empty: nobody remembers it
    std::string address;  // where its machine was, if that is known
    bool whole_cluster = false;
    bool begun = false;                             // an act of an earlier run never settled
    std::optional<RestSearch::Source> source = {};  // what it was to be a clone of
    std::string from_template = {};                 // the spec's nodes are clones of it
    std::string nonce = {};                         // journaled before a clone was asked for
    std::optional<proxmox::Upid> destroy = {};      // an earlier run asked for it
  };
  LeftoverVm(About about, Traits traits)
      : Thing(std::move(about)),
        identity_(std::move(traits.identity)),
        vmid_(traits.vmid),
        host_(std::move(traits.host)),
        name_(std::move(traits.name)),
        pool_(std::move(traits.pool)),
        role_(std::move(traits.role)),
        where_(std::move(traits.address)),
        whole_cluster_(traits.whole_cluster),
        begun_(traits.begun),
        source_(std::move(traits.source)),
        template_(std::move(traits.from_template)),
        nonce_(std::move(traits.nonce)),
        destroy_(std::move(traits.destroy)) {}

  std::optional<Live> read(World& world) const override {
    VmSight sight = find_vm(world, search());
    // With this step its nonce is forgotten. So a clone that is under way is asked for first: one
    // that is over by then is in a list that is read afterwards.
    if (!nonce_.empty() && !sight.found && !sight.unmarked && !sight.in_the_making) {
      if (const auto clone = clone_of_ours(world))
        return Live{clone->text, {{"making", "clone"}}, {}};
      world.survey.refresh(world.proxmox());
      if (vmid_) world.survey.forget(*vmid_);
      sight = find_vm(world, search());
    }
    if (sight.in_the_making) return Live{id_of(*sight.in_the_making), {{"making", sight.lock}}, {}};
    if (sight.twins) return Live{"", {{"refused", sight.refusal}, {"hint", sight.hint}}, {}};
    const auto& found = sight.found ? sight.found : sight.unmarked;
    if (!found) {
      if (const auto clone = clone_of_ours(world))
        return Live{clone->text, {{"making", "clone"}}, {}};
      // What is not proved is not ours: it is named and left alone, and ours is gone.
      if (sight.doubtful || (sight.taken && whole_cluster_))
        return Live{
            "",
            {{"keep",
              fmt::format("{}: it is left alone ({})", sight.refusal,
                          sight.doubtful ? sight.hint : claim_hint(identity_.node, *sight.taken))}},
            {}};
      return read_rest(world);
    }
    const proxmox::VmRow& row = found->row;
    std::optional<Obstacle> obstacle = find_obstacle(destroyed(), row, found->config);
    std::optional<Halt> halt = world.survey.just_planned(row.vmid);
    if (!halt && !obstacle) {
      halt = plan_halt(world, row);
      world.survey.planned(row.vmid, *halt);
    }
    if (halt && halt->next == Halt::Next::Unlock && halt->lock_is_dead)
      obstacle = dead_lock(world, row, halt->lock);
    if (obstacle)
      return Live{id_of(row), {{"refused", obstacle->reason}, {"hint", obstacle->hint}}, {}};
    Live live{id_of(row),
              {{"vm", row.name}, {"power", halt->text()}},
              facts_of(*found, identity_, false, "")};
    // Where all of them go, etcd counts on nobody.
    live.facts["role"] = !role_.empty() || whole_cluster_
                             ? role_
                             : role_of_stray(world, identity_.node, found->config, where_);
    return live;
  }

  Change diff(const std::optional<Live>& live) const override {
    if (!live) return {};
    Change change;
    change.keep = fact(live->fields, "keep");
    if (!change.keep.empty()) return change;
    change.action = Action::Destroy;
    change.effect = Effect::DataLoss;
    change.reason = whole_cluster_ ? "the cluster goes down" : "no node of the spec wants it";
    // Each act on the way is another one: only what repeats itself makes no progress.
    for (const auto& [name, value] : live->fields) change.fields.push_back({name, value, "", {}});
    if (const std::string why = fact(live->fields, "refused"); !why.empty()) {
      change.refusal = why;
      change.hint = fact(live->fields, "hint");
    } else if (!whole_cluster_) {
      guard_role(change, identity_.node, fact(live->facts, "role"));
    }
    return change;
  }

  Receipt apply(World& world, const Change&, const std::optional<Live>& live) const override {
    return live ? destroy(world, *live) : Receipt{};
  }

  Progress probe(World& world, const Receipt& receipt) const override {
    const Progress progress = probe_removal(world, receipt, "taking down " + address(), vmid_);
    if (!std::holds_alternative<Ready>(progress)) return progress;
    const auto upid = proxmox::Upid::parse(receipt.token);
    const auto task = upid ? world.survey.task(world.proxmox(), *upid) : std::nullopt;
    // At most its power has changed. Its proof is read again before it is destroyed.
    if (upid && (upid->type == "qmshutdown" || upid->type == "qmstop")) return progress;
    if (vmid_) world.survey.forget(*vmid_);
    if (task && task->ok() && upid->type == "qmdestroy" && vmid_ &&
        upid->id == std::to_string(*vmid_))
      world.survey.gone(*vmid_);
    else
      world.survey.refresh_soon(world.proxmox());
    return progress;
  }

  Receipt destroy(World& world, const Live&) const override {
    Receipt receipt = take_away(world);
    // What others began teaches nothing, and a pause after tries in vain stays as it is.
    const bool begun_now =
        receipt.act == "shutdown" || receipt.act == "stop" || receipt.act == "destroy";
    const auto upid = proxmox::Upid::parse(receipt.token);
    if (upid && begun_now && receipt.ask_after == Duration{})
      receipt.ask_after =
          world.survey.first_ask(*upid, receipt.act == "shutdown" ? 2s : 500ms, 40ms);
    return receipt;
  }

  /// After a killed `down` it must be known which VMs it had begun with: `up` keeps a cluster whose
  /// control planes were lost in any other way.
  bool announces(const Change&) const override { return whole_cluster_; }
  std::vector<std::string> forgotten_notes() const override {
    return {cordon_note(identity_.node), reset_note(identity_.node)};
  }

  std::vector<Lane> lanes(const Change* change) const override {
    std::vector<Lane> lanes;
    if (!host_.empty()) lanes.push_back(host_lane(host_));
    if (change != nullptr && vmid_)
      lanes.push_back({fmt::format("vmid/{}", *vmid_), 1, Lane::Hold::Act});
    return lanes;
  }
  Duration patience(const Change&) const override { return 15min; }

  Fields claims() const override {
    Fields claims;
    if (vmid_) claims["vmid"] = std::to_string(*vmid_);
    if (!where_.empty()) claims["address"] = where_;
    return claims;
  }

 protected:
  Fields wishes() const override { return {{"uuid", to_string(identity_.uuid)}}; }

 private:
  Receipt take_away(World& world) const {
    world.survey.refresh_soon(world.proxmox());
    if (vmid_) world.survey.forget(*vmid_);
    VmSight sight = find_vm(world, search());
    if (sight.twins) throw Error(Fault::Refused, sight.refusal).hint(sight.hint);
    if (sight.in_the_making) {
      proxmox::TaskFilter filter;
      filter.only_active = true;
      // Whose it is shows only when it is made: then it is proved and taken away.
      for (const proxmox::TaskRow& task : world.proxmox().tasks(sight.in_the_making->node, filter))
        if (task.upid.id == std::to_string(sight.in_the_making->vmid) ||
            task.upid.type == "qmclone")
          return {task.upid.text};
      if (vmid_) world.survey.forget(*vmid_);
      sight = find_vm(world, search());
      if (sight.in_the_making) throw_dead_lock(*sight.in_the_making, sight.lock);
      return {look_again};
    }
    if (!sight.found && !sight.unmarked) {
      if (const auto clone = clone_of_ours(world)) return {clone->text, "wait for a clone"};
      const auto rest = find_rest(world);
      return rest.empty() ? Receipt{} : gather_rest(world, rest_search(), rest);
    }
    // Fresh proof, this moment: what was read a minute ago is not enough to destroy by.
    if (sight.found && sight.found->row.vmid != vmid_) {
      world.survey.forget(sight.found->row.vmid);
      sight = find_vm(world, search());
      if (!sight.found) return {};
    }
    // How it stands was read for this very act. Its lock has just been read once more: another one
    // says that somebody has begun something since. Whether it is off is looked at again: a start
    // that a killed run has left may be over by now, and what runs is not destroyed.
    const VmSight::Found& its = sight.found ? *sight.found : *sight.unmarked;
    const proxmox::VmRow& row = its.row;
    std::optional<Halt> halt = world.survey.just_planned(row.vmid);
    const std::string lock = its.config.value_or("lock", "");
    refuse_obstacle(destroyed(), row, its.config);
    if (halt &&
        (halt->next == Halt::Next::Nothing || halt->lock != (lock == "suspended" ? "" : lock)))
      halt.reset();
    // While a destroy of an earlier run hangs, another one could only wait for its lock.
    if (destroy_)
      if (const auto task = world.survey.task(world.proxmox(), *destroy_); task && task->running)
        return {destroy_->text, "wait for qmdestroy"};
    return remove_vm(world, row, its.vm, halt);
  }

  static VmDemands destroyed() {
    VmDemands demands;
    demands.destroys = true;
    return demands;
  }

  VmSearch search() const {
    VmSearch search{identity_, vmid_, "", /*everywhere=*/true};
    search.goes = true;
    search.goes_anyway = whole_cluster_;
    search.nonce = nonce_;
    return search;
  }
  RestSearch rest_search() const {
    return {identity_, vmid_.value_or(0), host_, name_, pool_, begun_, source_};
  }

  /// Killed a moment after it had asked for a clone, a run has left nothing but the task.
  std::optional<proxmox::Upid> clone_of_ours(World& world) const {
    if (template_.empty() || identity_.adopted_vmid) return std::nullopt;
    return clone_under_way(world, template_);
  }

  /// A host that is off shows nothing. That is reported only if a create was left open there.
  std::vector<std::string> find_rest(World& world) const {
    // Nothing of ours has ever made a VM that was taken over.
    if (!vmid_ || host_.empty() || identity_.adopted_vmid) return {};
    // All its volumes went with it, and no create was left open.
    if (world.survey.was_destroyed(*vmid_) && !begun_) return {};
    try {
      return rest_of_create(world, rest_search());
    } catch (const Error& error) {
      if (begun_ || !is_silence(error.fault())) throw;
      return {};
    }
  }
  std::optional<Live> read_rest(World& world) const {
    const std::vector<std::string> rest = find_rest(world);
    if (rest.empty()) return std::nullopt;
    return Live{fmt::format("{} on {}", *vmid_, host_), {{"rest", join(rest, ", ")}}, {}};
  }

  engine::Identity identity_;
  std::optional<proxmox::Vmid> vmid_;
  std::string host_;
  std::string name_, pool_;
  std::string role_, where_;
  bool whole_cluster_;
  bool begun_;
  std::optional<RestSearch::Source> source_;
  std::string template_;
  std::string nonce_;
  std::optional<proxmox::Upid> destroy_;
};

}  // namespace

Made leftover_vm(const Cluster& cluster, const Leftover& leftover) {
  const std::string node = leftover.address.substr(leftover.address.find('/') + 1);
  LeftoverVm::Traits traits;
  traits.identity = cluster.identity_of(node);
  traits.host = fact(leftover.facts, "host");
  traits.begun = !leftover.receipt.empty();
  // Of what never settled nothing is known but what was begun.
  std::string vmid = fact(leftover.facts, "vmid");
  const auto task = proxmox::Upid::parse(leftover.receipt);
  if (task && task->type == "qmdestroy") traits.destroy = task;
  if (task && task->type == "qmcreate" && vmid.empty()) vmid = task->id;
  traits.nonce = fact(leftover.facts, clone_nonce);
  if (!traits.nonce.empty() && vmid.empty()) vmid = fact(leftover.facts, clone_vmid);
  if (!traits.nonce.empty() && traits.host.empty()) traits.host = fact(leftover.facts, clone_host);
  if (task && task->type == "qmclone")
    if (const auto source = parse_uint(task->id))
      traits.source = {static_cast<proxmox::Vmid>(*source), task->node};
  if (task && traits.host.empty()) traits.host = task->node;
  if (const auto number = parse_uint(vmid)) traits.vmid = static_cast<proxmox::Vmid>(*number);
  traits.name = fact(leftover.facts, "name");
  if (const spec::Node* known = cluster.spec.find_node(node); known != nullptr && known->machine) {
    if (traits.name.empty()) traits.name = known->vm_name;
    if (known->machine->pool) traits.pool = **known->machine->pool;
  }
  traits.role = fact(leftover.facts, "role");
  // A VM that was never made to its end has joined nothing, whatever it was to become.
  if (traits.role.empty() &&
      (!traits.nonce.empty() || (task && (task->type == "qmcreate" || task->type == "qmclone"))))
    traits.role = "none";
  traits.address = fact(leftover.facts, "address");
  traits.from_template = fact(leftover.facts, clone_template);
  if (traits.from_template.empty() && *cluster.spec.talos.boot == spec::Boot::Template)
    traits.from_template = cluster.spec.talos.boot_template;
  traits.whole_cluster = fact(leftover.facts, "whole cluster") == "yes";
  return std::make_shared<LeftoverVm>(Thing::About{leftover.address, leftover.needs, ""},
                                      std::move(traits));
}

}  // namespace rocca::resources
