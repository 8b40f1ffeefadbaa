// Who asks (client certificate, service account token) and whether they may (RBAC).
#include "base/encoding.hpp"
#include "base/handle.hpp"
#include "base/strings.hpp"
#include "lab/kube/server.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <algorithm>
#include <array>

namespace rocca::lab::kube {

using text::Value;

namespace {

std::optional<User> certificate_user(const std::string& der) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(der.data());
  const Handle<X509, X509_free> certificate{
      d2i_X509(nullptr, &bytes, static_cast<long>(der.size()))};
  if (!certificate) return std::nullopt;
  const X509_NAME* subject = X509_get_subject_name(certificate.get());
  User user;
  for (int i = 0; i < X509_NAME_entry_count(subject); ++i) {
    const X509_NAME_ENTRY* entry = X509_NAME_get_entry(subject, i);
    const ASN1_STRING* data = X509_NAME_ENTRY_get_data(entry);
    std::string text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(data)),
                     static_cast<std::size_t>(ASN1_STRING_length(data)));
    const int kind = OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry));
    if (kind == NID_commonName)
      user.name = std::move(text);
    else if (kind == NID_organizationName)
      user.groups.push_back(std::move(text));
  }
  if (user.name.empty()) return std::nullopt;
  user.groups.emplace_back("system:authenticated");
  return user;
}

bool listed(const Value& rule, std::string_view key, std::string_view wanted) {
  const Value* list = rule.find(key);
  if (list == nullptr || !list->is_list()) return false;
  for (const Value& one : list->items())
    if (one.text() == "*" || one.text() == wanted) return true;
  return false;
}

bool resource_listed(const Value& rule, const Server::Question& question) {
  const std::string whole = question.subresource.empty()
                                ? question.resource
                                : question.resource + "/" + question.subresource;
  if (listed(rule, "resources", whole)) return true;
  return !question.subresource.empty() && listed(rule, "resources", "*/" + question.subresource);
}

bool path_listed(const Value& rule, const std::string& path) {
  const Value* list = rule.find("nonResourceURLs");
  if (list == nullptr || !list->is_list()) return false;
  for (const Value& one : list->items()) {
    const std::string& form = one.text();
    if (form == path || form == "*") return true;
    if (form.ends_with("*") && path.starts_with(std::string_view(form).substr(0, form.size() - 1)))
      return true;
  }
  return false;
}

bool covers(const Value& rule, const Server::Question& question) {
  if (!listed(rule, "verbs", question.verb)) return false;
  if (!question.path.empty()) return path_listed(rule, question.path);
  if (!listed(rule, "apiGroups", question.group) || !resource_listed(rule, question)) return false;
  const Value* names = rule.find("resourceNames");
  return is_empty(names) ||
         (!question.name.empty() && listed(rule, "resourceNames", question.name));
}

bool names_user(const Value& binding, const User& user) {
  const Value* subjects = binding.find("subjects");
  if (subjects == nullptr || !subjects->is_list()) return false;
  for (const Value& subject : subjects->items()) {
    const std::string kind = text_at(subject, {"kind"});
    const std::string name = text_at(subject, {"name"});
    if (kind == "User" && name == user.name) return true;
    if (kind == "Group" &&
        std::find(user.groups.begin(), user.groups.end(), name) != user.groups.end())
      return true;
    if (kind == "ServiceAccount" && user.name == fmt::format("system:serviceaccount:{}:{}",
                                                             text_at(subject, {"namespace"}), name))
      return true;
  }
  return false;
}

std::string go_list(const Value* list) {
  std::vector<std::string> words;
  if (list != nullptr)
    for (const Value& one : list->items()) words.push_back(in_quotes(one.text()));
  return "[" + join(words, " ") + "]";
}

std::string compact_rule(const Value& rule) {
  std::vector<std::string> parts;
  const auto add = [&](const char* shown, const char* key) {
    if (!is_empty(rule.find(key)))
      parts.push_back(fmt::format("{}:{}", shown, go_list(rule.find(key))));
  };
  add("NonResourceURLs", "nonResourceURLs");
  add("APIGroups", "apiGroups");
  add("Resources", "resources");
  add("ResourceNames", "resourceNames");
  add("Verbs", "verbs");
  return "{" + join(parts, ", ") + "}";
}

}  // namespace

