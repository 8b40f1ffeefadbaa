#include "lab/data_centre.hpp"
#include "lab/flux/flux_rig.hpp"
#include "lab/flux/sops.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rocca::lab::flux {
namespace {

using namespace std::chrono_literals;
using kube::text_at;
using testing::HasSubstr;

const std::string url = "http://git.home/fleet.git";

std::string config_map(const std::string& name, const std::string& value) {
  return fmt::format(
      "apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: {}, namespace: default }}\ndata: {{ a: "
      "'{}' }}\n",
      name, value);
}

TEST(LabFlux, AppliesWhatIsInGitFollowsCommitsAndPrunes) {
  FluxRig rig;
  rig.git.push(url, "main", "first",
               {{"app/a.yaml", config_map("a", "1")}, {"app/b.yaml", config_map("b", "1")}});
  rig.add_git("fleet", url);
  rig.add_kustomization("app", "./app");
  rig.run(20s);
  EXPECT_EQ(FluxRig::ready(rig.kustomization("app")), "True ReconciliationSucceeded")
      << FluxRig::message(rig.kustomization("app"));
  ASSERT_TRUE(rig.api->find("/configmaps", "default", "a"));
  EXPECT_THAT(text::emit_json(*rig.api->find("/configmaps", "default", "a")),
              HasSubstr(R"("manager":"kustomize-controller","operation":"Apply")"));
  const std::string commit =
      rig.git.push(url, "main", "second", {{"app/a.yaml", config_map("a", "2")}});
  rig.run(2h);
  EXPECT_EQ(text_at(*rig.api->find("/configmaps", "default", "a"), {"data", "a"}), "2");
  EXPECT_FALSE(rig.api->find("/configmaps", "default", "b"));
  EXPECT_EQ(text_at(*rig.kustomization("app"), {"status", "lastAppliedRevision"}),
            "main@sha1:" + commit);
}

TEST(LabFlux, PutsBackWhatSomebodyChangesAndOtherwiseWritesNothing) {
  FluxRig rig;
  rig.git.push(url, "main", "first", {{"app/a.yaml", config_map("a", "1")}});
  rig.add_git("fleet", url);
  rig.add_kustomization("app", "./app");
  rig.run(1min);
  const auto before = rig.api->storage().revision();
  rig.run(5h);
  EXPECT_EQ(rig.api->storage().revision(), before) << "a quiet cluster costs nothing";
  rig.api->send({"admin", {"system:masters"}}, "PATCH", "/api/v1/namespaces/default/configmaps/a",
                R"({"data":{"a":"by hand"}})", "application/merge-patch+json");
  rig.run(2h);
  EXPECT_EQ(text_at(*rig.api->find("/configmaps", "default", "a"), {"data", "a"}), "1");
}

TEST(LabFlux, WhatDependsWaitsAndWhatIsNotReadyIsNamed) {
  FluxRig rig;
  rig.git.push(url, "main", "first",
               {{"base/d.yaml",
                 "apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: web, namespace: default "
                 "}\nspec: { selector: { matchLabels: { app: web } }, template: { metadata: { "
                 "labels: { app: web } }, spec: { containers: [ { name: c, image: 'gone:1' } ] } } "
                 "}\n"},
                {"top/a.yaml", config_map("a", "1")}});
  rig.add_git("fleet", url);
  rig.add_kustomization("base", "./base", ", wait: true, timeout: 40s");
  rig.add_kustomization("top", "./top", ", dependsOn: [{name: base}]");
  rig.run(46s);
  EXPECT_THAT(FluxRig::message(rig.kustomization("base")),
              HasSubstr("timeout waiting for: [Deployment/default/web status: 'InProgress']"));
  EXPECT_EQ(FluxRig::ready(rig.kustomization("top")), "False DependencyNotReady");
  rig.git.push(url, "main", "second",
               {{"base/d.yaml", config_map("b", "1")}, {"top/a.yaml", config_map("a", "1")}});
  rig.run(2h);
  EXPECT_EQ(FluxRig::ready(rig.kustomization("base")), "True ReconciliationSucceeded");
  EXPECT_EQ(FluxRig::ready(rig.kustomization("top")), "True ReconciliationSucceeded");
}

TEST(LabFlux, AReleaseOfAKnownChartBringsItsWebhookAndLateOnesRefuse) {
  FluxRig rig;
  rig.apply(
      "{apiVersion: v1, kind: Namespace, metadata: {name: metallb-system, labels: "
      "{pod-security.kubernetes.io/enforce: privileged}}}");
  rig.apply(
      "{apiVersion: source.toolkit.fluxcd.io/v1, kind: HelmRepository, metadata: {name: "
      "metallb, namespace: metallb-system}, spec: {interval: 1h, url: "
      "'https://metallb.github.io/metallb'}}");
  rig.apply(
      "{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, metadata: {name: metallb, "
      "namespace: metallb-system}, spec: {interval: 1h, chart: {spec: {chart: metallb, "
      "version: 0.16.1, sourceRef: {kind: HelmRepository, name: metallb}}}}}");
  rig.run(1s);
  const std::string pool =
      "{apiVersion: metallb.io/v1beta1, kind: IPAddressPool, metadata: {name: home, namespace: "
      "metallb-system}, spec: {addresses: [10.0.9.1-10.0.9.20]}}";
  const kube::Api::Result early = rig.apply(pool);
  EXPECT_EQ(early.status, 500);
  EXPECT_THAT(text_at(early.body, {"message"}), HasSubstr("failed calling webhook"));
  rig.run(60s);
  const kube::Object release =
      rig.api->find("helm.toolkit.fluxcd.io/helmreleases", "metallb-system", "metallb");
  EXPECT_EQ(FluxRig::ready(release), "True InstallSucceeded") << FluxRig::message(release);
  EXPECT_EQ(rig.apply(pool).status, 201);
  rig.apply(
      "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default}, spec: "
      "{type: LoadBalancer, selector: {app: web}, ports: [{port: 80}]}}");
  rig.run(10s);
  EXPECT_EQ(text_at(*rig.api->find("/services", "default", "web"),
                    {"status", "loadBalancer", "ingress", "0", "ip"}),
            "10.0.9.1");
}

TEST(LabFlux, SecretsComeFromInfisicalThroughAStore) {
  Home home{{}};
  kube::Api api{home.world, {}};
  api.set_network_ready([](const std::string&) { return true; });
  Flux::Options how;
  how.always = true;
  Flux flux{home.world, api, how};
  const auto apply = [&](const std::string& yaml) {
    const kube::Api::Result made = api.apply(text::parse_yaml(yaml, "test"), "rocca");
    EXPECT_LT(made.status, 300) << text_at(made.body, {"message"});
    return made.status;
  };
  const auto chart = chart_objects("external-secrets", "external-secrets", "default");
  ASSERT_TRUE(chart);
  for (const text::Value& one : *chart)
    if (text_at(one, {"kind"}) == "CustomResourceDefinition") api.apply(one, "test");
  home.world.run_for(5s);
  home.internet.infisical.put(home.internet.project(), "prod", "/", "GIT_TOKEN", "hush");
  const auto credentials = [&](const std::string& secret) {
    apply(
        fmt::format("{{apiVersion: v1, kind: Secret, metadata: {{name: infisical, namespace: "
                    "default}}, stringData: {{id: '{}', secret: '{}'}}}}",
                    home.internet.client_id, secret));
  };
  credentials("wrong");
  ASSERT_EQ(apply("{apiVersion: external-secrets.io/v1, kind: ClusterSecretStore, metadata: {name: "
                  "infisical}, spec: {provider: {infisical: {hostAPI: 'https://infisical.home', "
                  "auth: {universalAuthCredentials: {clientId: {name: infisical, namespace: "
                  "default, key: id}, clientSecret: {name: infisical, namespace: default, key: "
                  "secret}}}, secretsScope: {projectSlug: homelab, environmentSlug: prod}}}}}"),
            201);
  ASSERT_EQ(
      apply("{apiVersion: external-secrets.io/v1, kind: ExternalSecret, metadata: {name: git, "
            "namespace: default}, spec: {secretStoreRef: {kind: ClusterSecretStore, name: "
            "infisical}, data: [{secretKey: password, remoteRef: {key: GIT_TOKEN}}]}}"),
      201);
  home.world.run_for(5s);
  const auto store = [&] {
    return api.find("external-secrets.io/clustersecretstores", "", "infisical");
  };
  EXPECT_EQ(FluxRig::ready(store()), "False InvalidProviderConfig");
  EXPECT_THAT(FluxRig::message(store()), HasSubstr("Invalid credentials"));
  credentials(home.internet.client_secret);
  home.world.run_for(2min);
  EXPECT_EQ(FluxRig::ready(store()), "True Valid") << FluxRig::message(store());
  const kube::Object git = api.find("external-secrets.io/externalsecrets", "default", "git");
  EXPECT_EQ(FluxRig::ready(git), "True SecretSynced") << FluxRig::message(git);
  ASSERT_TRUE(api.find("/secrets", "default", "git"));
  EXPECT_EQ(text_at(*api.find("/secrets", "default", "git"), {"data", "password"}), "aHVzaA==");
}

TEST(LabFlux, ASecondVisitComesWhenItIsAskedFor) {
  FluxRig rig;
  rig.git.push(url, "main", "first", {{"a.yaml", config_map("a", "1")}});
  rig.add_git("fleet", url);
  rig.add_kustomization("all", "./");
  rig.run(10s);
  ASSERT_EQ(FluxRig::ready(rig.kustomization("all")), "True ReconciliationSucceeded");
  rig.git.repositories[url].branches["main"].hash = std::string(40, 'b');  // nobody is told
  rig.git.repositories[url].branches["main"].files["a.yaml"] = config_map("a", "2");
  const kube::Api::Result asked = rig.request("gitrepositories", "fleet", "t1");
  ASSERT_EQ(asked.status, 200) << text::emit_json(asked.body);
  rig.run(10s);
  const kube::Object source =
      rig.api->find("source.toolkit.fluxcd.io/gitrepositories", "flux-system", "fleet");
  EXPECT_EQ(text_at(*source, {"status", "lastHandledReconcileAt"}), "t1");
  EXPECT_EQ(text_at(*source, {"status", "artifact", "revision"}),
            "main@sha1:" + std::string(40, 'b'));
  EXPECT_EQ(text_at(*rig.api->find("/configmaps", "default", "a"), {"data", "a"}), "2");
  rig.api->send({"admin", {"system:masters"}}, "PATCH", "/api/v1/namespaces/default/configmaps/a",
                R"({"data":{"a":"by hand"}})", "application/merge-patch+json");
  ASSERT_EQ(rig.request("kustomizations", "all", "t2").status, 200);
  rig.run(10s);
  EXPECT_EQ(text_at(*rig.kustomization("all"), {"status", "lastHandledReconcileAt"}), "t2");
  EXPECT_EQ(text_at(*rig.api->find("/configmaps", "default", "a"), {"data", "a"}), "2");
}

TEST(LabFlux, DecryptsWithTheAgeKeyOfItsSecretAndSaysWhenItIsTheWrongOne) {
  FluxRig rig;
  rig.apply("{apiVersion: v1, kind: Namespace, metadata: {name: fx}}");
  rig.git.push(url, "main", "first", {{"s/token.yaml", sops_secret}});
  rig.add_git("fleet", url);
  rig.add_secret("sops-age", "age.agekey", age_pair(std::string(32, '\7')).identity);
  rig.add_kustomization("s", "./s", ", decryption: {provider: sops, secretRef: {name: sops-age}}");
  rig.run(10s);
  EXPECT_EQ(FluxRig::ready(rig.kustomization("s")), "False BuildFailed");
  EXPECT_THAT(FluxRig::message(rig.kustomization("s")),
              HasSubstr("identity did not match any of the recipients"));
  EXPECT_EQ(rig.api->find("/secrets", "fx", "token"), nullptr);
  rig.add_secret("sops-age", "age.agekey", sops_identity);
  rig.request("kustomizations", "s", "again");
  rig.run(10s);
  EXPECT_EQ(FluxRig::ready(rig.kustomization("s")), "True ReconciliationSucceeded")
      << FluxRig::message(rig.kustomization("s"));
  const kube::Object token = rig.api->find("/secrets", "fx", "token");
  ASSERT_NE(token, nullptr);
  EXPECT_EQ(text_at(*token, {"data", "password"}), "czNjcmV0LXZhbHVl");  // s3cret-value
  EXPECT_EQ(token->find("sops"), nullptr);
}

/// Two machines without a network, and the Job that brings Cilium as a spec's `cni: cilium` has it.
class LabCilium : public testing::Test {
 protected:
  void start(kube::Api::Options options = {}) {
    api = std::make_unique<kube::Api>(world, std::move(options));
    flux = std::make_unique<Flux>(world, *api, Flux::Options{});
    kube::Kubelet plane{"cp-1", "10.0.0.11"};
    plane.control_plane = true;
    api->join(plane);
    api->join({"w-1", "10.0.0.21"});
    world.run_for(10s);
    EXPECT_EQ(ready("cp-1"), "False");
  }
  void install(const std::string& capabilities) {
    const std::string values =
        fmt::format("securityContext: {{capabilities: {{ciliumAgent: [{}]}}}}", capabilities);
    for (const text::Value& object : text::parse_yaml_stream(fmt::format(R"(
apiVersion: v1
kind: ServiceAccount
metadata: {{ name: cilium-install, namespace: kube-system }}
---
apiVersion: v1
kind: ConfigMap
metadata: {{ name: cilium-install-1, namespace: kube-system }}
data: {{ values.yaml: '{}' }}
---
apiVersion: batch/v1
kind: Job
metadata: {{ name: cilium-install-1, namespace: kube-system }}
spec:
  backoffLimit: 10
  template:
    spec:
      hostNetwork: true
      restartPolicy: OnFailure
      serviceAccountName: cilium-install
      tolerations: [ {{ operator: Exists }} ]
      affinity: {{ nodeAffinity: {{ requiredDuringSchedulingIgnoredDuringExecution: {{ nodeSelectorTerms: [ {{ matchExpressions: [ {{ key: node-role.kubernetes.io/control-plane, operator: Exists }} ] }} ] }} }} }}
      containers:
        - name: install
          image: docker.io/alpine/helm:3.16.4
          args: [ upgrade, --install, cilium, cilium, --repo, "https://helm.cilium.io", --version, "1.18.4", --namespace, kube-system, --values, /values/values.yaml ]
          volumeMounts: [ {{ name: values, mountPath: /values }} ]
      volumes: [ {{ name: values, configMap: {{ name: cilium-install-1 }} }} ]
)",
                                                                         values),
                                                             "job"))
      EXPECT_LT(api->apply(object, "rocca").status, 300);
    world.run_for(1min);
  }
  std::string ready(const std::string& node) {
    return kube::condition_status(*api->find("/nodes", "", node), "Ready");
  }
  std::string agent(std::initializer_list<std::string_view> path) {
    for (const auto& [key, pod] : api->storage().all("/pods"))
      if (text_at(*pod, {"metadata", "labels", "k8s-app"}) == "cilium")
        return text_at(*pod->find({"status", "containerStatuses", "0", "state"}), path);
    return "no agent";
  }

