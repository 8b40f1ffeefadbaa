// Deployments, ReplicaSets, DaemonSets, StatefulSets, Jobs, CronJobs and Pods.
#include "base/strings.hpp"
#include "lab/kube/schema/names.hpp"
#include "lab/kube/schema/validate.hpp"
#include "lab/kube/selector.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

/// `3` or `25%`; nothing: neither.
std::optional<std::int64_t> percent_of(const Value& value) {
  if (!value.is_string()) return std::nullopt;
  if (!value.text().ends_with("%")) return std::nullopt;
  return parse_uint(value.text().substr(0, value.text().size() - 1));
}

bool is_nothing(const Value* value) {
  if (value == nullptr) return true;
  return value->is_string() ? percent_of(*value) == 0 : value->as_int() == 0;
}

void check_share(const Value* value, const std::string& path, Causes& causes) {
  if (value == nullptr) return;
  if (value->is_string()) {
    const auto percent = percent_of(*value);
    if (!percent)
      causes.push_back(
          Cause::invalid(path, in_quotes(value->text()),
                         "a valid percent string must be a numeric string followed by an ending "
                         "'%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"));
    return;
  }
  if (value->as_int().value_or(0) < 0)
    causes.push_back(Cause::invalid(path, std::to_string(value->as_int().value_or(0)),
                                    "must be greater than or equal to 0"));
}

void check_share_limit(const Value* value, const std::string& path, Causes& causes) {
  if (value == nullptr) return;
  if (const auto percent = percent_of(*value); percent && *percent > 100)
    causes.push_back(
        Cause::invalid(path, in_quotes(value->text()), "must not be greater than 100%"));
}

void check_template_spec(const Value& pod_template, const std::string& path, Causes& causes) {
  check_label_map(pod_template.find({"metadata", "labels"}), path + ".labels", causes);
  if (const Value* annotations = pod_template.find({"metadata", "annotations"});
      annotations != nullptr && annotations->is_map())
    for (const text::Entry& entry : annotations->entries())
      check_text(wrong_qualified_name(to_lower(entry.key)), path + ".annotations", entry.key,
                 causes);
  if (const Value* spec = pod_template.find("spec")) check_pod_spec(*spec, path + ".spec", causes);
}

void check_restart(const Value& pod_template, const char* kind, Causes& causes) {
  const std::string policy = text_at(pod_template, {"spec", "restartPolicy"});
  if (policy != "Always")
    causes.push_back(
        Cause::unsupported("spec.template.spec.restartPolicy", in_quotes(policy), {"Always"}));
  if (pod_template.find({"spec", "activeDeadlineSeconds"}) != nullptr)
    causes.push_back(
        Cause::forbidden("spec.template.spec.activeDeadlineSeconds",
                         fmt::format("activeDeadlineSeconds in {} is not Supported", kind)));
}

/// A strategy as Go's internal type is shown in errors.
std::string go_strategy(const std::string& type, const Value* rolling,
                        std::initializer_list<const char*> fields) {
  Value out = Value::map();
  out.set("Type", str(type));
  if (rolling == nullptr || rolling->is_null()) {
    out.set("RollingUpdate", Value::null());
  } else {
    Value inner = Value::map();
    for (const char* field : fields) {
      std::string name = field;
      name[0] = static_cast<char>(name[0] - 'a' + 'A');
      const Value* found = rolling->find(field);
      inner.set(name, found == nullptr ? Value::null() : *found);
    }
    out.set("RollingUpdate", std::move(inner));
  }
  return text::emit_json(out);
}

bool is_empty_selector(const Value& selector) {
  return is_empty(selector.find("matchLabels")) && is_empty(selector.find("matchExpressions"));
}

