// Several doors to one Proxmox, and the first one is dead.

#include "scenarios/engine_rig.hpp"

namespace rocca::scenarios {
namespace {

using testing::IsEmpty;

const std::string dead = "https://10.0.250.250:8006";

/// Counts knocks at the dead door, each of which would take its time.
class DeadDoor final : public net::Transport {
 public:
  explicit DeadDoor(net::Transport& inner, std::string door = dead)
      : inner_(inner), door_(std::move(door)) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (request.url.starts_with(door_)) {
      ++knocks;
      throw Error(Fault::Unreachable, "connection timed out");
    }
    return inner_.exchange(request, sink, std::move(stop));
  }
  unsigned knocks = 0;

 private:
  net::Transport& inner_;
  std::string door_;
};

TEST(EngineEndpoints, ADeadFirstOneIsKnockedAtOnceInARun) {
  ClusterRig rig;
  DeadDoor door{rig.counting};
  rig.transport = &door;
  rig.endpoints = {dead, rig.home.endpoint()};
  rig.write_spec(static_spec(pools(1, 2)));
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(door.knocks, 1u) << "of " << rig.pve_requests() << " requests";
  door.knocks = 0;
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  EXPECT_EQ(door.knocks, 1u);
  door.knocks = 0;
  EXPECT_TRUE(rig.down().ok());
  EXPECT_EQ(door.knocks, 1u);
}

TEST(EngineEndpoints, ADeadSharedAddressIsKnockedAtOnceForNodes) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 3)));
  ASSERT_TRUE(rig.up().ok());
  // Two workers go: Kubernetes is told of each of them several times, at the control plane itself.
  DeadDoor door{rig.counting, "https://10.0.1.10:6443/api/v1/nodes"};
  rig.transport = &door;
  rig.write_spec(static_spec(pools(1, 1)));
  resources::RunOptions options = allow_data_loss();
  options.parallelism = 1;
  const engine::Report report = rig.up(options);
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(door.knocks, 1u);
  EXPECT_EQ(rig.home.dc.vms.size(), 2u);
}

}  // namespace
}  // namespace rocca::scenarios
