#include "lab/pve/http.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/pve/permission.hpp"
#include "lab/pve/upload.hpp"
#include "text/json.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <ctime>

namespace rocca::lab::pve {

namespace {

constexpr std::size_t body_limit = 512 * 1024;
constexpr const char* json_type = "application/json;charset=UTF-8";

/// A finished answer, before it is written down in the format that was asked for.
struct Outcome {
  int status = 200;
  std::string message;  // of a failure
  bool newline = true;
  std::map<std::string, std::string> errors;
  text::Value data;
  std::optional<std::int64_t> total;
  std::optional<Attachment> attachment;
  bool protected_ = false;
  bool closes = false;  // after an upload
  bool silent = false;  // the process is gone: nobody answers
  bool empty = false;   // 595, 596: status line only
};

struct Request {
  net::Incoming incoming;
  std::shared_ptr<net::Responder> responder;
  std::string format = "json";
};

std::string http_date(Instant when) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(when));
  // Many answers are of one second.
  thread_local std::pair<std::time_t, std::string> last{-1, ""};
  if (last.first != seconds)
    last = {seconds, fmt::format("{:%a, %d %b %Y %H:%M:%S GMT}", fmt::gmtime(seconds))};
  return last.second;
}

/// What a reason phrase may carry: Latin-1, one byte a character. Nothing when a character is
/// beyond it.
std::optional<std::string> to_latin1(std::string_view utf8) {
  std::string bytes;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto c = static_cast<unsigned char>(utf8[i]);
    if (c < 0x80) {
      bytes += static_cast<char>(c);
    } else if ((c & 0xFC) == 0xC0 && i + 1 < utf8.size()) {
      bytes += static_cast<char>((c & 0x03) << 6 | (static_cast<unsigned char>(utf8[++i]) & 0x3F));
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

/// A path segment is decoded once and never read as UTF-8: each byte stands for itself.
std::string from_latin1(std::string_view bytes) {
  std::string utf8;
  for (const char raw : bytes) {
    const auto c = static_cast<unsigned char>(raw);
    if (c < 0x80) {
      utf8 += raw;
    } else {
      utf8 += static_cast<char>(0xC0 | c >> 6);
      utf8 += static_cast<char>(0x80 | (c & 0x3F));
    }
  }
  return utf8;
}

net::Headers common_headers(const Datacenter& dc) {
  const std::string date = http_date(dc.world.outside());
  return {{"Cache-Control", "max-age=0"},
          {"Date", date},
          {"Expires", date},
          {"Pragma", "no-cache"},
          {"Server", "pve-api-daemon/3.0"}};
}

void answer_empty(Datacenter& dc, net::Responder& responder, int status, std::string reason) {
  net::Headers headers = common_headers(dc);
  headers.add("Connection", "close");
  responder.answer(status, std::move(reason), std::move(headers), "");
}

/// Refused by the HTTP server itself: the reason again as text, without a type.
void answer_plain(Datacenter& dc, net::Responder& responder, int status, const std::string& reason,
                  const char* end = "") {
  net::Headers headers = common_headers(dc);
  headers.add("Connection", "close");
  responder.answer(status, reason, std::move(headers), reason + end);
}

text::Value error_map(const std::map<std::string, std::string>& errors) {
  text::Value map = text::Value::map();
  for (const auto& [name, problem] : errors) map.set(name, text::Value::string(problem));
  return map;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

void write_answer(Datacenter& dc, const Request& request, Outcome outcome) {
  if (outcome.silent) return request.responder->cut();
  if (outcome.empty) return answer_empty(dc, *request.responder, outcome.status, outcome.message);
  const bool failed = outcome.status >= 400;
  text::Value body = text::Value::map();
  body.set("data", std::move(outcome.data));
  if (outcome.total) body.set("total", number(*outcome.total));
  if (failed) {
    if (!outcome.errors.empty()) body.set("errors", error_map(outcome.errors));
    body.set("message", string(outcome.message + (outcome.newline ? "\n" : "")));
  }
  const bool extjs = request.format == "extjs";
  if (extjs) {
    body.set("success", number(failed ? 0 : 1));
    // Perl hands on the code of an exception as text and its own 500 as a number.
    if (failed)
      body.set("status",
               outcome.status == 500 ? number(500) : string(std::to_string(outcome.status)));
  }
  net::Headers headers = common_headers(dc);
  if ((failed && !extjs) || outcome.closes) {
    headers.add("Connection", "close");
  } else {
    if (outcome.protected_) headers.add("Connection", "close");
    headers.add("Connection", "Keep-Alive");
  }
  if (outcome.attachment) {
    const Attachment& file = *outcome.attachment;
    headers.add("Content-Type", file.type);
    headers.add("Content-Disposition", fmt::format("attachment; filename=\"{}\"", file.name));
    if (!file.encoding.empty()) headers.add("Content-Encoding", file.encoding);
    return request.responder->answer(200, "OK", std::move(headers), file.bytes);
  }
  headers.add("Content-Type", json_type);
  const int status = extjs ? 200 : outcome.status;
  std::string reason = "OK";
  if (failed && !extjs)
    reason = to_latin1(first_line(outcome.message)).value_or("Internal Server Error");
  // An exception without a text loses its body on the way from pvedaemon.
  if (failed && !extjs && outcome.protected_ && outcome.message.empty())
    return request.responder->answer(status, "Bad Request", std::move(headers), "");
  request.responder->answer(status, std::move(reason), std::move(headers), text::emit_json(body));
}

Outcome failed(const Failure& failure) {
  Outcome outcome;
  outcome.status = failure.status;
  outcome.message = failure.message;
  outcome.errors = failure.errors;
  outcome.newline = failure.newline;
  return outcome;
}

struct Session {
  std::optional<Caller> caller;
  std::string problem;  // the reason phrase of the 401
};

Session token_session(Datacenter& dc, std::string_view header) {
  // `PVEAPIToken=` or, tolerated, a blank in place of the first `=`.
  constexpr std::string_view scheme = "PVEAPIToken";
  if (!header.starts_with(scheme) || header.size() <= scheme.size() + 1 ||
      (header[scheme.size()] != '=' && header[scheme.size()] != ' '))
    return {std::nullopt, "No ticket"};
  const std::string value = percent_decode(header.substr(scheme.size() + 1));
  const std::size_t bang = value.find('!');
  const std::size_t equals = value.rfind('=');
  constexpr const char* wrong = "Authentication failed!";
  if (bang == std::string::npos || equals == std::string::npos || equals < bang)
    return {std::nullopt, wrong};
  const std::string user = value.substr(0, bang);
  const std::string token = value.substr(bang + 1, equals - bang - 1);
  const auto found = dc.access.users.find(user);
  if (found == dc.access.users.end() || !found->second.enabled) return {std::nullopt, wrong};
  const auto entry = found->second.tokens.find(token);
  if (entry == found->second.tokens.end() || entry->second.secret != value.substr(equals + 1))
    return {std::nullopt, wrong};
  for (const std::int64_t expire : {found->second.expire, entry->second.expire})
    if (expire != 0 && expire < dc.world.unix_time()) return {std::nullopt, wrong};
  return {Caller{user + "!" + token, user, true}, ""};
}

std::optional<std::string> find_cookie(const net::Headers& headers) {
  for (const std::string_view line : headers.all("Cookie"))
    for (const std::string& part : split(line, ';')) {
      const std::string_view one = trim(part);
      if (one.starts_with("PVEAuthCookie=")) return percent_decode(one.substr(14));
    }
  return std::nullopt;
}

Session authenticate(Datacenter& dc, const net::Incoming& request) {
  if (const auto cookie = find_cookie(request.headers)) {  // wins over a token
    const auto user = check_ticket(dc, *cookie);
    if (!user) return {std::nullopt, "Authentication failed!"};
    if (request.method != "GET" && !is_upload(request.target)) {
      const auto csrf = request.headers.find("CSRFPreventionToken");
      const std::string time = split(*cookie, ':').at(2);
      if (!csrf || *csrf != csrf_token(dc, *user, time))
        return {std::nullopt, "Permission denied - invalid csrf token"};
    }
    return {Caller{*user, *user, false}, ""};
  }
  if (const auto header = request.headers.find("Authorization")) return token_session(dc, *header);
  return {std::nullopt, "No ticket"};
}

/// JSON gives types where a form gives texts; booleans become 0 and 1, null is absence.
RawParameters parse_json_body(const Release& release, const std::string& body) {
  text::Value value;
  try {
    value = text::parse_json(body, "body");
  } catch (const Error&) {
    const std::string problem = fmt::format(
        "malformed JSON string, neither tag, array, object, number, string or atom, at character "
        "offset "
        "{} (before \"(end of string)\") at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line {}.",
        body.size(), release.nine() ? 934 : 917);
    throw Failure{500, problem, {}, true};
  }
  RawParameters parameters;
  const auto scalar = [](const text::Value& each) -> std::string {
    if (const auto flag = each.as_bool()) return *flag ? "1" : "0";
    if (each.kind() == text::Kind::Float) return fmt::format("{}", *each.as_float());  // 4.0 is 4
    return each.text();
  };
  for (const text::Entry& entry : value.entries()) {
    if (entry.value.is_null()) continue;
    Raw raw;
    raw.list = entry.value.is_list();
    if (raw.list)
      for (const text::Value& item : entry.value.items()) raw.values.push_back(scalar(item));
    else
      raw.values.push_back(scalar(entry.value));
    parameters.emplace(entry.key, std::move(raw));
  }
  return parameters;
}

/// Reads the body by its type; answers itself and gives nothing when the server refuses it.
std::optional<RawParameters> read_parameters(Datacenter& dc, const Request& request,
                                             std::string_view query) {
  const net::Incoming& in = request.incoming;
  net::Responder& responder = *request.responder;
  if (const auto encoding = in.headers.find("Transfer-Encoding")) {
    const std::string problem = *encoding == "chunked"
                                    ? "chunked transfer encoding not supported"
                                    : fmt::format("Unknown transfer encoding '{}'", *encoding);
    answer_plain(dc, responder, 501, problem);
    return std::nullopt;
  }
  RawParameters parameters;
  if (!in.body.empty()) {
    if (in.method != "POST" && in.method != "PUT") {
      answer_plain(dc, responder, 501,
                   fmt::format("Unexpected content for method '{}'", in.method));
      return std::nullopt;
    }
    if (in.body.size() > body_limit) {
      answer_plain(dc, responder, 501, "for data too large");
      return std::nullopt;
    }
  }
  if (in.method == "POST" || in.method == "PUT") {
    const std::string header(in.headers.find("Content-Type").value_or(""));
    const std::string type(trim(header.substr(0, header.find(';'))));
    if (type.empty() || type == "application/x-www-form-urlencoded") {
      parameters = parse_form(in.body);
    } else if (type == "application/json") {
      try {
        parameters = parse_json_body(dc.release, in.body);
      } catch (const Failure& failure) {
        answer_plain(dc, responder, failure.status, failure.message, "\n");
        return std::nullopt;
      }
    } else {
      answer_plain(dc, responder, 506,
                   fmt::format("upload 'Content-Type '{}' not implemented", header));
      return std::nullopt;
    }
  }
  for (auto& [name, raw] : parse_form(query)) parameters.insert_or_assign(name, std::move(raw));
  parameters.erase("_dc");
  return parameters;
}

/// A daemon's worker process: taken for the time of a handler, waits included.
class Slot {
 public:
  explicit Slot(Node::Slots& slots) : slots_(&slots) {}
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  ~Slot() {
    ++slots_->free;
    slots_->freed.wake_one();
  }

 private:
  Node::Slots* slots_;
};

struct Job {
  Outcome outcome;
  bool done = false;
  Signal finished;
};

/// The handler in its worker process. Goes on when whoever asked has stopped waiting.
Routine<void> run_handler(Datacenter& dc, Node& node, Caller caller, const Method& method,
                          RawParameters raw, std::optional<Upload> upload,
                          std::shared_ptr<Job> job) {
  Node::Slots& slots = method.protected_ ? node.daemon : node.proxy;
  Interrupt interrupt;
  const Node::Registration registration{node, interrupt};
  try {
    while (slots.free == 0) co_await dc.world.wait(slots.freed, {}, &interrupt);
    --slots.free;
    const Slot slot{slots};
    co_await dc.world.sleep(method.protected_ ? dc.timing.handler : dc.timing.light, &interrupt);
    Parameters parameters = dc.schema.check(method, raw);
    Call call{dc, node, caller, method, std::move(parameters), &interrupt};
    call.upload = upload ? &*upload : nullptr;
    const Handle* handle = dc.find_handler(method);
    if (handle == nullptr)
      throw Failure{
          501,
          fmt::format("Method '{} {}' is not played by the lab", method.verb, method.path),
          {},
          true};
    job->outcome.data = co_await (*handle)(call);
    job->outcome.total = call.total;
    job->outcome.attachment = std::move(call.attachment);
  } catch (const Failure& failure) {
    job->outcome = failed(failure);
  } catch (const Interrupted&) {
    job->outcome.silent = true;
  }
  job->outcome.protected_ = method.protected_;
  job->done = true;
  job->finished.wake_all();
}

/// The rest of the way on the node that runs it: through pvedaemon where the method is protected,
/// 30 s of patience.
Routine<Outcome> run_on(Datacenter& dc, Node& node, Caller caller, const Method& method,
                        RawParameters raw, std::optional<Upload> upload) {
  auto job = std::make_shared<Job>();
  const Instant deadline = dc.world.now() + dc.timing.proxy_limit;
  dc.world.spawn(run_handler(dc, node, caller, method, std::move(raw), std::move(upload), job));
  while (!job->done) {
    const Woke woke = co_await dc.world.wait(
        job->finished, method.protected_ ? std::optional(deadline) : std::nullopt);
    if (woke == Woke::TimedOut && !job->done) {
      Outcome late;
      late.status = 596;
      late.message = "Connection timed out";
      late.empty = true;
      co_return late;
    }
  }
  Outcome outcome = std::move(job->outcome);
  // A reason phrase is Latin-1; anything beyond kills pvedaemon's answer on its way back (seen:
  // "Broken pipe").
  if (method.protected_ && outcome.status >= 400 && !to_latin1(first_line(outcome.message))) {
    co_await dc.world.sleep(std::chrono::seconds{5});
    outcome = {};
    outcome.status = 596;
    outcome.message = "Broken pipe";
    outcome.empty = true;
  }
  co_return outcome;
}

/// To the node in the path, if it is another one.
Routine<Outcome> forward(Datacenter& dc, Node& here, std::string target, Caller caller,
                         const Method& method, RawParameters raw, std::optional<Upload> upload) {
  Node* node = target == "localhost" ? &here : dc.find_node(target);
  if (node == nullptr)
    co_return failed(Failure{
        500,
        fmt::format("hostname lookup '{}' failed - failed to get address info for: {}: Name or "
                    "service not known",
                    target, target),
        {},
        true});
  if (node == &here)
    co_return co_await run_on(dc, here, caller, method, std::move(raw), std::move(upload));
  Outcome trouble;
  trouble.empty = true;
  if (!node->online) {
    co_await dc.world.sleep(std::chrono::seconds{3});
    trouble.status = 595;
    trouble.message = "No route to host";
    co_return trouble;
  }
  co_await dc.world.sleep(dc.timing.forward);
  Outcome outcome = co_await run_on(dc, *node, caller, method, std::move(raw), std::move(upload));
  if (!node->online || outcome.silent) {
    trouble.status = 596;
    trouble.message = "Connection timed out";
    co_return trouble;
  }
  co_await dc.world.sleep(dc.timing.forward);
  co_return outcome;
}

Routine<Outcome> process(Datacenter& dc, Node& node, Caller caller, std::string verb,
                         std::vector<std::string> segments, RawParameters raw,
                         std::optional<Upload> upload) {
  std::map<std::string, std::string> bindings;
  const Method* method = dc.schema.find(verb, segments, bindings);
  try {
    if (method == nullptr)
      throw Failure{501,
                    fmt::format("Method '{} /{}' not implemented", verb, join(segments, "/")),
                    {},
                    false};
    if (caller.token && !method->token)
      deny(fmt::format("URI '{}' not available with API token, need proper ticket.\n",
                       "/" + join(segments, "/")));
    std::map<std::string, std::string> conflicts;
    for (const auto& [name, value] : bindings) {
      const auto given = raw.find(name);
      if (given != raw.end() && (given->second.list || given->second.values.front() != value))
        conflicts.emplace(name,
                          "duplicate parameter (already defined in URI) with conflicting values!");
      raw.insert_or_assign(name, Raw{{value}, false});
    }
    check_permission(dc.access, caller, *method, raw);
    if (!conflicts.empty()) refuse_parameters(conflicts);
  } catch (const Failure& failure) {
    co_return failed(failure);
  }
  const auto where = bindings.find("node");
  const std::string target = method->to_node && where != bindings.end() ? where->second : node.name;
  co_return co_await forward(dc, node, target, caller, *method, std::move(raw), std::move(upload));
}

bool needs_no_login(const std::string& verb, const std::vector<std::string>& segments) {
  const std::string path = "/" + join(segments, "/");
  if (verb == "GET") return path == "/access/domains" || path == "/access/ticket";
  return verb == "POST" && path == "/access/ticket";
}

Routine<void> serve_request(Datacenter& dc, Node& node, Request request) {
  const net::Incoming& in = request.incoming;
  net::Responder& responder = *request.responder;
  ++node.requests;
  if (in.headers.size() > 64) {  // header lines over the limit: silence, then a closed connection
    co_await dc.world.sleep(std::chrono::seconds{5});
    responder.cut();
    co_return;
  }
  if (in.method != "GET" && in.method != "POST" && in.method != "PUT" && in.method != "DELETE") {
    answer_empty(dc, responder, 501, fmt::format("method '{}' not available", in.method));
    co_return;
  }
  const std::size_t mark = in.target.find('?');
  const std::string raw_path = in.target.substr(0, mark);
  const std::string query = mark == std::string::npos ? "" : in.target.substr(mark + 1);
  std::vector<std::string> segments;
  for (const std::string& part : split(raw_path, '/'))
    if (!part.empty()) segments.push_back(from_latin1(percent_decode(part)));
  const bool api = !segments.empty() && segments[0] == "api2";
  if (api) segments.erase(segments.begin());
  const bool has_format = api && !segments.empty();
  if (has_format) {
    request.format = segments.front();
    segments.erase(segments.begin());
  }

  Session session = authenticate(dc, in);
  const bool open = has_format && needs_no_login(in.method, segments);
  if (!session.caller && !(open && !in.headers.find("Authorization"))) {
    if (dc.timing.slow_401) co_await dc.world.sleep(std::chrono::seconds{3});
    answer_empty(dc, responder, 401, session.problem);
    co_return;
  }
  const Caller caller = session.caller.value_or(Caller{});
  if (!api) {
    answer_plain(dc, responder, 500, fmt::format("no such file '{}'", raw_path), "\n");
    co_return;
  }
  if (!has_format) {
    answer_plain(dc, responder, 501, "no such uri");
    co_return;
  }
  const std::string uri = "/" + join(segments, "/");
  if (request.format != "json" && request.format != "extjs") {
    answer_plain(dc, responder, 501,
                 fmt::format("no formatter for uri {}, {}", uri, request.format));
    co_return;
  }

  std::optional<Upload> upload;
  std::optional<RawParameters> parameters;
  if (in.method == "POST" && is_upload(in.target)) {
    // Decided on the header lines, before the file is read.
    if (!dc.access.may(caller, "/storage/" + segments.at(3), {"Datastore.AllocateTemplate"})) {
      if (dc.timing.slow_401) co_await dc.world.sleep(std::chrono::seconds{3});
      answer_empty(dc, responder, 403,
                   fmt::format("Permission check failed (/storage/{}, Datastore.AllocateTemplate)",
                               segments.at(3)));
      co_return;
    }
    auto body = read_upload(in);
    if (!body) {
      co_await dc.world.sleep(std::chrono::seconds{5});
      responder.cut();
      co_return;
    }
    parameters = std::move(body->parameters);
    upload = std::move(body->upload);
  } else {
    parameters = read_parameters(dc, request, query);
    if (!parameters) co_return;
  }
  Outcome outcome = co_await process(dc, node, caller, in.method, segments, std::move(*parameters),
                                     std::move(upload));
  outcome.closes = in.method == "POST" && is_upload(in.target);
  if (outcome.status == 401 && dc.timing.slow_401) co_await dc.world.sleep(std::chrono::seconds{3});
  write_answer(dc, request, std::move(outcome));
}

std::string signature(Datacenter& dc, std::string_view text) {
  const std::string keyed = dc.ticket_key() + "/" + std::string(text);
  std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
  unsigned size = 0;
  EVP_Digest(keyed.data(), keyed.size(), out.data(), &size, EVP_sha256(), nullptr);
  return to_base64({reinterpret_cast<const char*>(out.data()), size});
}

void numbers_as_texts(text::Value& value) {
  if (value.is_map()) {
    for (text::Entry& entry : value.entries()) numbers_as_texts(entry.value);
  } else if (value.is_list()) {
    for (text::Value& item : value.items()) numbers_as_texts(item);
  } else if (value.kind() == text::Kind::Int || value.kind() == text::Kind::Float) {
    value = text::Value::string(value.text());
  }
}

/// Lets the work be done and then spoils the answer.
class SpoilingResponder final : public net::Responder {
 public:
  SpoilingResponder(std::shared_ptr<net::Responder> inner, RequestFault fault)
      : inner_(std::move(inner)), fault_(std::move(fault)) {}
  void answer(int status, std::string reason, net::Headers headers, std::string body,
              net::Headers trailers) override {
    if (fault_.lose) return inner_->cut();
    if (fault_.strings && !body.empty() && body.front() == '{') {
      text::Value value = text::parse_json(body, "answer");
      numbers_as_texts(value);
      body = text::emit_json(value);
    }
    if (fault_.truncate && body.size() > *fault_.truncate) body.resize(*fault_.truncate);
    inner_->answer(status, std::move(reason), std::move(headers), std::move(body),
                   std::move(trailers));
  }
  void begin(int, std::string, net::Headers) override { inner_->cut(); }
  void write(std::string) override {}
  void finish(net::Headers) override {}
  void cut() override { inner_->cut(); }
  void tunnel(std::string, unsigned) override { inner_->cut(); }
  bool gone() const override { return inner_->gone(); }
  void on_gone(std::function<void()> then) override { inner_->on_gone(std::move(then)); }

 private:
  std::shared_ptr<net::Responder> inner_;
  RequestFault fault_;
};

Routine<void> serve_with_fault(Datacenter& dc, Node& node, Request request, RequestFault fault) {
  dc.world.note(fmt::format("fault: {} {}", request.incoming.method, request.incoming.target));
  if (fault.delay.count() > 0) co_await dc.world.sleep(fault.delay);
  if (fault.cut) {
    request.responder->cut();
    co_return;
  }
  if (fault.status != 0) {
    const bool plain = fault.body.empty() && fault.status >= 400;
    const std::string reason =
        fault.reason.empty() && plain ? "Connection timed out" : fault.reason;
    if (fault.body.empty()) {
      answer_empty(dc, *request.responder, fault.status, reason);
    } else {
      // Whoever stands in front of a Proxmox, or in its place, sends none of its headers.
      request.responder->answer(
          fault.status, reason,
          {{"Content-Type", fault.content_type.empty() ? json_type : fault.content_type}},
          fault.body);
    }
    co_return;
  }
  if (fault.lose || fault.truncate || fault.strings)
    request.responder = std::make_shared<SpoilingResponder>(request.responder, fault);
  co_await serve_request(dc, node, std::move(request));
}

}  // namespace

Routine<void> act(Datacenter& dc, Node& node, Caller caller, std::string verb, std::string path,
                  RawParameters raw) {
  const std::vector<std::string> segments = split(path, '/');
  co_await process(dc, node, std::move(caller), std::move(verb), segments, std::move(raw),
                   std::nullopt);
}

void serve(Datacenter& dc, Node& node, net::Incoming request,
           std::shared_ptr<net::Responder> responder) {
  if (!request.tls) {  // a plain request on the TLS port is sent on to https
    net::Headers headers{
        {"Location", fmt::format("https://{}{}", request.authority, request.target)}};
    const bool reading = request.method == "GET" || request.method == "HEAD";
    responder->answer(reading ? 301 : 308, reading ? "Moved Permanently" : "Permanent Redirect",
                      headers, "");
    return;
  }
  if (dc.request_fault)
    if (const auto fault = dc.request_fault(node, request)) {
      Request faulty{std::move(request), std::move(responder), "json"};
      dc.world.spawn(serve_with_fault(dc, node, std::move(faulty), *fault));
      return;
    }
  dc.world.spawn(
      serve_request(dc, node, Request{std::move(request), std::move(responder), "json"}));
}

std::string csrf_token(Datacenter& dc, const std::string& user, const std::string& time) {
  return time + ":" + signature(dc, "csrf:" + user + ":" + time);
}

Ticket make_ticket(Datacenter& dc, const std::string& user) {
  const std::string time = fmt::format("{:08X}", dc.world.unix_time());
  const std::string plain = fmt::format("PVE:{}:{}", user, time);
  return {plain + "::" + signature(dc, plain), csrf_token(dc, user, time)};
}

std::optional<std::string> check_ticket(Datacenter& dc, std::string_view ticket) {
  const std::size_t middle = ticket.find("::");
  if (middle == std::string_view::npos) return std::nullopt;
  const std::string plain(ticket.substr(0, middle));
  if (ticket.substr(middle + 2) != signature(dc, plain)) return std::nullopt;
  const std::vector<std::string> parts = split(plain, ':');
  if (parts.size() != 3 || parts[0] != "PVE") return std::nullopt;
  const std::int64_t age =
      dc.world.unix_time() - static_cast<std::int64_t>(std::stoull(parts[2], nullptr, 16));
  const auto user = dc.access.users.find(parts[1]);
  if (age < -300 || age > 2 * 3600 || user == dc.access.users.end() || !user->second.enabled)
    return std::nullopt;
  return parts[1];
}

RawParameters parse_form(std::string_view text) {
  RawParameters parameters;
  for (const std::string& pair : split(text, '&')) {
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    const auto decode = [](std::string_view part) {
      return percent_decode(replace_all(part, "+", " "));
    };
    const std::string name = decode(std::string_view(pair).substr(0, equals));
    const std::string value =
        equals == std::string::npos ? "" : decode(std::string_view(pair).substr(equals + 1));
    Raw& raw = parameters[name];
    raw.values.push_back(value);
    raw.list = raw.values.size() > 1;
  }
  return parameters;
}

}  // namespace rocca::lab::pve
