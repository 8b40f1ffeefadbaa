#include "platform/proxmox/desired_vm.hpp"

#include <gmock/gmock.h>

namespace rocca::resources {
namespace {

VmWish wish() {
  VmWish wish;
  wish.node = "cp-1";
  wish.create.vmid = 104;
  wish.create.name = "blue-cp-1";
  wish.create.cores = 4;
  wish.create.memory_mib = 4096;
  wish.create.balloon_mib = 0;
  wish.create.tags = {"blue", "rocca"};
  wish.create.description = "Control plane cp-1.\n";
  proxmox::Nic nic;
  nic.mac = MacAddress::parse("02:11:22:33:44:55");
  nic.bridge = "vmbr0";
  wish.create.nics = {nic};
  DiskWish disk;
  disk.slot = "scsi0";
  disk.storage = disk.drive.storage = "local-lvm";
  disk.size = Bytes::gib(20);
  disk.drive.import_from = "local:import/talos.qcow2";
  disk.drive.serial = "system";
  disk.drive.iothread = disk.drive.discard = disk.drive.ssd = true;
  disk.drive.cache = "none";
  wish.disks = {disk};
  wish.create.drives["scsi0"] = disk.drive;
  return wish;
}

/// As GET config shows it after such a create.
proxmox::VmConfig config() {
  proxmox::VmConfig config;
  config.digest = "d";
  config.options = {
      {"agent", "1"},
      {"balloon", "0"},
      {"bios", "ovmf"},
      {"boot", "order=scsi0"},
      {"cores", "4"},
      {"cpu", "host"},
      {"description", "Control plane cp-1."},
      {"machine", "q35"},
      {"memory", "4096"},
      {"meta", "creation-qemu=10.1.2,ctime=1763500000"},
      {"name", "blue-cp-1"},
      {"net0", "virtio=02:11:22:33:44:55,bridge=vmbr0"},
      {"onboot", "1"},
      {"ostype", "l26"},
      {"scsi0", "local-lvm:vm-104-disk-1,discard=on,iothread=1,serial=system,size=20G,ssd=1"},
      {"scsihw", "virtio-scsi-single"},
      {"tags", "blue;rocca"},
      {"vmgenid", "3f6a1c0e-1111-4222-8333-444455556666"},
  };
  return config;
}

Fields difference(const proxmox::VmConfig& found, bool running = true) {
  const Fields seen = seen_fields(wish(), 0, found, running);
  Fields out;
  for (const auto& [name, value] : wished_fields(wish()))
    if (!seen.contains(name) || seen.at(name) != value)
      out[name] = seen.contains(name) ? seen.at(name) : "";
  return out;
}

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Key;
using testing::Pair;

TEST(VmFields, WhatProxmoxPrintsAnewIsNoDifference) {
  EXPECT_THAT(difference(config()), IsEmpty());
}

TEST(VmFields, WhatAUserAddedIsTheirs) {
  proxmox::VmConfig found = config();
  found.options["net0"] = "virtio=02:11:22:33:44:55,bridge=vmbr0,firewall=1,rate=20";
  found.options["scsi0"] += ",backup=0,mbps=50";
  found.options["agent"] = "enabled=1,fstrim_cloned_disks=1";
  found.options["startup"] = "order=3";
  found.options["scsi5"] = "local-lvm:vm-104-disk-9,size=8G";
  EXPECT_THAT(difference(found), IsEmpty());
}

TEST(VmFields, AStorageMayRoundUp) {
  proxmox::VmConfig found = config();
  found.options["scsi0"] =
      "local-lvm:vm-104-disk-1,discard=on,iothread=1,serial=system,size=20484M,ssd=1";
  EXPECT_THAT(difference(found), IsEmpty());
}

TEST(VmFields, ASettingThatIsGoneIsItsDefault) {
  proxmox::VmConfig found = config();
  found.options.erase("cores");
  found.options.erase("cpu");
  EXPECT_THAT(difference(found), ElementsAre(Pair("cores", "1"), Pair("cpu", "kvm64")));
}

TEST(VmFields, AChipsetIsTheSameInAnyVersion) {
  for (const char* q35 : {"pc-q35-9.0", "q35,viommu=intel", "pc-q35-8.1+pve0"}) {
    proxmox::VmConfig found = config();
    found.options["machine"] = q35;
    EXPECT_THAT(difference(found), IsEmpty()) << q35;
  }
  for (const char* other : {"pc", "pc-i440fx-9.0", "pc-8.1"}) {
    proxmox::VmConfig found = config();
    found.options["machine"] = other;
    EXPECT_THAT(difference(found), ElementsAre(Pair("machine", other)));
  }
  proxmox::VmConfig left_out = config();
  left_out.options.erase("machine");
  EXPECT_THAT(difference(left_out), ElementsAre(Pair("machine", "pc")));
}

TEST(VmFields, PowerIsAField) {
  EXPECT_THAT(difference(config(), false), ElementsAre(Pair("power", "stopped")));
}

struct EffectCase {
  const char* name;
  const char* option;
  const char* wanted;
  const char* found;
  Effect effect;
};
class VmEffect : public testing::TestWithParam<EffectCase> {};
TEST_P(VmEffect, IsWhatItCosts) {
  EXPECT_EQ(effect_of(GetParam().option, GetParam().wanted, GetParam().found), GetParam().effect);
}
const EffectCase effects[] = {
    {"name", "name", "a", "b", Effect::Live},
    {"tags", "tags", "a", "b", Effect::Live},
    {"notes", "description", "a", "b", Effect::Live},
    {"power", "power", "running", "stopped", Effect::Live},
    {"cores", "cores", "4", "2", Effect::PowerCycle},
    {"memory", "memory", "4096", "2048", Effect::PowerCycle},
    {"cpu", "cpu", "host", "kvm64", Effect::PowerCycle},
    {"firmware", "bios", "ovmf", "seabios", Effect::Replace},
    {"machine", "machine", "q35", "pc", Effect::Replace},
    {"bridge", "net0", "virtio=02:00:00:00:00:01,bridge=vmbr0",
     "virtio=02:00:00:00:00:01,bridge=vmbr1,tag=4", Effect::Service},
    {"unplugged", "net0", "virtio=02:00:00:00:00:01,bridge=vmbr0",
     "virtio=02:00:00:00:00:01,bridge=vmbr0,link_down=1", Effect::Service},
    {"firewall", "net0", "virtio=02:00:00:00:00:01,bridge=vmbr0",
     "virtio=02:00:00:00:00:01,bridge=vmbr0,firewall=1,rate=20", Effect::Live},
    {"mac", "net0", "virtio=02:00:00:00:00:01,bridge=vmbr0",
     "virtio=02:00:00:00:00:02,bridge=vmbr0", Effect::PowerCycle},
    {"grow", "scsi0.size", "20GiB", "10GiB", Effect::Live},
    {"shrink", "scsi0.size", "10GiB", "20GiB", Effect::DataLoss},
    {"new_disk", "scsi1", "serial=data", "", Effect::Live},
    {"lost_disk", "scsi1", "", "serial=data", Effect::DataLoss},
    {"disk_option", "scsi0", "ssd=1", "ssd=0", Effect::PowerCycle},
};
INSTANTIATE_TEST_SUITE_P(Of, VmEffect, testing::ValuesIn(effects),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(VmUpdate, NamesTheStoredVolumeAndKeepsWhatIsNotOurs) {
  proxmox::VmConfig found = config();
  found.options["scsi0"] = "local-lvm:vm-104-disk-1,backup=0,serial=old,size=20G";
  found.options["net0"] = "virtio=02:11:22:33:44:55,bridge=vmbr7,firewall=1";
  const proxmox::VmUpdate update = update_of(wish(), found, {"net0", "scsi0"});
  EXPECT_EQ(update.digest, "d");
  EXPECT_EQ(update.set.at("net0"), "virtio=02:11:22:33:44:55,bridge=vmbr0,firewall=1");
  EXPECT_THAT(update.set.at("scsi0"),
              testing::AllOf(testing::StartsWith("local-lvm:vm-104-disk-1,"),
                             testing::HasSubstr("backup=0"), testing::HasSubstr("serial=system"),
                             testing::Not(testing::HasSubstr("import-from"))));
}

// A VM that another tool made: what the spec does not say of it is not compared, and stays when
// something else of the same option changes.
TEST(AdoptedVm, OnlyWhatTheSpecSaysCounts) {
  VmWish adopted = wish();
  adopted.identity.adopted_vmid = 104;
  adopted.create.nics.front().mac.reset();
  adopted.disks.front().drive.serial.clear();
  proxmox::VmConfig found = config();
  found.options["description"] = "Managed by Terraform";
  found.options["tags"] = "terraform";
  found.options["boot"] = "order=virtio0";
  found.options["sockets"] = "2";
  found.options.erase("ostype");
  found.options.erase("scsi0");
  found.options["virtio0"] = "local-lvm:vm-104-disk-1,discard=on,iothread=1,size=20G,ssd=1";
  found.options["scsi1"] = "local-lvm:vm-104-disk-2,serial=theirs,size=9G";
  EXPECT_EQ(seen_fields(adopted, 0, found, true), wished_fields(adopted));
  EXPECT_THAT(disk_slots(found), testing::ElementsAre("virtio0", "scsi1"));
  EXPECT_EQ(slot_in(adopted, adopted.disks.front(), found), "virtio0");

  adopted.create.nics.front().bridge = "vmbr1";
  adopted.disks.front().drive.cache = "writeback";
  const proxmox::VmUpdate update = update_of(adopted, found, {"net0", "scsi0"});
  EXPECT_THAT(update.set.at("net0"), testing::AllOf(testing::HasSubstr("02:11:22:33:44:55"),
                                                    testing::HasSubstr("bridge=vmbr1")));
  EXPECT_THAT(update.set.at("virtio0"), testing::AllOf(testing::HasSubstr("vm-104-disk-1"),
                                                       testing::HasSubstr("cache=writeback")));
  EXPECT_FALSE(update.set.contains("scsi0"));
}

}  // namespace
}  // namespace rocca::resources
