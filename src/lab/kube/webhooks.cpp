// Admission by webhook: which are asked, how they are reached, and what their failures look like.
#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/kube/patch.hpp"
#include "lab/kube/server.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

bool listed(const Value& rule, std::string_view key, std::string_view wanted) {
  const Value* list = rule.find(key);
  if (list == nullptr || !list->is_list()) return false;
  return std::any_of(list->items().begin(), list->items().end(),
                     [&](const Value& one) { return one.text() == "*" || one.text() == wanted; });
}

bool rule_covers(const Value& rule, const Resource& resource, const std::string& operation,
                 const std::string& subresource) {
  if (!listed(rule, "operations", operation) || !listed(rule, "apiGroups", resource.group) ||
      !listed(rule, "apiVersions", resource.version))
    return false;
  const std::string scope = text_at(rule, {"scope"});
  if (scope == "Namespaced" && !resource.namespaced) return false;
  if (scope == "Cluster" && resource.namespaced) return false;
  const Value* resources = rule.find("resources");
  if (resources == nullptr || !resources->is_list()) return false;
  const std::string whole =
      subresource.empty() ? resource.plural : resource.plural + "/" + subresource;
  return std::any_of(resources->items().begin(), resources->items().end(), [&](const Value& one) {
    const std::string& form = one.text();
    return form == whole || form == "*/*" || (form == "*" && subresource.empty()) ||
           (form == resource.plural + "/*" && !subresource.empty()) ||
           (!subresource.empty() && form == "*/" + subresource);
  });
}

}  // namespace

std::optional<std::string> Server::webhook_trouble(const Value& client) const {
  const Value* service = client.find("service");
  if (service == nullptr || !service->is_map()) {
    const std::string url = text_at(client, {"url"});
    const auto parsed = net::Url::parse(url);
    if (!parsed) return fmt::format("dial tcp: lookup {}: no such host", url);
    return fmt::format("dial tcp {}:{}: connect: connection refused", parsed->host, parsed->port);
  }
  const std::string name = text_at(*service, {"name"});
  const std::string space = text_at(*service, {"namespace"});
  const std::int64_t port = int_at(*service, {"port"}, 443);
  const Object found = storage_.find("/services", {space, name});
  if (!found) return fmt::format("service {} not found", in_quotes(name));
  const Value* ports = found->find({"spec", "ports"});
  const bool has_port =
      ports != nullptr &&
      std::any_of(ports->items().begin(), ports->items().end(),
                  [&](const Value& one) { return int_at(one, {"port"}) == port; });
  if (!has_port)
    return fmt::format("no service port {} found for service {}", port, in_quotes(name));
  const std::string refused = fmt::format("dial tcp {}:{}: connect: connection refused",
                                          text_at(*found, {"spec", "clusterIP"}), port);
  // kube-proxy refuses for a Service without ready endpoints; behind a ready one the server may
  // still come up late.
  for (const auto& [key, slice] : storage_.all("discovery.k8s.io/endpointslices")) {
    if (key.space != space ||
        text_at(*slice, {"metadata", "labels", "kubernetes.io/service-name"}) != name)
      continue;
    const Value* endpoints = slice->find("endpoints");
    if (endpoints == nullptr || !endpoints->is_list()) continue;
    for (const Value& one : endpoints->items()) {
      const Value* ready = one.find({"conditions", "ready"});
      if (ready != nullptr && ready->as_bool() == false) continue;
      if (options_.webhook_listens && !options_.webhook_listens(space, name)) return refused;
      return std::nullopt;
    }
  }
  return refused;
}

void Server::check_conversion(const Resource& resource) const {
  if (resource.version == resource.stored ||
      text_at(resource.conversion, {"strategy"}) != "Webhook")
    return;
  const Value* client = resource.conversion.find({"webhook", "clientConfig"});
  if (client == nullptr) return;
  const auto trouble = webhook_trouble(*client);
  if (!trouble) return;
  const Value* service = client->find("service");
  const std::string url =
      service == nullptr
          ? text_at(*client, {"url"})
          : fmt::format("https://{}.{}.svc:{}{}", text_at(*service, {"name"}),
                        text_at(*service, {"namespace"}), int_at(*service, {"port"}, 443),
                        text_at(*service, {"path"}));
  throw plain_error(
      fmt::format("conversion webhook for {}/{}, Kind={} failed: Post \"{}?timeout="
                  "30s\": {}",
                  resource.group, resource.stored, resource.kind, url, *trouble));
}

