#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "machine/discover.hpp"
#include "machine/disruption.hpp"
#include "machine/kinds.hpp"
#include "machine/node_object.hpp"
#include "machine/node_removal.hpp"
#include "machine/quorum.hpp"
#include "platform/kinds.hpp"
#include "platform/proxmox/desired_vm.hpp"
#include "platform/proxmox/kinds.hpp"
#include "platform/proxmox/orphan_volumes.hpp"
#include "platform/proxmox/vm_obstacle.hpp"
#include "platform/proxmox/vm_removal.hpp"
#include "platform/survey.hpp"
#include "platform/vm_find.hpp"
#include "proxmox/property_string.hpp"
#include "proxmox/task_cause.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

// Receipts that are no tasks.
constexpr const char* look_again = "look";

constexpr const char* in_the_making = "making";  // fields that are no options of Proxmox
constexpr const char* without_mark = "mark";
constexpr const char* rest_of_dead = "rest";
constexpr const char* refused = "refused";
constexpr const char* hint_of = "hint";
constexpr const char* leaving = "leaving";  // how far one is that is switched off or replaced
constexpr const char* system_disk = "system disk";  // a field: wiped by an interrupted removal
constexpr const char* obstacle_field = "obstacle";
constexpr const char* obstacle_hint = "obstacle hint";

constexpr const char* until_reset = "reset";  // a receipt
constexpr const char* starts = "starts";      // in place of a task whose id is not known yet

/// A node's VM: one that proves to be ours, as the spec says it, running.
class VmKind final : public Thing {
 public:
  VmKind(About about, VmWish wish) : Thing(std::move(about)), wish_(std::move(wish)) {}

  std::optional<Live> read(World& world) const override {
    const VmSight sight = look(world);
    if (!sight.refusal.empty())
      return Live{"", {{refused, sight.refusal}, {hint_of, sight.hint}}, {}};
    if (sight.in_the_making)
      return Live{id_of(*sight.in_the_making), {{in_the_making, sight.lock}}, {}};
    if (sight.unmarked) return Live{id_of(sight.unmarked->row), {{without_mark, "missing"}}, {}};
    if (!sight.found) return std::nullopt;
    const auto& [row, config, vm] = *sight.found;
    if (is_gathered_rest(config)) return Live{id_of(row), {{rest_of_dead, "gathered"}}, {}};
    // What it is, its notes say although it may be off and nobody remembers it.
    if (!wish_.bare &&
        control_plane_by_notes(world.cluster, wish_.node, config) == !wish_.control_plane) {
      const Change role = refuse_role(wish_.node, /*was_control_plane=*/!wish_.control_plane);
      return Live{id_of(row), {{refused, role.refusal}, {hint_of, role.hint}}, {}};
    }
    Live live{id_of(row), seen_fields(wish_, row.vmid, config, runs(world, row)),
              facts_of(*sight.found, wish_.identity, wish_.control_plane, wish_.address)};
    live.facts[options_seen] = digest_options(config);
    if (const std::string lock = config.value_or("lock", ""); !lock.empty())
      live.facts["lock"] = lock;
    if (may_be_wiped(world, row)) live.fields[system_disk] = "wiped";
    const Change change = difference(live.fields);
    if (wish_.pinned && row.vmid != wish_.create.vmid)
      if (const auto other = world.survey.find(world.proxmox(), wish_.create.vmid))
        return Live{
            id_of(row),
            {{refused, fmt::format("{} is VM {}, the spec says {}, and that is {}", wish_.node,
                                   row.vmid, wish_.create.vmid, describe(*other))},
             {hint_of, vmid_hint(row.vmid)}},
            {}};
    add_obstacle(world, *sight.found, change, live.fields);
    if (change.effect < Effect::Reboot || world.survey.makes(row.vmid)) return live;
    const VmSight all = find_vm(world, search_everywhere());
    if (!all.refusal.empty()) return Live{"", {{refused, all.refusal}, {hint_of, all.hint}}, {}};
    // Each step on the way to its end is shown, so that only repeated ones count as no progress. A
    // plan shows none: at that time nothing was asked of it.
    const bool goes_off = VmDemands::of(change, runs(world, row)).switches_off;
    if (goes_off && change.refusal.empty() && !world.survey.looks()) {
      const Halt halt = plan_halt(world, row);
      world.survey.planned(row.vmid, halt);
      if (halt.next != Halt::Next::Shutdown || halt.failed > 0) live.fields[leaving] = halt.text();
    }
    return live;
  }

