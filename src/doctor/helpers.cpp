#include "doctor/helpers.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <map>
#include <set>

namespace rocca::doctor {

namespace {

using proxmox::Act;
using proxmox::Need;

void want(Helper& helper, const std::string& path, std::initializer_list<const char*> privileges,
          const char* why) {
  for (const char* privilege : privileges)
    helper.needs.push_back({Act::ListVms, path, {privilege}, why});
}

Helper begin(const char* key, const char* name, const char* role, const spec::Addon& addon,
             const spec::Proxmox& proxmox) {
  Helper helper;
  helper.key = key;
  helper.user = fmt::format("rocca-{}@pve", name);
  helper.role = role;
  helper.own_token = addon.token.has_value();
  helper.token_name = addon.token ? (**addon.token).path : (*proxmox.token).path;
  return helper;
}

/// The name behind `!` of the token that the lines make.
std::string token_id(const Helper& helper) {
  return helper.user + "!" + helper.user.substr(6, helper.user.find('@') - 6);
}

}  // namespace

std::vector<Helper> helpers_of(const spec::Spec& spec, const Version& proxmox) {
  std::vector<Helper> all;
  if (!spec.proxmox) return all;
  if (*spec.addons.proxmox_ccm.on) {
    Helper helper =
        begin("addons.proxmoxCcm", "ccm", "RoccaCCM", spec.addons.proxmox_ccm, *spec.proxmox);
    want(helper, "/", {"Sys.Audit"}, "it asks which hosts there are");
    want(helper, "/vms", {"VM.Audit"}, "it finds each node's VM, its host and its size");
    // Proxmox VE 9 took what the guest agent may be asked out of VM.Monitor.
    want(helper, "/vms", {proxmox.major() >= 9 ? "VM.GuestAgent.Audit" : "VM.Monitor"},
         "it asks the guest agent for addresses");
    all.push_back(std::move(helper));
  }
  if (*spec.addons.proxmox_csi.on) {
    const spec::Addon& addon = spec.addons.proxmox_csi;
    Helper helper = begin("addons.proxmoxCsi", "csi", "RoccaCSI", addon, *spec.proxmox);
    want(helper, "/vms", {"VM.Audit", "VM.Config.Disk"}, "it attaches disks to nodes");
    want(helper, "/storage/" + (addon.storage ? **addon.storage : *spec.proxmox->disk_storage),
         {"Datastore.Allocate", "Datastore.AllocateSpace", "Datastore.Audit"},
         "it makes and removes volumes");
    all.push_back(std::move(helper));
  }
  return all;
}

std::vector<std::string> helper_lines(const Helper& helper) {
  std::set<std::string> privileges, paths;
  for (const Need& need : helper.needs) {
    privileges.insert(need.any_of.front());
    paths.insert(need.path);
  }
  const std::string all = join({privileges.begin(), privileges.end()}, " ");
  const std::string id = token_id(helper);
  std::vector<std::string> lines{
      fmt::format("pveum role modify {0} --privs \"{1}\" || pveum role add {0} --privs \"{1}\"",
                  helper.role, all),
      fmt::format("pveum user add {}", helper.user),
      fmt::format("pveum user token add {} {}", helper.user, id.substr(id.find('!') + 1))};
  // A token with privilege separation may do what both it and its user may.
  for (const std::string& who : {"--users " + helper.user, fmt::format("--tokens '{}'", id)})
    for (const std::string& path : paths)
      lines.push_back(fmt::format("pveum acl modify {} {} --roles {}{}", path, who, helper.role,
                                  path == "/" ? " --propagate 0" : ""));
  return lines;
}

std::vector<Finding> examine_helper(net::Transport& transport, const proxmox::Access& access,
                                    const Helper& helper, std::stop_token stop) {
  std::vector<Finding> all;
  const auto add = [&](Grade grade, const std::string& text) -> Finding& {
    all.push_back({"add-ons", grade, fmt::format("{}: {}", helper.key, text), {}, false});
    return all.back();
  };
  const auto lines = [&](Finding& finding) {
    finding.fix.emplace_back("as root on a Proxmox host:");
    for (std::string& line : helper_lines(helper)) finding.fix.push_back(std::move(line));
    finding.fix.push_back(fmt::format(
        "then give it what `token add` prints, as {}={}, under {}.token: {{ secret: … }}",
        token_id(helper), "UUID", helper.key));
  };
  if (!helper.own_token) {
    lines(add(Grade::Warning, "it gets rocca's own token, which may do far more than it needs"));
    return all;
  }
  if (!helper.token) {
    Finding& finding = add(Grade::Bad, helper.trouble);
    finding.about_rights = true;
    lines(finding);
    return all;
  }
  try {
    proxmox::Access theirs = access;
    theirs.token = Secret{trim(helper.token->reveal())};
    proxmox::Client client{transport, theirs, stop};
    proxmox::Permissions effective;
    std::set<std::string> paths;
    for (const Need& need : helper.needs) paths.insert(need.path);
    for (const std::string& path : paths) effective.merge(client.permissions(path));
    const std::vector<Need> gaps = proxmox::missing(helper.needs, effective);
    for (const Need& gap : gaps) {
      Finding& finding = add(Grade::Bad, fmt::format("{} on {} is missing: {}", gap.any_of.front(),
                                                     gap.path, gap.why));
      finding.about_rights = true;
    }
    if (gaps.empty())
      add(Grade::Good, "its token may do all that it needs");
    else
      lines(all.back());
  } catch (const Error& error) {
    if (error.fault() == Fault::Interrupted) throw;
    Finding& finding = add(Grade::Bad, error.message());
    finding.about_rights = error.fault() == Fault::Denied;
    lines(finding);
  }
  return all;
}

}  // namespace rocca::doctor
