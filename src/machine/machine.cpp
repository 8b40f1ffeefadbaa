#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "machine/diagnosis.hpp"
#include "machine/discover.hpp"
#include "machine/disruption.hpp"
#include "machine/kinds.hpp"
#include "machine/kubernetes_rollout.hpp"
#include "machine/machine_identity.hpp"
#include "machine/node_removal.hpp"
#include "machine/quorum.hpp"
#include "platform/kinds.hpp"
#include "platform/survey.hpp"
#include "platform/vm_find.hpp"
#include "talos/waits.hpp"
#include "talosconfig/effects.hpp"
#include "talosconfig/input.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;
using talos::Detail;

// Receipts.
constexpr const char* until_answer = "answer";
constexpr const char* until_applied = "applied";      // in maintenance mode
constexpr std::string_view until_reboot = "reboot ";  // and the boot id it had

// Fields that say how it stands; everything else is a section of its configuration.
constexpr const char* door = "door";
constexpr const char* told = "told";
constexpr const char* refused = "refused";
constexpr const char* hint_of = "hint";
constexpr const char* config_in_force = "config";
constexpr const char* pending = "pending";  // what its configuration cannot be compared without
// What differs is one value: `differs: EFFECT`, then before and after, a line each.
constexpr const char* differs = "differs: ";
// A fact: digests of what was secret in the configuration that settled last.
constexpr const char* secrets_seen = "secrets";

// After an apply in maintenance mode the port is open for some more seconds, and a second apply
// then would block Talos 1.11 for good.
constexpr Duration settling = 20s;

// Its API closes and opens again.
constexpr Duration takes_at_least = 500ms;

// The components of one control plane are upgraded one after the other.
constexpr Duration upgrade_of_plane = 10min;

// A node that boots is silent for some seconds; nobody asks after its VM before.
constexpr Duration silence = 20s;

Effect effect_of(talos::ConfigEffect effect) {
  switch (effect) {
    case talos::ConfigEffect::None:
      return Effect::None;
    case talos::ConfigEffect::Live:
      return Effect::Live;
    case talos::ConfigEffect::Service:
      return Effect::Service;
    case talos::ConfigEffect::Reboot:
      return Effect::Reboot;
    case talos::ConfigEffect::Fixed:
      return Effect::Replace;
  }
  return Effect::Reboot;
}

/// What no answer and no difference may show, wherever it stands.
std::vector<Secret> secrets_in(const talos::Surroundings& around) {
  const secrets::Bundle& bundle = around.bundle;
  std::vector<Secret> all{bundle.cluster_secret, bundle.bootstrap_token, bundle.secretbox_secret,
                          bundle.aescbc_secret, bundle.trustd_token};
  if (around.tailscale_key) all.push_back(*around.tailscale_key);
  for (const auto& [key, secret] : around.patch_secrets) all.push_back(secret);
  return all;
}

std::string boot_id(talos::Client& client) {
  return std::string(trim(client.read_file("/proc/sys/kernel/random/boot_id")));
}

/// A node's machine configuration: applied once in maintenance mode, compared section by section
/// afterwards.
class MachineKind final : public Thing {
 public:
  struct Wish {
    std::string node;
    std::string host_name;
    bool control_plane = false;
    int planes = 0;           // of the cluster
    std::size_t workers = 0;  // of the cluster
    bool existing = false;
    Uuid uuid;               // nothing is applied to a machine that has another one
    bool pinned = false;     // an existing machine that rocca.lock remembers from an earlier `up`
    bool uuid_known = true;  // false: an existing machine that was never met
    std::string fixed;       // the spec's address; empty: DHCP's
    Version talos;
    std::string schematic;
    std::string installer;  // the image that would bring it there
    Duration boot_timeout{};
    Duration bootstrap_timeout{};
    bool before_bootstrap = false;  // it may have its configuration, and the cluster has no etcd
    std::string applied;            // digest of the configuration that settled last; empty: never
    std::string nowhere;            // why it could never be found; empty: it can
    std::optional<VersionRefusal> unsupported{};  // versions that its patches name
    std::string host;                             // of its VM
    bool by_agent = false;                        // where it is, its VM's guest agent tells
    bool endpoint_from_dhcp = false;              // it is the first control plane's lease
    talos::Secrecy secrecy;                       // what may be shown of what it runs
    bool reset_begun = false;                     // by a removal that was interrupted
  };
  /// `rendered` is there when nothing but the spec decides what it says.
  MachineKind(About about, Wish wish, std::string wanted, std::shared_ptr<const Secret> rendered)
      : Thing(std::move(about)),
        wish_(std::move(wish)),
        wanted_(std::move(wanted)),
        rendered_(std::move(rendered)) {}