  Change diff(const std::optional<Live>& live) const override {
    if (!live && wish_.identity.adopted_vmid)
      return refuse(
          fmt::format("VM {}, which was taken over as {}, is gone", *wish_.identity.adopted_vmid,
                      wish_.node),
          fmt::format("take {0} out of the spec; or take nodes.{0} out of rocca.lock, and a new VM "
                      "is made in its place",
                      wish_.node));
    if (!live)
      return create(fmt::format("no VM carries the mark {}",
                                engine::ownership_mark(wish_.identity.cluster, wish_.node)));
    if (const std::string why = fact(live->fields, refused); !why.empty())
      return refuse(why, fact(live->fields, hint_of));
    if (live->fields.contains(in_the_making)) {
      Change change =
          create(fmt::format("VM {} has the lock `{}`", live->id, live->fields.at(in_the_making)));
      change.action = Action::Update;
      // An earlier run began it, perhaps for another spec.
      change.perhaps = Effect::PowerCycle;
      return change;
    }
    if (live->fields.contains(without_mark)) {
      Change change = create(fmt::format("VM {} was cloned for it and has no mark yet", live->id));
      change.action = Action::Update;
      return change;
    }
    if (live->fields.contains(rest_of_dead)) {
      Change change = create(fmt::format("VM {} is the rest of a create that died", live->id));
      change.action = Action::Update;
      return change;
    }
    Change change = difference(live->fields);
    if (const std::string why = fact(live->fields, obstacle_field);
        !why.empty() && !change.none() && change.refusal.empty()) {
      change.refusal = why;
      change.hint = fact(live->fields, obstacle_hint);
    }
    return change;
  }

  Receipt apply(World& world, const Change&, const std::optional<Live>&) const override {
    // What was read a moment ago is what is acted on; a change by somebody else in between is found
    // out by its digest, and an id that was taken by the create itself.
    VmSight sight = look(world);
    if (!sight.refusal.empty()) throw Error(Fault::Conflict, sight.refusal).hint(sight.hint);
    if (sight.in_the_making) return follow_making(world, *sight.in_the_making, sight.lock);
    if (sight.unmarked) return give_mark(world, *sight.unmarked);
    if (!sight.found) return in_time(world, start_making(world));
    if (disturbs(world, *sight.found)) {
      sight = prove_alone(world);
      if (!sight.found) return {look_again};
    }
    const auto& [row, config, vm] = *sight.found;
    if (const std::string lock = config.value_or("lock", ""); !lock.empty())
      throw Error(Fault::Busy, fmt::format("{} has the lock `{}`", describe(row), lock));
    if (is_gathered_rest(config)) return in_time(world, remove_vm(world, row, sight.found->vm));
    return in_time(world, start_changing(world, *sight.found));
  }

  Progress probe(World& world, const Receipt& receipt) const override {
    const auto upid = proxmox::Upid::parse(receipt.token);
    if (receipt.token == until_reset) return await_silence(world, leaver(world));
    if (const auto disturbance = Disturbance::parse(receipt.token))
      return probe_moved(world, *disturbance);
    if (!upid) return probe_unknown(world);
    return probe_task(world, *upid, receipt);
  }

  /// A create reserves its id before it answers: what became of a lost one is in the list.
  Progress probe_unknown(World& world) const override {
    world.survey.suspect(wish_.create.vmid);
    world.survey.refresh(world.proxmox());
    forget(world);
    const auto disturbed = find_disturbance(world, wish_.node);
    if (!disturbed || (disturbed->restarts && disturbed->task != starts)) return Ready{};
    // It may have been carried out: then the node is watched as if that had been said.
    if (disturbed->restarts) {
      const auto row = world.survey.find(world.proxmox(), wish_.create.vmid);
      const auto status = row ? world.proxmox().find_status(row->node, row->vmid) : std::nullopt;
      if (!status || status->status != "running") return Ready{};
      note(world, row->vmid, row->node, "running");
    }
    return until_well_again(world, *disturbed,
                            whereabouts(world, wish_.node, wish_.identity.uuid).address);
  }

  /// The clone call takes no mark: what proves the clone must be durable before it is asked for.
  /// Before a VM is replaced its machine is cordoned and reset: the next run must know that, even
  /// if the spec no longer asks for a replacement.
  bool announces(const Change& change) const override {
    return change.action == Action::Replace || makes_clone(change) ||
           (change.action == Action::Create && wish_.reset_begun);
  }
  Fields announced_notes(const Change& change) const override {
    if (change.action == Action::Replace)
      return {{cordon_note(wish_.node), announced_value},
              {reset_note(wish_.node), announced_value}};
    // What was reset is gone. A cordon is on the Node object, which may still be there.
    return {{reset_note(wish_.node), ""}};
  }
  Fields announced(const Change& change) const override {
    if (!makes_clone(change)) return {};
    return {{clone_nonce, wish_.nonce},
            {clone_vmid, std::to_string(wish_.create.vmid)},
            {clone_host, wish_.host},
            {clone_template, wish_.from_template}};
  }

  Fields claims() const override {
    Fields claims{{"vmid", std::to_string(wish_.create.vmid)}};
    if (!wish_.address.empty()) claims["address"] = wish_.address;
    return claims;
  }

