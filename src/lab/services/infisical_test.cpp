#include "lab/services/infisical.hpp"

#include "base/error.hpp"
#include "lab/sim/faults.hpp"
#include "lab/sim/wire.hpp"
#include "net/transport.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::lab {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

struct Said {
  int status = 0;
  text::Value body;
  net::Headers headers;

  std::string at(std::initializer_list<std::string_view> path) const {
    const text::Value* found = body.find(path);
    return found == nullptr ? "(none)" : found->text();
  }
  std::string message() const { return at({"message"}); }
};

/// Asks with plain requests, so that what is tested here is the lab and not our client.
class InfisicalLab : public ::testing::Test {
 protected:
  InfisicalLab() {
    world.network().set_name("infisical.lab", "192.0.2.81");
    world.network().open("192.0.2.81", 80, {"infisical", std::nullopt, server.handler()});
    project = &server.add_project("homelab", {"prod"});
    identity = &server.add_identity();
    identity->roles[project->id] = Infisical::Role::Member;
  }

  Said send(const std::string& method, const std::string& target, const std::string& body = "",
            const std::string& bearer = "") {
    net::Request request;
    request.method = method;
    request.url = "http://infisical.lab" + target;
    if (!bearer.empty()) request.authorization = Secret("Bearer " + bearer);
    if (!body.empty()) {
      request.headers.add("Content-Type", "application/json");
      request.body = body;
    }
    const net::Answer answer = net::fetch(wire, request);
    return {answer.head.status, text::parse_json(answer.body, "answer"), answer.head.headers};
  }
  Said log_in(const std::string& id, const std::string& secret) {
    return send("POST", "/api/v1/auth/universal-auth/login",
                fmt::format(R"({{"clientId":"{}","clientSecret":"{}"}})", id, secret));
  }
  std::string token() {
    return log_in(identity->client_id, identity->client_secret).at({"accessToken"});
  }
  /// The keys that every change carries, and more.
  std::string body(const std::string& more, const std::string& path_key = "secretPath",
                   const std::string& path = "/") {
    return fmt::format(R"({{"projectId":"{}","environment":"prod","{}":"{}"{}{}}})", project->id,
                       path_key, path, more.empty() ? "" : ",", more);
  }
  std::string query(const std::string& path = "/") {
    return fmt::format("?projectId={}&environment=prod&secretPath={}", project->id, path);
  }

  World world;
  Wire wire{world};
  Infisical server{world};
  Infisical::Project* project = nullptr;
  Infisical::Identity* identity = nullptr;
};

TEST_F(InfisicalLab, LocksAnIdentityAfterThreeWrongSecrets) {
  EXPECT_EQ(log_in("nobody", "x").message(), "Invalid credentials");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(log_in(identity->client_id, "wrong").status, 401);
  EXPECT_THAT(log_in(identity->client_id, identity->client_secret).message(),
              HasSubstr("temporarily locked"));
  world.run_for(5min);
  EXPECT_EQ(log_in(identity->client_id, identity->client_secret).status, 200);
}

TEST_F(InfisicalLab, ATokenExpiresAndCanBeRenewedAndRevoked) {
  const std::string bearer = token();
  EXPECT_EQ(send("GET", "/api/v4/secrets" + query()).message(), "Token missing");
  EXPECT_EQ(send("GET", "/api/v4/secrets" + query(), "", "ey.made.up").at({"error"}), "TokenError");
  world.run_for(100min);
  const std::string self = fmt::format(R"({{"accessToken":"{}"}})", bearer);
  EXPECT_EQ(send("POST", "/api/v1/auth/token/renew", self, bearer).status, 200);
  world.run_for(100min);
  EXPECT_EQ(send("GET", "/api/v4/secrets" + query(), "", bearer).status, 200);
  world.run_for(30min);
  EXPECT_EQ(send("GET", "/api/v4/secrets" + query(), "", bearer).message(),
            "Your token has expired. Please re-authenticate.");
  const std::string next = token();
  EXPECT_EQ(send("POST", "/api/v1/auth/token/revoke",
                 fmt::format(R"({{"accessToken":"{}"}})", next), next)
                .status,
            200);
  EXPECT_EQ(send("GET", "/api/v4/secrets" + query(), "", next).status, 401);
}

