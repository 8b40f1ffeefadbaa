#include "base/strings.hpp"
#include "lab/kube/schema/decode.hpp"
#include "lab/kube/schema/names.hpp"
#include "lab/kube/schema/validate.hpp"
#include "lab/kube/selector.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

std::string shown(const Value* value) {
  return value == nullptr ? "null" : text::emit_json(*value);
}

void check_containers(const Value& spec, const std::string& path, std::vector<Cause>& causes) {
  const Value* containers = spec.find("containers");
  if (is_empty(containers)) {
    causes.push_back(Cause::required(path + ".containers"));
    return;
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < containers->items().size(); ++i) {
    const Value& one = containers->items()[i];
    const std::string where = fmt::format("{}.containers[{}]", path, i);
    const std::string name = text_at(one, {"name"});
    if (name.empty()) {
      causes.push_back(Cause::required(where + ".name"));
    } else {
      for (const std::string& why : wrong_label(name))
        causes.push_back(Cause::invalid(where + ".name", in_quotes(name), why));
      if (std::find(names.begin(), names.end(), name) != names.end())
        causes.push_back(
            {"FieldValueDuplicate", "Duplicate value: " + in_quotes(name), where + ".name"});
    }
    names.push_back(name);
    if (text_at(one, {"image"}).empty()) causes.push_back(Cause::required(where + ".image"));
    if (const Value* ports = one.find("ports"); ports != nullptr && ports->is_list())
      for (std::size_t j = 0; j < ports->items().size(); ++j) {
        const std::int64_t port = int_at(ports->items()[j], {"containerPort"});
        if (port < 1 || port > 65535)
          causes.push_back(Cause::invalid(fmt::format("{}.ports[{}].containerPort", where, j),
                                          std::to_string(port),
                                          "must be between 1 and 65535, inclusive"));
      }
    if (const Value* mounts = one.find("volumeMounts"); mounts != nullptr && mounts->is_list())
      for (std::size_t j = 0; j < mounts->items().size(); ++j) {
        const std::string volume = text_at(mounts->items()[j], {"name"});
        const Value* volumes = spec.find("volumes");
        const bool there =
            volumes != nullptr && volumes->is_list() &&
            std::any_of(volumes->items().begin(), volumes->items().end(),
                        [&](const Value& known) { return text_at(known, {"name"}) == volume; });
        if (!there)
          causes.push_back({"FieldValueNotFound", "Not found: " + in_quotes(volume),
                            fmt::format("{}.volumeMounts[{}].name", where, j)});
      }
    if (const Value* limits = one.find({"resources", "limits"}))
      for (const text::Entry& limit : limits->entries())
        if (const Value* request = one.find({"resources", "requests", limit.key}))
          if (quantity_value(request->text()).value_or(0) >
              quantity_value(limit.value.text()).value_or(0))
            causes.push_back(
                Cause::invalid(where + ".resources.requests", in_quotes(request->text()),
                               fmt::format("must be less than or equal to {} limit of {}",
                                           limit.key, limit.value.text())));
  }
}

void check_template(const Value& object, const Value* live, std::vector<Cause>& causes) {
  const Value* selector = object.find({"spec", "selector"});
  const Value* labels = object.find({"spec", "template", "metadata", "labels"});
  if (selector == nullptr || selector->is_null()) {
    causes.push_back(Cause::required("spec.selector"));
  } else if (is_empty(selector->find("matchLabels")) &&
             is_empty(selector->find("matchExpressions"))) {
    causes.push_back(Cause::invalid("spec.selector", shown(selector),
                                    "empty selector is invalid for deployment"));
  }
  const bool fits = selector != nullptr && !selector->is_null() &&
                    LabelSelector::of(*selector).matches_labels(labels);
  if (!fits)
    causes.push_back(Cause::invalid("spec.template.metadata.labels", shown(labels),
                                    "`selector` does not match template `labels`"));
  if (const Value* spec = object.find({"spec", "template", "spec"}))
    check_containers(*spec, "spec.template.spec", causes);
  if (live != nullptr) {
    const Value* before = live->find({"spec", "selector"});
    if (before != nullptr && selector != nullptr && !(*before == *selector))
      causes.push_back(Cause::invalid("spec.selector", shown(selector), "field is immutable"));
  }
}

