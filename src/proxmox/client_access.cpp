#include "base/error.hpp"
#include "base/strings.hpp"
#include "proxmox/client.hpp"
#include "proxmox/failure.hpp"
#include "text/value.hpp"

#include <fmt/format.h>

// Users, roles, tokens and grants: what a token for somebody else is made of.

namespace rocca::proxmox {

namespace {

bool says(const Failure& failure, std::string_view part) {
  if (failure.text.find(part) != std::string::npos) return true;
  for (const auto& [parameter, text] : failure.errors)
    if (text.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

void Client::put_role(const std::string& role, const std::vector<std::string>& privileges) {
  const Parameters wanted{{"privs", join(privileges, ",")}};
  Parameters fresh = wanted;
  fresh.emplace_back("roleid", role);
  const Reply made = call("POST", "/access/roles", fresh);
  const auto* refused = std::get_if<Failure>(&made);
  if (refused == nullptr) return;
  if (!says(*refused, "already exists")) throw refused->error("making the role " + role);
  // A role is shared by all clusters of one Proxmox: what others need of it stays.
  Parameters more = wanted;
  more.emplace_back("append", "1");
  require("changing the role " + role, "PUT", "/access/roles/" + role, more);
}

void Client::put_user(const std::string& user, const std::string& comment) {
  const Reply made = call("POST", "/access/users", {{"userid", user}, {"comment", comment}});
  const auto* refused = std::get_if<Failure>(&made);
  if (refused != nullptr && !says(*refused, "already exists"))
    throw refused->error("making the user " + user);
}

std::optional<std::string> Client::find_token_comment(const std::string& user,
                                                      const std::string& name) {
  const text::Value data =
      require("reading the tokens of " + user, "GET", fmt::format("/access/users/{}/token", user));
  for (const text::Value& row : data.items()) {
    const text::Value* id = row.find("tokenid");
    const text::Value* comment = row.find("comment");
    if (id != nullptr && id->text() == name) return comment == nullptr ? "" : comment->text();
  }
  return std::nullopt;
}

Secret Client::create_token(const std::string& user, const std::string& name,
                            const std::string& comment) {
  text::Value data =
      require(fmt::format("making the token {}!{}", user, name), "POST",
              fmt::format("/access/users/{}/token/{}", user, name), {{"comment", comment}});
  const text::Value* value = data.find("value");
  const text::Value* id = data.find("full-tokenid");
  if (value == nullptr || id == nullptr)
    throw Error(Fault::Rejected, "Proxmox made a token and does not say which");
  Secret token{fmt::format("{}={}", id->text(), value->text())};
  data.wipe();
  return token;
}

void Client::remove_token(const std::string& user, const std::string& name) {
  require(fmt::format("removing the token {}!{}", user, name), "DELETE",
          fmt::format("/access/users/{}/token/{}", user, name));
}

void Client::grant(const std::string& path, const std::string& role, const std::string& who,
                   bool propagate) {
  require(fmt::format("granting {} on {} to {}", role, path, who), "PUT", "/access/acl",
          {{"path", path},
           {"roles", role},
           {who.find('!') == std::string::npos ? "users" : "tokens", who},
           {"propagate", propagate ? "1" : "0"}});
}

}  // namespace rocca::proxmox
