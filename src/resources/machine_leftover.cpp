#include "resources/farewell.hpp"
#include "resources/kinds.hpp"
#include "resources/node_object.hpp"
#include "resources/stranger.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

constexpr const char* stage = "stage";
constexpr const char* refused = "refused";
constexpr const char* hint_of = "hint";

/// The configuration of a node that is going away: it is reset, so that nothing of the cluster is
/// left on its disk and it leaves in order.
class LeftoverMachine final : public Thing {
 public:
  LeftoverMachine(About about, Leaver leaver, std::string role)
      : Thing(std::move(about)), leaver_(std::move(leaver)), role_(std::move(role)) {}

  std::optional<Live> read(World& world) const override {
    const std::string& where = leaver_.where;
    if (where.empty() && leaver_.host_name.empty()) return std::nullopt;
    if (leaver_.with_all)
      if (auto why = refusal(world)) return why;
    const talos::Sight sight = look_at(world, leaver_);
    // Whoever else answers there is not ours any more. Its Node stays until somebody removes it.
    if (sight.door != talos::Door::Ours) {
      const auto object =
          leaver_.with_all ? std::nullopt : find_node_object(world, leaver_.host_name);
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
    const talos::Sight sight = look_at(world, leaver_);
    if (sight.door != talos::Door::Ours) {
      if (live.fields.contains("node"))
        remove_node_object(world, leaver_.host_name, fact(live.facts, "uid"));
      return {"", "remove the Node"};
    }
    return is_leaving(sight) ? Receipt{"reset", "reset"} : send_away(world, leaver_);
  }

  Progress probe(World& world, const Receipt& receipt) const override {
    if (receipt.token.empty()) return Ready{};
    return await_silence(world, leaver_);
  }

  std::vector<Lane> lanes(const Change*) const override {
    return {{"talos/" + leaver_.node, 1, Lane::Hold::Call}};
  }
  Duration patience(const Change&) const override { return 10min; }

 protected:
  Fields wishes() const override { return {}; }

 private:
  /// A machine that was there before is wiped only if it is provably the one that is meant.
  std::optional<Live> refusal(World& world) const {
    if (leaver_.where.empty()) return std::nullopt;
    const talos::Sight sight = talos::look(world.transport, world.access(leaver_.where), world.stop,
                                           talos::Detail::Status);
    if (sight.door != talos::Door::Ours) return std::nullopt;
    const auto refuse = [&](const std::string& why, const std::string& hint) {
      return Live{leaver_.where, {{refused, why}, {hint_of, hint}}, {}};
    };
    talos::Client client = world.talos(leaver_.where);
    if (const std::string doubt = find_doubt(world.cluster, leaver_.node); !doubt.empty())
      return refuse(doubt, fmt::format("say which it is: nodes.{}.existing.uuid; `rocca up` writes "
                                       "it down if it is so",
                                       leaver_.node));
    if (const auto stranger =
            find_stranger(world.cluster, leaver_.node, shown_uuid(client), leaver_.where))
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
        "{} may be a control plane that etcd counts on: the state does not know it, and its notes "
        "are not as rocca wrote them",
        node);
    change.hint = fmt::format(
        "put {0} back into the spec with its role and run `rocca up`, which writes its notes anew; "
        "a worker can be taken away then",
        node);
  }
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