  Receipt destroy(World& world, const Live& live) const override {
    const VmSight sight = prove_alone(world);
    if (!sight.found) return {};
    const proxmox::VmRow& row = sight.found->row;
    VmDemands demands;
    demands.destroys = true;
    refuse_obstacle(demands, row, sight.found->config);
    if (runs(world, row)) begin_restarting(world, difference(live.fields));
    const Leaver its = leaver(world);
    const talos::Sight machine = runs(world, row) ? look_at(world, its) : talos::Sight{};
    if (machine.door == talos::Door::Ours && !hangs(world, its))
      return is_leaving(machine) ? Receipt{until_reset, "reset"} : send_away(world, its);
    // The one that comes in its place has the same name: it must not be met by a cordon.
    if (const auto object = find_node_object(world, its.host_name))
      remove_node_object(world, its.host_name, object->uid);
    return in_time(world, remove_vm(world, row, sight.found->vm));
  }

  std::vector<Lane> lanes(const Change* change) const override {
    std::vector<Lane> lanes{host_lane(wish_.host)};
    if (change == nullptr) return lanes;
    lanes.push_back({fmt::format("vmid/{}", wish_.create.vmid), 1, Lane::Hold::Act});
    if (change->action == Action::Create) lanes.push_back(import_lane());
    const bool disturbs = change->effect >= Effect::Reboot ||
                          std::any_of(change->fields.begin(), change->fields.end(), moves_card);
    if (!disturbs || !runs_now(*change)) return lanes;
    const std::vector<Lane> careful = wish_.control_plane
                                          ? std::vector{disturbing_lane()}
                                          : worker_lanes(wish_.workers, ordeal_of(*change));
    lanes.insert(lanes.end(), careful.begin(), careful.end());
    return lanes;
  }

  Duration patience(const Change& change) const override {
    return change.action == Action::Create ? 30min : 15min;
  }

 protected:
  Fields wishes() const override {
    Fields all = wished_;
    all["uuid"] = to_string(wish_.identity.uuid);
    all["vmid"] = std::to_string(wish_.create.vmid);
    return all;
  }

 private:
  std::string vmid_hint(proxmox::Vmid vmid) const {
    return fmt::format("nodes.{}.machine.vmid: {} keeps it where it is", wish_.node, vmid);
  }

  bool makes_clone(const Change& change) const {
    return change.action == Action::Create && !wish_.from_template.empty();
  }

  /// An interrupted run announced that it would reset the machine on this VM. If that machine
  /// answers and is not being reset, the reset was never asked for. If it does not answer, its disk
  /// has to be taken for wiped: it would never boot again.
  bool may_be_wiped(World& world, const proxmox::VmRow& row) const {
    if (!wish_.reset_begun || world.survey.makes(row.vmid)) return false;
    if (!runs(world, row)) return true;
    const std::string where =
        whereabouts(world, wish_.node, wish_.identity.uuid, Effort::Search).address;
    if (where.empty()) return true;
    const talos::Sight sight = talos::look(world.transport, world.patient_access(where), world.stop,
                                           talos::Detail::Status);
    if (sight.door != talos::Door::Ours || is_leaving(sight)) return true;
    const auto system = world.talos(where).find_system_information();
    return !system || system->uuid != wish_.identity.uuid;
  }

  Lane import_lane() const {
    const std::string where = fmt::format("{}@{}", wish_.disks.front().storage, wish_.host);
    constexpr unsigned width = proxmox::Lanes::imports_per_storage;
    Lane lane{"import/" + where, width, Lane::Hold::Act,
              fmt::format("{} disks at a time on {}", width, where)};
    lane.shared = true;
    return lane;
  }

  /// What would be refused half-way is refused in the plan.
  static void add_obstacle(World& world, const VmSight::Found& vm, const Change& change,
                           Fields& fields) {
    if (change.none() || !change.refusal.empty()) return;
    const auto& [row, config, owned] = vm;
    auto obstacle = find_obstacle(VmDemands::of(change, runs(world, row)), row, config);
    const std::string lock = config.value_or("lock", "");
    if (!obstacle && !lock.empty() && lock != "suspended")
      if (const Halt halt = plan_halt(world, row);
          halt.next == Halt::Next::Unlock && halt.lock_is_dead)
        obstacle = dead_lock(world, row, halt.lock);
    if (!obstacle) return;
    fields[obstacle_field] = obstacle->reason;
    fields[obstacle_hint] = obstacle->hint;
  }

  VmSearch search() const {
    VmSearch search{wish_.identity, wish_.create.vmid, wish_.create.name, false};
    search.nonce = wish_.nonce;
    return search;
  }
  VmSearch search_everywhere() const {
    VmSearch all = search();
    all.everywhere = true;
    return all;
  }

