// kustomize-controller: builds, applies, waits and prunes what Kustomizations name.
#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/flux/flux.hpp"
#include "lab/flux/sops.hpp"
#include "lab/kube/conditions.hpp"
#include "lab/kube/json.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::flux {

using namespace std::chrono_literals;
using kube::int_at;
using kube::map_at;
using kube::num;
using kube::set_at;
using kube::str;
using kube::text_at;
using text::Value;

/// One reconciliation on its way.
struct Flux::Built {
  std::string revision;
  std::int64_t generation = 0;
  Duration timeout{};
  Instant started{};
  std::vector<Value> objects;
  std::vector<std::string> said;  // what the apply changed
  bool quiet = false;             // nothing new: only drift is looked for, and nothing told
  Value inventory;
};

namespace {

constexpr const char* kustomizations = "kustomize.toolkit.fluxcd.io/kustomizations";
constexpr const char* controller = "kustomize-controller";
constexpr const char* manager = "gotk-kustomize-controller";

std::string subject_of(const Value& object) {
  const std::string space = text_at(object, {"metadata", "namespace"});
  return fmt::format("{}/{}{}", text_at(object, {"kind"}), space.empty() ? "" : space + "/",
                     text_at(object, {"metadata", "name"}));
}

std::string group_of(const std::string& api_version) {
  const std::size_t slash = api_version.find('/');
  return slash == std::string::npos ? "" : api_version.substr(0, slash);
}

std::string version_of(const std::string& api_version) {
  return api_version.substr(api_version.find('/') + 1);
}

Value inventory_of(const std::vector<Value>& objects) {
  Value entries = Value::list();
  for (const Value& object : objects) {
    const std::string api_version = text_at(object, {"apiVersion"});
    Value entry = Value::map();
    entry.set("id", str(fmt::format("{}_{}_{}_{}", text_at(object, {"metadata", "namespace"}),
                                    text_at(object, {"metadata", "name"}), group_of(api_version),
                                    text_at(object, {"kind"}))));
    entry.set("v", str(version_of(api_version)));
    entries.append(std::move(entry));
  }
  Value inventory = Value::map();
  inventory.set("entries", std::move(entries));
  return inventory;
}

void mark_handled(Value& object) {
  const std::string asked =
      text_at(object, {"metadata", "annotations", "reconcile.fluxcd.io/requestedAt"});
  if (!asked.empty()) set_at(object, {"status", "lastHandledReconcileAt"}, str(asked));
}

/// Flux owns `data` of a Secret, also where Git has `stringData`.
void fold_string_data(Value& secret) {
  const Value* found = secret.find("stringData");
  if (found == nullptr || !found->is_map()) return;
  const Value plain = *found;
  secret.erase("stringData");
  Value& data = map_at(secret, {"data"});
  for (const text::Entry& entry : plain.entries())
    data.set(entry.key, str(to_base64(entry.value.text())));
}

/// `${name}` and `${name:=default}` of every text; a variable that nobody set is an error.
std::optional<std::string> substitute(std::string& text,
                                      const std::map<std::string, std::string>& values) {
  std::string out;
  std::size_t at = 0;
  while (true) {
    const std::size_t open = text.find("${", at);
    const std::size_t close = open == std::string::npos ? open : text.find('}', open);
    if (close == std::string::npos) break;
    out += text.substr(at, open - at);
    const std::string inside = text.substr(open + 2, close - open - 2);
    const std::size_t colon = inside.find(":=");
    const std::size_t dash = inside.find(":-");
    const std::size_t mark = std::min(colon, dash);
    const std::string name = inside.substr(0, mark);
    const auto found = values.find(name);
    if (found != values.end() && !(found->second.empty() && mark != std::string::npos))
      out += found->second;
    else if (mark != std::string::npos)
      out += inside.substr(mark + 2);
    else
      return fmt::format("variable not set (strict mode): \"{}\"", name);
    at = close + 1;
  }
  text = out + text.substr(at);
  return std::nullopt;
}

}  // namespace

