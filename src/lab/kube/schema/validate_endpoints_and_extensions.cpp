// Endpoints, disruption budgets, webhook configurations, definitions and API services.
#include "base/address.hpp"
#include "base/strings.hpp"
#include "lab/kube/schema/names.hpp"
#include "lab/kube/schema/validate.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

void check_address(const std::string& address, const std::string& path,
                   std::vector<Cause>& causes) {
  const std::string shown = in_quotes(address);
  if (address.starts_with("127.") || address == "::1")
    causes.push_back(
        Cause::invalid(path, shown, "may not be in the loopback range (127.0.0.0/8, ::1/128)"));
  if (address.starts_with("169.254.") || to_lower(address).starts_with("fe80:"))
    causes.push_back(Cause::invalid(
        path, shown, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"));
}

void check_endpoints(const Value& object, std::vector<Cause>& causes) {
  const Value* subsets = object.find("subsets");
  if (subsets == nullptr || !subsets->is_list()) return;
  for (std::size_t i = 0; i < subsets->items().size(); ++i)
    if (const Value* addresses = subsets->items()[i].find("addresses"))
      for (std::size_t j = 0; j < addresses->items().size(); ++j)
        check_address(text_at(addresses->items()[j], {"ip"}),
                      fmt::format("subsets[{}].addresses[{}].ip", i, j), causes);
}

void check_budget(const Value& object, std::vector<Cause>& causes) {
  const Value* least = object.find({"spec", "minAvailable"});
  const Value* most = object.find({"spec", "maxUnavailable"});
  const std::string policy = text_at(object, {"spec", "unhealthyPodEvictionPolicy"});
  const Value* selector = object.find({"spec", "selector"});
  if (least != nullptr && most != nullptr)
    causes.push_back(Cause::invalid(
        "spec",
        fmt::format(
            R"({{"MinAvailable":{},"Selector":{},"MaxUnavailable":{},"UnhealthyPodEvictionPolicy":{}}})",
            text::emit_json(*least), shown_json(selector), text::emit_json(*most),
            policy.empty() ? "null" : in_quotes(policy)),
        "minAvailable and maxUnavailable cannot be both set"));
  for (const auto& [name, value] : {std::pair{"minAvailable", least}, {"maxUnavailable", most}}) {
    if (value == nullptr) continue;
    const std::string path = fmt::format("spec.{}", name);
    if (!value->is_string()) {
      if (value->as_int().value_or(0) < 0)
        causes.push_back(Cause::invalid(path, value->text(), "must be greater than or equal to 0"));
      continue;
    }
    const std::string& text = value->text();
    const auto percent =
        text.ends_with("%") ? parse_uint(text.substr(0, text.size() - 1)) : std::nullopt;
    if (!percent)
      causes.push_back(
          Cause::invalid(path, in_quotes(text),
                         "a valid percent string must be a numeric string followed by an ending "
                         "'%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"));
    else if (*percent > 100)
      causes.push_back(Cause::invalid(path, in_quotes(text), "must not be greater than 100%"));
  }
  check_label_selector(selector, "spec.selector", causes);
  if (!policy.empty() && policy != "AlwaysAllow" && policy != "IfHealthyBudget")
    causes.push_back(Cause::unsupported("spec.unhealthyPodEvictionPolicy", in_quotes(policy),
                                        {"AlwaysAllow", "IfHealthyBudget"}));
}

void check_webhook_rules(const Value& hook, const std::string& path, std::vector<Cause>& causes) {
  const Value* rules = hook.find("rules");
  if (rules == nullptr || !rules->is_list()) return;
  static const std::vector<std::string> known{"*", "CONNECT", "CREATE", "DELETE", "UPDATE"};
  for (std::size_t i = 0; i < rules->items().size(); ++i) {
    const Value& rule = rules->items()[i];
    const std::string where = fmt::format("{}.rules[{}]", path, i);
    const Value* operations = rule.find("operations");
    if (is_empty(operations)) {
      causes.push_back(Cause::required(where + ".operations"));
    } else {
      for (std::size_t j = 0; j < operations->items().size(); ++j)
        if (const std::string& word = operations->items()[j].text();
            std::find(known.begin(), known.end(), word) == known.end())
          causes.push_back(Cause::unsupported(fmt::format("{}.operations[{}]", where, j),
                                              in_quotes(word), known));
    }
    for (const char* field : {"apiGroups", "apiVersions", "resources"})
      if (is_empty(rule.find(field)))
        causes.push_back(Cause::required(fmt::format("{}.{}", where, field)));
  }
}

void check_webhook_client(const Value& hook, const std::string& path, std::vector<Cause>& causes) {
  const Value* url = hook.find({"clientConfig", "url"});
  const Value* service = hook.find({"clientConfig", "service"});
  if ((url == nullptr) == (service == nullptr)) {
    causes.push_back(
        Cause::required(path + ".clientConfig", "exactly one of url or service is required"));
    return;
  }
  if (url != nullptr && !url->text().starts_with("https://")) {
    const std::string scheme = url->text().substr(0, url->text().find(':'));
    causes.push_back(Cause::invalid(path + ".clientConfig.url", in_quotes(scheme),
                                    "'https' is the only allowed URL scheme; desired format: "
                                    "https://host[/path]"));
  }
  if (service == nullptr) return;
  // The API server hands the two over in the wrong order.
  for (const auto& [field, shown] : {std::pair{"namespace", "name"}, {"name", "namespace"}})
    if (text_at(*service, {field}).empty())
      causes.push_back(Cause::required(fmt::format("{}.clientConfig.service.{}", path, shown)));
}

void check_webhooks(const Value& object, std::vector<Cause>& causes) {
  const Value* hooks = object.find("webhooks");
  if (hooks == nullptr || !hooks->is_list()) return;
  for (std::size_t i = 0; i < hooks->items().size(); ++i) {
    const Value& hook = hooks->items()[i];
    const std::string path = fmt::format("webhooks[{}]", i);
    const std::string name = text_at(hook, {"name"});
    if (name.empty())
      causes.push_back(Cause::required(path + ".name"));
    else if (split(name, '.').size() < 3)
      causes.push_back(Cause::invalid(path + ".name", in_quotes(name),
                                      "should be a domain with at least three segments separated "
                                      "by dots"));
    check_webhook_rules(hook, path, causes);
    const std::string failure = text_at(hook, {"failurePolicy"});
    if (!failure.empty() && failure != "Fail" && failure != "Ignore")
      causes.push_back(
          Cause::unsupported(path + ".failurePolicy", in_quotes(failure), {"Fail", "Ignore"}));
    const std::string match = text_at(hook, {"matchPolicy"});
    if (!match.empty() && match != "Equivalent" && match != "Exact")
      causes.push_back(
          Cause::unsupported(path + ".matchPolicy", in_quotes(match), {"Equivalent", "Exact"}));
    const std::string effects = text_at(hook, {"sideEffects"});
    if (hook.find("sideEffects") == nullptr || hook.find("sideEffects")->is_null())
      causes.push_back(
          Cause::required(path + ".sideEffects", "must specify one of None, NoneOnDryRun"));
    else if (effects != "None" && effects != "NoneOnDryRun")
      causes.push_back(
          Cause::unsupported(path + ".sideEffects", in_quotes(effects), {"None", "NoneOnDryRun"}));
    const std::int64_t seconds = int_at(hook, {"timeoutSeconds"}, 10);
    if (seconds < 1 || seconds > 30)
      causes.push_back(Cause::invalid(path + ".timeoutSeconds", std::to_string(seconds),
                                      "the timeout value must be between 1 and 30 seconds"));
    for (const char* selector : {"namespaceSelector", "objectSelector"})
      check_label_selector(hook.find(selector), fmt::format("{}.{}", path, selector), causes);
    check_webhook_client(hook, path, causes);
    const Value* versions = hook.find("admissionReviewVersions");
    if (is_empty(versions)) {
      causes.push_back(
          Cause::required(path + ".admissionReviewVersions", "must specify one of v1, v1beta1"));
    } else if (std::none_of(versions->items().begin(), versions->items().end(),
                            [](const Value& one) {
                              return one.text() == "v1" || one.text() == "v1beta1";
                            })) {
      causes.push_back(Cause::invalid(path + ".admissionReviewVersions", text::emit_json(*versions),
                                      "must include at least one of v1, v1beta1"));
    }
  }
}

void check_definition_names(const Value& spec, std::vector<Cause>& causes) {
  const auto label = [&](const char* field) {
    const std::string text = text_at(spec, {"names", field});
    if (text.empty())
      causes.push_back(Cause::required(fmt::format("spec.names.{}", field)));
    else
      check_text(wrong_old_label(text), fmt::format("spec.names.{}", field), text, causes);
  };
  label("plural");
  if (!text_at(spec, {"names", "singular"}).empty()) label("singular");
  for (const char* field : {"kind", "listKind"}) {
    const std::string text = text_at(spec, {"names", field});
    if (text.empty()) {
      causes.push_back(Cause::required(fmt::format("spec.names.{}", field)));
      continue;
    }
    for (const std::string& why : wrong_old_label(to_lower(text)))
      causes.push_back(Cause::invalid(fmt::format("spec.names.{}", field), in_quotes(text),
                                      "may have mixed case, but should otherwise match: " + why));
  }
  if (const Value* names = spec.find({"names", "shortNames"}); names != nullptr && names->is_list())
    for (std::size_t i = 0; i < names->items().size(); ++i)
      check_text(wrong_old_label(names->items()[i].text()),
                 fmt::format("spec.names.shortNames[{}]", i), names->items()[i].text(), causes);
  if (text_at(spec, {"names", "kind"}) == text_at(spec, {"names", "listKind"}) &&
      !text_at(spec, {"names", "kind"}).empty())
    causes.push_back(Cause::invalid("spec.names.listKind",
                                    in_quotes(text_at(spec, {"names", "listKind"})),
                                    "kind and listKind may not be the same"));
}

void check_definition_versions(const Value& spec, std::vector<Cause>& causes) {
  const Value* versions = spec.find("versions");
  const std::size_t count =
      versions == nullptr || !versions->is_list() ? 0 : versions->items().size();
  std::size_t stored = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Value& version = versions->items()[i];
    const std::string name = text_at(version, {"name"});
    if (bool_at(version, {"storage"})) ++stored;
    check_text(wrong_old_label(name), fmt::format("spec.versions[{}].name", i), name, causes);
    if (i == 0 && count == 1) check_text(wrong_old_label(name), "spec.version", name, causes);
    const std::string columns = count == 1 ? "spec" : fmt::format("spec.versions[{}]", i);
    if (const Value* list = version.find("additionalPrinterColumns");
        list != nullptr && list->is_list())
      for (std::size_t j = 0; j < list->items().size(); ++j) {
        const std::string where = fmt::format("{}.additionalPrinterColumns[{}]", columns, j);
        const std::string type = text_at(list->items()[j], {"type"});
        const std::string path = text_at(list->items()[j], {"jsonPath"});
        if (type != "boolean" && type != "date" && type != "integer" && type != "number" &&
            type != "string")
          causes.push_back(Cause::invalid(where + ".type", in_quotes(type),
                                          "must be one of boolean,date,integer,number,string"));
        if (!path.starts_with("."))
          causes.push_back(Cause::invalid(where + ".JSONPath", in_quotes(path),
                                          "must be a simple json path starting with ."));
      }
    if (is_empty(version.find({"schema", "openAPIV3Schema"})))
      causes.push_back(
          Cause::required(count == 1 ? "spec.validation.openAPIV3Schema"
                                     : fmt::format("spec.versions[{}].schema.openAPIV3Schema", i),
                          "schemas are required"));
  }
  if (stored == 0)
    causes.push_back(
        Cause::invalid("status.storedVersions", "null", "must have at least one stored version"));
  if (stored != 1)
    causes.push_back(Cause::invalid("spec.versions",
                                    versions == nullptr ? "null"
                                    : count == 0        ? "[]"
                                                        : "[{",
                                    "must have exactly one version marked as storage version"));
}

void check_definition_change(const Value& spec, const Value& live, std::vector<Cause>& causes) {
  bool established = false;
  if (const Value* conditions = live.find({"status", "conditions"});
      conditions != nullptr && conditions->is_list())
    for (const Value& one : conditions->items())
      if (text_at(one, {"type"}) == "Established" && text_at(one, {"status"}) == "True")
        established = true;
  const auto fixed = [&](std::initializer_list<std::string_view> path, const std::string& shown) {
    const std::string now = text_at(spec, path);
    Value before_spec = live.find("spec") == nullptr ? Value::map() : *live.find("spec");
    if (text_at(before_spec, path) != now)
      causes.push_back(Cause::invalid(shown, in_quotes(now), "field is immutable"));
  };
  if (established) {
    fixed({"scope"}, "spec.scope");
    fixed({"names", "kind"}, "spec.names.kind");
  }
  fixed({"group"}, "spec.group");
  fixed({"names", "plural"}, "spec.names.plural");
}

void check_definition(const Value& object, const Value* live, std::vector<Cause>& causes) {
  const std::string name = text_at(object, {"metadata", "name"});
  const Value& spec = *object.find("spec");
  const std::string group = text_at(spec, {"group"});
  const std::string wanted = text_at(spec, {"names", "plural"}) + "." + group;
  if (name != wanted && !name.empty() && live == nullptr)
    causes.push_back(Cause::invalid("metadata.name", in_quotes(name),
                                    "must be spec.names.plural+\".\"+spec.group"));
  if (group.empty()) {
    causes.push_back(Cause::required("spec.group"));
  } else {
    check_text(wrong_subdomain(group), "spec.group", group, causes);
    if (split(group, '.').size() < 2)
      causes.push_back(Cause::invalid("spec.group", in_quotes(group),
                                      "should be a domain with at least one dot"));
  }
  check_word(text_at(spec, {"scope"}), "spec.scope", {"Cluster", "Namespaced"}, causes);
  check_definition_versions(spec, causes);
  check_definition_names(spec, causes);
  if (bool_at(spec, {"preserveUnknownFields"}) &&
      (live == nullptr || !bool_at(*live, {"spec", "preserveUnknownFields"})))
    causes.push_back(
        Cause::invalid("spec.preserveUnknownFields", "true",
                       "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
                       "spec.versions[*].schema instead"));
  if (bool_at(spec, {"preserveUnknownFields"}) &&
      text::emit_json(spec).find("\"default\":") != std::string::npos)
    causes.push_back(Cause::invalid("spec.preserveUnknownFields", "true",
                                    "must be false in order to use defaults in the schema"));
  const std::string strategy = text_at(spec, {"conversion", "strategy"});
  if (strategy == "Webhook") {
    if (is_empty(spec.find({"conversion", "webhook", "clientConfig"})))
      causes.push_back(Cause::required("spec.conversion.webhookClientConfig",
                                       "required when strategy is set to Webhook"));
    if (is_empty(spec.find({"conversion", "webhook", "conversionReviewVersions"})))
      causes.push_back(Cause::required("spec.conversion.conversionReviewVersions"));
  } else if (strategy != "None") {
    causes.push_back(
        Cause::unsupported("spec.conversion.strategy", in_quotes(strategy), {"None", "Webhook"}));
  }
  if (live == nullptr) return;
  check_definition_change(spec, *live, causes);
  const Value* versions = spec.find("versions");
  const Value* stored = object.find({"status", "storedVersions"});
  if (versions == nullptr || stored == nullptr || !stored->is_list()) return;
  for (std::size_t i = 0; i < stored->items().size(); ++i) {
    const std::string& version = stored->items()[i].text();
    if (std::none_of(versions->items().begin(), versions->items().end(),
                     [&](const Value& one) { return text_at(one, {"name"}) == version; }))
      causes.push_back(Cause::invalid(
          fmt::format("status.storedVersions[{}]", i), in_quotes(version),
          fmt::format("missing from spec.versions; {0} was previously a storage version, and must "
                      "remain in spec.versions until a storage migration ensures no data remains "
                      "persisted in {0} and removes {0} from status.storedVersions",
                      version)));
  }
}

void check_api_service(const Value& object, std::vector<Cause>& causes) {
  const std::string name = text_at(object, {"metadata", "name"});
  const std::string wanted =
      text_at(object, {"spec", "version"}) + "." + text_at(object, {"spec", "group"});
  if (name != wanted)
    causes.push_back(Cause::invalid(
        "metadata.name", in_quotes(name),
        fmt::format("must be `spec.version+\".\"+spec.group`: {}", in_quotes(wanted))));
  if (bool_at(object, {"spec", "insecureSkipTLSVerify"}) &&
      !text_at(object, {"spec", "caBundle"}).empty())
    causes.push_back(Cause::invalid("spec.insecureSkipTLSVerify", "true",
                                    "may not be true if caBundle is present"));
}

}  // namespace

void check_more(const Resource& resource, const Value& object, const Value* live,
                std::vector<Cause>& causes) {
  const std::string key = resource.key();
  if (key == "/endpoints") check_endpoints(object, causes);
  if (key == "policy/poddisruptionbudgets") check_budget(object, causes);
  if (resource.kind.ends_with("WebhookConfiguration")) check_webhooks(object, causes);
  if (resource.kind == "CustomResourceDefinition") check_definition(object, live, causes);
  if (resource.kind == "APIService") check_api_service(object, causes);
}

}  // namespace rocca::lab::kube