  /// Where nothing is, one will be made. But a backup of it may have been restored under another id
  /// and name, without our tags: all are asked first, except those at the ids of our other nodes,
  /// which these ask in the same look.
  VmSight look(World& world) const {
    VmSight sight = find_vm(world, search());
    if (!sight.found && !sight.in_the_making && !sight.unmarked && sight.refusal.empty()) {
      VmSearch all = search_everywhere();
      all.but_our_ids = true;
      sight = find_vm(world, all);
    }
    if (sight.found && sight.found->row.is_template) {
      sight.refusal = fmt::format(
          "{} carries our UUID and the mark {}, and is a template: it cannot run",
          describe(sight.found->row), engine::ownership_mark(wish_.identity.cluster, wish_.node));
      sight.hint = "somebody made a template of it: destroy it, and a new one is made";
      sight.found.reset();
    }
    return sight;
  }

  /// What is read of it next is read anew, at its own id or wherever it was met.
  void forget(World& world) const {
    world.survey.forget(wish_.create.vmid);
    for (const proxmox::VmRow& row :
         world.survey.select(world.proxmox(), [&](const Survey::Candidate& each) {
           return each.shown != nullptr && each.shown->uuid == wish_.identity.uuid;
         }))
      world.survey.forget(row.vmid);
  }

  /// What switches it off, or takes something away from it. One that this run has made has no twin
  /// of longer standing.
  bool disturbs(World& world, const VmSight::Found& vm) const {
    const auto& [row, config, owned] = vm;
    if (is_gathered_rest(config)) return true;
    return !world.survey.makes(row.vmid) &&
           difference(seen_fields(wish_, row.vmid, config, runs(world, row))).effect >=
               Effect::Reboot;
  }

  /// Fresh proof, this moment, among all VMs there are: a restored backup of it may stand anywhere,
  /// under another name and without our tags, and then nobody knows which of the two is meant.
  VmSight prove_alone(World& world) const {
    world.survey.refresh_soon(world.proxmox());
    forget(world);
    VmSight sight = find_vm(world, search_everywhere());
    if (!sight.refusal.empty()) throw Error(Fault::Refused, sight.refusal).hint(sight.hint);
    return sight;
  }

  Leaver leaver(const World& world) const {
    const spec::Node* node = world.cluster.spec.find_node(wish_.node);
    return {wish_.node, node == nullptr ? "" : node->host_name, address_of(world, wish_.node),
            wish_.identity.uuid};
  }

  /// One that is off already disturbs nobody, and must not wait for who waits for it.
  static bool runs_now(const Change& change) {
    return std::none_of(change.fields.begin(), change.fields.end(),
                        [](const FieldChange& field) { return field.field == "power"; });
  }

  /// Asked after when it can be over. How a start ended matters to nobody while the machine boots:
  /// it is asked after with whatever is next.
  Receipt in_time(World& world, Receipt receipt) const {
    const auto upid = proxmox::Upid::parse(receipt.token);
    if (!upid) return receipt;
    receipt.waiting_for = fmt::format("Proxmox task {} on {}", upid->type, upid->node);
    if (upid->type == "qmstart") {
      world.survey.wait_begins(boot_of(wish_.node), "boot", boots_at_least);
      receipt.ask_after = world.survey.first_ask(*upid, 1s, 3500ms);
    } else {
      const bool large = upid->type == "qmcreate" || upid->type == "qmclone";
      receipt.ask_after = world.survey.first_ask(*upid, large ? 2500ms : 60ms, 40ms);
    }
    return receipt;
  }

  static bool runs(World& world, const proxmox::VmRow& row) {
    if (row.status == "running") return true;
    if (row.status != "unknown" && world.survey.noted(row.vmid)) return false;
    // A VM that is seconds old has no statistics yet, and those of one that was started a moment
    // ago still say that it is off: they are ten seconds old, on a busy host more.
    const auto status = world.proxmox().find_status(row.node, row.vmid);
    proxmox::VmRow known = row;
    known.status = status ? status->status : "stopped";
    if (known.status == "stopped") world.survey.note(known);
    return known.status == "running";
  }

  bool is_left(const std::string& field, const std::string& found,
               const std::string& declared) const {
    const auto note = wish_.left.find(field);
    return note != wish_.left.end() && note->second == left_value(found, declared);
  }