void check_replicas(const Value& object, std::vector<Cause>& causes) {
  const std::int64_t replicas = int_at(object, {"spec", "replicas"}, 0);
  if (replicas < 0)
    causes.push_back(Cause::invalid("spec.replicas", std::to_string(replicas),
                                    "must be greater than or equal to 0"));
}

void check_service(const Value& object, const Value* live, std::vector<Cause>& causes) {
  const Value* ports = object.find({"spec", "ports"});
  const std::string type = text_at(object, {"spec", "type"});
  if (is_empty(ports) && type != "ExternalName" && text_at(object, {"spec", "clusterIP"}) != "None")
    causes.push_back(Cause::required("spec.ports"));
  if (ports != nullptr && ports->is_list())
    for (std::size_t i = 0; i < ports->items().size(); ++i) {
      const Value& port = ports->items()[i];
      if (ports->size() > 1 && text_at(port, {"name"}).empty())
        causes.push_back(Cause::required(fmt::format("spec.ports[{}].name", i)));
      const std::int64_t number = int_at(port, {"port"});
      if (number < 1 || number > 65535)
        causes.push_back(Cause::invalid(fmt::format("spec.ports[{}].port", i),
                                        std::to_string(number),
                                        "must be between 1 and 65535, inclusive"));
    }
  if (live != nullptr) {
    const std::string before = text_at(*live, {"spec", "clusterIP"});
    const std::string now = text_at(object, {"spec", "clusterIP"});
    if (!before.empty() && before != now && type != "ExternalName")
      causes.push_back(Cause::invalid("spec.clusterIPs[0]",
                                      shown(object.find({"spec", "clusterIPs"})),
                                      "may not change once set"));
  } else {
    const std::string address = text_at(object, {"spec", "clusterIP"});
    if (!address.empty() && address != "None" && !address.starts_with("10."))
      causes.push_back(Cause::invalid(
          "spec.clusterIPs", shown(object.find({"spec", "clusterIPs"})),
          fmt::format("failed to allocate IP {}: the provided network does not match the current "
                      "range",
                      address)));
  }
  if (!is_empty(object.find({"status", "loadBalancer", "ingress"})) && type != "LoadBalancer")
    causes.push_back(Cause::forbidden("status.loadBalancer.ingress",
                                      "may only be used when `spec.type` is 'LoadBalancer'"));
}

void check_lease(const Value& object, std::vector<Cause>& causes) {
  if (const Value* seconds = object.find({"spec", "leaseDurationSeconds"}))
    if (seconds->as_int().value_or(1) <= 0)
      causes.push_back(
          Cause::invalid("spec.leaseDurationSeconds", seconds->text(), "must be greater than 0"));
  if (const Value* turns = object.find({"spec", "leaseTransitions"}))
    if (turns->as_int().value_or(0) < 0)
      causes.push_back(Cause::invalid("spec.leaseTransitions", turns->text(),
                                      "must be greater than or equal to 0"));
}

}  // namespace

void check_kind(const Resource& resource, const Value& object, const Value* live,
                const Write& write, std::vector<Cause>& causes) {
  static_cast<void>(write);
  const std::string key = resource.key();
  if (key == "apps/deployments" || key == "apps/replicasets" || key == "apps/daemonsets" ||
      key == "apps/statefulsets") {
    check_replicas(object, causes);
    check_template(object, live, causes);
  } else if (key == "/pods") {
    if (const Value* spec = object.find("spec")) {
      check_containers(*spec, "spec", causes);
      const std::string policy = text_at(*spec, {"restartPolicy"});
      if (policy != "Always" && policy != "OnFailure" && policy != "Never")
        causes.push_back(Cause::unsupported("spec.restartPolicy", in_quotes(policy),
                                            {"Always", "OnFailure", "Never"}));
    }
  } else if (key == "/services") {
    check_service(object, live, causes);
  } else if (key == "coordination.k8s.io/leases") {
    check_lease(object, causes);
  }
}

}  // namespace rocca::lab::kube
