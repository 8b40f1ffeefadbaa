#include "scenarios/handover_rig.hpp"

// Every way in which Flux may be let into its repository, through a whole `up`: the Secret and the
// GitRepository as Flux wants them, a credential that is refused, another one later.

namespace rocca::scenarios {
namespace {

using lab::kube::text_at;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* ssh_url = "ssh://git@git.home/fleet";
constexpr const char* known_hosts = "git.home ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGvK";

/// Not a key; whoever compares only wants to see the same text again.
std::string key(const char* what) {
  return fmt::format("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", what);
}

std::vector<std::string> keys_of(const lab::kube::Object& secret) {
  std::vector<std::string> keys;
  if (const text::Value* data = secret ? secret->find("data") : nullptr)
    for (const text::Entry& entry : data->entries()) keys.push_back(entry.key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

struct Auth : HandoverRig {
  Auth() { secrets.erase("flux.git"); }

  /// The same repository at another address, for who shows this.
  void serve(const char* at, const std::string& user, const std::string& password) {
    commit = git.push(at, "main", "the shop", shop_files);
    git.repositories[at].username = user;
    git.repositories[at].password = password;
  }
  lab::kube::Object secret() { return find("/secrets", "flux-system", "flux-system"); }
  std::string repository_says(std::initializer_list<std::string_view> path) {
    const auto found =
        find("source.toolkit.fluxcd.io/gitrepositories", "flux-system", "flux-system");
    return found ? text_at(*found, path) : "no GitRepository";
  }
  void comes_up() {
    const engine::Report report = up();
    ASSERT_TRUE(report.ok()) << problems(report);
    EXPECT_EQ(revision(), "main@sha1:" + commit);
    EXPECT_THAT(plan(), IsEmpty());
  }
};

TEST(GitAuth, BySshWithADeployKeyThatIsChangedLater) {
  Auth one;
  one.serve(ssh_url, "git", key("one"));
  one.write(replace_all(plain_flux, HandoverRig::url, ssh_url));
  one.secrets["flux.git.identity"] = key("one");
  EXPECT_THAT(one.failure(), AllOf(HasSubstr("flux.git lacks known_hosts"), HasSubstr(ssh_url),
                                   HasSubstr("ssh-keyscan")));
  one.secrets["flux.git.known_hosts"] = known_hosts;
  one.comes_up();
  EXPECT_THAT(keys_of(one.secret()), ElementsAre("identity", "known_hosts"));
  EXPECT_EQ(text_at(*one.secret(), {"type"}), "Opaque");
  EXPECT_EQ(one.data(one.secret(), "identity"), key("one"));
  EXPECT_EQ(one.data(one.secret(), "known_hosts"), known_hosts);
  EXPECT_EQ(one.repository_says({"spec", "url"}), ssh_url);
  EXPECT_EQ(one.repository_says({"spec", "secretRef", "name"}), "flux-system");
  EXPECT_EQ(one.repository_says({"spec", "provider"}), "") << "only for Apps and clouds";
  // Another key, which the server does not know at first.
  one.secrets["flux.git.identity"] = key("two");
  EXPECT_THAT(one.plan(), ElementsAre(HasSubstr("handover/git")));
  EXPECT_THAT(one.failure(), HasSubstr("ssh: unable to authenticate"));
  one.git.repositories[ssh_url].password = key("two");
  one.comes_up();
}

TEST(GitAuth, BySshWithAServerThatIsAnotherOne) {
  Auth one;
  one.serve(ssh_url, "git", key("one"));
  one.git.troubles[ssh_url] = "ssh: handshake failed: knownhosts: key mismatch";
  one.write(replace_all(plain_flux, HandoverRig::url, ssh_url));
  one.secrets["flux.git.identity"] = key("one");
  one.secrets["flux.git.known_hosts"] = known_hosts;
  EXPECT_THAT(one.failure(), HasSubstr("knownhosts: key mismatch"));
  one.git.troubles.clear();
  one.comes_up();
}

TEST(GitAuth, AsAGitHubAppWhoseKeyIsChangedLater) {
  Auth one;
  one.serve(HandoverRig::url, "x-access-token", "12/34/" + key("one"));
  one.write(plain_flux);
  one.secrets["flux.git.githubAppID"] = "12";
  one.secrets["flux.git.githubAppPrivateKey"] = key("one");
  EXPECT_THAT(one.failure(), HasSubstr("flux.git lacks githubAppInstallationID"));
  one.secrets["flux.git.githubAppInstallationID"] = "34";
  one.comes_up();
  EXPECT_THAT(keys_of(one.secret()),
              ElementsAre("githubAppID", "githubAppInstallationID", "githubAppPrivateKey"));
  EXPECT_EQ(one.data(one.secret(), "githubAppPrivateKey"), key("one"));
  EXPECT_EQ(one.repository_says({"spec", "secretRef", "name"}), "flux-system");
  // Without it Flux would refuse the Secret.
  EXPECT_EQ(one.repository_says({"spec", "provider"}), "github");
  one.secrets["flux.git.githubAppPrivateKey"] = key("two");
  one.repository().password = "12/34/" + key("two");
  EXPECT_THAT(one.plan(), ElementsAre(HasSubstr("handover/git")));
  one.comes_up();
  // Back to a plain token: the provider goes with the App.
  for (const char* name : {"githubAppID", "githubAppInstallationID", "githubAppPrivateKey"})
    one.secrets.erase(fmt::format("flux.git.{}", name));
  one.secrets["flux.git"] = "token-one";
  one.serve(HandoverRig::url, "git", "token-one");
  one.comes_up();
  EXPECT_THAT(keys_of(one.secret()), ElementsAre("password", "username"));
  EXPECT_EQ(one.repository_says({"spec", "provider"}), "");
}

constexpr const char* external_secrets =
    "    externalSecrets: { infisical: { host: \"https://infisical.home\", project: homelab, "
    "environment: prod, auth: { secret: infisical } } }\n";

TEST(GitAuth, ThroughExternalSecretsAndChangedThereLater) {
  Auth one;
  auto& internet = one.rig.home.internet;
  const auto keep = [&](const std::string& value) {
    internet.infisical.put(internet.project(), "prod", "/", "FLUX_GIT", value);
  };
  keep("token-one");
  one.write(replace_all(plain_flux, "{ secret: flux.git }", "{ external: FLUX_GIT }") +
            external_secrets);
  one.comes_up();
  EXPECT_THAT(keys_of(one.secret()), ElementsAre("password", "username"));
  EXPECT_EQ(one.data(one.secret(), "username"), "git");
  EXPECT_EQ(one.repository_says({"spec", "secretRef", "name"}), "flux-system");
  // rocca has no part in it: the operator looks once an hour.
  keep("token-two");
  one.repository().password = "token-two";
  one.rig.home.world.run_for(std::chrono::hours{2});
  EXPECT_EQ(one.data(one.secret(), "password"), "token-two");
  one.comes_up();
}

TEST(GitAuth, ThroughExternalSecretsBySsh) {
  Auth one;
  one.serve(ssh_url, "git", key("one"));
  auto& internet = one.rig.home.internet;
  one.write(replace_all(replace_all(plain_flux, HandoverRig::url, ssh_url), "{ secret: flux.git }",
                        "{ external: FLUX_GIT }") +
            external_secrets);
  EXPECT_THAT(one.failure(), AllOf(HasSubstr("handover/git"), HasSubstr("ExternalSecret")));
  internet.infisical.put(internet.project(), "prod", "/", "FLUX_GIT",
                         fmt::format(R"({{"identity":"{}","known_hosts":"{}"}})",
                                     replace_all(key("one"), "\n", "\\n"), known_hosts));
  one.comes_up();
  EXPECT_THAT(keys_of(one.secret()), ElementsAre("identity", "known_hosts"));
  EXPECT_EQ(one.data(one.secret(), "identity"), key("one"));
}

}  // namespace
}  // namespace rocca::scenarios