  Change difference(const Fields& seen) const {
    Change change;
    for (const auto& [name, value] : wished_) {
      const auto found = seen.find(name);
      const std::string before = found == seen.end() ? "" : found->second;
      if (before == value || is_left(name, before, value)) continue;
      if (name.ends_with(".storage") && !before.empty()) {
        change.refusal = fmt::format("{} is on storage {}, and the spec says {}",
                                     name.substr(0, name.find('.')), before, value);
        change.hint = "move the disk in Proxmox, or change `storage` in the spec";
      }
      // A new disk shows itself as a whole.
      if (before.empty() && (name.ends_with(".size") || name.ends_with(".storage"))) continue;
      change.fields.push_back({name, before, value, effect_of(name, value, before)});
    }
    for (const auto& [name, value] : seen) {
      if (const std::string option = pending_option(name); !option.empty()) {
        const auto wanted = wished_.find(option);
        const std::string declared = wanted == wished_.end() ? "" : wanted->second;
        // It has not taken effect, so taking it back costs nothing.
        if (!is_left(name, value, declared))
          change.fields.push_back({name, value, declared, Effect::Live});
      } else if (!wished_.contains(name) && proxmox::is_drive(name) && !is_left(name, value, "")) {
        change.fields.push_back({name, value, "", Effect::DataLoss});
      }
    }
    const bool wiped = seen.contains(system_disk);
    // Data disks are not wiped by a reset: they are lost only now.
    if (wiped)
      change.fields.push_back({system_disk, seen.at(system_disk), "installed",
                               wish_.disks.size() > 1 ? Effect::DataLoss : Effect::Replace});
    conclude(change);
    only_removal(change);
    if (wiped) {
      change.reason = fmt::format(
          "the removal or replacement of {} was interrupted after its reset had been announced, "
          "and "
          "it does not answer",
          wish_.node);
      // There is nothing left to lose that the user had not agreed to lose.
      change.confirmed = change.effect == Effect::Replace;
    }
    // Each act on the way is another one: only what repeats itself makes no progress.
    if (const std::string how = fact(seen, leaving); !how.empty())
      change.fields.push_back({leaving, how, "", {}});
    if (change.action == Action::Replace && wish_.identity.adopted_vmid && change.refusal.empty()) {
      change.refusal = fmt::format("{} would have to be created again ({}), and it was adopted",
                                   wish_.node, change.reason);
      change.hint = wiped
                        ? fmt::format(
                              "take nodes.{} out of rocca.lock, and a new VM is created in "
                              "its place; or take it out of the spec to remove it",
                              wish_.node)
                        : "put back what the spec says of it: rocca replaces only VMs that it has "
                          "created";
    }
    if (change.action == Action::Replace && wish_.control_plane && change.refusal.empty()) {
      change.refusal = fmt::format("{} would have to be made anew ({}), and it is a control plane",
                                   wish_.node, change.reason);
      change.hint =
          "put back what the spec says of it: rocca does not make control planes anew yet";
    }
    if (const auto at = parse_uint(fact(seen, "vmid")); at && *at != wish_.create.vmid)
      change.hint = vmid_hint(static_cast<proxmox::Vmid>(*at));
    return change;
  }

  /// Taking a data disk away costs its data, but not the VM.
  static void only_removal(Change& change) {
    if (change.action != Action::Replace) return;
    const bool rebuilds =
        std::any_of(change.fields.begin(), change.fields.end(), [](const FieldChange& field) {
          return field.effect == Effect::Replace || field.field == system_disk ||
                 (field.effect == Effect::DataLoss && field.field.ends_with(".size"));
        });
    if (!rebuilds) change.action = Action::Update;
  }

  Receipt start_making(World& world) const {
    proxmox::Client& client = world.proxmox();
    const bool clones = !wish_.from_template.empty();
    // The rest of a clone is in nobody's way, so that nothing else would ever lead to it.
    if (wish_.begun || clones || world.survey.suspects(wish_.create.vmid)) {
      RestSearch its{wish_.identity,    wish_.create.vmid, wish_.host,
                     wish_.create.name, wish_.create.pool, wish_.begun};
      if (clones) {
        const proxmox::VmRow source = get_template(world);
        its.source = {source.vmid, source.node};
      }
      const std::vector<std::string> rest = rest_of_create(world, its);
      if (!rest.empty()) return gather_rest(world, its, rest);
    }
    if (clones) return start_cloning(world);
    proxmox::VmCreate create = wish_.create;
    // With rights on a pool only, tags cannot be set before the VM is in it.
    if (!create.pool.empty()) create.tags.clear();
    const auto answer = client.start_create(wish_.host, create);
    if (const auto* taken = std::get_if<proxmox::VmidTaken>(&answer)) {
      world.survey.refresh(client);
      const VmSight sight = look(world);
      if (sight.found || sight.in_the_making) return {look_again};
      throw Error(Fault::Conflict, sight.refusal.empty() ? taken->text : sight.refusal)
          .hint(sight.hint.empty() ? "somebody takes that id this moment: run `rocca up` again"
                                   : sight.hint);
    }
    note(world, wish_.create.vmid, wish_.host, "stopped");
    world.survey.making(wish_.create.vmid);
    return {std::get<proxmox::Upid>(answer).text, "create"};
  }

  proxmox::VmRow get_template(World& world) const {
    if (auto found = find_template(world, wish_.from_template, wish_.host)) return *found;
    throw Error(Fault::NotFound, fmt::format("there is no template '{}'", wish_.from_template))
        .hint(
            "talos.boot.template names a VM that Proxmox calls a template; import one, or use "
            "`boot: import`");
  }