/// Selector and template of a Deployment, ReplicaSet or StatefulSet.
void check_selected_template(const Value& spec, const std::string& kind, Causes& causes) {
  const Value* selector = spec.find("selector");
  const bool given = selector != nullptr && selector->is_map();
  Causes wrong;
  if (!given) {
    wrong.push_back(Cause::required("spec.selector"));
  } else {
    check_label_selector(selector, "spec.selector", wrong);
    if (is_empty_selector(*selector))
      wrong.push_back(
          Cause::invalid("spec.selector", shown_json(selector),
                         fmt::format("empty selector is invalid for {}",
                                     kind == "StatefulSet" ? "statefulset" : "deployment")));
  }
  bool readable = true;
  if (given)
    if (const Value* expressions = selector->find("matchExpressions");
        expressions != nullptr && expressions->is_list())
      for (const Value& one : expressions->items()) {
        const std::string word = text_at(one, {"operator"});
        if (word != "In" && word != "NotIn" && word != "Exists" && word != "DoesNotExist")
          readable = false;
      }
  if (given)
    if (const Value* labels = selector->find("matchLabels"); labels != nullptr && labels->is_map())
      for (const text::Entry& label : labels->entries())
        if (!wrong_qualified_name(label.key).empty() ||
            !wrong_label_value(label.value.text()).empty())
          readable = false;
  if (!readable && kind == "StatefulSet")
    wrong.push_back(
        {"FieldValueInvalid", "Invalid value: " + shown_json(selector), "spec.selector"});
  else if (!readable)
    wrong.push_back(
        Cause::invalid("spec.selector", shown_json(selector), "invalid label selector"));
  for (Cause& one : wrong) causes.push_back(std::move(one));
  const Value* pod_template = spec.find("template");
  if (pod_template == nullptr || !readable) return;
  // An empty selector says nothing about the labels, a missing one matches none.
  const Value* labels = pod_template->find({"metadata", "labels"});
  const bool selects = given && (is_empty_selector(*selector) ||
                                 LabelSelector::of(*selector).matches_labels(labels));
  if (!selects)
    causes.push_back(Cause::invalid("spec.template.metadata.labels",
                                    is_empty(labels) ? "null" : shown_json(labels),
                                    "`selector` does not match template `labels`"));
  check_template_spec(*pod_template, "spec.template", causes);
  check_restart(*pod_template, kind == "StatefulSet" ? "StatefulSet" : "ReplicaSet", causes);
}

void check_immutable_selector(const Value& spec, const Value* live, Causes& causes) {
  if (live == nullptr) return;
  if (!same_values(live->find({"spec", "selector"}), spec.find("selector")))
    causes.push_back(
        Cause::invalid("spec.selector", shown_json(spec.find("selector")), "field is immutable"));
}

void check_deployment(const Value& spec, Causes& causes) {
  check_least(spec, "replicas", "spec", 0, causes);
  check_selected_template(spec, "Deployment", causes);
  const std::string type = text_at(spec, {"strategy", "type"});
  const Value* rolling = spec.find({"strategy", "rollingUpdate"});
  if (type == "Recreate") {
    if (rolling != nullptr && !rolling->is_null())
      causes.push_back(Cause::forbidden("spec.strategy.rollingUpdate",
                                        "may not be specified when strategy `type` is 'Recreate'"));
  } else if (type == "RollingUpdate") {
    const Value none = Value::map();
    const Value& rules = rolling == nullptr ? none : *rolling;
    const Value* least = rules.find("maxUnavailable");
    const Value* surge = rules.find("maxSurge");
    const std::string path = "spec.strategy.rollingUpdate.";
    check_share(least, path + "maxUnavailable", causes);
    check_share(surge, path + "maxSurge", causes);
    if (is_nothing(least) && is_nothing(surge))
      causes.push_back(Cause::invalid(path + "maxUnavailable", shown_json(least),
                                      "may not be 0 when `maxSurge` is 0"));
    check_share_limit(least, path + "maxUnavailable", causes);
  } else {
    causes.push_back(Cause::unsupported("spec.strategy",
                                        go_strategy(type, rolling, {"maxUnavailable", "maxSurge"}),
                                        {"Recreate", "RollingUpdate"}));
  }
  check_least(spec, "minReadySeconds", "spec", 0, causes);
  check_least(spec, "revisionHistoryLimit", "spec", 0, causes);
  check_least(spec, "progressDeadlineSeconds", "spec", 0, causes);
  if (const Value* deadline = spec.find("progressDeadlineSeconds"))
    if (deadline->as_int().value_or(0) <= int_at(spec, {"minReadySeconds"}))
      causes.push_back(Cause::invalid("spec.progressDeadlineSeconds",
                                      std::to_string(deadline->as_int().value_or(0)),
                                      "must be greater than minReadySeconds"));
}