TEST_F(InfisicalLab, CreatesReadsChangesAndDeletesASecret) {
  const std::string bearer = token();
  const std::string path = "/api/v4/secrets/TOKEN";
  EXPECT_EQ(send("POST", path, body(R"("secretValue":"  a \n\n")"), bearer).status, 200);
  EXPECT_EQ(send("GET", path + query(), "", bearer).at({"secret", "secretValue"}), "a\n")
      << "what stands around a value is not kept";
  EXPECT_EQ(send("POST", path, body(R"("secretValue":"b")"), bearer).message(),
            "Secret already exists");
  const Said changed = send("PATCH", path, body(R"("secretValue":"b")"), bearer);
  EXPECT_EQ(changed.at({"secret", "version"}), "2");
  EXPECT_EQ(send("DELETE", path, body(R"("type":"shared")"), bearer).status, 200);
  EXPECT_EQ(send("DELETE", path, body(""), bearer).message(), "Secret not found");
  EXPECT_EQ(send("GET", path + query(), "", bearer).message(),
            "Secret with name 'TOKEN' not found");
  EXPECT_EQ(send("PATCH", path, body(R"("secretValue":"b")"), bearer).message(),
            "Secret with name TOKEN not found");
}

TEST_F(InfisicalLab, TheOlderPathsNameTheProjectDifferently) {
  server.put(*project, "prod", "/", "A", "1");
  const std::string bearer = token();
  const std::string raw = "/api/v3/secrets/raw";
  EXPECT_EQ(send("GET", raw + query(), "", bearer).status, 422);
  EXPECT_EQ(
      send("GET", fmt::format("{}?workspaceId={}&environment=prod", raw, project->id), "", bearer)
          .at({"secrets", "0", "secretValue"}),
      "1");
  EXPECT_EQ(send("PATCH", raw + "/A",
                 fmt::format(R"({{"workspaceId":"{}","environment":"prod","secretValue":"2"}})",
                             project->id),
                 bearer)
                .status,
            200);
  EXPECT_EQ(server.find(*project, "prod", "/", "A")->value, "2");
}

TEST_F(InfisicalLab, ABatchIsAllOrNothing) {
  server.put(*project, "prod", "/", "A", "1");
  const std::string bearer = token();
  const std::string two =
      R"("secrets":[{"secretKey":"A","secretValue":"2"},{"secretKey":"B","secretValue":"3"}])";
  const std::string path = "/api/v4/secrets/batch";
  EXPECT_EQ(send("POST", path, body(two), bearer).message(), "Secret already exists: A");
  EXPECT_THAT(send("PATCH", path, body(two), bearer).message(), HasSubstr("does not exist: B"));
  EXPECT_EQ(server.find(*project, "prod", "/", "A")->value, "1");
  EXPECT_EQ(send("PATCH", path, body(R"("mode":"ignore",)" + two), bearer).status, 200);
  EXPECT_EQ(server.find(*project, "prod", "/", "B"), nullptr);
  EXPECT_EQ(send("PATCH", path, body(R"("mode":"upsert",)" + two), bearer).status, 200);
  EXPECT_EQ(server.find(*project, "prod", "/", "B")->value, "3");
  EXPECT_EQ(send("PATCH", path, body(R"("secrets":[])"), bearer).status, 422);
}

TEST_F(InfisicalLab, MakesFoldersWithThoseAboveThem) {
  const std::string bearer = token();
  const Said made =
      send("POST", "/api/v2/folders", body(R"("name":"blue")", "path", "/a/b"), bearer);
  EXPECT_EQ(made.at({"folder", "path"}), "/a/b/blue");
  EXPECT_EQ(
      send("POST", "/api/v2/folders", body(R"("name":"blue")", "path", "/a/b"), bearer).message(),
      "Folder with name 'blue' already exists in path '/a/b'");
  EXPECT_EQ(send("POST", "/api/v2/folders", body(R"("name":"b c")", "path", "/"), bearer).status,
            422);
  const Said listed =
      send("GET", fmt::format("/api/v2/folders?projectId={}&environment=prod&path=/a", project->id),
           "", bearer);
  EXPECT_EQ(listed.at({"folders", "0", "name"}), "b");
  EXPECT_EQ(listed.body.find("folders")->size(), 1u);
  EXPECT_THAT(send("DELETE", "/api/v2/folders/a", body("", "path"), bearer).message(),
              HasSubstr("contains resources"));
  EXPECT_EQ(
      send("DELETE", "/api/v2/folders/a", body(R"("forceDelete":true)", "path"), bearer).status,
      200);
  EXPECT_EQ(project->environments["prod"].size(), 1u);
}

