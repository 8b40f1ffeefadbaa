// What changes its place: a VM its host, a disk its storage or its VM, a VM into an archive and
// back.

#include "lab/pve/qemu/qemu.hpp"
#include "scenarios/pve_lab.hpp"

namespace rocca {
namespace {

using lab::pve::Vm;
using lab::pve::Volume;
using proxmox::Reason;
using test::Form;
using test::Lab;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::StartsWith;

class Moves : public testing::Test {
 protected:
  Moves() {
    lab.dc->guest_of = [](const Vm&) { return lab::pve::Guest{}; };
    lab.dc->storages.at("other").content = {"images", "backup"};
  }
  std::vector<std::string> volumes(const std::string& storage, const std::string& host = "pve1") {
    std::vector<std::string> names;
    for (const auto& [name, volume] : lab.dc->storages.at(storage).on(host)) names.push_back(name);
    return names;
  }
  const Vm& vm(unsigned id = 100) { return *lab.dc->find_vm(id); }
  std::string migrate(Form form) {
    form.emplace_back("target", "pve2");
    return lab.task("POST", Lab::vm_path() + "/migrate", form).text;
  }

  Lab lab;
};

TEST_F(Moves, AStoppedVmGoesWithItsDisks) {
  lab.vm();
  EXPECT_EQ(migrate({}), "OK");
  EXPECT_EQ(vm().node, "pve2");
  EXPECT_THAT(volumes("disks", "pve1"), IsEmpty());
  EXPECT_THAT(volumes("disks", "pve2"), ElementsAre("100/vm-100-disk-0.qcow2"));
  EXPECT_THAT(vm().config, Not(Contains(Key("lock"))));
  EXPECT_EQ(lab.ask("GET", Lab::vm_path() + "/config").status, 500) << "it is on the other host";
}

TEST_F(Moves, ARunningVmGoesOnlineAndItsLocalDisksOnlyWhenTheyAreMeant) {
  lab.vm();
  lab.run();
  EXPECT_THAT(lab.ask("POST", Lab::vm_path() + "/migrate", {{"target", "pve2"}}).text,
              HasSubstr("can't migrate running VM without --online"));
  EXPECT_THAT(migrate({{"online", "1"}}),
              HasSubstr("can't live migrate attached local disks without with-local-disks option"));
  EXPECT_EQ(vm().node, "pve1");
  EXPECT_EQ(migrate({{"online", "1"}, {"with-local-disks", "1"}}), "OK");
  EXPECT_EQ(vm().node, "pve2");
  EXPECT_TRUE(lab::pve::is_running(vm())) << "it never stopped";
  EXPECT_THAT(volumes("disks", "pve2"), ElementsAre("100/vm-100-disk-0.qcow2"));
}

TEST_F(Moves, ASharedDiskStaysWhereItIs) {
  lab.dc->storages.at("disks").shared = true;
  lab.vm();
  lab.run();
  EXPECT_EQ(migrate({{"online", "1"}}), "OK");
  EXPECT_EQ(vm().node, "pve2");
  EXPECT_THAT(volumes("disks", "pve1"), ElementsAre("100/vm-100-disk-0.qcow2"));
}

TEST_F(Moves, AVmDoesNotGoWhereItCannot) {
  lab.vm();
  EXPECT_THAT(lab.ask("POST", Lab::vm_path() + "/migrate", {{"target", "pve1"}}).all(),
              HasSubstr("target is local node"));
  EXPECT_THAT(lab.ask("POST", Lab::vm_path() + "/migrate", {{"target", "pve9"}}).text,
              HasSubstr("no such cluster node 'pve9'"));
  lab.dc->set_online("pve2", false);
  EXPECT_THAT(lab.ask("POST", Lab::vm_path() + "/migrate", {{"target", "pve2"}}).text,
              HasSubstr("target node 'pve2' is offline"));
  lab.dc->set_online("pve2", true);
  lab.dc->storages.at("disks").nodes = {"pve1"};
  EXPECT_THAT(migrate({}), HasSubstr("storage 'disks' is not available on node 'pve2'"));
  EXPECT_EQ(vm().node, "pve1");
  EXPECT_THAT(vm().config, Not(Contains(Key("lock"))));
}

TEST_F(Moves, ADiskChangesItsStorage) {
  lab.vm();
  lab.done("POST", Lab::vm_path() + "/move_disk", {{"disk", "scsi0"}, {"storage", "thin"}});
  EXPECT_THAT(vm().config.at("scsi0"), StartsWith("thin:vm-100-disk-0"));
  EXPECT_EQ(vm().config.at("unused0"), "disks:100/vm-100-disk-0.qcow2");
  lab.done("POST", Lab::vm_path() + "/move_disk",
           {{"disk", "scsi0"}, {"storage", "other"}, {"delete", "1"}});
  EXPECT_THAT(volumes("thin"), IsEmpty());
}

TEST_F(Moves, ADiskChangesItsVm) {
  lab.vm(100, {{"scsi1", "disks:2,format=qcow2"}});
  lab.vm(101);
  lab.done("POST", Lab::vm_path() + "/move_disk",
           {{"disk", "scsi1"}, {"target-vmid", "101"}, {"target-disk", "virtio3"}});
  EXPECT_THAT(vm().config, Not(Contains(Key("scsi1"))));
  EXPECT_EQ(vm(101).config.at("virtio3"), "disks:101/vm-101-disk-1.qcow2,size=2G");
  EXPECT_THAT(volumes("disks"), ElementsAre("100/vm-100-disk-0.qcow2", "101/vm-101-disk-0.qcow2",
                                            "101/vm-101-disk-1.qcow2"));
  lab.done("DELETE", Lab::vm_path(101));
  EXPECT_THAT(volumes("disks"), ElementsAre("100/vm-100-disk-0.qcow2")) << "it was the other's";
}

TEST_F(Moves, ADiskDoesNotGoToAVmThatCannotTakeIt) {
  lab.vm(100, {{"scsi1", "disks:2,format=qcow2"}});
  lab.vm(101);
  const auto hand = [&](Form form) {
    return lab.ask("POST", Lab::vm_path() + "/move_disk", form).all();
  };
  EXPECT_THAT(hand({{"disk", "scsi1"}, {"target-vmid", "101"}, {"target-disk", "scsi0"}}),
              HasSubstr("Target disk key 'scsi0' is already in use for VM '101'"));
  EXPECT_THAT(hand({{"disk", "scsi5"}, {"target-vmid", "101"}}),
              HasSubstr("Disk 'scsi5' for VM '100' does not exist"));
  EXPECT_THAT(hand({{"disk", "scsi1"}, {"target-vmid", "109"}}),
              HasSubstr("could not find target VM 109"));
  EXPECT_THAT(hand({{"disk", "scsi1"}, {"target-vmid", "100"}}), HasSubstr("target-vmid"));
  EXPECT_THAT(hand({{"disk", "scsi1"},
                    {"target-vmid", "101"},
                    {"target-disk", "scsi7"},
                    {"target-digest", std::string(40, 'a')}}),
              HasSubstr("detected modified configuration"));
  lab.done("POST", "/nodes/pve2/qemu", {{"vmid", "102"}});
  EXPECT_THAT(hand({{"disk", "scsi1"}, {"target-vmid", "102"}}),
              HasSubstr("Both VMs need to be on the same node (pve1 != pve2)"));
  lab.run();
  EXPECT_THAT(hand({{"disk", "scsi1"}, {"target-vmid", "101"}, {"target-disk", "scsi7"}}),
              HasSubstr("running VM"));
  EXPECT_THAT(vm().config, Contains(Key("scsi1")));
}

TEST_F(Moves, AFullCloneGoesToAnotherHostAndALinkedOneStays) {
  lab.dc->storages.at("disks").shared = true;
  lab.vm();
  lab.done("POST", Lab::vm_path() + "/clone",
           {{"newid", "101"}, {"full", "1"}, {"target", "pve2"}, {"name", "copy"}});
  EXPECT_EQ(vm(101).node, "pve2");
  EXPECT_EQ(vm(101).config.at("name"), "copy");
  EXPECT_NE(vm(101).config.at("smbios1"), vm().config.at("smbios1"));
  lab.done("POST", Lab::vm_path() + "/template");
  lab.done("POST", Lab::vm_path() + "/clone", {{"newid", "102"}});
  EXPECT_THAT(vm(102).config.at("scsi0"),
              HasSubstr("disks:100/base-100-disk-0.qcow2/102/vm-102-disk-0.qcow2"));
}

class Backups : public Moves {
 protected:
  Backups() {
    lab.vm(100, {{"name", "first"}, {"net0", "virtio,bridge=vmbr0"}, {"ide2", "thin:cloudinit"}});
    lab.dc->find_volume("disks:100/vm-100-disk-0.qcow2", *lab.dc->find_node("pve1"))
        ->image.identity = "talos";
    back_up();
    archive = "other:" + volumes("other").at(0);
  }
  void back_up() {
    const std::string upid = lab::pve::start_backup(*lab.dc, 100, "other");
    lab::pve::Task* task = lab.dc->find_node("pve1")->find_task(upid);
    while (task->running() && !vm().config.contains("lock") && lab.world.step()) {
    }
    EXPECT_THAT(vm().config, Contains(testing::Pair("lock", "backup"))) << "while it lasts";
    while (task->running() && lab.world.step()) {
    }
    EXPECT_EQ(task->status, "OK");
    EXPECT_EQ(task->upid.user, "root@pam");
    EXPECT_THAT(vm().config, Not(Contains(Key("lock"))));
  }
  test::Said restore(unsigned id, Form form = {}) {
    form.emplace_back("vmid", std::to_string(id));
    form.emplace_back("archive", archive);
    return lab.ask("POST", "/nodes/pve1/qemu", form);
  }
  void restored(unsigned id, Form form = {}) {
    form.emplace_back("vmid", std::to_string(id));
    form.emplace_back("archive", archive);
    lab.done("POST", "/nodes/pve1/qemu", form);
  }