void check_daemon_set(const Value& spec, Causes& causes) {
  const Value* selector = spec.find("selector");
  const bool given = selector != nullptr && selector->is_map();
  check_label_selector(selector, "spec.selector", causes);
  const Value* pod_template = spec.find("template");
  if (pod_template == nullptr) return;
  const Value* labels = pod_template->find({"metadata", "labels"});
  bool fits = given && !is_empty_selector(*selector);
  if (fits) fits = LabelSelector::of(*selector).matches_labels(labels);
  if (given && !is_empty_selector(*selector) && !fits)
    causes.push_back(Cause::invalid("spec.template.metadata.labels",
                                    is_empty(labels) ? "null" : shown_json(labels),
                                    "`selector` does not match template `labels`"));
  if (!given)
    causes.push_back(Cause::invalid("spec.template.metadata.labels",
                                    is_empty(labels) ? "null" : shown_json(labels),
                                    "`selector` does not match template `labels`"));
  if (given && is_empty_selector(*selector))
    causes.push_back(Cause::invalid("spec.selector", shown_json(selector),
                                    "empty selector is invalid for daemonset"));
  check_template_spec(*pod_template, "spec.template", causes);
  check_restart(*pod_template, "DaemonSet", causes);
  check_least(spec, "minReadySeconds", "spec", 0, causes);
  const std::string type = text_at(spec, {"updateStrategy", "type"});
  if (type == "RollingUpdate") {
    const Value none = Value::map();
    const Value* rolling = spec.find({"updateStrategy", "rollingUpdate"});
    const Value& rules = rolling == nullptr ? none : *rolling;
    const Value* least = rules.find("maxUnavailable");
    const Value* surge = rules.find("maxSurge");
    const std::string path = "spec.updateStrategy.rollingUpdate.";
    check_share(least, path + "maxUnavailable", causes);
    check_share(surge, path + "maxSurge", causes);
    const bool no_least = is_nothing(least);
    const bool no_surge = is_nothing(surge);
    if (!no_least && !no_surge)
      causes.push_back(Cause::invalid(path + "maxSurge", shown_json(surge),
                                      "may not be set when maxUnavailable is non-zero"));
    if (no_least && no_surge)
      causes.push_back(Cause::required(path + "maxUnavailable", "cannot be 0 when maxSurge is 0"));
  } else if (type != "OnDelete") {
    causes.push_back(
        Cause::unsupported("spec.updateStrategy",
                           go_strategy(type, spec.find({"updateStrategy", "rollingUpdate"}),
                                       {"maxUnavailable", "maxSurge"}),
                           {"RollingUpdate", "OnDelete"}));
  }
  check_least(spec, "revisionHistoryLimit", "spec", 0, causes);
}

void check_stateful_set(const Value& object, const Value* live, Causes& causes) {
  const Value& spec = *object.find("spec");
  const std::string policy = text_at(spec, {"podManagementPolicy"});
  if (policy.empty())
    causes.push_back(Cause::required("spec.podManagementPolicy"));
  else if (policy != "OrderedReady" && policy != "Parallel")
    causes.push_back(Cause::invalid("spec.podManagementPolicy", in_quotes(policy),
                                    "must be 'OrderedReady' or 'Parallel'"));
  const std::string type = text_at(spec, {"updateStrategy", "type"});
  const Value* rolling = spec.find({"updateStrategy", "rollingUpdate"});
  if (type.empty())
    causes.push_back(Cause::required("spec.updateStrategy"));
  else if (type == "OnDelete" && rolling != nullptr)
    causes.push_back(Cause::invalid("spec.updateStrategy.rollingUpdate", shown_json(rolling),
                                    "only allowed for updateStrategy 'RollingUpdate'"));
  else if (type != "OnDelete" && type != "RollingUpdate")
    causes.push_back(Cause::invalid("spec.updateStrategy",
                                    go_strategy(type, rolling, {"partition", "maxUnavailable"}),
                                    "must be 'RollingUpdate' or 'OnDelete'"));
  if (rolling != nullptr)
    check_least(*rolling, "partition", "spec.updateStrategy.rollingUpdate", 0, causes);
  check_least(spec, "replicas", "spec", 0, causes);
  check_least(spec, "minReadySeconds", "spec", 0, causes);
  check_selected_template(spec, "StatefulSet", causes);
  check_least(spec, "revisionHistoryLimit", "spec", 0, causes);
  if (live == nullptr) return;
  Value before = *live->find("spec");
  Value after = spec;
  for (const char* free :
       {"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy", "minReadySeconds"}) {
    before.erase(free);
    after.erase(free);
  }
  if (!(before == after))
    causes.push_back(Cause::forbidden(
        "spec",
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
        "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
        "'minReadySeconds' are forbidden"));
}

bool mode_indexed(const Value& spec) {
  return text_at(spec, {"completionMode"}) == "Indexed";
}

