#include "sources/resolver.hpp"

#include "base/error.hpp"
#include "spec/load.hpp"
#include "text/yaml.hpp"

#include <gmock/gmock.h>

namespace rocca::sources {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// An Infisical that has one folder, or refuses.
class FakeInfisical final : public net::Transport {
 public:
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token) override {
    ++calls;
    if (request.url.find("/login") != std::string::npos)
      login = std::get<std::string>(request.body);
    if (unreachable) throw Error(Fault::Unreachable, "connection refused");
    net::Response response;
    response.status = request.url.find("/login") != std::string::npos ? 200 : status;
    sink.begin(response);
    if (request.url.find("/projects/slug/") != std::string::npos)
      sink.write(R"({"id":"11111111-2222-4333-8444-555555555555"})");
    else if (request.url.find("/login") != std::string::npos)
      sink.write(R"({"accessToken":"t","expiresIn":3600})");
    else if (status == 200)
      sink.write(R"({"secrets":[{"secretKey":"PROXMOX_TOKEN","secretValue":"from-infisical"}]})");
    else
      sink.write(R"({"message":"no","error":"PermissionDenied"})");
    return response;
  }
  int calls = 0;
  int status = 200;
  bool unreachable = false;
  std::string login;
};

struct Fixture {
  MemoryFiles files;
  VirtualClock clock;
  FakeInfisical infisical;
  std::map<std::string, std::string> environment;
  std::string secrets_yaml = "infisical: { clientId: id, clientSecret: s }\n";
  std::vector<std::vector<std::string>> commands;
  std::string output;
  spec::Loaded loaded;

  Resolver resolver(const std::string& sources) {
    loaded = spec::load_text(files,
                             R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: { name: blue }
spec:
  talos: { version: v1.11.5 }
  kubernetes: { version: v1.32.1 }
  network: { addressing: static, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [1.1.1.1] }
  secrets: { files: [secrets.sops.yaml], sources: )" +
                                 sources + R"( }
  nodes:
    cp-1: { role: controlplane, address: 10.0.0.11, existing: true }
)",
                             "cluster.yaml", "/repo");
    EXPECT_FALSE(loaded.diagnostics.has_errors()) << loaded.diagnostics.render();
    return Resolver{loaded.spec,
                    Doors{files, clock, infisical, environment,
                          [this](const std::string& path) -> std::optional<text::Value> {
                            EXPECT_EQ(path, "/repo/secrets.sops.yaml");
                            if (secrets_yaml.empty()) return std::nullopt;
                            return text::parse_yaml(secrets_yaml, path);
                          },
                          [this](const std::vector<std::string>& command) {
                            commands.push_back(command);
                            return Secret{output};
                          }}};
  }
};

const spec::SecretRef token{spec::SecretRef::From::Key, "proxmox.token"};

TEST(Resolver, LooksInTheFileFirst) {
  Fixture fixture;
  fixture.secrets_yaml = "proxmox: { token: from-file }\n";
  fixture.environment["ROCCA_PROXMOX_TOKEN"] = "from-environment";
  Resolver resolver = fixture.resolver("[ { env: ROCCA_ } ]");
  EXPECT_EQ(resolver.get(token, "proxmox.token").reveal(), "from-file");
}

TEST(Resolver, TakesTheSourcesInTheirOrder) {
  Fixture fixture;
  fixture.environment["ROCCA_PROXMOX_TOKEN"] = "from-environment";
  fixture.output = "from-command\n";
  EXPECT_EQ(
      fixture.resolver("[ { env: ROCCA_ }, { command: [vault, show] } ]").get(token, "x").reveal(),
      "from-environment");
  EXPECT_EQ(
      fixture.resolver("[ { command: [vault, show] }, { env: ROCCA_ } ]").get(token, "x").reveal(),
      "from-command");
}

TEST(Resolver, GivesACommandTheKeyAsItsLastWord) {
  Fixture fixture;
  fixture.output = "value\n";
  EXPECT_EQ(fixture.resolver("[ { command: [vault, show] } ]").get(token, "x").reveal(), "value");
  EXPECT_THAT(fixture.commands, ElementsAre(ElementsAre("vault", "show", "proxmox.token")));
}

TEST(Resolver, ReadsInfisicalOnceWithAnIdentityFromTheFile) {
  Fixture fixture;
  Resolver resolver = fixture.resolver(
      "[ { infisical: { host: https://eu.infisical.com, project: p, environment: prod, path: "
      "/blue, auth: { secret: infisical } } } ]");
  EXPECT_EQ(resolver.get(token, "x").reveal(), "from-infisical");
  EXPECT_EQ(resolver.get({spec::SecretRef::From::Infisical, "/other/PROXMOX_TOKEN"}, "x").reveal(),
            "from-infisical");
  const int calls = fixture.infisical.calls;
  resolver.get(token, "x");
  EXPECT_EQ(fixture.infisical.calls, calls);
}