TEST_F(InfisicalLab, RefusesWhatItDoesNotKnow) {
  const std::string bearer = token();
  const Said said =
      send("POST", "/api/v4/secrets/A", body(R"("secretValue":"x","secret":"y")"), bearer);
  EXPECT_EQ(said.status, 422);
  EXPECT_THAT(said.at({"message", "0", "message"}), HasSubstr("'secret'"));
  EXPECT_EQ(send("POST", "/api/v4/secrets/A%2FB", body(R"("secretValue":"x")"), bearer).status,
            422);
  EXPECT_EQ(send("GET", "/api/v4/secrets", "", bearer).message(),
            "Missing project id or environment");
  EXPECT_EQ(send("PUT", "/api/v4/secrets/A", body(""), bearer).status, 404);
  EXPECT_EQ(send("POST", "/api/v4/secrets/A", "{", bearer).status, 400);
}

TEST_F(InfisicalLab, AProjectIsOnlyForItsMembers) {
  Infisical::Project& other = server.add_project("other", {"prod"});
  const std::string bearer = token();
  EXPECT_EQ(send("GET", "/api/v1/projects/slug/homelab", "", bearer).at({"id"}), project->id);
  EXPECT_EQ(send("GET", "/api/v1/projects/slug/other", "", bearer).status, 403);
  EXPECT_EQ(send("GET", "/api/v1/projects/slug/none", "", bearer).status, 404);
  EXPECT_EQ(send("GET", fmt::format("/api/v4/secrets?projectId={}&environment=prod", other.id), "",
                 bearer)
                .at({"error"}),
            "ForbiddenError");
  identity->roles[project->id] = Infisical::Role::Viewer;
  EXPECT_EQ(send("GET", "/api/v4/secrets" + query(), "", bearer).status, 200);
  EXPECT_EQ(send("POST", "/api/v4/secrets/A", body(R"("secretValue":"x")"), bearer).message(),
            "You are not allowed to create on secrets");
}

TEST_F(InfisicalLab, CountsRequestsAndSaysWhenToComeBack) {
  const std::string bearer = token();
  server.limits.secrets = 3;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(send("GET", "/api/v4/secrets" + query(), "", bearer).status, 200);
  world.run_for(20s);
  const Said refused = send("GET", "/api/v4/secrets" + query(), "", bearer);
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.message(), "Rate limit exceeded. Please try again in 40 seconds");
  EXPECT_EQ(refused.headers.find("retry-after"), "40");
  world.run_for(40s);
  EXPECT_EQ(send("GET", "/api/v4/secrets" + query(), "", bearer).status, 200);
}

TEST_F(InfisicalLab, GivesImportsAndReferences) {
  server.put(*project, "prod", "/base", "A", "1");
  server.put(*project, "prod", "/blue", "B", "b${C}");
  server.put(*project, "prod", "/blue", "C", "c");
  server.folder(*project, "prod", "/blue").imports = {"/base"};
  const std::string bearer = token();
  const Said said = send("GET", "/api/v4/secrets" + query("/blue"), "", bearer);
  EXPECT_EQ(said.at({"imports", "0", "secrets", "0", "secretValue"}), "1");
  EXPECT_EQ(said.at({"secrets", "0", "secretValue"}), "bc");
  EXPECT_EQ(send("GET", "/api/v4/secrets" + query("/none"), "", bearer).at({"error"}),
            "SecretPathNotFound");
}

TEST_F(InfisicalLab, ItsFaultsAreItsOwn) {
  const Faults faults = Faults::parse(
      "- request: { host: infisical, path: /secrets }\n  answer: 429\n  retryAfter: 7\n"
      "- request: { host: infisical, path: /secrets }\n  cut: true\n"
      "- request: { host: infisical, method: POST, path: /login }\n  skip: 1\n  lose: true\n",
      "faults.yaml");
  faults.arm(server, world);
  const std::string bearer = token();
  EXPECT_EQ(send("GET", "/api/v4/secrets" + query(), "", bearer).headers.find("retry-after"), "7");
  EXPECT_THROW(send("GET", "/api/v4/secrets" + query(), "", bearer), Error);
  EXPECT_EQ(send("GET", "/api/v4/secrets" + query(), "", bearer).status, 200);
  EXPECT_THROW(token(), Error) << "an answer that never comes";
  EXPECT_THROW(Faults::parse("- request: { host: pve1 }\n  silent: true\n", "f"), Error);
}

}  // namespace
}  // namespace rocca::lab