std::string Flux::health_of(const std::string& api_version, const std::string& kind,
                            const Key& key) const {
  const kube::Resource* resource = api_.server().kinds().find_kind(api_version, kind);
  const kube::Object found = resource == nullptr ? nullptr : find(resource->key(), key);
  if (!found) return "NotFound";
  const Value& object = *found;
  if (object.find({"metadata", "deletionTimestamp"}) != nullptr) return "Terminating";
  const Value* observed = object.find({"status", "observedGeneration"});
  if (observed != nullptr && observed->as_int() != int_at(object, {"metadata", "generation"}))
    return "InProgress";
  const auto condition = [&](const char* type) { return kube::condition_status(object, type); };
  const auto count = [&](const char* field) { return int_at(object, {"status", field}); };
  if (kind == "Deployment") {
    const Value* progress = kube::find_condition(object, "Progressing");
    if (progress != nullptr && text_at(*progress, {"reason"}) == "ProgressDeadlineExceeded")
      return "Failed";
    const std::int64_t wanted = int_at(object, {"spec", "replicas"}, 1);
    return observed != nullptr && count("updatedReplicas") >= wanted &&
                   count("availableReplicas") >= wanted
               ? "Current"
               : "InProgress";
  }
  if (kind == "StatefulSet")
    return observed != nullptr && count("readyReplicas") >= int_at(object, {"spec", "replicas"}, 1)
               ? "Current"
               : "InProgress";
  if (kind == "DaemonSet")
    return observed != nullptr && count("numberAvailable") >= count("desiredNumberScheduled")
               ? "Current"
               : "InProgress";
  if (kind == "Job") {
    if (condition("Failed") == "True") return "Failed";
    return condition("Complete") == "True" ? "Current" : "InProgress";
  }
  if (kind == "CustomResourceDefinition")
    return condition("Established") == "True" ? "Current" : "InProgress";
  if (condition("Stalled") == "True") return "Failed";
  // Flux's own kinds begin with `observedGeneration: -1`: nobody has looked at them yet.
  if (api_version.find(".toolkit.fluxcd.io/") != std::string::npos && condition("Ready").empty() &&
      text_at(object, {"spec", "type"}) != "oci")
    return "InProgress";
  if (const std::string ready = condition("Ready"); !ready.empty())
    return ready == "True" ? "Current" : "InProgress";
  if (condition("Reconciling") == "True") return "InProgress";
  return "Current";
}

void Flux::progress(const Key& key, const Built& built, const std::string& message) {
  if (built.quiet) return;
  const std::string text = fmt::format("{} for revision {} with a timeout of {}", message,
                                       built.revision, go_duration(built.timeout));
  set_status(kustomizations, key, manager, [&](Value& object) {
    std::vector<Condition> all{{"Reconciling", "True", "Progressing", text},
                               {"Ready", "Unknown", "Progressing", "Reconciliation in progress"}};
    if (message == "Running health checks")
      all.push_back({"Healthy", "Unknown", "Progressing", text});
    set_conditions(object, all);
    if (message != "Fetching manifests")
      set_at(object, {"status", "lastAttemptedRevision"}, str(built.revision));
  });
}

void Flux::fail_kustomization(const Key& key, const std::shared_ptr<Built>& built,
                              const std::string& reason, const std::string& message,
                              const std::string& health) {
  const kube::Object object = find(kustomizations, key);
  if (!object) return;
  set_status(kustomizations, key, manager, [&](Value& live) {
    const Value* old = kube::find_condition(live, "Reconciling");
    std::vector<Condition> all{{"Reconciling", "True", "ProgressingWithRetry",
                                old == nullptr ? "" : text_at(*old, {"message"})},
                               {"Ready", "False", reason, message}};
    if (!health.empty()) all.push_back({"Healthy", "False", "HealthCheckFailed", health});
    set_conditions(live, all);
    if (!health.empty()) map_at(live, {"status"}).set("inventory", built->inventory);
    if (reason == "HealthCheckFailed" || reason == "ReconciliationFailed")
      set_at(live, {"status", "history"},
             kube::json(
                 fmt::format(R"([{{"lastReconciledStatus":"{}","metadata":{{"revision":"{}"}}}}])",
                             reason, built->revision)));
    mark_handled(live);
  });
  tell(*object, true, reason, message, controller, built->revision);
  later(kustomizations, key,
        duration_at(*object, {"spec", "retryInterval"},
                    duration_at(*object, {"spec", "interval"}, 10min)));
}

