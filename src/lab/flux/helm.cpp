// helm-controller, as far as the charts that the lab knows go.
#include "lab/flux/charts.hpp"
#include "lab/flux/flux.hpp"
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

namespace {

constexpr const char* releases = "helm.toolkit.fluxcd.io/helmreleases";
constexpr const char* controller = "helm-controller";

void mark_handled(Value& object) {
  const std::string asked =
      text_at(object, {"metadata", "annotations", "reconcile.fluxcd.io/requestedAt"});
  if (!asked.empty()) set_at(object, {"status", "lastHandledReconcileAt"}, str(asked));
}

struct Release {
  std::string name, space, chart, version;
  explicit Release(const Value& object)
      : name(text_at(object, {"spec", "releaseName"})),
        space(text_at(object, {"spec", "targetNamespace"})),
        chart(text_at(object, {"spec", "chart", "spec", "chart"})),
        version(text_at(object, {"spec", "chart", "spec", "version"})) {
    if (space.empty()) space = text_at(object, {"metadata", "namespace"});
    if (name.empty()) {
      name = text_at(object, {"metadata", "name"});
      const std::string target = text_at(object, {"spec", "targetNamespace"});
      if (!target.empty()) name = fmt::format("{}-{}", target, name);
    }
    if (version.empty() || version == "*") version = "1.0.0";
  }
  std::string text() const { return fmt::format("{}/{}.v1", space, name); }
};

}  // namespace

void Flux::visit_release(const Key& key) {
  const auto uninstall = [this, key] {
    const kube::Object object = find(releases, key);
    const Release release{*object};
    if (const auto chart = chart_objects(release.chart, release.name, release.space))
      for (auto one = chart->rbegin(); one != chart->rend(); ++one) {
        const std::string api_version = text_at(*one, {"apiVersion"});
        const kube::Resource* kind =
            api_.server().kinds().find_kind(api_version, text_at(*one, {"kind"}));
        if (kind == nullptr || kind->kind == "Namespace") continue;
        api_.send({"system:helm-controller", {"system:masters"}}, "DELETE",
                  fmt::format("/{}/{}{}/{}", kind->group.empty() ? "api/v1" : "apis/" + api_version,
                              kind->namespaced ? fmt::format("namespaces/{}/", release.space) : "",
                              kind->plural, text_at(*one, {"metadata", "name"})));
      }
  };
  if (!keep_finalizer(releases, key, controller, uninstall)) return;
  const kube::Object object = find(releases, key);
  if (!object || kube::bool_at(*object, {"spec", "suspend"})) return;
  const std::int64_t generation = int_at(*object, {"metadata", "generation"});
  if (int_at(*object, {"status", "observedGeneration"}, -1) == generation &&
      kube::condition_status(*object, "Ready") == "True")
    return set_status(releases, key, controller, mark_handled);
  const Release release{*object};
  const auto wait = [&](const std::string& reason, const std::string& message, Duration again) {
    set_status(releases, key, controller, [&](Value& live) {
      set_conditions(live, {{"Ready", "False", reason, message}});
      mark_handled(live);
    });
    later(releases, key, again);
  };
  if (const Value* needed = object->find({"spec", "dependsOn"}))
    for (const Value& one : needed->items()) {
      Key other{text_at(one, {"namespace"}), text_at(one, {"name"})};
      if (other.space.empty()) other.space = key.space;
      const kube::Object there = find(releases, other);
      if (!there || kube::condition_status(*there, "Ready") != "True")
        return wait("DependencyNotReady",
                    fmt::format("dependency '{}/{}' is not ready", other.space, other.name),
                    options_.dependency);
    }
  if (object->find({"spec", "chartRef"}) == nullptr) {
    Key source{text_at(*object, {"spec", "chart", "spec", "sourceRef", "namespace"}),
               text_at(*object, {"spec", "chart", "spec", "sourceRef", "name"})};
    if (source.space.empty()) source.space = key.space;
    if (!find("source.toolkit.fluxcd.io/helmrepositories", source) &&
        !find("source.toolkit.fluxcd.io/gitrepositories", source))
      return wait("SourceNotReady",
                  fmt::format("HelmChart '{}/{}-{}' is not ready: failed to get source: "
                              "helmrepositories.source.toolkit.fluxcd.io \"{}\" not found",
                              source.space, key.space, key.name, source.name),
                  options_.dependency);
  }
  const auto chart =
      chart_objects(release.chart, release.name, release.space, object->find({"spec", "values"}));
  if (!chart)
    return wait("SourceNotReady",
                fmt::format("HelmChart '{0}/{0}-{1}' is not ready: the lab does not know the chart "
                            "'{2}'",
                            key.space, key.name, release.chart),
                10min);
  if (kube::bool_at(*object, {"spec", "install", "createNamespace"}) &&
      !find("/namespaces", {"", release.space})) {
    Value space = kube::json(R"({"apiVersion":"v1","kind":"Namespace"})");
    set_at(space, {"metadata", "name"}, str(release.space));
    api_.apply(space, controller);
  }
  set_status(releases, key, controller, [&](Value& live) {
    set_conditions(live, {{"Reconciling", "True", "Progressing",
                           "Running 'install' action with "
                           "timeout of 5m0s"},
                          {"Ready", "Unknown", "Progressing",
                           "Running 'install' action with "
                           "timeout of 5m0s"}});
  });
  std::vector<Value> objects = *chart;
  std::stable_sort(objects.begin(), objects.end(), [](const Value& a, const Value& b) {
    return apply_rank(text_at(a, {"kind"})) < apply_rank(text_at(b, {"kind"}));
  });
  std::string failed;
  for (Value& one : objects) {
    set_at(one, {"metadata", "labels", "app.kubernetes.io/managed-by"}, str("Helm"));
    set_at(one, {"metadata", "labels", "helm.toolkit.fluxcd.io/name"}, str(key.name));
    set_at(one, {"metadata", "labels", "helm.toolkit.fluxcd.io/namespace"}, str(key.space));
    const kube::Api::Result made = api_.apply(one, controller);
    if (made.status >= 300 && failed.empty()) failed = text_at(made.body, {"message"});
  }
  if (!failed.empty()) {
    const std::string message =
        fmt::format("Helm install failed for release {}/{} with chart {}@{}: {}", release.space,
                    release.name, release.chart, release.version, failed);
    set_status(releases, key, controller, [&](Value& live) {
      set_conditions(live, {{"Ready", "False", "InstallFailed", message},
                            {"Released", "False", "InstallFailed", message}});
    });
    tell(*object, true, "InstallFailed", message, controller);
    return later(releases, key, 30s);
  }
  finish_release(key, generation, world_.now() + duration_at(*object, {"spec", "timeout"}, 5min));
}

