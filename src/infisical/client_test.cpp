#include "infisical/client.hpp"

#include "base/error.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>

namespace rocca::infisical {
namespace {

using testing::HasSubstr;
using testing::Not;

class FakeInfisical final : public net::Transport {
 public:
  using Script = std::function<std::pair<int, std::string>(const net::Request&)>;
  explicit FakeInfisical(Script script) : script_(std::move(script)) {}

  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token) override {
    requests.push_back(request);
    std::pair<int, std::string> answer{200, R"({"accessToken":"token-1","expiresIn":3600})"};
    if (request.url.find("/login") == std::string::npos)
      answer = script_(request);
    else
      ++logins;
    net::Response response;
    response.status = answer.first;
    sink.begin(response);
    sink.write(answer.second);
    return response;
  }

  std::vector<net::Request> requests;
  int logins = 0;

 private:
  Script script_;
};

const Place place{"project-1", "prod", "/clusters/blue"};

Access access() {
  return {"https://eu.infisical.com", "id", Secret("canary-secret"), net::Tls::system()};
}

std::string error_body(int status, const std::string& name, const std::string& message) {
  return fmt::format(R"({{"reqId":"x","statusCode":{},"message":"{}","error":"{}"}})", status,
                     message, name);
}

TEST(Infisical, ReadsAFolderInOneCallAndLogsInOnce) {
  FakeInfisical server{[](const net::Request&) {
    return std::pair{200,
                     std::string(R"({"secrets":[{"secretKey":"PROXMOX_TOKEN","secretValue":"a"}],
                      "imports":[{"secrets":[{"secretKey":"PROXMOX_TOKEN","secretValue":"older"},{"secretKey":"B","secretValue":"b"}]}]})")};
  }};
  VirtualClock clock;
  Client client{server, clock, access()};
  auto values = client.secrets(place);
  EXPECT_EQ(values.at("PROXMOX_TOKEN").reveal(), "a");
  EXPECT_EQ(values.at("B").reveal(), "b");
  client.secrets(place);
  EXPECT_EQ(server.logins, 1);
  EXPECT_EQ(server.requests[1].authorization->reveal(), "Bearer token-1");
  EXPECT_THAT(server.requests[1].url, HasSubstr("secretPath=%2Fclusters%2Fblue"));
  clock.advance(std::chrono::hours{1});
  client.secrets(place);
  EXPECT_EQ(server.logins, 2) << "an expired token is not used";
}

TEST(Infisical, LogsInAgainWhenItsTokenIsRefused) {
  int calls = 0;
  FakeInfisical server{[&](const net::Request&) {
    if (++calls == 1)
      return std::pair{403, error_body(403, "TokenError", "Your token has expired")};
    return std::pair{200, std::string(R"({"secrets":[]})")};
  }};
  VirtualClock clock;
  Client client{server, clock, access()};
  EXPECT_TRUE(client.secrets(place).empty());
  EXPECT_EQ(server.logins, 2);
}

struct Refusal {
  int status;
  const char* error;
  Fault fault;
};

class Refusals : public testing::TestWithParam<Refusal> {};

TEST_P(Refusals, AreToldApart) {
  const Refusal& c = GetParam();
  FakeInfisical server{[&](const net::Request&) {
    return std::pair{c.status, error_body(c.status, c.error, "no")};
  }};
  VirtualClock clock;
  Client client{server, clock, access()};
  try {
    client.secrets(place);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), c.fault);
    EXPECT_THAT(error.message(), HasSubstr("/clusters/blue in environment prod"));
    EXPECT_THAT(error.render(), Not(HasSubstr("canary")));
  }
}

INSTANTIATE_TEST_SUITE_P(Statuses, Refusals,
                         testing::Values(Refusal{401, "UnauthorizedError", Fault::Denied},
                                         Refusal{403, "PermissionDenied", Fault::Denied},
                                         Refusal{404, "NotFound", Fault::NotFound},
                                         Refusal{422, "ValidationFailure", Fault::Rejected},
                                         Refusal{429, "RateLimitExceeded", Fault::Busy},
                                         Refusal{500, "InternalServerError", Fault::Unreachable}));

TEST(Infisical, AMissingSecretIsAnAnswerAndAMissingFolderIsNot) {
  std::string message = "Secret with name 'X' not found";
  FakeInfisical server{[&](const net::Request&) {
    return std::pair{404, error_body(404, "NotFound", message)};
  }};
  VirtualClock clock;
  Client client{server, clock, access()};
  EXPECT_EQ(client.find_secret(place, "X"), std::nullopt);
  message = "Folder with path '/clusters/blue' in environment with slug 'prod' not found";
  EXPECT_THROW(client.find_secret(place, "X"), Error);
}

TEST(Infisical, MakesTheFolderAndWritesAgain) {
  int writes = 0;
  FakeInfisical server{[&](const net::Request& request) {
    if (request.url.ends_with("/api/v2/folders"))
      return std::pair{200, std::string(R"({"folder":{}})")};
    if (++writes == 1)
      return std::pair{
          404, error_body(
                   404, "CreateSecret",
                   "Folder with path '/clusters/blue' in environment with slug 'prod' not found")};
    return std::pair{200, std::string(R"({"secrets":[]})")};
  }};
  VirtualClock clock;
  Client client{server, clock, access()};
  client.write(place, {{"KUBECONFIG", Secret("text")}});
  EXPECT_EQ(writes, 2);
  const auto folder = text::parse_json(std::get<std::string>(server.requests[2].body), "body");
  EXPECT_EQ(folder.find("name")->text(), "blue");
  EXPECT_EQ(folder.find("path")->text(), "/clusters");
  const auto batch = text::parse_json(std::get<std::string>(server.requests[3].body), "body");
  EXPECT_EQ(batch.find("mode")->text(), "upsert");
}

TEST(Infisical, AnApprovalIsNoSuccess) {
  FakeInfisical server{[](const net::Request&) {
    return std::pair{200, std::string(R"({"approval":{"id":"x"}})")};
  }};
  VirtualClock clock;
  Client client{server, clock, access()};
  EXPECT_THROW(client.write(place, {{"A", Secret("b")}}), Error);
}

TEST(Infisical, RefusesHostsThatAreNone) {
  FakeInfisical server{[](const net::Request&) { return std::pair{200, std::string("{}")}; }};
  VirtualClock clock;
  for (const char* host : {"eu.infisical.com", "ftp://eu.infisical.com", "https://x/api"})
    EXPECT_THROW((Client{server, clock, {host, "id", Secret("x"), net::Tls::system()}}), Error)
        << host;
}

TEST(Infisical, AnIdentityGoesOutInClearOnlyToThisMachineOrWhereTheUserSaysSo) {
  FakeInfisical server{[](const net::Request&) { return std::pair{200, std::string("{}")}; }};
  VirtualClock clock;
  const auto make = [&](const char* host, bool plain_http) {
    Client{server, clock, {host, "id", Secret("x"), net::Tls::system(), plain_http}};
  };
  EXPECT_THROW(make("http://infisical.home", false), Error);
  EXPECT_NO_THROW(make("http://infisical.home", true));
  EXPECT_NO_THROW(make("http://127.0.0.1:8080", false));
  EXPECT_NO_THROW(make("https://infisical.home", false));
}

}  // namespace
}  // namespace rocca::infisical
