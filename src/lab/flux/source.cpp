// source-controller: fetches what GitRepositories name.
#include "base/encoding.hpp"
#include "lab/flux/flux.hpp"
#include "lab/kube/json.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

namespace rocca::lab::flux {

using namespace std::chrono_literals;
using kube::int_at;
using kube::map_at;
using kube::num;
using kube::set_at;
using kube::str;
using kube::text_at;
using text::Value;

namespace {

constexpr const char* repositories = "source.toolkit.fluxcd.io/gitrepositories";
constexpr const char* helm_repositories = "source.toolkit.fluxcd.io/helmrepositories";
constexpr const char* controller = "source-controller";

std::string digest_of(const std::map<std::string, std::string>& files) {
  std::string all;
  for (const auto& [name, text] : files) all += name + "\n" + text + "\n";
  std::array<unsigned char, 32> digest{};
  unsigned size = 0;
  EVP_Digest(all.data(), all.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return to_hex(std::string(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

std::string secret_value(const Value& secret, std::string_view key) {
  return from_base64(text_at(secret, {"data", key})).value_or("");
}

void mark_handled(Value& object) {
  const std::string asked =
      text_at(object, {"metadata", "annotations", "reconcile.fluxcd.io/requestedAt"});
  if (!asked.empty()) set_at(object, {"status", "lastHandledReconcileAt"}, str(asked));
}

}  // namespace

std::optional<std::string> Flux::read_credentials(const Value& source, GitAsk& ask) const {
  const std::string name = text_at(source, {"spec", "secretRef", "name"});
  if (name.empty()) return std::nullopt;
  const std::string space = text_at(source, {"metadata", "namespace"});
  const kube::Object secret = find("/secrets", {space, name});
  if (!secret)
    return fmt::format("failed to get secret '{}/{}': secrets \"{}\" not found", space, name, name);
  if (ask.url.starts_with("ssh://") || ask.url.starts_with("git@")) {
    const std::string wrong =
        "failed to configure authentication options: invalid 'ssh' auth "
        "option: ";
    if (secret_value(*secret, "identity").empty()) return wrong + "'identity' is required";
    if (secret_value(*secret, "known_hosts").empty()) return wrong + "'known_hosts' is required";
    // The user is the URL's; the key is what the server knows.
    const std::size_t at = ask.url.find('@');
    ask.username = at == std::string::npos ? "git" : ask.url.substr(6, at - 6);
    ask.password = secret_value(*secret, "identity");
    return std::nullopt;
  }
  const bool app = !secret_value(*secret, "githubAppID").empty();
  if (text_at(source, {"spec", "provider"}) == "github") {
    for (const char* key : {"githubAppID", "githubAppPrivateKey"})
      if (secret_value(*secret, key).empty())
        return fmt::format("failed to configure authentication options: key '{}' not found", key);
    std::string where = secret_value(*secret, "githubAppInstallationID");
    if (where.empty()) where = secret_value(*secret, "githubAppInstallationOwner");
    if (where.empty())
      return "failed to configure authentication options: app installation owner or ID must be "
             "provided";
    // GitHub gives a token for an hour to who signs as this App; here the three are the token.
    ask.username = "x-access-token";
    ask.password = fmt::format("{}/{}/{}", secret_value(*secret, "githubAppID"), where,
                               secret_value(*secret, "githubAppPrivateKey"));
    return std::nullopt;
  }
  if (app)
    return fmt::format("secretRef '{}/{}' has github app data but provider is not set to github",
                       space, name);
  ask.username = secret_value(*secret, "username");
  ask.password = secret_value(*secret, "password");
  if (const std::string token = secret_value(*secret, "bearerToken"); !token.empty())
    ask.password = token;
  return std::nullopt;
}

void Flux::fail_git(const Key& key, const std::string& reason, const std::string& message) {
  const kube::Object before = find(repositories, key);
  const bool first = before && before->find({"status", "artifact"}) == nullptr;
  set_status(repositories, key, controller, [&](Value& object) {
    std::vector<Condition> all{{"Reconciling", "True", "ProgressingWithRetry",
                                first ? "building artifact" : "reconciliation in progress"},
                               {"Ready", "False", reason, message}};
    if (const Value* stored = object.find({"status", "artifact"}))
      all.push_back(
          {"ArtifactInStorage", "True", "Succeeded",
           fmt::format("stored artifact for revision '{}'", text_at(*stored, {"revision"}))});
    all.push_back({"FetchFailed", "True", reason, message});
    set_conditions(object, all);
    mark_handled(object);
  });
  if (before) tell(*before, true, reason, message, controller);
  // Again after 4, 8, 16 … seconds.
  unsigned& count = failures_[key];
  later(repositories, key, std::chrono::seconds{std::min(4u << std::min(count, 7u), 300u)});
  ++count;
}

void Flux::visit_git(const Key& key) {
  const auto collected = [this, key] {
    artifacts_.erase(key);
    tell(*find(repositories, key), false, "GarbageCollectionSucceeded",
         "garbage collected artifacts for deleted resource", controller);
  };
  if (!keep_finalizer(repositories, key, controller, collected)) return;
  const kube::Object source = find(repositories, key);
  if (!source || kube::bool_at(*source, {"spec", "suspend"})) return;
  const std::int64_t generation = int_at(*source, {"metadata", "generation"});
  const std::int64_t observed = int_at(*source, {"status", "observedGeneration"}, -1);
  if (observed != generation) {
    const std::string news =
        fmt::format("processing object: new generation {} -> {}", observed, generation);
    set_status(repositories, key, controller, [&](Value& object) {
      set_conditions(object, {{"Reconciling", "True", "Progressing", news},
                              {"Ready", "Unknown", "Progressing", news}});
    });
    set_status(repositories, key, controller, [&](Value& object) {
      set_conditions(object, {{"Reconciling", "True", "Progressing", "building artifact"},
                              {"Ready", "Unknown", "Progressing", "building artifact"}});
    });
  }
  GitAsk ask;
  ask.url = text_at(*source, {"spec", "url"});
  ask.branch = text_at(*source, {"spec", "ref", "branch"});
  ask.tag = text_at(*source, {"spec", "ref", "tag"});
  ask.semver = text_at(*source, {"spec", "ref", "semver"});
  ask.name = text_at(*source, {"spec", "ref", "name"});
  ask.commit = text_at(*source, {"spec", "ref", "commit"});
  ask.timeout = duration_at(*source, {"spec", "timeout"}, 60s);
  if (const auto why = read_credentials(*source, ask))
    return fail_git(key, "AuthenticationFailed", *why);
  GitAnswer answer;
  if (options_.git != nullptr)
    answer = options_.git->clone(ask);
  else
    answer.error = fmt::format("unable to clone '{}': repository not found: no server", ask.url);
  if (!answer.tree) {
    const bool empty = answer.error.find("remote repository is empty") != std::string::npos;
    return fail_git(key, empty ? "EmptyGitRepository" : "GitOperationFailed",
                    "failed to checkout and determine revision: " + answer.error);
  }
  if (const Value* sparse = source->find({"spec", "sparseCheckout"}); sparse != nullptr)
    for (const Value& folder : sparse->items()) {
      const auto below = answer.tree->files.lower_bound(folder.text() + "/");
      if (below == answer.tree->files.end() || !below->first.starts_with(folder.text() + "/"))
        return fail_git(
            key, "GitOperationFailed",
            fmt::format("failed to sparse checkout directories : sparse checkout dir '{0}' does "
                        "not exist in repository: lstat /tmp/gitrepository-{1}-{2}-1/{0}: no such "
                        "file or directory",
                        folder.text(), key.space, key.name));
    }
  failures_.erase(key);
  const GitTree tree = *answer.tree;
  artifacts_[key] = tree;
  const bool fresh = text_at(*source, {"status", "artifact", "revision"}) != tree.revision;
  const std::string stored = fmt::format("stored artifact for revision '{}'", tree.revision);
  const auto good = [&](Value& object) {
    set_conditions(object, {{"Ready", "True", "Succeeded", stored},
                            {"ArtifactInStorage", "True", "Succeeded", stored}});
  };
  // Ready comes one patch before the rest: who waits for it alone is too early.
  set_status(repositories, key, controller, good);
  set_status(repositories, key, controller, [&](Value& object) {
    good(object);
    Value& status = map_at(object, {"status"});
    if (fresh) {
      const std::string path =
          fmt::format("gitrepository/{}/{}/{}.tar.gz", key.space, key.name, tree.commit);
      Value artifact = Value::map();
      artifact.set("digest", str("sha256:" + digest_of(tree.files)));
      artifact.set("lastUpdateTime", str(api_.server().timestamp()));
      artifact.set("path", str(path));
      artifact.set("revision", str(tree.revision));
      std::size_t size = 512;
      for (const auto& [name, text] : tree.files) size += text.size() / 3 + 100;
      artifact.set("size", num(static_cast<std::int64_t>(size)));
      artifact.set("url", str("http://source-controller.flux-system.svc.cluster.local./" + path));
      status.set("artifact", std::move(artifact));
    }
    status.set("observedGeneration", num(generation));
    mark_handled(object);
  });
  if (fresh)
    tell(*source, false, "NewArtifact",
         fmt::format("stored artifact for commit '{}'", tree.subject), controller, tree.revision);
  if (options_.git == nullptr || !options_.git->tells())
    later(repositories, key, duration_at(*source, {"spec", "interval"}, 60s));
}

/// The index of a chart repository is not looked at: the charts that the lab knows are everywhere.
void Flux::visit_helm_repository(const Key& key) {
  if (!keep_finalizer(helm_repositories, key, controller, {})) return;
  const kube::Object source = find(helm_repositories, key);
  if (!source || kube::bool_at(*source, {"spec", "suspend"})) return;
  if (text_at(*source, {"spec", "type"}) == "oci") return;  // nothing is ever said of these
  set_status(helm_repositories, key, controller, [&](Value& object) {
    const std::string revision = "sha256:" + digest_of({{"url", text_at(object, {"spec", "url"})}});
    const std::string stored = fmt::format("stored artifact: revision '{}'", revision);
    set_conditions(object, {{"Ready", "True", "Succeeded", stored},
                            {"ArtifactInStorage", "True", "Succeeded", stored}});
    set_at(object, {"status", "artifact", "revision"}, str(revision));
    set_at(object, {"status", "artifact", "digest"}, str(revision));
    set_at(object, {"status", "observedGeneration"},
           num(int_at(object, {"metadata", "generation"})));
    mark_handled(object);
  });
}

}  // namespace rocca::lab::flux
