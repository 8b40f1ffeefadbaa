#include "lab/kube/replay_cluster.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/kube/json.hpp"
#include "lab/kube/server.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::kube {

using namespace std::chrono_literals;
using text::Value;

/// What came back, whole or as it streams.
class ReplayCluster::Exchange final : public net::Responder {
 public:
  int status = 0;
  net::Headers headers;
  std::string body;
  bool finished = false;
  bool was_cut = false;

  void answer(int code, std::string, net::Headers fields, std::string text, net::Headers) override {
    status = code;
    headers = std::move(fields);
    body = std::move(text);
    finished = true;
  }
  void begin(int code, std::string, net::Headers fields) override {
    status = code;
    headers = std::move(fields);
  }
  void write(std::string bytes) override { body += bytes; }
  void finish(net::Headers) override { finished = true; }
  void cut() override { was_cut = finished = true; }
  void tunnel(std::string, unsigned) override {}
  bool gone() const override { return false; }
  void on_gone(std::function<void()>) override {}
};

ReplayCluster::ReplayCluster(const Value& scenario)
    : scenario_(scenario), id_(text_at(scenario, {"id"})) {
  const std::string server = text_at(scenario, {"server"});
  Api::Options options;
  options.address = "127.0.40.1:6443";
  options.controllers = server.find("kube-controller-manager") != std::string::npos;
  options.scheduler = server.find("kube-scheduler") != std::string::npos;
  options.kubelets = server.find("kwok") != std::string::npos;
  options.anonymous = id_.starts_with("anonymous/");
  options.quorum = [this] { return quorum_; };
  options.webhook = [this](const Value& hook, const Value&) { return webhook(hook); };
  loose_ = options.controllers;
  bindings_.set_loose(loose_);
  api_ = std::make_unique<Api>(world_, std::move(options));
  api_->set_network_ready([](const std::string&) { return true; });
  // The recorded cluster had been used before: the default account was there.
  Server& inner = api_->server();
  Value account = Value::map();
  set_at(account, {"metadata", "name"}, str("default"));
  if (id_ != "pod/no-service-account" &&
      !inner.storage().find("/serviceaccounts", {"default", "default"}))
    inner.create(*inner.kinds().find("", "v1", "serviceaccounts"), "default", std::move(account),
                 {"kube-controller-manager", {}, false, {}, nullptr, true});
  if (server.find("kwok") != std::string::npos && id_ != "rollout/node-ready")
    api_->join({"worker-1", "10.0.0.21"});
  inner.storage().skip(200);
  world_.run_for(2s);
}

ReplayCluster::~ReplayCluster() = default;

std::vector<std::pair<std::string, std::vector<std::string>>> ReplayCluster::run() {
  const Value* steps = scenario_.find("steps");
  if (steps == nullptr || !steps->is_list())
    results_.emplace_back(id_, std::vector<std::string>{"the recording has no list of steps"});
  else
    play(*steps, id_);
  return std::move(results_);
}

void ReplayCluster::play(const Value& steps, const std::string& prefix) {
  for (std::size_t i = 0; i < steps.items().size(); ++i) {
    const Value& step = steps.items()[i];
    const std::string name = fmt::format("{}#{}", prefix, i + 1);
    const std::size_t place = results_.size();
    results_.emplace_back(name, std::vector<std::string>{});
    try {
      results_[place].second = one_step(step, name);
    } catch (const std::exception& error) {
      // A step that cannot be played is a difference; the next one is played all the same.
      results_[place].second = {fmt::format("cannot be played: {}", error.what())};
    }
    world_.run_for(loose_ ? 1s : 300ms);  // the recorder took its time, too
  }
}

std::vector<std::string> ReplayCluster::one_step(const Value& step, const std::string& name) {
  if (!step.is_map()) return {"a step is an object"};
  if (const Value* event = step.find("event")) {
    if (happen(event->text())) return {};
    return {"unknown set-up step: " + event->text()};
  }
  const Value* request = step.find("request");
  const Value* response = step.find("response");
  if (request == nullptr || !request->is_map() || response == nullptr || !response->is_map())
    return {"a step has a request and a response, or an event"};
  // A webhook keeps its ways until another note.
  if (const std::string note = text_at(step, {"note"}); !note.empty() || !id_.starts_with("web"))
    note_ = note;
  return play_request(step, name);
}

std::optional<User> ReplayCluster::principal(const std::string& who) {
  if (who == "admin") return User{"admin", {"system:masters", "system:authenticated"}};
  if (who == "viewer") return User{"vera", {"lab:viewers", "system:authenticated"}};
  if (who == "nobody") return User{"nobody", {"system:authenticated"}};
  return std::nullopt;
}

