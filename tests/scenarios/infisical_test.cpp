// Our client and the lookup of secrets against the lab's Infisical, which shares no code with them.
#include "base/error.hpp"
#include "infisical/client.hpp"
#include "lab/data_centre.hpp"
#include "lab/sim/faults.hpp"
#include "lab/sim/wire.hpp"
#include "sources/resolver.hpp"
#include "spec/load.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class InfisicalScenario : public testing::Test {
 protected:
  infisical::Client client(bool reader = false) {
    const lab::Internet& net = home.internet;
    return {wire, home.world.clock(),
            infisical::Access{"https://eu.infisical.com", reader ? net.reader_id : net.client_id,
                              Secret(reader ? net.reader_secret : net.client_secret),
                              net::Tls::system()}};
  }
  infisical::Place place(const std::string& path = "/clusters/blue") {
    return {home.internet.project_id, "prod", path};
  }
  /// What goes wrong from now on, as `rocca lab --faults` reads it.
  void strike(const std::string& fault) {
    lab::Faults::parse(fmt::format("- request: {{ host: infisical, path: /secrets }}\n{}", fault),
                       "faults")
        .arm(home.internet.infisical, home.world);
  }
  template <class Act>
  Error error_of(Act act) {
    try {
      act();
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "no error came";
    return {Fault::Bug, "none"};
  }

  lab::Home home{{}};
  lab::Wire wire{home.world};
};

TEST_F(InfisicalScenario, WritesReadsAndErases) {
  auto writer = client();
  EXPECT_EQ(writer.project_id("homelab"), home.internet.project_id);
  EXPECT_THROW(writer.secrets(place()), Error) << "the folder is not there yet";
  writer.write(place(), {{"KUBECONFIG", Secret("apiVersion: v1\n")}, {"TALOSCONFIG", Secret("t")}});
  writer.write(place(), {{"TALOSCONFIG", Secret("t2")}});  // upsert: new and old alike
  writer.write(place(), {});
  const auto all = writer.secrets(place());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all.at("KUBECONFIG").reveal(), "apiVersion: v1\n");
  EXPECT_EQ(all.at("TALOSCONFIG").reveal(), "t2");
  EXPECT_EQ(writer.find_secret(place(), "KUBECONFIG")->reveal(), "apiVersion: v1\n");
  EXPECT_EQ(writer.find_secret(place(), "OTHER"), std::nullopt);
  EXPECT_TRUE(writer.erase(place(), "KUBECONFIG"));
  EXPECT_FALSE(writer.erase(place(), "KUBECONFIG"));
  EXPECT_FALSE(writer.erase(place("/nowhere"), "KUBECONFIG"));
  infisical::Place foreign = place();
  foreign.project = "00000000-0000-4000-8000-000000000000";
  EXPECT_EQ(error_of([&] { writer.erase(foreign, "A"); }).fault(), Fault::NotFound)
      << "a project that is not there is no secret that was not there";
}

TEST_F(InfisicalScenario, KeepsWhatTheClientSaysIsKept) {
  auto writer = client();
  for (const char* value : {"plain", "  around  ", "end\n", "\n\nlines\n\n\n", "a\nb", "\t"}) {
    writer.write(place(), {{"V", Secret(value)}});
    EXPECT_EQ(writer.find_secret(place(), "V")->reveal(), infisical::kept_form(value));
  }
}

TEST_F(InfisicalScenario, MakesListsAndErasesFolders) {
  auto writer = client();
  EXPECT_TRUE(writer.make_folder(place("/a/b/c")));
  EXPECT_FALSE(writer.make_folder(place("/a/b/c")));
  EXPECT_FALSE(writer.make_folder(place("/")));
  EXPECT_THAT(writer.folders(place("/")), ElementsAre("a"));
  EXPECT_THAT(writer.folders(place("/a")), ElementsAre("b"));
  EXPECT_EQ(error_of([&] { writer.erase_folder(place("/a")); }).fault(), Fault::Rejected);
  EXPECT_TRUE(writer.erase_folder(place("/a/b/c")));
  EXPECT_FALSE(writer.erase_folder(place("/a/b/c")));
}

TEST_F(InfisicalScenario, LogsInAgainAfterExpiryAndRevocation) {
  auto reader = client(true);
  reader.secrets(place("/"));
  home.world.run_for(3h);
  reader.secrets(place("/"));
  home.internet.infisical.token_lives = 1h;  // shorter than the client was told
  home.internet.infisical.revoke_tokens();
  EXPECT_EQ(reader.secrets(place("/")).size(), 1u);
}

TEST_F(InfisicalScenario, AReaderMayNotWriteAndAGuardedFolderOnlyTakesRequests) {
  auto reader = client(true);
  auto writer = client();
  writer.make_folder(place());
  const Error denied = error_of([&] { reader.write(place(), {{"A", Secret("canary")}}); });
  EXPECT_EQ(denied.fault(), Fault::Denied);
  EXPECT_THAT(denied.render(), Not(HasSubstr("canary")));
  lab::Infisical::Folder& folder =
      home.internet.infisical.folder(home.internet.project(), "prod", "/clusters/blue");
  folder.guarded = true;
  EXPECT_EQ(error_of([&] {
              writer.write(place(), {{"A", Secret("b")}});
            }).fault(),
            Fault::Rejected);
  EXPECT_TRUE(folder.secrets.empty());
}

