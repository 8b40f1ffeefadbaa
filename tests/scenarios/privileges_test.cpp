// Doctor's table of rights against the lab: for each act and each right that is taken away, what is
// predicted is what the Proxmox then refuses, or leaves out of its answer, and nothing else.
#include "proxmox/privileges.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "scenarios/lab_rig.hpp"
#include "support/administrator.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

namespace rocca::scenarios {
namespace {

using proxmox::Act;
using proxmox::Need;
using proxmox::Vmid;

constexpr Vmid subject = 100;
constexpr Vmid made = 200;
constexpr Vmid pattern = 900;

enum class Outcome { Works, Refused, Hidden };

std::ostream& operator<<(std::ostream& out, Outcome outcome) {
  return out << (outcome == Outcome::Works     ? "works"
                 : outcome == Outcome::Refused ? "refused"
                                               : "hidden");
}

/// path -> privileges.
using Grants = std::map<std::string, std::set<std::string>>;

class PrivilegeTable : public testing::TestWithParam<bool> {
 protected:
  PrivilegeTable()
      : rig(GetParam() ? lab::pve::Release::v9() : lab::pve::Release::v8_4()),
        root(rig.wire, rig.access(rig.home.root_token)),
        ours(rig.wire, rig.access(rig.home.token)) {
    scope.version = ours.version().version;
    scope.hosts = {"pve1"};
    scope.vmid = subject;
    scope.image_storage = "local";
    scope.disk_storages = {"local-lvm"};
    scope.links = {{"vmbr0", std::nullopt, "localnetwork"}};
    scope.template_vmid = pattern;
    fetch(root, "base.qcow2");
    create(root, subject);
    create(root, pattern);
    rig.finish(root, root.start_template("pve1", pattern));
  }

  void fetch(test::Administrator& client, const std::string& name) {
    proxmox::Download download;
    download.storage = "local";
    download.filename = name;
    download.url = LabRig::image_url;
    rig.finish(client, client.start_download("pve1", download));
  }

  void create(test::Administrator& client, Vmid vmid) {
    proxmox::VmCreate vm;
    vm.vmid = vmid;
    vm.name = fmt::format("node-{}", vmid);
    vm.tags = {"rocca"};
    vm.smbios = proxmox::Smbios{Uuid{}, "", "", "", "", "blue/cp-1", "rocca"};
    vm.efi_disk = proxmox::EfiDisk{"local-lvm", false};
    proxmox::Drive system, cloud_init;
    system.storage = cloud_init.storage = "local-lvm";
    system.import_from = "local:import/base.qcow2";
    cloud_init.cloud_init = true;
    vm.drives = {{"scsi0", system}, {"ide2", cloud_init}};
    proxmox::Nic nic;
    nic.bridge = "vmbr0";
    vm.nics = {nic};
    vm.ip_configs = {{"10.0.0.11/16", "10.0.0.1", "", ""}};
    vm.nameservers = {"10.0.0.1"};
    vm.boot_order = {"scsi0"};
    const auto answer = client.start_create("pve1", vm);
    rig.finish(client, std::get<proxmox::Upid>(answer));
  }

  void remove(Vmid vmid) {
    for (const proxmox::VmRow& row : root.vms()) {
      if (row.vmid != vmid) continue;
      // The list of VMs is as old as the last round of pvestatd.
      if (root.find_status(row.node, vmid)->status == "running")
        rig.finish(root, root.start_stop(row.node, vmid));
      rig.finish(root, root.start_destroy(row.node, vmid, true));
    }
  }

  void update(Vmid vmid, const std::map<std::string, std::string>& set,
              const std::vector<std::string>& erase = {}) {
    proxmox::VmUpdate change;
    change.set = set;
    change.erase = erase;
    if (const auto upid = ours.start_update("pve1", vmid, change)) rig.finish(ours, *upid);
  }

  bool lists_storages() {
    std::set<std::string> seen;
    for (const auto& storage : ours.storages("pve1")) seen.insert(storage.name);
    return seen.contains("local") && seen.contains("local-lvm");
  }

