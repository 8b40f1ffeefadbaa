#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/services/infisical.hpp"
#include "lab/services/infisical_call.hpp"
#include "lab/sim/world.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab {

using text::Value;
using namespace std::chrono_literals;

namespace {

// Defaults of an identity's universal auth.
constexpr unsigned lockout_threshold = 3;
constexpr Duration lockout_lasts = 5min;
constexpr Duration lockout_forgets = 30s;

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

/// What the server keeps of a value: nothing around it but one last line break.
std::string kept(const std::string& value) {
  return std::string(trim(value)) + (value.ends_with('\n') ? "\n" : "");
}

}  // namespace

/// One request, from its target to its answer.
class Infisical::Call {
 public:
  Call(Infisical& server, const net::Incoming& request)
      : server_(server), request_(request), given_(request) {}

  Value run() {
    const std::vector<std::string>& path = given_.path();
    const auto is = [&](std::initializer_list<std::string_view> words) {
      return std::equal(words.begin(), words.end(), path.begin(), path.end(),
                        [](std::string_view word, const std::string& segment) {
                          return word == "*" || word == segment;
                        });
    };
    const std::string& method = request_.method;
    if (is({"api", "v1", "auth", "universal-auth", "login"}) && method == "POST") return log_in();
    authenticate();
    if (is({"api", "v1", "auth", "token", "renew"}) && method == "POST") return renew();
    if (is({"api", "v1", "auth", "token", "revoke"}) && method == "POST") return revoke();
    if (is({"api", "v1", "projects", "slug", "*"}) && method == "GET") return project_by_slug();
    if (is({"api", "v2", "folders"}) && method == "GET") return list_folders();
    if (is({"api", "v2", "folders"}) && method == "POST") return create_folder();
    if (is({"api", "v2", "folders", "*"}) && method == "DELETE") return delete_folder();
    older_ = path.size() > 1 && path[1] == "v3";
    const bool many =
        is({"api", "v4", "secrets", "batch"}) || is({"api", "v3", "secrets", "batch", "raw"});
    if (is({"api", "v4", "secrets"}) || is({"api", "v3", "secrets", "raw"})) {
      if (method == "GET") return list_secrets();
    } else if (many) {
      if (method == "POST" || method == "PATCH" || method == "DELETE") return change_many();
    } else if (is({"api", "v4", "secrets", "*"}) || is({"api", "v3", "secrets", "raw", "*"})) {
      if (method == "GET") return get_secret();
      if (method == "POST" || method == "PATCH" || method == "DELETE") return change_one();
    }
    throw Refusal{404, "Not Found", fmt::format("Route {}:{} not found", method, request_.target)};
  }

 private:
  struct Where {
    Project* project = nullptr;
    std::string environment;
    std::string path;
    Folder* folder = nullptr;  // nullptr: there is none
  };

  Value log_in() {
    server_.spend("writes", server_.limits.writes);
    const std::string id = given_.text("clientId");
    const std::string secret = given_.text("clientSecret");
    given_.find_text("organizationSlug");
    given_.validate();
    const auto found = server_.identities.find(id);
    if (found == server_.identities.end())
      throw Refusal{401, "UnauthorizedError", "Invalid credentials"};
    Identity& identity = found->second;
    const Instant now = server_.world_.now();
    if (identity.locked_until && now < *identity.locked_until)
      throw Refusal{401, "UnauthorizedError",
                    "This identity auth method is temporarily locked, please try again later"};
    if (secret != identity.client_secret) {
      if (now - identity.last_failure >= lockout_forgets) identity.failures = 0;
      identity.last_failure = now;
      if (++identity.failures >= lockout_threshold) identity.locked_until = now + lockout_lasts;
      throw Refusal{401, "UnauthorizedError", "Invalid credentials"};
    }
    identity.failures = 0;
    identity.locked_until.reset();
    std::string text = fmt::format("{}.{}.{}", to_base64url(server_.uuid()),
                                   to_base64url(server_.uuid()), to_base64url(server_.uuid()));
    server_.tokens_[text] = {id, now + server_.token_lives, false};
    return token_answer(text);
  }

  Value token_answer(const std::string& text) const {
    Value answer = Value::map();
    answer.set("accessToken", Value::string(text));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(server_.token_lives);
    answer.set("expiresIn", Value::integer(seconds.count()));
    answer.set("accessTokenMaxTTL", Value::integer(2'592'000));
    answer.set("tokenType", Value::string("Bearer"));
    return answer;
  }

