#include "proxmox/types.hpp"

#include <gmock/gmock.h>

namespace rocca::proxmox {
namespace {

using testing::Contains;
using testing::Pair;

TEST(Drive, IsWrittenForEachWayOfMakingIt) {
  Drive import;
  import.storage = "local-lvm";
  import.import_from = "local:import/talos.qcow2";
  import.discard = import.iothread = import.ssd = true;
  EXPECT_EQ(import.print(),
            "local-lvm:0,discard=on,import-from=local:import/talos.qcow2,iothread=1,ssd=1");
  Drive empty;
  empty.storage = "local-lvm";
  empty.size = Bytes::gib(100);
  EXPECT_EQ(empty.print(), "local-lvm:100");
  empty.size = Bytes::mib(512);
  EXPECT_EQ(empty.print(), "local-lvm:0.5");
  Drive cloud_init;
  cloud_init.storage = "local-lvm";
  cloud_init.cloud_init = true;
  EXPECT_EQ(cloud_init.print(), "local-lvm:cloudinit");
  Drive iso;
  iso.volume = "local:iso/talos.iso";
  iso.cdrom = true;
  EXPECT_EQ(iso.print(), "local:iso/talos.iso,media=cdrom");
}

TEST(Nic, SendsItsMacInUpperCase) {
  Nic nic;
  nic.mac = MacAddress::parse("bc:24:11:01:02:03");
  nic.bridge = "vmbr0";
  nic.vlan = 20;
  EXPECT_EQ(nic.print(), "virtio=BC:24:11:01:02:03,bridge=vmbr0,tag=20");
}

TEST(Smbios, CarriesTheMarkAndReadsItBack) {
  Smbios smbios;
  smbios.uuid = *Uuid::parse("6e1d2f5a-0000-4000-8000-000000000001");
  smbios.family = "rocca";
  smbios.sku = "blue/cp-1";
  const auto back = Smbios::parse(smbios.print());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->uuid, smbios.uuid);
  EXPECT_EQ(back->family, "rocca");
  EXPECT_EQ(back->sku, "blue/cp-1");
  VmConfig config;
  config.options["smbios1"] = smbios.print();
  EXPECT_EQ(config.uuid(), smbios.uuid);
  EXPECT_EQ(config.smbios("sku"), "blue/cp-1");
}

TEST(VmCreate, SendsTheMarkWithTheSameCall) {
  VmCreate create;
  create.vmid = 9001;
  create.name = "cp-1";
  create.smbios = Smbios{
      *Uuid::parse("6e1d2f5a-0000-4000-8000-000000000001"), "", "", "", "", "blue/cp-1", "rocca"};
  create.boot_order = {"scsi0"};
  create.ip_configs = {{"10.0.0.11/24", "10.0.0.1", "", ""}};
  const auto parameters = create.parameters();
  EXPECT_THAT(parameters, Contains(Pair("smbios1", create.smbios->print())));
  EXPECT_THAT(parameters, Contains(Pair("boot", "order=scsi0")));
  EXPECT_THAT(parameters, Contains(Pair("ipconfig0", "ip=10.0.0.11/24,gw=10.0.0.1")));
  EXPECT_THAT(parameters, Contains(Pair("vmid", "9001")));
}

TEST(Task, WarningsAreASuccess) {
  const auto upid = Upid::parse("UPID:pve:00001ED0:00035693:66343A23:qmstart:100:root@pam:");
  EXPECT_TRUE((Task{*upid, false, "OK"}).ok());
  EXPECT_TRUE((Task{*upid, false, "WARNINGS: 2"}).ok());
  EXPECT_FALSE((Task{*upid, true, ""}).ok());
  const Task failed{*upid, false, "start failed: QEMU exited with code 1"};
  ASSERT_TRUE(failed.failure());
  EXPECT_EQ(failed.failure()->reason, Reason::StartFailed);
}

}  // namespace
}  // namespace rocca::proxmox