void Flux::visit_kustomization(const Key& key) {
  const auto collect = [this, key] {
    const kube::Object object = find(kustomizations, key);
    const Value* inventory = object->find({"status", "inventory"});
    if (inventory == nullptr || !kube::bool_at(*object, {"spec", "prune"}) ||
        kube::bool_at(*object, {"spec", "suspend"}))
      return;
    std::vector<std::string> said;
    prune(*inventory, nullptr, said);
    if (!said.empty())
      tell(*object, false, "ReconciliationSucceeded", join(said, "\n"), controller);
  };
  if (!keep_finalizer(kustomizations, key, manager, collect)) return;
  const kube::Object object = find(kustomizations, key);
  if (!object) return;
  const Value& wanted = *object;
  const std::int64_t generation = int_at(wanted, {"metadata", "generation"});
  if (kube::bool_at(wanted, {"spec", "suspend"})) {
    // It says it has seen the object although nothing is done.
    if (wanted.find({"status", "conditions"}) != nullptr)
      set_status(kustomizations, key, manager, [&](Value& live) {
        set_at(live, {"status", "observedGeneration"}, num(generation));
        mark_handled(live);
      });
    return;
  }
  auto built = std::make_shared<Built>();
  built->generation = generation;
  built->started = world_.now();
  built->timeout = std::max<Duration>(
      duration_at(wanted, {"spec", "timeout"}, duration_at(wanted, {"spec", "interval"}, 10min)),
      30s);
  const auto not_yet = [&](const std::string& reason, const std::string& message) {
    set_status(kustomizations, key, manager, [&](Value& live) {
      std::vector<Condition> all{{"Ready", "False", reason, message}};
      if (const Value* healthy = kube::find_condition(live, "Healthy"))
        all.push_back({"Healthy", text_at(*healthy, {"status"}), text_at(*healthy, {"reason"}),
                       text_at(*healthy, {"message"})});
      set_conditions(live, all);
      mark_handled(live);
    });
    later(kustomizations, key, options_.dependency);
  };
  const std::string kind = text_at(wanted, {"spec", "sourceRef", "kind"});
  Key source_key{text_at(wanted, {"spec", "sourceRef", "namespace"}),
                 text_at(wanted, {"spec", "sourceRef", "name"})};
  if (source_key.space.empty()) source_key.space = key.space;
  const kube::Object source = find("source.toolkit.fluxcd.io/gitrepositories", source_key);
  if (!source)
    return not_yet("ArtifactFailed", fmt::format("{}.source.toolkit.fluxcd.io \"{}\" not found",
                                                 kind, source_key.name));
  const auto artifact = artifacts_.find(source_key);
  if (source->find({"status", "artifact"}) == nullptr || artifact == artifacts_.end())
    return not_yet("ArtifactFailed", fmt::format("Source artifact not found, retrying in {}",
                                                 go_duration(options_.dependency)));
  if (const Value* needed = wanted.find({"spec", "dependsOn"}))
    for (const Value& one : needed->items()) {
      Key other{text_at(one, {"namespace"}), text_at(one, {"name"})};
      if (other.space.empty()) other.space = key.space;
      const kube::Object there = find(kustomizations, other);
      std::string why;
      if (!there)
        why = fmt::format(
            "dependency '{}/{}' not found: "
            "kustomizations.kustomize.toolkit.fluxcd.io \"{}\" not found",
            other.space, other.name, other.name);
      else if (kube::condition_status(*there, "Ready") != "True" ||
               int_at(*there, {"status", "observedGeneration"}, -1) !=
                   int_at(*there, {"metadata", "generation"}))
        why = fmt::format("dependency '{}/{}' is not ready", other.space, other.name);
      if (why.empty()) continue;
      tell(wanted, false, "DependencyNotReady",
           fmt::format("Dependencies do not meet ready condition, retrying in {}",
                       go_duration(options_.dependency)),
           controller);
      return not_yet("DependencyNotReady", why);
    }
  built->revision = text_at(*source, {"status", "artifact", "revision"});
  built->quiet = text_at(wanted, {"status", "lastAppliedRevision"}) == built->revision &&
                 int_at(wanted, {"status", "observedGeneration"}, -1) == generation &&
                 kube::condition_status(wanted, "Ready") == "True" &&
                 text_at(wanted, {"metadata", "annotations", "reconcile.fluxcd.io/requestedAt"}) ==
                     text_at(wanted, {"status", "lastHandledReconcileAt"});
  progress(key, *built, "Fetching manifests");
  std::string path = text_at(wanted, {"spec", "path"});
  while (path.starts_with("./")) path.erase(0, 2);
  while (path.ends_with("/")) path.pop_back();
  if (path == ".") path.clear();
  const GitTree& tree = artifact->second;
  const auto below = tree.files.lower_bound(path + "/");
  if (!path.empty() && (below == tree.files.end() || !below->first.starts_with(path + "/")))
    return fail_kustomization(
        key, built, "ArtifactFailed",
        fmt::format("kustomization path not found: stat /tmp/kustomization-1/{}: no such file or "
                    "directory",
                    path));
  progress(key, *built, "Building manifests");
  if (const auto why = build(wanted, tree, built->objects))
    return fail_kustomization(key, built, "BuildFailed", *why);
  progress(key, *built, "Detecting drift");
  std::stable_sort(built->objects.begin(), built->objects.end(), [](const auto& a, const auto& b) {
    return apply_rank(text_at(a, {"kind"})) < apply_rank(text_at(b, {"kind"}));
  });
  apply_first(key, built);
}

