#include "lab/clusters.hpp"
#include "lab/kube/conditions.hpp"
#include "lab/kube/json.hpp"
#include "scenarios/engine_rig.hpp"

#include <gmock/gmock.h>

namespace rocca::scenarios {
namespace {

using lab::kube::condition_status;
using testing::ElementsAre;
using testing::IsEmpty;

lab::kube::Api& api(ClusterRig& rig) {
  lab::Kubernetes* kubernetes = rig.home.estate.clusters().find("blue");
  if (kubernetes == nullptr || kubernetes->api() == nullptr)
    throw Error(Fault::NotFound, "the lab's cluster has no Kubernetes");
  return *kubernetes->api();
}

std::vector<std::string> nodes(ClusterRig& rig) {
  std::vector<std::string> all;
  for (const auto& [key, node] : api(rig).storage().all("/nodes"))
    all.push_back(fmt::format("{} {}", key.name, condition_status(*node, "Ready")));
  return all;
}

TEST(EngineKubernetes, EveryMachineThatComesUpIsAReadyNode) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  rig.home.world.run_for(std::chrono::minutes{1});  // kubelets need a moment to register
  EXPECT_THAT(nodes(rig), ElementsAre("cp-1 True", "worker-1 True"));
}

/// Who was told to reset itself, in order.
class Resets final : public net::Transport {
 public:
  explicit Resets(net::Transport& inner) : inner_(inner) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (request.url.ends_with("/machine.MachineService/Reset"))
      hosts.push_back(net::Url::parse(request.url)->host);
    return inner_.exchange(request, sink, std::move(stop));
  }
  std::vector<std::string> hosts;

 private:
  net::Transport& inner_;
};

TEST(EngineKubernetes, AWorkerThatGoesIsCordonedAndItsNodeGoesWithIt) {
  ClusterRig rig;
  Resets resets{rig.counting};
  rig.transport = &resets;
  rig.write_spec(static_spec(pools(1, 2)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.world.run_for(std::chrono::minutes{1});
  ASSERT_THAT(nodes(rig), ElementsAre("cp-1 True", "worker-1 True", "worker-2 True"));
  rig.write_spec(static_spec(pools(1, 1)));
  const engine::Report report = rig.up(allow_data_loss());
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(nodes(rig), ElementsAre("cp-1 True", "worker-1 True"));
  bool cordoned = false, gone = false;
  for (const lab::kube::Change& change : api(rig).storage().history()) {
    if (change.resource != "/nodes" || change.key.name != "worker-2") continue;
    if (change.after && lab::kube::bool_at(*change.after, {"spec", "unschedulable"}))
      cordoned = !gone;
    if (!change.after) gone = true;
  }
  EXPECT_TRUE(cordoned) << "nothing new may be put on a node that goes";
  EXPECT_TRUE(gone);
  EXPECT_THAT(resets.hosts, ElementsAre("10.0.1.22")) << "nothing of the cluster stays on its disk";
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

}  // namespace
}  // namespace rocca::scenarios
