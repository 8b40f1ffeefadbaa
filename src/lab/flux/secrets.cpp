// External Secrets Operator with the Infisical provider.
#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/flux/flux.hpp"
#include "lab/flux/inside.hpp"
#include "lab/kube/conditions.hpp"
#include "lab/kube/json.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::flux {

using namespace std::chrono_literals;
using kube::int_at;
using kube::num;
using kube::set_at;
using kube::str;
using kube::text_at;
using text::Value;

namespace {

constexpr const char* external = "external-secrets.io/externalsecrets";
constexpr const char* controller = "external-secrets";

/// Where a key of an ExternalSecret is: `NAME`, `/a/b/NAME` or `sub/NAME`.
std::pair<std::string, std::string> place_of(const std::string& key, std::string folder) {
  const std::size_t slash = key.rfind('/');
  if (slash == std::string::npos) return {folder, key};
  std::string path = key.substr(0, slash);
  if (!key.starts_with('/')) path = (folder.ends_with('/') ? folder : folder + "/") + path;
  return {path.empty() ? "/" : path, key.substr(slash + 1)};
}

}  // namespace

/// Logs in as a store says and lists one folder of its scope.
void Flux::list_secrets(const Value& store, const std::string& space, const std::string& folder,
                        const Listed& then) {
  const Value* infisical = store.find({"spec", "provider", "infisical"});
  if (infisical == nullptr)
    return then({}, "InvalidStoreConfiguration", "the lab only plays Infisical as a provider");
  std::string host = text_at(*infisical, {"hostAPI"});
  if (host.empty()) host = "https://app.infisical.com";
  while (host.ends_with('/')) host.pop_back();
  if (!host.ends_with("/api")) host += "/api";
  std::string missing;
  const auto credential = [&](const char* which) {
    const Value* reference = infisical->find({"auth", "universalAuthCredentials", which});
    if (reference == nullptr) {
      missing = fmt::format("{} is not set", which);
      return std::string();
    }
    std::string in = text_at(*reference, {"namespace"});
    if (in.empty()) in = space;
    const std::string name = text_at(*reference, {"name"});
    const kube::Object secret = find("/secrets", {in, name});
    if (!secret)
      missing = fmt::format(
          "cannot get Kubernetes secret \"{}\" from namespace \"{}\": "
          "secrets \"{}\" not found",
          name, in, name);
    return secret
               ? from_base64(text_at(*secret, {"data", text_at(*reference, {"key"})})).value_or("")
               : std::string();
  };
  const std::string id = credential("clientId"), key = credential("clientSecret");
  if (!missing.empty()) return then({}, "InvalidProviderConfig", missing);
  Value login = Value::map();
  login.set("clientId", str(id));
  login.set("clientSecret", str(key));
  const std::string slug = text_at(*infisical, {"secretsScope", "projectSlug"});
  const std::string environment = text_at(*infisical, {"secretsScope", "environmentSlug"});
  const auto alive = std::weak_ptr<const bool>(alive_);
  const auto failed = [](int status, const std::string& body) {
    std::string message = body;
    try {
      if (status != 0) message = text_at(kube::read_json(body).value, {"message"});
    } catch (const kube::BadJson&) {
    }
    return fmt::format("APIError: unsuccessful response [status-code={}] [message={}]", status,
                       message);
  };
  ask_inside(
      world_, "POST", host + "/v1/auth/universal-auth/login",
      {{"Content-Type", "application/json"}}, text::emit_json(login),
      [this, alive, host, slug, environment, folder, then, failed](int status, std::string body) {
        if (!alive.lock()) return;
        if (status != 200)
          return then({}, "InvalidProviderConfig",
                      "failed to authenticate via universal auth " + failed(status, body));
        const std::string token = text_at(kube::read_json(body).value, {"accessToken"});
        const net::Headers headers{{"Authorization", "Bearer " + token}};
        ask_inside(world_, "GET", fmt::format("{}/v1/projects/slug/{}", host, percent_encode(slug)),
                   headers, "",
                   [this, alive, host, environment, folder, then, failed, headers](
                       int code, std::string project) {
                     if (!alive.lock()) return;
                     if (code != 200) return then({}, "ValidationFailed", failed(code, project));
                     const Value found = kube::read_json(project).value;
                     std::string id_of = text_at(found, {"id"});
                     if (id_of.empty()) id_of = text_at(found, {"project", "id"});
                     ask_inside(
                         world_, "GET",
                         fmt::format("{}/v4/secrets?projectId={}&environment={}&secretPath={}",
                                     host, percent_encode(id_of), percent_encode(environment),
                                     percent_encode(folder)),
                         headers, "", [alive, then, failed](int answer, std::string list) {
                           if (!alive.lock()) return;
                           if (answer != 200)
                             return then({}, "ValidationFailed", failed(answer, list));
                           std::map<std::string, std::string> values;
                           const Value secrets = kube::read_json(list).value;
                           if (const Value* all = secrets.find("secrets"))
                             for (const Value& one : all->items())
                               values[text_at(one, {"secretKey"})] = text_at(one, {"secretValue"});
                           then(values, "", "");
                         });
                   });
      });
}

