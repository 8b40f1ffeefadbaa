#include "kube/client.hpp"
#include "lab/services/releases.hpp"
#include "scenarios/handover_rig.hpp"

// `up` from nothing to a cluster that Git has taken over, and what comes after: nothing to do,
// whatever Flux does with what it owns.

namespace rocca::scenarios {
namespace {

using lab::kube::text_at;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* whole = R"(    flux:
      url: "https://git.home/fleet"
      path: clusters/blue
      auth: { secret: flux.git }
      decryption: { secret: flux.age }
    waitFor: [ { endpointSlice: shop/web } ]
    publish:
      - files: { folder: /published }
      - kubernetes: { name: blue-access }
      - infisical: { host: "https://infisical.home", project: homelab, environment: prod, path: /blue, auth: { secret: infisical } }
)";

/// A Secret that only who has the identity can read.
std::string encrypted_secret(const secrets::age::Identity& identity) {
  SystemClock clock;  // only its date is written
  SeededEntropy entropy{3};
  secrets::sops::Recipe recipe;
  recipe.recipients = secrets::sops::Recipients::age({identity.recipient()->text()});
  recipe.selection = {secrets::sops::Rule::EncryptedRegex, "^(data|stringData)$"};
  const auto plain = secrets::sops::Plain::parse(
      "apiVersion: v1\nkind: Secret\nmetadata: { name: till, namespace: shop }\nstringData: { pin: "
      "\"4711\" }\n",
      secrets::sops::Format::Yaml, "till.yaml");
  return secrets::sops::encrypt(plain, recipe, clock, entropy);
}

TEST(EngineHandover, UpEndsWithFluxInChargeAndAccessPublished) {
  HandoverRig one;
  SeededEntropy entropy{9};
  const auto identity = secrets::age::Identity::generate(entropy);
  one.secrets["flux.age"] = std::string{identity.text().reveal()};
  auto files = shop_files;
  files["clusters/blue/till.yaml"] = encrypted_secret(identity);
  one.push(files);
  one.write(whole, "  addons: { certApprover: true, metricsServer: true }\n");
  const engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(one.revision(), "main@sha1:" + one.commit);
  EXPECT_EQ(one.data(one.find("/secrets", "shop", "till"), "pin"), "4711");
  EXPECT_TRUE(one.find("apps/deployments", "kube-system", "metrics-server"));
  // What `kubectl get kustomizations -A` shows.
  kube::Client client{one.rig.wire, one.rig.files,
                      kube::load_kubeconfig(one.rig.files, "/clusters/blue/configs/kubeconfig")};
  const auto table = client.send("GET", "/apis/kustomize.toolkit.fluxcd.io/v1/kustomizations", {},
                                 "", "", "application/json;as=Table;g=meta.k8s.io;v=v1");
  EXPECT_THAT(table.body, testing::AllOf(HasSubstr("\"name\":\"Ready\""),
                                         HasSubstr("\"True\",\"Applied revision: main@sha1:")));
  // Published, three times the same.
  const std::string kubeconfig = one.rig.files.get("/clusters/blue/configs/kubeconfig");
  EXPECT_EQ(one.rig.files.get("/published/kubeconfig"), kubeconfig);
  EXPECT_EQ(one.rig.files.status("/published/talosconfig")->mode & 0777, 0600u);
  const auto secret = one.management.find("/secrets", "rocca", "blue-access");
  EXPECT_EQ(one.data(secret, "kubeconfig"), kubeconfig);
  EXPECT_EQ(one.data(secret, "value"), kubeconfig);
  ASSERT_NE(one.published("KUBECONFIG"), nullptr);
  EXPECT_EQ(one.published("KUBECONFIG")->value, kubeconfig);
  // Pinned, and asked for once.
  const spec::Lock lock = spec::find_lock(one.rig.files, "/clusters/blue").value();
  for (const char* name : {"flux", "certApprover", "metricsServer"}) {
    EXPECT_EQ(lock.addons.at(name).sha256.size(), 64u) << name;
    EXPECT_THAT(lock.addons.at(name).url, HasSubstr(lock.addons.at(name).version));
  }
  const std::size_t asked = one.rig.home.internet.releases.asked.size();
  const unsigned version = one.published("KUBECONFIG")->version;
  EXPECT_THAT(one.plan(), IsEmpty());
  ASSERT_TRUE(one.up().ok());
  EXPECT_EQ(one.rig.home.internet.releases.asked.size(), asked) << "what is pinned is at hand";
  EXPECT_EQ(one.published("KUBECONFIG")->version, version) << "it was written again";
}

TEST(EngineHandover, ARepositoryWithFluxsOwnFilesTakesEverything) {
  HandoverRig one;
  one.write(plain_flux);
  ASSERT_TRUE(one.up().ok());
  // As `flux bootstrap` would have written them, in newer words.
  auto files = shop_files;
  files["clusters/blue/flux-system/gotk-components.yaml"] =
      lab::release_text("github.com/fluxcd/flux2/releases/download/v2.9.5/install.yaml").value();
  files["clusters/blue/flux-system/gotk-sync.yaml"] = R"(
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: { name: flux-system, namespace: flux-system }
spec: { interval: 9m, ref: { branch: main }, secretRef: { name: flux-system }, url: "https://git.home/fleet" }
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: { name: flux-system, namespace: flux-system }
spec: { interval: 9m, path: ./clusters/blue, prune: true, sourceRef: { kind: GitRepository, name: flux-system } }
)";
  one.push(files);
  one.rig.home.world.run_for(std::chrono::minutes{5});
  ASSERT_EQ(one.revision(), "main@sha1:" + one.commit);
  // We let go of what both keep, and of nothing else.
  EXPECT_THAT(one.plan(), Each(testing::AnyOf(HasSubstr("Flux keeps it"),
                                              HasSubstr("kept by Flux and by us"))));
  const engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(one.plan(), IsEmpty());
  const auto controller = one.find("apps/deployments", "flux-system", "source-controller");
  EXPECT_THAT(text_at(*controller, {"metadata", "labels", "app.kubernetes.io/version"}), "v2.9.5");
  EXPECT_THAT(text_at(*controller, {"metadata", "annotations", "rocca.dev/applied"}), "");
  // Now Flux changes all it has, and takes some of it away.
  files["clusters/blue/flux-system/gotk-components.yaml"] = replace_all(
      lab::release_text("github.com/fluxcd/flux2/releases/download/v2.9.6/install.yaml").value(),
      "replicas: 1", "replicas: 2");
  files["clusters/blue/flux-system/gotk-sync.yaml"] = replace_all(
      files["clusters/blue/flux-system/gotk-sync.yaml"], "interval: 9m", "interval: 3m");
  one.push(files);
  one.rig.home.world.run_for(std::chrono::minutes{20});
  ASSERT_EQ(one.revision(), "main@sha1:" + one.commit);
  EXPECT_THAT(one.plan(), IsEmpty());
  ASSERT_TRUE(one.up().ok());
  const auto source =
      one.find("source.toolkit.fluxcd.io/gitrepositories", "flux-system", "flux-system");
  EXPECT_EQ(text_at(*source, {"spec", "interval"}), "3m");
}

