#include "kube/client.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "text/answer.hpp"

#include <fmt/format.h>

#include <utility>

namespace rocca::kube {

namespace {

constexpr const char* json = "application/json";
constexpr const char* metadata =
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";

const char* content_type(Patch type) {
  switch (type) {
    case Patch::Json:
      return "application/json-patch+json";
    case Patch::Merge:
      return "application/merge-patch+json";
    case Patch::Strategic:
      break;
  }
  return "application/strategic-merge-patch+json";
}

Failure failure_of(const net::Answer& answer) {
  return classify(answer.head.status, answer.head.headers, answer.body);
}

/// Not there; a path that is not served is something else.
bool absent(const net::Answer& answer) {
  return answer.head.status == 404 && failure_of(answer).reason == Reason::NotFound;
}

}  // namespace

std::string path_of(const Resource& resource, std::string_view space, std::string_view name) {
  std::string path = resource.group.empty()
                         ? fmt::format("/api/{}", resource.version)
                         : fmt::format("/apis/{}/{}", resource.group, resource.version);
  if (!space.empty()) path += "/namespaces/" + percent_encode(space);
  path += fmt::format("/{}", resource.plural);
  if (!name.empty()) path += "/" + percent_encode(name);
  return path;
}

Client::Client(net::Transport& transport, Files& files, Access access, std::string manager,
               std::stop_token stop)
    : transport_(transport),
      files_(files),
      access_(std::move(access)),
      manager_(std::move(manager)),
      stop_(std::move(stop)) {
  if (!net::Url::parse(access_.server))
    throw Error(Fault::Usage, fmt::format("'{}' is no address of a server", access_.server));
}

net::Request Client::request(const std::string& method, const std::string& path, const Query& query,
                             const std::string& accept) {
  net::Request request;
  request.method = method;
  request.url = access_.server + path;
  char mark = '?';
  for (const auto& [name, value] : query) {
    request.url += fmt::format("{}{}={}", mark, percent_encode(name), percent_encode(value));
    mark = '&';
  }
  request.headers.add("Accept", accept);
  request.tls = access_.tls;
  if (!access_.impersonate.empty()) request.headers.add("Impersonate-User", access_.impersonate);
  for (const std::string& group : access_.impersonate_groups)
    request.headers.add("Impersonate-Group", group);
  request.authorization = access_.authorization;
  if (!access_.token_file.empty()) {
    std::string token = files_.get(access_.token_file);
    request.authorization = Secret(fmt::format("Bearer {}", trim(token)));
    wipe(token);
  }
  return request;
}

net::Answer Client::send(const std::string& method, const std::string& path, const Query& query,
                         const std::string& type, std::string body, const std::string& accept) {
  net::Request asked = request(method, path, query, accept);
  if (!type.empty()) {
    asked.headers.add("Content-Type", type);
    asked.body = std::move(body);
  }
  net::Answer answer = net::fetch(transport_, asked, stop_);
  if (heard_) heard_(answer.head.headers);
  return answer;
}

Value Client::read(const net::Answer& answer, std::string_view doing, bool writing) const {
  if (answer.head.status >= 300) throw failure_of(answer).error(doing, writing);
  return text::parse_answer(answer.body, fmt::format("answer of {}", access_.server),
                            {.size = 64ull * 1024 * 1024, .values = 8'000'000});
}

std::optional<Value> Client::find(const std::string& path) {
  const net::Answer answer = send("GET", path);
  if (absent(answer)) return std::nullopt;
  return read(answer, "reading " + path, false);
}

Value Client::get(const std::string& path) {
  return read(send("GET", path), "reading " + path, false);
}

std::vector<Value> Client::list(const std::string& path, const Query& query, unsigned page) {
  for (int tries = 0;; ++tries) {
    std::vector<Value> items;
    std::string next;
    bool too_old = false;
    do {
      Query asked = query;
      if (page != 0) asked.emplace_back("limit", std::to_string(page));
      if (!next.empty()) asked.emplace_back("continue", next);
      const net::Answer answer = send("GET", path, asked);
      // The first pages are of a version that the server has forgotten.
      too_old = answer.head.status == 410 && !next.empty() && tries < 3;
      if (too_old) break;
      Value part = read(answer, "listing " + path, false);
      if (Value* found = part.find("items"); found != nullptr && found->is_list())
        for (Value& item : found->items()) items.push_back(std::move(item));
      const Value* token = part.find({"metadata", "continue"});
      next = token != nullptr && token->is_string() ? token->text() : "";
    } while (!next.empty());
    if (!too_old) return items;
  }
}

std::optional<Value> Client::create(const std::string& collection, const Value& object) {
  const net::Answer answer =
      send("POST", collection, {{"fieldManager", manager_}}, json, text::emit_json(object));
  if (answer.head.status == 409 && failure_of(answer).reason == Reason::AlreadyExists)
    return std::nullopt;
  return read(answer, "creating in " + collection, true);
}

std::optional<Value> Client::update(const std::string& path, const Value& object) {
  const net::Answer answer =
      send("PUT", path, {{"fieldManager", manager_}}, json, text::emit_json(object));
  if (absent(answer) || answer.head.status == 409) return std::nullopt;
  return read(answer, "writing " + path, true);
}

std::optional<Value> Client::patch(const std::string& path, Patch type, const Value& change,
                                   Give give) {
  const net::Answer answer = send("PATCH", path, {{"fieldManager", manager_}}, content_type(type),
                                  text::emit_json(change), give == Give::Object ? json : metadata);
  if (absent(answer) || answer.head.status == 409) return std::nullopt;
  return read(answer, "changing " + path, true);
}

std::variant<Value, Failure> Client::apply(const std::string& path, const Value& object,
                                           bool force) {
  const net::Answer answer =
      send("PATCH", path, {{"fieldManager", manager_}, {"force", force ? "true" : "false"}},
           "application/apply-patch+yaml", text::emit_json(object));
  if (answer.head.status == 409) return failure_of(answer);
  return read(answer, "applying " + path, true);
}

std::variant<Value, Failure> Client::try_apply(const std::string& path, const Value& object,
                                               bool rehearse) {
  Query query{{"fieldManager", manager_}, {"force", "true"}};
  if (rehearse) query.emplace_back("dryRun", "All");
  const net::Answer answer =
      send("PATCH", path, query, "application/apply-patch+yaml", text::emit_json(object));
  if (answer.head.status >= 300) return failure_of(answer);
  return read(answer, "applying " + path, true);
}

bool Client::release(const std::string& path, const Value& object) {
  // An apply makes what is not there: the uid makes sure that it is.
  Value nothing = Value::map();
  for (const char* key : {"apiVersion", "kind"})
    if (const Value* value = object.find(key)) nothing.set(key, *value);
  Value& about = nothing.set("metadata", Value::map());
  for (const char* key : {"name", "namespace", "uid"})
    if (const Value* value = object.find({"metadata", key})) about.set(key, *value);
  const auto answer = try_apply(path, nothing, false);
  if (const auto* failure = std::get_if<Failure>(&answer)) {
    if (failure->reason == Reason::Conflict || failure->reason == Reason::NotFound) return false;
    throw failure->error("giving up what we own of " + path, true);
  }
  return true;
}

void Client::stream(const std::string& path, const Query& query, net::BodySink& sink) {
  /// A refusal is kept, anything else goes through.
  class Gate final : public net::BodySink {
   public:
    explicit Gate(net::BodySink& to) : to_(to) {}
    void begin(const net::Response& head) override {
      refused_ = head.status >= 300;
      if (!refused_) to_.begin(head);
    }
    bool write(std::string_view bytes) override {
      return refused_ ? kept_.write(bytes) : to_.write(bytes);
    }
    std::string& kept() { return kept_.text(); }

   private:
    net::BodySink& to_;
    net::MemorySink kept_;
    bool refused_ = false;
  };
  net::Request asked = request("GET", path, query, json);
  asked.timeout.reset();
  Gate gate{sink};
  net::Answer answer;
  answer.head = transport_.exchange(asked, gate, stop_);
  if (heard_) heard_(answer.head.headers);
  if (answer.head.status < 300) return;
  answer.body = std::move(gate.kept());
  throw failure_of(answer).error("watching " + path, false);
}

std::optional<std::string> Client::find_log(const std::string& space, const std::string& pod,
                                            const std::string& container, unsigned lines) {
  Query query{{"tailLines", std::to_string(lines)}};
  if (!container.empty()) query.emplace_back("container", container);
  const std::string path = path_of({"", "v1", "pods"}, space, pod) + "/log";
  net::Answer answer = send("GET", path, query, "", "", "text/plain, application/json, */*");
  // 400: the container waits to start, or there is none of that name.
  if (answer.head.status == 404 || answer.head.status == 400) return std::nullopt;
  if (answer.head.status >= 300) throw failure_of(answer).error("reading " + path, false);
  return std::move(answer.body);
}

bool Client::remove(const std::string& path, const Removal& removal) {
  Value options = Value::map();
  options.set("apiVersion", Value::string("v1"));
  options.set("kind", Value::string("DeleteOptions"));
  if (!removal.propagation.empty())
    options.set("propagationPolicy", Value::string(removal.propagation));
  if (removal.grace_seconds)
    options.set("gracePeriodSeconds", Value::unsigned_integer(*removal.grace_seconds));
  if (!removal.uid.empty() || !removal.resource_version.empty()) {
    Value& conditions = options.set("preconditions", Value::map());
    if (!removal.uid.empty()) conditions.set("uid", Value::string(removal.uid));
    if (!removal.resource_version.empty())
      conditions.set("resourceVersion", Value::string(removal.resource_version));
  }
  const bool plain = options.size() == 2;
  const net::Answer answer =
      send("DELETE", path, {}, plain ? "" : json, plain ? "" : text::emit_json(options));
  if (absent(answer) || answer.head.status == 409) return false;
  read(answer, "removing " + path, true);
  return true;
}

}  // namespace rocca::kube
