#include "machine/kinds.hpp"
#include "machine/kubernetes_api.hpp"
#include "platform/kinds.hpp"
#include "platform/survey.hpp"

#include <fmt/format.h>

namespace rocca::resources {

namespace {

/// That the Kubernetes API answers at the shared address, with a certificate of this cluster.
class VipKind final : public Thing {
 public:
  VipKind(About about, std::string host, Duration timeout)
      : Thing(std::move(about)), host_(std::move(host)), timeout_(timeout) {}

  std::optional<Live> read(World& world) const override {
    if (!world.known(needs().front())) return std::nullopt;
    const std::string problem = kubernetes_trouble(world, host_);
    return Live{host_, {{"answers", problem.empty() ? "yes" : problem}}, {{"address", host_}}};
  }

  Change diff(const std::optional<Live>& live) const override {
    if (!live) return create("there is no cluster behind it yet");
    if (live->fields.at("answers") == "yes") return {};
    Change change;
    change.action = Action::Update;
    change.effect = Effect::Live;
    change.reason = live->fields.at("answers");
    change.waits = true;
    return change;
  }

  Receipt apply(World&, const Change&, const std::optional<Live>&) const override {
    return {"answers", "wait"};
  }
  Progress probe(World& world, const Receipt&) const override {
    const Duration knock = world.survey.knock(host_);
    const std::string problem = kubernetes_trouble(world, host_, knock);
    world.survey.knocked(host_, problem.empty(), knock);
    if (problem.empty()) return Ready{};
    return NotYet{fmt::format("the Kubernetes API at {} ({})", host_, problem),
                  world.survey.look_again(address(), "vip")};
  }
  Receipt destroy(World&, const Live&) const override { return {}; }
  std::vector<Lane> lanes(const Change*) const override { return {}; }
  Duration patience(const Change&) const override { return timeout_; }

 protected:
  Fields wishes() const override { return {{"address", host_}}; }

 private:
  std::string host_;
  Duration timeout_;
};

}  // namespace

std::string vip_address(const std::string& cluster) {
  return "vip/" + cluster;
}

Made make_vip(const Cluster& cluster) {
  const auto& vip = cluster.spec.kubernetes.endpoint->vip;
  return std::make_shared<VipKind>(
      Thing::About{vip_address(cluster.name()), {bootstrap_address(cluster.name())}, ""},
      to_string(*vip->address), cluster.spec.timeouts.bootstrap);
}

}  // namespace rocca::resources
