#include "platform/proxmox/helper_tokens.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <set>

namespace rocca::resources {

namespace {

using proxmox::Act;
using proxmox::Need;

void want(HelperRights& helper, const std::string& path,
          std::initializer_list<const char*> privileges, const char* why) {
  for (const char* privilege : privileges)
    helper.needs.push_back({Act::ListVms, path, {privilege}, why});
}

HelperRights begin(const char* key, const std::string& name, const char* role,
                   const spec::Addon& addon) {
  HelperRights helper;
  helper.key = key;
  helper.user = fmt::format("rocca-{}@pve", name);
  helper.role = role;
  helper.token =
      addon.token ? **addon.token : spec::SecretRef{spec::SecretRef::From::Key, "proxmox." + name};
  return helper;
}

}  // namespace

std::vector<std::string> HelperRights::privileges() const {
  std::set<std::string> all;
  for (const Need& need : needs) all.insert(need.any_of.front());
  return {all.begin(), all.end()};
}

std::vector<std::string> HelperRights::paths() const {
  std::set<std::string> all;
  for (const Need& need : needs) all.insert(need.path);
  return {all.begin(), all.end()};
}

std::vector<HelperRights> helper_rights(const spec::Spec& spec, const Version& proxmox) {
  std::vector<HelperRights> all;
  if (!spec.proxmox) return all;
  if (*spec.addons.proxmox_ccm.on) {
    HelperRights helper = begin("addons.proxmoxCcm", "ccm", "RoccaCCM", spec.addons.proxmox_ccm);
    want(helper, "/", {"Sys.Audit"}, "it asks which hosts there are");
    want(helper, "/vms", {"VM.Audit"}, "it finds each node's VM, its host and its size");
    // Proxmox VE 9 took what the guest agent may be asked out of VM.Monitor.
    want(helper, "/vms", {proxmox.major() >= 9 ? "VM.GuestAgent.Audit" : "VM.Monitor"},
         "it asks the guest agent for addresses");
    all.push_back(std::move(helper));
  }
  if (*spec.addons.proxmox_csi.on) {
    const spec::Addon& addon = spec.addons.proxmox_csi;
    HelperRights helper = begin("addons.proxmoxCsi", "csi", "RoccaCSI", addon);
    want(helper, "/vms", {"VM.Audit", "VM.Config.Disk"}, "it attaches disks to nodes");
    want(helper, "/storage/" + (addon.storage ? **addon.storage : *spec.proxmox->disk_storage),
         {"Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.Audit"},
         "it makes and removes volumes");
    all.push_back(std::move(helper));
  }
  return all;
}

std::vector<Need> needs_to_mint(const HelperRights& helper) {
  std::vector<Need> all{
      {Act::ListVms, "/access", {"Sys.Modify"}, "its role is made"},
      {Act::ListVms, "/access/realm/pve", {"Realm.AllocateUser"}, "its user is made"},
      {Act::ListVms, "/access/groups", {"User.Modify"}, "its user and its token are made"}};
  for (const std::string& path : helper.paths())
    all.push_back({Act::ListVms, path, {"Permissions.Modify"}, "its rights are granted"});
  return all;
}

std::vector<Need> missing_to_mint(proxmox::Client& client, const HelperRights& helper) {
  const std::vector<Need> needs = needs_to_mint(helper);
  proxmox::Permissions effective;
  for (const Need& need : needs) effective.merge(client.permissions(need.path));
  return proxmox::missing(needs, effective);
}

Secret mint_token(proxmox::Client& client, const HelperRights& helper, const std::string& cluster,
                  const std::string& cluster_id) {
  const std::string mark = fmt::format("of rocca's cluster {} ({})", cluster, cluster_id);
  client.put_role(helper.role, helper.privileges());
  client.put_user(helper.user, "made by rocca for " + helper.key);
  if (const auto comment = client.find_token_comment(helper.user, cluster)) {
    if (*comment != mark)
      throw Error(Fault::Conflict, fmt::format("{}!{} is there already, and not of this cluster",
                                               helper.user, cluster))
          .hint(fmt::format(
              "give {} a token yourself, `rocca doctor` prints the lines; or remove that one",
              helper.key));
    client.remove_token(helper.user, cluster);
  }
  // A token with privilege separation may do what both it and its user may.
  const auto allow = [&](const std::string& who) {
    for (const std::string& path : helper.paths())
      client.grant(path, helper.role, who, path != "/");
  };
  allow(helper.user);
  Secret token = client.create_token(helper.user, cluster, mark);
  allow(fmt::format("{}!{}", helper.user, cluster));
  return token;
}

}  // namespace rocca::resources
