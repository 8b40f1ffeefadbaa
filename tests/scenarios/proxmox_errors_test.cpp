// The sentences by which Proxmox says no, one row each: provoked in the lab through the wire, and
// read by the client.

#include "scenarios/fibers.hpp"
#include "scenarios/pve_lab.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca {
namespace {

using proxmox::Reason;
using test::Lab;
using test::Said;
using testing::HasSubstr;

struct Row {
  const char* situation;
  Said (*provoke)(Lab& lab);
  int status;  // 0: 200 and a task that fails
  const char* text;
  Reason reason;
};

std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << row.situation;
}

Said both_create(Lab& lab) {
  test::Fibers fibers{lab.world};
  lab::Wire wire{lab.world, fibers};
  std::vector<Said> answers;
  for (const char* node : {"pve1", "pve2"})
    fibers.start([&lab, &wire, &answers, node] {
      answers.push_back(lab.ask_with(wire, lab.root(), "POST", fmt::format("/nodes/{}/qemu", node),
                                     {{"vmid", "101"}}));
    });
  fibers.run();
  return answers[0].status == 200 ? answers[1] : answers[0];
}

Said linked(Lab& lab, bool delete_disk) {
  lab.vm();
  lab.done("POST", Lab::vm_path() + "/template");
  lab.done("POST", Lab::vm_path() + "/clone", {{"newid", "101"}});
  if (!delete_disk) return lab.task("DELETE", Lab::vm_path());
  lab.set({{"delete", "scsi0"}});
  return lab.ask("PUT", Lab::vm_path() + "/config", {{"delete", "unused0"}});
}