/// A list of words as Go's %v prints it.
std::string go_words(const std::string& text) {
  std::vector<std::string> words;
  for (const std::string& word : split(text, ' '))
    if (!word.empty()) words.push_back(word);
  return "[" + join(words, " ") + "]";
}

void check_job_spec(const Value& spec, const std::string& path, Causes& causes) {
  for (const char* field : {"parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
                            "ttlSecondsAfterFinished"})
    check_least(spec, field, path, 0, causes);
  const std::string mode = text_at(spec, {"completionMode"});
  if (!mode.empty() && mode != "NonIndexed" && mode != "Indexed")
    causes.push_back(
        Cause::unsupported(path + ".completionMode", in_quotes(mode), {"NonIndexed", "Indexed"}));
  if (mode == "Indexed" && spec.find("completions") == nullptr)
    causes.push_back(Cause::required(path + ".completions", "when completion mode is Indexed"));
  const Value* pod_template = spec.find("template");
  if (pod_template == nullptr) return;
  check_template_spec(*pod_template, path + ".template", causes);
  const std::string policy = text_at(*pod_template, {"spec", "restartPolicy"});
  const std::string place = path + ".template.spec.restartPolicy";
  if (policy.empty() || policy == "Always")
    causes.push_back(Cause::required(place, "valid values: \"OnFailure\", \"Never\""));
  else if (policy != "OnFailure" && policy != "Never")
    causes.push_back(Cause::unsupported(place, in_quotes(policy), {"OnFailure", "Never"}));
}

void check_job(const Value& object, const Value* live, Causes& causes) {
  const Value& spec = *object.find("spec");
  const bool manual = bool_at(spec, {"manualSelector"});
  const std::string uid = text_at(object, {"metadata", "uid"});
  if (!manual) {
    Value wanted = Value::map();
    set_at(wanted, {"matchLabels", "batch.kubernetes.io/controller-uid"}, str(uid));
    const Value* selector = spec.find("selector");
    if (live == nullptr && (selector == nullptr || !(*selector == wanted)))
      causes.push_back(
          Cause::invalid("spec.selector", shown_json(selector), "`selector` not auto-generated"));
  }
  check_job_spec(spec, "spec", causes);
  const Value* selector = spec.find("selector");
  const Value* labels = spec.find({"template", "metadata", "labels"});
  if (selector != nullptr && selector->is_map() &&
      !LabelSelector::of(*selector).matches_labels(labels))
    causes.push_back(Cause::invalid("spec.template.metadata.labels",
                                    is_empty(labels) ? "null" : shown_json(labels),
                                    "`selector` does not match template `labels`"));
  if (live == nullptr) return;
  for (const char* field : {"completions", "selector", "template", "completionMode",
                            "backoffLimitPerIndex", "podFailurePolicy", "managedBy"}) {
    const Value* before = live->find({"spec", field});
    const Value* now = spec.find(field);
    if (same_values(before, now)) continue;
    if (std::string_view(field) == "completions" && mode_indexed(spec)) continue;
    causes.push_back(
        Cause::invalid(fmt::format("spec.{}", field),
                       std::string_view(field) == "template" ? "{\"labels\":" : shown_json(now),
                       "field is immutable"));
  }
}

void check_cron_job(const Value& object, Causes& causes) {
  const Value& spec = *object.find("spec");
  const std::string name = text_at(object, {"metadata", "name"});
  if (name.size() > 52)
    causes.push_back(
        Cause::invalid("metadata.name", in_quotes(name), "must be no more than 52 characters"));
  const std::string schedule = text_at(spec, {"schedule"});
  if (schedule.empty()) {
    causes.push_back(Cause::required("spec.schedule"));
  } else {
    std::size_t words = 0;
    for (const std::string& word : split(schedule, ' ')) words += word.empty() ? 0 : 1;
    const bool zoned = schedule.find("TZ=") != std::string::npos;
    if (zoned)
      causes.push_back(
          Cause::invalid("spec.schedule", in_quotes(schedule),
                         "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"));
    else if (schedule[0] != '@' && words != 5)
      causes.push_back(Cause::invalid(
          "spec.schedule", in_quotes(schedule),
          fmt::format("expected exactly 5 fields, found {}: {}", words, go_words(schedule))));
  }
  if (const Value* seconds = spec.find("startingDeadlineSeconds"); seconds != nullptr)
    check_least(spec, "startingDeadlineSeconds", "spec", 0, causes);
  check_word(text_at(spec, {"concurrencyPolicy"}), "spec.concurrencyPolicy",
             {"Allow", "Forbid", "Replace"}, causes);
  if (const Value* template_spec = spec.find({"jobTemplate", "spec"}))
    check_job_spec(*template_spec, "spec.jobTemplate.spec", causes);
  check_least(spec, "successfulJobsHistoryLimit", "spec", 0, causes);
  check_least(spec, "failedJobsHistoryLimit", "spec", 0, causes);
  const std::string zone = text_at(spec, {"timeZone"});
  if (!zone.empty() && zone != "UTC" && !zone.starts_with("Etc/") && !zone.starts_with("Europe/") &&
      !zone.starts_with("America/") && !zone.starts_with("Asia/") && !zone.starts_with("Africa/") &&
      !zone.starts_with("Australia/") && !zone.starts_with("Pacific/") &&
      !zone.starts_with("Atlantic/"))
    causes.push_back(Cause::invalid("spec.timeZone", in_quotes(zone), "unknown time zone " + zone));
}