  std::string archive;
};

TEST_F(Backups, ARestoredVmIsTheSameUntilItIsMadeUnique) {
  restored(101);
  EXPECT_EQ(vm(101).config.at("name"), "first");
  EXPECT_EQ(vm(101).config.at("smbios1"), vm().config.at("smbios1")) << "two VMs with one proof";
  EXPECT_EQ(vm(101).config.at("net0"), vm().config.at("net0"));
  EXPECT_NE(vm(101).config.at("vmgenid"), vm().config.at("vmgenid"));
  EXPECT_THAT(vm(101).config.at("scsi0"), StartsWith("disks:101/vm-101-disk-0"));
  EXPECT_EQ(lab.dc->find_volume("disks:101/vm-101-disk-0.qcow2", *lab.dc->find_node("pve1"))
                ->image.identity,
            "talos");
  restored(102, {{"unique", "1"}, {"storage", "thin"}, {"name", "third"}});
  EXPECT_NE(vm(102).config.at("smbios1"), vm().config.at("smbios1"));
  EXPECT_NE(vm(102).config.at("net0"), vm().config.at("net0"));
  EXPECT_EQ(vm(102).config.at("name"), "third");
  EXPECT_THAT(vm(102).config.at("scsi0"), StartsWith("thin:vm-102-disk-0"));
  EXPECT_EQ(vm(101).config.at("ide2"), "thin:vm-101-cloudinit,media=cdrom") << "made anew";
  EXPECT_NE(lab.dc->find_volume("thin:vm-102-cloudinit", *lab.dc->find_node("pve1")), nullptr);
}

TEST_F(Backups, AVmThatIsThereIsReplacedOnlyWithForceAndWhenItIsOff) {
  EXPECT_THAT(restore(100).text, HasSubstr("already exists on node 'pve1'"));
  EXPECT_EQ(restore(100).read().reason, Reason::AlreadyExists);
  lab.set({{"memory", "512"}});
  lab.run();
  EXPECT_THAT(restore(100, {{"force", "1"}}).text, HasSubstr("VM is running"));
  lab.done("POST", Lab::vm_path() + "/status/stop");
  restored(100, {{"force", "1"}});
  EXPECT_EQ(vm().config.at("memory"), "128");
  EXPECT_THAT(volumes("disks"), ElementsAre("100/vm-100-disk-0.qcow2"));
}

TEST_F(Backups, ARestoreWithoutSpaceLeavesNothing) {
  lab::pve::Storage& thin = lab.dc->storages.at("thick");
  thin.reserved = thin.total;
  EXPECT_THAT(lab.task("POST", "/nodes/pve1/qemu",
                       {{"vmid", "101"}, {"archive", archive}, {"storage", "thick"}})
                  .text,
              HasSubstr("not enough free space"));
  EXPECT_EQ(lab.dc->find_vm(101), nullptr);
  EXPECT_THAT(volumes("thick"), IsEmpty());
}

TEST_F(Backups, AnArchiveIsListedAndWhatIsNoneIsRefused) {
  EXPECT_THAT(volumes("other"), ElementsAre(AllOf(StartsWith("backup/vzdump-qemu-100-"),
                                                  testing::EndsWith(".vma.zst"))));
  archive = "other:backup/vzdump-qemu-100-none.vma.zst";
  EXPECT_THAT(restore(101).text, HasSubstr("does not exist"));
  Volume foreign;
  foreign.name = "backup/vzdump-qemu-100-none.vma.zst";
  foreign.content = "backup";
  lab.dc->storages.at("other").on("pve1")[foreign.name] = foreign;
  EXPECT_THAT(lab.task("POST", "/nodes/pve1/qemu", {{"vmid", "101"}, {"archive", archive}}).text,
              HasSubstr("is no vzdump archive"));
  EXPECT_EQ(lab.dc->find_vm(101), nullptr);
}

}  // namespace
}  // namespace rocca