std::optional<User> Server::authenticate(const net::Incoming& request) const {
  if (options_.authenticate) return options_.authenticate(request);
  if (!request.peer_certificate.empty())
    if (auto user = certificate_user(request.peer_certificate)) return user;
  if (const auto header = request.headers.find("Authorization")) {
    if (!header->starts_with("Bearer ")) return std::nullopt;
    const auto found = tokens_.find(std::string(header->substr(7)));
    if (found == tokens_.end()) return std::nullopt;
    const std::size_t slash = found->second.find('/');
    const std::string space = found->second.substr(0, slash);
    const std::string name = found->second.substr(slash + 1, found->second.rfind('/') - slash - 1);
    return User{
        fmt::format("system:serviceaccount:{}:{}", space, name),
        {"system:serviceaccounts", "system:serviceaccounts:" + space, "system:authenticated"},
        found->second.substr(found->second.rfind('/') + 1)};
  }
  if (options_.anonymous) return User{"system:anonymous", {"system:unauthenticated"}};
  return std::nullopt;
}

std::vector<Value> Server::rules_for(const User& user, const std::string& space,
                                     std::string* error) const {
  static_cast<void>(error);
  std::vector<Value> rules;
  const auto add_role = [&](const Value& binding, const std::string& from) {
    const std::string kind = text_at(binding, {"roleRef", "kind"});
    const std::string name = text_at(binding, {"roleRef", "name"});
    const Object role = kind == "ClusterRole"
                            ? storage_.find("rbac.authorization.k8s.io/clusterroles", {"", name})
                            : storage_.find("rbac.authorization.k8s.io/roles", {from, name});
    if (!role) return;
    if (const Value* list = role->find("rules"); list != nullptr && list->is_list())
      for (const Value& rule : list->items()) rules.push_back(rule);
  };
  for (const auto& [key, binding] : storage_.all("rbac.authorization.k8s.io/clusterrolebindings"))
    if (names_user(*binding, user)) add_role(*binding, "");
  if (!space.empty())
    for (const auto& [key, binding] : storage_.all("rbac.authorization.k8s.io/rolebindings"))
      if (key.space == space && names_user(*binding, user)) add_role(*binding, space);
  return rules;
}

std::optional<std::string> Server::refuse(const User& user, const Question& question) const {
  if (std::find(user.groups.begin(), user.groups.end(), "system:masters") != user.groups.end())
    return std::nullopt;
  for (const Value& rule : rules_for(user, question.space))
    if (covers(rule, question)) return std::nullopt;
  if (!question.path.empty())
    return fmt::format("forbidden: User {} cannot {} path {}", in_quotes(user.name), question.verb,
                       in_quotes(question.path));
  const std::string resource = question.subresource.empty()
                                   ? question.resource
                                   : question.resource + "/" + question.subresource;
  return fmt::format("User {} cannot {} resource {} in API group {} {}", in_quotes(user.name),
                     question.verb, in_quotes(resource), in_quotes(question.group),
                     question.space.empty()
                         ? "at the cluster scope"
                         : fmt::format("in the namespace {}", in_quotes(question.space)));
}