  Receipt start_cloning(World& world) const {
    const proxmox::VmRow source = get_template(world);
    proxmox::Clone clone;
    clone.source = source.vmid;
    clone.target = wish_.create.vmid;
    clone.name = wish_.create.name;
    clone.description = clone_notes(wish_.identity, wish_.nonce);
    clone.pool = wish_.create.pool;
    clone.storage = wish_.disks.front().storage;
    clone.node = source.node == wish_.host ? "" : wish_.host;
    std::optional<proxmox::Upid> upid;
    try {
      upid = world.proxmox().start_clone(source.node, clone);
    } catch (const Error& error) {
      if (!is_external(error.fault())) throw;
      // The id may be taken: by a clone of an earlier run, or by another user of Proxmox.
      world.survey.refresh(world.proxmox());
      if (!world.survey.find(world.proxmox(), wish_.create.vmid)) throw;
      return {look_again};
    }
    note(world, wish_.create.vmid, wish_.host, "stopped");
    world.survey.making(wish_.create.vmid);
    return {upid->text, "clone"};
  }

  /// A clone has the template's hardware and a new UUID: UUID and mark replace the nonce in one
  /// call. On a running VM they would only be pending.
  Receipt give_mark(World& world, const VmSight::Found& clone) const {
    if (runs(world, clone.row)) return halt_vm(world, clone.row, clone.vm);
    proxmox::VmUpdate update;
    update.digest = clone.config.digest;
    for (auto& [key, value] : wish_.create.parameters())
      if (key != "vmid" && key != "pool" && !proxmox::is_drive(key)) update.set[key] = value;
    if (!wish_.cloud_init_slot.empty() && clone.config.find(wish_.cloud_init_slot) == nullptr)
      update.set[wish_.cloud_init_slot] = wish_.create.drives.at(wish_.cloud_init_slot).print();
    for (const DiskWish& disk : wish_.disks) {
      const std::vector<std::string> slots{disk.slot};
      const proxmox::VmUpdate part = update_of(wish_, clone.config, slots);
      update.set.insert(part.set.begin(), part.set.end());
    }
    const auto upid = world.proxmox().start_update(clone.vm, update);
    world.survey.forget(clone.row.vmid);
    return {upid ? upid->text : ""};
  }

  Receipt follow_making(World& world, const proxmox::VmRow& row, const std::string& lock) const {
    proxmox::TaskFilter filter;
    filter.only_active = true;
    for (const proxmox::TaskRow& task : world.proxmox().tasks(row.node, filter))
      if (task.upid.id == std::to_string(row.vmid) || task.upid.type == "qmclone")
        return {task.upid.text};
    // The task may have ended between the two looks.
    world.survey.forget(row.vmid);
    const auto config = world.survey.config(world.proxmox(), row.node, row.vmid);
    if (!config || config->value_or("lock", "") != lock) return {look_again};
    throw_dead_lock(row, lock);
  }

  Receipt start_changing(World& world, const VmSight::Found& found) const {
    const auto& [row, config, vm] = found;
    const bool running = runs(world, row);
    const Change change = difference(seen_fields(wish_, row.vmid, config, running));
    refuse_obstacle(VmDemands::of(change, running), row, config);
    std::vector<std::string> cold, hot, sizes, waiting;
    bool power = false;
    for (const FieldChange& field : change.fields) {
      if (const std::string option = pending_option(field.field); !option.empty())
        waiting.push_back(option);
      else if (field.field == "power")
        power = true;
      else if (field.field.ends_with(".size"))
        sizes.push_back(field.field.substr(0, field.field.find('.')));
      else if (field.effect == Effect::PowerCycle)
        cold.push_back(field.field);
      else if (!field.field.ends_with(".storage"))
        hot.push_back(field.field);
    }
    proxmox::Client& client = world.proxmox();
    if (!waiting.empty()) {
      proxmox::VmUpdate update;
      update.revert = waiting;
      update.digest = config.digest;
      world.survey.forget(row.vmid);
      const auto upid = client.start_update(vm, update);
      return {upid ? upid->text : "", "revert"};
    }
    // While it is off every option applies at once, so nothing is left pending.
    if (!cold.empty() && running) {
      begin_restarting(world, change);
      return halt_vm(world, row, vm);
    }
    if (!cold.empty() || !hot.empty()) {
      cold.insert(cold.end(), hot.begin(), hot.end());
      auto moved =
          running ? begin_moving(world, change, row, config) : std::optional<Disturbance>{};
      world.survey.forget(row.vmid);
      const auto upid = client.start_update(vm, update_of(wish_, config, cold));
      if (!moved) return {upid ? upid->text : "", "configure"};
      moved->task = upid ? upid->text : "";
      return {moved->token(), "configure", moved->settles(), wish_.node + " to be well again"};
    }
    for (const DiskWish& disk : wish_.disks)
      if (std::find(sizes.begin(), sizes.end(), disk.slot) != sizes.end()) {
        const std::string slot = slot_in(wish_, disk, config);
        const std::string upid = client.start_resize(vm, slot, disk.size, config.digest).text;
        world.survey.resized(row.vmid, slot, disk.size);
        return {upid, "resize"};
      }
    if (power) return start(world, vm);
    return {};
  }