TEST(EngineHandover, AFluxThatRemovedItselfIsNamedAndPutBack) {
  HandoverRig one;
  one.write(plain_flux);
  ASSERT_TRUE(one.up().ok());
  auto files = shop_files;
  files["clusters/blue/flux-system/gotk-components.yaml"] =
      lab::release_text("github.com/fluxcd/flux2/releases/download/v2.9.5/install.yaml").value();
  one.push(files);
  one.rig.home.world.run_for(std::chrono::minutes{20});
  ASSERT_TRUE(one.up().ok());
  ASSERT_THAT(one.plan(), IsEmpty());
  // Whoever takes Flux's files out of Git tells Flux to remove its own controllers. What they would
  // have to let go of stays for ever, and with it the namespace.
  one.push(shop_files);
  one.rig.home.world.run_for(std::chrono::minutes{20});
  ASSERT_FALSE(one.find("apps/deployments", "flux-system", "kustomize-controller"));
  EXPECT_THAT(one.failure(), HasSubstr("Kustomization flux-system/flux-system to be gone, which "
                                       "somebody has deleted (held by finalizers.fluxcd.io)"));
  // Somebody lets go of it in Flux's place.
  const lab::kube::User ann{"ann", {"system:masters"}};
  for (const char* path :
       {"/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/flux-system",
        "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/flux-system"})
    one.api().send(ann, "PATCH", path, R"({"metadata":{"finalizers":null}})",
                   "application/merge-patch+json");
  one.rig.home.world.run_for(std::chrono::minutes{5});
  ASSERT_FALSE(one.find("/namespaces", "", "flux-system"));
  const engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(one.revision(), "main@sha1:" + one.commit);
  EXPECT_THAT(one.plan(), IsEmpty());
}

