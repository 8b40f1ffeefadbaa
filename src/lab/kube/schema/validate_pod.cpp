// A pod's spec: what ValidatePodSpec and ValidatePodUpdate refuse.
#include "base/strings.hpp"
#include "lab/kube/schema/decode.hpp"
#include "lab/kube/schema/names.hpp"
#include "lab/kube/schema/validate.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rocca::lab::kube {

using text::Value;

namespace {

const Value& list_of(const Value& map, std::string_view key) {
  static const Value none = Value::list();
  const Value* found = map.find(key);
  return found != nullptr && found->is_list() ? *found : none;
}

Cause duplicate(std::string path, const std::string& shown) {
  return {"FieldValueDuplicate", "Duplicate value: " + shown, std::move(path)};
}

void check_range(const Value& object, std::string_view field, const std::string& path,
                 std::int64_t least, Causes& causes) {
  const Value* found = object.find(field);
  if (found == nullptr || !found->as_int()) return;
  if (*found->as_int() < least || *found->as_int() > 2147483647)
    causes.push_back(
        Cause::invalid(fmt::format("{}.{}", path, field), std::to_string(*found->as_int()),
                       fmt::format("must be between {} and 2147483647, inclusive", least)));
}

void check_ports(const Value& container, const std::string& path, Causes& causes) {
  std::set<std::string> names;
  const Value& ports = list_of(container, "ports");
  for (std::size_t i = 0; i < ports.items().size(); ++i) {
    const Value& port = ports.items()[i];
    const std::string where = fmt::format("{}.ports[{}]", path, i);
    const std::string name = text_at(port, {"name"});
    if (!name.empty()) {
      const auto wrong = wrong_port_name(name);
      check_text(wrong, where + ".name", name, causes);
      if (wrong.empty() && !names.insert(name).second)
        causes.push_back(duplicate(where + ".name", in_quotes(name)));
    }
    const std::int64_t number = int_at(port, {"containerPort"});
    if (number == 0)
      causes.push_back(Cause::required(where + ".containerPort"));
    else
      check_port(number, where + ".containerPort", causes);
    if (const std::int64_t host = int_at(port, {"hostPort"}); host != 0)
      check_port(host, where + ".hostPort", causes);
    check_word(text_at(port, {"protocol"}), where + ".protocol", {"SCTP", "TCP", "UDP"}, causes);
  }
}

void check_field_path(const Value& reference, const std::string& path, Causes& causes) {
  static const std::set<std::string> known{"metadata.name",
                                           "metadata.namespace",
                                           "metadata.uid",
                                           "spec.nodeName",
                                           "spec.serviceAccountName",
                                           "status.hostIP",
                                           "status.hostIPs",
                                           "status.podIP",
                                           "status.podIPs"};
  const std::string field = text_at(reference, {"fieldPath"});
  if (field.empty()) {
    causes.push_back(Cause::required(path + ".fieldPath"));
  } else if (!known.contains(field) && !field.starts_with("metadata.annotations[") &&
             !field.starts_with("metadata.labels[")) {
    causes.push_back(
        Cause::invalid(path + ".fieldPath", in_quotes(field),
                       "error converting fieldPath: field label not supported: " + field));
  }
}

void check_env(const Value& container, const std::string& path, Causes& causes) {
  const Value& list = list_of(container, "env");
  for (std::size_t i = 0; i < list.items().size(); ++i) {
    const Value& one = list.items()[i];
    const std::string where = fmt::format("{}.env[{}]", path, i);
    const std::string name = text_at(one, {"name"});
    if (name.empty())
      causes.push_back(Cause::required(where + ".name"));
    else if (name.find('=') != std::string::npos)
      causes.push_back(Cause::invalid(where + ".name", in_quotes(name),
                                      "a valid environment variable name must consist only of "
                                      "printable ASCII characters other than '='"));
    const Value* from = one.find("valueFrom");
    if (from == nullptr || !from->is_map()) continue;
    std::size_t sources = 0;
    if (const Value* field = from->find("fieldRef")) {
      ++sources;
      check_field_path(*field, where + ".valueFrom.fieldRef", causes);
    }
    for (const char* kind : {"configMapKeyRef", "secretKeyRef"})
      if (const Value* key = from->find(kind)) {
        ++sources;
        if (text_at(*key, {"key"}).empty())
          causes.push_back(Cause::required(fmt::format("{}.valueFrom.{}.key", where, kind)));
        else
          check_text(wrong_config_key(text_at(*key, {"key"})),
                     fmt::format("{}.valueFrom.{}.key", where, kind), text_at(*key, {"key"}),
                     causes);
      }
    for (const char* kind : {"resourceFieldRef", "fileKeyRef"})
      if (from->find(kind) != nullptr) ++sources;
    if (sources == 0)
      causes.push_back(Cause::invalid(where + ".valueFrom", "\"\"",
                                      "must specify one of: `fieldRef`, `resourceFieldRef`, "
                                      "`configMapKeyRef` or `secretKeyRef`"));
    else if (!text_at(one, {"value"}).empty())
      causes.push_back(Cause::invalid(where + ".valueFrom", "\"\"",
                                      "may not be specified when `value` is not empty"));
    else if (sources > 1)
      causes.push_back(Cause::invalid(where + ".valueFrom", "\"\"",
                                      "may not have more than one field specified at a time"));
  }
}

void check_mounts(const Value& container, const Value& spec, const std::string& path,
                  Causes& causes) {
  const Value& mounts = list_of(container, "volumeMounts");
  std::set<std::string> places;
  for (std::size_t i = 0; i < mounts.items().size(); ++i) {
    const Value& mount = mounts.items()[i];
    const std::string where = fmt::format("{}.volumeMounts[{}]", path, i);
    const std::string name = text_at(mount, {"name"});
    if (name.empty()) causes.push_back(Cause::required(where + ".name"));
    const Value& volumes = list_of(spec, "volumes");
    if (std::none_of(volumes.items().begin(), volumes.items().end(),
                     [&](const Value& known) { return text_at(known, {"name"}) == name; }))
      causes.push_back({"FieldValueNotFound", "Not found: " + in_quotes(name), where + ".name"});
    const std::string at = text_at(mount, {"mountPath"});
    if (at.empty()) causes.push_back(Cause::required(where + ".mountPath"));
    if (!places.insert(at).second)
      causes.push_back(Cause::invalid(where + ".mountPath", in_quotes(at), "must be unique"));
  }
}

void check_resources(const Value& resources, const std::string& path, Causes& causes) {
  for (const char* kind : {"limits", "requests"}) {
    const Value* map = resources.find(kind);
    if (map == nullptr || !map->is_map()) continue;
    for (const text::Entry& entry : map->entries()) {
      const std::string where = fmt::format("{}.{}[{}]", path, kind, entry.key);
      if (quantity_value(entry.value.text()).value_or(0) < 0)
        causes.push_back(Cause::invalid(where, in_quotes(entry.value.text()),
                                        "must be greater than or equal to 0"));
    }
  }
  if (const Value* limits = resources.find("limits"); limits != nullptr && limits->is_map())
    for (const text::Entry& limit : limits->entries())
      if (const Value* request = resources.find({"requests", limit.key}))
        if (quantity_value(request->text()).value_or(0) >
            quantity_value(limit.value.text()).value_or(0))
          causes.push_back(
              Cause::invalid(path + ".requests", in_quotes(request->text()),
                             fmt::format("must be less than or equal to {} limit of {}", limit.key,
                                         limit.value.text())));
}

void check_probe(const Value& container, const char* kind, const std::string& path,
                 Causes& causes) {
  const Value* probe = container.find(kind);
  if (probe == nullptr || !probe->is_map()) return;
  const std::string where = fmt::format("{}.{}", path, kind);
  std::size_t handlers = 0;
  for (const char* handler : {"exec", "httpGet", "tcpSocket", "grpc"}) {
    const Value* found = probe->find(handler);
    if (found == nullptr || !found->is_map()) continue;
    if (handlers++ > 0) {
      causes.push_back(Cause::forbidden(fmt::format("{}.{}", where, handler),
                                        "may not specify more than 1 handler type"));
      continue;
    }
    if (std::string_view(handler) == "exec" && is_empty(found->find("command")))
      causes.push_back(Cause::required(where + ".exec.command"));
    if (std::string_view(handler) == "httpGet" || std::string_view(handler) == "tcpSocket")
      check_port_reference(found->find("port"), fmt::format("{}.{}.port", where, handler), causes);
  }
  if (handlers == 0) causes.push_back(Cause::required(where, "must specify a handler type"));
  for (const char* field : {"initialDelaySeconds", "timeoutSeconds", "periodSeconds",
                            "successThreshold", "failureThreshold"})
    check_least(*probe, field, where, 0, causes);
  if (std::string_view(kind) != "readinessProbe" && int_at(*probe, {"successThreshold"}, 1) != 1)
    causes.push_back(Cause::invalid(where + ".successThreshold",
                                    std::to_string(int_at(*probe, {"successThreshold"})),
                                    "must be 1"));
}

void check_container(const Value& one, const Value& spec, const std::string& path, Causes& causes) {
  const std::string name = text_at(one, {"name"});
  if (name.empty())
    causes.push_back(Cause::required(path + ".name"));
  else
    check_text(wrong_label(name), path + ".name", name, causes);
  const std::string image = text_at(one, {"image"});
  if (image.empty()) causes.push_back(Cause::required(path + ".image"));
  check_ports(one, path, causes);
  check_env(one, path, causes);
  check_mounts(one, spec, path, causes);
  check_word(text_at(one, {"imagePullPolicy"}), path + ".imagePullPolicy",
             {"Always", "IfNotPresent", "Never"}, causes);
  if (const Value* resources = one.find("resources"))
    check_resources(*resources, path + ".resources", causes);
  if (const Value* security = one.find("securityContext"); security != nullptr) {
    check_range(*security, "runAsUser", path + ".securityContext", 0, causes);
    check_range(*security, "runAsGroup", path + ".securityContext", 0, causes);
    if (bool_at(*security, {"privileged"}) &&
        security->find("allowPrivilegeEscalation") != nullptr &&
        !bool_at(*security, {"allowPrivilegeEscalation"}))
      causes.push_back(Cause::invalid(
          path + ".securityContext", shown_json(security),
          "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"));
  }
}

void check_containers(const Value& spec, const std::string& path, Causes& causes) {
  const Value& containers = list_of(spec, "containers");
  if (containers.size() == 0) causes.push_back(Cause::required(path + ".containers"));
  std::set<std::string> names;
  for (std::size_t i = 0; i < containers.items().size(); ++i) {
    const Value& one = containers.items()[i];
    const std::string where = fmt::format("{}.containers[{}]", path, i);
    check_container(one, spec, where, causes);
    if (!names.insert(text_at(one, {"name"})).second)
      causes.push_back(duplicate(where + ".name", in_quotes(text_at(one, {"name"}))));
    for (const char* probe : {"livenessProbe", "readinessProbe", "startupProbe"})
      check_probe(one, probe, where, causes);
    if (const Value* policy = one.find("restartPolicy"); policy != nullptr && !policy->is_null())
      causes.push_back(
          Cause::forbidden(where + ".restartPolicy", "may not be set for non-init containers"));
  }
  const Value& first = list_of(spec, "initContainers");
  for (std::size_t i = 0; i < first.items().size(); ++i) {
    const std::string where = fmt::format("{}.initContainers[{}]", path, i);
    check_container(first.items()[i], spec, where, causes);
    const std::string name = text_at(first.items()[i], {"name"});
    if (!names.insert(name).second) causes.push_back(duplicate(where + ".name", in_quotes(name)));
  }
}

void check_volumes(const Value& spec, const std::string& path, Causes& causes) {
  const Value& volumes = list_of(spec, "volumes");
  std::set<std::string> names;
  for (std::size_t i = 0; i < volumes.items().size(); ++i) {
    const Value& volume = volumes.items()[i];
    const std::string where = fmt::format("{}.volumes[{}]", path, i);
    const std::string name = text_at(volume, {"name"});
    std::vector<std::string> types;
    // The first of the known types counts, in the order of Go's struct.
    for (const char* type : {"emptyDir", "hostPath", "gitRepo", "secret", "nfs", "iscsi",
                             "persistentVolumeClaim", "rbd", "cephfs", "downwardAPI", "fc",
                             "configMap", "projected", "csi", "ephemeral", "image"})
      if (volume.find(type) != nullptr) types.emplace_back(type);
    for (std::size_t j = 1; j < types.size(); ++j)
      causes.push_back(Cause::forbidden(fmt::format("{}.{}", where, types[j]),
                                        "may not specify more than 1 volume type"));
    if (types.empty()) causes.push_back(Cause::required(where, "must specify a volume type"));
    if (const Value* secret = volume.find("secret");
        secret != nullptr && text_at(*secret, {"secretName"}).empty())
      causes.push_back(Cause::required(where + ".secret.secretName"));
    if (const Value* config = volume.find("configMap");
        config != nullptr && text_at(*config, {"name"}).empty())
      causes.push_back(Cause::required(where + ".configMap.name"));
    if (name.empty()) {
      causes.push_back(Cause::required(where + ".name"));
    } else if (const auto wrong = wrong_label(name); !wrong.empty()) {
      check_text(wrong, where + ".name", name, causes);
    } else if (!names.insert(name).second) {
      causes.push_back(duplicate(where + ".name", in_quotes(name)));
    }
  }
}

void check_tolerations(const Value& spec, const std::string& path, Causes& causes) {
  const Value& list = list_of(spec, "tolerations");
  for (std::size_t i = 0; i < list.items().size(); ++i) {
    const Value& one = list.items()[i];
    const std::string where = fmt::format("{}.tolerations[{}]", path, i);
    const std::string key = text_at(one, {"key"});
    const std::string word = text_at(one, {"operator"});
    const std::string value = text_at(one, {"value"});
    const std::string effect = text_at(one, {"effect"});
    if (!key.empty()) check_text(wrong_qualified_name(key), where + ".key", key, causes);
    if (key.empty() && word != "Exists")
      causes.push_back(Cause::invalid(where + ".operator", in_quotes(word),
                                      "operator must be Exists when `key` is empty, which means "
                                      "\"match all values and all keys\""));
    if (one.find("tolerationSeconds") != nullptr && effect != "NoExecute")
      causes.push_back(
          Cause::invalid(where + ".effect", in_quotes(effect),
                         "effect must be 'NoExecute' when `tolerationSeconds` is set"));
    if (word == "Exists") {
      if (!value.empty())
        causes.push_back(Cause::invalid(where + ".operator", in_quotes(value),
                                        "value must be empty when `operator` is 'Exists'"));
    } else if (word.empty() || word == "Equal") {
      const auto wrong = wrong_label_value(value);
      if (!wrong.empty())
        causes.push_back(Cause::invalid(where + ".operator", in_quotes(value), join(wrong, ";")));
    } else {
      causes.push_back(
          Cause::unsupported(where + ".operator", in_quotes(word), {"Equal", "Exists"}));
    }
    if (!effect.empty() && effect != "NoSchedule" && effect != "PreferNoSchedule" &&
        effect != "NoExecute")
      causes.push_back(Cause::unsupported(where + ".effect", in_quotes(effect),
                                          {"NoSchedule", "PreferNoSchedule", "NoExecute"}));
  }
}

void check_optional_text(const Value& spec, const char* field, const std::string& path,
                         std::vector<std::string> (*wrong)(std::string_view), Causes& causes) {
  const std::string text = text_at(spec, {field});
  if (!text.empty()) check_text(wrong(text), fmt::format("{}.{}", path, field), text, causes);
}

}  // namespace