void Server::check_escalation(const Resource& resource, const Value& object,
                              const Write& write) const {
  if (resource.group != "rbac.authorization.k8s.io" || write.internal) return;
  if (std::find(write.user.groups.begin(), write.user.groups.end(), "system:masters") !=
      write.user.groups.end())
    return;
  const std::string space = text_at(object, {"metadata", "namespace"});
  std::vector<Value> wanted;
  if (resource.kind.ends_with("Binding")) {
    const bool cluster = text_at(object, {"roleRef", "kind"}) == "ClusterRole";
    const std::string name = text_at(object, {"roleRef", "name"});
    const Object role = cluster
                            ? storage_.find("rbac.authorization.k8s.io/clusterroles", {"", name})
                            : storage_.find("rbac.authorization.k8s.io/roles", {space, name});
    if (role)
      if (const Value* rules = role->find("rules"); rules != nullptr && rules->is_list())
        wanted = rules->items();
  } else if (const Value* rules = object.find("rules"); rules != nullptr && rules->is_list()) {
    wanted = rules->items();
  }
  const std::vector<Value> held = rules_for(write.user, space);
  std::vector<std::string> missing;
  for (const Value& rule : wanted) {
    bool all = true;
    const auto each = [&](const Value* list, auto&& then) {
      if (is_empty(list)) return;
      for (const Value& one : list->items()) then(one.text());
    };
    each(rule.find("verbs"), [&](const std::string& verb) {
      const auto ask = [&](Question question) {
        if (std::none_of(held.begin(), held.end(),
                         [&](const Value& mine) { return covers(mine, question); }))
          all = false;
      };
      each(rule.find("apiGroups"), [&](const std::string& group) {
        each(rule.find("resources"), [&](const std::string& name) {
          ask({verb, group, name, "", "", space, ""});
        });
      });
      each(rule.find("nonResourceURLs"), [&](const std::string& path) {
        ask({verb, "", "", "", "", "", path});
      });
    });
    if (!all) missing.push_back(compact_rule(rule));
  }
  if (missing.empty()) return;
  std::vector<std::string> groups;
  for (const std::string& group : write.user.groups) groups.push_back(in_quotes(group));
  throw forbidden(resource.group, resource.plural, text_at(object, {"metadata", "name"}),
                  fmt::format("user {} (groups=[{}]) is attempting to grant RBAC permissions not "
                              "currently held:\n{}",
                              in_quotes(write.user.name), join(groups, " "), join(missing, "\n")));
}

Reply Server::review(Call& call) {
  const Resource& resource = *call.resource;
  Value object = read_body(call, resource);
  const Write write = write_of(call);
  Reply reply;
  reply.status = 201;
  if (resource.kind == "SelfSubjectReview") {
    object = Value::map();
    set_at(object, {"metadata", "creationTimestamp"}, str(timestamp()));
    Value& info = map_at(object, {"status", "userInfo"});
    info.set("username", str(call.user.name));
    if (!call.user.uid.empty()) info.set("uid", str(call.user.uid));
    Value groups = Value::list();
    for (const std::string& group : call.user.groups) groups.append(str(group));
    info.set("groups", std::move(groups));
    reply.body = shown(resource, object);
    return reply;
  }
  if (resource.kind == "SelfSubjectRulesReview") {
    const std::string space = text_at(object, {"spec", "namespace"});
    object = json(R"({"metadata":{},"spec":{}})");
    Value resources = Value::list();
    Value paths = Value::list();
    for (const Value& rule : rules_for(call.user, space))
      (is_empty(rule.find("nonResourceURLs")) ? resources : paths).append(rule);
    Value& status = map_at(object, {"status"});
    status.set("resourceRules", std::move(resources));
    status.set("nonResourceRules", std::move(paths));
    status.set("incomplete", Value::boolean(false));
    reply.body = shown(resource, object);
    return reply;
  }
  if (resource.kind == "TokenReview") {
    const auto found = tokens_.find(text_at(object, {"spec", "token"}));
    set_at(object, {"status", "authenticated"}, Value::boolean(found != tokens_.end()));
    reply.body = shown(resource, object);
    return reply;
  }
  const Value* attributes = object.find({"spec", "resourceAttributes"});
  const Value* path = object.find({"spec", "nonResourceAttributes"});
  if ((attributes == nullptr) == (path == nullptr)) {
    const std::vector<Cause> causes{Cause::invalid(
        "spec.resourceAttributes", "null",
        "exactly one of nonResourceAttributes or resourceAttributes must be specified")};
    throw invalid(resource.group, "", "", causes);
  }
  if (resource.kind != "SelfSubjectAccessReview" && text_at(object, {"spec", "user"}).empty() &&
      is_empty(object.find({"spec", "groups"}))) {
    const std::vector<Cause> causes{
        Cause::invalid("spec.user", "\"\"", "at least one of user or group must be specified")};
    throw invalid(resource.group, "", "", causes);
  }
  track_update(*resource.type, empty_object(resource), object,
               {write.manager, resource.api_version(), "", timestamp(), one_field("status")});
  User user = call.user;
  if (resource.kind != "SelfSubjectAccessReview") {
    user = {text_at(object, {"spec", "user"}), {}};
    if (const Value* groups = object.find({"spec", "groups"}))
      for (const Value& group : groups->items()) user.groups.push_back(group.text());
  }
  Question question;
  if (attributes != nullptr)
    question = {text_at(*attributes, {"verb"}),
                text_at(*attributes, {"group"}),
                text_at(*attributes, {"resource"}),
                text_at(*attributes, {"subresource"}),
                text_at(*attributes, {"name"}),
                text_at(*attributes, {"namespace"}),
                ""};
  else
    question = {text_at(*path, {"verb"}), "", "", "", "", "", text_at(*path, {"path"})};
  object.set("status", Value::map());
  set_at(object, {"status", "allowed"}, Value::boolean(!refuse(user, question)));
  reply.body = shown(resource, object);
  return reply;
}

