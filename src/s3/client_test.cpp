#include "s3/client.hpp"

#include "base/error.hpp"
#include "s3/scripted_transport.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::s3 {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Access access() {
  return {"http://nas.home:9000/", "eu", "state", "key", Secret{"secret"}, {}};
}

TEST(S3Client, SignsEveryHeaderItSends) {
  VirtualClock clock;
  ScriptedTransport transport{[](const net::Request&) { return answer(200, "", "\"e1\""); }};
  Client client{transport, clock, access()};
  EXPECT_EQ(client.put("a/b c", "body", Condition::if_match("\"e0\""), "application/json"),
            "\"e1\"");
  const net::Request& sent = transport.requests.at(0);
  EXPECT_EQ(sent.url, "http://nas.home:9000/state/a/b%20c");
  EXPECT_EQ(sent.headers.find("If-Match"), "\"e0\"");
  EXPECT_THAT(
      std::string(sent.authorization->reveal()),
      HasSubstr("SignedHeaders=content-type;host;if-match;x-amz-content-sha256;x-amz-date"));
}

TEST(S3Client, ThePlainHttpOptOutIsAPartOfTheRequestAndNoHeader) {
  VirtualClock clock;
  ScriptedTransport transport{[](const net::Request&) { return answer(200, "", "\"e1\""); }};
  Access allowed = access();
  allowed.plain_http = true;
  Client(transport, clock, allowed).put("a", "body", Condition::if_match("\"e0\""), "text/plain");
  Client(transport, clock, access()).put("a", "body", Condition::if_match("\"e0\""), "text/plain");
  EXPECT_TRUE(transport.requests.at(0).plain_http);
  EXPECT_FALSE(transport.requests.at(1).plain_http);
  for (const auto& [name, value] : transport.requests.at(0).headers)
    EXPECT_FALSE(name.starts_with(':')) << name;
}

TEST(S3Client, FollowsAListOverItsPages) {
  VirtualClock clock;
  ScriptedTransport transport{[](const net::Request& request) {
    const bool second = request.url.find("continuation-token=t%2F1") != std::string::npos;
    return answer(200,
                  fmt::format("<ListBucketResult><IsTruncated>{}</IsTruncated>{}"
                              "<Contents><Key>k&amp;{}</Key><ETag>&#34;e&#34;</ETag>"
                              "<Size>7</Size></Contents></ListBucketResult>",
                              second ? "false" : "true",
                              second ? "" : "<NextContinuationToken>t/1</NextContinuationToken>",
                              second ? 2 : 1));
  }};
  Client client{transport, clock, access()};
  EXPECT_THAT(client.list("k"), ElementsAre(Entry{"k&1", "\"e\"", 7}, Entry{"k&2", "\"e\"", 7}));
  EXPECT_EQ(transport.requests.size(), 2u);
}

TEST(S3Client, AListThatDoesNotSayHowToGoOnIsAnError) {
  VirtualClock clock;
  ScriptedTransport transport{[](const net::Request&) {
    return answer(200, "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>");
  }};
  EXPECT_THROW(Client(transport, clock, access()).list("k"), Error);
}

TEST(S3Client, HearsEveryAnswer) {
  VirtualClock clock;
  ScriptedTransport transport{[](const net::Request&) { return answer(404, ""); }};
  Client client{transport, clock, access()};
  int heard = 0;
  client.on_answer([&](const net::Headers&) { ++heard; });
  EXPECT_EQ(client.find("x"), std::nullopt);
  EXPECT_EQ(client.head("x"), std::nullopt);
  EXPECT_EQ(heard, 2);
}

TEST(S3Client, RefusesEndpointsThatAreNone) {
  VirtualClock clock;
  ScriptedTransport transport{[](const net::Request&) { return answer(200, ""); }};
  for (const char* endpoint : {"", "nas.home", "https://nas.home/bucket", "s3://bucket"}) {
    Access wrong = access();
    wrong.endpoint = endpoint;
    EXPECT_THROW(Client(transport, clock, wrong), Error) << endpoint;
  }
}

struct Case {
  std::string name;
  int status;
  std::string body;
  Reason reason;
  Fault fault;  // of a write
};

class S3Failure : public testing::TestWithParam<Case> {};

TEST_P(S3Failure, IsKnown) {
  const Failure failure = classify(GetParam().status, GetParam().body);
  EXPECT_EQ(failure.reason, GetParam().reason) << to_string(failure.reason);
  EXPECT_EQ(failure.error("writing", true).fault(), GetParam().fault);
}

std::string error_body(std::string_view code) {
  return fmt::format("<Error><Code>{}</Code><Message>m</Message></Error>", code);
}

// What the recordings do not hold: AWS' own words, gateways that send no XML.
INSTANTIATE_TEST_SUITE_P(
    Table, S3Failure,
    testing::Values(
        Case{"Raced", 409, error_body("ConditionalRequestConflict"), Reason::ConditionRaced,
             Fault::Conflict},
        Case{"UnknownKey", 403, error_body("InvalidAccessKeyId"), Reason::Denied, Fault::Denied},
        Case{"Region", 301, error_body("PermanentRedirect"), Reason::WrongRegion, Fault::Usage},
        Case{"Region400", 400, error_body("AuthorizationHeaderMalformed"), Reason::WrongRegion,
             Fault::Usage},
        Case{"SlowDown", 503, error_body("SlowDown"), Reason::Busy, Fault::Busy},
        Case{"Internal", 500, error_body("InternalError"), Reason::Broken, Fault::Lost},
        Case{"Gateway", 502, "<html>Bad Gateway</html>", Reason::Broken, Fault::Lost},
        Case{"Aborted", 409, error_body("OperationAborted"), Reason::Busy, Fault::Busy},
        Case{"NoXml", 403, "", Reason::Denied, Fault::Denied},
        Case{"Odd", 400, error_body("EntityTooLarge"), Reason::Other, Fault::Rejected}),
    [](const auto& test) { return test.param.name; });

}  // namespace

}  // namespace rocca::s3