TEST_F(InfisicalScenario, AWrongSecretLocksTheIdentity) {
  infisical::Access access{"https://eu.infisical.com", home.internet.client_id,
                           Secret("canary-wrong"), net::Tls::system()};
  infisical::Client wrong{wire, home.world.clock(), access};
  for (int i = 0; i < 3; ++i) {
    const Error error = error_of([&] { wrong.secrets(place("/")); });
    EXPECT_EQ(error.fault(), Fault::Denied);
    EXPECT_THAT(error.message(), HasSubstr("Invalid credentials"));
    EXPECT_THAT(error.render(), Not(HasSubstr("canary")));
  }
  auto right = client();
  EXPECT_THAT(error_of([&] { right.secrets(place("/")); }).message(),
              HasSubstr("temporarily locked"));
}

TEST_F(InfisicalScenario, RefusesACertificateOfSomebodyElse) {
  lab::Service impostor;
  impostor.name = "impostor";
  impostor.tls.emplace();
  impostor.tls->identity = home.dc.authority.issue(
      {.common_name = "eu.infisical.com", .names = {"eu.infisical.com"}, .organization = ""},
      home.world.now());
  impostor.handler = home.internet.infisical.handler();
  home.world.network().open("10.0.0.99", 443, std::move(impostor));
  home.world.network().set_name("eu.infisical.com", "10.0.0.99");
  EXPECT_EQ(error_of([&] { client().secrets(place("/")); }).fault(), Fault::Denied);
}

// The lookup of `{ secret: … }`: every failure is told apart and names the place.

struct Case {
  const char* name;
  const char* fault;
  Fault expected;
  const char* says;
};

class InfisicalTrouble : public InfisicalScenario, public testing::WithParamInterface<Case> {
 protected:
  spec::Spec load(const std::string& project) {
    return spec::load_text(
               files,
               fmt::format(
                   "apiVersion: rocca.dev/v1\nkind: Cluster\nmetadata: {{ name: blue }}\nspec:\n"
                   "  talos: {{ version: v1.11.5 }}\n  kubernetes: {{ version: v1.34.1 }}\n"
                   "  secrets: {{ files: [], sources: [ {{ infisical: {{ host: "
                   "https://infisical.home, project: {}, environment: prod, path: / }} }}, "
                   "{{ env: FLEET_ }} ] }}\n"
                   "  network: {{ subnet: 10.0.0.0/24 }}\n"
                   "  nodes: {{ cp-1: {{ role: controlplane, address: 10.0.0.11, existing: true }} "
                   "}}\n",
                   project),
               "cluster.yaml", "/")
        .spec;
  }
  Secret look(const std::string& project = "homelab", const std::string& key = "proxmox.token") {
    const spec::Spec spec = load(project);
    sources::Doors doors{files,
                         home.world.clock(),
                         wire,
                         {{"INFISICAL_CLIENT_ID", home.internet.client_id},
                          {"INFISICAL_CLIENT_SECRET", home.internet.client_secret},
                          {"FLEET_PROXMOX_TOKEN", "not-to-be-taken-in-silence"}},
                         nullptr,
                         nullptr};
    return sources::Resolver{spec, doors}.get({spec::SecretRef::From::Key, key}, "proxmox.token");
  }
  MemoryFiles files;
};

TEST_P(InfisicalTrouble, IsToldApartAndNamesThePlace) {
  strike(GetParam().fault);
  const Error error = error_of([&] { look(); });
  EXPECT_EQ(error.fault(), GetParam().expected) << error.render();
  EXPECT_THAT(error.render(), HasSubstr(GetParam().says));
  EXPECT_THAT(error.render(), HasSubstr("infisical.home"));
  EXPECT_THAT(error.render(), HasSubstr("PROXMOX_TOKEN at /"));
  EXPECT_THAT(error.render(), Not(HasSubstr(home.internet.client_secret)));
}

INSTANTIATE_TEST_SUITE_P(
    Lookups, InfisicalTrouble,
    testing::Values(Case{"Unauthorized", "  answer: 401\n  times: 0\n", Fault::Denied, "client id"},
                    Case{"Forbidden", "  answer: 403\n", Fault::Denied, "needs a role"},
                    Case{"NotFound", "  answer: 404\n", Fault::NotFound, "environment's slug"},
                    Case{"TooMany", "  answer: 429\n  retryAfter: 33\n", Fault::Busy,
                         "in 33 seconds"},
                    Case{"Broken", "  answer: 500\n", Fault::Unreachable, "Something went wrong"},
                    Case{"Cut", "  cut: true\n", Fault::Lost, "closed the connection"},
                    Case{"Silent", "  silent: true\n", Fault::Lost, "did not answer within 30s"}),
    [](const auto& each) { return each.param.name; });

using InfisicalLookup = InfisicalTrouble;

TEST_F(InfisicalLookup, FindsTheSecretBySlugAndById) {
  EXPECT_EQ(look("homelab").reveal(), home.token);
  EXPECT_EQ(look(home.internet.project_id).reveal(), home.token);
}

TEST_F(InfisicalLookup, NobodyListening) {
  home.world.network().set_up(lab::Internet::infisical_address, false);
  const Error error = error_of([&] { look(); });
  EXPECT_EQ(error.fault(), Fault::Unreachable);
  EXPECT_THAT(error.render(), HasSubstr("infisical.home"));
}

TEST_F(InfisicalLookup, AProjectThatIsNotThere) {
  const Error error = error_of([&] { look("homelob"); });
  EXPECT_EQ(error.fault(), Fault::NotFound);
  EXPECT_THAT(error.message(), HasSubstr("Project with slug 'homelob' not found"));
}

TEST_F(InfisicalLookup, AMissingSecretNamesEveryPlace) {
  const Error error = error_of([&] { look("homelab", "flux.git"); });
  EXPECT_EQ(error.fault(), Fault::NotFound);
  EXPECT_THAT(error.message(), HasSubstr("FLUX_GIT at / in Infisical (https://infisical.home"));
  EXPECT_THAT(error.message(), HasSubstr("FLEET_FLUX_GIT"));
}

}  // namespace
}  // namespace rocca::scenarios
