// What runs inside a VM begins and ends with its process.

#include "scenarios/pve_lab.hpp"

namespace rocca {
namespace {

using test::Lab;
using testing::ElementsAre;

class PowerHook : public testing::Test {
 protected:
  PowerHook() {
    lab.dc->on_power = [this](lab::pve::Vm& vm, bool running) {
      seen.push_back(fmt::format("{} {}", vm.id, running ? "on" : "off"));
    };
    lab.dc->guest_of = [](const lab::pve::Vm&) { return lab::pve::Guest{}; };
    lab.vm();
  }
  std::vector<std::string> take() { return std::exchange(seen, {}); }

  Lab lab;
  std::vector<std::string> seen;
};

TEST_F(PowerHook, IsCalledWhenAVmStartsResetsRebootsAndStops) {
  lab.run();
  EXPECT_THAT(take(), ElementsAre("100 on"));
  lab.done("POST", Lab::vm_path() + "/status/reset");
  EXPECT_THAT(take(), ElementsAre("100 off", "100 on"));
  lab.done("POST", Lab::vm_path() + "/status/reboot");
  lab.world.run_for(std::chrono::seconds{10});  // the host starts it again after the task
  EXPECT_THAT(take(), ElementsAre("100 off", "100 on"));
  lab.done("POST", Lab::vm_path() + "/status/shutdown");
  EXPECT_THAT(take(), ElementsAre("100 off"));
  lab.run();
  take();
  lab.done("POST", Lab::vm_path() + "/status/stop");
  EXPECT_THAT(take(), ElementsAre("100 off"));
}

TEST_F(PowerHook, IsNotCalledWhenAStartFails) {
  lab.set({{"net0", "virtio,bridge=vmbr9"}});
  lab.task("POST", Lab::vm_path() + "/status/start");
  EXPECT_THAT(take(), testing::IsEmpty());
}

TEST_F(PowerHook, IsCalledWhenTheHostLosesPower) {
  lab.run();
  take();
  lab.dc->set_online("pve1", false);
  EXPECT_THAT(take(), ElementsAre("100 off"));
}

TEST_F(PowerHook, ARebootAppliesWhatIsPendingAndAResetDoesNot) {
  lab.run();
  lab.set({{"cores", "2"}});
  lab.done("POST", Lab::vm_path() + "/status/reset");
  EXPECT_THAT(lab.dc->find_vm(100)->pending, testing::Contains(testing::Key("cores")));
  lab.done("POST", Lab::vm_path() + "/status/reboot");
  EXPECT_THAT(lab.dc->find_vm(100)->pending, testing::IsEmpty());
  EXPECT_EQ(lab.dc->find_vm(100)->config.at("cores"), "2");
}

}  // namespace
}  // namespace rocca