void check_workload_status(const Resource& resource, const Value& object, Causes& causes) {
  const Value* status = object.find("status");
  if (status == nullptr || !status->is_map() || resource.group != "apps") return;
  for (const char* field :
       {"observedGeneration", "replicas", "fullyLabeledReplicas", "updatedReplicas",
        "readyReplicas", "availableReplicas", "unavailableReplicas", "currentReplicas",
        "collisionCount", "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled",
        "numberReady"})
    check_least(*status, field, "status", 0, causes);
  if (resource.kind == "DaemonSet") return;
  const std::int64_t replicas = int_at(*status, {"replicas"});
  static const std::map<std::string, std::vector<const char*>> counts{
      {"Deployment", {"updatedReplicas", "readyReplicas", "availableReplicas"}},
      {"ReplicaSet", {"fullyLabeledReplicas", "readyReplicas", "availableReplicas"}},
      {"StatefulSet",
       {"readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"}}};
  const auto known = counts.find(resource.kind);
  if (known == counts.end()) return;
  for (const char* field : known->second)
    if (const std::int64_t count = int_at(*status, {field}); count > replicas)
      causes.push_back(Cause::invalid(fmt::format("status.{}", field), std::to_string(count),
                                      "cannot be greater than status.replicas"));
  if (const std::int64_t count = int_at(*status, {"availableReplicas"});
      count > int_at(*status, {"readyReplicas"}))
    causes.push_back(Cause::invalid("status.availableReplicas", std::to_string(count),
                                    resource.kind == "StatefulSet"
                                        ? "cannot be greater than status.readyReplicas"
                                        : "cannot be greater than readyReplicas"));
}

void check_pod_status(const Value& object, const Value* live, Causes& causes) {
  if (live == nullptr) return;
  const std::string before = text_at(*live, {"spec", "nodeName"});
  const std::string now = text_at(object, {"spec", "nodeName"});
  if (before != now)
    causes.push_back(Cause::forbidden("status.nodeName", "may not be changed directly"));
}

}  // namespace

void check_workload(const Resource& resource, const Value& object, const Value* live,
                    const std::string& subresource, Causes& causes) {
  const Value* spec = object.find("spec");
  if (spec == nullptr || !spec->is_map()) return;
  if (subresource == "status") {
    check_workload_status(resource, object, causes);
    if (resource.key() == "/pods") check_pod_status(object, live, causes);
    return;
  }
  const std::string key = resource.key();
  if (key == "apps/deployments") {
    check_deployment(*spec, causes);
    check_immutable_selector(*spec, live, causes);
  } else if (key == "apps/replicasets") {
    check_least(*spec, "replicas", "spec", 0, causes);
    check_least(*spec, "minReadySeconds", "spec", 0, causes);
    check_selected_template(*spec, "ReplicaSet", causes);
    check_immutable_selector(*spec, live, causes);
  } else if (key == "apps/daemonsets") {
    check_daemon_set(*spec, causes);
    check_immutable_selector(*spec, live, causes);
  } else if (key == "apps/statefulsets") {
    check_stateful_set(object, live, causes);
  } else if (key == "batch/jobs") {
    check_job(object, live, causes);
  } else if (key == "batch/cronjobs") {
    check_cron_job(object, causes);
  } else if (key == "/pods") {
    check_pod_spec(*spec, "spec", causes);
    if (live != nullptr && live->find("spec") != nullptr)
      check_pod_change(*spec, *live->find("spec"), causes);
  }
}

}  // namespace rocca::lab::kube
