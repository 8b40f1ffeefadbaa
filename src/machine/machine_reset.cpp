#include "base/error.hpp"
#include "machine/discover.hpp"
#include "machine/kinds.hpp"
#include "machine/machine_identity.hpp"
#include "machine/node_object.hpp"
#include "machine/node_removal.hpp"
#include "platform/kinds.hpp"
#include "platform/survey.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

constexpr const char* stage = "stage";
constexpr const char* refused = "refused";
constexpr const char* hint_of = "hint";

std::string reset_of(const std::string& node) {
  return "reset of " + node + " that was there before";
}

/// The configuration of a node that is going away: it is reset, so that nothing of the cluster is
/// left on its disk and it leaves in order.
class LeftoverMachine final : public Thing {
 public:
  LeftoverMachine(About about, Leaver leaver, std::string role)
      : Thing(std::move(about)), leaver_(std::move(leaver)), role_(std::move(role)) {}

  std::optional<Live> read(World& world) const override {
    if (leaver_.with_all) return read_with_all(world);
    const std::string& where = leaver_.where;
    if (where.empty() && leaver_.host_name.empty()) return std::nullopt;
    const talos::Sight sight = look_at(world, leaver_);
    // Whoever else answers there is not ours any more. Its Node stays until somebody removes it.
    if (sight.door != talos::Door::Ours) {
      const auto object = find_node_object(world, leaver_.host_name);
      if (!object) return std::nullopt;
      return Live{where, {{"node", leaver_.host_name}}, {{"uid", object->uid}}};
    }
    if (is_leaving(sight)) return Live{where, {{stage, to_string(sight.status->stage)}}, {}};
    return Live{where, {{stage, "ours"}}, {{"address", where}}};
  }

  Change diff(const std::optional<Live>& live) const override {
    if (!live) return {};
    Change change;
    change.action = Action::Destroy;
    change.effect = Effect::DataLoss;
    change.reason = leaver_.with_all ? "the cluster goes down" : "no node of the spec wants it";
    if (const std::string why = fact(live->fields, refused); !why.empty()) {
      change.refusal = why;
      change.hint = fact(live->fields, hint_of);
      return change;
    }
    const bool resets = leaver_.stays && live->fields.contains(stage);
    if (resets) change.reason += ": it is reset and comes back in maintenance mode";
    for (const auto& [name, value] : live->fields)
      change.fields.push_back({name, value, resets && name == stage ? "maintenance" : "", {}});
    guard_role(change, leaver_.node, role_);
    return change;
  }

  Receipt apply(World& world, const Change&, const std::optional<Live>& live) const override {
    return live ? destroy(world, *live) : Receipt{};
  }

  Receipt destroy(World& world, const Live& live) const override {
    const Leaver its = at(live.id);
    const talos::Sight sight = look_at(world, its);
    if (sight.door != talos::Door::Ours) {
      if (live.fields.contains("node"))
        remove_node_object(world, leaver_.host_name, fact(live.facts, "uid"));
      return {"", "remove the Node"};
    }
    world.survey.wait_begins(reset_of(leaver_.node), "reset", 0s);
    if (!is_leaving(sight)) send_away(world, its);
    return {std::string(reset_receipt) + live.id, "reset"};
  }

  Progress probe(World& world, const Receipt& receipt) const override {
    if (receipt.token.empty()) return Ready{};
    // An older receipt does not say where.
    return await_silence(world, is_reset_receipt(receipt)
                                    ? at(receipt.token.substr(reset_receipt.size()))
                                    : leaver_);
  }

  /// With the whole cluster: as for VMs, see LeftoverVm. Of one node: a reset wipes its disk, and
  /// the next run must know that even if this one is killed, because the spec may want the node
  /// again.
  bool announces(const Change&) const override { return true; }
  Fields announced_notes(const Change&) const override {
    return leaver_.with_all ? Fields{} : Fields{{reset_note(leaver_.node), announced_value}};
  }
  /// A wiped VM is still there when its machine is gone.
  std::vector<std::string> forgotten_notes() const override {
    if (!leaver_.stays) return {};
    return {cordon_note(leaver_.node), reset_note(leaver_.node)};
  }

  std::vector<Lane> lanes(const Change*) const override {
    return {{"talos/" + leaver_.node, 1, Lane::Hold::Call}};
  }
  Duration patience(const Change&) const override { return 10min; }

 protected:
  Fields wishes() const override { return {}; }

 private:
  Leaver at(const std::string& where) const {
    Leaver its = leaver_;
    its.where = where;
    return its;
  }