  /// A worker that this run has switched off or made anew must be seen again.
  Receipt start(World& world, const proxmox::OwnedVm& vm) const {
    auto restarted = wish_.control_plane ? std::nullopt : find_disturbance(world, wish_.node);
    if (restarted) {
      restarted->task = starts;
      world.survey.disturbs(wish_.node, restarted->token());
    }
    const Receipt started{world.proxmox().start_vm(vm).text, "start"};
    if (!restarted) return started;
    Receipt receipt = in_time(world, started);
    restarted->task = started.token;
    receipt.token = restarted->token();
    return receipt;
  }

  /// A VM that runs is switched off and on, or made anew.
  void begin_restarting(World& world, const Change& change) const {
    if (wish_.control_plane) {
      wait_for_quorum(world, wish_.node);
      return;
    }
    if (find_disturbance(world, wish_.node)) return;  // the rest of what has begun
    std::vector<std::string> names;
    for (const FieldChange& field : change.fields)
      if (field.effect >= Effect::Reboot) names.push_back(field.field);
    Disturbance disturbance;
    disturbance.node = wish_.node;
    disturbance.worker = true;
    disturbance.restarts = true;
    disturbance.how = talos::Disturbance::Away;
    disturbance.what = "a change of its " + enumerate(names);
    disturbance.way_back = "say in the spec what it was before, and run `rocca up` again";
    before_disturbing(world, disturbance,
                      whereabouts(world, wish_.node, wish_.identity.uuid).address);
  }

  /// A card of a node that runs is plugged in elsewhere: that must be seen again.
  std::optional<Disturbance> begin_moving(World& world, const Change& change,
                                          const proxmox::VmRow& row,
                                          const proxmox::VmConfig& config) const {
    std::vector<std::string> what, back;
    for (const FieldChange& field : change.fields) {
      if (!moves_card(field)) continue;
      what.push_back(fmt::format("its {} became '{}'", field.field, field.after));
      back.push_back(fmt::format("--{} '{}'", field.field, config.value_or(field.field, "")));
    }
    if (what.empty()) return std::nullopt;
    Disturbance disturbance;
    disturbance.node = wish_.node;
    disturbance.worker = !wish_.control_plane;
    disturbance.how = talos::Disturbance::Away;
    disturbance.what = enumerate(what);
    disturbance.way_back = fmt::format(
        "say in the spec what it was before, and `rocca up` moves it back, also while the node is "
        "silent; or on {}: `qm set {} {}`",
        row.node, row.vmid, join(back, " "));
    before_disturbing(world, disturbance,
                      whereabouts(world, wish_.node, wish_.identity.uuid).address);
    return disturbance;
  }

  Progress probe_moved(World& world, const Disturbance& moved) const {
    forget(world);
    if (const auto upid = proxmox::Upid::parse(moved.task)) {
      // One whose answer was lost may have started it already.
      const bool started = upid->type == "qmstart" || upid->type == "hastart";
      const Progress task = started ? probe_task(world, *upid, {moved.task})
                                    : follow_task(world, moved.task, doing(upid->type));
      if (std::holds_alternative<NotYet>(task)) return task;
    }
    return until_well_again(world, moved,
                            whereabouts(world, wish_.node, wish_.identity.uuid).address);
  }

  Progress probe_task(World& world, const proxmox::Upid& upid, const Receipt& receipt) const {
    const auto task = world.survey.task(world.proxmox(), upid);
    const std::string waiting = fmt::format("Proxmox task {} on {}", upid.type, upid.node);
    if (!task || task->running) return NotYet{waiting, world.survey.ask_again(upid)};
    const bool known = upid.type == "qmstart" || (upid.type == "resize" && task->ok());
    if (!known) forget(world);
    if (upid.type == "qmshutdown" || upid.type == "qmstop" || upid.type == "qmdestroy" ||
        upid.type == "qmreboot" || upid.type == "hastop" || holds_lock(upid.type)) {
      const Progress progress = probe_removal(world, receipt, "taking down " + address());
      if (upid.type == "qmdestroy")
        world.survey.refresh(world.proxmox());
      else if (task->ok() && (upid.type == "qmshutdown" || upid.type == "qmstop"))
        note(world, vmid_of(upid), upid.node, "stopped");
      return progress;
    }
    std::optional<proxmox::Failure> failure;
    if (!task->ok()) failure = proxmox::explain_failure(world.proxmox(), *task);
    if (upid.type == "qmstart" || upid.type == "hastart") return probe_start(world, upid, failure);
    // Somebody wrote in between, perhaps a task of a run that was killed: nothing was done, and
    // what is there now is looked at anew.
    if (failure && failure->reason == proxmox::Reason::Changed) return Ready{};
    if (failure) {
      if (upid.type == "qmcreate" || upid.type == "qmclone") {
        // Proxmox cleans up after itself, unless its host went down.
        world.survey.gone(wish_.create.vmid);
        world.survey.refresh(world.proxmox());
      }
      if (upid.type == "qmcreate" && failure->reason == proxmox::Reason::AlreadyExists)
        return met_old_volumes(world, *failure);
      // A clone takes its id only once it runs: one of a run that was killed was faster.
      if (upid.type == "qmclone" && world.survey.find(world.proxmox(), wish_.create.vmid))
        return Ready{};
      if (failure->reason == proxmox::Reason::NoSpace) throw_no_space(world, upid, *failure);
      throw failure->error(doing(upid.type));
    }
    return Ready{};
  }

