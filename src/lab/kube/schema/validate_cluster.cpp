// Nodes, storage, priorities, quotas, claims, events and leases.
#include "base/strings.hpp"
#include "lab/kube/schema/decode.hpp"
#include "lab/kube/schema/names.hpp"
#include "lab/kube/schema/validate.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace rocca::lab::kube {

using text::Value;

namespace {

const Value& list_of(const Value& map, std::string_view key) {
  static const Value none = Value::list();
  const Value* found = map.find(key);
  return found != nullptr && found->is_list() ? *found : none;
}

void check_immutable(const Value& object, const Value* live, const char* field, Causes& causes) {
  if (live == nullptr || same_values(live->find(field), object.find(field))) return;
  causes.push_back(Cause::invalid(field, shown_json(object.find(field)), "field is immutable"));
}

void check_taints(const Value& spec, Causes& causes) {
  const Value& taints = list_of(spec, "taints");
  std::set<std::pair<std::string, std::string>> seen;
  for (std::size_t i = 0; i < taints.items().size(); ++i) {
    const Value& taint = taints.items()[i];
    const std::string where = fmt::format("metadata.taints[{}]", i);
    const std::string key = text_at(taint, {"key"});
    const std::string value = text_at(taint, {"value"});
    const std::string effect = text_at(taint, {"effect"});
    check_text(wrong_qualified_name(key), where + ".key", key, causes);
    if (const auto wrong = wrong_label_value(value); !wrong.empty())
      causes.push_back(Cause::invalid(where + ".value", in_quotes(value), join(wrong, ";")));
    check_word(effect, where + ".effect", {"NoSchedule", "PreferNoSchedule", "NoExecute"}, causes);
    if (!seen.emplace(effect, key).second)
      causes.push_back(
          {"FieldValueDuplicate",
           fmt::format(
               R"(Duplicate value: {{"Key":"{}","Value":"{}","Effect":"{}","TimeAdded":null}}: )"
               "taints must be unique by key and effect pair",
               key, value, effect),
           where});
  }
}

void check_node(const Value& object, const Value* live, Causes& causes) {
  const Value* spec = object.find("spec");
  if (spec == nullptr) return;
  check_taints(*spec, causes);
  const Value& ranges = list_of(*spec, "podCIDRs");
  for (std::size_t i = 0; i < ranges.items().size(); ++i)
    if (!is_cidr(ranges.items()[i].text()))
      causes.push_back(
          Cause::invalid(fmt::format("spec.podCIDRs[{}]", i), in_quotes(ranges.items()[i].text()),
                         "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"));
  if (live == nullptr) return;
  const Value* before = live->find({"spec", "podCIDRs"});
  if (!is_empty(before) && !same_values(before, spec->find("podCIDRs")))
    causes.push_back(Cause::forbidden(
        "spec.podCIDRs", "node updates may not change podCIDR except from \"\" to valid"));
  const std::string provider = text_at(*live, {"spec", "providerID"});
  if (!provider.empty() && provider != text_at(*spec, {"providerID"}))
    causes.push_back(Cause::forbidden(
        "spec.providerID", "node updates may not change providerID except from \"\" to valid"));
}

void check_storage_class(const Value& object, const Value* live, Causes& causes) {
  const std::string provisioner = text_at(object, {"provisioner"});
  if (provisioner.empty())
    causes.push_back(Cause::required("provisioner"));
  else
    check_text(wrong_qualified_name(to_lower(provisioner)), "provisioner", provisioner, causes);
  const std::string reclaim = text_at(object, {"reclaimPolicy"});
  if (!reclaim.empty() && reclaim != "Delete" && reclaim != "Retain")
    causes.push_back(Cause::unsupported("reclaimPolicy", in_quotes(reclaim), {"Delete", "Retain"}));
  const std::string mode = text_at(object, {"volumeBindingMode"});
  check_word(mode, "volumeBindingMode", {"Immediate", "WaitForFirstConsumer"}, causes);
  if (live == nullptr) return;
  for (const char* field : {"parameters", "provisioner", "reclaimPolicy"})
    if (!same_values(live->find(field), object.find(field)))
      causes.push_back(Cause::forbidden(field, fmt::format("updates to {} are forbidden.", field)));
  check_immutable(object, live, "volumeBindingMode", causes);
}

void check_driver(const Value& object, const Value* live, Causes& causes) {
  const Value* spec = object.find("spec");
  if (spec == nullptr) return;
  const std::string policy = text_at(*spec, {"fsGroupPolicy"});
  check_word(policy, "spec.fsGroupPolicy", {"File", "None", "ReadWriteOnceWithFSType"}, causes);
  for (const Value& mode : list_of(*spec, "volumeLifecycleModes").items())
    if (mode.text() != "Persistent" && mode.text() != "Ephemeral")
      causes.push_back(Cause::unsupported("spec.volumeLifecycleModes", in_quotes(mode.text()),
                                          {"Persistent", "Ephemeral"}));
  if (live == nullptr) return;
  for (const char* field : {"attachRequired", "volumeLifecycleModes"})
    if (!same_values(live->find({"spec", field}), spec->find(field)))
      causes.push_back(Cause::invalid(fmt::format("spec.{}", field), shown_json(spec->find(field)),
                                      "field is immutable"));
}

void check_priority_class(const Value& object, const Value* live, Causes& causes) {
  const std::int64_t value = int_at(object, {"value"});
  const std::string policy = text_at(object, {"preemptionPolicy"});
  if (live != nullptr) {
    if (int_at(*live, {"value"}) != value)
      causes.push_back(Cause::forbidden("value", "may not be changed in an update."));
    check_immutable(object, live, "preemptionPolicy", causes);
    return;
  }
  const std::string name = text_at(object, {"metadata", "name"});
  if (name.starts_with("system-"))
    causes.push_back(Cause::forbidden(
        "metadata.name",
        fmt::format("priority class names with 'system-' prefix are reserved for system use only. "
                    "error: {} is not a known system priority class",
                    name)));
  else if (value > 1000000000)
    causes.push_back(Cause::forbidden(
        "value", "maximum allowed value of a user defined priority is 1000000000"));
  if (!policy.empty() && policy != "Never" && policy != "PreemptLowerPriority")
    causes.push_back(Cause::unsupported("preemptionPolicy", in_quotes(policy),
                                        {"PreemptLowerPriority", "Never"}));
}

void check_quota(const Value& object, Causes& causes) {
  const Value* hard = object.find({"spec", "hard"});
  if (hard == nullptr || !hard->is_map()) return;
  static const std::set<std::string> counted{"pods",
                                             "services",
                                             "replicationcontrollers",
                                             "resourcequotas",
                                             "secrets",
                                             "configmaps",
                                             "persistentvolumeclaims",
                                             "services.nodeports",
                                             "services.loadbalancers"};
  static const std::set<std::string> measured{"cpu",
                                              "memory",
                                              "requests.cpu",
                                              "requests.memory",
                                              "requests.storage",
                                              "limits.cpu",
                                              "limits.memory",
                                              "ephemeral-storage",
                                              "requests.ephemeral-storage",
                                              "limits.ephemeral-storage",
                                              "storage"};
  for (const text::Entry& entry : hard->entries()) {
    const std::string where = fmt::format("spec.hard[{}]", entry.key);
    if (!counted.contains(entry.key) && !measured.contains(entry.key) &&
        entry.key.find('/') == std::string::npos)
      for (int i = 0; i < 2; ++i)
        causes.push_back(Cause::invalid(where, in_quotes(entry.key),
                                        i == 0
                                            ? "must be a standard resource type or fully qualified"
                                            : "must be a standard resource for quota"));
    const double value = quantity_value(entry.value.text()).value_or(0);
    if (value < 0)
      causes.push_back(Cause::invalid(where, in_quotes(entry.value.text()),
                                      "must be greater than or equal to 0"));
    if (counted.contains(entry.key) && value != std::floor(value))
      causes.push_back(Cause::invalid(where, in_quotes(entry.value.text()), "must be an integer"));
  }
}

void check_claim(const Value& object, const Value* live, Causes& causes) {
  const Value* spec = object.find("spec");
  if (spec == nullptr) return;
  const Value& modes = list_of(*spec, "accessModes");
  if (modes.size() == 0)
    causes.push_back(Cause::required("spec.accessModes", "at least 1 access mode is required"));
  static const std::vector<std::string> known{"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce",
                                              "ReadWriteOncePod"};
  for (const Value& mode : modes.items())
    if (std::find(known.begin(), known.end(), mode.text()) == known.end())
      causes.push_back(Cause::unsupported("spec.accessModes", in_quotes(mode.text()), known));
  const Value* size = spec->find({"resources", "requests", "storage"});
  if (size == nullptr)
    causes.push_back(Cause::required("spec.resources[storage]"));
  else if (quantity_value(size->text()).value_or(0) <= 0)
    causes.push_back(Cause::invalid("spec.resources[storage]", in_quotes(size->text()),
                                    "must be greater than zero"));
  if (const std::string name = text_at(*spec, {"storageClassName"}); !name.empty())
    check_text(wrong_subdomain(name), "spec.storageClassName", name, causes);
  const std::string mode = text_at(*spec, {"volumeMode"});
  if (!mode.empty() && mode != "Block" && mode != "Filesystem")
    causes.push_back(
        Cause::unsupported("spec.volumeMode", in_quotes(mode), {"Block", "Filesystem"}));
  if (live == nullptr) return;
  const Value* before = live->find("spec");
  Value old_spec = before == nullptr ? Value::map() : *before;
  Value new_spec = *spec;
  if (text_at(old_spec, {"volumeName"}).empty()) new_spec.erase("volumeName");
  if (old_spec.find("storageClassName") == nullptr) new_spec.erase("storageClassName");
  if (!(old_spec == new_spec))
    causes.push_back(Cause::forbidden(
        "spec",
        "spec is immutable after creation except resources.requests and volumeAttributesClassName "
        "for bound claims\n"));
  const Value* old_size = old_spec.find({"resources", "requests", "storage"});
  const double now = size == nullptr ? 0 : quantity_value(size->text()).value_or(0);
  const double past = old_size == nullptr ? 0 : quantity_value(old_size->text()).value_or(0);
  const Value* capacity = live->find({"status", "capacity", "storage"});
  if (now < past && now <= (capacity == nullptr ? 0 : quantity_value(capacity->text()).value_or(0)))
    causes.push_back(Cause::forbidden("spec.resources.requests.storage",
                                      "field can not be less than status.capacity"));
  if (!same_values(old_spec.find("volumeMode"), spec->find("volumeMode")))
    causes.push_back(
        Cause::invalid("volumeMode", shown_json(spec->find("volumeMode")), "field is immutable"));
}

/// Both kinds of Event: the old one is checked loosely, that of events.k8s.io strictly.
void check_event(const Value& object, const Value* live, bool strict, Causes& causes) {
  const char* reference = strict ? "regarding" : "involvedObject";
  const std::string space = text_at(object, {"metadata", "namespace"});
  const std::string mine = text_at(object, {reference, "namespace"});
  const Value* time = object.find("eventTime");
  const char* controller = strict ? "reportingController" : "reportingComponent";
  if (time == nullptr || time->is_null()) {
    if (mine.empty() ? !space.empty() && space != "default" : space != mine)
      causes.push_back(Cause::invalid("involvedObject.namespace", in_quotes(mine),
                                      "does not match event.namespace"));
  } else {
    if (mine.empty() && space != "default" && space != "kube-system")
      causes.push_back(Cause::invalid("involvedObject.namespace", in_quotes(mine),
                                      "does not match event.namespace"));
    const std::string who = text_at(object, {controller});
    if (who.empty()) causes.push_back(Cause::required(controller));
    check_text(wrong_qualified_name(who), controller, who, causes);
    for (const char* field : {"reportingInstance", "action", "reason"})
      if (text_at(object, {field}).empty()) causes.push_back(Cause::required(field));
  }
  if (!strict) return;
  const std::string type = text_at(object, {"type"});
  if (live == nullptr) {
    if (time == nullptr || time->is_null()) causes.push_back(Cause::required("eventTime"));
    if (type != "Normal" && type != "Warning")
      causes.push_back(Cause::invalid("type", "\"\"", fmt::format("has invalid value: {}", type)));
    if (mine.empty() ? space != "default" && space != "kube-system" : space != mine)
      causes.push_back(Cause::invalid("involvedObject.namespace", in_quotes(mine),
                                      "does not match event.namespace"));
    return;
  }
  for (const auto& [field, shown] : {std::pair{"regarding", "involvedObject"},
                                     {"reason", "reason"},
                                     {"note", "message"},
                                     {"reason", "reason"},
                                     {"type", "type"},
                                     {"eventTime", "eventTime"},
                                     {"action", "action"},
                                     {"reportingController", "reportingController"},
                                     {"reportingInstance", "reportingInstance"}})
    if (!same_values(live->find(field), object.find(field)))
      causes.push_back(Cause::invalid(shown, shown_json(object.find(field)), "field is immutable"));
}

void check_lease(const Value& object, Causes& causes) {
  const Value* spec = object.find("spec");
  if (spec == nullptr) return;
  if (const Value* seconds = spec->find("leaseDurationSeconds"))
    if (seconds->as_int().value_or(1) <= 0)
      causes.push_back(
          Cause::invalid("spec.leaseDurationSeconds", seconds->text(), "must be greater than 0"));
  check_least(*spec, "leaseTransitions", "spec", 0, causes);
  const std::string strategy = text_at(*spec, {"strategy"});
  const std::string preferred = text_at(*spec, {"preferredHolder"});
  if (!strategy.empty() && strategy.find('/') == std::string::npos &&
      strategy != "OldestEmulationVersion")
    causes.push_back(
        Cause::unsupported("spec.strategy", in_quotes(strategy), {"OldestEmulationVersion"}));
  if (!preferred.empty() && strategy.empty())
    causes.push_back(
        Cause::forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"));
}

}  // namespace

void check_cluster(const Resource& resource, const Value& object, const Value* live,
                   const std::string& subresource, Causes& causes) {
  const std::string key = resource.key();
  if (key == "policy/poddisruptionbudgets" && subresource == "status")
    if (const Value* status = object.find("status"))
      for (const char* field :
           {"disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"})
        check_least(*status, field, "status", 0, causes);
  if (key == "/namespaces" && subresource == "status") {
    const std::string phase = text_at(object, {"status", "phase"});
    const bool deleting = object.find({"metadata", "deletionTimestamp"}) != nullptr;
    if (phase != (deleting ? "Terminating" : "Active"))
      causes.push_back(
          Cause::invalid("status.Phase", in_quotes(phase),
                         deleting ? "may only be 'Terminating' if `deletionTimestamp` is not empty"
                                  : "may only be 'Active' if `deletionTimestamp` is empty"));
  }
  if (key == "/nodes" && subresource != "status") check_node(object, live, causes);
  if (key == "storage.k8s.io/storageclasses") check_storage_class(object, live, causes);
  if (key == "storage.k8s.io/csidrivers") check_driver(object, live, causes);
  if (key == "scheduling.k8s.io/priorityclasses") check_priority_class(object, live, causes);
  if (key == "/resourcequotas" && subresource != "status") check_quota(object, causes);
  if (key == "/persistentvolumeclaims" && subresource != "status")
    check_claim(object, live, causes);
  if (resource.kind == "Event") check_event(object, live, !resource.group.empty(), causes);
  if (key == "coordination.k8s.io/leases") check_lease(object, causes);
}

}  // namespace rocca::lab::kube