std::shared_ptr<ReplayCluster::Exchange> ReplayCluster::send(const Value& step) {
  const Value& request = *step.find("request");
  net::Incoming in;
  in.method = text_at(request, {"method"});
  in.target = replace_all(percent_encode(bindings_.fill(text_at(request, {"path"}))), "%2F", "/");
  if (const Value* query = request.find("query")) {
    std::vector<std::string> parts;
    for (const Value& pair : query->items())
      if (pair.is_list() && pair.size() == 2)
        parts.push_back(percent_encode(pair.items()[0].text()) + "=" +
                        percent_encode(bindings_.fill(pair.items()[1].text())));
    if (!parts.empty()) in.target += "?" + join(parts, "&");
  }
  in.headers.add("User-Agent", "rocca/1.0");
  if (const Value* headers = request.find("headers"))
    for (const text::Entry& header : headers->entries())
      in.headers.add(header.key, bindings_.fill(header.value.text()));
  if (const Value* bytes = request.find("bodyBytes"))
    in.body = std::string(static_cast<std::size_t>(bytes->as_uint().value_or(0)), 'x');
  if (const Value* body = request.find("body")) in.body = text::emit_json(bindings_.fill(*body));
  if (const Value* text = request.find("bodyText")) in.body = bindings_.fill(text->text());
  const auto exchange = std::make_shared<Exchange>();
  const std::optional<User> user = principal(text_at(step, {"as"}));
  (user ? api_->handler(*user) : api_->handler())(std::move(in), exchange);
  return exchange;
}

std::vector<std::string> ReplayCluster::play_request(const Value& step, const std::string& name) {
  Matcher matcher{bindings_, !loose_};
  const std::string who = text_at(step, {"as"});
  if (!principal(who) && who != "none")
    return {fmt::format("unknown principal '{}': admin, viewer, nobody or none", who)};
  const auto exchange = send(step);
  if (const Value* during = step.find("during"); during != nullptr && during->is_list()) {
    world_.run_for(300ms);
    play(*during, name);
  }
  const bool streams = step.find({"response", "stream"}) != nullptr;
  const Instant limit = world_.now() + (streams ? 12min : 2min);
  while (!exchange->finished && world_.now() < limit && world_.step()) {
  }
  compare(step, *exchange, matcher);
  return matcher.problems();
}

void ReplayCluster::compare(const Value& step, Exchange& exchange, Matcher& matcher) {
  const Value& recorded = *step.find("response");
  const std::int64_t status = int_at(recorded, {"status"});
  if (status != exchange.status)
    matcher.complain(fmt::format("status: recorded {}, the lab says {} {}", status, exchange.status,
                                 exchange.body.substr(0, 300)));
  if (const Value* headers = recorded.find("headers"))
    for (const text::Entry& header : headers->entries()) {
      if (header.key == "transfer-encoding" || header.key == "etag") continue;
      std::vector<std::string> wanted;
      if (header.value.is_list())
        for (const Value& one : header.value.items()) wanted.push_back(one.text());
      else
        wanted.push_back(header.value.text());
      std::vector<std::string> mine;
      for (const std::string_view one : exchange.headers.all(header.key)) mine.emplace_back(one);
      std::sort(wanted.begin(), wanted.end());
      std::sort(mine.begin(), mine.end());
      matcher.expect_text("header " + header.key, join(wanted, " | "), join(mine, " | "));
    }
  for (const char* header : {"warning", "retry-after"})
    if (recorded.find({"headers", header}) == nullptr && exchange.headers.find(header))
      matcher.complain(
          fmt::format("header {}: the lab adds {}", header, *exchange.headers.find(header)));
  if (const Value* text = recorded.find("bodyText"))
    return matcher.expect_text("body", text->text(), exchange.body);
  std::vector<Value> lines;
  try {
    for (const std::string& line : split(exchange.body, '\n'))
      if (!line.empty()) lines.push_back(read_json(line).value);
  } catch (const BadJson& bad) {
    if (recorded.find("body") != nullptr) matcher.complain("the body is no JSON: " + bad.message);
    return;
  }
  if (const Value* stream = recorded.find("stream")) return compare_stream(*stream, lines, matcher);
  if (const Value* body = recorded.find("body")) {
    if (lines.size() != 1)
      return matcher.complain(fmt::format("{} lines instead of a body", lines.size()));
    matcher.expect_value("body", *body, lines.front());
    const std::string revision = text_at(lines.front(), {"metadata", "resourceVersion"});
    if (!revision.empty()) last_revision_ = revision;
  }
}