TEST(EngineHandover, WhatBreaksInGitLaterIsNotOursToWaitFor) {
  HandoverRig one;
  one.write(plain_flux);
  ASSERT_TRUE(one.up().ok());
  one.push({{"clusters/blue/shop.yaml", "kind: [\n"}});
  one.rig.home.world.run_for(std::chrono::minutes{15});
  ASSERT_EQ(one.revision(), "not ready");
  EXPECT_THAT(one.plan(), IsEmpty());
}

TEST(EngineHandover, ACredentialIsRotatedAndTriedAtOnce) {
  HandoverRig one;
  one.write(plain_flux);
  ASSERT_TRUE(one.up().ok());
  one.secrets["flux.git"] = "token-two";
  EXPECT_THAT(one.plan(), ElementsAre(HasSubstr("handover/git")));
  // The server does not know it yet.
  EXPECT_THAT(one.failure(), HasSubstr("authentication required: Unauthorized"));
  EXPECT_THAT(one.plan(), ElementsAre(HasSubstr("handover/git"))) << "that is not forgotten";
  one.repository().password = "token-two";
  const engine::Report report = one.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(one.plan(), IsEmpty());
  EXPECT_EQ(one.data(one.find("/secrets", "flux-system", "flux-system"), "password"), "token-two");
}

/// All three places, each with the same word on what becomes of it.
std::string published_everywhere(const char* on_down) {
  return fmt::format(R"(    publish:
      - {{ files: {{ folder: /published }}, onDown: {0} }}
      - {{ kubernetes: {{ name: blue-access }}, onDown: {0} }}
      - {{ infisical: {{ host: "https://infisical.home", project: homelab, environment: prod, path: /blue, auth: {{ secret: infisical }} }}, onDown: {0} }}
)",
                     on_down);
}

TEST(EngineHandover, DownWithdrawsWhatWasPublished) {
  HandoverRig one;
  one.write(published_everywhere("delete"));
  ASSERT_TRUE(one.up().ok());
  ASSERT_NE(one.published("TALOSCONFIG"), nullptr);
  ASSERT_TRUE(one.management.find("/secrets", "rocca", "blue-access"));
  const engine::Report report = one.down();
  EXPECT_TRUE(report.ok()) << problems(report);
  for (const char* name : {"/published/kubeconfig", "/published/talosconfig"})
    EXPECT_FALSE(one.rig.files.status(name)) << name;
  EXPECT_FALSE(one.management.find("/secrets", "rocca", "blue-access"));
  EXPECT_EQ(one.published("KUBECONFIG"), nullptr);
  EXPECT_EQ(one.published("TALOSCONFIG"), nullptr);
  EXPECT_THAT(one.rig.home.dc.vms, IsEmpty());
}

TEST(EngineHandover, DownMarksAsStaleWhatIsToBeKept) {
  HandoverRig one;
  one.write(published_everywhere("keep"));
  ASSERT_TRUE(one.up().ok());
  const std::string before = one.rig.files.get("/published/kubeconfig");
  engine::Report report = one.down();
  EXPECT_TRUE(report.ok()) << problems(report);
  const auto stale = testing::AllOf(testing::StartsWith("# STALE: cluster blue was razed at 20"),
                                    HasSubstr("\n" + before));  // all that it said is still there
  EXPECT_THAT(one.rig.files.get("/published/kubeconfig"), stale);
  EXPECT_EQ(one.rig.files.status("/published/kubeconfig")->mode & 0777, 0600u);
  EXPECT_THAT(one.rig.files.get("/published/talosconfig"), testing::StartsWith("# STALE: "));
  auto secret = one.management.find("/secrets", "rocca", "blue-access");
  ASSERT_TRUE(secret);
  EXPECT_THAT(one.data(secret, "kubeconfig"), stale);
  EXPECT_THAT(one.data(secret, "value"), stale);
  EXPECT_THAT(text_at(*secret, {"metadata", "annotations", "rocca.dev/stale"}),
              testing::StartsWith("20"));
  ASSERT_NE(one.published("KUBECONFIG"), nullptr);
  EXPECT_THAT(one.published("KUBECONFIG")->value, stale);
  EXPECT_THAT(one.published("TALOSCONFIG")->value, testing::StartsWith("# STALE: "));
  // Once is enough.
  const std::string marked = one.rig.files.get("/published/kubeconfig");
  const unsigned version = one.published("KUBECONFIG")->version;
  ASSERT_TRUE(one.down().ok());
  EXPECT_EQ(one.rig.files.get("/published/kubeconfig"), marked);
  EXPECT_EQ(one.published("KUBECONFIG")->version, version);
  // A cluster that comes back is not stale.
  report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  const std::string now = one.rig.files.get("/clusters/blue/configs/kubeconfig");
  EXPECT_EQ(one.rig.files.get("/published/kubeconfig"), now);
  secret = one.management.find("/secrets", "rocca", "blue-access");
  EXPECT_EQ(one.data(secret, "value"), now);
  EXPECT_EQ(text_at(*secret, {"metadata", "annotations", "rocca.dev/stale"}), "");
  EXPECT_EQ(one.published("KUBECONFIG")->value, now);
  EXPECT_THAT(one.plan(), IsEmpty());
  // What only leaves the spec is as good as before.
  one.write(plain_flux);
  ASSERT_TRUE(one.up().ok());
  EXPECT_EQ(one.rig.files.get("/published/kubeconfig"), now);
}