  std::optional<Live> read(World& world) const override {
    if (!wish_.nowhere.empty())
      return Live{
          "",
          {{refused, wish_.nowhere},
           {hint_of,
            "give it an address, or the extension qemu-guest-agent and machine.agent: true, "
            "or a network.subnet of at most 4096 addresses"}},
          {}};
    if (wish_.unsupported)
      return Live{"", {{refused, wish_.unsupported->why}, {hint_of, wish_.unsupported->hint}}, {}};
    // Without a VM nobody answers; who does has the address of what is about to be made.
    if (!wish_.existing && !world.known(vm_address(wish_.node))) return read_occupant(world);
    if (world.survey.too_early(boot_of(wish_.node)) > 0s)
      return Live{"", {{door, "closed"}, {told, "it boots"}}, {}};
    // One that was there before and is not where it was is worth a search; a new one is waited for.
    const Whereabouts where = whereabouts(world, wish_.node, wish_.uuid,
                                          wish_.applied.empty() ? Effort::Glance : Effort::Search);
    if (where.address.empty()) return Live{"", {{door, "closed"}, {told, where.told}}, {}};
    Live live{where.address,
              {},
              {{"address", where.address},
               {"node", wish_.node},
               {"name", wish_.host_name},
               {"role", wish_.control_plane ? "controlplane" : "worker"}}};
    if (wish_.existing) live.facts[was_there] = "yes";
    if (read_through(world, live)) return live;
    const talos::Sight sight = look_at(world, where.address);
    switch (sight.door) {
      case talos::Door::Closed:
        live.fields = {{door, "closed"}, {told, sight.told}};
        return live;
      case talos::Door::Foreign:
        live.fields = {{refused, fmt::format("who answers at {} runs a configuration of another "
                                             "cluster",
                                             where.address)},
                       {hint_of,
                        "is the address right and free? A machine that should be ours must be "
                        "reset first, which rocca never does unasked"}};
        return live;
      case talos::Door::Maintenance:
      case talos::Door::Ours:
        break;
    }
    if (is_resetting(sight)) return Live{"", {{door, "closed"}, {told, "it is being reset"}}, {}};
    const bool ours = sight.door == talos::Door::Ours;
    talos::Client client = ours ? world.talos(live.id) : world.maintenance(live.id);
    const std::optional<Uuid> shown = shown_uuid(client);
    if (const auto stranger = find_stranger(world.cluster, wish_.node, shown, live.id)) {
      if (!shown && !has_booted(sight)) throw Error(Fault::Busy, stranger->why);
      // A VM that is to have the address of one that leaves gets it when that is gone.
      if (stranger->leaves && !wish_.existing)
        return Live{"", {{door, "closed"}, {told, stranger->why}}, {}};
      live.fields = {{refused, stranger->why}, {hint_of, stranger->hint}};
      return live;
    }
    if (!ours) return std::nullopt;
    if (wish_.control_plane) world.survey.passes_on(live.id);
    read_ours(world, client, shown, live);
    world.survey.saw(wish_.node, sight);
    return live;
  }

  Change diff(const std::optional<Live>& live) const override {
    if (!live) return create("it has no configuration yet");
    if (const std::string why = fact(live->fields, refused); !why.empty())
      return refuse(why, fact(live->fields, hint_of));
    Change change;
    if (fact(live->fields, door) == "closed") {
      const std::string text = fact(live->fields, told);
      change.action = wish_.applied.empty() ? Action::Create : Action::Update;
      change.effect = Effect::Live;
      change.reason = fmt::format("it does not answer{}", text.empty() ? "" : " (" + text + ")");
      change.waits = true;
      change.perhaps = at_most();
      if (change.perhaps > Effect::Live)
        change.reason +=
            fmt::format(", and what its configuration lacks shows when it does (at most: {})",
                        to_string(change.perhaps));
      return change;
    }
    if (const std::string text = fact(live->fields, pending); !text.empty()) {
      change.action = Action::Update;
      change.effect = Effect::Live;
      change.reason = text;
      change.waits = true;
      change.perhaps = std::max(at_most(), Effect::Service);
      return change;
    }
    for (const auto& [path, value] : live->fields) {
      if (!value.starts_with(differs)) continue;
      const std::vector<std::string> lines = split(value, '\n');
      const auto effect = engine::parse_effect(lines[0].substr(std::string_view(differs).size()));
      change.fields.push_back({path, lines.at(1), lines.at(2), effect.value_or(Effect::Reboot)});
    }
    conclude(change);
    if (const std::string upgrade = upgrade_of(change); !upgrade.empty())
      change.reason = fmt::format(
          "{} (every API server first, then the other components, kubelets last)", upgrade);
    if (wish_.existing && !change.fields.empty() && wish_.applied.empty() && !wish_.pinned) {
      // It ran before an `up` of this cluster configured it: what it has stays unless the user says
      // otherwise.
      change.effect = std::max(change.effect, Effect::Replace);
      change.action = Action::Update;
      change.reason = "it runs a configuration of this cluster that is not the rendered one";
    }
    return change;
  }

