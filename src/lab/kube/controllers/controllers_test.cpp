#include "lab/kube/conditions.hpp"
#include "lab/kube/test_client.hpp"
#include "text/json.hpp"

#include <gmock/gmock.h>

#include <map>

namespace rocca::lab::kube {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using text::Value;

class KubeControllers : public KubeApi {
 protected:
  KubeControllers() { restart_with({}); }

  void restart_with(Api::Options options) {
    start(std::move(options));
    api->set_network_ready([this](const std::string&) { return network; });
    api->join({"w1", "10.0.0.21"});
    api->join({"w2", "10.0.0.22"});
    world.run_for(5s);
  }

  std::string workload(const std::string& kind, const std::string& name, const std::string& spec,
                       const std::string& pod_spec = "", const std::string& image = "img:1") {
    return fmt::format(
        R"({{"apiVersion":"apps/v1","kind":"{}","metadata":{{"name":"{}"}},"spec":{{{}"selector":{{"matchLabels":{{"app":"{}"}}}},"template":{{"metadata":{{"labels":{{"app":"{}"}}}},"spec":{{{}"containers":[{{"name":"c","image":"{}"}}]}}}}}}}})",
        kind, name, spec, name, name, pod_spec, image);
  }

  std::vector<Object> pods(const std::string& app, const std::string& space = "default") {
    std::vector<Object> out;
    for (const auto& [key, pod] : api->storage().all("/pods"))
      if (key.space == space && text_at(*pod, {"metadata", "labels", "app"}) == app)
        out.push_back(pod);
    return out;
  }