  /// Does the act with our token, as rocca would. False: it went through, and things are missing in
  /// the answer.
  bool perform(Act act) {
    switch (act) {
      case Act::ReadCluster:
        ours.cluster_status();
        return true;
      case Act::ListVms: {
        std::set<proxmox::Vmid> seen;
        for (const auto& row : ours.vms()) seen.insert(row.vmid);
        return seen.contains(subject) &&
               (scope.template_vmid == 0 || seen.contains(scope.template_vmid));
      }
      case Act::ListStorage:
        return lists_storages();
      case Act::ListBridges: {
        const auto bridges = ours.bridges("pve1");
        return std::any_of(bridges.begin(), bridges.end(),
                           [](const auto& bridge) { return bridge.name == "vmbr0"; });
      }
      case Act::DownloadImage:
        fetch(ours, "ours.qcow2");
        return true;
      case Act::DeleteImage:
        if (const auto upid = ours.start_delete_volume("pve1", "local:import/doomed.qcow2"))
          rig.finish(ours, *upid);
        return true;
      case Act::CreateVm:
        create(ours, subject);
        return true;
      case Act::ChangeVm:
        update(subject, {{"cores", "3"}});
        update(subject, {{"memory", "4096"}});
        update(subject, {{"scsihw", "virtio-scsi-pci"}});
        update(subject, {{"name", "other"}});
        update(subject, {{"tags", "rocca;blue"}});
        update(subject, {{"scsi1", "local-lvm:1"}});
        update(subject, {{"boot", "order=scsi0"}});
        update(subject, {{"net0", "virtio,bridge=vmbr0,firewall=1"}});
        return true;
      case Act::ChangeCdrom:
        update(subject, {{"ide0", "none,media=cdrom"}});
        return true;
      case Act::RewriteCloudInit:
        ours.regenerate_cloud_init("pve1", subject);
        return true;
      case Act::ReadLog: {
        const auto log = ours.cluster_log(500);
        return std::any_of(log.begin(), log.end(),
                           [](const auto& entry) { return entry.user.starts_with("root@pam"); });
      }
      case Act::ResizeDisk:
        rig.finish(ours, ours.start_resize("pve1", subject, "scsi0", Bytes{8ull << 30}));
        return true;
      case Act::Power:
        rig.finish(ours, ours.start_vm("pve1", subject));
        rig.finish(ours, ours.start_stop("pve1", subject));
        return true;
      case Act::DestroyVm:
        rig.finish(ours, ours.start_destroy("pve1", subject, true));
        return true;
      case Act::ReadAgent:
        ours.find_agent_interfaces("pve1", subject);
        return true;
      case Act::CloneTemplate: {
        proxmox::Clone clone;
        clone.source = pattern;
        clone.target = made;
        clone.storage = "local-lvm";
        rig.finish(ours, ours.start_clone("pve1", clone));
        return true;
      }
      case Act::ReadTasks: {
        const auto tasks = ours.tasks("pve1");
        return std::any_of(tasks.begin(), tasks.end(),
                           [](const auto& row) { return row.upid.user.starts_with("root@pam"); });
      }
      case Act::MigrateVm:
        rig.finish(ours, ours.start_migrate("pve1", subject, "pve2", false));
        return true;
    }
    return true;
  }

  /// The world as the act expects it, made by somebody who may do anything.
  void prepare(Act act) {
    remove(subject);
    remove(made);
    if (act != Act::CreateVm) create(root, subject);
    if (act == Act::ChangeCdrom) {
      proxmox::VmUpdate change;
      change.set = {{"ide0", "none,media=cdrom"}};
      if (const auto upid = root.start_update("pve1", subject, change)) rig.finish(root, *upid);
    }
    if (act == Act::ReadAgent) rig.finish(root, root.start_vm("pve1", subject));
    const auto there = [&](const std::string& volume) {
      for (const auto& row : root.volumes("pve1", "local", "import"))
        if (row.id == "local:import/" + volume) return true;
      return false;
    };
    if (there("ours.qcow2"))
      if (const auto upid = root.start_delete_volume("pve1", "local:import/ours.qcow2"))
        rig.finish(root, *upid);
    if (act == Act::DeleteImage && !there("doomed.qcow2")) fetch(root, "doomed.qcow2");
  }

  void grant(const Grants& grants) {
    auto& access = rig.home.dc.access;
    for (auto& [path, principals] : access.acl) {
      principals.erase("rocca@pve");
      principals.erase("rocca@pve!lab");
    }
    for (const auto& [path, privileges] : grants)
      for (const char* who : {"rocca@pve", "rocca@pve!lab"}) access.grant(who, path, privileges);
  }