  /// A machine that was there before, which is to be reset: whoever asked for that is told of each
  /// one that cannot be.
  std::optional<Live> read_with_all(World& world) const {
    if (world.survey.is_awaited(reset_of(leaver_.node))) return std::nullopt;  // it has begun
    const std::string where = find(world);
    const talos::Sight sight = talos::look(world.transport, world.patient_access(where), world.stop,
                                           talos::Detail::Status);
    switch (sight.door) {
      case talos::Door::Closed:
        throw not_reset(fmt::format("nobody answers at {}{}", where,
                                    sight.told.empty() ? "" : " (" + sight.told + ")"));
      case talos::Door::Foreign:
        throw not_reset(
            fmt::format("who answers at {} runs a configuration of another cluster", where));
      case talos::Door::Maintenance: {
        talos::Client client = world.maintenance(where);
        if (const auto stranger =
                find_stranger(world.cluster, leaver_.node, shown_uuid(client), where))
          throw not_reset(stranger->why);
        return std::nullopt;  // it is as a reset leaves it
      }
      case talos::Door::Ours:
        break;
    }
    if (auto why = refusal(world, where)) return why;
    if (is_leaving(sight)) return Live{where, {{stage, to_string(sight.status->stage)}}, {}};
    return Live{where, {{stage, "ours"}}, {{"address", where}}};
  }

  /// Where it answers: as the spec or the state says, and with DHCP wherever its hardware is.
  std::string find(World& world) const {
    const spec::Node* node = world.cluster.spec.find_node(leaver_.node);
    if (node == nullptr || node->address) return leaver_.where;
    if (!leaver_.uuid && leaver_.where.empty())
      throw not_reset("nobody knows where it is, nor its hardware UUID");
    if (!leaver_.uuid) return leaver_.where;
    const Whereabouts found = whereabouts(world, leaver_.node, *leaver_.uuid, Effort::Search);
    if (!found.address.empty()) return found.address;
    const std::string never = cannot_be_found(world.cluster.spec, *node);
    throw not_reset(never.empty()
                        ? fmt::format("machine {} was not met in {}", to_string(*leaver_.uuid),
                                      to_string(**world.cluster.spec.network.subnet))
                        : never);
  }

  Error not_reset(const std::string& why) const {
    return Error(Fault::Unreachable, fmt::format("{} is not reset: {}", leaver_.node, why))
        .hint(fmt::format("once {} answers, the same command resets it; `rocca down` without "
                          "--reset-existing leaves it as it is",
                          leaver_.node));
  }

  /// A machine that was there before is wiped only if it is provably the one that is meant.
  std::optional<Live> refusal(World& world, const std::string& where) const {
    const auto refuse = [&](const std::string& why, const std::string& hint) {
      return Live{where, {{refused, why}, {hint_of, hint}}, {}};
    };
    talos::Client client = world.talos(where);
    if (const std::string doubt = find_doubt(world.cluster, leaver_.node); !doubt.empty())
      return refuse(doubt, fmt::format("say which it is: nodes.{}.existing.uuid; `rocca up` writes "
                                       "it down if it is so",
                                       leaver_.node));
    if (const auto stranger = find_stranger(world.cluster, leaver_.node, shown_uuid(client), where))
      return refuse(stranger->why, stranger->hint);
    return std::nullopt;
  }

  Leaver leaver_;
  std::string role_;
};

}  // namespace

void guard_role(Change& change, const std::string& node, const std::string& role) {
  if (role == "controlplane") {
    change.refusal = fmt::format("{} is a control plane, and etcd counts on it", node);
    change.hint =
        fmt::format("put {} back into the spec: rocca takes no control plane away yet", node);
  } else if (role == "unknown") {
    change.refusal = fmt::format(
        "{} may be a control plane that etcd counts on: the state does not know it, and neither "
        "etcd nor the node itself answers that it is a worker",
        node);
    change.hint = fmt::format(
        "put {0} back into the spec with its role and run `rocca up`; a worker can be removed then",
        node);
  }
}

Change refuse_role(const std::string& node, bool was_control_plane) {
  return was_control_plane
             ? refuse(fmt::format("{} is a control plane, and the spec makes it a worker: etcd "
                                  "counts on it",
                                  node),
                      fmt::format("give {} its role back: rocca takes no control plane away yet",
                                  node))
             : refuse(fmt::format("{} is a worker, and the spec makes it a control plane: a node "
                                  "stays what it is",
                                  node),
                      fmt::format("give {0} its role back, and add a control plane of another "
                                  "name; or take {0} out of the spec, run `rocca up`, and add it "
                                  "again",
                                  node));
}

Made leftover_machine(const Cluster& cluster, const Leftover& leftover) {
  Leaver leaver;
  leaver.node = leftover.address.substr(leftover.address.find('/') + 1);
  leaver.where = fact(leftover.facts, "address");
  leaver.host_name = fact(leftover.facts, "name");
  leaver.uuid = Uuid::parse(fact(leftover.facts, "uuid"));
  leaver.with_all = fact(leftover.facts, "whole cluster") == "yes";
  if (leaver.with_all) leaver.uuid = cluster.find_uuid(leaver.node);
  // Where it stands on no VM there is none to switch on again, whatever is remembered of it.
  const auto& needs = leftover.needs;
  leaver.stays = leaver.with_all || fact(leftover.facts, was_there) == "yes" ||
                 std::find(needs.begin(), needs.end(), vm_address(leaver.node)) == needs.end();
  return std::make_shared<LeftoverMachine>(Thing::About{leftover.address, leftover.needs, ""},
                                           std::move(leaver), fact(leftover.facts, "role"));
}

}  // namespace rocca::resources