  Receipt apply(World& world, const Change&, const std::optional<Live>& live) const override {
    if (live && fact(live->fields, door) == "closed")
      return {until_answer, "wait", world.survey.too_early(boot_of(wish_.node)),
              "the machine to boot"};
    const Whereabouts where = whereabouts(world, wish_.node, wish_.uuid);
    if (where.address.empty()) return {until_answer, "wait"};
    const talos::Sight sight = look_at(world, where.address);
    switch (sight.door) {
      case talos::Door::Closed:
        return {until_answer, "wait"};
      case talos::Door::Foreign:
        talos::until_secure(sight);  // says what is wrong
        return {};
      case talos::Door::Maintenance:
        return apply_first(world, where.address, sight);
      case talos::Door::Ours:
        return apply_change(world, where.address);
    }
    return {};
  }

  bool announces(const Change& change) const override { return change.action == Action::Create; }
  /// It is in maintenance mode: from now on what counts is the configuration that is sent to it.
  Fields announced_notes(const Change&) const override {
    return wish_.reset_begun ? Fields{{reset_note(wish_.node), ""}} : Fields{};
  }

  Progress probe(World& world, const Receipt& receipt) const override {
    // Of a removal that was interrupted: the machine is read to see how far that came.
    if (is_reset_receipt(receipt)) return Ready{};
    const Whereabouts where = whereabouts(world, wish_.node, wish_.uuid);
    if (const auto disturbance = Disturbance::parse(receipt.token))
      return until_well_again(world, *disturbance, where.address);
    // Nobody tells of a machine that is off where it is.
    if (where.address.empty())
      return kept_running(world, talos::Door::Closed, NotYet{where.told, where.ask_again});
    const bool reboots = receipt.token.starts_with(until_reboot);  // then etcd counts, too
    const auto [seen, at_home] =
        glance(world, where.address, reboots ? Detail::Services : Detail::Status);
    const talos::Sight sight = told_by_name(world, where.address, seen);
    return kept_running(world, sight.door, ask(world, receipt, where.address, sight, at_home));
  }

  /// An apply was sent in maintenance mode, and its answer never came. Whether it arrived shows by
  /// itself; only a node that stays as it is for a while did not get it.
  Progress probe_unknown(World& world) const override {
    const Whereabouts where = whereabouts(world, wish_.node, wish_.uuid);
    // What was announced last is the reset of an interrupted removal, not a configuration.
    if (wish_.reset_begun) return Ready{};
    // One that was changed while it ran may have been cut off by it.
    if (const auto changed = find_disturbance(world, wish_.node); changed && !changed->restarts)
      return until_well_again(world, *changed, where.address);
    if (where.address.empty()) return Ready{};
    const talos::Sight sight = told_by_name(
        world, where.address,
        talos::look(world.transport, world.access(where.address), world.stop, Detail::Status));
    // Its VM may have gone off since: then nothing would ever show.
    return kept_running(world, sight.door, probe_applied(world, sight));
  }

  Receipt destroy(World&, const Live&) const override { return {}; }  // it goes with its VM

  std::vector<Lane> lanes(const Change* change) const override {
    std::vector<Lane> lanes{{"talos/" + wish_.node, 1, Lane::Hold::Call}};
    if (wish_.by_agent) lanes.push_back(host_lane(wish_.host));
    if (change == nullptr || !disturbs(*change)) return lanes;
    const std::vector<Lane> careful = wish_.control_plane
                                          ? std::vector{disturbing_lane()}
                                          : worker_lanes(wish_.workers, ordeal_of(*change));
    lanes.insert(lanes.end(), careful.begin(), careful.end());
    return lanes;
  }

  /// The boot alone has its own timeout. A worker that has its configuration opens its API only
  /// once a control plane has signed its certificate, which the first bootstrap comes before.
  Duration patience(const Change& change) const override {
    const bool boots = change.waits && !wish_.before_bootstrap;
    const Duration own =
        wish_.boot_timeout + (wish_.control_plane || boots ? 0s : wish_.bootstrap_timeout);
    // Of an upgrade of Kubernetes it may be the last.
    return upgrade_of(change).empty() ? own : own + wish_.planes * upgrade_of_plane;
  }

  bool explains() const override { return true; }
  std::optional<engine::Explanation> explain(World& world) const override {
    return explain_node(world, wish_.node);
  }
  std::vector<Lane> explain_lanes() const override {
    return wish_.host.empty() ? std::vector<Lane>{} : std::vector{host_lane(wish_.host)};
  }

  /// A machine that is to have another name leaves under its old one first.
  Fields claims() const override {
    return wish_.existing && !wish_.fixed.empty() ? Fields{{"address", wish_.fixed}} : Fields{};
  }
  bool goes_with(const std::string& needed) const override {
    return needed == vm_address(wish_.node);
  }

 protected:
  Fields wishes() const override { return {{"config", wanted_}}; }

 private:
  /// What it may cost when a silent node answers: what its configuration lacks shows only then.
  Effect at_most() const {
    // Never settled, it may have got a configuration all the same: of a run that was stopped.
    if (wish_.applied != wanted()) return Effect::Reboot;
    return wish_.endpoint_from_dhcp ? Effect::Service : Effect::Live;
  }