  Outcome attempt(Act act) {
    try {
      return perform(act) ? Outcome::Works : Outcome::Hidden;
    } catch (const Error& error) {
      said = error.message();
      if (error.fault() == Fault::Denied) return Outcome::Refused;
      ADD_FAILURE() << to_string(act) << " failed for another reason: " << error.render();
      return Outcome::Refused;
    }
  }

  /// What doctor says with the rights as they are: asked of Proxmox itself, path by path.
  Outcome predict(Act act) {
    const std::vector<Need> all = proxmox::needs(act, scope);
    proxmox::Permissions effective;
    for (const Need& need : all) effective.merge(ours.permissions(need.path));
    const std::vector<Need> gaps = proxmox::missing(all, effective);
    if (gaps.empty()) return Outcome::Works;
    const bool hides =
        std::all_of(gaps.begin(), gaps.end(), [](const Need& need) { return need.hides; });
    return hides ? Outcome::Hidden : Outcome::Refused;
  }

  static bool only_reads(Act act) {
    return act == Act::ReadCluster || act == Act::ListVms || act == Act::ListStorage ||
           act == Act::ListBridges || act == Act::ReadAgent || act == Act::ReadTasks ||
           act == Act::ReadLog;
  }

  void compare(Act act, const std::string& how) {
    if (prepared != act) prepare(act);
    prepared = act;
    const Outcome predicted = predict(act);
    said.clear();
    EXPECT_EQ(attempt(act), predicted) << to_string(act) << " " << how << "\n" << said;
    if (!only_reads(act)) prepared.reset();
    ++compared;
  }

  LabRig rig;
  test::Administrator root, ours;
  proxmox::Scope scope;
  std::optional<Act> prepared;
  std::string said;  // by the Proxmox, when it refused
  unsigned compared = 0;
};

INSTANTIATE_TEST_SUITE_P(Pve, PrivilegeTable, testing::Bool(),
                         [](const auto& row) { return row.param ? "v9" : "v8_4"; });

/// The narrowest rights that an act asks for.
Grants least(const std::vector<Need>& needs) {
  Grants grants;
  for (const Need& need : needs) {
    std::set<std::string>& there = grants[need.path];
    if (std::none_of(need.any_of.begin(), need.any_of.end(),
                     [&](const std::string& name) { return there.contains(name); }))
      there.insert(need.any_of.front());
  }
  return grants;
}

TEST_P(PrivilegeTable, WithExactlyWhatAnActNeedsItWorks) {
  for (const Act act : proxmox::all_acts()) {
    grant(least(proxmox::needs(act, scope)));
    ASSERT_EQ(predict(act), Outcome::Works) << to_string(act);
    compare(act, "with its least rights");
  }
}

TEST_P(PrivilegeTable, WithoutOneOfItsRightsAnActIsRefusedAsPredicted) {
  for (const Act act : proxmox::all_acts()) {
    const Grants whole = least(proxmox::needs(act, scope));
    for (const auto& [path, privileges] : whole)
      for (const std::string& privilege : privileges) {
        Grants fewer = whole;
        fewer[path].erase(privilege);
        grant(fewer);
        ASSERT_NE(predict(act), Outcome::Works) << to_string(act);
        compare(act, fmt::format("without {} on {}", privilege, path));
      }
  }
  EXPECT_GE(compared, 35u);  // else the table has shrunk
}

TEST_P(PrivilegeTable, ARightThatAnActDoesNotNeedChangesNothing) {
  std::vector<Need> everything;
  for (const Act act : proxmox::all_acts())
    for (Need& need : proxmox::needs(act, scope)) everything.push_back(std::move(need));
  const Grants whole = least(everything);
  for (const Act act : proxmox::all_acts())
    for (const auto& [path, privileges] : whole)
      for (const std::string& privilege : privileges) {
        Grants fewer = whole;
        fewer[path].erase(privilege);
        grant(fewer);
        compare(act, fmt::format("with all but {} on {}", privilege, path));
      }
  EXPECT_GT(compared, 200u);
}

}  // namespace
}  // namespace rocca::scenarios
