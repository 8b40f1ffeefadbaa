#include "platform/volume_guard.hpp"

#include <gmock/gmock.h>

#include <type_traits>

namespace rocca::resources {
namespace {

// Only the guard makes one.
static_assert(!std::is_constructible_v<proxmox::OwnedVolume, std::string, std::string>);
static_assert(!std::is_default_constructible_v<proxmox::OwnedVolume>);

constexpr const char* ours = "local:import/talos-v1.11.5.qcow2";

// Every combination of what can be known of a volume.
TEST(VolumeGuard, DecidesEveryCombinationByTheRule) {
  std::size_t cases = 0, allowed = 0;
  for (const bool there : {true, false})
    for (const char* id : {ours, "local:import/another.qcow2", "local-lvm:vm-104-disk-0"})
      for (const char* content : {"import", "iso", "images", "rootdir", "backup", "vztmpl", ""})
        for (const bool of_a_vm : {false, true})
          for (const VolumeOrigin origin : {VolumeOrigin::Unknown, VolumeOrigin::ThisRun,
                                            VolumeOrigin::Remembered, VolumeOrigin::TaskLog})
            for (const char* other_user : {"", "VM 200 is of the cluster green"}) {
              VolumeFacts facts{"atlas", ours, std::nullopt, origin, other_user};
              if (there) {
                facts.seen.emplace();
                facts.seen->id = id;
                facts.seen->content = content;
                if (of_a_vm) facts.seen->vmid = 104;
              }
              const VolumeVerdict verdict = VolumeGuard::may_delete(facts);
              const std::string kind = content;
              const bool image_file = kind == "import" || kind == "iso";
              const bool fresh = origin == VolumeOrigin::ThisRun;
              const bool expected = there && std::string(id) == ours && image_file && !of_a_vm &&
                                    origin != VolumeOrigin::Unknown &&
                                    (fresh || std::string(other_user).empty());
              SCOPED_TRACE(testing::Message()
                           << there << " " << id << " " << kind << " " << of_a_vm << " "
                           << static_cast<int>(origin) << " " << other_user);
              EXPECT_EQ(verdict.volume.has_value(), expected);
              EXPECT_EQ(verdict.refusal.empty(), expected);
              if (verdict.volume) {
                EXPECT_EQ(verdict.volume->id(), ours);
                EXPECT_EQ(verdict.volume->node(), "atlas");
              }
              ++cases;
              allowed += expected ? 1 : 0;
            }
  EXPECT_EQ(cases, 672u);
  EXPECT_EQ(allowed, 8u);
}

}  // namespace
}  // namespace rocca::resources