  /// "Kubernetes v1.32.1 → v1.33.1"; empty: its version stays.
  static std::string upgrade_of(const Change& change) {
    for (const FieldChange& field : change.fields) {
      const bool image = std::any_of(
          talos::components.begin(), talos::components.end(),
          [&](talos::Component each) { return talos::image_path(each) == field.field; });
      const auto from = talos::image_version(field.before), to = talos::image_version(field.after);
      if (image && from && to && *from != *to)
        return fmt::format("Kubernetes v{} → v{}", to_string(*from), to_string(*to));
    }
    return "";
  }

  static bool disturbs(const FieldChange& field) {
    return field.effect >= Effect::Reboot ||
           talos::disturbance_at(field.field) != talos::Disturbance::None;
  }
  static bool disturbs(const Change& change) {
    return change.effect >= Effect::Reboot ||
           std::any_of(change.fields.begin(), change.fields.end(),
                       [](const FieldChange& field) { return disturbs(field); });
  }
  /// The same for all workers that go through the same: values are each one's own.
  static std::string ordeal_of(const Change& change) {
    std::vector<std::string> paths;
    for (const FieldChange& field : change.fields)
      if (disturbs(field)) paths.push_back(field.field);
    return "machine " + join(paths, " ");
  }

  /// One that was just started is knocked at shortly. One that was there before is given
  /// long before it counts as down: many are looked at at once, and a slow line or a busy machine
  /// of ours is no reason for another plan.
  talos::Sight look_at(World& world, const std::string& address) const {
    if (world.survey.is_awaited(boot_of(wish_.node)))
      return told_by_name(world, address, glance(world, address, Detail::Status).sight);
    const auto look = [&](const talos::Access& access) {
      return talos::look(world.transport, access, world.stop, Detail::Status);
    };
    talos::Sight sight = look(world.access(address));
    if (sight.door == talos::Door::Foreign) return told_by_name(world, address, std::move(sight));
    if (sight.door != talos::Door::Closed || wish_.applied.empty()) return sight;
    sight = look(world.patient_access(address));
    if (sight.door != talos::Door::Closed) world.survey.found_slow(address);
    return sight;
  }

  talos::Sight told_by_name(World& world, const std::string& address, talos::Sight sight) const {
    return look_by_name(world, address, wish_.host_name, std::move(sight));
  }

  Secret render(World& world, const std::string& where, talos::Client& client) const {
    if (rendered_) return *rendered_;
    const spec::Spec& spec = world.cluster.spec;
    const spec::Node* node = spec.find_node(wish_.node);
    if (node == nullptr) throw Error(Fault::Bug, wish_.node + " is no node of the spec");
    talos::Surroundings around = world.cluster.around;
    around.schematic = wish_.schematic;
    const auto planes = spec.control_planes();
    if (around.first_address.empty() && !planes.empty())
      around.first_address =
          planes.front()->name == wish_.node ? where : address_of(world, planes.front()->name);
    if (wish_.existing && !node->existing->disk && around.install_disk.empty())
      around.install_disk = install_disk(client);
    if (talos::needs_link(spec, *node) && around.link.empty()) around.link = link_of(client, where);
    return within("rendering the configuration of " + wish_.node,
                  [&] { return talos::render_text(talos::config_input(spec, *node, around)); });
  }

  std::optional<Live> read_occupant(World& world) const {
    const std::string who = occupant(world, wish_.node);
    if (who.empty()) return std::nullopt;
    const spec::Node* node = world.cluster.spec.find_node(wish_.node);
    return Live{
        "",
        {{refused,
          fmt::format("{} of {} is in use: {}", to_string(**node->address), wish_.node, who)},
         {hint_of, fmt::format("give {} another address, or move that machine away", wish_.node)}},
        {}};
  }

  /// The link that has the address we reach it by: on the others of a machine with several, that
  /// address, its route and a shared one would be wrong.
  std::string link_of(talos::Client& client, const std::string& where) const {
    const auto wanted = IpAddress::parse(where);
    for (const talos::Address& address : client.addresses()) {
      if (!wanted || address.address.address() != *wanted) continue;
      for (const talos::Link& link : client.links())
        if (link.name == address.link) return link.physical ? to_lower_string(link.mac) : link.name;
    }
    throw Error(Fault::NotFound, fmt::format("{} has {} on none of its links", wish_.node, where))
        .hint(
            "is it behind an address translation? Then name the link in "
            "kubernetes.endpoint.vip.interface");
  }

  /// The disk Talos is on, or the only one it could go to.
  std::string install_disk(talos::Client& client) const {
    const auto system = client.find_system_disk();
    std::vector<talos::Disk> disks;
    for (talos::Disk& disk : client.disks()) {
      if (disk.cdrom || disk.read_only || disk.size.count() == 0) continue;
      const auto name = [](const talos::Disk& each) {
        return each.serial.empty() ? each.path : each.serial;
      };
      if (system && (disk.name == *system || disk.path == *system)) return name(disk);
      disks.push_back(std::move(disk));
    }
    if (disks.size() == 1)
      return disks.front().serial.empty() ? disks.front().path : disks.front().serial;
    std::vector<std::string> names;
    for (const talos::Disk& disk : disks)
      names.push_back(
          fmt::format("{} ({}, serial '{}')", disk.path, to_string(disk.size), disk.serial));
    throw Error(Fault::Usage, disks.empty()
                                  ? fmt::format("{} has no disk to install Talos on", wish_.node)
                                  : fmt::format("{} has {} disks: {}", wish_.node, disks.size(),
                                                enumerate(names)))
        .hint(fmt::format("say which: nodes.{}.existing.disk", wish_.node));
  }