std::optional<std::string> Flux::build(const Value& wanted, const GitTree& tree,
                                       std::vector<Value>& objects) const {
  const Key key{text_at(wanted, {"metadata", "namespace"}), text_at(wanted, {"metadata", "name"})};
  BuildResult made = kustomize_build(tree.files, text_at(wanted, {"spec", "path"}));
  if (!made.error.empty()) return made.error;
  const auto missing = [](const char* what, const std::string& name) {
    return fmt::format("{} \"{}\" not found", what, name);
  };
  std::vector<std::string> identities;
  const bool decrypts = text_at(wanted, {"spec", "decryption", "provider"}) == "sops";
  if (const std::string name = text_at(wanted, {"spec", "decryption", "secretRef", "name"});
      decrypts && !name.empty()) {
    const kube::Object secret = find("/secrets", {key.space, name});
    if (!secret) return missing("secrets", name);
    if (const Value* data = secret->find("data"); data != nullptr && data->is_map())
      for (const text::Entry& entry : data->entries())
        if (entry.key.ends_with(".agekey"))
          identities.push_back(from_base64(entry.value.text()).value_or(""));
  }
  std::map<std::string, std::string> values;
  std::string values_missing;
  const Value* post = wanted.find({"spec", "postBuild"});
  if (post != nullptr) {
    if (const Value* from = post->find("substituteFrom"))
      for (const Value& one : from->items()) {
        const bool secret = text_at(one, {"kind"}) == "Secret";
        const std::string name = text_at(one, {"name"});
        const kube::Object found = find(secret ? "/secrets" : "/configmaps", {key.space, name});
        if (!found) {
          if (!kube::bool_at(one, {"optional"}))
            values_missing =
                fmt::format("substitute from '{}/{}' error: {}", text_at(one, {"kind"}), name,
                            missing(secret ? "secrets" : "configmaps", name));
          continue;
        }
        if (const Value* data = found->find("data"); data != nullptr && data->is_map())
          for (const text::Entry& entry : data->entries())
            values[entry.key] =
                secret ? from_base64(entry.value.text()).value_or("") : entry.value.text();
      }
    if (const Value* given = post->find("substitute"))
      for (const text::Entry& entry : given->entries()) values[entry.key] = entry.value.text();
  }
  for (Value& object : made.objects) {
    const std::string api_version = text_at(object, {"apiVersion"});
    const std::string group = group_of(api_version);
    const std::string id =
        fmt::format("{}.{}.{}/{}", text_at(object, {"kind"}), version_of(api_version),
                    group.empty() ? "[noGrp]" : group, text_at(object, {"metadata", "name"}));
    // What nobody decrypts is applied as it stands, and nobody is warned.
    if (!decrypts) object.erase("sops");
    if (decrypts && object.find("sops") != nullptr)
      if (const auto why = decrypt_object(object, identities))
        return fmt::format(
            "decryption failed for '{}': failed to decrypt and format '{}/{}' {} data: {}", id,
            text_at(object, {"metadata", "namespace"}), text_at(object, {"metadata", "name"}),
            text_at(object, {"kind"}), *why);
    if (post != nullptr) {
      if (!values_missing.empty())
        return fmt::format("post build failed for '{}': {}", id, values_missing);
      std::string text = text::emit_json(object);
      if (const auto why = substitute(text, values))
        return fmt::format(
            "post build failed for '{}': envsubst error: variable substitution failed: {}", id,
            *why);
      object = kube::read_json(text).value;
    }
    if (text_at(object, {"kind"}) == "Secret" && api_version == "v1") fold_string_data(object);
    const kube::Resource* kind =
        api_.server().kinds().find_kind(api_version, text_at(object, {"kind"}));
    const std::string target = text_at(wanted, {"spec", "targetNamespace"});
    if (!target.empty() && (kind == nullptr || kind->namespaced))
      set_at(object, {"metadata", "namespace"}, str(target));
    set_at(object, {"metadata", "labels", "kustomize.toolkit.fluxcd.io/name"}, str(key.name));
    set_at(object, {"metadata", "labels", "kustomize.toolkit.fluxcd.io/namespace"}, str(key.space));
  }
  objects = std::move(made.objects);
  return std::nullopt;
}

