// A task that fails is told with its cause, which Proxmox often writes into the task's log only.

#include "scenarios/engine_machines.hpp"

namespace rocca::scenarios {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// The bridge goes away between the plan and the start.
class WithoutBridge final : public net::Transport {
 public:
  explicit WithoutBridge(ClusterRig& rig) : rig_(rig) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (request.method == "POST" && request.url.ends_with("/status/start"))
      rig_.home.dc.find_node("pve1")->bridges.erase("vmbr0");
    return rig_.counting.exchange(request, sink, std::move(stop));
  }

 private:
  ClusterRig& rig_;
};

TEST(Causes, AMissingBridgeIsNamedAtTheStart) {
  lab::Home::Options options;
  options.release = lab::pve::Release::v8_4();
  ClusterRig rig{options};
  rig.write_spec(impatient(pools(1, 0)));
  WithoutBridge without{rig};
  rig.transport = &without;
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(problems(report),
              AllOf(HasSubstr("bridge 'vmbr0' does not exist"), HasSubstr("create vmbr0 there")));
}

}  // namespace
}  // namespace rocca::scenarios