  bool network = true;
  const std::string deployments = "/apis/apps/v1/namespaces/default/deployments";
};

TEST_F(KubeControllers, ADeploymentRollsOutAndRollsOver) {
  ASSERT_EQ(send("POST", deployments, workload("Deployment", "web", R"("replicas":3,)"))->status,
            201);
  world.run_for(20s);
  Object web = api->find("apps/deployments", "default", "web");
  EXPECT_EQ(int_at(*web, {"status", "availableReplicas"}), 3) << text::emit_json(*web);
  EXPECT_EQ(text_at(*find_condition(*web, "Progressing"), {"reason"}), "NewReplicaSetAvailable");
  EXPECT_EQ(text_at(*find_condition(*web, "Available"), {"status"}), "True");
  send("PATCH", deployments + "/web",
       R"({"spec":{"template":{"spec":{"containers":[{"name":"c","image":"img:2"}]}}}})",
       "application/strategic-merge-patch+json");
  world.run_for(60s);
  web = api->find("apps/deployments", "default", "web");
  EXPECT_EQ(int_at(*web, {"status", "updatedReplicas"}), 3);
  EXPECT_EQ(int_at(*web, {"status", "observedGeneration"}), 2);
  ASSERT_EQ(pods("web").size(), 3u);
  for (const Object& pod : pods("web"))
    EXPECT_EQ(text_at(*pod, {"spec", "containers", "0", "image"}), "img:2");
}

TEST_F(KubeControllers, AnImageThatCannotBePulledHoldsTheRolloutAndSaysWhy) {
  Api::Options options;
  options.refuse_image = [](const std::string& image) -> std::optional<std::string> {
    if (image != "gone:1") return std::nullopt;
    return "failed to resolve reference \"gone:1\": not found";
  };
  restart_with(options);
  send("POST", deployments,
       workload("Deployment", "bad", R"("progressDeadlineSeconds":60,)", "", "gone:1"));
  world.run_for(40s);
  ASSERT_EQ(pods("bad").size(), 1u);
  const Value waiting =
      *pods("bad").front()->find({"status", "containerStatuses", "0", "state", "waiting"});
  EXPECT_EQ(text_at(waiting, {"reason"}), "ImagePullBackOff");
  EXPECT_THAT(text_at(waiting, {"message"}), HasSubstr("not found"));
  world.run_for(40s);
  const Object bad = api->find("apps/deployments", "default", "bad");
  EXPECT_EQ(text_at(*find_condition(*bad, "Progressing"), {"reason"}), "ProgressDeadlineExceeded");
}

TEST_F(KubeControllers, ADaemonSetRunsOnEveryNodeAndBringsTheNetwork) {
  Api::Options options;
  start(options);
  api->join({"w1", "10.0.0.21"});
  api->join({"w2", "10.0.0.22"});
  world.run_for(10s);
  EXPECT_EQ(condition_status(*api->find("/nodes", "", "w1"), "Ready"), "False");
  send("POST", "/apis/apps/v1/namespaces/kube-system/daemonsets",
       workload("DaemonSet", "flannel", "",
                R"("hostNetwork":true,"tolerations":[{"operator":"Exists"}],)"));
  world.run_for(30s);
  const Object set = api->find("apps/daemonsets", "kube-system", "flannel");
  EXPECT_EQ(int_at(*set, {"status", "desiredNumberScheduled"}), 2);
  EXPECT_EQ(int_at(*set, {"status", "numberAvailable"}), 2) << text::emit_json(*set);
  EXPECT_EQ(condition_status(*api->find("/nodes", "", "w1"), "Ready"), "True");
}

TEST_F(KubeControllers, APodWithoutANetworkWaitsAndACordonedNodeGetsNothing) {
  network = false;
  send("PATCH", "/api/v1/nodes/w1", R"({"spec":{"unschedulable":true}})",
       "application/merge-patch+json");
  send("POST", deployments, workload("Deployment", "web", R"("replicas":2,)"));
  world.run_for(20s);
  for (const Object& pod : pods("web")) {
    EXPECT_EQ(text_at(*pod, {"status", "phase"}), "Pending");
    EXPECT_EQ(text_at(*pod, {"spec", "nodeName"}), "w2");
  }
  network = true;
  world.run_for(20s);
  EXPECT_EQ(
      int_at(*api->find("apps/deployments", "default", "web"), {"status", "availableReplicas"}), 2);
}

TEST_F(KubeControllers, AJobCompletesOrFails) {
  Api::Options options;
  options.exit_code = [](const Value& pod) {
    return text_at(pod, {"spec", "containers", "0", "image"}) == "bad:1" ? 1 : 0;
  };
  restart_with(options);
  const auto job = [](const std::string& name, const std::string& image) {
    return fmt::format(
        R"({{"apiVersion":"batch/v1","kind":"Job","metadata":{{"name":"{}"}},"spec":{{"backoffLimit":1,"template":{{"spec":{{"restartPolicy":"Never","containers":[{{"name":"j","image":"{}"}}]}}}}}}}})",
        name, image);
  };
  send("POST", "/apis/batch/v1/namespaces/default/jobs", job("good", "good:1"));
  send("POST", "/apis/batch/v1/namespaces/default/jobs", job("bad", "bad:1"));
  world.run_for(60s);
  EXPECT_EQ(condition_status(*api->find("batch/jobs", "default", "good"), "Complete"), "True");
  const Object bad = api->find("batch/jobs", "default", "bad");
  ASSERT_EQ(condition_status(*bad, "Failed"), "True") << text::emit_json(*bad);
  EXPECT_EQ(text_at(*find_condition(*bad, "Failed"), {"reason"}), "BackoffLimitExceeded");
  EXPECT_EQ(int_at(*bad, {"status", "failed"}), 2);
}

TEST_F(KubeControllers, ABudgetHoldsTheSecondEviction) {
  send("POST", deployments, workload("Deployment", "web", R"("replicas":2,)"));
  send("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
       R"({"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"web"},
           "spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"web"}}}})");
  world.run_for(20s);
  const std::vector<Object> both = pods("web");
  ASSERT_EQ(both.size(), 2u);
  const auto evict = [&](const Object& pod) {
    const std::string name = text_at(*pod, {"metadata", "name"});
    return send(
        "POST", "/api/v1/namespaces/default/pods/" + name + "/eviction",
        fmt::format(R"({{"apiVersion":"policy/v1","kind":"Eviction","metadata":{{"name":"{}"}}}})",
                    name));
  };
  EXPECT_EQ(evict(both[0])->status, 201);
  const auto held = evict(both[1]);
  EXPECT_EQ(held->status, 429);
  EXPECT_THAT(held->body, HasSubstr("The disruption budget web needs 1 healthy pods"));
  world.run_for(30s);
  EXPECT_EQ(evict(both[1])->status, 201);
}

TEST_F(KubeControllers, AServiceFindsItsReadyPods) {
  send("POST", "/api/v1/namespaces/default/services",
       R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},
           "spec":{"selector":{"app":"web"},"ports":[{"port":80,"targetPort":8080}]}})");
  send("POST", deployments, workload("Deployment", "web", R"("replicas":2,)"));
  world.run_for(20s);
  std::size_t ready = 0;
  for (const auto& [key, slice] : api->storage().all("discovery.k8s.io/endpointslices"))
    for (const Value& one : slice->find("endpoints")->items())
      if (bool_at(one, {"conditions", "ready"})) ++ready;
  EXPECT_EQ(ready, 2u);
}

