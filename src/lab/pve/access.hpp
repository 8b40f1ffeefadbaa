#pragma once

#include "lab/pve/release.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::pve {

struct Token {
  std::string secret;
  bool privsep = true;
  std::int64_t expire = 0;
  std::string comment;
};

struct User {
  std::string password;
  bool enabled = true;
  std::int64_t expire = 0;
  std::string comment, email, firstname, lastname;
  std::set<std::string> groups;
  std::map<std::string, Token> tokens;
};

struct Pool {
  std::string comment;
  std::set<unsigned> vms;
  std::set<std::string> storages;
};

/// Who acts: `root@pam`, or `user@realm!token`, which is never the same as its user.
struct Caller {
  std::string id;
  std::string user;  // without the token part
  bool token = false;
  bool is_root() const noexcept { return id == "root@pam"; }
};

/// user.cfg: users, tokens, groups, roles, pools and the access control list, and what follows from
/// them.
class Access {
 public:
  explicit Access(const Release& release);

  std::map<std::string, User> users;
  std::map<std::string, std::string> groups;           // id -> comment
  std::map<std::string, std::set<std::string>> roles;  // own and built-in
  std::map<std::string, Pool> pools;

  /// path -> principal ("user@realm", "@group", "user@realm!token") -> role -> propagate
  std::map<std::string, std::map<std::string, std::map<std::string, bool>>> acl;

  bool is_builtin_role(std::string_view role) const { return builtin_.contains(std::string(role)); }
  const std::set<std::string>& privileges() const noexcept { return privileges_; }

  /// privilege -> propagate flag, on that path: replacement down the path, token over user over
  /// group at one level, NoAccess, pools, privilege separation.
  std::map<std::string, bool> permissions(const std::string& id, const std::string& path) const;
  /// Every path that has an entry of its own for this principal, for GET /access/permissions
  /// without a path.
  std::map<std::string, std::map<std::string, bool>> all_permissions(const std::string& id) const;
  bool may(const Caller& caller, const std::string& path,
           const std::vector<std::string>& privileges, bool any = false) const;
  /// Throws 403 `Permission check failed (path, A)`; any-of is joined with `|`.
  void require(const Caller& caller, const std::string& path,
               const std::vector<std::string>& privileges, bool any = false) const;

  std::optional<std::string> pool_of_vm(unsigned vmid) const;
  std::optional<std::string> pool_of_storage(const std::string& storage) const;
  /// Role with exactly these privileges on a path; for set-up code and fixtures.
  void grant(const std::string& principal, const std::string& path,
             const std::set<std::string>& privs, bool propagate = true);
  void forget_vm(unsigned vmid);  // its ACL entries and pool membership

 private:
  std::map<std::string, bool> roles_on(const std::string& id, const std::string& path) const;
  std::map<std::string, bool> plain_permissions(const std::string& id,
                                                const std::string& path) const;
  /// Is this privilege among permissions()? Most questions are after one of them.
  bool grants(const std::string& id, const std::string& path, const std::string& priv) const;
  bool plainly_grants(const std::string& id, const std::string& path,
                      const std::string& priv) const;
  std::optional<std::string> pool_of_path(const std::string& path) const;

  std::set<std::string> privileges_;
  std::set<std::string> builtin_;
};

/// Is it a path that an ACL entry may name?
bool is_acl_path(std::string_view path);

}  // namespace rocca::lab::pve
