// Doctor and its probe on the lab.
#include "doctor/checkup.hpp"
#include "doctor/probe.hpp"
#include "doctor/trace.hpp"
#include "scenarios/lab_rig.hpp"

#include <gmock/gmock.h>

namespace rocca::scenarios {
namespace {

using doctor::Checkup;
using doctor::Grade;
using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

class DoctorOnTheLab : public testing::TestWithParam<bool> {
 protected:
  LabRig rig{GetParam() ? lab::pve::Release::v9() : lab::pve::Release::v8_4()};
  SeededEntropy entropy{7};

  doctor::Wish wish() const {
    doctor::Wish wish;
    wish.scope.hosts = {"pve1", "pve2"};
    wish.scope.image_storage = "local";
    wish.scope.disk_storages = {"local-lvm"};
    wish.scope.links = {{"vmbr0", std::nullopt, "localnetwork"}};
    return wish;
  }
  Checkup examine(const proxmox::Access& access, const doctor::Wish& wish) {
    return doctor::examine(rig.wire, rig.home.world.clock(), access, wish);
  }
  Checkup examine() { return examine(rig.access(rig.home.token), wish()); }

  doctor::ProbePlan plan() const {
    doctor::ProbePlan plan;
    plan.host = "pve1";
    plan.image_storage = "local";
    plan.disk_storage = "local-lvm";
    plan.bridge = "vmbr0";
    plan.image_url = LabRig::image_url;
    return plan;
  }
  doctor::Pause pause() {
    return [this](Duration duration) { rig.pause(duration); };
  }
  std::size_t vms() {
    return proxmox::Client{rig.wire, rig.access(rig.home.root_token)}.vms().size();
  }
};

INSTANTIATE_TEST_SUITE_P(Pve, DoctorOnTheLab, testing::Bool(),
                         [](const auto& row) { return row.param ? "v9" : "v8_4"; });

auto finds(const char* check, Grade grade, const char* text) {
  return Field(&Checkup::findings, Contains(AllOf(Field(&doctor::Finding::check, check),
                                                  Field(&doctor::Finding::grade, grade),
                                                  Field(&doctor::Finding::text, HasSubstr(text)))));
}

TEST_P(DoctorOnTheLab, AGoodHostIsHealthyAndNothingIsChanged) {
  const Checkup checkup = examine();
  EXPECT_TRUE(checkup.healthy()) << render_text(checkup, false);
  EXPECT_EQ(checkup.exit_code(), 0);
  EXPECT_EQ(vms(), 0u);
}

TEST_P(DoctorOnTheLab, AWrongTokenIsSaidAndIsAboutRights) {
  const Checkup checkup =
      examine(rig.access("rocca@pve!lab=00000000-0000-0000-0000-000000000000"), wish());
  EXPECT_EQ(checkup.exit_code(), 4) << render_text(checkup, false);
}

TEST_P(DoctorOnTheLab, AWrongFingerprintIsSaidWithTheOneThatCame) {
  proxmox::Access access = rig.access(rig.home.token);
  access.tls = net::Tls::pinned(net::Fingerprint{});
  const Checkup checkup = examine(access, wish());
  EXPECT_EQ(checkup.exit_code(), 1);
  EXPECT_THAT(checkup, finds("tls", Grade::Bad, ""));
  EXPECT_THAT(render_text(checkup, false), HasSubstr(to_string(rig.home.first().fingerprint)));
}

TEST_P(DoctorOnTheLab, AStorageWithoutImportIsSaid) {
  rig.home.dc.storages.at("local").content = {"iso"};
  const Checkup checkup = examine();
  EXPECT_EQ(checkup.exit_code(), 1) << render_text(checkup, false);
  EXPECT_THAT(checkup, finds("storage", Grade::Bad, "import"));
}

TEST_P(DoctorOnTheLab, AMissingRightIsNamedWithItsPathAndTheLinesThatGrantIt) {
  rig.home.dc.access.roles["RoccaVM"].erase("VM.PowerMgmt");
  const Checkup checkup = examine();
  EXPECT_EQ(checkup.exit_code(), 4);
  EXPECT_THAT(checkup, finds("rights", Grade::Bad, "VM.PowerMgmt on /vms/"));
  EXPECT_THAT(render_text(checkup, false), HasSubstr("pveum acl modify /vms"));
}

TEST_P(DoctorOnTheLab, ABridgeAndAHostThatAreNotThereAreSaid) {
  doctor::Wish other = wish();
  other.scope.hosts = {"pve1", "atlas"};
  other.scope.links = {{"vmbr9", std::nullopt, "localnetwork"}};
  const Checkup checkup = examine(rig.access(rig.home.token), other);
  EXPECT_NE(checkup.exit_code(), 0);
  EXPECT_THAT(render_text(checkup, false), AllOf(HasSubstr("atlas"), HasSubstr("vmbr9")));
}

TEST_P(DoctorOnTheLab, AProbeMakesStartsAndRemovesOneVm) {
  proxmox::Client client{rig.wire, rig.access(rig.home.token)};
  const doctor::Probe probe =
      doctor::probe(client, rig.home.world.clock(), entropy, plan(), pause());
  EXPECT_TRUE(probe.clean) << render_text(probe);
  for (const doctor::ProbeStep& step : probe.steps)
    EXPECT_TRUE(step.ok || step.name == "boot") << render_text(probe);
  EXPECT_EQ(vms(), 0u);
  EXPECT_TRUE(client.volumes("pve1", "local", "import").empty());
}

TEST_P(DoctorOnTheLab, ATraceOfAProbeReplaysAndHoldsNoSecret) {
  std::string trace;
  doctor::Tracing tracing{rig.wire, rig.home.world.clock(), "rocca@pve!lab",
                          [&](std::string_view line) { trace += line; }};
  proxmox::Client client{tracing, rig.access(rig.home.token)};
  const doctor::Probe first =
      doctor::probe(client, rig.home.world.clock(), entropy, plan(), pause());
  EXPECT_THAT(trace, AllOf(Not(HasSubstr(rig.home.token.substr(rig.home.token.find('=') + 1))),
                           Not(HasSubstr("rocca@pve"))));

  doctor::Replaying replaying{trace};
  proxmox::Client again{replaying, rig.access(rig.home.token)};
  SeededEntropy same{7};
  VirtualClock clock;
  const doctor::Probe second = doctor::probe(again, clock, same, plan(),
                                             [&](Duration duration) { clock.advance(duration); });
  ASSERT_EQ(second.steps.size(), first.steps.size()) << render_text(second);
  for (std::size_t i = 0; i < first.steps.size(); ++i) {
    EXPECT_EQ(second.steps[i].name, first.steps[i].name);
    EXPECT_EQ(second.steps[i].ok, first.steps[i].ok) << render_text(second);
  }
  EXPECT_EQ(replaying.left(), 0u);
}

TEST_P(DoctorOnTheLab, AnInterruptedProbeStillTakesItsVmAway) {
  proxmox::Client client{rig.wire, rig.access(rig.home.token)};
  bool told = false;
  const auto stopping = [&](Duration duration) {
    // While the VM is being made; after that, pauses are real ones.
    if (!told && vms() > 0) {
      told = true;
      throw Error(Fault::Interrupted, "interrupted");
    }
    rig.pause(duration);
  };
  EXPECT_THROW(doctor::probe(client, rig.home.world.clock(), entropy, plan(), stopping), Error);
  EXPECT_TRUE(told);
  EXPECT_EQ(vms(), 0u);
}

TEST_P(DoctorOnTheLab, AnImageThatCannotBeFetchedLeavesNothingBehind) {
  proxmox::Client client{rig.wire, rig.access(rig.home.token)};
  doctor::ProbePlan other = plan();
  other.image_url = "https://factory.home/none.qcow2";
  const doctor::Probe probe =
      doctor::probe(client, rig.home.world.clock(), entropy, other, pause());
  EXPECT_FALSE(probe.ok());
  EXPECT_TRUE(probe.clean) << render_text(probe);
  EXPECT_EQ(vms(), 0u);
}

}  // namespace
}  // namespace rocca::scenarios
