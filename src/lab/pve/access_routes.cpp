#include "base/strings.hpp"
#include "lab/pve/datacenter.hpp"
#include "lab/pve/http.hpp"

#include <fmt/format.h>

namespace rocca::lab::pve {

namespace {

text::Value flags(const std::map<std::string, bool>& privileges) {
  text::Value row = text::Value::map();
  for (const auto& [priv, propagate] : privileges) row.set(priv, number(propagate ? 1 : 0));
  return row;
}

Routine<text::Value> index_of_access(Call&) {
  text::Value rows = text::Value::list();
  for (const char* name : {"users", "groups", "roles", "acl", "domains", "openid", "tfa", "ticket",
                           "password", "permissions"})
    rows.append(object({{"subdir", string(name)}}));
  co_return rows;
}

Routine<text::Value> root_index(Call&) {
  text::Value rows = text::Value::list();
  for (const char* name : {"version", "cluster", "nodes", "storage", "access", "pools"})
    rows.append(object({{"subdir", string(name)}}));
  co_return rows;
}

Routine<text::Value> domains(Call&) {
  co_return text::Value::list({object({{"realm", string("pam")},
                                       {"type", string("pam")},
                                       {"comment", string("Linux PAM standard authentication")}}),
                               object({{"realm", string("pve")},
                                       {"type", string("pve")},
                                       {"comment", string("Proxmox VE authentication server")}})});
}

Routine<text::Value> ticket_form(Call&) {
  co_return text::Value::null();
}

/// The privileges the GUI greys its buttons by, in groups of its own.
text::Value capabilities(const Access& access, const std::string& user) {
  const auto pick = [&](const std::string& path, const std::vector<std::string>& beginnings,
                        bool permissions) {
    text::Value row = text::Value::map();
    for (const auto& [priv, propagate] : access.permissions(user, path)) {
      bool wanted = permissions && priv == "Permissions.Modify";
      for (const std::string& beginning : beginnings)
        wanted = wanted || priv.starts_with(beginning);
      if (wanted) row.set(priv, number(1));
    }
    return row;
  };
  return object({{"vms", pick("/vms", {"VM."}, true)},
                 {"storage", pick("/storage", {"Datastore."}, true)},
                 {"access", pick("/access", {"User.Modify", "Group.Allocate"}, true)},
                 {"nodes", pick("/nodes", {"Sys."}, true)},
                 {"sdn", pick("/sdn", {"SDN."}, true)},
                 {"mapping", pick("/mapping", {"Mapping."}, true)},
                 {"dc", pick("/", {"Sys.Audit", "Sys.Modify", "SDN."}, false)}});
}

Routine<text::Value> login(Call& call) {
  std::string user = call.params.text("username");
  if (call.params.has("realm") && user.find('@') == std::string::npos)
    user += "@" + call.params.text("realm");
  const auto found = call.dc.access.users.find(user);
  const std::string password = call.params.text("password");
  const bool renewed = check_ticket(call.dc, password) == user;
  const bool right = found != call.dc.access.users.end() && found->second.enabled &&
                     !found->second.password.empty() &&
                     (renewed || found->second.password == password);
  if (!right) throw Failure{401, "authentication failure", {}, true};
  const Ticket ticket = make_ticket(call.dc, user);
  text::Value data = object({{"username", string(user)},
                             {"ticket", string(ticket.ticket)},
                             {"CSRFPreventionToken", string(ticket.csrf)},
                             {"cap", capabilities(call.dc.access, user)}});
  if (!call.dc.cluster.empty()) data.set("clustername", string(call.dc.cluster));
  co_return data;
}

Routine<text::Value> permissions(Call& call) {
  const std::string id = call.params.text("userid", call.caller.id);
  if (id != call.caller.id) call.require("/access", {"Sys.Audit"});
  const std::string path = call.params.text("path");
  text::Value data = text::Value::map();
  if (!path.empty()) {
    data.set(path, flags(path.starts_with("/") ? call.dc.access.permissions(id, path)
                                               : std::map<std::string, bool>{}));
    co_return data;
  }
  for (const auto& [each, privileges] : call.dc.access.all_permissions(id))
    data.set(each, flags(privileges));
  co_return data;
}

Routine<text::Value> list_acl(Call& call) {
  text::Value rows = text::Value::list();
  const bool auditor = call.may("/access", {"Sys.Audit"});
  for (const auto& [path, entries] : call.dc.access.acl) {
    if (!auditor && !call.may(path, {"Permissions.Modify"})) continue;
    for (const auto& [who, roles] : entries)
      for (const auto& [role, propagate] : roles) {
        const bool group = who.starts_with("@");
        const bool token = who.find('!') != std::string::npos;
        rows.append(object({{"path", string(path)},
                            {"propagate", number(propagate ? 1 : 0)},
                            {"roleid", string(role)},
                            {"type", string(group   ? "group"
                                            : token ? "token"
                                                    : "user")},
                            {"ugid", string(group ? who.substr(1) : who)}}));
      }
  }
  co_return rows;
}

void check_token(const Access& access, const std::string& id) {
  const std::size_t bang = id.find('!');
  const std::string user = id.substr(0, bang);
  const std::string token = id.substr(bang + 1);
  const auto found = access.users.find(user);
  if (found == access.users.end())
    die(fmt::format("ACL update failed: user '{}' does not exist", user));
  if (!found->second.tokens.contains(token))
    die(fmt::format("ACL update failed: no such token '{}' for user '{}'", token, user));
}

Routine<text::Value> update_acl(Call& call) {
  if (!call.params.has("users") && !call.params.has("groups") && !call.params.has("tokens")) {
    const std::string text_of = "either 'users', 'groups' or 'tokens' is required.";
    refuse_parameters({{"users", text_of}, {"groups", text_of}, {"tokens", text_of}});
  }
  const std::string path = call.params.text("path");
  if (!is_acl_path(path)) refuse_parameter("path", fmt::format("invalid ACL path '{}'", path));
  const Locks::Guard lock = co_await call.lock_cfs("file-user_cfg");
  Access& access = call.dc.access;
  const bool remove = call.params.flag("delete");
  const bool propagate = call.params.flag("propagate", true);
  for (const std::string& role : call.params.split("roles")) {
    if (!access.roles.contains(role))
      die(fmt::format("ACL update failed: role '{}' does not exist", role));
    // Without Permissions.Modify one can hand on only what one has.
    if (!call.may(path, {"Permissions.Modify"}))
      for (const std::string& priv : access.roles.at(role))
        if (!call.may(path, {priv}))
          die("ACL update failed: " +
              Failure{403, fmt::format("Permission check failed ({}, {})", path, priv), {}, true}
                  .task_text());
    const auto apply = [&](const std::string& who) {
      if (remove)
        access.acl[path][who].erase(role);
      else
        access.acl[path][who][role] = propagate;
    };
    for (const std::string& group : call.params.split("groups")) {
      if (!access.groups.contains(group))
        die(fmt::format("ACL update failed: group '{}' does not exist", group));
      apply("@" + group);
    }
    for (const std::string& user : call.params.split("users")) {
      if (!access.users.contains(user))
        die(fmt::format("ACL update failed: user '{}' does not exist", user));
      apply(user);
    }
    for (const std::string& token : call.params.split("tokens")) {
      check_token(access, token);
      apply(token);
    }
  }
  co_return text::Value::null();
}

Routine<text::Value> list_roles(Call& call) {
  text::Value rows = text::Value::list();
  for (const auto& [role, privs] : call.dc.access.roles)
    rows.append(object({{"roleid", string(role)},
                        {"privs", string(join({privs.begin(), privs.end()}, ","))},
                        {"special", number(call.dc.access.is_builtin_role(role) ? 1 : 0)}}));
  co_return rows;
}

Routine<text::Value> read_role(Call& call) {
  const std::string role = call.params.text("roleid");
  const auto found = call.dc.access.roles.find(role);
  if (found == call.dc.access.roles.end()) die(fmt::format("role '{}' does not exist", role));
  text::Value data = text::Value::map();
  for (const std::string& priv : found->second) data.set(priv, number(1));
  co_return data;
}

std::set<std::string> checked_privileges(const Call& call) {
  std::set<std::string> privs;
  for (const std::string& priv : call.params.split("privs")) {
    if (!call.dc.access.privileges().contains(priv))
      refuse_parameter("privs", fmt::format("invalid format - invalid privilege '{}'\n", priv));
    privs.insert(priv);
  }
  return privs;
}

Routine<text::Value> create_role(Call& call) {
  const std::string role = call.params.text("roleid");
  std::set<std::string> privs = checked_privileges(call);
  if (to_lower(role).starts_with("pve"))
    refuse_parameter("roleid",
                     "cannot use role ID starting with the (case-insensitive) 'PVE' namespace");
  const Locks::Guard lock = co_await call.lock_cfs("file-user_cfg");
  if (!call.dc.access.roles.emplace(role, privs).second)
    die(fmt::format("create role failed: role '{}' already exists", role));
  co_return text::Value::null();
}

Routine<text::Value> update_role(Call& call) {
  const std::string role = call.params.text("roleid");
  std::set<std::string> privs = checked_privileges(call);
  if (call.dc.access.is_builtin_role(role))
    die(fmt::format("auto-generated role '{}' cannot be modified", role));
  const Locks::Guard lock = co_await call.lock_cfs("file-user_cfg");
  const auto found = call.dc.access.roles.find(role);
  if (found == call.dc.access.roles.end())
    die(fmt::format("update role failed: role '{}' does not exist", role));
  if (call.params.flag("append")) privs.insert(found->second.begin(), found->second.end());
  found->second = privs;
  co_return text::Value::null();
}

Routine<text::Value> delete_role(Call& call) {
  const std::string role = call.params.text("roleid");
  if (call.dc.access.is_builtin_role(role))
    die(fmt::format("auto-generated role '{}' cannot be deleted", role));
  const Locks::Guard lock = co_await call.lock_cfs("file-user_cfg");
  if (call.dc.access.roles.erase(role) == 0)
    die(fmt::format("delete role failed: role '{}' does not exist", role));
  for (auto& [path, entries] : call.dc.access.acl)
    for (auto& [who, roles] : entries) roles.erase(role);
  co_return text::Value::null();
}

Routine<text::Value> list_groups(Call& call) {
  text::Value rows = text::Value::list();
  for (const auto& [group, comment] : call.dc.access.groups) {
    if (!call.may("/access/groups/" + group, {"User.Modify", "Sys.Audit", "Group.Allocate"}, true))
      continue;
    text::Value row = object({{"groupid", string(group)}});
    if (!comment.empty()) row.set("comment", string(comment));
    std::vector<std::string> members;
    for (const auto& [name, user] : call.dc.access.users)
      if (user.groups.contains(group)) members.push_back(name);
    row.set("users", string(join(members, ",")));
    rows.append(std::move(row));
  }
  co_return rows;
}

Routine<text::Value> create_group(Call& call) {
  const std::string group = call.params.text("groupid");
  const Locks::Guard lock = co_await call.lock_cfs("file-user_cfg");
  if (!call.dc.access.groups.emplace(group, call.params.text("comment")).second)
    die(fmt::format("create group failed: group '{}' already exists", group));
  co_return text::Value::null();
}

Routine<text::Value> read_group(Call& call) {
  const std::string group = call.params.text("groupid");
  const auto found = call.dc.access.groups.find(group);
  if (found == call.dc.access.groups.end()) die(fmt::format("group '{}' does not exist", group));
  text::Value members = text::Value::list();
  for (const auto& [name, user] : call.dc.access.users)
    if (user.groups.contains(group)) members.append(string(name));
  text::Value data = object({{"members", members}});
  if (!found->second.empty()) data.set("comment", string(found->second));
  co_return data;
}

Routine<text::Value> delete_group(Call& call) {
  const std::string group = call.params.text("groupid");
  const Locks::Guard lock = co_await call.lock_cfs("file-user_cfg");
  if (call.dc.access.groups.erase(group) == 0)
    die(fmt::format("delete group failed: group '{}' does not exist", group));
  for (auto& [name, user] : call.dc.access.users) user.groups.erase(group);
  for (auto& [path, entries] : call.dc.access.acl) entries.erase("@" + group);
  co_return text::Value::null();
}

text::Value token_facts(const Token& token) {
  text::Value row =
      object({{"expire", number(token.expire)}, {"privsep", number(token.privsep ? 1 : 0)}});
  if (!token.comment.empty()) row.set("comment", string(token.comment));
  return row;
}

text::Value user_facts(const User& user) {
  text::Value row =
      object({{"enable", number(user.enabled ? 1 : 0)}, {"expire", number(user.expire)}});
  if (!user.comment.empty()) row.set("comment", string(user.comment));
  row.set("email", string(user.email));
  if (!user.firstname.empty()) row.set("firstname", string(user.firstname));
  if (!user.lastname.empty()) row.set("lastname", string(user.lastname));
  return row;
}

User& get_user(Access& access, const std::string& id) {
  const auto found = access.users.find(id);
  if (found == access.users.end()) die(fmt::format("no such user ('{}')", id));
  return found->second;
}

Token& get_token(Access& access, const Call& call) {
  const std::string id = call.params.text("userid");
  const std::string name = call.params.text("tokenid");
  User& user = get_user(access, id);
  const auto found = user.tokens.find(name);
  if (found == user.tokens.end()) die(fmt::format("no such token '{}' for user '{}'", name, id));
  return found->second;
}

Routine<text::Value> list_users(Call& call) {
  text::Value rows = text::Value::list();
  const bool all = call.may("/access/groups", {"User.Modify", "Sys.Audit"}, true);
  for (const auto& [id, user] : call.dc.access.users) {
    if (!all && id != call.caller.user) continue;
    if (call.params.has("enabled") && user.enabled != call.params.flag("enabled")) continue;
    text::Value row = user_facts(user);
    row.set("userid", string(id));
    row.set("realm-type", string(id.ends_with("@pam") ? "pam" : "pve"));
    if (call.params.flag("full")) {
      row.set("groups", string(join({user.groups.begin(), user.groups.end()}, ",")));
      text::Value tokens = text::Value::list();
      for (const auto& [name, token] : user.tokens) {
        text::Value facts = token_facts(token);
        facts.set("tokenid", string(name));
        tokens.append(std::move(facts));
      }
      row.set("tokens", tokens);
    }
    rows.append(std::move(row));
  }
  co_return rows;
}

void apply_user(User& user, const Parameters& params, bool append) {
  if (const auto* value = params.find("comment")) user.comment = *value;
  if (const auto* value = params.find("email")) user.email = *value;
  if (const auto* value = params.find("firstname")) user.firstname = *value;
  if (const auto* value = params.find("lastname")) user.lastname = *value;
  if (params.has("enable")) user.enabled = params.flag("enable");
  if (params.has("expire")) user.expire = params.integer("expire");
  if (params.has("groups")) {
    if (!append) user.groups.clear();
    for (const std::string& group : params.split("groups")) user.groups.insert(group);
  }
}

Routine<text::Value> create_user(Call& call) {
  const std::string id = call.params.text("userid");
  const Locks::Guard lock = co_await call.lock_cfs("file-user_cfg");
  if (call.dc.access.users.contains(id))
    die(fmt::format("create user failed: user '{}' already exists", id));
  for (const std::string& group : call.params.split("groups"))
    if (!call.dc.access.groups.contains(group))
      die(fmt::format("create user failed: group '{}' does not exist", group));
  User user;
  user.password = call.params.text("password");
  apply_user(user, call.params, false);
  call.dc.access.users.emplace(id, user);
  co_return text::Value::null();
}

Routine<text::Value> read_user(Call& call) {
  const User& user = get_user(call.dc.access, call.params.text("userid"));
  text::Value data = user_facts(user);
  text::Value groups = text::Value::list();
  for (const std::string& group : user.groups) groups.append(string(group));
  data.set("groups", groups);
  text::Value tokens = text::Value::map();
  for (const auto& [name, token] : user.tokens) tokens.set(name, token_facts(token));
  data.set("tokens", tokens);
  co_return data;
}

Routine<text::Value> update_user(Call& call) {
  const Locks::Guard lock = co_await call.lock_cfs("file-user_cfg");
  const std::string id = call.params.text("userid");
  if (!call.dc.access.users.contains(id))
    die(fmt::format("update user failed: user '{}' does not exist", id));
  apply_user(call.dc.access.users.at(id), call.params, call.params.flag("append"));
  co_return text::Value::null();
}

Routine<text::Value> delete_user(Call& call) {
  const Locks::Guard lock = co_await call.lock_cfs("file-user_cfg");
  const std::string id = call.params.text("userid");
  call.dc.access.users.erase(id);  // one that is not there is no error
  for (auto& [path, entries] : call.dc.access.acl)
    std::erase_if(entries, [&](const auto& entry) {
      return entry.first == id || entry.first.starts_with(id + "!");
    });
  co_return text::Value::null();
}

Routine<text::Value> list_tokens(Call& call) {
  text::Value rows = text::Value::list();
  for (const auto& [name, token] : get_user(call.dc.access, call.params.text("userid")).tokens) {
    text::Value row = token_facts(token);
    row.set("tokenid", string(name));
    rows.append(std::move(row));
  }
  co_return rows;
}

Routine<text::Value> read_token(Call& call) {
  co_return token_facts(get_token(call.dc.access, call));
}

Routine<text::Value> create_token(Call& call) {
  const std::string id = call.params.text("userid");
  const std::string name = call.params.text("tokenid");
  const Locks::Guard lock = co_await call.lock_cfs("file-user_cfg");
  User& user = get_user(call.dc.access, id);
  if (user.tokens.contains(name)) refuse_parameter("tokenid", "Token already exists.");
  const Token token{call.dc.new_uuid(), call.params.flag("privsep", true),
                    call.params.integer("expire"), call.params.text("comment")};
  user.tokens.emplace(name, token);
  text::Value info = text::Value::map();
  // What was sent comes back as it was sent, a text; what was filled in is a number.
  info.set("privsep", call.params.has("privsep") ? string(call.params.text("privsep")) : number(1));
  if (call.params.has("comment")) info.set("comment", string(token.comment));
  if (call.params.has("expire")) info.set("expire", string(call.params.text("expire")));
  co_return object(
      {{"full-tokenid", string(id + "!" + name)}, {"value", string(token.secret)}, {"info", info}});
}

Routine<text::Value> update_token(Call& call) {
  const Locks::Guard lock = co_await call.lock_cfs("file-user_cfg");
  Token& token = get_token(call.dc.access, call);
  if (call.params.has("privsep")) token.privsep = call.params.flag("privsep");
  if (call.params.has("expire")) token.expire = call.params.integer("expire");
  if (call.params.has("comment")) token.comment = call.params.text("comment");
  co_return token_facts(token);
}

Routine<text::Value> delete_token(Call& call) {
  const Locks::Guard lock = co_await call.lock_cfs("file-user_cfg");
  get_token(call.dc.access, call);
  const std::string id = call.params.text("userid");
  const std::string name = call.params.text("tokenid");
  call.dc.access.users.at(id).tokens.erase(name);
  for (auto& [path, entries] : call.dc.access.acl) entries.erase(id + "!" + name);
  co_return text::Value::null();
}

}  // namespace

std::vector<Route> access_routes() {
  return {
      {"GET /", root_index},
      {"GET /access", index_of_access},
      {"GET /access/domains", domains},
      {"GET /access/ticket", ticket_form},
      {"POST /access/ticket", login},
      {"GET /access/permissions", permissions},
      {"GET /access/acl", list_acl},
      {"PUT /access/acl", update_acl},
      {"GET /access/roles", list_roles},
      {"POST /access/roles", create_role},
      {"GET /access/roles/{roleid}", read_role},
      {"PUT /access/roles/{roleid}", update_role},
      {"DELETE /access/roles/{roleid}", delete_role},
      {"GET /access/groups", list_groups},
      {"POST /access/groups", create_group},
      {"GET /access/groups/{groupid}", read_group},
      {"DELETE /access/groups/{groupid}", delete_group},
      {"GET /access/users", list_users},
      {"POST /access/users", create_user},
      {"GET /access/users/{userid}", read_user},
      {"PUT /access/users/{userid}", update_user},
      {"DELETE /access/users/{userid}", delete_user},
      {"GET /access/users/{userid}/token", list_tokens},
      {"GET /access/users/{userid}/token/{tokenid}", read_token},
      {"POST /access/users/{userid}/token/{tokenid}", create_token},
      {"PUT /access/users/{userid}/token/{tokenid}", update_token},
      {"DELETE /access/users/{userid}/token/{tokenid}", delete_token},
  };
}

}  // namespace rocca::lab::pve
