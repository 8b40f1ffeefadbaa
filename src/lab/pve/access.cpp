#include "lab/pve/access.hpp"

#include "base/strings.hpp"
#include "lab/pve/failure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

namespace rocca::lab::pve {

namespace {

/// What Proxmox calls privileges, grouped as its built-in roles are made of them.
struct Groups {
  std::vector<std::string> vm_root, vm_admin, vm_user, vm_audit, sys_root, sys_admin, sys_audit,
      store_root, store_admin, store_user, store_audit, sdn_admin, sdn_audit, sdn_user, user_root,
      user_admin, pool_admin, pool_audit, mapping_admin, mapping_user, mapping_audit;
};

Groups groups_of(const Release& release) {
  Groups g;
  g.vm_root = {};
  g.vm_admin = {"VM.Config.Disk",   "VM.Config.CPU",     "VM.Config.Memory",    "VM.Config.Network",
                "VM.Config.HWType", "VM.Config.Options", "VM.Allocate",         "VM.Clone",
                "VM.Migrate",       "VM.Snapshot",       "VM.Snapshot.Rollback"};
  g.vm_user = {"VM.Config.CDROM", "VM.Config.Cloudinit", "VM.Console", "VM.Backup", "VM.PowerMgmt"};
  g.vm_audit = {"VM.Audit"};
  if (release.has_guest_agent_privileges()) {
    g.vm_audit.emplace_back("VM.GuestAgent.Audit");
    for (const char* each :
         {"VM.GuestAgent.FileRead", "VM.GuestAgent.FileSystemMgmt", "VM.GuestAgent.FileWrite"})
      g.vm_user.emplace_back(each);
    for (const char* each : {"VM.GuestAgent.Unrestricted", "VM.Replicate"})
      g.vm_admin.emplace_back(each);
  } else {
    g.vm_admin.emplace_back("VM.Monitor");
  }
  g.sys_root = {"Sys.PowerMgmt", "Sys.Modify", "Sys.Incoming", "Sys.AccessNetwork"};
  g.sys_admin = {"Sys.Console", "Sys.Syslog"};
  g.sys_audit = {"Sys.Audit"};
  g.store_admin = {"Datastore.Allocate", "Datastore.AllocateTemplate"};
  g.store_user = {"Datastore.AllocateSpace"};
  g.store_audit = {"Datastore.Audit"};
  g.sdn_admin = {"SDN.Allocate"};
  g.sdn_audit = {"SDN.Audit"};
  g.sdn_user = {"SDN.Use"};
  g.user_root = {"Realm.Allocate"};
  g.user_admin = {"User.Modify", "Group.Allocate", "Realm.AllocateUser"};
  g.pool_admin = {"Pool.Allocate"};
  g.pool_audit = {"Pool.Audit"};
  g.mapping_admin = {"Mapping.Modify"};
  g.mapping_user = {"Mapping.Use"};
  g.mapping_audit = {"Mapping.Audit"};
  return g;
}

std::set<std::string> together(std::initializer_list<std::vector<std::string>> parts) {
  std::set<std::string> all;
  for (const auto& part : parts) all.insert(part.begin(), part.end());
  return all;
}

bool is_token(const std::string& id) {
  return id.find('!') != std::string::npos;
}
std::string user_of(const std::string& id) {
  return id.substr(0, id.find('!'));
}

/// "/", "/vms", "/vms/100" for "/vms/100". `look` is told which one is the last.
template <class Look>
void for_levels(std::string_view path, const Look& look) {
  const std::size_t end = path.find_last_not_of('/') + 1;
  std::string level = "/";
  look(level, end == 0);
  level.clear();
  for (std::size_t at = 0; at < end;) {
    at = path.find_first_not_of('/', at);
    const std::size_t behind = std::min(path.find('/', at), end);
    level.append(1, '/').append(path.substr(at, behind - at));
    look(level, behind == end);
    at = behind;
  }
}

}  // namespace

Access::Access(const Release& release) {
  const Groups g = groups_of(release);
  const std::vector<std::string>& audit_vm = g.vm_audit;
  const std::vector<std::string> modify{"Permissions.Modify"};
  privileges_ = together(
      {g.vm_root,       g.vm_admin,     g.vm_user,       audit_vm,     g.sys_root,    g.sys_admin,
       g.sys_audit,     g.store_root,   g.store_admin,   g.store_user, g.store_audit, g.sdn_admin,
       g.sdn_audit,     g.sdn_user,     g.user_root,     g.user_admin, g.pool_admin,  g.pool_audit,
       g.mapping_admin, g.mapping_user, g.mapping_audit, modify});
  roles["Administrator"] = privileges_;
  roles["NoAccess"] = {};
  roles["PVEAdmin"] =
      together({g.vm_admin, g.vm_user, audit_vm, g.sys_admin, g.sys_audit, g.store_admin,
                g.store_user, g.store_audit, g.sdn_admin, g.sdn_audit, g.sdn_user, g.user_admin,
                g.pool_admin, g.pool_audit, g.mapping_user, g.mapping_audit});
  roles["PVEAuditor"] =
      together({audit_vm, g.sys_audit, g.store_audit, g.sdn_audit, g.pool_audit, g.mapping_audit});
  roles["PVEDatastoreAdmin"] = together({g.store_admin, g.store_user, g.store_audit});
  roles["PVEDatastoreUser"] = together({g.store_user, g.store_audit});
  roles["PVEMappingAdmin"] = together({g.mapping_admin, g.mapping_user, g.mapping_audit});
  roles["PVEMappingUser"] = together({g.mapping_user, g.mapping_audit});
  roles["PVEPoolAdmin"] = together({g.pool_admin, g.pool_audit});
  roles["PVEPoolUser"] = together({g.pool_audit});
  roles["PVESDNAdmin"] = together({g.sdn_admin, g.sdn_audit, g.sdn_user});
  roles["PVESDNUser"] = together({g.sdn_audit, g.sdn_user});
  roles["PVESysAdmin"] = together({g.sys_admin, g.sys_audit});
  roles["PVETemplateUser"] = {"VM.Audit", "VM.Clone"};
  roles["PVEUserAdmin"] = together({g.user_admin});
  roles["PVEVMAdmin"] = together({g.vm_admin, g.vm_user, audit_vm});
  roles["PVEVMUser"] = together({g.vm_user, audit_vm});
  for (const auto& [name, privs] : roles) builtin_.insert(name);
}

// Walks down from "/": what a level says replaces what was found above it. A token's entry beats a
// user's, which beats a group's, at one level.
std::map<std::string, bool> Access::roles_on(const std::string& id, const std::string& path) const {
  std::map<std::string, bool> found;
  const auto person = users.find(user_of(id));
  for_levels(path, [&](const std::string& level, bool final_level) {
    const auto entries = acl.find(level);
    if (entries == acl.end()) return;
    const auto usable = [&](const std::string& principal) {
      std::map<std::string, bool> here;
      const auto mine = entries->second.find(principal);
      if (mine == entries->second.end()) return here;
      for (const auto& [role, propagate] : mine->second)
        if (final_level || propagate) here.emplace(role, propagate);
      return here;
    };
    std::map<std::string, bool> here = usable(id);
    if (here.empty() && !is_token(id) && person != users.end())
      for (const std::string& group : person->second.groups)
        for (const auto& [role, propagate] : usable("@" + group))
          here[role] = here[role] || propagate;
    if (!here.empty()) found = std::move(here);
  });
  if (found.contains("NoAccess")) return {{"NoAccess", found.at("NoAccess")}};
  return found;
}

std::map<std::string, bool> Access::plain_permissions(const std::string& id,
                                                      const std::string& path) const {
  std::map<std::string, bool> granted;
  const auto add = [&](const std::map<std::string, bool>& from, bool keep_flag) {
    for (const auto& [role, propagate] : from) {
      const auto privs = roles.find(role);
      if (privs == roles.end()) continue;
      for (const std::string& priv : privs->second) {
        bool& flag = granted[priv];
        flag = flag || (keep_flag && propagate);
      }
    }
  };
  const std::map<std::string, bool> direct = roles_on(id, path);
  if (direct.contains("NoAccess")) return granted;
  add(direct, true);
  // Members of a pool inherit what is granted on the pool, on themselves only.
  if (const auto pool = pool_of_path(path)) {
    const std::map<std::string, bool> from_pool = roles_on(id, "/pool/" + *pool);
    if (!from_pool.contains("NoAccess")) add(from_pool, false);
  }
  return granted;
}

bool Access::plainly_grants(const std::string& id, const std::string& path,
                            const std::string& priv) const {
  const auto among = [&](const std::map<std::string, bool>& its) {
    return std::any_of(its.begin(), its.end(), [&](const auto& role) {
      const auto privs = roles.find(role.first);
      return privs != roles.end() && privs->second.contains(priv);
    });
  };
  const std::map<std::string, bool> direct = roles_on(id, path);
  if (direct.contains("NoAccess")) return false;
  if (among(direct)) return true;
  const auto pool = pool_of_path(path);
  if (!pool) return false;
  const std::map<std::string, bool> from_pool = roles_on(id, "/pool/" + *pool);
  return !from_pool.contains("NoAccess") && among(from_pool);
}

bool Access::grants(const std::string& id, const std::string& path, const std::string& priv) const {
  if (id == "root@pam") return privileges_.contains(priv);
  if (!is_token(id)) return plainly_grants(id, path, priv);
  const std::string user = user_of(id);
  const auto person = users.find(user);
  if (person == users.end()) return false;
  const auto token = person->second.tokens.find(id.substr(user.size() + 1));
  if (token == person->second.tokens.end()) return false;
  return grants(user, path, priv) && (!token->second.privsep || plainly_grants(id, path, priv));
}

std::map<std::string, bool> Access::permissions(const std::string& id,
                                                const std::string& path) const {
  if (id == "root@pam") {
    std::map<std::string, bool> all;
    for (const std::string& priv : privileges_) all.emplace(priv, true);
    return all;
  }
  if (!is_token(id)) return plain_permissions(id, path);
  const std::string user = user_of(id);
  const auto person = users.find(user);
  if (person == users.end()) return {};
  const auto token = person->second.tokens.find(id.substr(user.size() + 1));
  if (token == person->second.tokens.end()) return {};
  const std::map<std::string, bool> of_user = permissions(user, path);
  if (!token->second.privsep) return of_user;
  std::map<std::string, bool> both;
  for (const auto& [priv, propagate] : plain_permissions(id, path))
    if (const auto mine = of_user.find(priv); mine != of_user.end())
      both.emplace(priv, propagate && mine->second);
  return both;
}

std::map<std::string, std::map<std::string, bool>> Access::all_permissions(
    const std::string& id) const {
  std::map<std::string, std::map<std::string, bool>> all;
  for (const char* path :
       {"/", "/access", "/access/groups", "/nodes", "/pool", "/sdn", "/storage", "/vms"}) {
    auto here = permissions(id, path);
    if (!here.empty()) all.emplace(path, std::move(here));
  }
  for (const auto& [name, pool] : pools)
    for (const unsigned vmid : pool.vms) {
      auto here = permissions(id, fmt::format("/vms/{}", vmid));
      if (!here.empty()) all.emplace(fmt::format("/vms/{}", vmid), std::move(here));
    }
  for (const auto& [path, entries] : acl) {
    auto here = permissions(id, path);
    if (!here.empty()) all.emplace(path, std::move(here));
  }
  return all;
}

bool Access::may(const Caller& caller, const std::string& path,
                 const std::vector<std::string>& wanted, bool any) const {
  if (caller.is_root()) return true;
  const auto has = [&](const std::string& priv) { return grants(caller.id, path, priv); };
  return any ? std::any_of(wanted.begin(), wanted.end(), has)
             : std::all_of(wanted.begin(), wanted.end(), has);
}

void Access::require(const Caller& caller, const std::string& path,
                     const std::vector<std::string>& wanted, bool any) const {
  if (caller.is_root()) return;
  const auto has = [&](const std::string& priv) { return grants(caller.id, path, priv); };
  if (any) {
    if (!std::any_of(wanted.begin(), wanted.end(), has))
      deny(fmt::format("{}, {}", path, join(wanted, "|")));
    return;
  }
  for (const std::string& priv : wanted)
    if (!has(priv)) deny(fmt::format("{}, {}", path, priv));
}

std::optional<std::string> Access::pool_of_path(const std::string& path) const {
  if (path.starts_with("/vms/"))
    if (const auto number = parse_uint(path.substr(5)))
      return pool_of_vm(static_cast<unsigned>(*number));
  return path.starts_with("/storage/") ? pool_of_storage(path.substr(9)) : std::nullopt;
}

std::optional<std::string> Access::pool_of_vm(unsigned vmid) const {
  for (const auto& [name, pool] : pools)
    if (pool.vms.contains(vmid)) return name;
  return std::nullopt;
}

std::optional<std::string> Access::pool_of_storage(const std::string& storage) const {
  for (const auto& [name, pool] : pools)
    if (pool.storages.contains(storage)) return name;
  return std::nullopt;
}

void Access::grant(const std::string& principal, const std::string& path,
                   const std::set<std::string>& privs, bool propagate) {
  std::string role = "lab";
  for (const std::string& priv : privs) role += "-" + replace_all(priv, ".", "");
  roles[role] = privs;
  acl[path][principal][role] = propagate;
}

void Access::forget_vm(unsigned vmid) {
  acl.erase(fmt::format("/vms/{}", vmid));
  for (auto& [name, pool] : pools) pool.vms.erase(vmid);
}

bool is_acl_path(std::string_view path) {
  static const std::regex form(
      "/|/access(?:/groups(?:/[^/]+)?|/realm(?:/[^/]+)?)?|/nodes(?:/[^/]+)?|/pool|/pool/"
      "[A-Za-z0-9._-]+(?:/[A-Za-z0-9."
      "_-]+){0,2}|/sdn(?:/zones(?:/[^/]+(?:/[^/]+(?:/[1-9][0-9]{0,3})?)?)?|/vnets(?:/[^/]+)?|/"
      "controllers(?:/[^/]+)?|/"
      "dns(?:/[^/]+)?|/ipams(?:/[^/]+)?|/fabrics(?:/[^/]+)?)?|/storage(?:/[^/]+)?|/vms(?:/"
      "[1-9][0-9]{2,8})?|/mapping(?:/"
      "[A-Za-z0-9-]+(?:/[^/]+)?)?");
  return std::regex_match(path.begin(), path.end(), form);
}

}  // namespace rocca::lab::pve
