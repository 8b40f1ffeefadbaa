#include "base/encoding.hpp"
#include "base/error.hpp"
#include "s3/client.hpp"
#include "s3/scripted_transport.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

// What a real S3 server answered, given to our client: it sends the same request, takes a success
// as one and a refusal for what its code says.

namespace rocca::s3 {

namespace {

using text::Value;

std::string text_at(const Value& map, std::string_view key) {
  const Value* value = map.find(key);
  return value != nullptr && value->is_scalar() ? value->text() : "";
}

struct Step {
  std::string method;
  std::string bucket;
  std::string key;
  std::string body;
  net::Headers headers;
  std::map<std::string, std::string> query;
  net::Answer answer;
};

Step read_step(const Value& step) {
  Step read;
  const Value& request = *step.find("request");
  const Value& response = *step.find("response");
  read.method = text_at(request, "method");
  const std::string path = text_at(request, "path").substr(1);
  read.bucket = path.substr(0, path.find('/'));
  read.key = path.size() > read.bucket.size() ? path.substr(read.bucket.size() + 1) : "";
  read.body = text_at(request, "bodyText");
  if (const Value* headers = request.find("headers"); headers != nullptr && headers->is_map())
    for (const text::Entry& entry : headers->entries())
      read.headers.add(entry.key, entry.value.text());
  if (const Value* query = request.find("query"); query != nullptr && query->is_list())
    for (const Value& pair : query->items())
      read.query[pair.items()[0].text()] = pair.items()[1].text();
  read.answer.head.status = static_cast<int>(*response.find("status")->as_int());
  for (const text::Entry& entry : response.find("headers")->entries())
    read.answer.head.headers.add(entry.key, entry.value.text());
  read.answer.body = text_at(response, "bodyText");
  return read;
}

/// Only what every step must keep; nothing of it is written down per step.
void check_failure(const Step& step, const Error& error) {
  const int status = step.answer.head.status;
  EXPECT_GE(status, 400);
  const std::string code = find_element(step.answer.body, "Code").value_or("");
  EXPECT_THAT(error.message(), testing::HasSubstr(code));
  EXPECT_THAT(error.message(), testing::HasSubstr(std::to_string(status)));
  const bool about_us = status == 401 || status == 403 || code.find("User") != std::string::npos ||
                        code.find("AccessKey") != std::string::npos;
  if (about_us) {
    EXPECT_EQ(error.fault(), Fault::Denied);
  } else if (status == 404) {
    EXPECT_EQ(error.fault(), Fault::NotFound);
  } else {
    EXPECT_EQ(error.fault(), Fault::Rejected);
  }
}

/// Does the client have such a call at all? (Buckets, copies, ranges, checksums: not needed.)
bool is_ours(const Step& step) {
  for (const net::Header& header : step.headers) {
    const bool known = header.name == "Content-Type" ||
                       (header.name == "If-Match" && header.value != "*") ||
                       (header.name == "If-None-Match" && header.value == "*");
    if (!known) return false;
  }
  if (step.key.empty())
    return step.query.contains("list-type") && !step.query.contains("delimiter") &&
           !step.query.contains("encoding-type") && !step.query.contains("continuation-token");
  return step.query.empty();
}

void run(const Step& step) {
  // A list is cut after its first page: the recording has the next one as a step of its own.
  net::Answer last;
  last.head.status = 200;
  last.body = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
  int asked = 0;
  ScriptedTransport transport{
      [&](const net::Request&) { return asked++ == 0 ? step.answer : last; }};
  VirtualClock clock;
  Client client{transport,
                clock,
                {"http://127.0.0.1:7070", "us-east-1", step.bucket, "key", Secret{"secret"}, {}}};
  const int status = step.answer.head.status;
  const std::string etag{step.answer.head.headers.find("etag").value_or("")};
  try {
    if (step.key.empty()) {
      const auto page = step.query.find("max-keys");
      const auto entries = client.list(
          step.query.at("prefix"),
          page == step.query.end() ? 1000 : static_cast<unsigned>(std::stoul(page->second)));
      EXPECT_EQ(std::to_string(entries.size()), *find_element(step.answer.body, "KeyCount"));
      for (const Entry& entry : entries) {
        EXPECT_TRUE(entry.key.starts_with(step.query.at("prefix"))) << entry.key;
        EXPECT_THAT(entry.etag, testing::MatchesRegex("\"[0-9a-f]+\""));
      }
    } else if (step.method == "GET") {
      const auto object = client.find(step.key);
      EXPECT_EQ(object.has_value(), status == 200);
      if (object) {
        EXPECT_EQ(object->body, step.answer.body);
        EXPECT_EQ(object->etag, etag);
      }
    } else if (step.method == "HEAD") {
      const auto entry = client.head(step.key);
      EXPECT_EQ(entry.has_value(), status == 200);
      EXPECT_EQ(entry.value_or(Entry{}).etag, entry ? etag : "");
    } else if (step.method == "DELETE") {
      client.remove(step.key);
      EXPECT_LT(status, 300);
    } else if (step.method == "PUT") {
      Condition condition;
      std::string type = "application/octet-stream";
      for (const net::Header& header : step.headers) {
        if (header.name.starts_with("If-")) condition = {header.name, header.value};
        if (header.name == "Content-Type") type = header.value;
      }
      const auto written = client.put(step.key, step.body, condition, type);
      EXPECT_EQ(written.has_value(), status == 200);
      EXPECT_EQ(written.value_or(""), written ? etag : "");
    }
  } catch (const Error& error) {
    check_failure(step, error);
  }
  const net::Request& sent = transport.requests.at(0);
  EXPECT_EQ(sent.method, step.method);
  EXPECT_TRUE(sent.url.starts_with("http://127.0.0.1:7070/" + step.bucket)) << sent.url;
  EXPECT_TRUE(step.key.empty() || sent.url.ends_with("/" + encode_path(step.key))) << sent.url;
  for (const net::Header& header : step.headers)
    EXPECT_EQ(sent.headers.find(header.name).value_or("(none)"), header.value) << header.name;
  for (const auto& [name, value] : step.query)
    EXPECT_THAT(sent.url, testing::HasSubstr(name + "=" + percent_encode(value)));
}

TEST(S3Recordings, AreUnderstood) {
  for (const std::string& file : test::reference_files("s3", ".json")) {
    const Value root = text::parse_json(test::read_file(file), file);
    for (const Value& value : root.find("steps")->items()) {
      if (value.find("request") == nullptr) continue;
      const Step step = read_step(value);
      SCOPED_TRACE(fmt::format("{}: {} /{}/{} -> {}", file, step.method, step.bucket, step.key,
                               step.answer.head.status));
      test::count_case();
      if (is_ours(step)) {
        run(step);
      } else if (step.answer.head.status >= 400) {
        const Failure failure = classify(step.answer.head.status, step.answer.body);
        EXPECT_EQ(failure.code, find_element(step.answer.body, "Code").value_or(""));
        EXPECT_NE(failure.error("x", false).fault(), Fault::Bug);
      }
    }
  }
}

}  // namespace

}  // namespace rocca::s3