  void authenticate() {
    const auto header = request_.headers.find("authorization");
    if (!header || !header->starts_with("Bearer "))
      throw Refusal{401, "UnauthorizedError", "Token missing"};
    const auto found = server_.tokens_.find(std::string(header->substr(7)));
    if (found == server_.tokens_.end())
      throw Refusal{403, "TokenError",
                    "The provided access token is malformed. Please use a valid token or generate "
                    "a new one and try again."};
    if (server_.world_.now() >= found->second.expires)
      throw Refusal{403, "TokenError", "Your token has expired. Please re-authenticate."};
    if (found->second.revoked)
      throw Refusal{401, "UnauthorizedError", "Cannot use a revoked access token"};
    token_ = found->first;
    identity_ = &server_.identities.at(found->second.client_id);
  }

  Value renew() {
    server_.spend("writes", server_.limits.writes);
    require_own_token();
    server_.tokens_[token_].expires = server_.world_.now() + server_.token_lives;
    return token_answer(token_);
  }

  Value revoke() {
    server_.spend("writes", server_.limits.writes);
    require_own_token();
    server_.tokens_[token_].revoked = true;
    Value answer = Value::map();
    answer.set("message", Value::string("Successfully revoked access token"));
    return answer;
  }

  void require_own_token() {
    const std::string text = given_.text("accessToken");
    given_.validate();
    if (text != token_) throw Refusal{403, "TokenError", "jwt malformed"};
  }

  void require_role(const Project& project, const char* action) const {
    const auto role = identity_->roles.find(project.id);
    if (role == identity_->roles.end())
      throw Refusal{403, "ForbiddenError", "You are not a member of this project"};
    if (action != nullptr && role->second != Role::Member)
      throw Refusal{403, "PermissionDenied",
                    fmt::format("You are not allowed to {} on secrets", action)};
  }

  Value project_by_slug() {
    server_.spend("reads", server_.limits.reads);
    given_.validate();
    const std::string& slug = given_.path().back();
    for (const auto& [id, project] : server_.projects) {
      if (project.slug != slug) continue;
      require_role(project, nullptr);
      Value answer = Value::map();
      answer.set("id", Value::string(id));
      answer.set("name", Value::string(slug));
      answer.set("slug", Value::string(slug));
      Value& environments = answer.set("environments", Value::list());
      for (const auto& [name, folders] : project.environments) {
        Value one = Value::map();
        one.set("name", Value::string(name));
        one.set("slug", Value::string(name));
        environments.append(std::move(one));
      }
      return answer;
    }
    throw Refusal{404, "NotFound", fmt::format("Project with slug '{}' not found", slug)};
  }

  /// Project, environment and path of a call, as its version names them.
  Where where(const char* path_key) {
    Where place;
    const std::string id = given_.text(older_ ? "workspaceId" : "projectId");
    place.environment = given_.text("environment");
    place.path = without_trailing_slash(given_.find_text(path_key).value_or("/"));
    id_ = id;
    return place;
  }

  /// After the parameters were found good: who may do it, and where it is.
  void enter(Where& place, const char* action) {
    const auto found = server_.projects.find(id_);
    if (found == server_.projects.end())
      throw Refusal{404, "NotFound", fmt::format("Project with ID '{}' not found", id_)};
    place.project = &found->second;
    require_role(*place.project, action);
    const auto folders = place.project->environments.find(place.environment);
    if (folders == place.project->environments.end()) return;
    const auto folder = folders->second.find(place.path);
    if (folder != folders->second.end()) place.folder = &folder->second;
  }

  [[noreturn]] static void no_folder(const Where& place, const char* name) {
    throw Refusal{404, name,
                  fmt::format("Folder with path '{}' in environment with slug '{}' not found",
                              place.path, place.environment)};
  }