  World world;
  std::unique_ptr<kube::Api> api;
  std::unique_ptr<Flux> flux;
};

TEST_F(LabCilium, ComesByTheJobsHelmAndMakesTheNodesReady) {
  start();
  install("CHOWN, NET_ADMIN, SYS_ADMIN");
  EXPECT_EQ(ready("cp-1"), "True");
  EXPECT_EQ(ready("w-1"), "True");
  EXPECT_EQ(kube::int_at(*api->find("apps/daemonsets", "kube-system", "cilium"),
                         {"status", "numberAvailable"}),
            2);
}

TEST_F(LabCilium, ThatWouldLoadModulesIsRefusedByTalos) {
  start();
  install("SYS_MODULE, NET_ADMIN");
  EXPECT_EQ(ready("w-1"), "False");
  EXPECT_EQ(agent({"waiting", "reason"}), "RunContainerError");
  EXPECT_THAT(agent({"waiting", "message"}), HasSubstr("operation not permitted"));
}

TEST_F(LabCilium, WhoseAgentsCrashNeverMakesANodeReadyUntilTheyWork) {
  bool crashes = true;
  kube::Api::Options options;
  options.crash_image = [&](const std::string& image) -> std::optional<std::string> {
    if (!crashes || image.find("cilium/cilium") == std::string::npos) return std::nullopt;
    return "back-off 40s restarting failed container";
  };
  start(options);
  install("NET_ADMIN");
  world.run_for(20min);
  EXPECT_EQ(ready("w-1"), "False");
  EXPECT_EQ(agent({"waiting", "reason"}), "CrashLoopBackOff");
  crashes = false;
  world.run_for(2min);
  EXPECT_EQ(ready("w-1"), "True");
}

TEST_F(LabCilium, WhoseInstallerCannotBePulledNeverComes) {
  kube::Api::Options options;
  options.refuse_image = [](const std::string& image) -> std::optional<std::string> {
    if (image.find("alpine/helm") == std::string::npos) return std::nullopt;
    return "not found";
  };
  start(options);
  install("NET_ADMIN");
  world.run_for(5min);
  EXPECT_EQ(api->find("apps/daemonsets", "kube-system", "cilium"), nullptr);
  EXPECT_EQ(ready("w-1"), "False");
}

}  // namespace
}  // namespace rocca::lab::flux