TEST(EngineHandover, TheCredentialItselfMayComeThroughExternalSecrets) {
  HandoverRig one;
  one.secrets.erase("flux.git");
  auto& internet = one.rig.home.internet;
  internet.infisical.put(internet.project(), "prod", "/", "FLUX_GIT", "token-one");
  one.write(
      R"(    flux: { url: "https://git.home/fleet", path: clusters/blue, auth: { external: FLUX_GIT } }
    externalSecrets: { infisical: { host: "https://infisical.home", project: homelab, environment: prod, auth: { secret: infisical } } }
)");
  const engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(one.revision(), "main@sha1:" + one.commit);
  EXPECT_THAT(one.plan(), IsEmpty());
}

std::string label(HandoverRig& one, const char* node, const char* name) {
  return text_at(*one.find("/nodes", "", node),
                 {"metadata", "labels", std::string("topology.kubernetes.io/") + name});
}

TEST(EngineAddons, ProxmoxsControllerSaysWhereNodesAreWithATokenOfItsOwn) {
  HandoverRig one;
  one.secrets["proxmox.ccm"] = one.rig.home.token;
  one.secrets["proxmox.csi"] = one.rig.home.token;
  one.write(plain_flux,
            "  addons: { proxmoxCcm: { token: { secret: proxmox.ccm } }, proxmoxCsi: { token: { "
            "secret: proxmox.csi }, storage: tank } }\n");
  const engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(label(one, "worker-1", "region"), "proxmox");
  EXPECT_EQ(label(one, "worker-1", "zone"), "pve1");
  EXPECT_THAT(text_at(*one.find("/nodes", "", "cp-1"), {"spec", "providerID"}),
              testing::StartsWith("proxmox://proxmox/1"));
  EXPECT_THAT(one.data(one.find("/secrets", "csi-proxmox", "proxmox-csi-plugin"), "config.yaml"),
              HasSubstr("token_id: rocca@pve!lab"));
  EXPECT_EQ(
      text_at(*one.find("storage.k8s.io/storageclasses", "", "proxmox"), {"parameters", "storage"}),
      "tank");
  EXPECT_THAT(one.plan(), IsEmpty());
}

TEST(EngineAddons, WithoutItTheVolumesPluginIsToldByUs) {
  HandoverRig one;
  one.secrets["proxmox.csi"] = one.rig.home.token;
  one.write(plain_flux, "  addons: { proxmoxCsi: { token: { secret: proxmox.csi } } }\n");
  engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(label(one, "worker-1", "zone"), "pve1");
  EXPECT_THAT(one.plan(), IsEmpty());
  // What is not ours is not taken away with the add-on: only our labels go.
  one.write(plain_flux);
  report = one.rig.up([&] {
    resources::RunOptions options = one.options();
    options.policy.allowed.insert(engine::Effect::Service);
    return options;
  }());
  ASSERT_TRUE(report.ok()) << problems(report);
  ASSERT_TRUE(one.find("/nodes", "", "worker-1"));
  EXPECT_EQ(label(one, "worker-1", "zone"), "");
  EXPECT_FALSE(one.find("apps/deployments", "csi-proxmox", "proxmox-csi-plugin-controller"));
  EXPECT_THAT(one.plan(), IsEmpty());
}

TEST(EngineAddons, ATokenThatProxmoxDoesNotKnowKeepsNodesWaitingAndIsNamed) {
  HandoverRig one;
  one.secrets["proxmox.ccm"] = "nonsense";
  one.write(plain_flux, "  addons: { proxmoxCcm: { token: { secret: proxmox.ccm } } }\n");
  EXPECT_THAT(one.failure(), HasSubstr("addons.proxmoxCcm.token is no API token of Proxmox"));
  one.secrets["proxmox.ccm"] = one.rig.home.token;
  const engine::Report report = one.up();
  EXPECT_TRUE(report.ok()) << problems(report);
}

}  // namespace
}  // namespace rocca::scenarios
