#include "lab/pve/storage.hpp"

#include "lab/pve/qemu/qemu.hpp"

#include <gmock/gmock.h>

namespace rocca::lab::pve {
namespace {

TEST(VolumeId, IsAStorageAColonAndANameWithoutBlanks) {
  for (const char* text : {"local:iso/talos.iso", "a1:x", "tank-2.b_c:vm-100-disk-0", "nfs:a:b"}) {
    const auto id = VolumeId::parse(text);
    ASSERT_TRUE(id) << text;
    EXPECT_EQ(id->storage + ":" + id->name, text);
    EXPECT_EQ(id->storage.find(':'), std::string::npos);
  }
  for (const char* text : {"", "local", "local:", ":x", "a:x", "1a:x", "local-:x", "lo cal:x",
                           "local:a b", "local:a\n", "l\xc3\xb6l:x", "lo/cal:x"})
    EXPECT_FALSE(VolumeId::parse(text)) << text;
}

TEST(Drives, AreReadByTheSchemaOfTheirRelease) {
  const Schema& eight = Schema::of(Release::v8_4());
  const Schema& nine = Schema::of(Release::v9());
  const std::string text = "local-lvm:vm-100-disk-0,iothread=on,size=8G";
  for (int i = 0; i < 2; ++i)
    for (const Schema* schema : {&eight, &nine}) {
      const auto drive = parse_drive(*schema, "scsi0", text);
      ASSERT_TRUE(drive);
      EXPECT_EQ(drive->key, "scsi0");
      EXPECT_EQ(drive->file(), "local-lvm:vm-100-disk-0");
      EXPECT_EQ(drive->options.at("iothread"), "1");
    }
  EXPECT_EQ(parse_drive(nine, "scsi1", text)->key, "scsi1") << "another place of the same text";
  EXPECT_FALSE(parse_drive(nine, "scsi0", "local-lvm:vm-100-disk-0,wings=2"));
}

}  // namespace
}  // namespace rocca::lab::pve
