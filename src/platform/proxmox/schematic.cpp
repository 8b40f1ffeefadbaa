#include "factory/node_image.hpp"
#include "platform/kinds.hpp"
#include "platform/proxmox/kinds.hpp"

#include <fmt/format.h>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

/// That the Image Factory knows what the nodes boot. A factory never forgets a schematic, so it is
/// asked only until that has settled once.
class SchematicKind final : public Thing {
 public:
  SchematicKind(About about, factory::NodeImage image, bool settled)
      : Thing(std::move(about)), image_(std::move(image)), settled_(settled) {}

  std::optional<Live> read(World& world) const override {
    if (!settled_ && !world.factory().knows(image_.id)) return std::nullopt;
    return Live{image_.id, {{"id", image_.id}}, {{"id", image_.id}}};
  }

  Change diff(const std::optional<Live>& live) const override {
    if (live) return {};
    if (!image_.schematic)
      return refuse(fmt::format("the Image Factory does not know schematic {}", image_.id),
                    "talos.schematic names an id: register it there, or give a schematic file or "
                    "talos.extensions instead");
    return create("the Image Factory does not know it yet");
  }

  Receipt apply(World& world, const Change&, const std::optional<Live>&) const override {
    world.factory().register_schematic(*image_.schematic);
    return {};
  }

  Progress probe(World&, const Receipt&) const override { return Ready{}; }
  Receipt destroy(World&, const Live&) const override { return {}; }
  std::vector<Lane> lanes(const Change*) const override {
    return {{"factory", 4, Lane::Hold::Call}};
  }
  Duration patience(const Change&) const override { return 2min; }

 protected:
  Fields wishes() const override { return {{"id", image_.id}}; }

 private:
  factory::NodeImage image_;
  bool settled_;
};

}  // namespace

std::string schematic_address(const std::string& id) {
  return "schematic/" + id.substr(0, 12);
}

Made make_schematic(const Cluster& cluster, const Ground& ground, const spec::Node& node) {
  const factory::NodeImage& image = cluster.images.at(node.name);
  Thing::About about{schematic_address(image.id), {}, ""};
  const state::Item* item = ground.item(about.address);
  const bool settled = item != nullptr && item->settled && fact(item->facts, "id") == image.id;
  return std::make_shared<SchematicKind>(std::move(about), image, settled);
}

}  // namespace rocca::resources