  /// Proxmox says that it is full, rarely where, and never how much is missing.
  [[noreturn]] void throw_no_space(World& world, const proxmox::Upid& upid,
                                   const proxmox::Failure& failure) const {
    std::map<std::string, Bytes> needs;
    for (const DiskWish& disk : wish_.disks) needs[disk.storage] = needs[disk.storage] + disk.size;
    std::vector<std::string> there;
    for (const proxmox::StorageInfo& storage : world.proxmox().storages(upid.node))
      if (const auto need = needs.find(storage.name); need != needs.end())
        there.push_back(fmt::format("{} on {} has {} free of {}, and the disks of {} there are {}",
                                    storage.name, upid.node, to_string(storage.available),
                                    to_string(storage.total), wish_.node, to_string(need->second)));
    const Error error = failure.error(doing(upid.type));
    throw Error(error.fault(), fmt::format("{} ({})", error.message(), join(there, "; ")))
        .hint(error.hint());
  }

  /// A volume of this id is there already, and no VM: whose it is, is looked into once.
  Progress met_old_volumes(World& world, const proxmox::Failure& failure) const {
    if (!world.survey.suspects(wish_.create.vmid)) {
      world.survey.suspect(wish_.create.vmid);
      return Ready{};
    }
    throw failure.error(doing("qmcreate"))
        .hint(fmt::format("an earlier VM {} has left it, and nothing proves that it was ours: "
                          "`pvesm free VOLUME` on {} if nobody needs it, or give {} another `vmid`",
                          wish_.create.vmid, wish_.host, wish_.node));
  }

  Progress probe_start(World& world, const proxmox::Upid& upid,
                       const std::optional<proxmox::Failure>& failure) const {
    if (failure && failure->reason != proxmox::Reason::AlreadyRunning)
      throw failure->error("starting " + address());
    if (upid.type == "hastart") {  // it only says what HA should do
      const auto row = world.survey.find(world.proxmox(), vmid_of(upid));
      const auto status = row ? world.proxmox().find_status(row->node, row->vmid) : std::nullopt;
      if (!status || status->status != "running") return NotYet{"HA to start the VM", 2s};
    }
    note(world, vmid_of(upid), upid.node, "running");
    return Ready{};
  }

  /// Which VM a task of ours was about: its own id is not where a restored one was met.
  proxmox::Vmid vmid_of(const proxmox::Upid& upid) const {
    const auto number = parse_uint(upid.id);
    return number ? static_cast<proxmox::Vmid>(*number) : wish_.create.vmid;
  }

  std::string doing(const std::string& type) const {
    if (type == "qmcreate") return "making " + address();
    if (type == "qmclone") return "cloning " + address();
    if (type == "resize") return "enlarging a disk of " + address();
    return "changing " + address();
  }

  /// The cluster's list lags behind by ten seconds; what we did ourselves we know.
  void note(World& world, proxmox::Vmid vmid, const std::string& host, const char* status) const {
    proxmox::VmRow row;
    row.vmid = vmid;
    row.node = host;
    row.name = wish_.create.name;
    row.status = status;
    row.tags = wish_.create.tags;
    world.survey.note(row);
  }

  const VmWish wish_;
  const Fields wished_ = wished_fields(wish_);  // asked for several times in a run
};

}  // namespace

Made make_vm(const Cluster& cluster, const Ground& ground, const spec::Node& node) {
  VmWish wish = vm_wish(cluster, ground, node);
  if (const state::Item* item = ground.item(vm_address(node.name))) {
    wish.begun = !item->receipt.empty();
    wish.bare = ground.item(machine_address(node.name)) == nullptr;
  }
  wish.reset_begun = find_begun_removal(ground, node.name).reset;
  const std::string left = left_key(vm_address(node.name), "");
  for (auto note = ground.prior.notes.lower_bound(left);
       note != ground.prior.notes.end() && note->first.starts_with(left); ++note)
    wish.left[note->first.substr(left.size())] = note->second;
  std::vector<std::string> needs;
  if (*cluster.spec.talos.boot != spec::Boot::Template && !wish.identity.adopted_vmid) {
    const std::string& storage = *cluster.spec.proxmox->image_storage;
    const bool shared = ground.shared_storages.contains(storage);
    needs.push_back(image_address(storage, shared ? "" : wish.host, image_file(cluster, node)));
  }
  return std::make_shared<VmKind>(Thing::About{vm_address(node.name), std::move(needs),
                                               to_string(cluster.spec.position(node.where))},
                                  std::move(wish));
}

}  // namespace rocca::resources