Said full(Lab& lab, const char* storage, std::uint64_t left) {
  lab::pve::Storage& target = lab.dc->storages.at(storage);
  target.reserved = target.total - left;
  return lab.task("POST", "/nodes/pve1/qemu",
                  {{"vmid", "100"}, {"scsi0", fmt::format("{}:8", storage)}});
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all{
      {"no such VM", [](Lab& lab) { return lab.ask("GET", Lab::vm_path() + "/config"); }, 500,
       "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist", Reason::DoesNotExist},
      {"no such VM, reboot",
       [](Lab& lab) { return lab.ask("POST", Lab::vm_path() + "/status/reboot"); }, 500,
       "unable to find configuration file for VM 100 on node 'pve1'", Reason::DoesNotExist},
      {"no such VM, stop",
       [](Lab& lab) { return lab.task("POST", Lab::vm_path() + "/status/stop"); }, 0,
       "unable to find configuration file for VM 100 on node 'pve1'", Reason::DoesNotExist},
      {"no such VM, start",
       [](Lab& lab) { return lab.task("POST", Lab::vm_path() + "/status/start"); }, 0,
       "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist", Reason::DoesNotExist},
      {"no such VM, resize",
       [](Lab& lab) {
         return lab.task("PUT", Lab::vm_path() + "/resize", {{"disk", "scsi0"}, {"size", "+1G"}});
       },
       0, "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist",
       Reason::DoesNotExist},
      {"VMID taken",
       [](Lab& lab) {
         lab.done("POST", "/nodes/pve2/qemu", {{"vmid", "100"}});
         return lab.ask("POST", "/nodes/pve1/qemu", {{"vmid", "100"}});
       },
       500, "unable to create VM 100 - VM 100 already exists on node 'pve2'",
       Reason::AlreadyExists},
      {"VMID being created right now",
       [](Lab& lab) {
         const auto held =
             lab.dc->find_node("pve1")->locks.try_take("/var/lock/qemu-server/lock-100.conf");
         return lab.ask("POST", "/nodes/pve1/qemu", {{"vmid", "100"}});
       },
       500,
       "unable to create VM 100 - can't lock file '/var/lock/qemu-server/lock-100.conf' - got "
       "timeout",
       Reason::Contention},
      {"VMID race across nodes", both_create, 500, "failed: File exists", Reason::AlreadyExists},
      {"nextid of a taken id",
       [](Lab& lab) {
         lab.vm();
         return lab.ask("GET", "/cluster/nextid", {{"vmid", "100"}});
       },
       400, "vmid: VM 100 already exists", Reason::AlreadyExists},
      {"digest, config",
       [](Lab& lab) {
         lab.vm();
         return lab.ask("PUT", Lab::vm_path() + "/config", {{"cores", "2"}, {"digest", "aa"}});
       },
       500, "checksum mismatch (file change by other user?)", Reason::Changed},
      {"digest, resize",
       [](Lab& lab) {
         lab.vm();
         return lab.task("PUT", Lab::vm_path() + "/resize",
                         {{"disk", "scsi0"}, {"size", "+1G"}, {"digest", "aa"}});
       },
       0, "checksum mismatch (file change by other user?)", Reason::Changed},
      {"digest, move_disk",
       [](Lab& lab) {
         lab.vm();
         return lab.ask("POST", Lab::vm_path() + "/move_disk",
                        {{"disk", "scsi0"}, {"storage", "other"}, {"digest", "aa"}});
       },
       500, "detected modified configuration - file changed by other user? Try again.",
       Reason::Changed},
      {"destroy running",
       [](Lab& lab) {
         lab.vm();
         lab.run();
         return lab.ask("DELETE", Lab::vm_path());
       },
       500, "VM 100 is running - destroy failed", Reason::AlreadyRunning},
      {"destroy protected",
       [](Lab& lab) {
         lab.vm(100, {{"protection", "1"}});
         return lab.ask("DELETE", Lab::vm_path());
       },
       500, "can't remove VM 100 - protection mode enabled", Reason::Protected},
      {"remove disk of protected VM",
       [](Lab& lab) {
         lab.vm(100, {{"protection", "1"}});
         return lab.ask("PUT", Lab::vm_path() + "/config", {{"delete", "scsi0"}});
       },
       500, "can't remove drive 'scsi0' - protection mode enabled", Reason::Protected},
      {"destroy HA-managed",
       [](Lab& lab) {
         lab.vm();
         EXPECT_EQ(lab.ask("POST", "/cluster/ha/resources", {{"sid", "vm:100"}}).status, 200);
         return lab.ask("DELETE", Lab::vm_path());
       },
       500, "unable to remove VM 100 - used in HA resources and purge parameter not set.",
       Reason::InUse},
      {"destroy replicated",
       [](Lab& lab) {
         lab.vm();
         lab.dc->replication[100] = "100-0";
         return lab.ask("DELETE", Lab::vm_path());
       },
       500, "There is a replication job '100-0' for guest '100' - ", Reason::InUse},
      {"destroy template in use", [](Lab& lab) { return linked(lab, false); }, 0,
       "base volume 'disks:100/base-100-disk-0.qcow2' is still in use by linked cloned",
       Reason::InUse},
      {"delete a base in use", [](Lab& lab) { return linked(lab, true); }, 500,
       "base volume '100/base-100-disk-0.qcow2' is still in use by linked clones", Reason::InUse},
      {"start template",
       [](Lab& lab) {
         lab.vm();
         lab.done("POST", Lab::vm_path() + "/template");
         return lab.task("POST", Lab::vm_path() + "/status/start");
       },
       0, "you can't start a vm if it's a template", Reason::WrongState},
      {"nothing to change",
       [](Lab& lab) {
         lab.vm();
         return lab.ask("PUT", Lab::vm_path() + "/config");
       },
       500, "no options specified", Reason::BadParameter},
      {"skiplock as a token",
       [](Lab& lab) {
         lab.vm();
         return lab.ask_with(lab.wire, lab.token(), "PUT", Lab::vm_path() + "/config",
                             {{"name", "x"}, {"skiplock", "1"}});
       },
       400, "skiplock: Only root may use this option.", Reason::RootOnly},
      {"no quorum, create",
       [](Lab& lab) {
         lab.dc->quorate = false;
         return lab.ask("POST", "/nodes/pve1/qemu", {{"vmid", "100"}});
       },
       500, "cluster not ready - no quorum?", Reason::NoQuorum},
      {"no quorum, elsewhere",
       [](Lab& lab) {
         lab.dc->quorate = false;
         return lab.ask("POST", "/pools", {{"poolid", "prod"}});
       },
       500, "error: no quorum!", Reason::NoQuorum},
      {"storage disabled",
       [](Lab& lab) {
         lab.dc->storages.at("other").disabled = true;
         return lab.task("POST", "/nodes/pve1/qemu", {{"vmid", "100"}, {"scsi0", "other:1"}});
       },
       0, "unable to create VM 100 - storage 'other' is disabled", Reason::Disabled},
      {"storage of another node",
       [](Lab& lab) {
         lab.dc->storages.at("other").nodes = {"pve2"};
         return lab.task("POST", "/nodes/pve1/qemu", {{"vmid", "100"}, {"scsi0", "other:1"}});
       },
       0, "unable to create VM 100 - storage 'other' is not available on node 'pve1'",
       Reason::Disabled},
      {"storage offline",
       [](Lab& lab) {
         lab.dc->storages.at("other").online = false;
         return lab.task("POST", "/nodes/pve1/qemu", {{"vmid", "100"}, {"scsi0", "other:1"}});
       },
       0, "storage 'other' is not online", Reason::Offline},
      {"no space, thick LVM", [](Lab& lab) { return full(lab, "thick", 1ull << 30); }, 0,
       "not enough free space (1073741824 < 8589934592)", Reason::NoSpace},
      {"no space, thin LVM", [](Lab& lab) { return full(lab, "thin", 0); }, 0,
       "lvcreate 'thin/vm-100-disk-0' error:", Reason::NoSpace},
      {"no space, files", [](Lab& lab) { return full(lab, "disks", 0); }, 0,
       "No space left on device", Reason::NoSpace},
      {"bridge missing at start",
       [](Lab& lab) {
         lab.vm(100, {{"net0", "virtio,bridge=vmbr9"}});
         return lab.task("POST", Lab::vm_path() + "/status/start");
       },
       0, "start failed: QEMU exited with code 1", Reason::StartFailed},
      {"bridge missing at hotplug",
       [](Lab& lab) {
         lab.vm(100, {{"net1", "virtio=BC:24:11:00:00:01,bridge=vmbr0"}});
         lab.run();
         return lab.ask("PUT", Lab::vm_path() + "/config",
                        {{"net1", "virtio=BC:24:11:00:00:01,bridge=vmbr9"}});
       },
       400, "net1: hotplug problem - interface vmbr9 does not exist", Reason::BadParameter},
      {"no KVM",
       [](Lab& lab) {
         lab.vm();
         lab.dc->find_node("pve1")->kvm = false;
         return lab.task("POST", Lab::vm_path() + "/status/start");
       },
       0,
       "KVM virtualisation configured, but not available. Either disable in VM configuration or "
       "enable in BIOS.",
       Reason::StartFailed},
      {"hotplug failure",
       [](Lab& lab) {
         lab.vm(100, {{"scsi1", "none,media=cdrom"}});
         lab.run();
         return lab.ask("PUT", Lab::vm_path() + "/config", {{"scsi1", "disks:1"}});
       },
       400, "scsi1: hotplug problem - unable to change media type", Reason::BadParameter},
      {"hotplug failure, as a task",
       [](Lab& lab) {
         lab.vm(100, {{"scsi1", "none,media=cdrom"}});
         lab.run();
         return lab.task("POST", Lab::vm_path() + "/config", {{"scsi1", "disks:1"}});
       },
       0, "400 Parameter verification failed.", Reason::BadParameter},
      {"unplugging the boot disk",
       [](Lab& lab) {
         lab.vm();
         lab.run();
         return lab.ask("PUT", Lab::vm_path() + "/config", {{"delete", "scsi0"}});
       },
       400, "scsi0: hotplug problem - can't unplug bootdisk 'scsi0'", Reason::BadParameter},
      {"unknown node", [](Lab& lab) { return lab.ask("GET", "/nodes/pve9/qemu"); }, 500,
       "hostname lookup 'pve9' failed", Reason::DoesNotExist},
      {"node offline",
       [](Lab& lab) {
         lab.dc->set_online("pve3", false);
         return lab.ask("GET", "/nodes/pve3/qemu");
       },
       595, "", Reason::NotExecuted},
  };
  return all;
}

class ProxmoxErrors : public testing::TestWithParam<Row> {};

TEST_P(ProxmoxErrors, AreSaidByTheLabAndReadByTheClient) {
  const Row& row = GetParam();
  Lab lab;
  const Said said = row.provoke(lab);
  EXPECT_EQ(said.status, row.status);
  EXPECT_THAT(said.all(), HasSubstr(row.text));
  EXPECT_STREQ(to_string(said.read().reason), to_string(row.reason)) << said.all();
}

INSTANTIATE_TEST_SUITE_P(Section62, ProxmoxErrors, testing::ValuesIn(rows()),
                         [](const testing::TestParamInfo<Row>& given) {
                           std::string name;
                           for (const char c : std::string(given.param.situation))
                             name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace rocca
