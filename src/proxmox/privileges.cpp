#include "proxmox/privileges.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace rocca::proxmox {

namespace {

/// Collects the needs of one act.
class Collector {
 public:
  Collector(Act act, const Scope& scope) : act_(act), scope_(scope) {}

  Need& need(std::string path, std::vector<std::string> any_of, std::string why) {
    needs_.push_back({act_, std::move(path), std::move(any_of), std::move(why), false, false});
    return needs_.back();
  }

  /// Rights on a VM: checked on /vms/ID, and at creation on the pool it is made in.
  void vm(std::vector<std::string> any_of, std::string why) {
    need(vm_path(), std::move(any_of), std::move(why));
  }

  std::string vm_path() const {
    return scope_.pool.empty() ? fmt::format("/vms/{}", scope_.vmid) : "/pool/" + scope_.pool;
  }

  void links() {
    for (const Scope::Link& link : scope_.links) {
      std::string path = fmt::format("/sdn/zones/{}/{}", link.zone, link.bridge);
      if (link.vlan) path += fmt::format("/{}", *link.vlan);
      need(std::move(path), {"SDN.Use"}, "connect NICs to " + link.bridge);
    }
  }

  void mappings() {
    for (const std::string& name : scope_.pci_mappings)
      need("/mapping/pci/" + name, {"Mapping.Use"}, "pass the device " + name + " through");
  }

  std::vector<Need> take() && { return std::move(needs_); }

 private:
  Act act_;
  const Scope& scope_;
  std::vector<Need> needs_;
};

std::string storage_path(const std::string& storage) {
  return "/storage/" + storage;
}

/// The role a path gets in our pveum lines.
std::string role_of(const std::string& path, const Scope& scope) {
  if (path == "/") return "RoccaSee";
  if (path.starts_with("/vms") || path.starts_with("/pool")) return "RoccaVM";
  if (path.starts_with("/nodes")) return "RoccaNode";
  if (path.starts_with("/sdn")) return "RoccaNet";
  if (path.starts_with("/mapping")) return "RoccaDevice";
  if (path.starts_with("/storage/"))
    return path == storage_path(scope.image_storage) ? "RoccaImage" : "RoccaDisk";
  return "RoccaOther";
}

/// Where a right is best granted: on /vms instead of one id, on the bridge instead of one VLAN.
std::string grant_path(const std::string& path, const Scope& scope) {
  if (path.starts_with("/vms/")) return "/vms";
  for (const Scope::Link& link : scope.links) {
    const std::string bridge = fmt::format("/sdn/zones/{}/{}", link.zone, link.bridge);
    if (path == bridge || path.starts_with(bridge + "/")) return bridge;
  }
  return path;
}

}  // namespace

const std::vector<Act>& all_acts() {
  static const std::vector<Act> acts = {Act::ReadCluster,   Act::ListVms,          Act::ListStorage,
                                        Act::ListBridges,   Act::DownloadImage,    Act::DeleteImage,
                                        Act::CreateVm,      Act::ChangeVm,         Act::ResizeDisk,
                                        Act::Power,         Act::DestroyVm,        Act::ReadAgent,
                                        Act::CloneTemplate, Act::ReadTasks,        Act::MigrateVm,
                                        Act::ChangeCdrom,   Act::RewriteCloudInit, Act::ReadLog};
  return acts;
}

const char* to_string(Act act) noexcept {
  switch (act) {
    case Act::ReadCluster:
      return "read-cluster";
    case Act::ListVms:
      return "list-vms";
    case Act::ListStorage:
      return "list-storage";
    case Act::ListBridges:
      return "list-bridges";
    case Act::DownloadImage:
      return "download-image";
    case Act::DeleteImage:
      return "delete-image";
    case Act::CreateVm:
      return "create-vm";
    case Act::ChangeVm:
      return "change-vm";
    case Act::ResizeDisk:
      return "resize-disk";
    case Act::Power:
      return "power";
    case Act::DestroyVm:
      return "destroy-vm";
    case Act::ReadAgent:
      return "read-agent";
    case Act::CloneTemplate:
      return "clone-template";
    case Act::ReadTasks:
      return "read-tasks";
    case Act::MigrateVm:
      return "migrate-vm";
    case Act::ChangeCdrom:
      return "change-cdrom";
    case Act::RewriteCloudInit:
      return "rewrite-cloud-init";
    case Act::ReadLog:
      return "read-log";
  }
  return "?";
}