  Value list_secrets() {
    server_.spend("secrets", server_.limits.secrets);
    if (!older_ && (!given_.has("projectId") || !given_.has("environment")))
      throw Refusal{400, "BadRequest", "Missing project id or environment"};
    Where place = where("secretPath");
    const bool recursive = given_.flag("recursive", false);
    expand_ = given_.flag("expandSecretReferences", true);
    show_ = given_.flag("viewSecretValue", true);
    const bool imports = given_.flag(older_ ? "include_imports" : "includeImports", !older_);
    given_.find_text("tagSlugs");
    given_.find_text("metadataFilter");
    given_.validate();
    enter(place, nullptr);
    if (place.folder == nullptr)
      throw Refusal{404, "SecretPathNotFound",
                    fmt::format("Folder with path '{}' in environment '{}' was not found. Please "
                                "ensure the environment slug and secret path is correct.",
                                place.path, place.environment)};
    Value answer = Value::map();
    Value& list = answer.set("secrets", Value::list());
    for (auto& [path, folder] : place.project->environments[place.environment]) {
      const std::string prefix = place.path == "/" ? "/" : place.path + "/";
      if (path != place.path && !(recursive && path.starts_with(prefix))) continue;
      for (const auto& [key, entry] : folder.secrets)
        list.append(secret_object({place.project, place.environment, path, &folder}, key, entry));
    }
    if (!imports) return answer;
    Value& imported = answer.set("imports", Value::list());
    for (const std::string& path : place.folder->imports) {
      Folder& from = server_.folder(*place.project, place.environment, path);
      Value one = Value::map();
      one.set("secretPath", Value::string(path));
      one.set("environment", Value::string(place.environment));
      one.set("folderId", Value::string(from.id));
      Value& secrets = one.set("secrets", Value::list());
      for (const auto& [key, entry] : from.secrets)
        secrets.append(secret_object({place.project, place.environment, path, &from}, key, entry));
      imported.append(std::move(one));
    }
    return answer;
  }

  /// `${NAME}` in a value stands for its neighbour; other folders are not looked into.
  std::string expanded(const Folder& folder, const std::string& value) const {
    std::string out;
    std::size_t from = 0;
    for (std::size_t at = value.find("${"); at != std::string::npos; at = value.find("${", from)) {
      const std::size_t end = value.find('}', at);
      if (end == std::string::npos) break;
      out += value.substr(from, at - from);
      const auto other = folder.secrets.find(value.substr(at + 2, end - at - 2));
      if (other != folder.secrets.end()) out += other->second.value;
      from = end + 1;
    }
    return out + value.substr(from);
  }

  Value secret_object(const Where& place, const std::string& key, const Entry& entry) const {
    Value object = Value::map();
    const auto set = [&](const char* name, const std::string& text) {
      object.set(name, Value::string(text));
    };
    set("id", entry.id);
    set("_id", entry.id);
    set("workspace", place.project->id);
    set("environment", place.environment);
    object.set("version", Value::unsigned_integer(entry.version));
    set("type", "shared");
    set("secretKey", key);
    set("secretValue", !show_    ? "<hidden-by-infisical>"
                       : expand_ ? expanded(*place.folder, entry.value)
                                 : entry.value);
    set("secretComment", entry.comment);
    set("createdAt", timestamp(entry.created));
    set("updatedAt", timestamp(entry.updated));
    set("secretPath", place.path);
    object.set("secretValueHidden", Value::boolean(!show_));
    return object;
  }

  Value get_secret() {
    server_.spend("secrets", server_.limits.secrets);
    Where place = where("secretPath");
    expand_ = given_.flag("expandSecretReferences", true);
    show_ = given_.flag("viewSecretValue", true);
    given_.find_text("version");
    given_.choice("type", {"shared", "personal"});
    given_.flag(older_ ? "include_imports" : "includeImports", true);
    given_.validate();
    enter(place, nullptr);
    if (place.folder == nullptr) no_folder(place, "GetSecretByName");
    const std::string& name = given_.path().back();
    const auto found = place.folder->secrets.find(name);
    if (found == place.folder->secrets.end())
      throw Refusal{404, "NotFound", fmt::format("Secret with name '{}' not found", name)};
    Value answer = Value::map();
    answer.set("secret", secret_object(place, name, found->second));
    return answer;
  }

  void change(const Where& place, const std::string& key, const std::optional<std::string>& value,
              const std::optional<std::string>& comment) {
    Entry& entry = place.folder->secrets[key];
    const Instant now = server_.world_.now();
    if (entry.id.empty()) {
      entry.id = server_.uuid();
      entry.created = now;
    } else {
      ++entry.version;
    }
    entry.updated = now;
    if (value) entry.value = kept(*value);
    if (comment) entry.comment = std::string(trim(*comment));
  }

