#include "proxmox/upid.hpp"

#include <gtest/gtest.h>

namespace rocca::proxmox {
namespace {

TEST(Upid, IsTakenApart) {
  const auto upid =
      Upid::parse("UPID:pve:00001ED0:00035693:66343A23:qmshutdown:100:terraform@pve!provider:");
  ASSERT_TRUE(upid);
  EXPECT_EQ(upid->node, "pve");
  EXPECT_EQ(upid->type, "qmshutdown");
  EXPECT_EQ(upid->id, "100");
  EXPECT_EQ(upid->user, "terraform@pve!provider");
  EXPECT_EQ(upid->started, Instant{std::chrono::seconds{0x66343A23}});
}

TEST(Upid, MayHaveAnEmptyIdAndALongStart) {
  EXPECT_TRUE(Upid::parse("UPID:pve:00001ED0:100035693:66343A23:imgcopy::root@pam:"));
}

TEST(Upid, RefusesWhatIsNone) {
  for (const char* text : {"", "UPID:", "UPID:pve:1:2:3:t:i:u:",
                           "UPID:pve:00001ED0:00035693:66343A23:qmstart:100:root@pam",
                           "UPID:pve:00001ed0:00035693:66343A23:qmstart:100:root@pam:",
                           "UPID:pve:00001ED0:00035693:66343A23:qm/start:100:root@pam:",
                           "UPID::00001ED0:00035693:66343A23:qmstart:100:root@pam:",
                           "UPID:pve:00001ED0:00035693:66343A23:qmstart:100:root:"})
    EXPECT_FALSE(Upid::parse(text)) << text;
}

}  // namespace
}  // namespace rocca::proxmox