void Flux::finish_release(const Key& key, std::int64_t generation, Instant deadline) {
  const kube::Object object = find(releases, key);
  if (!object || int_at(*object, {"metadata", "generation"}) != generation) return;
  const Release release{*object};
  std::string waits;
  const auto chart =
      chart_objects(release.chart, release.name, release.space, object->find({"spec", "values"}));
  if (!chart) return;
  if (!kube::bool_at(*object, {"spec", "install", "disableWait"}))
    for (const Value& one : *chart) {
      const std::string kind = text_at(one, {"kind"});
      if (kind != "Deployment" && kind != "DaemonSet" && kind != "StatefulSet" && kind != "Job")
        continue;
      const std::string name = text_at(one, {"metadata", "name"});
      if (health_of(text_at(one, {"apiVersion"}), kind, {release.space, name}) != "Current")
        waits = fmt::format("{}/{}/{} status: 'InProgress'", kind, release.space, name);
    }
  const std::string what = fmt::format("for release {} with chart {}@{}", release.text(),
                                       release.chart, release.version);
  if (waits.empty()) {
    const std::string message = "Helm install succeeded " + what;
    const auto good = [&](Value& live) {
      set_conditions(live, {{"Ready", "True", "InstallSucceeded", message},
                            {"Released", "True", "InstallSucceeded", message}});
    };
    set_status(releases, key, controller, good);
    set_status(releases, key, controller, [&](Value& live) {
      good(live);
      set_at(live, {"status", "observedGeneration"}, num(generation));
      set_at(live, {"status", "lastAttemptedRevision"}, str(release.version));
      set_at(live, {"status", "storageNamespace"}, str(release.space));
      mark_handled(live);
    });
    return tell(*object, false, "InstallSucceeded", message, controller);
  }
  if (world_.now() >= deadline) {
    const std::string message =
        fmt::format("Helm install failed {}: context deadline exceeded: [{}]", what, waits);
    set_status(releases, key, controller, [&](Value& live) {
      set_conditions(live, {{"Ready", "False", "InstallFailed", message},
                            {"Released", "False", "InstallFailed", message}});
    });
    tell(*object, true, "InstallFailed", message, controller);
    return later(releases, key, 30s);
  }
  after(2s, [this, key, generation, deadline] { finish_release(key, generation, deadline); });
}

}  // namespace rocca::lab::flux