  Value approval() {
    Value answer = Value::map();
    Value& one = answer.set("approval", Value::map());
    one.set("id", Value::string(server_.uuid()));
    one.set("status", Value::string("open"));
    one.set("hasMerged", Value::boolean(false));
    return answer;
  }

  Value change_one() {
    server_.spend("secrets", server_.limits.secrets);
    const std::string& method = request_.method;
    const std::string name = given_.secret_name(given_.path().back(), "secretName");
    Where place = where("secretPath");
    given_.choice("type", {"shared", "personal"});
    std::optional<std::string> value;
    std::optional<std::string> comment;
    std::optional<std::string> new_name;
    if (method != "DELETE") {
      if (method == "POST")
        value = given_.text("secretValue");
      else
        value = given_.find_text("secretValue");
      comment = given_.find_text("secretComment");
      if (method == "PATCH") new_name = given_.find_text("newSecretName");
      given_.flag("skipMultilineEncoding", false);
    }
    given_.validate();
    enter(place, method == "POST" ? "create" : method == "PATCH" ? "edit" : "delete");
    if (place.folder == nullptr)
      no_folder(place, method == "POST"    ? "CreateSecret"
                       : method == "PATCH" ? "UpdateSecret"
                                           : "DeleteSecret");
    auto& secrets = place.folder->secrets;
    const bool there = secrets.contains(name);
    if (method == "POST" && there) throw Refusal{400, "BadRequest", "Secret already exists"};
    if (method == "PATCH" && !there)
      throw Refusal{404, "NotFound", fmt::format("Secret with name {} not found", name)};
    if (method == "DELETE" && !there) throw Refusal{404, "NotFound", "Secret not found"};
    if (new_name && secrets.contains(*new_name))
      throw Refusal{400, "BadRequest", "Secret with the new name already exists"};
    if (place.folder->guarded) return approval();
    Value answer = Value::map();
    if (method == "DELETE") {
      answer.set("secret", secret_object(place, name, secrets.at(name)));
      secrets.erase(name);
      return answer;
    }
    change(place, name, value, comment);
    if (new_name) {
      auto moved = secrets.extract(name);
      moved.key() = *new_name;
      secrets.insert(std::move(moved));
    }
    const std::string& key = new_name ? *new_name : name;
    answer.set("secret", secret_object(place, key, secrets.at(key)));
    return answer;
  }

  Value change_many() {
    server_.spend("secrets", server_.limits.secrets);
    const std::string& method = request_.method;
    Where place = where("secretPath");
    const std::string mode = method == "PATCH"
                                 ? given_.choice("mode", {"failOnNotFound", "upsert", "ignore"})
                                       .value_or("failOnNotFound")
                                 : "";
    const std::vector<Parameters::Item> items = given_.items("secrets", method != "DELETE");
    given_.validate();
    enter(place, method == "POST" ? "create" : method == "PATCH" ? "edit" : "delete");
    if (method == "PATCH" && !place.project->environments.contains(place.environment))
      throw Refusal{404, "NotFound",
                    fmt::format("Environment with slug '{}' in project with ID '{}' not found",
                                place.environment, place.project->id)};
    if (place.folder == nullptr && method == "PATCH")
      throw Refusal{404, "NotFound",
                    fmt::format("Folder with path '{}' in environment '{}' not found", place.path,
                                place.environment)};
    if (place.folder == nullptr)
      no_folder(place, method == "POST" ? "CreateManySecret" : "DeleteManySecret");
    auto& secrets = place.folder->secrets;
    std::vector<std::string> there;
    std::vector<std::string> missing;
    for (const auto& item : items)
      (secrets.contains(item.key) ? there : missing).push_back(item.key);
    if (method == "POST" && !there.empty())
      throw Refusal{400, "BadRequest", "Secret already exists: " + join(there, ",")};
    if (!missing.empty() && (method == "DELETE" || mode == "failOnNotFound"))
      throw Refusal{
          404, "NotFound",
          fmt::format("Secret does not exist: {} in path {}", join(missing, ", "), place.path)};
    if (place.folder->guarded) return approval();
    Value answer = Value::map();
    Value& list = answer.set("secrets", Value::list());
    for (const auto& item : items) {
      if (mode == "ignore" && !secrets.contains(item.key)) continue;
      if (method != "DELETE") change(place, item.key, item.value, item.comment);
      list.append(secret_object(place, item.key, secrets.at(item.key)));
      if (method == "DELETE") secrets.erase(item.key);
    }
    return answer;
  }