WebhookAnswer Server::ask_webhook(const Value& hook, const Value& request) const {
  if (options_.webhook)
    if (std::optional<WebhookAnswer> answer = options_.webhook(hook, request)) return *answer;
  WebhookAnswer answer;
  const Value& client = *hook.find("clientConfig");
  if (const auto trouble = webhook_trouble(client)) {
    std::string url = text_at(client, {"url"});
    if (const Value* service = client.find("service"); service != nullptr && service->is_map())
      url = fmt::format("https://{}.{}.svc:{}{}", text_at(*service, {"name"}),
                        text_at(*service, {"namespace"}), int_at(*service, {"port"}, 443),
                        text_at(*service, {"path"}));
    answer.failure = fmt::format("failed to call webhook: Post \"{}?timeout={}s\": {}", url,
                                 int_at(hook, {"timeoutSeconds"}, 10), *trouble);
    return answer;
  }
  answer.response = json(R"({"allowed":true})");
  return answer;
}

void Server::call_webhooks(const Resource& resource, const std::string& operation, Value& object,
                           const Value* live, const Write& write, bool mutating) {
  const std::string key = mutating ? "admissionregistration.k8s.io/mutatingwebhookconfigurations"
                                   : "admissionregistration.k8s.io/validatingwebhookconfigurations";
  if (resource.group == "admissionregistration.k8s.io") return;
  const std::string space = text_at(object, {"metadata", "namespace"});
  const std::string name = text_at(object, {"metadata", "name"});
  for (const auto& [config_key, config] : storage_.all(key)) {
    const Value* hooks = config->find("webhooks");
    if (hooks == nullptr || !hooks->is_list()) continue;
    for (const Value& hook : hooks->items()) {
      const Value* rules = hook.find("rules");
      if (rules == nullptr || !rules->is_list() ||
          std::none_of(rules->items().begin(), rules->items().end(), [&](const Value& rule) {
            return rule_covers(rule, resource, operation, write.subresource);
          }))
        continue;
      if (const Value* selector = hook.find("objectSelector"))
        if (!LabelSelector::of(*selector).matches(object) &&
            (live == nullptr || !LabelSelector::of(*selector).matches(*live)))
          continue;
      if (const Value* selector = hook.find("namespaceSelector");
          selector != nullptr && !space.empty()) {
        const Object found = storage_.find("/namespaces", {"", space});
        if (found && !LabelSelector::of(*selector).matches(*found)) continue;
      }
      const std::string hook_name = text_at(hook, {"name"});
      Value request = Value::map();
      const std::string uid = new_uid();
      request.set("uid", str(uid));
      request.set("operation", str(operation));
      request.set("name", str(name));
      if (!space.empty()) request.set("namespace", str(space));
      request.set("object", shown(resource, object));
      request.set("dryRun", Value::boolean(write.dry_run));
      const WebhookAnswer answer = ask_webhook(hook, request);
      if (!answer.failure.empty()) {
        if (text_at(hook, {"failurePolicy"}) == "Ignore") continue;
        throw internal_error(fmt::format("failed calling webhook {}: {}", in_quotes(hook_name),
                                         replace_all(answer.failure, "<request uid>", uid)));
      }
      if (write.warnings != nullptr)
        if (const Value* warnings = answer.response.find("warnings"))
          for (const Value& one : warnings->items()) write.warnings->push_back(one.text());
      if (!bool_at(answer.response, {"allowed"})) {
        const std::string message = text_at(answer.response, {"status", "message"});
        const std::string reason = text_at(answer.response, {"status", "reason"});
        const std::int64_t code = int_at(answer.response, {"status", "code"}, 0);
        Failure failure;
        failure.code = static_cast<int>(code >= 400 ? code : 400);
        failure.reason = reason;
        failure.message =
            fmt::format("admission webhook {} denied the request", in_quotes(hook_name));
        if (!message.empty())
          failure.message += ": " + message;
        else if (!reason.empty())
          failure.message += ": " + reason;
        else
          failure.message += " without explanation";
        if (const Value* details = answer.response.find({"status", "details"}))
          failure.details = *details;
        throw failure;
      }
      if (mutating)
        if (const auto patch = from_base64(text_at(answer.response, {"patch"}));
            patch && !patch->empty()) {
          object = json_patch(object, read_json(*patch).value);
          object = ordered(resource, std::move(object));
        }
    }
  }
}

}  // namespace rocca::lab::kube
