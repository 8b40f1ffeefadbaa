#include "scenarios/handover_rig.hpp"

// What can be wrong with a handover: each ends in an error that names the blocker, and once it is
// put right `up` goes on.

namespace rocca::scenarios {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

/// It comes up now, and nothing is left to do.
void comes_up(HandoverRig& one) {
  const engine::Report report = one.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(one.plan(), IsEmpty());
}

TEST(EngineHandoverBad, AWrongUrl) {
  HandoverRig one;
  one.write(replace_all(plain_flux, "git.home/fleet", "git.home/fleat"));
  const std::string told = one.failure();
  EXPECT_THAT(told, HasSubstr("handover/git"));
  EXPECT_THAT(told, HasSubstr("unable to clone 'https://git.home/fleat': repository not found"));
  one.write(plain_flux);
  comes_up(one);
}

TEST(EngineHandoverBad, AKeyThatIsRefused) {
  HandoverRig one;
  one.secrets["flux.git"] = "stale";
  one.write(plain_flux);
  EXPECT_THAT(one.failure(), HasSubstr("authentication required: Unauthorized"));
  one.secrets["flux.git"] = "token-one";
  comes_up(one);
}

TEST(EngineHandoverBad, ABranchThatIsNotThere) {
  HandoverRig one;
  one.write(replace_all(plain_flux, "path:", "branch: next, path:"));
  EXPECT_THAT(one.failure(), HasSubstr("couldn't find remote ref \"refs/heads/next\""));
  one.git.push(HandoverRig::url, "next", "the branch", shop_files);
  comes_up(one);
}

TEST(EngineHandoverBad, AFolderThatIsNotThereOrHasNothing) {
  HandoverRig one;
  one.push({{"README.md", "nothing yet\n"}});
  one.write(plain_flux);
  EXPECT_THAT(one.failure(), HasSubstr("kustomization path not found"));
  one.push({{"clusters/blue/README.md", "nothing yet\n"}});
  EXPECT_THAT(one.failure(), HasSubstr("is ready with nothing: ./clusters/blue of main@sha1:" +
                                       one.commit + " has no manifests"));
  one.push(shop_files);
  comes_up(one);
}

TEST(EngineHandoverBad, AManifestInGitWithASyntaxErrorIsToldWithItsLine) {
  HandoverRig one;
  one.push({{"clusters/blue/shop.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: { name: [\n"}});
  one.write(plain_flux);
  const std::string told = one.failure();
  EXPECT_THAT(told, HasSubstr("Kustomization flux-system/flux-system"));
  EXPECT_THAT(told, HasSubstr("MalformedYAMLError"));
  EXPECT_THAT(told, HasSubstr("shop.yaml:4"));
  one.push(shop_files);
  comes_up(one);
}

TEST(EngineHandoverBad, AManifestOfOursWithASyntaxErrorIsToldWithItsLine) {
  HandoverRig one;
  one.rig.files.write("/clusters/blue/pool.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {\n");
  one.write(plain_flux, "  addons: { manifests: [ pool.yaml ] }\n");
  try {
    one.up();
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.render(), HasSubstr("pool.yaml:4"));
  }
  EXPECT_THAT(one.rig.home.dc.vms, IsEmpty()) << "nothing is begun with a file that cannot be read";
  one.rig.files.write("/clusters/blue/pool.yaml",
                      "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: a }\n");
  comes_up(one);
}