std::optional<std::string> Flux::apply_one(const Value& wanted, const Value& object, bool force,
                                           std::vector<std::string>& said) const {
  const std::string subject = subject_of(object);
  const std::string api_version = text_at(object, {"apiVersion"});
  const kube::Resource* kind =
      api_.server().kinds().find_kind(api_version, text_at(object, {"kind"}));
  const Key key{text_at(object, {"metadata", "namespace"}), text_at(object, {"metadata", "name"})};
  if (kind == nullptr)
    return fmt::format("{} dry-run failed: no matches for kind \"{}\" in version \"{}\"\n", subject,
                       text_at(object, {"kind"}), api_version);
  if (kind->namespaced && key.space.empty())
    return fmt::format(
        "{} namespace not specified: the server could not find the requested "
        "resource\n",
        subject);
  const kube::Object before = find(kind->key(), key);
  if (before) {
    const auto mark = [&](const char* which) {
      const std::string name = fmt::format("kustomize.toolkit.fluxcd.io/{}", which);
      const std::string label = text_at(*before, {"metadata", "labels", name});
      return label.empty() ? text_at(*before, {"metadata", "annotations", name}) : label;
    };
    if (mark("reconcile") == "disabled" || mark("ssa") == "Ignore" || mark("ssa") == "IfNotPresent")
      return std::nullopt;
  }
  std::string who = text_at(wanted, {"spec", "serviceAccountName"});
  if (!who.empty())
    who =
        fmt::format("system:serviceaccount:{}:{}", text_at(wanted, {"metadata", "namespace"}), who);
  kube::Api::Result tried = api_.apply(object, controller, true, who);
  if (tried.status >= 300) {
    const std::string reason = text_at(tried.body, {"reason"});
    const std::string message = text_at(tried.body, {"message"});
    const bool immutable = message.find("field is immutable") != std::string::npos;
    if (immutable && force && before) {
      api_.send({"system:" + std::string(controller), {"system:masters"}}, "DELETE",
                fmt::format("/{}/{}{}/{}", kind->group.empty() ? "api/v1" : "apis/" + api_version,
                            kind->namespaced ? fmt::format("namespaces/{}/", key.space) : "",
                            kind->plural, key.name));
    } else if (reason == "NotFound") {
      return fmt::format("{} not found: {}\n", subject, message);
    } else {
      return fmt::format("{} dry-run failed{}: {}\n", subject,
                         reason.empty() ? "" : " (" + reason + ")", message);
    }
  }
  const std::string revision =
      before ? text_at(*before, {"metadata", "resourceVersion"}) : std::string();
  const kube::Api::Result made = api_.apply(object, controller, false, who);
  if (made.status >= 300)
    return fmt::format("{} apply failed: {}\n", subject, text_at(made.body, {"message"}));
  if (made.status == 201)
    said.push_back(subject + " created");
  else if (text_at(made.body, {"metadata", "resourceVersion"}) != revision)
    said.push_back(subject + " configured");
  return std::nullopt;
}

