#include "kube/waits.hpp"

#include "text/json.hpp"
#include "text/yaml.hpp"

#include <gmock/gmock.h>

namespace rocca::kube {
namespace {

using testing::HasSubstr;

Value yaml(const std::string& text) {
  return text::parse_yaml(text, "object");
}

TEST(Waits, ADeploymentNamesThePodThatHoldsItUp) {
  const Value deployment = yaml(R"(
kind: Deployment
apiVersion: apps/v1
metadata: { name: web, namespace: shop, generation: 2 }
spec: { replicas: 2 }
status: { observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 1 })");
  Scene scene;
  scene.pods.push_back(yaml(R"(
metadata: { name: web-1, namespace: shop }
status:
  phase: Pending
  containerStatuses:
    - { name: c, state: { waiting: { reason: ImagePullBackOff, message: "img:9: not found" } } })"));
  EXPECT_EQ(deployment_rolled_out(deployment, scene).waiting_for,
            "Deployment shop/web to roll out: 1 of 2 available (Pod shop/web-1: container c: "
            "ImagePullBackOff: img:9: not found)");
  scene.pods.front() = yaml(R"(
metadata: { name: web-1, namespace: shop }
status:
  phase: Pending
  conditions: [ { type: PodScheduled, status: "False", reason: Unschedulable, message: 0/2 nodes are available } ])");
  EXPECT_THAT(deployment_rolled_out(deployment, scene).waiting_for,
              HasSubstr("Unschedulable: 0/2 nodes are available"));
  scene.pods.front() = yaml("{metadata: {name: web-1, namespace: shop}, status: {phase: Pending}}");
  scene.events.push_back(
      yaml("{type: Warning, reason: FailedMount, message: no such secret, involvedObject: {kind: "
           "Pod, name: web-1}}"));
  EXPECT_THAT(deployment_rolled_out(deployment, scene).waiting_for,
              HasSubstr("Pod shop/web-1: FailedMount: no such secret"));
  EXPECT_FALSE(deployment_rolled_out(deployment, scene).hopeless);
}

TEST(Waits, ADeploymentOfTheSpecBeforeIsNotRolledOut) {
  const char* text = R"(
metadata: {{ name: web, namespace: shop, generation: {} }}
spec: {{ replicas: 1 }}
status:
  observedGeneration: 2
  replicas: 1
  updatedReplicas: 1
  availableReplicas: 1
  conditions: [ {{ type: Available, status: "True" }} ])";
  EXPECT_TRUE(deployment_rolled_out(yaml(fmt::format(fmt::runtime(text), 2))).done);
  EXPECT_FALSE(deployment_rolled_out(yaml(fmt::format(fmt::runtime(text), 3))).done);
}

TEST(Waits, ACrdThatNeverEstablishesSaysWhy) {
  const Value clash = yaml(R"(
metadata: { name: foos.a.io }
status:
  conditions:
    - { type: NamesAccepted, status: "False", reason: ListKindConflict, message: '"FooList" is already in use' }
    - { type: Established, status: "False", reason: NotAccepted, message: not all names are accepted })");
  const Verdict verdict = crd_established(clash);
  EXPECT_TRUE(verdict.hopeless);
  EXPECT_THAT(verdict.waiting_for, HasSubstr("already in use"));
  EXPECT_FALSE(crd_established(yaml("{metadata: {name: x}}")).done);
}

TEST(Waits, AnEndpointWithoutAWordCountsAsReady) {
  const auto slices = [](const std::string& conditions) {
    return std::vector<Value>{yaml(
        "{ports: [{name: https, port: 9443}], endpoints: [{addresses: [10.0.0.1], conditions: " +
        conditions + "}]}")};
  };
  EXPECT_TRUE(endpoint_ready(slices("{}"), "m/webhook").done);
  EXPECT_TRUE(endpoint_ready(slices("{ready: true}"), "m/webhook", "9443").done);
  EXPECT_TRUE(endpoint_ready(slices("{ready: true}"), "m/webhook", "https").done);
  EXPECT_FALSE(endpoint_ready(slices("{ready: true}"), "m/webhook", "443").done);
  EXPECT_EQ(endpoint_ready(slices("{ready: false}"), "m/webhook").waiting_for,
            "a ready endpoint of Service m/webhook (1 is there, none ready)");
  EXPECT_EQ(endpoint_ready({}, "m/webhook").waiting_for, "an EndpointSlice of Service m/webhook");
  EXPECT_EQ(endpoint_ready({Value::map()}, "m/webhook").waiting_for,
            "an endpoint of Service m/webhook");
}

TEST(Waits, AWebhookThatDeniesHasAnswered) {
  const auto told = [](int status, const std::string& reason, const std::string& message) {
    return classify(status, {},
                    R"({"kind":"Status","status":"Failure","reason":")" + reason +
                        R"(","message":")" + message + R"(","code":)" + std::to_string(status) +
                        "}");
  };
  EXPECT_TRUE(webhook_answers(Value::map()).done);
  EXPECT_TRUE(
      webhook_answers(told(403, "Forbidden", R"(admission webhook \"a.b\" denied the request: no)"))
          .done);
  const Verdict late = webhook_answers(told(
      500, "InternalError",
      R"(Internal error occurred: failed calling webhook \"pool.metallb.io\": failed to call webhook: Post \"https://w.m.svc:443/x?timeout=10s\": dial tcp 10.96.0.9:443: connect: connection refused)"));
  EXPECT_FALSE(late.done);
  EXPECT_EQ(late.waiting_for,
            "webhook pool.metallb.io: dial tcp 10.96.0.9:443: connect: connection refused");
}

