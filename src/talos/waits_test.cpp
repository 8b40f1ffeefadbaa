#include "talos/waits.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::talos {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

Sight ours(Stage stage, bool ready, std::vector<UnmetCondition> unmet = {},
           std::vector<Service> services = {}) {
  return {Door::Ours, MachineStatus{stage, ready, std::move(unmet)}, std::move(services), ""};
}

TEST(Waits, ReadyProvesNothingOutsideOfRunning) {
  for (const Stage stage : {Stage::Unknown, Stage::Maintenance, Stage::Rebooting, Stage::Booting}) {
    EXPECT_FALSE(until_running(ours(stage, true)).done) << to_string(stage);
    EXPECT_FALSE(until_ready(ours(stage, true)).done) << to_string(stage);
  }
  EXPECT_TRUE(until_ready(ours(Stage::Running, true)).done);
}

TEST(Waits, SayWhatTheNodeItselfWaitsFor) {
  const Progress progress =
      until_ready(ours(Stage::Booting, false, {{"services", "etcd not running"}, {"time", ""}}));
  EXPECT_EQ(progress.waiting_for, "booting: services (etcd not running), time");
}

TEST(Waits, RunningIsNotAHealthyEtcd) {
  EXPECT_FALSE(until_etcd(ours(Stage::Running, false)).done);
  EXPECT_FALSE(until_etcd(ours(Stage::Running, false, {},
                               {{"etcd", "Preparing", false, false, "Pulling image"}}))
                   .done);
  EXPECT_FALSE(
      until_etcd(ours(Stage::Running, false, {}, {{"etcd", "Running", true, false, "unhealthy"}}))
          .done);
  EXPECT_TRUE(
      until_etcd(ours(Stage::Running, false, {}, {{"etcd", "Running", true, true, ""}})).done);
}

TEST(Waits, NameAFailedService) {
  const Progress progress = until_etcd(
      ours(Stage::Running, false, {}, {{"etcd", "Failed", false, false, "invalid database"}}));
  EXPECT_THAT(progress.waiting_for, HasSubstr("failed: invalid database"));
}

TEST(Waits, AClosedDoorIsAWaitAndAForeignOneIsNot) {
  const Sight closed{Door::Closed, std::nullopt, {}, "connection refused"};
  EXPECT_THAT(until_secure(closed).waiting_for, HasSubstr("connection refused"));
  const Sight foreign{Door::Foreign, std::nullopt, {}, "unknown CA"};
  EXPECT_THROW(until_secure(foreign), Error);
  EXPECT_THROW(until_maintenance(foreign), Error);
}

TEST(Waits, BootstrapWaitsForTheContainerRuntime) {
  EXPECT_FALSE(until_bootstrappable(ours(Stage::Booting, false)).done);
  const auto cri = [](bool known, bool healthy) {
    return ours(Stage::Booting, false, {}, {{"cri", "Running", known, healthy, ""}});
  };
  // Talos refuses until it has found it healthy, though it runs.
  EXPECT_FALSE(until_bootstrappable(cri(false, false)).done);
  EXPECT_FALSE(until_bootstrappable(cri(true, false)).done);
  EXPECT_TRUE(until_bootstrappable(cri(true, true)).done);
}

TEST(Waits, ABootstrapIsSeenByTheRestartOfEtcd) {
  const Instant boot{std::chrono::hours{1}};
  const auto sight = [&](Duration etcd, Duration cri) {
    return ours(Stage::Booting, false, {},
                {{"cri", "Running", true, true, "", boot, boot + cri},
                 {"etcd", "Preparing", false, false, "", boot + etcd, {}}});
  };
  EXPECT_FALSE(maybe_bootstrapped(sight(1s, 3s)));
  EXPECT_TRUE(maybe_bootstrapped(sight(9s, 3s)));
  // Without events nothing is known.
  EXPECT_TRUE(maybe_bootstrapped(ours(Stage::Booting, false)));
  EXPECT_TRUE(maybe_bootstrapped(
      ours(Stage::Booting, false, {},
           {{"cri", "Running", true, true, ""}, {"etcd", "Preparing", false, false, ""}})));
}

}  // namespace
}  // namespace rocca::talos
