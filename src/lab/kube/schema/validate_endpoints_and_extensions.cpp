// EndpointSlices, disruption budgets, webhook configurations, definitions and API services.
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

bool is_v4(const std::string& address) {
  const std::vector<std::string> parts = split(address, '.');
  return parts.size() == 4 && std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
           const auto number = parse_uint(part);
           return number && *number < 256;
         });
}

bool is_v6(const std::string& address) {
  return address.find(':') != std::string::npos &&
         address.find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos;
}

void check_slice(const Value& object, const Value* live, std::vector<Cause>& causes) {
  const std::string family = text_at(object, {"addressType"});
  if (live != nullptr && text_at(*live, {"addressType"}) != family)
    causes.push_back(Cause::invalid("addressType", in_quotes(family), "field is immutable"));
  const Value* endpoints = object.find("endpoints");
  if (endpoints == nullptr || !endpoints->is_list()) return;
  for (std::size_t i = 0; i < endpoints->items().size(); ++i) {
    const Value* addresses = endpoints->items()[i].find("addresses");
    if (addresses == nullptr || !addresses->is_list()) continue;
    for (std::size_t j = 0; j < addresses->items().size(); ++j) {
      const std::string& address = addresses->items()[j].text();
      const std::string path = fmt::format("endpoints[{}].addresses[{}]", i, j);
      if (!is_v4(address) && !is_v6(address)) {
        causes.push_back(Cause::invalid(path, in_quotes(address),
                                        "must be a valid IP address, (e.g. 10.9.8.7 or "
                                        "2001:db8::ffff)"));
        continue;
      }
      if (family == "IPv4" && !is_v4(address))
        causes.push_back(Cause::invalid(fmt::format("endpoints[{}].addresses", i),
                                        in_quotes(address), "must be an IPv4 address"));
      check_address(address, path, causes);
    }
  }
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
  if (least != nullptr && most != nullptr) {
    const Value* selector = object.find({"spec", "selector"});
    causes.push_back(Cause::invalid(
        "spec",
        fmt::format(
            R"({{"MinAvailable":{},"Selector":{},"MaxUnavailable":{},"UnhealthyPodEvictionPolicy":null}})",
            text::emit_json(*least), selector == nullptr ? "null" : text::emit_json(*selector),
            text::emit_json(*most)),
        "minAvailable and maxUnavailable cannot be both set"));
  }
  for (const auto& [name, value] : {std::pair{"minAvailable", least}, {"maxUnavailable", most}})
    if (value != nullptr && value->is_string())
      if (const auto percent = parse_int(replace_all(value->text(), "%", ""));
          percent && *percent > 100)
        causes.push_back(Cause::invalid(fmt::format("spec.{}", name), in_quotes(value->text()),
                                        "must not be greater than 100%"));
}

void check_webhooks(const Value& object, std::vector<Cause>& causes) {
  const Value* hooks = object.find("webhooks");
  if (hooks == nullptr || !hooks->is_list()) return;
  for (std::size_t i = 0; i < hooks->items().size(); ++i) {
    const Value& hook = hooks->items()[i];
    const std::string path = fmt::format("webhooks[{}]", i);
    const std::string name = text_at(hook, {"name"});
    if (split(name, '.').size() < 3)
      causes.push_back(Cause::invalid(path + ".name", in_quotes(name),
                                      "should be a domain with at least three segments separated "
                                      "by dots"));
    const Value* url = hook.find({"clientConfig", "url"});
    const Value* service = hook.find({"clientConfig", "service"});
    if ((url == nullptr) == (service == nullptr)) {
      causes.push_back(
          Cause::required(path + ".clientConfig", "exactly one of url or service is required"));
    } else if (url != nullptr && !url->text().starts_with("https://")) {
      const std::string scheme = url->text().substr(0, url->text().find(':'));
      causes.push_back(Cause::invalid(path + ".clientConfig.url", in_quotes(scheme),
                                      "'https' is the only allowed URL scheme; desired format: "
                                      "https://host[/path]"));
    }
    const std::int64_t seconds = int_at(hook, {"timeoutSeconds"}, 10);
    if (seconds < 1 || seconds > 30)
      causes.push_back(Cause::invalid(path + ".timeoutSeconds", std::to_string(seconds),
                                      "the timeout value must be between 1 and 30 seconds"));
    const std::string effects = text_at(hook, {"sideEffects"});
    if (effects != "None" && effects != "NoneOnDryRun")
      causes.push_back(
          Cause::unsupported(path + ".sideEffects", in_quotes(effects), {"None", "NoneOnDryRun"}));
  }
}

void check_definition(const Value& object, const Value* live, std::vector<Cause>& causes) {
  const std::string name = text_at(object, {"metadata", "name"});
  const std::string wanted =
      text_at(object, {"spec", "names", "plural"}) + "." + text_at(object, {"spec", "group"});
  if (name != wanted)
    causes.push_back(Cause::invalid("metadata.name", in_quotes(name),
                                    "must be spec.names.plural+\".\"+spec.group"));
  if (live == nullptr) return;
  const Value* versions = object.find({"spec", "versions"});
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

void check_stateful_set(const Value& object, const Value* live, std::vector<Cause>& causes) {
  if (live == nullptr) return;
  Value before = *live->find("spec");
  Value after = *object.find("spec");
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

}  // namespace

void check_more(const Resource& resource, const Value& object, const Value* live,
                std::vector<Cause>& causes) {
  const std::string key = resource.key();
  if (key == "discovery.k8s.io/endpointslices") check_slice(object, live, causes);
  if (key == "/endpoints") check_endpoints(object, causes);
  if (key == "policy/poddisruptionbudgets") check_budget(object, causes);
  if (resource.kind.ends_with("WebhookConfiguration")) check_webhooks(object, causes);
  if (resource.kind == "CustomResourceDefinition") check_definition(object, live, causes);
  if (resource.kind == "APIService") check_api_service(object, causes);
  if (resource.kind == "StatefulSet") check_stateful_set(object, live, causes);
}

}  // namespace rocca::lab::kube