  /// From then on it shows its hardware, if it has any to show.
  static bool has_booted(const talos::Sight& sight) {
    return sight.status && (sight.status->stage == talos::Stage::Maintenance ||
                            sight.status->stage == talos::Stage::Running);
  }

  /// A minute may have passed since it was read: nothing is sent to another machine.
  void require_itself(World& world, talos::Client& client, const std::string& where) const {
    if (const auto stranger = find_stranger(world.cluster, wish_.node, shown_uuid(client), where))
      throw Error(Fault::Refused, stranger->why).hint(stranger->hint);
  }

  /// A worker that was settled before is asked through a control plane, as talosctl does. Whatever
  /// comes of it but a whole answer of this very machine proves nothing: then it is asked itself.
  bool read_through(World& world, Live& live) const {
    if (wish_.control_plane || wish_.applied.empty() || !wish_.uuid_known) return false;
    talos::Access access = world.access(live.id);
    const Survey::Passing passing = world.survey.who_passes_on();
    access.through = passing.through();
    if (access.through.empty() || !access.tls.server_name.empty()) return false;
    try {
      const auto sight = talos::look_through(world.transport, access, world.stop);
      Live answer = live;
      talos::Client client{world.transport, access, world.stop};
      if (!sight || is_resetting(*sight) || shown_uuid(client) != wish_.uuid) return false;
      read_ours(world, client, wish_.uuid, answer);
      world.survey.saw(wish_.node, *sight);
      live = std::move(answer);
      return true;
    } catch (const Error& error) {
      // ignored: the node is asked directly next, and that answer is reported.
      if (!is_external(error.fault())) throw;
      world.survey.passes_no_more(access.through);
      return false;
    }
  }

  void read_ours(World& world, talos::Client& client, const std::optional<Uuid>& shown,
                 Live& live) const {
    live.facts["version"] = client.version().tag;
    if (shown) live.facts["uuid"] = to_string(*shown);
    for (const talos::Extension& extension : client.extensions())
      if (extension.name == "schematic") live.facts["schematic"] = extension.version;
    const auto active = client.find_config();
    if (active) live.facts[config_seen] = digest(active->reveal()).substr(0, 16);
    if (const std::string missing = unknown_endpoint(world); !missing.empty()) {
      live.fields = {{door, "ours"}, {pending, missing}};
      return;
    }
    const Secret wanted = render(world, live.id, client);
    const auto minor = static_cast<unsigned>(wish_.talos.minor());
    const auto changes =
        active ? talos::shown_changes(active->reveal(), wanted.reveal(), minor, wish_.secrecy)
               : std::vector<talos::ShownChange>{};
    for (const talos::ShownChange& change : changes)
      live.fields[change.path] =
          fmt::format("{}{}\n{}\n{}", differs, to_string(effect_of(change.effect)), change.before,
                      change.after);
    // What it runs is what was rendered: which of its texts are secrets is known now, and must
    // still be known when the spec no longer tells.
    if (active && changes.empty())
      live.facts[secrets_seen] = talos::remember(active->reveal(), minor, wish_.secrecy);
    else if (!wish_.secrecy.remembered.empty())
      live.facts[secrets_seen] = wish_.secrecy.remembered;
    // Secrets and long texts are not there in full: a plan is bound to all of it.
    if (!changes.empty()) live.fields[config_in_force] = digest(active->reveal());
    live.fields[door] = "ours";
    if (active) refuse_versions(*active, wanted, live);
    refuse_fixed(changes, live);
    refuse_upgrade(live);
    const auto type = std::find_if(changes.begin(), changes.end(), [](const auto& change) {
      return change.path == "machine.type";
    });
    if (type == changes.end()) return;
    const Change role = refuse_role(wish_.node, /*was_control_plane=*/!wish_.control_plane);
    live.fields[refused] = role.refusal;
    live.fields[hint_of] = role.hint;
  }

  /// The endpoint is the lease of a control plane that is yet to be made.
  std::string unknown_endpoint(World& world) const {
    const auto planes = world.cluster.spec.control_planes();
    if (!wish_.endpoint_from_dhcp || planes.empty() || planes.front()->name == wish_.node)
      return "";
    const std::string& first = planes.front()->name;
    if (!world.cluster.around.first_address.empty() || !address_of(world, first).empty()) return "";
    return fmt::format("its endpoint is the address of {}, which is not known yet", first);
  }

