#include "infisical/client.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "net/plain_http.hpp"
#include "text/answer.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

namespace rocca::infisical {

namespace {

std::string query_of(const Place& place, const std::string& path_key) {
  return fmt::format("projectId={}&environment={}&{}={}", percent_encode(place.project),
                     percent_encode(place.environment), path_key, percent_encode(place.path));
}

text::Value body_of(const Place& place, const std::string& path_key) {
  text::Value body = text::Value::map();
  body.set("projectId", text::Value::string(place.project));
  body.set("environment", text::Value::string(place.environment));
  body.set(path_key, text::Value::string(place.path));
  return body;
}

std::string text_or(const text::Value& object, std::string_view key,
                    std::string_view fallback = "") {
  const text::Value* value = object.find(key);
  return value != nullptr && value->is_scalar() && !value->is_null() ? value->text()
                                                                     : std::string(fallback);
}

/// The message of an error; a validation failure brings a list of them.
std::string message_of(const text::Value& body) {
  const text::Value* message = body.find("message");
  if (message == nullptr) return "";
  if (!message->is_list()) return message->is_scalar() ? message->text() : "";
  std::vector<std::string> lines;
  for (const text::Value& item : message->items())
    lines.push_back(text_or(item, "message", "invalid"));
  return join(lines, "; ");
}

Secret secret_at(const text::Value& object) {
  return Secret{text_or(object, "secretValue")};
}

std::string place_text(const Place& place) {
  return fmt::format("{} in environment {} of project {}", place.path, place.environment,
                     place.project);
}

/// A place's folder as the API wants it: where it lies, and its name.
std::pair<Place, std::string> parent_and_name(const Place& place) {
  std::string path = place.path;
  while (path.ends_with('/')) path.pop_back();
  const std::size_t slash = path.rfind('/');
  Place parent = place;
  parent.path = slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
  return {parent, slash == std::string::npos ? path : path.substr(slash + 1)};
}

/// Not for what was merely looked for: a folder that is missing on the way to a secret.
bool says_missing(const std::string& message) {
  return message.starts_with("Secret ") || message.starts_with("Folder ");
}

}  // namespace

std::string kept_form(std::string_view value) {
  return std::string(trim(value)) + (value.ends_with('\n') ? "\n" : "");
}

Client::Client(net::Transport& transport, const Clock& clock, Access access, std::stop_token stop)
    : transport_(transport), clock_(clock), access_(std::move(access)), stop_(std::move(stop)) {
  while (access_.host.ends_with('/')) access_.host.pop_back();
  const auto url = net::Url::parse(access_.host);
  if (!url || url->target != "/")
    throw Error(Fault::Usage, fmt::format("'{}' is no Infisical host", access_.host))
        .hint("write it as https://eu.infisical.com, or your own host");
  // The login carries the identity in its body, where the transport does not see it.
  net::refuse_plain_http(*url, access_.plain_http);
}

Client::Reply Client::send(const std::string& method, const std::string& path,
                           const std::string& query, const std::string& json, bool with_token) {
  net::Request request;
  request.method = method;
  request.url = access_.host + path + (query.empty() ? "" : "?" + query);
  request.tls = access_.tls;
  request.plain_http = access_.plain_http;
  request.timeout = std::chrono::seconds{30};
  if (with_token) request.authorization = Secret(fmt::format("Bearer {}", token_->reveal()));
  if (!json.empty()) {
    request.headers.add("Content-Type", "application/json");
    request.body = json;
  }
  net::Answer answer = within(fmt::format("asking Infisical at {}", access_.host),
                              [&] { return net::fetch(transport_, request, stop_); });
  Reply reply{answer.head.status, std::move(answer.body), "", "",
              std::string(answer.head.headers.find("retry-after").value_or(""))};
  if (reply.status < 400) return reply;
  try {
    const text::Value body = text::parse_json(reply.body, "answer");
    reply.message = message_of(body);
    reply.error = text_or(body, "error");
  } catch (const Error& error) {
    if (error.fault() != Fault::Usage) throw;  // the body is not JSON
    reply.message = fmt::format("status {} without an explanation", reply.status);
  }
  return reply;
}

void Client::fail(const Reply& reply, const std::string& doing) const {
  const std::string message =
      fmt::format("Infisical at {} refused {}: {}", access_.host, doing, reply.message);
  switch (reply.status) {
    case 401:
      throw Error(Fault::Denied, message)
          .hint(
              "the machine identity's client id or secret is wrong, or it is locked after too many "
              "tries");
    case 403:
      throw Error(Fault::Denied, message)
          .hint(
              "the machine identity needs a role in that project that reads (and, to publish, "
              "writes) this path");
    case 404:
      throw Error(Fault::NotFound, message)
          .hint("check the project's id, the environment's slug and the path");
    case 429:
      throw Error(Fault::Busy, message)
          .hint(fmt::format("it is safe to run this again{}",
                            reply.retry_after.empty()
                                ? ", in a minute"
                                : fmt::format(", in {} seconds", reply.retry_after)));
    default:
      if (reply.status >= 500)
        throw Error(Fault::Unreachable,
                    fmt::format("Infisical at {} failed {}: status {}, {}", access_.host, doing,
                                reply.status, reply.message));
      throw Error(Fault::Rejected, message);
  }
}

/// A 200 may only mean that somebody was asked to allow it.
void Client::require_done(const Reply& reply, const std::string& doing) {
  if (text::parse_answer(reply.body, "answer").find("approval") == nullptr) return;
  throw Error(Fault::Rejected,
              fmt::format("Infisical took the change {} only as a request for approval", doing))
      .hint(
          "a change policy guards that path: approve it there, or let rocca publish to another "
          "path");
}

void Client::log_in() {
  if (token_ && clock_.tick() < token_expires_) return;
  text::Value body = text::Value::map();
  body.set("clientId", text::Value::string(access_.client_id));
  body.set("clientSecret", text::Value::string(std::string(access_.client_secret.reveal())));
  std::string json = text::emit_json(body);
  Reply reply = send("POST", "/api/v1/auth/universal-auth/login", "", json, false);
  wipe(json);
  if (reply.status != 200) fail(reply, "the machine identity");
  const text::Value answer = text::parse_answer(reply.body, "login");
  wipe(reply.body);
  token_ = Secret{text_or(answer, "accessToken")};
  if (token_->empty())
    throw Error(Fault::Rejected, fmt::format("{} did not answer like Infisical", access_.host));
  const text::Value* seconds = answer.find("expiresIn");
  const std::uint64_t lives = seconds != nullptr ? seconds->as_uint().value_or(60) : 60;
  // A little early: the token must not run out between our look at the clock and theirs.
  token_expires_ = clock_.tick() + std::chrono::seconds{lives > 30 ? lives - 30 : lives / 2};
}

Client::Reply Client::ask(const std::string& method, const std::string& path,
                          const std::string& query, const std::string& json) {
  log_in();
  Reply reply = send(method, path, query, json, true);
  // Expired (by their clock, not ours) or revoked: the identity itself may still be good.
  if ((reply.status == 403 && reply.error == "TokenError") || reply.status == 401) {
    token_.reset();
    log_in();
    reply = send(method, path, query, json, true);
  }
  return reply;
}

std::string Client::project_id(const std::string& slug) {
  const Reply reply = ask("GET", "/api/v1/projects/slug/" + percent_encode(slug));
  if (reply.status != 200) fail(reply, fmt::format("to find the project {}", slug));
  const text::Value answer = text::parse_answer(reply.body, "project");
  const text::Value* project = answer.find("project");
  const std::string id = text_or(project != nullptr ? *project : answer, "id");
  if (id.empty())
    throw Error(Fault::Rejected, fmt::format("{} did not answer like Infisical", access_.host));
  return id;
}

std::map<std::string, Secret> Client::secrets(const Place& place) {
  Reply reply = ask("GET", "/api/v4/secrets", query_of(place, "secretPath"));
  if (reply.status != 200) fail(reply, "to list " + place_text(place));
  const text::Value answer = text::parse_answer(reply.body, "secrets");
  wipe(reply.body);
  std::map<std::string, Secret> values;
  // Imported folders first, so that what the folder itself says wins.
  if (const text::Value* imports = answer.find("imports"))
    for (const text::Value& import : imports->items())
      if (const text::Value* list = import.find("secrets"))
        for (const text::Value& item : list->items())
          values[text_or(item, "secretKey")] = secret_at(item);
  if (const text::Value* list = answer.find("secrets"))
    for (const text::Value& item : list->items())
      values[text_or(item, "secretKey")] = secret_at(item);
  return values;
}

std::optional<Secret> Client::find_secret(const Place& place, const std::string& name) {
  Reply reply =
      ask("GET", "/api/v4/secrets/" + percent_encode(name), query_of(place, "secretPath"));
  if (reply.status == 404 && reply.message.starts_with("Secret with name")) return std::nullopt;
  if (reply.status != 200) fail(reply, fmt::format("to read {} at {}", name, place_text(place)));
  const text::Value answer = text::parse_answer(reply.body, "secret");
  wipe(reply.body);
  const text::Value* secret = answer.find("secret");
  if (secret == nullptr)
    throw Error(Fault::Rejected, fmt::format("{} did not answer like Infisical", access_.host));
  return secret_at(*secret);
}

std::vector<std::string> Client::folders(const Place& place) {
  const Reply reply = ask("GET", "/api/v2/folders", query_of(place, "path"));
  if (reply.status != 200) fail(reply, "to list the folders of " + place_text(place));
  const text::Value answer = text::parse_answer(reply.body, "folders");
  std::vector<std::string> names;
  if (const text::Value* list = answer.find("folders"))
    for (const text::Value& item : list->items()) names.push_back(text_or(item, "name"));
  return names;
}

bool Client::make_folder(const Place& place) {
  const auto [parent, name] = parent_and_name(place);
  if (name.empty()) return false;
  text::Value body = body_of(parent, "path");
  body.set("name", text::Value::string(name));
  const Reply reply = ask("POST", "/api/v2/folders", "", text::emit_json(body));
  if (reply.status == 400 && reply.message.find("already exists") != std::string::npos)
    return false;
  if (reply.status != 200) fail(reply, "to make the folder " + place_text(place));
  return true;
}

bool Client::erase_folder(const Place& place) {
  const auto [parent, name] = parent_and_name(place);
  if (name.empty())
    throw Error(Fault::Usage, "the folder / of an environment cannot be taken away");
  const Reply reply = ask("DELETE", "/api/v2/folders/" + percent_encode(name), "",
                          text::emit_json(body_of(parent, "path")));
  if (reply.status == 404 && says_missing(reply.message)) return false;
  if (reply.status != 200) fail(reply, "to take the folder away: " + place_text(place));
  return true;
}

void Client::write(const Place& place, const std::map<std::string, Secret>& values) {
  if (values.empty()) return;  // it refuses a batch of none
  text::Value body = body_of(place, "secretPath");
  body.set("mode", text::Value::string("upsert"));
  text::Value list = text::Value::list();
  for (const auto& [name, value] : values) {
    text::Value item = text::Value::map();
    item.set("secretKey", text::Value::string(name));
    item.set("secretValue", text::Value::string(std::string(value.reveal())));
    list.append(std::move(item));
  }
  body.set("secrets", std::move(list));
  std::string json = text::emit_json(body);
  const std::string doing = "to write to " + place_text(place);
  Reply reply = ask("PATCH", "/api/v4/secrets/batch", "", json);
  if (reply.status == 404 && reply.message.find("Folder with path") != std::string::npos) {
    make_folder(place);
    reply = ask("PATCH", "/api/v4/secrets/batch", "", json);
  }
  wipe(json);
  if (reply.status != 200) fail(reply, doing);
  require_done(reply, doing);
  wipe(reply.body);
}

bool Client::erase(const Place& place, const std::string& name) {
  text::Value body = body_of(place, "secretPath");
  body.set("type", text::Value::string("shared"));
  const Reply reply =
      ask("DELETE", "/api/v4/secrets/" + percent_encode(name), "", text::emit_json(body));
  if (reply.status == 404 && says_missing(reply.message)) return false;
  if (reply.status != 200) fail(reply, fmt::format("to delete {} at {}", name, place_text(place)));
  require_done(reply, "to delete " + name);
  return true;
}

}  // namespace rocca::infisical
