#include "lab/kube/server.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "base/uuid.hpp"
#include "lab/kube/controllers/controllers.hpp"
#include "lab/kube/pairs.hpp"
#include "lab/kube/watch.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using text::Value;

namespace {

constexpr std::size_t body_limit = 3 * 1024 * 1024;

std::vector<std::pair<std::string, std::string>> read_query(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string& part : split(text, '&')) {
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');
    const auto decoded = [](std::string_view raw) {
      return percent_decode(replace_all(raw, "+", " "));
    };
    out.emplace_back(
        decoded(std::string_view(part).substr(0, equals)),
        equals == std::string::npos ? "" : decoded(std::string_view(part).substr(equals + 1)));
  }
  return out;
}

/// Go writes YAML by key.
Value sorted(const Value& value) {
  if (value.is_list()) {
    Value out = Value::list();
    for (const Value& item : value.items()) out.append(sorted(item));
    return out;
  }
  if (!value.is_map()) return value;
  std::map<std::string, Value> by_key;
  for (const text::Entry& entry : value.entries()) by_key[entry.key] = sorted(entry.value);
  Value out = Value::map();
  for (auto& [key, inner] : by_key) out.set(key, std::move(inner));
  return out;
}

}  // namespace

std::optional<std::string> Call::option(std::string_view wanted) const {
  for (const auto& [key, value] : query)
    if (key == wanted) return value;
  return std::nullopt;
}

std::string Call::option_or(std::string_view wanted, std::string otherwise) const {
  return option(wanted).value_or(std::move(otherwise));
}

std::string Call::header(std::string_view wanted) const {
  return std::string(headers.find(wanted).value_or(""));
}

ObjectKey key_of(const Value& object) {
  return {text_at(object, {"metadata", "namespace"}), text_at(object, {"metadata", "name"})};
}

bool is_false(std::string_view option) {
  return option == "0" || option == "false" || option == "False" || option == "FALSE";
}

Server::Server(World& world, Api::Options options)
    : world_(world), options_(std::move(options)), entropy_(world.fork(options_.name)) {
  storage_.on_change([this](const Change& change) {
    if (change.resource == "apiextensions.k8s.io/customresourcedefinitions")
      crd_changed(change.before.get(), change.after.get());
    deliver(change);
  });
  controllers_ = std::make_unique<Controllers>(*this);
  if (options_.settled)
    controllers_->settle([this] { bootstrap(); });
  else
    bootstrap();
}

Server::~Server() {
  std::list<Watch> open = std::exchange(watches_, {});
  for (Watch& watch : open) watch.to->cut();
}

std::string Server::timestamp() const {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(static_cast<std::time_t>(world_.unix_time())));
}

std::string Server::micro_timestamp() const {
  const auto since = world_.now().time_since_epoch();
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(since).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06d}Z",
                     fmt::gmtime(static_cast<std::time_t>(micros / 1'000'000)), micros % 1'000'000);
}

std::string Server::new_uid() {
  std::string bytes = entropy_.bytes(16);
  bytes[6] = static_cast<char>((static_cast<unsigned char>(bytes[6]) & 0x0fu) | 0x40u);
  bytes[8] = static_cast<char>((static_cast<unsigned char>(bytes[8]) & 0x3fu) | 0x80u);
  const std::string hex = to_hex(bytes);
  return fmt::format("{}-{}-{}-{}-{}", hex.substr(0, 8), hex.substr(8, 4), hex.substr(12, 4),
                     hex.substr(16, 4), hex.substr(20));
}

std::string Server::random_suffix(std::size_t length) {
  // Kubernetes leaves out vowels and digits that look like them.
  static constexpr std::string_view letters = "bcdfghjklmnpqrstvwxz2456789";
  std::string out;
  for (std::size_t i = 0; i < length; ++i) out += letters[entropy_.below(letters.size())];
  return out;
}

std::string Server::allocate_cluster_ip() {
  const std::uint64_t next = next_address_++;
  return fmt::format("{}.{}.{}", options_.service_prefix, next / 250, next % 250 + 1);
}