std::vector<Need> needs(Act act, const Scope& scope) {
  Collector collect{act, scope};
  switch (act) {
    case Act::ReadCluster:
      collect.need("/", {"Sys.Audit"}, "see whether the Proxmox cluster has quorum");
      break;
    case Act::ListVms:
      // Reads check the VM itself; a right on the pool reaches it because the VM is a member.
      collect.need(collect.vm_path(), {"VM.Audit"}, "see our VMs").hides = true;
      if (scope.template_vmid != 0)
        collect.need(fmt::format("/vms/{}", scope.template_vmid), {"VM.Audit"}, "see the template")
            .hides = true;
      if (!scope.pool.empty()) {
        Need& need = collect.need("/pool/" + scope.pool, {"Pool.Audit"},
                                  "see that pool " + scope.pool + " is there");
        need.optional = need.hides = true;
      }
      break;
    case Act::ListStorage: {
      std::set<std::string> storages(scope.disk_storages.begin(), scope.disk_storages.end());
      if (!scope.image_storage.empty()) storages.insert(scope.image_storage);
      for (const std::string& storage : storages)
        collect
            .need(storage_path(storage), {"Datastore.Audit", "Datastore.AllocateSpace"},
                  "see storage " + storage)
            .hides = true;
      break;
    }
    case Act::ListBridges:
      for (const Scope::Link& link : scope.links)
        collect
            .need(fmt::format("/sdn/zones/{}/{}", link.zone, link.bridge), {"SDN.Use", "SDN.Audit"},
                  "see bridge " + link.bridge)
            .hides = true;
      // Which zone a VNet is in shows only to who may audit it.
      for (const Scope::Link& link : scope.links)
        if (link.zone != "localnetwork")
          collect
              .need(fmt::format("/sdn/zones/{}/{}", link.zone, link.bridge), {"SDN.Audit"},
                    "see the zone of " + link.bridge)
              .hides = true;
      break;
    case Act::DownloadImage:
      if (scope.image_storage.empty()) break;
      collect.need(storage_path(scope.image_storage), {"Datastore.AllocateTemplate"},
                   "store images on " + scope.image_storage);
      for (const std::string& host : scope.hosts)
        collect.need("/nodes/" + host, {"Sys.AccessNetwork"}, "let " + host + " fetch images");
      break;
    case Act::DeleteImage: {
      if (scope.image_storage.empty()) break;
      Need& need = collect.need(storage_path(scope.image_storage), {"Datastore.Allocate"},
                                "remove images nobody uses (without it they stay)");
      need.optional = true;
      break;
    }
    case Act::CreateVm:
      collect.vm({"VM.Allocate"}, "create VMs");
      for (const std::string& storage : scope.disk_storages)
        collect.need(storage_path(storage), {"Datastore.AllocateSpace"}, "put disks on " + storage);
      if (!scope.image_storage.empty())
        collect.need(storage_path(scope.image_storage),
                     {"Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.Audit"},
                     "import disks from " + scope.image_storage);
      collect.vm({"VM.Config.CPU"}, "set CPU type and cores");
      collect.vm({"VM.Config.Memory"}, "set memory");
      collect.vm({"VM.Config.HWType"}, "set machine type, SCSI controller and SMBIOS mark");
      collect.vm({"VM.Config.Options"}, "set name, agent, firmware, tags");
      collect.vm({"VM.Config.Disk"}, "set the boot order");
      collect.vm({"VM.Config.Network"}, "add NICs");
      collect.vm({"VM.Config.Cloudinit", "VM.Config.Network"}, "set cloud-init addresses");
      collect.links();
      collect.mappings();
      break;
    case Act::ChangeVm:
      collect.vm({"VM.Config.CPU"}, "change CPU type and cores");
      collect.vm({"VM.Config.Memory"}, "change memory");
      collect.vm({"VM.Config.HWType"}, "change machine type and SCSI controller");
      collect.vm({"VM.Config.Options"}, "change name, agent, tags");
      collect.vm({"VM.Config.Disk"}, "change disks and boot order");
      for (const std::string& storage : scope.disk_storages)
        collect.need(storage_path(storage), {"Datastore.AllocateSpace"}, "add disks on " + storage);
      collect.vm({"VM.Config.Network"}, "change NICs");
      collect.links();
      collect.mappings();
      break;
    case Act::ChangeCdrom:
      collect.vm({"VM.Config.CDROM"}, "change CD-ROM drives (the ISO, cloud-init)");
      break;
    case Act::RewriteCloudInit:
      collect.vm({"VM.Config.Cloudinit"}, "write the cloud-init drive again");
      break;
    case Act::ResizeDisk:
      collect.vm({"VM.Config.Disk"}, "grow disks");
      for (const std::string& storage : scope.disk_storages)
        collect.need(storage_path(storage), {"Datastore.AllocateSpace"},
                     "grow disks on " + storage);
      break;
    case Act::Power:
      collect.vm({"VM.PowerMgmt"}, "start and stop VMs");
      break;
    case Act::DestroyVm:
      collect.vm({"VM.Allocate"}, "destroy VMs");
      break;
    case Act::ReadAgent:
      if (scope.version.major() >= 9)
        collect.vm({"VM.GuestAgent.Audit", "VM.GuestAgent.Unrestricted"},
                   "ask the guest agent for addresses");
      else
        collect.vm({"VM.Monitor"}, "ask the guest agent for addresses");
      break;
    case Act::CloneTemplate:
      if (scope.template_vmid == 0) break;
      collect.need(fmt::format("/vms/{}", scope.template_vmid), {"VM.Clone"}, "clone the template");
      collect.vm({"VM.Allocate"}, "create VMs");
      for (const std::string& storage : scope.disk_storages)
        collect.need(storage_path(storage), {"Datastore.AllocateSpace"}, "put disks on " + storage);
      collect.links();
      break;
    case Act::ReadTasks:
      for (const std::string& host : scope.hosts) {
        Need& need = collect.need("/nodes/" + host, {"Sys.Audit"},
                                  "see who changed a VM (without it drift has no culprit)");
        need.hides = true;
        need.optional = true;
      }
      break;
    case Act::ReadLog: {
      Need& need = collect.need("/", {"Sys.Syslog"},
                                "see who changed a VM without a task (else drift has no culprit)");
      need.hides = true;
      need.optional = true;
      break;
    }
    case Act::MigrateVm: {
      collect.vm({"VM.Migrate"}, "move VMs between hosts");
      break;
    }
  }
  return std::move(collect).take();
}

