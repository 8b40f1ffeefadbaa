#include "base/error.hpp"
#include "resources/kinds.hpp"
#include "resources/node_object.hpp"
#include "resources/survey.hpp"
#include "talos/waits.hpp"

#include <fmt/format.h>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

/// The configuration of a node that is going away: it is reset, so that nothing of the cluster is
/// left on its disk and it leaves in order.
class LeftoverMachine final : public Thing {
 public:
  LeftoverMachine(About about, std::string where, std::string node, std::string host_name,
                  bool control_plane, bool stays)
      : Thing(std::move(about)),
        where_(std::move(where)),
        node_(std::move(node)),
        host_name_(std::move(host_name)),
        control_plane_(control_plane),
        stays_(stays) {}

  std::optional<Live> read(World& world) const override {
    if (where_.empty()) return std::nullopt;
    const talos::Sight sight = talos::look(world.transport, world.access(where_), world.stop);
    // Whoever else answers there is not ours any more. Its Node stays until somebody removes it.
    if (sight.door != talos::Door::Ours) {
      const auto object = stays_ ? std::nullopt : find_node_object(world, host_name_);
      if (!object) return std::nullopt;
      return Live{where_, {{"node", host_name_}}, {{"uid", object->uid}}};
    }
    if (sight.status && (sight.status->stage == talos::Stage::Resetting ||
                         sight.status->stage == talos::Stage::ShuttingDown))
      return Live{where_, {{"stage", to_string(sight.status->stage)}}, {}};
    return Live{where_, {{"stage", "ours"}}, {{"address", where_}}};
  }

  Change diff(const std::optional<Live>& live) const override {
    if (!live) return {};
    Change change;
    change.action = Action::Destroy;
    change.effect = Effect::DataLoss;
    change.reason = "no node of the spec wants it";
    for (const auto& [name, value] : live->fields) change.fields.push_back({name, value, "", {}});
    if (control_plane_) {
      change.refusal = fmt::format("{} is a control plane, and etcd counts on it", node_);
      change.hint =
          fmt::format("put {} back into the spec: rocca takes no control plane away yet", node_);
    }
    return change;
  }

  Receipt apply(World& world, const Change&, const std::optional<Live>& live) const override {
    return live ? destroy(world, *live) : Receipt{};
  }

  Receipt destroy(World& world, const Live& live) const override {
    const talos::Sight sight = talos::look(world.transport, world.access(where_), world.stop);
    if (sight.door != talos::Door::Ours) {
      if (live.fields.contains("node"))
        remove_node_object(world, host_name_, fact(live.facts, "uid"));
      return {"", "remove the Node"};
    }
    const bool going = sight.status && (sight.status->stage == talos::Stage::Resetting ||
                                        sight.status->stage == talos::Stage::ShuttingDown);
    if (!going) {
      talos::ResetOptions options;
      // A machine that stays comes back in maintenance mode; with the whole cluster going, leaving
      // etcd in order is neither possible nor needed.
      options.graceful = !stays_;
      options.reboot = stays_;
      talos::Client client = world.talos(where_);
      // Talos in a container has folders in their place, and refuses to wipe what it cannot find.
      if (stays_ && client.find_system_disk()) options.partitions = {"STATE", "EPHEMERAL"};
      client.reset(options);
    }
    return {"reset", "reset"};
  }

  Progress probe(World& world, const Receipt& receipt) const override {
    if (receipt.token.empty()) return Ready{};
    const talos::Sight sight = talos::look(world.transport, world.access(where_), world.stop);
    if (sight.door != talos::Door::Ours) return Ready{};
    // A reset that hangs must not keep the VM alive: it is proved and destroyed all the same.
    if (world.survey.waiting_since(address() + " reset") > 5min) return Ready{};
    return NotYet{fmt::format("{} to be reset (now {})", node_,
                              sight.status ? to_string(sight.status->stage) : "unknown"),
                  2s};
  }

  std::vector<Lane> lanes(const Change*) const override {
    return {{"talos/" + node_, 1, Lane::Hold::Call}};
  }
  Duration patience(const Change&) const override { return 10min; }

 protected:
  Fields wishes() const override { return {}; }

 private:
  std::string where_, node_, host_name_;
  bool control_plane_;
  bool stays_;  // it was there before us
};

}  // namespace

Made leftover_machine(const Cluster&, const Leftover& leftover) {
  const std::string node = leftover.address.substr(leftover.address.find('/') + 1);
  return std::make_shared<LeftoverMachine>(
      Thing::About{leftover.address, leftover.needs, ""}, fact(leftover.facts, "address"), node,
      fact(leftover.facts, "name"), fact(leftover.facts, "role") == "controlplane",
      fact(leftover.facts, "whole cluster") == "yes");
}

}  // namespace rocca::resources
