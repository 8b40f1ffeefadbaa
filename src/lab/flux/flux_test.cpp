#include "lab/flux/flux_rig.hpp"
#include "lab/home.hpp"

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

}  // namespace
}  // namespace rocca::lab::flux