  /// What it runs decides, not what an earlier spec said: somebody else may have upgraded it.
  void refuse_versions(const Secret& active, const Secret& wanted, Live& live) const {
    const bool same = active.reveal() == wanted.reveal();
    if (same && !wish_.control_plane) return;
    const auto minor = static_cast<unsigned>(wish_.talos.minor());
    const talos::KubernetesImages images = talos::kubernetes_images(active.reveal(), minor);
    if (const auto version = talos::image_version(images.of(talos::Component::ApiServer)))
      live.facts[api_server_seen] = to_string(*version);
    if (same) return;
    const auto refusal =
        refuse_step(wish_.node, images, talos::kubernetes_images(wanted.reveal(), minor));
    if (!refusal) return;
    live.fields[refused] = refusal->why;
    live.fields[hint_of] = refusal->hint;
  }

  /// What was decided when the node or the cluster was created.
  void refuse_fixed(const std::vector<talos::ShownChange>& changes, Live& live) const {
    // A machine that gets another name leaves under its old one first, and comes back empty.
    if (wish_.existing && wish_.applied.empty()) return;
    for (const talos::ShownChange& change : changes) {
      if (change.effect != talos::ConfigEffect::Fixed) continue;
      const auto shown = [](const std::string& value) { return value.empty() ? "nothing" : value; };
      live.fields[refused] =
          fmt::format("{} of {} cannot be changed from {} to {}: {}", change.path, wish_.node,
                      shown(change.before), shown(change.after), talos::why_fixed(change.path));
      live.fields[hint_of] = talos::way_out(change.path);
      return;
    }
  }

  /// Another version or schematic than the spec's is an upgrade, not a configuration.
  void refuse_upgrade(Live& live) const {
    const std::string want = "v" + to_string(wish_.talos);
    const std::string& version = live.facts["version"];
    const auto schematic = live.facts.find("schematic");
    if (!version.empty() && version != want) {
      live.fields[refused] = fmt::format(
          "{} runs Talos {}, and the spec says {}: an upgrade, of "
          "class reboot",
          wish_.node, version, want);
    } else if (schematic != live.facts.end() && schematic->second != wish_.schematic) {
      live.fields[refused] = fmt::format(
          "{} was installed with schematic {}, and the spec's is {}: an upgrade to the same "
          "version, of class reboot",
          wish_.node, schematic->second.substr(0, 12), wish_.schematic.substr(0, 12));
    } else {
      return;
    }
    live.fields[hint_of] = fmt::format(
        "rocca does not upgrade nodes yet: keep talos.version, extensions and kernelArgs as they "
        "are, or upgrade node by node with `talosctl upgrade -n {} "
        "--image {}`",
        live.id, wish_.installer);
  }

  Receipt apply_first(World& world, const std::string& where, const talos::Sight& sight) const {
    // The stage leaves maintenance as soon as a configuration is taken, before the port closes.
    if (sight.status && sight.status->stage != talos::Stage::Maintenance)
      return {until_applied, "wait"};
    talos::Client client = world.maintenance(where);
    require_itself(world, client, where);
    const Secret config = render(world, where, client);
    wait_for_api_servers(world, wish_.node, config);
    world.survey.wait_anew(address() + " in maintenance mode");
    client.apply(config, {talos::ApplyMode::Auto, false, 1min, wish_.secrecy.hidden});
    world.survey.wait_begins(address(), taking(), takes_at_least);
    return {until_applied, "apply", world.survey.too_early(address())};
  }

  Receipt apply_change(World& world, const std::string& where) const {
    talos::Client client = world.talos(where);
    require_itself(world, client, where);
    const Secret desired = render(world, where, client);
    const auto active = client.find_config();
    const auto [config, waits_for] =
        active ? next_config(world, wish_.node, *active, desired) : NextConfig{desired, ""};
    const auto minor = static_cast<unsigned>(wish_.talos.minor());
    const auto changes = active ? talos::effects_of_change(active->reveal(), config.reveal(), minor)
                                : std::vector<talos::ConfigChange>{};
    if (active && changes.empty() && !waits_for.empty())
      throw Error(Fault::Busy, fmt::format("{} waits for {}", wish_.node, waits_for));
    if (active && changes.empty()) return {};
    for (const talos::ConfigChange& change : changes)
      if (change.effect == talos::ConfigEffect::Fixed)
        throw Error(Fault::Refused, fmt::format("{} of {} cannot be changed: {}", change.path,
                                                wish_.node, talos::why_fixed(change.path)))
            .hint(talos::way_out(change.path));
    const bool reboots = talos::effect_of(changes) == talos::ConfigEffect::Reboot;
    if (!reboots) {
      const auto disturbance = begin_disturbing(world, where, changes, /*restarts=*/false);
      // Said explicitly: what Talos itself would reboot for must not be a surprise.
      client.apply(config, {talos::ApplyMode::NoReboot, false, 1min, wish_.secrecy.hidden});
      if (!disturbance) return {"", "apply"};
      return {disturbance->token(), "apply", disturbance->settles(),
              wish_.node + " to be well again"};
    }
    if (wish_.control_plane)
      wait_for_quorum(world, wish_.node);
    else
      begin_disturbing(world, where, changes, /*restarts=*/true);
    const std::string before = boot_id(client);
    const talos::Applied applied =
        client.apply(config, {talos::ApplyMode::Auto, false, 1min, wish_.secrecy.hidden});
    if (applied.mode == talos::ApplyMode::NoReboot) {  // this Talos knows more keys than we do
      is_well_again(world, wish_.node);
      return {"", "apply"};
    }
    return {std::string(until_reboot) + before, "apply and reboot"};
  }

