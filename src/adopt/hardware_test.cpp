#include "adopt/hardware.hpp"

#include "text/yaml.hpp"

#include <gmock/gmock.h>

namespace rocca::adopt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

proxmox::VmConfig as_bpg_makes_it() {
  proxmox::VmConfig config;
  config.options = {
      {"agent", "enabled=1,fstrim_cloned_disks=0,type=virtio"},
      {"balloon", "0"},
      {"bios", "seabios"},
      {"boot", "order=scsi0"},
      {"cores", "2"},
      {"acpi", "1"},
      {"cpu", "cputype=host"},
      {"cpuunits", "1024"},
      {"protection", "0"},
      {"ide2", "local-lvm:vm-104-cloudinit,media=cdrom"},
      {"ipconfig0", "gw=10.0.0.1,ip=10.0.0.11/16"},
      {"machine", "q35"},
      {"memory", "4096"},
      {"meta", "creation-qemu=10.1.2,ctime=1763500000"},
      {"name", "blue-cp-1"},
      {"net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0,tag=20"},
      {"numa", "0"},
      {"onboot", "1"},
      {"ostype", "l26"},
      {"scsi0", "local-lvm:vm-104-disk-0,cache=writethrough,discard=on,iothread=1,size=10G"},
      {"scsi1", "ceph:vm-104-disk-1,iothread=1,size=20G,ssd=1,discard=on"},
      {"scsihw", "virtio-scsi-single"},
      {"smbios1", "uuid=1cb0a0e6-6d38-4c83-8d21-8a0d7b5b1c11"},
      {"sockets", "1"},
      {"vmgenid", "3f6a1c0e-1111-4222-8333-444455556666"},
  };
  return config;
}

TEST(Hardware, IsSaidInTheWordsOfASpec) {
  const Hardware hardware = hardware_of({}, as_bpg_makes_it(), {"local-lvm", "vmbr0"});
  EXPECT_EQ(text::emit_yaml(hardware.machine),
            R"(cores: 2
cpu: host
memory: 4GiB
firmware: seabios
chipset: q35
scsi: virtio-scsi-single
agent: true
onBoot: true
disks:
  system:
    size: 10GiB
    ssd: false
    cache: writethrough
  data:
    size: 20GiB
    storage: ceph
nics:
  - vlan: 20
)");
  EXPECT_THAT(text::emit_yaml(hardware.nics), HasSubstr("mac: 'BC:24:11:00:00:01'"));
  EXPECT_THAT(hardware.untold, IsEmpty());
}

TEST(Hardware, WhatNoSpecCanSayIsNamed) {
  proxmox::VmConfig config = as_bpg_makes_it();
  config.options["tags"] = "talos;terraform";
  config.options["sockets"] = "2";
  config.options["serial0"] = "socket";
  config.options["hostpci0"] = "0000:01:00";
  config.options["scsi1"] = "ceph:vm-104-disk-1,size=20480001K";
  config.options["net1"] = "e1000=BC:24:11:00:00:02,bridge=vmbr1";
  const Hardware hardware = hardware_of({}, config, {"local-lvm", "vmbr0"});
  EXPECT_THAT(hardware.untold,
              ElementsAre(HasSubstr("scsi1 has"), HasSubstr("net1 is a card of model e1000"),
                          HasSubstr("hostpci0 names a device"), "serial0, tags and sockets (2)"));
}

TEST(Hardware, ACardBehindAGapIsNamed) {
  proxmox::VmConfig config = as_bpg_makes_it();
  config.options["net2"] = "virtio=BC:24:11:00:00:03,bridge=vmbr1";
  config.options["net31"] = "virtio=BC:24:11:00:00:04,bridge=vmbr1";
  const Hardware hardware = hardware_of({}, config, {"local-lvm", "vmbr0"});
  EXPECT_EQ(hardware.nics.size(), 1u);
  EXPECT_THAT(hardware.untold,
              ElementsAre("net2 is a card behind a gap", "net31 is a card behind a gap"));
}

TEST(Hardware, TheDiskItBootsFromIsTheSystems) {
  proxmox::VmConfig config = as_bpg_makes_it();
  config.options.erase("scsi0");
  config.options["virtio0"] = "fast:vm-104-disk-0,iothread=1,size=10G,discard=on";
  config.options["boot"] = "order=ide2;virtio0";
  EXPECT_EQ(storage_of_system_disk(config), "fast");
  const Hardware hardware = hardware_of({}, config, {"fast", "vmbr0"});
  EXPECT_THAT(text::emit_yaml(hardware.machine), HasSubstr(R"(disks:
  system:
    size: 10GiB
    ssd: false
  data:
    size: 20GiB
    storage: ceph
)"));
}

}  // namespace
}  // namespace rocca::adopt