void Flux::apply_first(const Key& key, std::shared_ptr<Built> built) {
  const kube::Object wanted = find(kustomizations, key);
  if (!wanted) return;
  // Definitions, namespaces and roles first, and then a moment until they are served.
  bool any = false;
  for (const Value& object : built->objects) {
    if (apply_rank(text_at(object, {"kind"})) > 2) break;
    any = true;
    if (const auto why =
            apply_one(*wanted, object, kube::bool_at(*wanted, {"spec", "force"}), built->said))
      return fail_kustomization(key, built, "ReconciliationFailed", *why);
  }
  after(any ? Duration{2s} : Duration{100ms}, [this, key, built] { apply_rest(key, built); });
}

void Flux::apply_rest(const Key& key, const std::shared_ptr<Built>& built) {
  const kube::Object wanted = find(kustomizations, key);
  // What changed meanwhile has a visit of its own.
  if (!wanted || int_at(*wanted, {"metadata", "generation"}) != built->generation) return;
  std::vector<Value> rest;
  for (const Value& object : built->objects)
    if (apply_rank(text_at(object, {"kind"})) > 2) rest.push_back(object);
  for (const Value& object : rest)
    if (const auto why =
            apply_one(*wanted, object, kube::bool_at(*wanted, {"spec", "force"}), built->said))
      return fail_kustomization(key, built, "ReconciliationFailed", *why);
  if (!built->said.empty())
    tell(*wanted, false, "Progressing", join(built->said, "\n"), controller, built->revision);
  built->inventory = inventory_of(built->objects);
  const Value* checks = wanted->find({"spec", "healthChecks"});
  if (kube::bool_at(*wanted, {"spec", "wait"}) || (checks != nullptr && checks->size() != 0)) {
    progress(key, *built, "Running health checks");
    if (!built->quiet) return check_health(key, built);
  }
  finish(key, built);
}

void Flux::check_health(const Key& key, const std::shared_ptr<Built>& built) {
  const kube::Object wanted = find(kustomizations, key);
  if (!wanted || int_at(*wanted, {"metadata", "generation"}) != built->generation) return;
  std::vector<std::string> waiting, failed;
  const auto look = [&](const Value& reference, const Key& at) {
    const std::string kind = text_at(reference, {"kind"});
    const std::string status = health_of(text_at(reference, {"apiVersion"}), kind, at);
    if (status == "Current") return;
    (status == "Failed" ? failed : waiting)
        .push_back(fmt::format("{}/{}{} status: '{}'", kind, at.space.empty() ? "" : at.space + "/",
                               at.name, status));
  };
  if (kube::bool_at(*wanted, {"spec", "wait"})) {
    for (const Value& object : built->objects)
      look(object,
           {text_at(object, {"metadata", "namespace"}), text_at(object, {"metadata", "name"})});
  } else {
    for (const Value& check : wanted->find({"spec", "healthChecks"})->items())
      look(check, {text_at(check, {"namespace"}), text_at(check, {"name"})});
  }
  const Duration spent = world_.now() - built->started;
  if (!failed.empty()) {
    const std::string why =
        fmt::format("failed early due to stalled resources: [{}]", join(failed, ", "));
    return fail_kustomization(
        key, built, "HealthCheckFailed",
        fmt::format("health check failed after {}: {}", go_duration(spent), why), why);
  }
  if (waiting.empty()) {
    set_status(kustomizations, key, manager, [&](Value& live) {
      map_at(live, {"status"}).set("inventory", built->inventory);
      set_conditions(
          live, {{"Ready", "Unknown", "Progressing", "Reconciliation in progress"},
                 {"Healthy", "True", "Succeeded", "Health check passed in " + go_duration(spent)}});
    });
    tell(*wanted, false, "Progressing", "Health check passed in " + go_duration(spent), controller,
         built->revision);
    return finish(key, built);
  }
  if (spent >= built->timeout) {
    const std::string why = fmt::format("timeout waiting for: [{}]", join(waiting, ", "));
    return fail_kustomization(
        key, built, "HealthCheckFailed",
        fmt::format("health check failed after {}: {}", go_duration(spent), why), why);
  }
  after(2s, [this, key, built] { check_health(key, built); });
}