void ReplayCluster::compare_stream(const Value& recorded, const std::vector<Value>& events,
                                   Matcher& matcher) {
  if (!loose_) {
    Value mine = Value::list();
    for (const Value& event : events) mine.append(event);
    return matcher.expect_value("stream", recorded, mine);
  }
  // Of every object the last state counts, and the reasons its conditions gave on the way.
  const auto name_of = [&](const Value& event) {
    return text_at(event, {"object", "kind"}) + " " +
           text_at(event, {"object", "metadata", "name"});
  };
  const auto reasons_of = [](const Value& event) {
    std::string out;
    if (const Value* list = event.find({"object", "status", "conditions"}))
      for (const Value& one : list->items())
        out += text_at(one, {"type"}) + "=" + text_at(one, {"status"}) + ":" +
               text_at(one, {"reason"}) + " ";
    return out;
  };
  std::vector<std::string> order;
  std::map<std::string, std::pair<const Value*, std::set<std::string>>> wanted;
  for (const Value& event : recorded.items()) {
    auto& entry = wanted[name_of(event)];
    if (entry.first == nullptr) order.push_back(name_of(event));
    entry.first = &event;
    entry.second.insert(reasons_of(event));
  }
  std::map<std::string, std::pair<const Value*, std::set<std::string>>> mine;
  for (const Value& event : events) {
    auto& entry = mine[name_of(event)];
    entry.first = &event;
    entry.second.insert(reasons_of(event));
  }
  for (const std::string& name : order) {
    const auto& [last, reasons] = wanted[name];
    const auto found = std::find_if(mine.begin(), mine.end(), [&, name = name](const auto& one) {
      return bindings_.text(name, one.first);
    });
    if (found == mine.end()) {
      matcher.complain(fmt::format("stream: nothing was heard of {}", name));
      continue;
    }
    matcher.expect_value("stream " + name, *last, *found->second.first);
    for (const std::string& reason : reasons)
      if (!found->second.second.contains(reason))
        matcher.complain(fmt::format("stream {}: never [{}]", name, reason));
  }
}

bool ReplayCluster::happen(const std::string& what) {
  if (what == "etcd is frozen") {
    quorum_ = false;
    return true;
  }
  if (what == "etcd runs again") {
    quorum_ = true;
    return true;
  }
  if (what.starts_with("GET of the object without resourceVersion")) {
    const auto exchange = std::make_shared<Exchange>();
    net::Incoming in;
    in.method = "GET";
    in.target = "/api/v1/namespaces/g3/configmaps/a";
    const Instant start = world_.now();
    api_->handler({"admin", {"system:masters"}})(std::move(in), exchange);
    world_.run_for(2min);
    return exchange->was_cut && exchange->status == 0 && world_.now() - start >= 60s;
  }
  if (what.starts_with("etcd compacted at the resourceVersion of the last answer")) {
    api_->restart();
    api_->storage().skip(3);
    return true;
  }
  if (what == "first rollout complete" || what == "both Pods Ready" ||
      what.starts_with("no second node")) {
    world_.run_for(20s);
    return true;
  }
  if (what.starts_with("a second node is Ready")) {
    // Of the Nodes that were made by hand, kwok plays all.
    std::vector<std::string> silent;
    for (const auto& [key, node] : api_->storage().all("/nodes"))
      if (!api_->joined(key.name)) silent.push_back(key.name);
    for (const std::string& name : silent) api_->join({name, "10.0.0.22"});
    world_.run_for(1min);
    return true;
  }
  if (what.starts_with("wait")) {
    world_.run_for(what.find("2 s") != std::string::npos ? 2s : 1s);
    return true;
  }
  return false;
}

std::optional<WebhookAnswer> ReplayCluster::webhook(const Value& hook) const {
  const auto answers = [](const char* response) {
    WebhookAnswer answer;
    answer.response = json(response);
    return answer;
  };
  const auto fails = [](const char* why) {
    WebhookAnswer answer;
    answer.failure = why;
    return answer;
  };
  const std::string behaviour =
      note_.starts_with("webhook answers ") ? note_.substr(16) : std::string{};
  if (behaviour == "500")
    return fails(
        "failed to call webhook: an error on the server (\"unknown\") has prevented the "
        "request from succeeding");
  if (behaviour == "404")
    return fails("failed to call webhook: the server could not find the requested resource");
  if (behaviour == "garbage")
    return fails(
        "failed to call webhook: couldn't get version/kind; json parse error: json: cannot "
        "unmarshal string into Go value of type struct { APIVersion string "
        "\"json:\\\"apiVersion,omitempty\\\"\"; Kind string "
        "\"json:\\\"kind,omitempty\\\"\" }");
  if (behaviour == "wronguid")
    return fails(
        "received invalid webhook response: expected response.uid=\"<request uid>\", got "
        "\"nope\"");
  if (behaviour == "deny")
    return answers(R"({"allowed":false,"status":{"code":403,"message":"pool overlaps"}})");
  if (behaviour == "deny-plain") return answers(R"({"allowed":false})");
  if (behaviour == "deny422")
    return answers(
        R"({"allowed":false,"status":{"code":422,"reason":"Invalid","message":"bad pool","details":{"causes":[{"message":"no","field":"spec.x"}]}}})");
  if (note_ == "allowed with warnings")
    return answers(R"({"allowed":true,"warnings":["first warning","second"]})");
  if (id_ == "webhook/timeout")
    return fails(
        "failed to call webhook: Post \"https://127.0.40.9:9443/v?timeout=1s\": context "
        "deadline exceeded");
  if (id_ == "webhook/late" && !note_.starts_with("1")) {
    if (!text_at(hook, {"clientConfig", "caBundle"}).empty()) return answers(R"({"allowed":true})");
    return fails(
        "failed to call webhook: Post \"https://late.default.svc:443/v?timeout=10s\": tls: "
        "failed to verify certificate: x509: certificate signed by unknown authority");
  }
  return std::nullopt;
}

}  // namespace rocca::lab::kube
