#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/kube/server.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>

namespace rocca::lab::kube {

using text::Value;

namespace {

std::string digest(std::string_view bytes, const EVP_MD* kind) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), out.data(), &size, kind, nullptr);
  return {reinterpret_cast<const char*>(out.data()), size};
}

Value strings(const std::vector<std::string>& words) {
  Value out = Value::list();
  for (const std::string& word : words) out.append(str(word));
  return out;
}

// In the order a v1.34 API server starts them.
const std::vector<std::string>& start_hooks() {
  static const std::vector<std::string> hooks{
      "poststarthook/start-apiserver-admission-initializer",
      "poststarthook/generic-apiserver-start-informers",
      "poststarthook/priority-and-fairness-config-consumer",
      "poststarthook/priority-and-fairness-filter",
      "poststarthook/storage-object-count-tracker-hook",
      "poststarthook/start-apiextensions-informers",
      "poststarthook/start-apiextensions-controllers",
      "poststarthook/crd-informer-synced",
      "poststarthook/start-system-namespaces-controller",
      "poststarthook/start-cluster-authentication-info-controller",
      "poststarthook/start-kube-apiserver-identity-lease-controller",
      "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
      "poststarthook/start-legacy-token-tracking-controller",
      "poststarthook/start-service-ip-repair-controllers",
      "poststarthook/rbac/bootstrap-roles",
      "poststarthook/scheduling/bootstrap-system-priority-classes",
      "poststarthook/priority-and-fairness-config-producer",
      "poststarthook/bootstrap-controller",
      "poststarthook/start-kubernetes-service-cidr-controller",
      "poststarthook/aggregator-reload-proxy-client-cert",
      "poststarthook/start-kube-aggregator-informers",
      "poststarthook/apiservice-status-local-available-controller",
      "poststarthook/apiservice-status-remote-available-controller",
      "poststarthook/apiservice-registration-controller",
      "poststarthook/apiservice-discovery-controller",
      "poststarthook/kube-apiserver-autoregistration",
      "autoregister-completion",
      "poststarthook/apiservice-openapi-controller",
      "poststarthook/apiservice-openapiv3-controller"};
  return hooks;
}

std::vector<std::string> checks_of(const std::string& which) {
  std::vector<std::string> checks{"ping", "log", "etcd"};
  if (which == "readyz") checks.insert(checks.end(), {"etcd-readiness", "informer-sync"});
  checks.insert(checks.end(), start_hooks().begin(), start_hooks().end());
  if (which == "readyz") checks.emplace_back("shutdown");
  return checks;
}

Value group_document(const Group& group) {
  Value out = Value::map();
  out.set("name", str(group.name));
  Value versions = Value::list();
  const auto version = [&](const std::string& name) {
    Value one = Value::map();
    one.set("groupVersion", str(group.name + "/" + name));
    one.set("version", str(name));
    return one;
  };
  for (const std::string& name : group.versions) versions.append(version(name));
  out.set("versions", std::move(versions));
  out.set("preferredVersion", version(group.versions.front()));
  return out;
}

Value resource_list(const Kinds& kinds, const std::string& group, const std::string& version) {
  Value out = Value::map();
  out.set("kind", str("APIResourceList"));
  if (!group.empty()) out.set("apiVersion", str("v1"));
  out.set("groupVersion", str(group.empty() ? version : group + "/" + version));
  Value list = Value::list();
  for (const Resource* one : kinds.of(group, version)) {
    Value entry = Value::map();
    entry.set("name", str(one->plural));
    entry.set("singularName", str(one->singular));
    entry.set("namespaced", Value::boolean(one->namespaced));
    entry.set("kind", str(one->kind));
    entry.set("verbs", strings(one->verbs));
    if (!one->short_names.empty()) entry.set("shortNames", strings(one->short_names));
    if (!one->categories.empty()) entry.set("categories", strings(one->categories));
    if (one->can("get") && one->kind != "ComponentStatus") {
      const std::string group_version =
          one->group + "/" + (one->kind == "CustomResourceDefinition" ? "v1beta1" : one->stored);
      entry.set("storageVersionHash",
                str(to_base64(digest(group_version + "/" + one->kind, EVP_sha256()).substr(0, 8))));
    }
    list.append(std::move(entry));
    for (const Subresource& sub : one->subresources) {
      Value below = Value::map();
      below.set("name", str(one->plural + "/" + sub.name));
      below.set("singularName", str(""));
      below.set("namespaced", Value::boolean(one->namespaced));
      if (!sub.group.empty()) below.set("group", str(sub.group));
      if (!sub.version.empty()) below.set("version", str(sub.version));
      below.set("kind", str(sub.kind));
      below.set("verbs", strings(sub.verbs));
      list.append(std::move(below));
    }
  }
  out.set("resources", std::move(list));
  return out;
}