  std::optional<Disturbance> begin_disturbing(World& world, const std::string& where,
                                              const std::vector<talos::ConfigChange>& changes,
                                              bool restarts) const {
    Disturbance disturbance;
    disturbance.node = wish_.node;
    disturbance.worker = !wish_.control_plane;
    disturbance.restarts = restarts;
    disturbance.how = restarts ? talos::Disturbance::Away : talos::disturbance_of(changes);
    if (disturbance.how == talos::Disturbance::None) return std::nullopt;
    std::vector<std::string> paths;
    for (const talos::ConfigChange& change : changes) paths.push_back(change.path);
    disturbance.what = "a change of its " + enumerate(paths);
    disturbance.way_back = fmt::format(
        "say in the spec what it was before, and `rocca up` takes it back as long as the node "
        "answers at {}",
        where);
    before_disturbing(world, disturbance, where);
    return disturbance;
  }

  Progress ask(World& world, const Receipt& receipt, const std::string& where,
               const talos::Sight& sight, bool at_home) const {
    if (receipt.token == until_answer) {
      const std::string boot = boot_of(wish_.node);
      if (sight.door == talos::Door::Closed)
        return NotYet{talos::until_maintenance(sight).waiting_for,
                      world.survey.look_again(boot, "boot", at_home)};
      world.survey.wait_over(boot);
      return Ready{};
    }
    if (receipt.token.starts_with(until_reboot)) {
      Progress progress =
          probe_reboot(world, where, sight, receipt.token.substr(until_reboot.size()));
      if (const auto* waits = std::get_if<NotYet>(&progress)) {
        if (const auto rebooted = find_disturbance(world, wish_.node))
          miss(world, *rebooted, waits->waiting_for);
      } else {
        is_well_again(world, wish_.node);
      }
      return progress;
    }
    return probe_applied(world, sight);
  }

  /// A node that is silent for long may be off: its host was lost and came back after the VM was
  /// looked at, or while we wait. It is proved to be ours, and only started again.
  /// That is asked of its host, which takes three calls at a time: so with its lane.
  Progress kept_running(World& world, talos::Door seen, Progress progress) const {
    const bool with_lane = world.survey.has_lanes(address()) || wish_.by_agent;
    const auto vm = wish_.existing ? std::nullopt : world.known(vm_address(wish_.node));
    const auto vmid = parse_uint(fact(vm, "vmid"));
    auto* waits = std::get_if<NotYet>(&progress);
    const std::string name = address() + " to be on";
    if (seen != talos::Door::Closed || waits == nullptr || !vmid) return progress;
    if (world.survey.waiting_since(name) < silence) return progress;
    const std::string host = fact(vm, "host");
    if (!with_lane) {
      world.survey.next_with_lanes(address());
      waits->with = {host_lane(host)};
      waits->ask_again = {};
      return progress;
    }
    world.survey.wait_anew(name);
    try {
      const auto id = static_cast<proxmox::Vmid>(*vmid);
      const auto status = world.proxmox().find_status(host, id);
      if (status && status->status == "stopped") {
        world.survey.forget(id);
        const VmSight sight =
            find_vm(world, {world.cluster.identity_of(wish_.node), id, "", false});
        if (sight.found) world.proxmox().start_vm(sight.found->vm);
      }
    } catch (const Error& error) {
      if (!is_external(error.fault())) throw;
      waits->waiting_for +=
          fmt::format("; VM {} cannot be started: {}", fact(vm, "vmid"), error.message());
    }
    return progress;
  }

  Progress probe_applied(World& world, const talos::Sight& sight) const {
    if (sight.door == talos::Door::Maintenance) {
      const Duration since = world.survey.waiting_since(address() + " in maintenance mode");
      const bool taken = sight.status && sight.status->stage != talos::Stage::Maintenance;
      if (!taken && since > settling) return Ready{};  // it never got it: read and decide anew
      return NotYet{taken ? fmt::format("the node, which has taken its configuration (now {})",
                                        to_string(sight.status->stage))
                          : "the node to take its configuration",
                    world.survey.look_again(address(), taking())};
    }
    const talos::Progress secure = talos::until_secure(sight);
    if (secure.done) {
      world.survey.wait_over(address());
      return Ready{};
    }
    const Duration again = world.survey.look_again(address(), taking());
    if (sight.door != talos::Door::Closed) return NotYet{secure.waiting_for, again};
    // Between maintenance mode and its own API nobody listens: that is no failure.
    return NotYet{fmt::format("the node to come back secure, with a certificate of its own{}{}",
                              wish_.control_plane ? "" : ", which a control plane signs",
                              sight.told.empty() ? "" : " (" + sight.told + ")"),
                  again};
  }