TEST(EngineHandoverBad, ADefinitionThatNeverEstablishes) {
  HandoverRig one;
  const auto definition = [](const char* name, const char* kind) {
    return fmt::format(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{ name: "
        "{0}s.shop.example }}\nspec:\n  group: shop.example\n  scope: Namespaced\n  names: {{ "
        "plural: {0}s, singular: {0}, kind: {1}, listKind: {1}List }}\n  versions: [ {{ name: v1, "
        "served: true, storage: true, schema: {{ openAPIV3Schema: {{ type: object }} }} }} ]\n",
        name, kind);
  };
  one.rig.files.write("/clusters/blue/kinds.yaml",
                      definition("till", "Till") + "---\n" + definition("box", "Till"));
  one.write(plain_flux, "  addons: { manifests: [ kinds.yaml ] }\n");
  const std::string told = one.failure();
  EXPECT_THAT(told, HasSubstr("boxs.shop.example"));
  EXPECT_THAT(told, HasSubstr("is already in use"));
  one.rig.files.write("/clusters/blue/kinds.yaml", definition("till", "Till"));
  comes_up(one);
  EXPECT_FALSE(one.find("apiextensions.k8s.io/customresourcedefinitions", "", "boxs.shop.example"));
}

TEST(EngineHandoverBad, ANetworkThatNeverComes) {
  HandoverRig one;
  one.rig.home.estate.clusters().refused_images["example/cni"] = "manifest unknown";
  one.rig.files.write("/clusters/blue/cni.yaml", R"(apiVersion: apps/v1
kind: DaemonSet
metadata: { name: cni, namespace: kube-system }
spec:
  selector: { matchLabels: { k8s-app: calico-node } }
  template:
    metadata: { labels: { k8s-app: calico-node } }
    spec:
      hostNetwork: true
      tolerations: [ { operator: Exists } ]
      containers: [ { name: cni, image: "example/cni:1" } ]
)");
  one.write(plain_flux, "", "cni: { manifests: [ cni.yaml ] }");
  const std::string told = one.failure();
  EXPECT_THAT(told, HasSubstr("addon/cni"));
  EXPECT_THAT(told, HasSubstr("DaemonSet kube-system/cni to roll out"));
  EXPECT_THAT(told, HasSubstr("manifest unknown"));
  one.rig.home.estate.clusters().refused_images.clear();
  comes_up(one);
}

/// A workload of Git that is waited for and does not work: why is told by its own Pods.
void waits_for_the_shop(HandoverRig& one) {
  one.write(plain_flux + "    waitFor: [ { endpointSlice: shop/web } ]\n");
}

TEST(EngineHandoverBad, AnImageInGitThatCannotBePulled) {
  HandoverRig one;
  one.rig.home.estate.clusters().refused_images["nginx"] = "manifest unknown";
  waits_for_the_shop(one);
  EXPECT_THAT(one.failure(), AllOf(HasSubstr("of Service shop/web"), HasSubstr("Pod shop/web-"),
                                   HasSubstr("manifest unknown")));
  one.rig.home.estate.clusters().refused_images.clear();
  comes_up(one);
}

TEST(EngineHandoverBad, ANamespaceInGitWithoutTheLabelThatItsPodsNeed) {
  HandoverRig one;
  auto files = shop_files;
  std::string& text = files["clusters/blue/shop.yaml"];
  text = replace_all(text, "spec: { containers", "spec: { hostNetwork: true, containers");
  one.push(files);
  waits_for_the_shop(one);
  EXPECT_THAT(one.failure(), AllOf(HasSubstr("of Service shop/web"),
                                   HasSubstr("Deployment shop/web whose Pods are refused"),
                                   HasSubstr("violates PodSecurity \"baseline:latest\"")));
  text = replace_all(text, "metadata: { name: shop }",
                     "metadata: { name: shop, labels: { pod-security.kubernetes.io/enforce: "
                     "privileged } }");
  one.push(files);
  comes_up(one);
}

TEST(EngineHandoverBad, AChartWhoseDefinitionNeverEstablishes) {
  HandoverRig one;
  // Somebody has the name of the store's kind already.
  one.rig.files.write("/clusters/blue/kinds.yaml",
                      R"(apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: shelves.external-secrets.io }
spec:
  group: external-secrets.io
  scope: Cluster
  names: { plural: shelves, singular: shelf, kind: ClusterSecretStore, listKind: ShelfList }
  versions: [ { name: v1, served: true, storage: true, schema: { openAPIV3Schema: { type: object } } } ]
)");
  const std::string external =
      plain_flux +
      R"(    externalSecrets: { infisical: { host: "https://infisical.home", project: homelab, environment: prod, auth: { secret: infisical } } }
)";
  one.write(external, "  addons: { manifests: [ kinds.yaml ] }\n");
  EXPECT_THAT(one.failure(), AllOf(HasSubstr("handover/external-secrets"),
                                   HasSubstr("clustersecretstores.external-secrets.io"),
                                   HasSubstr("is already in use")));
  // It goes from the spec and from the cluster, and the name is free.
  one.write(external);
  one.api().send({"ann", {"system:masters"}}, "DELETE",
                 "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
                 "shelves.external-secrets.io");
  one.rig.home.world.run_for(std::chrono::minutes{1});
  comes_up(one);
}