  Value folder_object(const std::string& path, const Folder& folder) const {
    Value object = Value::map();
    object.set("id", Value::string(folder.id));
    object.set("name", Value::string(path == "/" ? "root" : path.substr(path.rfind('/') + 1)));
    object.set("path", Value::string(path));
    return object;
  }

  [[noreturn]] static void no_environment(const Where& place) {
    throw Refusal{404, "NotFound",
                  fmt::format("Environment with slug '{}' in project with ID '{}' not found",
                              place.environment, place.project->id)};
  }

  Value list_folders() {
    server_.spend("reads", server_.limits.reads);
    Where place = where("path");
    const bool recursive = given_.flag("recursive", false);
    given_.find_text("lastSecretModified");
    given_.validate();
    enter(place, nullptr);
    if (!place.project->environments.contains(place.environment)) no_environment(place);
    Value answer = Value::map();
    Value& list = answer.set("folders", Value::list());
    const std::string prefix = place.path == "/" ? "/" : place.path + "/";
    for (const auto& [path, folder] : place.project->environments[place.environment]) {
      if (path == "/" || !path.starts_with(prefix)) continue;
      if (!recursive && path.find('/', prefix.size()) != std::string::npos) continue;
      list.append(folder_object(path, folder));
    }
    return answer;
  }

  Value create_folder() {
    server_.spend("secrets", server_.limits.secrets);
    Where place = where("path");
    const std::string name = given_.folder_name("name");
    given_.find_text("description");
    given_.validate();
    enter(place, "create");
    if (!place.project->environments.contains(place.environment)) no_environment(place);
    const std::string path = (place.path == "/" ? "/" : place.path + "/") + name;
    if (place.project->environments[place.environment].contains(path))
      throw Refusal{
          400, "CreateFolder",
          fmt::format("Folder with name '{}' already exists in path '{}'", name, place.path)};
    Value answer = Value::map();
    answer.set("folder",
               folder_object(path, server_.folder(*place.project, place.environment, path)));
    return answer;
  }

  Value delete_folder() {
    server_.spend("secrets", server_.limits.secrets);
    Where place = where("path");
    const bool force = given_.flag("forceDelete", false);
    given_.validate();
    enter(place, "delete");
    if (!place.project->environments.contains(place.environment)) no_environment(place);
    const std::string& id = given_.path().back();
    const std::string named = (place.path == "/" ? "/" : place.path + "/") + id;
    auto& folders = place.project->environments[place.environment];
    const auto found = std::find_if(folders.begin(), folders.end(), [&](const auto& each) {
      return each.first != "/" && (each.first == named || each.second.id == id);
    });
    if (found == folders.end())
      throw Refusal{404, "NotFound", fmt::format("Folder with ID '{}' not found", id)};
    const std::string path = found->first;
    const bool full = !found->second.secrets.empty() ||
                      std::any_of(folders.begin(), folders.end(), [&](const auto& each) {
                        return each.first.starts_with(path + "/");
                      });
    if (full && !force)
      throw Refusal{400, "BadRequest",
                    fmt::format("Cannot delete folder \"{}\" because it contains resources. Use "
                                "forceDelete=true to delete it forcefully.",
                                path.substr(path.rfind('/') + 1))};
    Value answer = Value::map();
    answer.set("folder", folder_object(path, found->second));
    std::erase_if(folders, [&](const auto& each) {
      return each.first == path || each.first.starts_with(path + "/");
    });
    return answer;
  }

  Infisical& server_;
  const net::Incoming& request_;
  Parameters given_;
  const Identity* identity_ = nullptr;
  std::string token_;
  std::string id_;  // of the project that was asked for
  bool older_ = false;
  bool expand_ = false;
  bool show_ = true;
};

void Infisical::serve(const net::Incoming& request,
                      const std::shared_ptr<net::Responder>& responder) {
  try {
    send(*responder, 200, Call(*this, request).run(), {});
  } catch (const Refusal& refusal) {
    send(*responder, refusal.status, refusal.body(uuid()), refusal.retry_after);
  }
}

}  // namespace rocca::lab