Value response_kind(const std::string& group, const std::string& version, const std::string& kind) {
  Value out = Value::map();
  out.set("group", str(group));
  out.set("version", str(version));
  out.set("kind", str(kind));
  return out;
}

Value aggregated_version(const Kinds& kinds, const std::string& group, const std::string& version) {
  Value out = Value::map();
  out.set("version", str(version));
  Value list = Value::list();
  for (const Resource* one : kinds.of(group, version)) {
    Value entry = Value::map();
    entry.set("resource", str(one->plural));
    // Built-in kinds leave out what follows from where they stand.
    entry.set("responseKind", one->custom() ? response_kind(group, version, one->kind)
                                            : response_kind("", "", one->kind));
    entry.set("scope", str(one->namespaced ? "Namespaced" : "Cluster"));
    entry.set("singularResource", str(one->singular));
    entry.set("verbs", strings(one->verbs));
    if (!one->short_names.empty()) entry.set("shortNames", strings(one->short_names));
    if (!one->categories.empty()) entry.set("categories", strings(one->categories));
    Value below = Value::list();
    for (const Subresource& sub : one->subresources) {
      Value inner = Value::map();
      inner.set("subresource", str(sub.name));
      inner.set("responseKind", one->custom() && sub.group.empty()
                                    ? response_kind(group, version, sub.kind)
                                    : response_kind(sub.group, sub.version, sub.kind));
      inner.set("verbs", strings(sub.verbs));
      below.append(std::move(inner));
    }
    if (below.size() != 0) entry.set("subresources", std::move(below));
    list.append(std::move(entry));
  }
  out.set("resources", std::move(list));
  out.set("freshness", str("Current"));
  return out;
}

}  // namespace

Reply Server::health(const Call& call) const {
  Reply reply;
  reply.type = "text/plain; charset=utf-8";
  const std::string& which = call.parts[0];
  const std::vector<std::string> checks = checks_of(which);
  if (call.parts.size() > 1) {
    const std::string wanted = call.path.substr(call.path.find('/', 1) + 1);
    if (std::find(checks.begin(), checks.end(), wanted) == checks.end()) {
      reply.status = 404;
      reply.text = "404 page not found\n";
    } else {
      reply.text = "ok";
    }
    return reply;
  }
  const bool well = has_quorum();
  if (well && !call.option("verbose")) {
    reply.text = "ok";
    return reply;
  }
  std::string text;
  for (const std::string& check : checks)
    text += check.starts_with("etcd") && !well
                ? fmt::format("[-]{} failed: reason withheld\n", check)
                : fmt::format("[+]{} ok\n", check);
  text += fmt::format("{} check {}\n", which, well ? "passed" : "failed");
  reply.status = well ? 200 : 500;
  reply.text = std::move(text);
  return reply;
}

