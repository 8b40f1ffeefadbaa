// Power through the real binary: what was seen on Proxmox's own API code, step by step.

#include "lab/pve/http.hpp"
#include "scenarios/binary_site.hpp"

#include <thread>

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class BinaryPower : public BinaryLife {
 protected:
  /// Root at the web interface.
  static void by_root(Site& site, const std::string& method, const std::string& path,
                      const lab::pve::RawParameters& form = {}) {
    site.sockets.run([&] {
      lab::pve::Node* node = site.home.dc.find_node("pve");
      ASSERT_NE(node, nullptr);
      site.home.world.spawn(lab::pve::act(site.home.dc, *node, {"root@pam", "root@pam", false},
                                          method, "nodes/pve/qemu/" + path, form));
    });
  }

  /// Simulated time passes by itself.
  static void wait_until(Site& site, const std::function<bool()>& there) {
    for (int i = 0; i < 1200; ++i) {
      bool now = false;
      site.sockets.run([&] { now = there(); });
      if (now) return;
      std::this_thread::sleep_for(50ms);
    }
    ADD_FAILURE() << "did not happen";
  }
  static bool runs(const Site& site, unsigned vmid) {
    return site.home.dc.vms.at(vmid).power == lab::pve::Vm::Power::Running;
  }
  static void wait_for(Site& site, Duration simulated) {
    Instant until{};
    site.sockets.run([&] { until = site.home.world.now() + simulated; });
    wait_until(site, [&] { return site.home.world.now() >= until; });
  }

  static void edit_spec(const Workplace& place, const std::string& from, const std::string& to) {
    const fs::path spec = place.folder / "clusters/blue/cluster.yaml";
    const std::string text = text_of(spec);
    ASSERT_NE(text.find(from), std::string::npos) << text;
    std::ofstream(spec) << replace_all(text, from, to);
  }

  static std::vector<std::string> tasks_of(Site& site, unsigned vmid, const std::string& by) {
    std::vector<std::string> types;
    site.sockets.run([&] {
      for (const auto& task : site.home.dc.find_node("pve")->tasks())
        if (task->upid.id == std::to_string(vmid) && task->upid.user.starts_with(by))
          types.push_back(task->upid.type);
    });
    return types;
  }
};

// Task log: `qmshutdown` OK by root, `qmstart`, then our memory change.
TEST_F(BinaryPower, AMemoryChangeAsksTheGuestAlthoughRootHasShutItDownBefore) {
  const Workplace place;
  const auto site = begin(place);
  const Counted made = site->run(up);
  ASSERT_EQ(made.code, 0) << made.said;
  by_root(*site, "POST", "101/status/shutdown");
  wait_until(*site, [&] { return !runs(*site, 101); });
  wait_for(*site, 5s);
  by_root(*site, "POST", "101/status/start");
  wait_until(*site, [&] { return runs(*site, 101); });
  wait_for(*site, 2min);
  edit_spec(place, "memory: 4GiB", "memory: 5GiB");
  Counted changed = site->run({"up", "blue", "--yes", "--allow", "power-cycle"});
  EXPECT_EQ(changed.code, 0) << changed.said;
  EXPECT_EQ(changed.calls["POST /nodes/pve/qemu/ID/status/shutdown"], 5u) << changed.said;
  EXPECT_EQ(changed.calls["POST /nodes/pve/qemu/ID/status/stop"], 0u) << changed.said;
  const std::vector<std::string> ours = tasks_of(*site, 101, "rocca@pve");
  EXPECT_THAT(ours, testing::Contains("qmshutdown"));
  EXPECT_THAT(ours, testing::Not(testing::Contains("qmstop")));
}

TEST_F(BinaryPower, AProtectedVmKeepsTheWholeClusterRunning) {
  const Workplace place;
  const auto site = begin(place);
  const Counted made = site->run(up);
  ASSERT_EQ(made.code, 0) << made.said;
  site->sockets.run([&] { site->home.dc.vms.at(103).config["protection"] = "1"; });
  const std::string before = site->end_state();
  Counted refused = site->run(down);
  EXPECT_EQ(refused.code, 3) << refused.said;
  EXPECT_THAT(refused.said, HasSubstr("`qm set 103 --protection 0` on pve"));
  EXPECT_EQ(refused.calls["POST /nodes/pve/qemu/ID/status/shutdown"], 0u);
  EXPECT_EQ(refused.calls["POST /nodes/pve/qemu/ID/status/stop"], 0u);
  EXPECT_EQ(site->end_state(), before);
  site->sockets.run([&] { site->home.dc.vms.at(103).config["protection"] = "0"; });
  const Counted gone = site->run(down);
  EXPECT_EQ(gone.code, 0) << gone.said;
}

}  // namespace
}  // namespace rocca::scenarios