std::vector<Need> missing(const std::vector<Need>& needs, const Permissions& effective) {
  std::vector<Need> result;
  for (const Need& need : needs) {
    const auto granted = effective.find(need.path);
    const bool met =
        granted != effective.end() &&
        std::any_of(need.any_of.begin(), need.any_of.end(), [&](const std::string& privilege) {
          return std::find(granted->second.begin(), granted->second.end(), privilege) !=
                 granted->second.end();
        });
    if (!met) result.push_back(need);
  }
  return result;
}

std::vector<std::string> pveum_lines(const std::vector<Act>& acts, const Scope& scope,
                                     const std::string& token_id, bool privilege_separation) {
  std::map<std::string, std::set<std::string>> by_path;
  for (const Act act : acts)
    for (const Need& need : needs(act, scope)) {
      std::set<std::string>& privileges = by_path[grant_path(need.path, scope)];
      // Several would do; the first is the narrowest. If one is there already, it is enough.
      const bool has_one =
          std::any_of(need.any_of.begin(), need.any_of.end(),
                      [&](const std::string& name) { return privileges.contains(name); });
      if (!has_one) privileges.insert(need.any_of.front());
    }
  // Entries on a deeper path replace those above it, so each path gets one role with everything it
  // needs there.
  std::map<std::string, std::set<std::string>> by_role;
  for (const auto& [path, privileges] : by_path)
    by_role[role_of(path, scope)].insert(privileges.begin(), privileges.end());
  std::vector<std::string> lines;
  // A role that is there from the last time is not made again, and must get what is new.
  for (const auto& [role, privileges] : by_role) {
    const std::string all = join({privileges.begin(), privileges.end()}, " ");
    lines.push_back(fmt::format(
        "pveum role modify {0} --privs \"{1}\" --append 1 || pveum role add {0} --privs \"{1}\"",
        role, all));
  }
  std::vector<std::string> principals = {"--users " + token_id.substr(0, token_id.find('!'))};
  if (privilege_separation && token_id.find('!') != std::string::npos)
    principals.push_back(
        fmt::format("--tokens '{}'", token_id));  // quoted: `!` is special to shells
  for (const std::string& who : principals)
    for (const auto& [path, privileges] : by_path)
      lines.push_back(fmt::format("pveum acl modify {} {} --roles {}{}", path, who,
                                  role_of(path, scope), path == "/" ? " --propagate 0" : ""));
  return lines;
}

}  // namespace rocca::proxmox
