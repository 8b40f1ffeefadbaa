#include "platform/kinds.hpp"

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

/// Something that is only remembered: when what it stood on is gone, it is forgotten.
class Memory final : public Thing {
 public:
  explicit Memory(About about) : Thing(std::move(about)) {}
  std::optional<Live> read(World&) const override { return std::nullopt; }
  Change diff(const std::optional<Live>&) const override { return {}; }
  Receipt apply(World&, const Change&, const std::optional<Live>&) const override { return {}; }
  Progress probe(World&, const Receipt&) const override { return Ready{}; }
  Receipt destroy(World&, const Live&) const override { return {}; }
  std::vector<Lane> lanes(const Change*) const override { return {}; }
  Duration patience(const Change&) const override { return 1min; }

 protected:
  Fields wishes() const override { return {}; }
};

}  // namespace

const state::Item* Ground::item(const std::string& address) const {
  const auto found = prior.items.find(address);
  return found == prior.items.end() ? nullptr : &found->second;
}

std::string vm_address(const std::string& node) {
  return "vm/" + node;
}

Made leftover_memory(const Cluster&, const Leftover& leftover) {
  return std::make_shared<Memory>(Thing::About{leftover.address, leftover.needs, ""});
}

}  // namespace rocca::resources
