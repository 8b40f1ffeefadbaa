// What control planes go through without a restart: one at a time, and each must be well again
// before the next one is touched.

#include "scenarios/engine_rig.hpp"

#include <algorithm>

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using End = engine::StepResult::End;

std::string with_vlan(unsigned planes, unsigned vlan, unsigned workers = 0) {
  return replace_all(static_spec(pools(planes, workers)), "    addressing: static\n",
                     fmt::format("    addressing: static\n    vlan: {}\n", vlan));
}

std::string with_patch(unsigned planes, const std::string& patch) {
  return replace_all(static_spec(pools(planes, 0)), "extensions: [qemu-guest-agent]",
                     "extensions: [qemu-guest-agent], patches: { all: [ " + patch + " ] }");
}

/// A VLAN that leads to where the untagged ones are: the switch's own.
lab::Home::Options with_native_vlan(unsigned vlan) {
  lab::Home::Options options;
  lab::Lans::Lan lan;
  lan.wire = fmt::format("vmbr0.{}", vlan);
  lan.subnet = *Cidr::parse("10.0.0.0/16");
  lan.gateway = IpAddress::parse("10.0.0.1");
  options.lans.push_back(lan);
  return options;
}

std::string card(const ClusterRig& rig, unsigned vmid) {
  return *rig.home.dc.vms.at(vmid).find("net0");
}

std::vector<unsigned> tagged(const ClusterRig& rig, const std::string& tag) {
  std::vector<unsigned> all;
  for (const auto& [vmid, vm] : rig.home.dc.vms)
    if (card(rig, vmid).ends_with(",tag=" + tag)) all.push_back(vmid);
  return all;
}

/// Somebody moves a card, as the GUI does it.
void move_card(ClusterRig& rig, unsigned vmid, const std::string& tag) {
  proxmox::VmUpdate update;
  update.set["net0"] = card(rig, vmid) + ",tag=" + tag;
  client_with(rig, rig.home.root_token).start_update("pve1", vmid, update);
  rig.home.world.run_for(2s);
}

bool has_quorum(ClusterRig& rig, unsigned vmid) {
  const lab::talos::TalosNode* node = rig.home.estate.find(vmid);
  return node != nullptr && node->etcd() && node->etcd()->has_quorum();
}

/// Whenever a control plane is given another card or configuration, etcd has a leader on both
/// others, and their API servers answer.
class Watched final : public net::Transport {
 public:
  explicit Watched(ClusterRig& rig) : rig_(rig) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    const bool applies = request.url.ends_with("/ApplyConfiguration");
    const bool moves = request.url.find("/config") != std::string::npos &&
                       (request.method == "PUT" || request.method == "POST");
    if (applies || moves) {
      for (const unsigned vmid : {100u, 101u, 102u}) {
        const lab::Truth truth = rig_.home.estate.truth(vmid);
        const bool meant = moves ? request.url.find(fmt::format("/{}/", vmid)) != std::string::npos
                                 : std::find(truth.heard.begin(), truth.heard.end(),
                                             host_of(request.url)) != truth.heard.end();
        if (meant) {
          touched.push_back(vmid);
          continue;
        }
        EXPECT_THAT(truth.heard, Not(IsEmpty())) << request.url << " while " << vmid << " is away";
        EXPECT_TRUE(truth.etcd_runs) << request.url << ' ' << vmid;
        EXPECT_TRUE(truth.apiserver_runs) << request.url << ' ' << vmid;
      }
    }
    return rig_.counting.exchange(request, sink, std::move(stop));
  }
  std::vector<unsigned> touched;

 private:
  static std::string host_of(const std::string& url) {
    const std::string rest = url.substr(url.find("//") + 2);
    return rest.substr(0, rest.find(':'));
  }
  ClusterRig& rig_;
};

