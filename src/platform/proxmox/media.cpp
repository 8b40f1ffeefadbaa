#include "base/error.hpp"
#include "base/strings.hpp"
#include "machine/kinds.hpp"
#include "platform/kinds.hpp"
#include "platform/proxmox/kinds.hpp"
#include "platform/survey.hpp"
#include "platform/vm_find.hpp"

#include <fmt/format.h>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

/// That the ISO a node was installed from is out of its drive: it halts a machine that is
/// installed, and nobody can delete an image that a VM holds.
class MediaKind final : public Thing {
 public:
  MediaKind(About about, engine::Identity identity, proxmox::Vmid vmid, std::string host,
            std::string slot)
      : Thing(std::move(about)),
        identity_(std::move(identity)),
        vmid_(vmid),
        host_(std::move(host)),
        slot_(std::move(slot)) {}

  std::optional<Live> read(World& world) const override {
    const VmSight sight = find_vm(world, {identity_, vmid_, "", false});
    if (!sight.found) return std::nullopt;
    const std::string* drive = sight.found->config.find(slot_);
    const bool holds = drive != nullptr && drive->find(":iso/") != std::string::npos;
    return Live{fmt::format("{} of {}", slot_, vmid_),
                {{"medium", holds ? drive->substr(0, drive->find(',')) : "none"}},
                {{"vmid", std::to_string(vmid_)}}};
  }

  Change diff(const std::optional<Live>& live) const override {
    if (!live) return create("the node is not installed yet");
    if (live->fields.at("medium") == "none") return {};
    Change change;
    change.fields.push_back({"medium", live->fields.at("medium"), "none", Effect::Live});
    conclude(change);
    change.reason = "the node is installed, and the ISO would halt it";
    return change;
  }

  Receipt apply(World& world, const Change&, const std::optional<Live>&) const override {
    world.survey.forget(vmid_);
    const VmSight sight = find_vm(world, {identity_, vmid_, "", false});
    if (!sight.found) throw Error(Fault::NotFound, "the VM of " + address() + " is gone");
    proxmox::VmUpdate update;
    update.set[slot_] = "none,media=cdrom";  // a medium changes under a running guest, a drive not
    update.digest = sight.found->config.digest;
    const auto upid = world.proxmox().start_update(sight.found->vm, update);
    world.survey.forget(vmid_);
    return {upid ? upid->text : "", "detach"};
  }

  Progress probe(World& world, const Receipt& receipt) const override {
    const Progress progress = follow_task(world, receipt.token, "taking the ISO out of a drive");
    world.survey.forget(vmid_);
    return progress;
  }
  Receipt destroy(World&, const Live&) const override { return {}; }
  std::vector<Lane> lanes(const Change* change) const override {
    std::vector<Lane> lanes{host_lane(host_)};
    if (change != nullptr) lanes.push_back({fmt::format("vmid/{}", vmid_), 1, Lane::Hold::Act});
    return lanes;
  }
  Duration patience(const Change&) const override { return 5min; }

 protected:
  Fields wishes() const override { return {{"medium", "none"}}; }

 private:
  engine::Identity identity_;
  proxmox::Vmid vmid_;
  std::string host_, slot_;
};

}  // namespace

std::string media_address(const std::string& node) {
  return "media/" + node;
}

Made make_media(const Cluster& cluster, const spec::Node& node) {
  const spec::LockedNode& chosen = cluster.lock.nodes.at(node.name);
  return std::make_shared<MediaKind>(
      Thing::About{media_address(node.name), {machine_address(node.name)}, ""},
      cluster.identity_of(node.name), static_cast<proxmox::Vmid>(chosen.vmid.value_or(0)),
      chosen.host, *node.machine->iso_slot);
}

}  // namespace rocca::resources