void check_pod_spec(const Value& spec, const std::string& path, Causes& causes) {
  check_volumes(spec, path, causes);
  check_containers(spec, path, causes);
  check_word(text_at(spec, {"restartPolicy"}), path + ".restartPolicy",
             {"Always", "OnFailure", "Never"}, causes);
  check_word(text_at(spec, {"dnsPolicy"}), path + ".dnsPolicy",
             {"ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"}, causes);
  check_label_map(spec.find("nodeSelector"), path + ".nodeSelector", causes);
  if (const Value* security = spec.find("securityContext"); security != nullptr)
    for (const char* field : {"fsGroup", "runAsUser", "runAsGroup"})
      check_range(*security, field, path + ".securityContext", 0, causes);
  if (text_at(spec, {"dnsPolicy"}) == "None" && is_empty(spec.find("dnsConfig")))
    causes.push_back(
        Cause::required(path + ".dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None"));
  check_optional_text(spec, "serviceAccountName", path, wrong_subdomain, causes);
  check_optional_text(spec, "nodeName", path, wrong_subdomain, causes);
  check_range(spec, "activeDeadlineSeconds", path, 1, causes);
  check_optional_text(spec, "hostname", path, wrong_label, causes);
  check_optional_text(spec, "subdomain", path, wrong_label, causes);
  check_tolerations(spec, path, causes);
  check_optional_text(spec, "priorityClassName", path, wrong_subdomain, causes);
}