void Flux::visit_store(const std::string& resource, const Key& key) {
  const kube::Object store = find(resource, key);
  if (!store || store->find({"metadata", "deletionTimestamp"}) != nullptr) return;
  std::string folder =
      text_at(*store, {"spec", "provider", "infisical", "secretsScope", "secretsPath"});
  if (folder.empty()) folder = "/";
  list_secrets(*store, key.space, folder,
               [this, resource, key](const std::map<std::string, std::string>&,
                                     const std::string& reason, const std::string& message) {
                 const kube::Object before = find(resource, key);
                 if (!before) return;
                 set_status(resource, key, controller, [&](Value& live) {
                   if (reason.empty())
                     kube::set_condition(live, "Ready", "True", "Valid", "store validated",
                                         api_.server().timestamp());
                   else
                     kube::set_condition(live, "Ready", "False", reason,
                                         reason == "ValidationFailed"
                                             ? "unable to validate store: " + message
                                             : "unable to create client: " + message,
                                         api_.server().timestamp());
                   if (reason.empty()) set_at(live, {"status", "capabilities"}, str("ReadWrite"));
                 });
                 if (!reason.empty()) {
                   tell(*before, true, reason, message, controller);
                   later(resource, key, 20s);
                   return;
                 }
                 look_at_all(external, 200ms);
               });
}