Reply Server::token(Call& call) {
  const Object account = get(*call.resource, key_of(call));
  Resource request = *call.resource;
  request.kind = "TokenRequest";
  request.group = "authentication.k8s.io";
  request.type = schemas_.get("TokenRequest");
  Value object = read_body(call, request);
  const std::int64_t seconds = int_at(object, {"spec", "expirationSeconds"}, 3600);
  if (seconds < 600) {
    const std::vector<Cause> causes{
        Cause::invalid("spec.expirationSeconds", std::to_string(seconds),
                       "may not specify a duration less than 10 minutes")};
    throw invalid("authentication.k8s.io", "TokenRequest", "", causes);
  }
  if (seconds > (std::int64_t{1} << 32)) {
    const std::vector<Cause> causes{
        Cause::invalid("spec.expirationSeconds", std::to_string(seconds),
                       "may not specify a duration larger than 2^32 seconds")};
    throw invalid("authentication.k8s.io", "TokenRequest", "", causes);
  }
  set_at(object, {"spec", "expirationSeconds"}, num(seconds));
  const Write write = write_of(call);
  track_update(
      *request.type, zero_value(*request.type), object,
      {write.manager, "authentication.k8s.io/v1", "token", timestamp(), one_field("status")});
  const std::string uid = text_at(*account, {"metadata", "uid"});
  const std::string token = to_base64url(R"({"alg":"RS256"})") + "." +
                            to_base64url(fmt::format(R"({{"sub":"system:serviceaccount:{}:{}"}})",
                                                     call.space, call.name)) +
                            "." + to_base64url(entropy_.bytes(32));
  tokens_[token] = fmt::format("{}/{}/{}", call.space, call.name, uid);
  Value& metadata = map_at(object, {"metadata"});
  metadata.set("name", str(call.name));
  metadata.set("namespace", str(call.space));
  metadata.set("uid", str(uid));
  metadata.set("creationTimestamp", str(timestamp()));
  Value& spec = map_at(object, {"spec"});
  if (is_empty(spec.find("audiences")))
    spec.set("audiences", Value::list({str("https://" + options_.address)}));
  spec.set("expirationSeconds", num(seconds));
  if (spec.find("boundObjectRef") == nullptr) spec.set("boundObjectRef", Value::null());
  Value& status = map_at(object, {"status"});
  status.set("token", str(token));
  status.set("expirationTimestamp", str(timestamp_of(world_.unix_time() + seconds)));
  Reply reply;
  reply.status = 201;
  reply.body = Value::map();
  reply.body.set("kind", str("TokenRequest"));
  reply.body.set("apiVersion", str("authentication.k8s.io/v1"));
  for (const text::Entry& entry : object.entries()) reply.body.set(entry.key, entry.value);
  return reply;
}

}  // namespace rocca::lab::kube
