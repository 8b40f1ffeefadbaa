// Roles and bindings.
#include "lab/kube/schema/names.hpp"
#include "lab/kube/schema/validate.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

namespace rocca::lab::kube {

using text::Value;

namespace {

constexpr const char* rbac = "rbac.authorization.k8s.io";

void check_rules(const Value& object, bool namespaced, Causes& causes) {
  const Value* rules = object.find("rules");
  if (rules == nullptr || !rules->is_list()) return;
  for (std::size_t i = 0; i < rules->items().size(); ++i) {
    const Value& rule = rules->items()[i];
    const std::string where = fmt::format("rules[{}]", i);
    if (is_empty(rule.find("verbs")))
      causes.push_back(Cause::required(where + ".verbs", "verbs must contain at least one value"));
    if (const Value* urls = rule.find("nonResourceURLs"); !is_empty(urls)) {
      if (namespaced)
        causes.push_back(Cause::invalid(where + ".nonResourceURLs", text::emit_json(*urls),
                                        "namespaced rules cannot apply to non-resource URLs"));
      if (!is_empty(rule.find("apiGroups")) || !is_empty(rule.find("resources")) ||
          !is_empty(rule.find("resourceNames")))
        causes.push_back(
            Cause::invalid(where + ".nonResourceURLs", text::emit_json(*urls),
                           "rules cannot apply to both regular resources and non-resource URLs"));
      continue;
    }
    if (is_empty(rule.find("apiGroups")))
      causes.push_back(Cause::required(where + ".apiGroups",
                                       "resource rules must supply at least one api group"));
    if (is_empty(rule.find("resources")))
      causes.push_back(Cause::required(where + ".resources",
                                       "resource rules must supply at least one resource"));
  }
}

void check_subject(const Value& subject, const std::string& where, Causes& causes) {
  const std::string kind = text_at(subject, {"kind"});
  const std::string name = text_at(subject, {"name"});
  const std::string group = text_at(subject, {"apiGroup"});
  if (name.empty()) causes.push_back(Cause::required(where + ".name"));
  if (kind == "ServiceAccount") {
    if (!name.empty()) check_text(wrong_subdomain(name), where + ".name", name, causes);
    if (!group.empty())
      causes.push_back(Cause::unsupported(where + ".apiGroup", in_quotes(group), {""}));
    if (text_at(subject, {"namespace"}).empty())
      causes.push_back(Cause::required(where + ".namespace"));
  } else if (kind == "User" || kind == "Group") {
    if (group != rbac)
      causes.push_back(Cause::unsupported(where + ".apiGroup", in_quotes(group), {rbac}));
  } else {
    causes.push_back(
        Cause::unsupported(where + ".kind", in_quotes(kind), {"ServiceAccount", "User", "Group"}));
  }
}

void check_binding(const Value& object, const Value* live, bool namespaced, Causes& causes) {
  const std::string group = text_at(object, {"roleRef", "apiGroup"});
  const std::string kind = text_at(object, {"roleRef", "kind"});
  const std::string name = text_at(object, {"roleRef", "name"});
  if (group != rbac)
    causes.push_back(Cause::unsupported("roleRef.apiGroup", in_quotes(group), {rbac}));
  if (kind != "ClusterRole" && !(namespaced && kind == "Role"))
    causes.push_back(Cause::unsupported("roleRef.kind", in_quotes(kind),
                                        namespaced ? std::vector<std::string>{"Role", "ClusterRole"}
                                                   : std::vector<std::string>{"ClusterRole"}));
  if (name.empty())
    causes.push_back(Cause::required("roleRef.name"));
  else
    check_text(wrong_path_segment(name), "roleRef.name", name, causes);
  if (const Value* subjects = object.find("subjects"); subjects != nullptr && subjects->is_list())
    for (std::size_t i = 0; i < subjects->items().size(); ++i)
      check_subject(subjects->items()[i], fmt::format("subjects[{}]", i), causes);
  if (live != nullptr && !same_values(live->find("roleRef"), object.find("roleRef")))
    causes.push_back(Cause::invalid(
        "roleRef", fmt::format(R"({{"APIGroup":"{}","Kind":"{}","Name":"{}"}})", group, kind, name),
        "cannot change roleRef"));
}

}  // namespace

void check_access(const Resource& resource, const Value& object, const Value* live,
                  Causes& causes) {
  if (resource.kind == "Role") check_rules(object, true, causes);
  if (resource.kind == "ClusterRole") {
    check_rules(object, false, causes);
    if (const Value* rule = object.find("aggregationRule"); rule != nullptr && rule->is_map()) {
      const Value* selectors = rule->find("clusterRoleSelectors");
      if (is_empty(selectors))
        causes.push_back(Cause::required(
            "aggregationRule.clusterRoleSelectors",
            "at least one clusterRoleSelector required if aggregationRule is non-nil"));
    }
  }
  if (resource.kind == "RoleBinding") check_binding(object, live, true, causes);
  if (resource.kind == "ClusterRoleBinding") check_binding(object, live, false, causes);
}

}  // namespace rocca::lab::kube