TEST(Resolver, AnIdentityForInfisicalThatIsMissingIsAnErrorEachTime) {
  Fixture fixture;
  fixture.secrets_yaml = "other: x\n";
  Resolver resolver = fixture.resolver(
      "[ { infisical: { host: https://eu.infisical.com, project: p, environment: prod, path: "
      "/blue, auth: { secret: infisical } } } ]");
  EXPECT_THROW(resolver.find(token), Error);
  EXPECT_THROW(resolver.find(token), Error);  // not "there is no such secret"
}

TEST(Resolver, WithoutAWayToRunProgramsACommandSourceIsRefused) {
  Fixture fixture;
  fixture.resolver("[ { command: [vault, show] } ]");
  Resolver resolver{fixture.loaded.spec,
                    Doors{fixture.files,
                          fixture.clock,
                          fixture.infisical,
                          {},
                          [](const std::string&) { return std::optional<text::Value>{}; },
                          {}}};
  try {
    resolver.find(token);
    FAIL() << "was run";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
  }
}

TEST(Resolver, ATokenIsOneLine) {
  Fixture fixture;
  fixture.secrets_yaml = "proxmox: { token: \"from-file\\n\", other: \"a\\nb\" }\n";
  Resolver resolver = fixture.resolver("[]");
  EXPECT_EQ(resolver.get(token, "x").reveal(), "from-file\n");
  EXPECT_EQ(resolver.get_line(token, "x").reveal(), "from-file");
  EXPECT_THROW(resolver.get_line({spec::SecretRef::From::Key, "proxmox.other"}, "x"), Error);
}

TEST(Resolver, AnIdentityWithALineBreakAtItsEndIsStillOne) {
  Fixture fixture;
  fixture.secrets_yaml = "infisical: { clientId: \"id\\n\", clientSecret: \" s\\r\\n\" }\n";
  Resolver resolver = fixture.resolver(
      "[ { infisical: { host: https://eu.infisical.com, project: p, environment: prod, path: "
      "/blue, auth: { secret: infisical } } } ]");
  EXPECT_EQ(resolver.get(token, "x").reveal(), "from-infisical");
  EXPECT_THAT(fixture.infisical.login, HasSubstr(R"("clientId":"id","clientSecret":"s")"));
}

TEST(Resolver, NamesTheKeyAndEveryPlaceThatWasSearched) {
  Fixture fixture;
  Resolver resolver = fixture.resolver(
      "[ { env: ROCCA_ }, { infisical: { host: https://eu.infisical.com, project: p, environment: "
      "prod, path: /blue, auth: { secret: infisical } } } ]");
  try {
    resolver.get({spec::SecretRef::From::Key, "flux.git"}, "handover.flux.auth");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::NotFound);
    for (const char* part : {"flux.git", "handover.flux.auth", "/repo/secrets.sops.yaml",
                             "ROCCA_FLUX_GIT", "FLUX_GIT at /blue in Infisical"})
      EXPECT_THAT(error.message(), HasSubstr(part));
  }
}

TEST(Resolver, APlaceThatCannotBeAskedIsAnErrorNotAnAbsence) {
  Fixture fixture;
  fixture.environment["ROCCA_PROXMOX_TOKEN"] = "must not be taken in silence";
  const std::string sources =
      "[ { infisical: { host: https://eu.infisical.com, project: p, environment: prod, path: "
      "/blue, auth: { secret: infisical } } }, { env: ROCCA_ } ]";
  fixture.infisical.status = 403;
  EXPECT_THROW(fixture.resolver(sources).get(token, "x"), Error);
  fixture.infisical.unreachable = true;
  EXPECT_THROW(fixture.resolver(sources).get(token, "x"), Error);
}

TEST(Resolver, SaysThatTheFileIsNotThere) {
  Fixture fixture;
  fixture.secrets_yaml = "";
  try {
    fixture.resolver("[]").get(token, "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("secrets.sops.yaml (no such file)"));
  }
}

TEST(Resolver, TakesTheIdentityFromTheEnvironmentWhenTheSourceNamesNone) {
  Fixture fixture;
  const std::string sources =
      "[ { infisical: { host: https://eu.infisical.com, project: p, environment: prod } } ]";
  EXPECT_THROW(fixture.resolver(sources).get(token, "x"), Error);
  fixture.environment = {{"INFISICAL_CLIENT_ID", "id"}, {"INFISICAL_CLIENT_SECRET", "s"}};
  EXPECT_EQ(fixture.resolver(sources).get(token, "x").reveal(), "from-infisical");
}

TEST(Resolver, AGroupIsNotASecret) {
  Fixture fixture;
  fixture.secrets_yaml = "proxmox: { token: { a: b } }\n";
  EXPECT_THROW(fixture.resolver("[]").get(token, "x"), Error);
}

TEST(VariableName, IsTheKeyInCapitals) {
  EXPECT_EQ(variable_name("proxmox.token"), "PROXMOX_TOKEN");
  EXPECT_EQ(variable_name("a-b.c1"), "A_B_C1");
}

}  // namespace
}  // namespace rocca::sources