void Flux::visit_external_secret(const Key& key) {
  const kube::Object object = find(external, key);
  if (!object || object->find({"metadata", "deletionTimestamp"}) != nullptr) return;
  const auto say = [this, key](bool good, const std::string& message) {
    const kube::Object before = find(external, key);
    if (!before) return;
    set_status(external, key, controller, [&](Value& live) {
      kube::set_condition(live, "Ready", good ? "True" : "False",
                          good ? "SecretSynced" : "SecretSyncedError",
                          good ? "secret synced" : message, api_.server().timestamp());
      if (good) set_at(live, {"status", "refreshTime"}, str(api_.server().timestamp()));
    });
    if (!good) tell(*before, true, "UpdateFailed", message, controller);
    later(external, key,
          good ? duration_at(*before, {"spec", "refreshInterval"}, 1h) : Duration{15s});
  };
  std::string kind = text_at(*object, {"spec", "secretStoreRef", "kind"});
  if (kind.empty()) kind = "SecretStore";
  const std::string name = text_at(*object, {"spec", "secretStoreRef", "name"});
  const bool whole = kind == "ClusterSecretStore";
  const kube::Object store = whole ? find("external-secrets.io/clustersecretstores", {"", name})
                                   : find("external-secrets.io/secretstores", {key.space, name});
  if (!store)
    return say(false, fmt::format("could not get secret data from provider: {}.external-secrets.io "
                                  "\"{}\" not found",
                                  to_lower(kind), name));
  if (kube::condition_status(*store, "Ready") != "True")
    return say(false, fmt::format("could not get secret data from provider: {} \"{}\" is not "
                                  "ready",
                                  kind, name));
  std::string folder =
      text_at(*store, {"spec", "provider", "infisical", "secretsScope", "secretsPath"});
  if (folder.empty()) folder = "/";
  // Each folder is listed once, one after the other.
  struct Fetch {
    std::vector<std::string> folders;
    std::map<std::string, std::map<std::string, std::string>> found;
  };
  const auto fetch = std::make_shared<Fetch>();
  const auto want = [&](const std::string& path) {
    if (std::find(fetch->folders.begin(), fetch->folders.end(), path) == fetch->folders.end())
      fetch->folders.push_back(path);
  };
  if (const Value* data = object->find({"spec", "data"}); data != nullptr && data->is_list())
    for (const Value& one : data->items())
      want(place_of(text_at(one, {"remoteRef", "key"}), folder).first);
  if (const Value* all = object->find({"spec", "dataFrom"}); all != nullptr && all->is_list())
    for (const Value& one : all->items())
      want(one.find("extract") != nullptr ? place_of(text_at(one, {"extract", "key"}), folder).first
                                          : folder);
  const auto finish = [this, key, folder, fetch, say] {
    const kube::Object wanted = find(external, key);
    if (!wanted) return;
    Value data = Value::map();
    if (const Value* list = wanted->find({"spec", "data"}); list != nullptr && list->is_list())
      for (const Value& one : list->items()) {
        const std::string remote = text_at(one, {"remoteRef", "key"});
        const auto [path, wanted_key] = place_of(remote, folder);
        const auto& there = fetch->found[path];
        const auto found = there.find(wanted_key);
        if (found == there.end())
          return say(false, fmt::format("could not get secret data from provider: error processing "
                                        "spec.data[0] (key: {}), err: Secret does not exist",
                                        remote));
        std::string value = found->second;
        if (const std::string property = text_at(one, {"remoteRef", "property"});
            !property.empty()) {
          try {
            value = text_at(kube::read_json(value).value, {property});
          } catch (const kube::BadJson&) {
            return say(false, fmt::format("could not get secret data from provider: key {} is not "
                                          "JSON",
                                          remote));
          }
        }
        data.set(text_at(one, {"secretKey"}), str(to_base64(value)));
      }
    if (const Value* all = wanted->find({"spec", "dataFrom"}); all != nullptr && all->is_list())
      for (const Value& one : all->items()) {
        if (one.find("find") != nullptr)
          for (const auto& [secret, value] : fetch->found[folder])
            data.set(secret, str(to_base64(value)));
        if (one.find("extract") == nullptr) continue;
        const auto [path, wanted_key] = place_of(text_at(one, {"extract", "key"}), folder);
        try {
          const Value parts = kube::read_json(fetch->found[path][wanted_key]).value;
          for (const text::Entry& entry : parts.entries())
            data.set(entry.key, str(to_base64(entry.value.text())));
        } catch (const kube::BadJson&) {
          return say(false, "could not get secret data from provider: unable to unmarshal secret");
        }
      }
    Value secret = kube::json(R"({"apiVersion":"v1","kind":"Secret"})");
    std::string target = text_at(*wanted, {"spec", "target", "name"});
    if (target.empty()) target = key.name;
    set_at(secret, {"metadata", "name"}, str(target));
    set_at(secret, {"metadata", "namespace"}, str(key.space));
    set_at(secret, {"metadata", "labels", "reconcile.external-secrets.io/managed"}, str("true"));
    if (const Value* given = wanted->find({"spec", "target", "template", "metadata", "labels"}))
      for (const text::Entry& entry : given->entries())
        set_at(secret, {"metadata", "labels", entry.key}, entry.value);
    const std::string type = text_at(*wanted, {"spec", "target", "template", "type"});
    if (!type.empty()) secret.set("type", str(type));
    if (const std::string policy = text_at(*wanted, {"spec", "target", "creationPolicy"});
        policy.empty() || policy == "Owner") {
      Value owner =
          kube::json(R"({"apiVersion":"external-secrets.io/v1","kind":"ExternalSecret"})");
      owner.set("name", str(key.name));
      owner.set("uid", str(text_at(*wanted, {"metadata", "uid"})));
      owner.set("controller", Value::boolean(true));
      owner.set("blockOwnerDeletion", Value::boolean(true));
      set_at(secret, {"metadata", "ownerReferences"}, Value::list({owner}));
    }
    // A template's texts are taken as they stand, with `{{ .name }}` filled in.
    if (const Value* texts = wanted->find({"spec", "target", "template", "data"})) {
      Value made = Value::map();
      for (const text::Entry& entry : texts->entries()) {
        std::string text = entry.value.text();
        for (const text::Entry& value : data.entries())
          for (const char* form : {"{{{{ .{} }}}}", "{{{{.{}}}}}"})
            text = replace_all(text, fmt::format(fmt::runtime(form), value.key),
                               from_base64(value.value.text()).value_or(""));
        made.set(entry.key, str(to_base64(text)));
      }
      data = std::move(made);
    }
    secret.set("data", std::move(data));
    const kube::Api::Result made =
        api_.apply(secret, "externalsecrets.external-secrets.io/" + key.name);
    if (made.status >= 300) return say(false, text_at(made.body, {"message"}));
    say(true, "");
  };
  const auto next = std::make_shared<std::function<void(std::size_t)>>();
  const std::weak_ptr<std::function<void(std::size_t)>> again = next;
  *next = [this, store, key, fetch, say, finish, again](std::size_t at) {
    if (at == fetch->folders.size()) return finish();
    // Whoever is asked keeps the rest alive until it answers.
    const auto self = again.lock();
    list_secrets(*store, key.space, fetch->folders[at],
                 [fetch, say, at, self](const std::map<std::string, std::string>& values,
                                        const std::string& reason, const std::string& message) {
                   if (!reason.empty())
                     return say(false, "could not get secret data from provider: " + message);
                   fetch->found[fetch->folders[at]] = values;
                   if (self) (*self)(at + 1);
                 });
  };
  (*next)(0);
}

}  // namespace rocca::lab::flux