void Server::bootstrap() {
  const Write write{
      "kube-apiserver", {"system:apiserver", {"system:masters"}}, false, {}, nullptr, true};
  const Resource& namespaces = *kinds_.find("", "v1", "namespaces");
  for (const char* name : {"default", "kube-system", "kube-public", "kube-node-lease"}) {
    Value object = Value::map();
    set_at(object, {"metadata", "name"}, str(name));
    set_defaults(namespaces, object);
    create(namespaces, "", std::move(object), write);
  }
  const Resource& classes = *kinds_.find("scheduling.k8s.io", "v1", "priorityclasses");
  for (const auto& [name, value] :
       {std::pair{"system-cluster-critical", 2000000000}, {"system-node-critical", 2000001000}}) {
    Value object = Value::map();
    set_at(object, {"metadata", "name"}, str(name));
    object.set("value", num(value));
    set_defaults(classes, object);
    create(classes, "", std::move(object), write);
  }
  const Resource& roles = *kinds_.find("rbac.authorization.k8s.io", "v1", "clusterroles");
  const Resource& bindings = *kinds_.find("rbac.authorization.k8s.io", "v1", "clusterrolebindings");
  const auto role = [&](const char* name, const char* rules) {
    Value object = Value::map();
    set_at(object, {"metadata", "name"}, str(name));
    set_at(object, {"metadata", "labels", "kubernetes.io/bootstrapping"}, str("rbac-defaults"));
    object.set("rules", json(rules));
    create(roles, "", std::move(object), write);
  };
  const auto bind = [&](const char* name, const std::string& group) {
    Value object = Value::map();
    const bool nobody = group == "system:unauthenticated";
    set_at(object, {"metadata", "name"}, str(nobody ? fmt::format("{}-anonymous", name) : name));
    set_at(object, {"metadata", "labels", "kubernetes.io/bootstrapping"}, str("rbac-defaults"));
    object.set("roleRef",
               json(fmt::format(
                   R"({{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"{}"}})",
                   name)));
    object.set(
        "subjects",
        json(fmt::format(
            R"([{{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"{}"}}])", group)));
    create(bindings, "", std::move(object), write);
  };
  role(
      "cluster-admin",
      R"([{"verbs":["*"],"apiGroups":["*"],"resources":["*"]},{"verbs":["*"],"nonResourceURLs":["*"]}])");
  role(
      "admin",
      R"([{"verbs":["*"],"apiGroups":["","apps","batch","policy","networking.k8s.io"],"resources":["*"]}])");
  role(
      "edit",
      R"([{"verbs":["get","list","watch","create","update","patch","delete"],"apiGroups":["","apps","batch"],"resources":["*"]}])");
  role(
      "view",
      R"([{"verbs":["get","list","watch"],"apiGroups":[""],"resources":["configmaps","endpoints","persistentvolumeclaims","pods","replicationcontrollers","serviceaccounts","services","pods/log","pods/status","namespaces","events"]},{"verbs":["get","list","watch"],"apiGroups":["apps","batch","networking.k8s.io","policy","discovery.k8s.io"],"resources":["*"]}])");
  role(
      "system:discovery",
      R"([{"verbs":["get"],"nonResourceURLs":["/api","/api/*","/apis","/apis/*","/healthz","/livez","/openapi","/openapi/*","/readyz","/version","/version/"]}])");
  role(
      "system:public-info-viewer",
      R"([{"verbs":["get"],"nonResourceURLs":["/healthz","/livez","/readyz","/version","/version/"]}])");
  role(
      "system:basic-user",
      R"([{"verbs":["create"],"apiGroups":["authorization.k8s.io"],"resources":["selfsubjectaccessreviews","selfsubjectrulesreviews"]},{"verbs":["create"],"apiGroups":["authentication.k8s.io"],"resources":["selfsubjectreviews"]}])");
  bind("cluster-admin", "system:masters");
  bind("system:discovery", "system:authenticated");
  bind("system:public-info-viewer", "system:authenticated");
  bind("system:public-info-viewer", "system:unauthenticated");
  bind("system:basic-user", "system:authenticated");
  // A watch cache begins with what it found: nothing before it can be asked for.
  storage_.compact(storage_.revision());
}

void Server::handle(net::Incoming request, std::shared_ptr<net::Responder> to,
                    const std::optional<User>& fixed) {
  Call call;
  call.method = request.method;
  const std::size_t mark = request.target.find('?');
  call.path = percent_decode(std::string_view(request.target).substr(0, mark));
  if (mark != std::string::npos)
    call.query = read_query(std::string_view(request.target).substr(mark + 1));
  call.headers = request.headers;
  call.body = std::move(request.body);
  request.body.clear();
  try {
    std::optional<User> user = fixed ? fixed : authenticate(request);
    if (!user) throw Failure{401, "Unauthorized", "Unauthorized", {}};
    call.user = std::move(*user);
    dispatch(call, to);
  } catch (const Failure& failure) {
    send(to, call, failure);
  }
}

void Server::parse_path(Call& call) const {
  // /api/v1/… or /apis/GROUP/VERSION/…, with an old `watch/` in front of the resource.
  std::size_t at = 0;
  if (call.parts[0] == "api") {
    call.version = call.parts[1];
    at = 2;
  } else {
    call.group = call.parts[1];
    call.version = call.parts[2];
    at = 3;
  }
  std::vector<std::string> rest(call.parts.begin() + static_cast<std::ptrdiff_t>(at),
                                call.parts.end());
  if (!rest.empty() && rest[0] == "watch") {
    call.watch = true;
    rest.erase(rest.begin());
  }
  if (rest.size() > 2 && rest[0] == "namespaces" &&
      !(rest.size() == 3 && (rest[2] == "status" || rest[2] == "finalize"))) {
    call.space = rest[1];
    rest.erase(rest.begin(), rest.begin() + 2);
  }
  if (rest.empty()) return;
  call.plural = rest[0];
  if (rest.size() > 1) call.name = rest[1];
  if (rest.size() > 2) call.subresource = rest[2];
  if (rest.size() > 3 && call.subresource != "proxy") call.subresource += "/…";
  call.resource = kinds_.find(call.group, call.version, call.plural);
  const std::string watch = call.option_or("watch", "0");
  if (call.option("watch") && !is_false(watch)) call.watch = true;
  if (call.method == "GET" || call.method == "HEAD")
    call.verb = !call.name.empty() && !call.watch ? "get" : call.watch ? "watch" : "list";
  if (call.method == "GET" && !call.name.empty() && call.option("watch")) {
    call.verb = "get";  // `?watch=1` behind a name is a plain get
    call.watch = false;
  }
  if (call.method == "POST") call.verb = "create";
  if (call.method == "PUT") call.verb = "update";
  if (call.method == "PATCH") call.verb = "patch";
  if (call.method == "DELETE") call.verb = call.name.empty() ? "deletecollection" : "delete";
}

void Server::dispatch(Call& call, const std::shared_ptr<net::Responder>& to) {
  for (const std::string& part : split(call.path, '/'))
    if (!part.empty()) call.parts.push_back(part);
  const std::size_t depth = call.parts.empty() ? 0 : call.parts[0] == "api" ? 2 : 3;
  const bool is_resource = !call.parts.empty() &&
                           (call.parts[0] == "api" || call.parts[0] == "apis") &&
                           call.parts.size() > depth;
  Question question;
  question.path = call.path;
  question.verb = to_lower(call.method);
  if (is_resource) {
    parse_path(call);
    question = {call.verb, call.group, call.plural, call.subresource, call.name, call.space, ""};
    if (call.plural == "namespaces" && call.group.empty() && !call.name.empty())
      question.space = call.name;
  }
  if (const auto impersonated = call.headers.find("Impersonate-User")) {
    Question may{"impersonate", "", "users", "", std::string(*impersonated), "", ""};
    if (const auto why = refuse(call.user, may)) throw forbidden("", "users", *impersonated, *why);
    User other{std::string(*impersonated), {}};
    for (const std::string_view group : call.headers.all("Impersonate-Group"))
      other.groups.emplace_back(group);
    other.groups.emplace_back("system:authenticated");
    call.user = std::move(other);
  }
  if (call.headers.find("Impersonate-Group") && !call.headers.find("Impersonate-User")) {
    Reply reply;
    reply.status = 500;
    reply.text = fmt::format(
        "Internal Server Error: \"{}\": requested [{{Group  {}    }}] without impersonating a "
        "user\n",
        call.path, *call.headers.find("Impersonate-Group"));
    reply.type = "text/plain; charset=utf-8";
    return send(to, call, std::move(reply));
  }
  if (const auto why = refuse(call.user, question)) {
    if (!is_resource) {
      Failure failure = forbidden("", "", "", *why);
      failure.message = *why;
      failure.details = Value::map();
      throw failure;
    }
    throw forbidden(call.group, call.plural, call.name, *why);
  }
  if (call.body.size() > body_limit)
    throw Failure{413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728", {}};
  if (!is_resource) {
    if (std::optional<Reply> reply = fixed_path(call)) return send(to, call, std::move(*reply));
    Reply reply;
    reply.status = 404;
    reply.text = "404 page not found\n";
    reply.type = "text/plain; charset=utf-8";
    return send(to, call, std::move(reply));
  }
  if (!kinds_.has_group(call.group) && !call.group.empty()) {
    Reply reply;
    reply.status = 404;
    reply.text = "404 page not found\n";
    reply.type = "text/plain; charset=utf-8";
    return send(to, call, std::move(reply));
  }
  const std::vector<const Resource*> group = kinds_.of(call.group, call.version);
  const bool custom_group = !call.group.empty() && (group.empty() ? kinds_.is_custom(call.group)
                                                                  : group.front()->custom());
  if (custom_group &&
      (call.resource == nullptr || (!call.resource->namespaced && !call.space.empty()) ||
       (call.resource->namespaced && call.space.empty() && !call.name.empty()))) {
    // Custom kinds are served by another handler, which knows no Status for this.
    Reply reply;
    reply.status = 404;
    reply.text = "404 page not found\n";
    reply.type = "text/plain; charset=utf-8";
    return send(to, call, std::move(reply));
  }
  if (call.resource != nullptr && call.resource->custom() && !call.subresource.empty() &&
      call.resource->find(call.subresource) == nullptr)
    throw not_found(call.group, call.plural, call.name);
  const Failure unknown{404, "NotFound", "the server could not find the requested resource",
                        Value::map()};
  if (call.resource == nullptr) throw unknown;
  if (!call.subresource.empty() && call.resource->find(call.subresource) == nullptr) throw unknown;
  if (!call.resource->namespaced && !call.space.empty()) throw unknown;
  if (call.resource->namespaced && call.space.empty() && !call.name.empty()) throw unknown;
  if (!has_quorum() && !(call.method == "GET" && call.option_or("resourceVersion") == "0")) {
    // Reads that want the newest state and all writes wait for etcd until the request's deadline,
    // then the connection is closed without an answer.
    world_.after(std::chrono::seconds{60}, [to] { to->cut(); });
    return;
  }
  if (!call.resource->deprecation.empty()) call.warnings.push_back(call.resource->deprecation);
  if (call.resource->key() == "/endpoints" && call.method != "GET")
    call.warnings.emplace_back(
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice");
  const bool allowed = !call.subresource.empty() || call.resource->can(call.verb);
  if (!call.verb.empty() && allowed && !is_played(*call.resource, call.verb, call.subresource))
    throw Failure{501, "NotImplemented",
                  fmt::format("the lab does not simulate {} of {}{}", call.verb,
                              qualified(call.plural, call.group),
                              call.subresource.empty() ? "" : "/" + call.subresource),
                  Value::map()};
  if (call.verb == "watch") return start_watch(call, to);
  Reply reply = resource_request(call);
  send(to, call, negotiate(call, std::move(reply)));
}

Reply Server::resource_request(Call& call) {
  if (call.verb.empty()) throw method_not_allowed();
  if (!call.subresource.empty()) {
    const Subresource& sub = *call.resource->find(call.subresource);
    if (std::find(sub.verbs.begin(), sub.verbs.end(), call.verb) == sub.verbs.end()) {
      Failure failure = method_not_allowed();
      if (call.resource->custom()) {
        // Custom kinds are served by another handler, which names the kind.
        failure.message = fmt::format("{} is not supported on resources of kind \"{}\"", call.verb,
                                      qualified(call.plural, call.group));
        failure.details.set("group", str(call.group));
        failure.details.set("kind", str(call.plural));
      }
      throw failure;
    }
    return subresource_request(call);
  }
  if (!call.resource->can(call.verb)) throw method_not_allowed();
  if (call.verb == "create" && !call.name.empty() && !call.resource->custom())
    throw method_not_allowed();
  if ((call.verb == "update" || call.verb == "patch") && call.name.empty()) {
    if (call.resource->custom()) throw bad_request("name must be provided");
    throw method_not_allowed();
  }
  if (call.verb == "get") return read_one(call);
  if (call.verb == "list") return list(call);
  if (call.verb == "create") return create_request(call);
  if (call.verb == "update") return update_request(call);
  if (call.verb == "patch") return patch_request(call);
  if (call.verb == "delete") return delete_request(call);
  return delete_collection(call);
}

void Server::send(const std::shared_ptr<net::Responder>& to, const Call& call, Reply reply) const {
  net::Headers headers = std::move(reply.headers);
  std::string body;
  if (reply.text) {
    body = std::move(*reply.text);
  } else if (reply.type == "application/yaml") {
    body = text::emit_yaml(sorted(reply.body));
  } else {
    body = text::emit_json(reply.body) + "\n";
  }
  headers.add("Content-Type", reply.type);
  headers.add("Cache-Control", "no-cache, private");
  for (const std::string& warning : call.warnings)
    headers.add("Warning", "299 - " + in_quotes(warning));
  to->answer(reply.status, "", std::move(headers), std::move(body), {});
}

void Server::send(const std::shared_ptr<net::Responder>& to, const Call& call,
                  const Failure& failure) const {
  Reply reply;
  reply.status = failure.code;
  reply.body = failure.status();
  reply.headers = failure.headers;
  send(to, call, std::move(reply));
}

void Server::restart() {
  started_at_ = storage_.revision();
  storage_.compact(storage_.revision());
  std::list<Watch> ended = std::exchange(watches_, {});
  for (Watch& watch : ended) watch.to->finish({});
}

}  // namespace rocca::lab::kube