Reply Server::aggregated(const Call& call, bool core) const {
  static_cast<void>(call);
  Value out = Value::map();
  out.set("kind", str("APIGroupDiscoveryList"));
  out.set("apiVersion", str("apidiscovery.k8s.io/v2"));
  out.set("metadata", Value::map());
  Value items = Value::list();
  const auto add = [&](const Group& group) {
    Value item = Value::map();
    Value metadata = Value::map();
    if (!group.name.empty()) metadata.set("name", str(group.name));
    item.set("metadata", std::move(metadata));
    Value versions = Value::list();
    for (const std::string& version : group.versions)
      versions.append(aggregated_version(kinds_, group.name, version));
    item.set("versions", std::move(versions));
    items.append(std::move(item));
  };
  if (core)
    add({"", {"v1"}});
  else
    for (const Group& group : kinds_.groups()) add(group);
  out.set("items", std::move(items));
  Reply reply;
  reply.body = std::move(out);
  reply.type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
  std::string tag = to_hex(digest(text::emit_json(reply.body), EVP_sha512()));
  std::transform(tag.begin(), tag.end(), tag.begin(), [](char c) {
    return c >= 'a' && c <= 'f' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  reply.headers.add("Etag", "\"" + tag + "\"");
  reply.headers.add("Vary", "Accept");
  return reply;
}

std::optional<Reply> Server::fixed_path(Call& call) {
  static const std::vector<std::string> plain{"livez", "readyz", "healthz"};
  const std::string first = call.parts.empty() ? "" : call.parts[0];
  const bool health_path = std::find(plain.begin(), plain.end(), first) != plain.end();
  const bool known = call.parts.empty() || health_path || first == "version" || first == "api" ||
                     first == "apis" || first == "openapi";
  if (!known) return std::nullopt;
  if (call.method != "GET" && call.method != "HEAD") throw method_not_allowed();
  if (health_path) return health(call);
  Reply reply;
  const bool grouped = call.header("Accept").find("as=APIGroupDiscoveryList") != std::string::npos;
  const auto vary = [&] {
    if (call.parts.size() == 1) reply.headers.add("Vary", "Accept");
  };
  if (first == "version" && call.parts.size() == 1) {
    reply.body = json(fmt::format(
        R"({{"major":"1","minor":"{}","emulationMajor":"1","emulationMinor":"{}","minCompatibilityMajor":"1","minCompatibilityMinor":"{}","gitVersion":"{}","gitCommit":"$Format:%H$","gitTreeState":"clean","buildDate":"1970-01-01T00:00:00Z","goVersion":"go1.26.8","compiler":"gc","platform":"linux/amd64"}})",
        split(options_.version, '.')[1], split(options_.version, '.')[1],
        parse_int(split(options_.version, '.')[1]).value_or(1) - 1, options_.version));
    return reply;
  }
  if (first == "api") {
    if (call.parts.size() == 1) {
      if (grouped) return aggregated(call, true);
      vary();
      reply.body = json(fmt::format(
          R"({{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{{"clientCIDR":"0.0.0.0/0","serverAddress":"{}"}}]}})",
          options_.address));
      return reply;
    }
    if (call.parts[1] != "v1")
      throw Failure{404, "NotFound", "the server could not find the requested resource",
                    Value::map()};
    reply.body = resource_list(kinds_, "", "v1");
    return reply;
  }
  if (first == "apis") {
    if (call.parts.size() == 1) {
      if (grouped) return aggregated(call, false);
      vary();
      Value groups = Value::list();
      for (const Group& group : kinds_.groups()) groups.append(group_document(group));
      reply.body = json(R"({"kind":"APIGroupList","apiVersion":"v1"})");
      reply.body.set("groups", std::move(groups));
      return reply;
    }
    for (const Group& group : kinds_.groups()) {
      if (group.name != call.parts[1]) continue;
      if (call.parts.size() == 2) {
        reply.body = json(R"({"kind":"APIGroup","apiVersion":"v1"})");
        const Value more = group_document(group);
        for (const text::Entry& entry : more.entries()) reply.body.set(entry.key, entry.value);
        return reply;
      }
      if (!kinds_.has_version(group.name, call.parts[2]))
        throw Failure{404, "NotFound", "the server could not find the requested resource",
                      Value::map()};
      reply.body = resource_list(kinds_, group.name, call.parts[2]);
      return reply;
    }
    return std::nullopt;
  }
  if (first == "openapi" && call.path == "/openapi/v3") {
    std::vector<std::string> paths{".well-known/openid-configuration", "api", "api/v1", "apis"};
    for (const Group& group : kinds_.groups()) {
      paths.push_back("apis/" + group.name);
      for (const std::string& version : group.versions)
        paths.push_back("apis/" + group.name + "/" + version);
    }
    paths.insert(paths.end(), {"logs", "openid/v1/jwks", "version"});
    Value out = Value::map();
    for (const std::string& path : paths) {
      std::string tag = to_hex(digest(path, EVP_sha512()));
      std::transform(tag.begin(), tag.end(), tag.begin(), [](char c) {
        return c >= 'a' && c <= 'f' ? static_cast<char>(c - 'a' + 'A') : c;
      });
      set_at(out, {"paths", path, "serverRelativeURL"},
             str(fmt::format("/openapi/v3/{}?hash={}", path, tag)));
    }
    reply.text = text::emit_json(out);
    reply.type = "text/plain; charset=utf-8";
    return reply;
  }
  if (call.parts.empty()) {
    std::vector<std::string> paths{"/.well-known/openid-configuration", "/api", "/api/v1", "/apis",
                                   "/apis/"};
    std::vector<std::string> groups;
    for (const Group& group : kinds_.groups()) {
      groups.push_back("/apis/" + group.name);
      for (const std::string& version : group.versions)
        groups.push_back("/apis/" + group.name + "/" + version);
    }
    std::sort(groups.begin(), groups.end());
    paths.insert(paths.end(), groups.begin(), groups.end());
    for (const std::string which : {"healthz", "livez", "readyz"}) {
      paths.push_back("/" + which);
      std::vector<std::string> checks = checks_of(which);
      std::sort(checks.begin(), checks.end());
      for (const std::string& check : checks) paths.push_back("/" + which + "/" + check);
      if (which == "healthz") continue;
    }
    paths.insert(paths.end(), {"/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3",
                               "/openapi/v3/", "/openid/v1/jwks", "/version"});
    std::sort(paths.begin(), paths.end());
    reply.body = Value::map();
    reply.body.set("paths", strings(paths));
    return reply;
  }
  return std::nullopt;
}

}  // namespace rocca::lab::kube
