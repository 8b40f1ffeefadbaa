#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "kube/client.hpp"
#include "kube/scripted_transport.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

// What a real API server answered, given to our client: a refusal is known by the server's own
// words, an object comes through as it is, and a call that the recording has is sent the same way.

namespace rocca::kube {

namespace {

std::string text_at(const Value& map, std::string_view key) {
  const Value* value = map.find(key);
  return value != nullptr && value->is_scalar() && !value->is_null() ? value->text() : "";
}

struct Exchange {
  const Value* request = nullptr;
  std::string method;
  std::string path;
  std::string content_type;
  Query query;
  net::Answer answer;
  const Value* body = nullptr;  // of the answer; nothing for text and streams
};

Exchange read_exchange(const Value& step) {
  Exchange read;
  read.request = step.find("request");
  const Value& response = *step.find("response");
  read.method = text_at(*read.request, "method");
  read.path = text_at(*read.request, "path");
  if (const Value* headers = read.request->find("headers"))
    read.content_type = text_at(*headers, "Content-Type");
  if (const Value* query = read.request->find("query"); query != nullptr && query->is_list())
    for (const Value& pair : query->items())
      read.query.emplace_back(pair.items()[0].text(), pair.items()[1].text());
  read.answer.head.status = static_cast<int>(*response.find("status")->as_int());
  if (const Value* headers = response.find("headers"); headers != nullptr && headers->is_map())
    for (const text::Entry& entry : headers->entries())
      if (entry.value.is_scalar()) read.answer.head.headers.add(entry.key, entry.value.text());
  read.body = response.find("body");
  if (read.body != nullptr && !read.body->is_map()) read.body = nullptr;
  read.answer.body =
      read.body != nullptr ? text::emit_json(*read.body) : text_at(response, "bodyText");
  return read;
}

/// The rules of gitops' table: what each code and reason asks of a client.
Remedy expected_remedy(int status, const std::string& reason, const Failure& failure) {
  const bool terminating =
      std::any_of(failure.causes.begin(), failure.causes.end(),
                  [](const Cause& cause) { return cause.reason == "NamespaceTerminating"; });
  if (status == 409) return failure.owned_by_others() ? Remedy::Report : Remedy::Reread;
  if (status == 410) return Remedy::Relist;
  if (status == 429 || terminating) return Remedy::Wait;
  if (status == 503 || status == 504) return Remedy::Retry;
  if (status == 500 && (!reason.empty() || failure.message.starts_with("conversion webhook")))
    return Remedy::Retry;
  return Remedy::Report;
}

void check_failure(const Exchange& exchange) {
  const int status = exchange.answer.head.status;
  const Failure failure = classify(status, exchange.answer.head.headers, exchange.answer.body);
  EXPECT_EQ(failure.status, status);
  std::string reason;
  if (exchange.body != nullptr) {
    reason = text_at(*exchange.body, "reason");
    EXPECT_EQ(failure.message, text_at(*exchange.body, "message"));
    if (!reason.empty()) {
      EXPECT_EQ(to_string(failure.reason), reason);
    } else if (status == 500) {
      EXPECT_EQ(failure.reason, Reason::Unknown);
    }
    const Value* causes = exchange.body->find({"details", "causes"});
    EXPECT_EQ(failure.causes.size(), causes != nullptr ? causes->size() : 0);
    const Value* name = exchange.body->find({"details", "name"});
    EXPECT_EQ(failure.name, name != nullptr ? name->text() : "");
  } else if (status == 404) {
    EXPECT_EQ(failure.reason, Reason::NoSuchPath);
  }
  EXPECT_EQ(to_string(failure.remedy()), to_string(expected_remedy(status, reason, failure)));
  const Fault fault = failure.error("x", true).fault();
  EXPECT_NE(fault, Fault::Bug);
  EXPECT_EQ(fault == Fault::Denied, status == 401 || status == 403);
  EXPECT_EQ(fault == Fault::NotFound, status == 404);
  EXPECT_EQ(fault == Fault::Conflict, status == 409);
  EXPECT_TRUE(fault == Fault::Rejected || (status != 400 && status != 415 && status != 422));
}

/// Calls that the client has, made from the recorded request. The answer must come through.
void check_call(const Exchange& exchange) {
  ScriptedTransport transport{[&](const net::Request&) { return exchange.answer; }};
  MemoryFiles files;
  Access access;
  access.server = "https://10.0.0.20:6443";
  Client client{transport, files, access};
  const Value* sent_body = exchange.request->find("body");
  std::optional<Value> result;
  if (exchange.method == "GET" && exchange.query.empty()) {
    result = client.get(exchange.path);
  } else if (exchange.method == "POST" && sent_body != nullptr) {
    result = client.create(exchange.path, *sent_body);
  } else if (exchange.method == "PUT" && sent_body != nullptr) {
    result = client.update(exchange.path, *sent_body);
  } else if (exchange.method == "PATCH" && sent_body != nullptr) {
    if (exchange.content_type == "application/apply-patch+yaml") {
      result = std::get<Value>(client.apply(exchange.path, *sent_body, false));
    } else {
      const Patch type = exchange.content_type == "application/json-patch+json" ? Patch::Json
                         : exchange.content_type == "application/merge-patch+json"
                             ? Patch::Merge
                             : Patch::Strategic;
      result = client.patch(exchange.path, type, *sent_body);
    }
    EXPECT_EQ(transport.requests.at(0).headers.find("Content-Type"), exchange.content_type);
  } else if (exchange.method == "DELETE" && sent_body == nullptr && exchange.query.empty()) {
    EXPECT_TRUE(client.remove(exchange.path));
    result = *exchange.body;
  } else {
    return;
  }
  ASSERT_TRUE(result);
  EXPECT_TRUE(*result == *exchange.body);
  const net::Request& sent = transport.requests.at(0);
  EXPECT_EQ(sent.method, exchange.method);
  EXPECT_TRUE(sent.url.starts_with(access.server + exchange.path)) << sent.url;
  if (sent_body != nullptr) {
    EXPECT_TRUE(text::parse_json(std::get<std::string>(sent.body), "sent") == *sent_body);
  }
}

void walk(const Value& steps, const std::string& file) {
  for (const Value& step : steps.items()) {
    if (step.find("request") == nullptr || step.find("response") == nullptr) continue;
    const Exchange exchange = read_exchange(step);
    SCOPED_TRACE(fmt::format("{}: {} {} -> {}", file, exchange.method, exchange.path,
                             exchange.answer.head.status));
    test::count_case();
    if (exchange.answer.head.status >= 400) {
      check_failure(exchange);
    } else if (exchange.body != nullptr) {
      check_call(exchange);
    }
    if (const Value* during = step.find("during"); during != nullptr && during->is_list())
      walk(*during, file);
  }
}

TEST(KubeRecordings, AreUnderstood) {
  for (const std::string& file : test::reference_files("kube", ".json")) {
    const Value root = text::parse_json(test::read_file(file), file);
    walk(*root.find("steps"), file);
  }
}

}  // namespace

}  // namespace rocca::kube