TEST_F(KubeControllers, AWebhookThatListensLateRefusesUntilThen) {
  bool listens = false;
  Api::Options options;
  options.webhook_listens = [&](const std::string&, const std::string&) { return listens; };
  restart_with(options);
  send("POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
       R"({"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration",
           "metadata":{"name":"w"},"webhooks":[{"name":"w.lab.dev","sideEffects":"None",
           "admissionReviewVersions":["v1"],"clientConfig":{"service":{"name":"web",
           "namespace":"default","path":"/v"}},"rules":[{"apiGroups":[""],"apiVersions":["v1"],
           "operations":["CREATE"],"resources":["configmaps"]}]}]})");
  const auto create = [&] {
    return send("POST", maps, R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}})");
  };
  EXPECT_THAT(create()->body, HasSubstr("service \\\"web\\\" not found"));
  send("POST", "/api/v1/namespaces/default/services",
       R"({"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},
           "spec":{"selector":{"app":"web"},"ports":[{"port":443,"targetPort":9443}]}})");
  const auto refused = create();
  EXPECT_EQ(refused->status, 500);
  EXPECT_THAT(refused->body, HasSubstr("connect: connection refused"));
  send("POST", deployments, workload("Deployment", "web", ""));
  world.run_for(20s);
  EXPECT_EQ(create()->status, 500) << "ready pods do not mean that the webhook listens";
  listens = true;
  EXPECT_EQ(create()->status, 201);
}

TEST_F(KubeControllers, PodSecurityRefusesWhatANamespaceDoesNotAllow) {
  Api::Options options;
  options.pod_security = "baseline";
  restart_with(options);
  send("POST", deployments, workload("Deployment", "agent", "", R"("hostNetwork":true,)"));
  world.run_for(10s);
  EXPECT_TRUE(pods("agent").empty());
  std::string told;
  for (const auto& [key, event] : api->storage().all("/events"))
    if (text_at(*event, {"reason"}) == "FailedCreate") told = text_at(*event, {"message"});
  EXPECT_THAT(told, HasSubstr("violates PodSecurity \"baseline:latest\": host namespaces "
                              "(hostNetwork=true)"));
  send("PATCH", "/api/v1/namespaces/default",
       R"({"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}})",
       "application/merge-patch+json");
  world.run_for(30s);
  EXPECT_EQ(pods("agent").size(), 1u);
}

struct Machine {
  const char* name;
  std::vector<std::string> extensions;
  std::vector<std::string> mounts;
  const char* complaint;  // "": it runs
};

class LonghornOn : public KubeControllers, public testing::WithParamInterface<Machine> {};

TEST_P(LonghornOn, RunsOnlyWhereExtensionsAndMountAre) {
  start({});
  api->set_network_ready([](const std::string&) { return true; });
  Kubelet kubelet{"w1", "10.0.0.21"};
  kubelet.extensions = GetParam().extensions;
  kubelet.mounts = GetParam().mounts;
  api->join(kubelet);
  ASSERT_EQ(send("POST", "/apis/apps/v1/namespaces/default/daemonsets",
                 workload("DaemonSet", "manager", "", "", "longhornio/longhorn-manager:v1.10.1"))
                ->status,
            201);
  world.run_for(2min);
  const Object set = api->find("apps/daemonsets", "default", "manager");
  const bool runs = *GetParam().complaint == '\0';
  EXPECT_EQ(int_at(*set, {"status", "numberAvailable"}), runs ? 1 : 0);
  ASSERT_EQ(pods("manager").size(), 1u);
  const Value state = *pods("manager").front()->find({"status", "containerStatuses", "0", "state"});
  EXPECT_THAT(text_at(state, {"waiting", "message"}), HasSubstr(GetParam().complaint));
}

INSTANTIATE_TEST_SUITE_P(
    Machines, LonghornOn,
    testing::Values(
        Machine{"Ready", {"iscsi-tools", "util-linux-tools"}, {"/var/lib/longhorn"}, ""},
        Machine{"NoExtension", {"util-linux-tools"}, {"/var/lib/longhorn"}, "iscsiadm"},
        Machine{"NoTools", {"iscsi-tools"}, {"/var/lib/longhorn"}, "fstrim"},
        Machine{"NoMount", {"iscsi-tools", "util-linux-tools"}, {}, "not a shared mount"}),
    [](const auto& row) { return row.param.name; });

TEST_F(KubeControllers, WhatAnOwnerLeavesIsCollectedAndANamespaceEndsEmpty) {
  send("POST", "/api/v1/namespaces",
       R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"apps"}})");
  world.run_for(2s);
  send("POST", "/apis/apps/v1/namespaces/apps/deployments",
       workload("Deployment", "web", R"("replicas":2,)"));
  world.run_for(10s);
  ASSERT_EQ(pods("web", "apps").size(), 2u);
  send("DELETE", "/apis/apps/v1/namespaces/apps/deployments/web");
  world.run_for(10s);
  EXPECT_TRUE(pods("web", "apps").empty());
  send("POST", "/api/v1/namespaces/apps/configmaps",
       R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}})");
  send("DELETE", "/api/v1/namespaces/apps");
  world.run_for(20s);
  EXPECT_EQ(api->find("/namespaces", "", "apps"), nullptr);
  EXPECT_EQ(api->find("/configmaps", "apps", "x"), nullptr);
}

}  // namespace
}  // namespace rocca::lab::kube