TEST(EngineHandoverBad, AStoreOfExternalSecretsThatInfisicalRefuses) {
  HandoverRig one;
  one.secrets["infisical.clientSecret"] = "wrong";
  one.write(
      plain_flux +
      R"(    externalSecrets: { infisical: { host: "https://infisical.home", project: homelab, environment: prod, auth: { secret: infisical } } }
)");
  EXPECT_THAT(one.failure(), AllOf(HasSubstr("handover/secret-store"),
                                   HasSubstr("ClusterSecretStore infisical to be Ready")));
  one.secrets["infisical.clientSecret"] = one.rig.home.internet.client_secret;
  comes_up(one);
}

class Infisical : public testing::Test {
 protected:
  Infisical() {
    one.write(plain_flux + R"(    publish:
      - infisical: { host: "https://infisical.home", project: homelab, environment: prod, path: /blue, auth: { secret: infisical } }
)");
  }
  void trouble(int status) {
    one.rig.home.internet.infisical.trouble =
        [status](const net::Incoming&) -> std::optional<lab::Infisical::Trouble> {
      lab::Infisical::Trouble made;
      made.status = status;
      return made;
    };
  }
  HandoverRig one;
};

TEST_F(Infisical, AWrongIdentityIsRefused) {
  one.secrets["infisical.clientSecret"] = "wrong";
  const std::string told = one.failure();
  EXPECT_THAT(told, HasSubstr("publish/infisical:/blue"));
  EXPECT_THAT(told, HasSubstr("Invalid credentials"));
  EXPECT_EQ(one.revision(), "main@sha1:" + one.commit) << "the handover does not wait for it";
  one.secrets["infisical.clientSecret"] = one.rig.home.internet.client_secret;
  comes_up(one);
}

TEST_F(Infisical, AnIdentityThatMayOnlyReadIsRefused) {
  one.secrets["infisical.clientId"] = one.rig.home.internet.reader_id;
  one.secrets["infisical.clientSecret"] = one.rig.home.internet.reader_secret;
  const std::string told = one.failure();
  EXPECT_THAT(told, HasSubstr("You are not allowed to edit on secrets"));
  EXPECT_THAT(told, HasSubstr("infisical.home"));
  one.secrets["infisical.clientId"] = one.rig.home.internet.client_id;
  one.secrets["infisical.clientSecret"] = one.rig.home.internet.client_secret;
  comes_up(one);
}

TEST_F(Infisical, OneThatIsOverloadedIsWaitedForAndThenNamed) {
  trouble(429);
  std::string told = one.failure();
  EXPECT_THAT(told, HasSubstr("still waiting after 5m"));
  EXPECT_THAT(told, HasSubstr("Rate limit exceeded"));
  for (const int status : {500, 503}) {
    trouble(status);
    told = one.failure();
    EXPECT_THAT(told, HasSubstr("publish/infisical:/blue")) << status;
    EXPECT_THAT(told, HasSubstr(fmt::format("status {}", status)));
  }
  one.rig.home.internet.infisical.trouble = nullptr;
  comes_up(one);
}

TEST_F(Infisical, OneThatComesBackInTimeIsNoFailure) {
  // Until the first run has asked some times.
  unsigned asked = 0;
  one.rig.home.internet.infisical.trouble =
      [&asked](const net::Incoming&) -> std::optional<lab::Infisical::Trouble> {
    lab::Infisical::Trouble made;
    made.status = 503;
    return ++asked < 6 ? std::optional{made} : std::nullopt;
  };
  comes_up(one);
  EXPECT_GE(asked, 6u);
}

}  // namespace
}  // namespace rocca::scenarios