TEST(Disturb, AWrongVlanCutsOffOneControlPlaneAndNoMore) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(3, 0)));
  ASSERT_TRUE(rig.up().ok());
  const std::vector before{card(rig, 100), card(rig, 101), card(rig, 102)};
  rig.write_spec(with_vlan(3, 77));
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  const std::vector<unsigned> gone = tagged(rig, "77");
  ASSERT_EQ(gone.size(), 1u) << problems(report);
  const unsigned lost = gone.front();
  const unsigned other = lost == 100 ? 101 : 100;
  EXPECT_THAT(rig.home.estate.truth(lost).heard, IsEmpty());
  EXPECT_TRUE(has_quorum(rig, other));
  const std::string name = fmt::format("cp-{}", lost - 99);
  const engine::StepResult& failed = report.steps.at("vm/" + name);
  ASSERT_TRUE(failed.error) << problems(report);
  EXPECT_EQ(exit_code(failed.error->fault()), 1);
  EXPECT_THAT(
      failed.error->render(),
      AllOf(HasSubstr(name + " is not well"), HasSubstr("net0 became"), HasSubstr("tag=77"),
            HasSubstr(fmt::format("`qm set {} --net0", lost)), HasSubstr(before.at(lost - 100)),
            HasSubstr("the other control planes are left as they were")));
  for (const unsigned vmid : {100u, 101u, 102u}) {
    if (vmid == lost) continue;
    const engine::StepResult& step = report.steps.at(fmt::format("vm/cp-{}", vmid - 99));
    ASSERT_TRUE(step.error);
    EXPECT_EQ(exit_code(step.error->fault()), 1);
    EXPECT_THAT(step.error->render(), HasSubstr(name + " has not come back"));
  }

  // With the same spec nobody else goes either, and with the old one it comes back at once.
  static_cast<void>(rig.up());
  EXPECT_EQ(tagged(rig, "77").size(), 1u);
  rig.write_spec(static_spec(pools(3, 0)));
  const engine::Report back = rig.up();
  EXPECT_TRUE(back.ok()) << problems(back);
  EXPECT_THAT(rig.home.estate.truth(lost).heard, Not(IsEmpty()));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(Disturb, ARightVlanIsTakenOneByOne) {
  ClusterRig rig{with_native_vlan(77)};
  rig.write_spec(static_spec(pools(3, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(with_vlan(3, 77));
  Watched watched{rig};
  rig.transport = &watched;
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(watched.touched.size(), 3u);
  EXPECT_EQ(tagged(rig, "77").size(), 3u);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(Disturb, AVlanIsOfTheClassService) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(with_vlan(1, 77));
  EXPECT_EQ(rig.plan().effect, engine::Effect::Service);
}

TEST(Disturb, ASingleControlPlaneWaitsForNobody) {
  ClusterRig rig{with_native_vlan(77)};
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(with_vlan(1, 77));
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(tagged(rig, "77").size(), 1u);
}

TEST(Disturb, ASingleControlPlaneThatIsCutOffComesBack) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(with_vlan(1, 77));
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.steps.at("vm/cp-1").error) << problems(report);
  EXPECT_THAT(report.steps.at("vm/cp-1").error->render(),
              AllOf(HasSubstr("cp-1 is not well"), Not(HasSubstr("other control planes"))));
  rig.write_spec(static_spec(pools(1, 0)));
  const engine::Report back = rig.up();
  EXPECT_TRUE(back.ok()) << problems(back);
}

/// Which control planes somebody has moved to VLANs that lead nowhere.
using Moves = std::vector<std::pair<unsigned, std::string>>;
class Moved : public testing::TestWithParam<Moves> {};

TEST_P(Moved, ComeBackAlthoughTheyAreNotWell) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(3, 0)));
  ASSERT_TRUE(rig.up().ok());
  for (const auto& [vmid, tag] : GetParam()) move_card(rig, vmid, tag);
  rig.home.world.run_for(1min);
  for (const auto& [vmid, tag] : GetParam()) {
    EXPECT_THAT(rig.home.estate.truth(vmid).heard, IsEmpty());
    EXPECT_THAT(tagged(rig, tag), Contains(vmid));
  }
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  for (const auto& [vmid, tag] : GetParam()) EXPECT_THAT(tagged(rig, tag), IsEmpty());
  EXPECT_TRUE(has_quorum(rig, 102));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

// One; two that have quorum where nobody hears them; all in one place; each alone, without quorum.
INSTANTIATE_TEST_SUITE_P(Disturb, Moved,
                         testing::Values(Moves{{101, "66"}}, Moves{{100, "66"}, {101, "66"}},
                                         Moves{{100, "66"}, {101, "66"}, {102, "66"}},
                                         Moves{{100, "66"}, {101, "67"}, {102, "68"}}));

/// Changes that end or begin something anew on a control plane.
struct Patch {
  const char* name;
  const char* patch;
};
class Patched : public testing::TestWithParam<Patch> {};

TEST_P(Patched, GoesThroughTheControlPlanesOneByOne) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(3, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.world.run_for(5min);
  rig.write_spec(with_patch(3, GetParam().patch));
  Watched watched{rig};
  rig.transport = &watched;
  rig.log.clear();
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(watched.touched.size(), 3u);
  // Each is applied and over before the next one begins.
  std::vector<std::string> order;
  for (const std::string& line : rig.log)
    if (line.find("machine/cp-") != std::string::npos)
      for (const char* what : {" acted ", " settled "})
        if (line.find(what) != std::string::npos) order.push_back(trim(what).data());
  ASSERT_EQ(order.size(), 6u) << testing::PrintToString(rig.log);
  for (std::size_t i = 0; i < order.size(); ++i)
    EXPECT_EQ(order[i].substr(0, 5), i % 2 == 0 ? "acted" : "settl")
        << testing::PrintToString(rig.log);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Disturb, Patched,
    testing::Values(Patch{"ApiServer", "cluster: { apiServer: { extraArgs: { v: \"4\" } } }"},
                    Patch{"Etcd", "cluster: { etcd: { extraArgs: { snapshot-count: \"5000\" } } }"},
                    Patch{"Kubelet", "machine: { kubelet: { extraArgs: { v: \"4\" } } }"},
                    Patch{"Network",
                          "machine: { network: { extraHostEntries: [ { ip: 10.0.0.9, aliases: "
                          "[nas] } ] } }"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(Disturb, HarmlessChangesGoAllAtOnce) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(3, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(with_patch(3, "machine: { nodeAnnotations: { room: cellar } }"));
  const Instant before = rig.home.world.now();
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_LT(rig.home.world.now() - before, 5s);
}

}  // namespace
}  // namespace rocca::scenarios
