#include "lab/pve/permission.hpp"

#include "base/error.hpp"
#include "lab/pve/failure.hpp"

#include <fmt/format.h>

namespace rocca::lab::pve {

namespace {

std::optional<std::string> value_of(const RawParameters& raw, const std::string& name) {
  const auto found = raw.find(name);
  if (found == raw.end() || found->second.values.empty()) return std::nullopt;
  return found->second.values.front();
}

/// `/pool/{poolid}` with the request's values; a missing one becomes `-`.
std::string fill(const std::string& pattern, const RawParameters& raw) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '{') {
      path += pattern[i];
      continue;
    }
    const std::size_t end = pattern.find('}', i);
    const auto value = value_of(raw, pattern.substr(i + 1, end - i - 1));
    path += value.value_or("-");
    i = end;
  }
  return path;
}

std::vector<std::string> texts(const text::Value& list) {
  std::vector<std::string> all;
  for (const text::Value& item : list.items()) all.push_back(item.text());
  return all;
}

class Checker {
 public:
  Checker(const Access& access, const Caller& caller, const RawParameters& raw)
      : access_(access), caller_(caller), raw_(raw) {}

  /// True, or false when `quiet`; otherwise throws.
  bool check(const text::Value& expression, bool quiet) const {
    const std::vector<text::Value>& items = expression.items();
    const std::string& kind = items.at(0).text();
    if (kind == "and") {
      for (std::size_t i = 1; i < items.size(); ++i)
        if (!check(items[i], quiet)) return false;
      return true;
    }
    if (kind == "or") {
      for (std::size_t i = 1; i < items.size(); ++i)
        if (check(items[i], true)) return true;
      if (quiet) return false;
      deny();
    }
    if (kind == "perm") return perm(items, quiet);
    if (kind == "perm-modify") return perm_modify(fill(items.at(1).text(), raw_), quiet);
    if (kind == "userid-param") return userid_param(items.at(1).text(), quiet);
    if (kind == "userid-group") return userid_group(texts(items.at(1)), quiet);
    throw Error(Fault::Bug, fmt::format("unknown permission check '{}'", kind));
  }

 private:
  bool ask(const std::string& path, const std::vector<std::string>& privileges, bool any,
           bool quiet) const {
    if (quiet) return access_.may(caller_, path, privileges, any);
    access_.require(caller_, path, privileges, any);
    return true;
  }

  bool perm(const std::vector<text::Value>& items, bool quiet) const {
    bool any = false;
    for (std::size_t i = 3; i + 1 < items.size(); i += 2) {
      if (items[i].text() == "any") any = true;
      if (items[i].text() == "require_param" && !value_of(raw_, items[i + 1].text())) {
        if (quiet) return false;
        deny();
      }
    }
    return ask(fill(items.at(1).text(), raw_), texts(items.at(2)), any, quiet);
  }

  bool perm_modify(const std::string& path, bool quiet) const {
    std::vector<std::string> privileges{"Permissions.Modify"};
    if (path.starts_with("/storage/")) privileges.emplace_back("Datastore.Allocate");
    if (path.starts_with("/vms/")) privileges.emplace_back("VM.Allocate");
    if (path.starts_with("/pool/")) privileges.emplace_back("Pool.Allocate");
    return ask(path, privileges, true, quiet);
  }

  bool userid_param(const std::string& what, bool quiet) const {
    const std::string user = value_of(raw_, "userid").value_or("");
    if (what == "self") {
      if (caller_.id == user) return true;
      if (quiet) return false;
      deny();
    }
    const std::string realm = user.substr(user.rfind('@') + 1);
    return ask("/access/realm/" + realm, {what}, false, quiet);
  }

  bool userid_group(const std::vector<std::string>& privileges, bool quiet) const {
    if (access_.may(caller_, "/access/groups", privileges, true)) return true;
    const auto user = access_.users.find(value_of(raw_, "userid").value_or(""));
    if (user != access_.users.end())
      for (const std::string& group : user->second.groups)
        if (access_.may(caller_, "/access/groups/" + group, privileges, true)) return true;
    return ask("/access/groups", privileges, true, quiet);
  }

  const Access& access_;
  const Caller& caller_;
  const RawParameters& raw_;
};

}  // namespace

void check_permission(const Access& access, const Caller& caller, const Method& method,
                      const RawParameters& raw) {
  if (caller.is_root() || method.who == "world" || method.who == "all" || method.who == "handler")
    return;
  if (method.who == "root") deny("user != root@pam");
  Checker{access, caller, raw}.check(method.check, false);
}

}  // namespace rocca::lab::pve