void Flux::prune(const Value& inventory, const Value* kept, std::vector<std::string>& said) const {
  const Value* entries = inventory.find("entries");
  if (entries == nullptr || !entries->is_list()) return;
  const auto stays = [&](const std::string& id) {
    const Value* list = kept == nullptr ? nullptr : kept->find("entries");
    return list != nullptr &&
           std::any_of(list->items().begin(), list->items().end(),
                       [&](const Value& one) { return text_at(one, {"id"}) == id; });
  };
  for (auto one = entries->items().rbegin(); one != entries->items().rend(); ++one) {
    const std::string id = text_at(*one, {"id"});
    if (stays(id)) continue;
    const std::vector<std::string> parts = split(id, '_');
    if (parts.size() != 4) continue;
    const std::string version = text_at(*one, {"v"});
    const std::string api_version = parts[2].empty() ? version : parts[2] + "/" + version;
    const kube::Resource* kind = api_.server().kinds().find_kind(api_version, parts[3]);
    const Key key{parts[0], parts[1]};
    const kube::Object there = kind == nullptr ? nullptr : find(kind->key(), key);
    if (!there) continue;
    const std::string mark = "kustomize.toolkit.fluxcd.io/prune";
    if (text_at(*there, {"metadata", "labels", mark}) == "disabled" ||
        text_at(*there, {"metadata", "annotations", mark}) == "disabled")
      continue;
    api_.send({"system:" + std::string(controller), {"system:masters"}}, "DELETE",
              fmt::format("/{}/{}{}/{}", kind->group.empty() ? "api/v1" : "apis/" + api_version,
                          kind->namespaced ? fmt::format("namespaces/{}/", key.space) : "",
                          kind->plural, key.name));
    said.push_back(fmt::format("{}/{}{} deleted", parts[3],
                               key.space.empty() ? "" : key.space + "/", key.name));
  }
}

void Flux::finish(const Key& key, const std::shared_ptr<Built>& built) {
  const kube::Object wanted = find(kustomizations, key);
  if (!wanted) return;
  if (const Value* old = wanted->find({"status", "inventory"});
      old != nullptr && kube::bool_at(*wanted, {"spec", "prune"})) {
    std::vector<std::string> said;
    prune(*old, &built->inventory, said);
    if (!said.empty())
      tell(*wanted, false, "Progressing", join(said, "\n"), controller, built->revision);
  }
  const Duration interval = duration_at(*wanted, {"spec", "interval"}, 10min);
  later(kustomizations, key, interval);
  if (built->quiet) return;
  const auto good = [&](Value& live) {
    std::vector<Condition> all{
        {"Ready", "True", "ReconciliationSucceeded", "Applied revision: " + built->revision}};
    const Value* checks = live.find({"spec", "healthChecks"});
    const bool checked =
        kube::bool_at(live, {"spec", "wait"}) || (checks != nullptr && checks->size() != 0);
    if (const Value* healthy = kube::find_condition(live, "Healthy"); healthy != nullptr && checked)
      all.push_back({"Healthy", "True", "Succeeded", text_at(*healthy, {"message"})});
    set_conditions(live, all);
    map_at(live, {"status"}).set("inventory", built->inventory);
  };
  set_status(kustomizations, key, manager, good);
  set_status(kustomizations, key, manager, [&](Value& live) {
    good(live);
    Value& status = map_at(live, {"status"});
    Value entry = Value::map();
    const std::string now = api_.server().timestamp();
    entry.set("digest", str("sha256:" + to_hex(built->revision.substr(0, 32))));
    entry.set("firstReconciled", str(now));
    entry.set("lastReconciled", str(now));
    entry.set("lastReconciledDuration", str(go_duration(world_.now() - built->started)));
    entry.set("lastReconciledStatus", str("ReconciliationSucceeded"));
    set_at(entry, {"metadata", "revision"}, str(built->revision));
    entry.set("totalReconciliations", num(1));
    status.set("history", Value::list({entry}));
    status.set("lastAppliedRevision", str(built->revision));
    status.set("lastAttemptedRevision", str(built->revision));
    status.set("observedGeneration", num(built->generation));
    mark_handled(live);
  });
  tell(*wanted, false, "ReconciliationSucceeded",
       fmt::format("Reconciliation finished in {}, next run in {}",
                   go_duration(world_.now() - built->started), go_duration(interval)),
       controller, built->revision);
}

}  // namespace rocca::lab::flux