  /// A worker gets its certificate from a control plane, which may take longer.
  std::string taking() const {
    return wish_.control_plane ? "configuration of a control plane" : "configuration of a worker";
  }

  Progress probe_reboot(World& world, const std::string& where, const talos::Sight& sight,
                        const std::string& before) const {
    const talos::Progress running = talos::until_running(sight);
    if (!running.done) return NotYet{running.waiting_for, 2s};
    talos::Client client = world.talos(where);
    if (boot_id(client) == before) return NotYet{"the node to reboot", 1s};
    if (wish_.control_plane) {
      const talos::Progress etcd = talos::until_etcd(sight);
      if (!etcd.done) return NotYet{etcd.waiting_for, 2s};
    }
    return Ready{};
  }

  Wish wish_;
  std::string wanted_;
  std::shared_ptr<const Secret> rendered_;
};

}  // namespace

std::string machine_address(const std::string& node) {
  return "machine/" + node;
}

Made make_machine(const Cluster& cluster, const Ground& ground, const spec::Node& node) {
  const spec::Spec& spec = cluster.spec;
  MachineKind::Wish wish;
  wish.node = node.name;
  wish.host_name = node.host_name;
  wish.control_plane = node.control_plane();
  wish.planes = static_cast<int>(spec.control_planes().size());
  wish.workers = spec.workers().size();
  wish.existing = node.existing.has_value();
  const std::optional<Uuid> uuid = cluster.find_uuid(node.name);
  wish.uuid_known = uuid.has_value();
  if (uuid) wish.uuid = *uuid;
  if (const auto locked = cluster.lock.nodes.find(node.name); locked != cluster.lock.nodes.end())
    wish.pinned = wish.existing && locked->second.uuid == uuid && uuid && !locked->second.vmid;
  if (node.address) wish.fixed = to_string(**node.address);
  wish.nowhere = cannot_be_found(spec, node);
  if (node.machine) {
    if (const auto chosen = cluster.lock.nodes.find(node.name); chosen != cluster.lock.nodes.end())
      wish.host = chosen->second.host;
    wish.by_agent = !node.address && *node.machine->agent && !wish.host.empty();
  }
  if (node.existing && !node.address && !wish.uuid_known)
    wish.nowhere = fmt::format(
        "{} is a machine that is already there, and has neither an address nor a known hardware "
        "UUID",
        node.name);
  wish.talos = *spec.talos.version;
  wish.schematic = cluster.images.at(node.name).id;
  wish.installer = talos::installer_of(spec, node, wish.schematic);
  wish.boot_timeout = spec.timeouts.boot;
  wish.bootstrap_timeout = spec.timeouts.bootstrap;
  std::vector<std::string> needs;
  if (node.machine) needs.push_back(vm_address(node.name));
  // Where only DHCP knows the endpoint, every configuration waits for the first control plane.
  const auto planes = spec.control_planes();
  wish.endpoint_from_dhcp = *spec.network.addressing == spec::Addressing::Dhcp &&
                            !spec.kubernetes.endpoint && !planes.front()->address;
  if (wish.endpoint_from_dhcp && planes.front()->name != node.name)
    needs.push_back(machine_address(planes.front()->name));
  wish.reset_begun = find_begun_removal(ground, node.name).reset;
  wish.secrecy = {secrets_in(cluster.around), talos::digest_key(cluster.bundle())};
  if (const state::Item* item = ground.item(machine_address(node.name))) {
    wish.applied = item->settled ? item->applied : "";
    wish.secrecy.remembered = fact(item->facts, secrets_seen);
    wish.before_bootstrap =
        !ground.prior.bootstrapped && (item->settled || item->receipt != until_answer);
  }
  // What is wanted, as far as it is known before anything runs: the spec's own words.
  talos::Surroundings around = cluster.around;
  around.schematic = wish.schematic;
  const bool needs_address = around.first_address.empty() && !spec.kubernetes.endpoint &&
                             !planes.empty() && !planes.front()->address;
  if (needs_address) around.first_address = "10.255.255.255";
  const bool marked = !talos::mark_unknown(around, spec, node).empty();
  const talos::ConfigInput input = talos::config_input(spec, node, around);
  auto config = std::make_shared<const Secret>(talos::render_text(input));
  if (!input.patches.empty())
    wish.unsupported = refuse_images(
        node.name,
        talos::kubernetes_images(config->reveal(), static_cast<unsigned>(wish.talos.minor())),
        *spec.kubernetes.version);
  const std::string wanted = digest(config->reveal());
  if (needs_address || marked) config.reset();
  return std::make_shared<MachineKind>(Thing::About{machine_address(node.name), std::move(needs),
                                                    to_string(spec.position(node.where))},
                                       std::move(wish), wanted, std::move(config));
}

}  // namespace rocca::resources