void check_pod_change(const Value& spec, const Value& live, Causes& causes) {
  for (const char* list : {"containers", "initContainers"}) {
    const Value& now = list_of(spec, list);
    const Value& before = list_of(live, list);
    if (now.size() != before.size()) {
      causes.push_back(Cause::forbidden(fmt::format("spec.{}", list),
                                        "pod updates may not add or remove containers"));
      return;
    }
    for (std::size_t i = 0; i < now.items().size(); ++i) {
      const std::string image = text_at(now.items()[i], {"image"});
      const std::string path = fmt::format("spec.{}[{}].image", list, i);
      // Found again by the check of the whole spec.
      if (image.empty()) causes.push_back(Cause::required(path));
      if (!image.empty() && std::string(trim(image)) != image)
        causes.push_back(
            Cause::invalid(path, in_quotes(image), "must not have leading or trailing whitespace"));
    }
  }
  const Value* deadline = spec.find("activeDeadlineSeconds");
  const Value* before = live.find("activeDeadlineSeconds");
  if (deadline != nullptr && before != nullptr &&
      deadline->as_int().value_or(0) > before->as_int().value_or(0))
    causes.push_back(Cause::invalid("spec.activeDeadlineSeconds", deadline->text(),
                                    "must be less than or equal to previous value"));
  if (deadline == nullptr && before != nullptr)
    causes.push_back(Cause::invalid("spec.activeDeadlineSeconds", "null",
                                    "must not update from a positive integer to nil value"));
  for (const Value& old : list_of(live, "tolerations").items()) {
    Value plain = old;
    plain.erase("tolerationSeconds");
    const Value& now = list_of(spec, "tolerations");
    if (std::none_of(now.items().begin(), now.items().end(), [&](const Value& one) {
          Value bare = one;
          bare.erase("tolerationSeconds");
          return bare == plain;
        })) {
      causes.push_back(
          Cause::forbidden("spec.tolerations",
                           "existing toleration can not be modified except its tolerationSeconds"));
      break;
    }
  }
  const auto fixed = [](const Value& value) {
    Value out = value;
    for (const char* list : {"containers", "initContainers"})
      if (Value* containers = out.find(list); containers != nullptr && containers->is_list())
        for (Value& one : containers->items()) one.erase("image");
    for (const char* free : {"activeDeadlineSeconds", "tolerations", "schedulingGates"})
      out.erase(free);
    return out;
  };
  if (!(fixed(spec) == fixed(live)))
    causes.push_back(Cause::forbidden(
        "spec",
        "pod updates may not change fields other than `spec.containers[*].image`,"
        "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
        "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be "
        "set to 1 if it was previously negative)\n"));
}

}  // namespace rocca::lab::kube