TEST(Waits, FluxIsReadyOnlyAtItsGenerationAndNotWhileSuspended) {
  const char* text =
      "{{kind: Kustomization, metadata: {{name: k, namespace: f, generation: {}}}, spec: "
      "{{suspend: {}}}, "
      "status: {{observedGeneration: {}, conditions: [{{type: Ready, status: \"{}\", reason: R, "
      "message: m}}]}}}}";
  const auto verdict = [&](int generation, const char* suspend, int observed, const char* ready) {
    return flux_ready(yaml(fmt::format(fmt::runtime(text), generation, suspend, observed, ready)));
  };
  EXPECT_TRUE(verdict(2, "false", 2, "True").done);
  EXPECT_FALSE(verdict(2, "false", -1, "True").done);
  EXPECT_TRUE(verdict(2, "true", 2, "True").hopeless);
  EXPECT_EQ(verdict(2, "false", 2, "False").waiting_for, "Kustomization f/k to be ready (R: m)");
}

TEST(Waits, KnowWhatToWaitForAfterAnObject) {
  EXPECT_EQ(waits_for(yaml("{apiVersion: batch/v1, kind: Job, metadata: {name: j}}")).front().what,
            Wait::For::Complete);
  EXPECT_EQ(
      waits_for(yaml("{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: j}}")).front().what,
      Wait::For::RolledOut);
  EXPECT_TRUE(waits_for(yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: j}}")).empty());
  EXPECT_TRUE(waits_for(yaml("{apiVersion: other.io/v1, kind: Job, metadata: {name: j}}")).empty());
}

TEST(Objects, AreFluxesOnceItAppliesThem) {
  EXPECT_EQ(flux_owner(yaml("{metadata: {labels: {kustomize.toolkit.fluxcd.io/name: apps, "
                            "kustomize.toolkit.fluxcd.io/namespace: flux-system}}}")),
            "Kustomization flux-system/apps");
  EXPECT_EQ(
      flux_owner(
          yaml("{metadata: {managedFields: [{manager: kustomize-controller, operation: Apply}]}}")),
      "kustomize-controller");
  // Its finalizer and status are written by the controller of every Kustomization.
  EXPECT_EQ(
      flux_owner(yaml(
          "{metadata: {managedFields: [{manager: gotk-kustomize-controller, operation: Update}, "
          "{manager: kustomize-controller, operation: Update, subresource: status}]}}")),
      std::nullopt);
}

}  // namespace
}  // namespace rocca::kube
