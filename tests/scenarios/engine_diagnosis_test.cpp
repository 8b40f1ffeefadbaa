// A node that never answers: `up` ends in time, and says what Proxmox shows of it, the likeliest
// cause first, with what to do. Each trouble is played by the lab, by a word of a faults file.

#include "scenarios/engine_machines.hpp"
#include "support/golden.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct Silence {
  const char* name;
  const char* faults;
  std::vector<std::pair<const char*, const char*>> spec;  // what stands in it, and what instead
  const char* first;                                      // words of the likeliest cause
  const char* fix;
};

class Diagnosed : public testing::TestWithParam<Silence> {};

TEST_P(Diagnosed, NamesTheCauseAndTheFix) {
  ClusterRig rig;
  arm(rig, GetParam().faults);
  std::string text = impatient(pools(1, 0));
  for (const auto& [what, instead] : GetParam().spec) {
    ASSERT_THAT(text, HasSubstr(what));
    text = replace_all(text, what, instead);
  }
  rig.write_spec(text);
  const Instant begun = rig.home.world.now();
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  EXPECT_LT(rig.home.world.now() - begun, 15min) << "`up` must end";
  EXPECT_THAT(problems(report),
              AllOf(HasSubstr(std::string("1. ") + GetParam().first), HasSubstr(GetParam().fix)));
  EXPECT_THAT(rig.home.dc.vms, testing::SizeIs(1)) << "what is wrong with it is left to look at";
  test::expect_golden(std::string("engine/silent_") + GetParam().name + ".txt", problems(report));
}

const Silence silences[] = {
    {"wrong_vlan",
     "[]",
     {{"    gateway: 10.0.0.1\n", "    gateway: 10.0.0.1\n    vlan: 30\n"}},
     "it has its address and hears nobody: VLAN 30 of vmbr0 is not where its network is",
     "network.vlan"},
    {"wrong_switch_port",
     "- machine: {}\n  trouble: wrong-vlan\n",
     {{"10.0.", "10.20."}, {"    gateway: 10.20.0.1\n", "    gateway: 10.20.0.1\n    vlan: 20\n"}},
     "it has its address and hears nobody: VLAN 20 of vmbr0 is not where its network is",
     "proxmox.bridge"},
    {"wrong_bridge",
     "- machine: {}\n  trouble: wrong-vlan\n",
     {},
     "its answers do not come back: 10.0.0.1 may not be its gateway",
     "2. it has its address and hears nobody: vmbr0 without a VLAN is not where its network is"},
    {"wrong_gateway",
     "[]",
     {{"gateway: 10.0.0.1\n", "gateway: 10.0.0.254\n"}},
     "its answers do not come back: 10.0.0.254 may not be its gateway",
     "network.gateway must be the router of its subnet"},
    {"router_without_a_route",
     "- machine: { vm: 100 }\n  trouble: wrong-gateway\n",
     {},
     "its answers do not come back: 10.0.0.1 may not be its gateway",
     "network.gateway"},
    {"kvm64",
     "- machine: { vm: 100 }\n  trouble: kvm64\n",
     {},
     "its processor type is kvm64",
     "machine.cpu: host"},
    {"boot_loop",
     "- machine: { vm: 100 }\n  trouble: boot-loop\n",
     {},
     "it starts over and over",
     "console"},
    {"enrolled_keys",
     "- machine: { host: pve1 }\n  trouble: enrolled-keys\n",
     {},
     "its EFI disk has Microsoft's keys enrolled",
     "pre-enrolled-keys=0"},
    {"no_boot",
     "- machine: { vm: 100 }\n  trouble: no-boot\n",
     {},
     "its firmware starts nothing",
     "boot order"},
    {"iso_halt",
     "- machine: { vm: 100 }\n  trouble: iso-first\n",
     {},
     "it boots from an ISO although Talos is on its disk",
     "take the ISO out of its drive"},
    {"halt",
     "- machine: { vm: 100 }\n  trouble: halt\n",
     {},
     "it started and stands still",
     "console"},
    {"agent_off",
     "- machine: { vm: 100 }\n  trouble: agent-off\n",
     {},
     "its image has the qemu-guest-agent, and the VM offers no agent port",
     "machine.agent: true"},
    {"address_of_somebody_else",
     "- at: 5s\n  foreign: 10.0.1.11\n",  // a plan would have noticed
     {},
     "somebody else has 10.0.1.11",
     "give the node a free address"},
};
INSTANTIATE_TEST_SUITE_P(Of, Diagnosed, testing::ValuesIn(silences),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(Diagnosis, OnceTheTroubleIsOverTheNextUpGoesOn) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 1)));
  // Somebody changes the processor of the worker before it starts; the control plane goes on.
  arm(rig, "- machine: { vm: 101 }\n  trouble: kvm64\n");
  const engine::Report first = rig.up();
  EXPECT_FALSE(first.ok());
  EXPECT_THAT(problems(first),
              AllOf(HasSubstr("machine/worker-1"), Not(HasSubstr("machine/cp-1"))));
  arm(rig, "[]");
  EXPECT_THAT(refused([&] { rig.up(); }), HasSubstr("--allow power-cycle"));
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::PowerCycle);
  const engine::Report second = rig.up(options);
  EXPECT_TRUE(second.ok()) << problems(second);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(Diagnosis, AFirstControlPlaneThatNeverBootedIsPowerCycledBeforeThereIsAnEtcd) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(3, 1)));
  arm(rig, "- machine: { vm: 100 }\n  trouble: kvm64\n");
  EXPECT_FALSE(rig.up().ok());
  arm(rig, "[]");
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::PowerCycle);
  const engine::Report second = rig.up(options);
  EXPECT_TRUE(second.ok()) << problems(second);
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

}  // namespace
}  // namespace rocca::scenarios
