#include "lab/machines/clusters.hpp"

#include "lab/kube/conditions.hpp"
#include "lab/kube/json.hpp"
#include "lab/machines/machines_test_support.hpp"
#include "lab/sim/faults.hpp"
#include "proto/common.pb.h"
#include "text/yaml.hpp"

#include <gmock/gmock.h>

#include <set>

namespace rocca::lab {
namespace {

using namespace std::chrono_literals;
using kube::condition_status;
using kube::text_at;
using testing::HasSubstr;
using testing::IsEmpty;
using text::Value;

const std::string cni_none = "    network:\n        cni:\n            name: none\n";

/// One control plane at 10.0.0.11 (VIP 10.0.0.20) and one worker at 10.0.0.21, bootstrapped.
class KubernetesTest : public testing::Test, public EstateRig {
 protected:
  struct Got {
    int status = 0;
    std::string body;
    std::string trouble;
    Value json() const { return kube::read_json(body).value; }
  };

  Got send(const std::string& method, const std::string& target, const std::string& body = "",
           const std::string& type = "application/json") {
    net::Request request;
    request.method = method;
    request.url = fmt::format("https://{}:6443{}", server, target);
    request.tls = net::Tls::authority(authority_pem());
    if (!who) who = person("admin", "system:masters");
    if (!nobody) request.tls.identity = who;
    request.body = body;
    request.timeout = request.connect_timeout = 100s;
    request.headers.add("Content-Type", type);
    try {
      const net::Answer answer = net::fetch(wire, request);
      return {answer.head.status, answer.body, ""};
    } catch (const Error& error) {
      return {0, "", error.message()};
    }
  }
  Got get(const std::string& target) { return send("GET", target); }

  void configure(unsigned vmid, const std::string& type, const std::string& cluster_more,
                 const std::string& machine_more) {
    const std::string name = type == "worker" ? "w-1" : fmt::format("cp-{}", vmid - 110);
    const std::string address = fmt::format("10.0.0.{}", vmid - 100);
    raise(vmid, name, address);
    const std::string vip =
        type == "worker" ? ""
                         : "        interfaces:\n            - interface: eth0\n              "
                           "vip:\n                  ip: 10.0.0.20\n";
    ASSERT_EQ(apply(address, config(type, name, vip + machine_more) + cluster_more).code, 0);
  }
  void raise_cluster(const std::string& cluster_more = "", const std::string& machine_more = "") {
    configure(111, "controlplane", cluster_more, machine_more);
    configure(121, "worker", cluster_more, machine_more);
    run_for(30s);
    ASSERT_EQ(call("10.0.0.11", "Bootstrap", "", true).code, 0);
    run_for(90s);
  }

  Value node(const std::string& name) {
    const Got got = get("/api/v1/nodes/" + name);
    return got.status == 200 ? got.json() : Value::map();
  }
  std::string ready(const std::string& name) { return condition_status(node(name), "Ready"); }
  int count(const std::string& target) {
    const Got got = get(target);
    return got.status == 200 ? static_cast<int>(got.json().find("items")->size()) : -got.status;
  }

  std::string server = "10.0.0.11";
  std::shared_ptr<net::Identity> who;
  bool nobody = false;
};

TEST_F(KubernetesTest, AnswersAtThePlaneAndTheVipWithTheClustersOwnPki) {
  raise_cluster();
  for (const char* address : {"10.0.0.11", "10.0.0.20"}) {
    server = address;
    EXPECT_EQ(get("/readyz").body, "ok") << address;
    EXPECT_EQ(count("/api/v1/nodes"), 2) << address;
  }
  server = "10.0.0.21";
  EXPECT_THAT(get("/readyz").trouble, HasSubstr("refused"));
  server = "10.0.0.11";
  nobody = true;
  EXPECT_EQ(get("/readyz").status, 401);
  EXPECT_EQ(get("/api/v1/nodes").status, 401);
  nobody = false;
  who = person("bob", "people");
  const Got bob = get("/api/v1/nodes");
  EXPECT_EQ(bob.status, 403);
  EXPECT_THAT(bob.body, HasSubstr(R"(User \"bob\" cannot list resource \"nodes\")"));
  talos::Leaf leaf;
  leaf.organizations = {"system:masters"};
  leaf.common_name = "admin";
  leaf.client = true;
  SeededEntropy chance{99};
  const talos::SigningAuthority other = talos::make_authority("other", chance, home.world.now());
  who = std::make_shared<net::Identity>(*talos::sign_leaf(other, leaf, chance, home.world.now()));
  EXPECT_THAT(get("/api/v1/nodes").trouble, HasSubstr("refused our certificate"));
}

TEST_F(KubernetesTest, NothingIsSimulatedBeforeSomebodyAsksForAnObject) {
  raise_cluster();
  Kubernetes* kubernetes = home.estate.clusters().find("lab");
  ASSERT_NE(kubernetes, nullptr);
  EXPECT_EQ(get("/readyz").status, 200);
  EXPECT_FALSE(kubernetes->live());
  EXPECT_EQ(get("/api/v1/nodes").status, 200);
  EXPECT_TRUE(kubernetes->live());
}

TEST_F(KubernetesTest, TalosBringsANetworkAndTheNodesAreWhatTheirMachinesAre) {
  raise_cluster("", "    nodeLabels:\n        zone: attic\n");
  EXPECT_EQ(ready("cp-1"), "True");
  EXPECT_EQ(ready("w-1"), "True");
  const Value plane = node("cp-1");
  EXPECT_EQ(text_at(plane, {"spec", "taints", "0", "key"}),
            "node-role.kubernetes.io/control-plane");
  EXPECT_NE(plane.find({"metadata", "labels", "node-role.kubernetes.io/control-plane"}), nullptr);
  EXPECT_EQ(text_at(node("w-1"), {"metadata", "labels", "zone"}), "attic");
  EXPECT_EQ(text_at(node("w-1"), {"status", "addresses", "0", "address"}), "10.0.0.21");
  EXPECT_EQ(text_at(node("w-1"), {"status", "capacity", "cpu"}), "2");
  EXPECT_EQ(text_at(node("w-1"), {"status", "nodeInfo", "osImage"}), "Talos (v1.11.5)");
  EXPECT_EQ(count("/api/v1/namespaces/kube-system/pods?labelSelector=tier%3Dcontrol-plane"), 3);
  const Value dns = get("/apis/apps/v1/namespaces/kube-system/deployments/coredns").json();
  EXPECT_EQ(kube::int_at(dns, {"status", "availableReplicas"}), 2);
}

TEST_F(KubernetesTest, WithoutANetworkNodesWaitUntilOneIsThere) {
  raise_cluster(cni_none);
  const Value waiting = node("w-1");
  EXPECT_EQ(condition_status(waiting, "Ready"), "False");
  EXPECT_THAT(text_at(*kube::find_condition(waiting, "Ready"), {"message"}),
              HasSubstr("reason:NetworkPluginNotReady"));
  EXPECT_EQ(send("POST", "/apis/apps/v1/namespaces/kube-system/daemonsets",
                 R"({"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"cilium"},"spec":{
                   "selector":{"matchLabels":{"k8s-app":"cilium"}},"template":{"metadata":{"labels":
                   {"k8s-app":"cilium"}},"spec":{"hostNetwork":true,"tolerations":[{"operator":
                   "Exists"}],"containers":[{"name":"agent","image":"cilium:1"}]}}}})")
                .status,
            201);
  run_for(20s);
  EXPECT_EQ(ready("cp-1"), "True");
  EXPECT_EQ(ready("w-1"), "True");
  EXPECT_EQ(kube::int_at(get("/apis/apps/v1/namespaces/kube-system/deployments/coredns").json(),
                         {"status", "availableReplicas"}),
            2);
}

TEST_F(KubernetesTest, AMachineThatIsOffIsNotReadyAndComesBack) {
  raise_cluster();
  EXPECT_EQ(ready("w-1"), "True");
  task("POST", vm_path(121, "/status/stop"));
  run_for(70s);
  const Value lost = node("w-1");
  EXPECT_EQ(condition_status(lost, "Ready"), "Unknown");
  EXPECT_EQ(text_at(*kube::find_condition(lost, "Ready"), {"reason"}), "NodeStatusUnknown");
  start(121);
  run_for(120s);
  EXPECT_EQ(ready("w-1"), "True");
}

TEST_F(KubernetesTest, ANodeThatIsDeletedComesBackOnlyWithItsKubelet) {
  raise_cluster();
  EXPECT_EQ(send("PATCH", "/api/v1/nodes/w-1", R"({"spec":{"unschedulable":true}})",
                 "application/merge-patch+json")
                .status,
            200);
  run_for(1s);
  EXPECT_EQ(send("DELETE", "/api/v1/nodes/w-1").status, 200);
  run_for(60s);
  EXPECT_EQ(count("/api/v1/nodes"), 1);
  EXPECT_EQ(count("/api/v1/pods?fieldSelector=spec.nodeName%3Dw-1"), 0);
  task("POST", vm_path(121, "/status/stop"));
  start(121);
  run_for(120s);
  EXPECT_EQ(ready("w-1"), "True");
  EXPECT_EQ(node("w-1").find({"spec", "unschedulable"}), nullptr);
}

TEST_F(KubernetesTest, WhatEtcdForgetsIsGoneAndWhatASnapshotKeepsIsThere) {
  raise_cluster();
  const std::string maps = "/api/v1/namespaces/default/configmaps";
  ASSERT_EQ(send("POST", maps,
                 R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"mine"},
                   "data":{"a":"b"}})")
                .status,
            201);
  std::string snapshot;
  for (const std::string& answer : call("10.0.0.11", "EtcdSnapshot", "", true).answers) {
    rocca::proto::common::Data data;
    ASSERT_TRUE(data.ParseFromString(answer));
    snapshot += data.bytes();
  }
  rocca::proto::machine::ResetRequest reset;
  reset.set_reboot(true);
  reset.add_system_partitions_to_wipe()->set_label("EPHEMERAL");
  reset.mutable_system_partitions_to_wipe(0)->set_wipe(true);
  ASSERT_EQ(call("10.0.0.11", "Reset", reset.SerializeAsString(), true).code, 0);
  run_for(60s);
  EXPECT_THAT(get("/readyz").trouble, HasSubstr("refused"));
  ASSERT_EQ(call("10.0.0.11", "Bootstrap", "", true).code, 0);
  run_for(90s);
  EXPECT_EQ(get(maps + "/mine").status, 404);
  // A kubelet registers when it starts, and the worker's has not.
  EXPECT_EQ(count("/api/v1/nodes"), 1);

  const talos::EtcdCluster::Restored restored = talos::EtcdCluster::restore(snapshot, false);
  ASSERT_NE(restored.cluster, nullptr) << restored.error;
  const auto kept = restored.cluster->data().find("/registry//configmaps/default/mine");
  ASSERT_NE(kept, restored.cluster->data().end());
  EXPECT_THAT(kept->second, HasSubstr(R"("a":"b")"));
}

TEST_F(KubernetesTest, LogsComeOnlyAfterTheKubeletsCertificateIsApproved) {
  raise_cluster("",
                "    kubelet:\n        extraArgs:\n            rotate-server-certificates: "
                "\"true\"\n");
  const Value requests = get("/apis/certificates.k8s.io/v1/certificatesigningrequests").json();
  ASSERT_EQ(requests.find("items")->size(), 2u);
  const std::string log = "/api/v1/namespaces/kube-system/pods/kube-scheduler-cp-1/log";
  const Got before = get(log);
  EXPECT_EQ(before.status, 500);
  EXPECT_THAT(before.body, HasSubstr("remote error: tls: internal error"));
  for (const Value& request : requests.find("items")->items()) {
    EXPECT_EQ(request.find({"status", "conditions"}), nullptr);
    EXPECT_EQ(
        send("PATCH",
             fmt::format("/apis/certificates.k8s.io/v1/certificatesigningrequests/{}/approval",
                         text_at(request, {"metadata", "name"})),
             R"({"status":{"conditions":[{"type":"Approved","status":"True",
                     "reason":"Test","message":"by hand"}]}})",
             "application/merge-patch+json")
            .status,
        200);
  }
  run_for(2s);
  EXPECT_EQ(get(log).status, 200);
}

TEST_F(KubernetesTest, ANetworkWhoseAgentsCrashOrCannotBePulledNeverComesUntilTheyWork) {
  for (const char* fault : {"crashing", "unpullable"}) {
    SCOPED_TRACE(fault);
    Faults::parse(fmt::format("[{{at: 0s, {}: flannel}}]", fault), "f").arm(home);
    run_for(1s);
    if (std::string_view(fault) == "crashing") raise_cluster();
    if (std::string_view(fault) == "unpullable") {
      // Pods that run go on; a node that comes anew pulls.
      task("POST", vm_path(121, "/status/stop"));
      ASSERT_EQ(send("DELETE", "/api/v1/nodes/w-1").status, 200);
      run_for(60s);
      start(121);
      run_for(120s);
    }
    EXPECT_EQ(ready("w-1"), "False");
    EXPECT_THAT(text_at(*kube::find_condition(node("w-1"), "Ready"), {"message"}),
                HasSubstr("cni plugin not initialized"));
    Faults::parse("[{at: 0s, working: flannel}]", "f").arm(home);
    run_for(10min);
    EXPECT_EQ(ready("w-1"), "True");
  }
}

TEST_F(KubernetesTest, WebhooksListenLateEachByItsOwnTimeOfTheSeed) {
  Faults::parse("[{at: 0s, webhooks: 0s-120s}]", "f").arm(home);
  raise_cluster();
  std::set<int> lateness;
  for (int i = 0; i < 3; ++i) {
    const std::string name = fmt::format("hook-{}", i);
    const auto apply = [&](const std::string& yaml) {
      const kube::Api::Result made =
          home.estate.clusters().find("lab")->api()->apply(text::parse_yaml(yaml, "test"), "test");
      EXPECT_LT(made.status, 300) << text_at(made.body, {"message"});
    };
    apply(fmt::format(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: {0}, namespace: default}}, "
        "spec: {{selector: {{matchLabels: {{app: {0}}}}}, template: {{metadata: {{labels: {{app: "
        "{0}}}}}, spec: {{containers: [{{name: c, image: 'i:1'}}]}}}}}}}}",
        name));
    apply(fmt::format(
        "{{apiVersion: v1, kind: Service, metadata: {{name: {0}, namespace: default}}, spec: "
        "{{selector: {{app: {0}}}, ports: [{{port: 443}}]}}}}",
        name));
    run_for(20s);
    apply(fmt::format(
        "{{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, "
        "metadata: {{name: {0}}}, webhooks: [{{name: {0}.rocca.dev, admissionReviewVersions: [v1], "
        "sideEffects: None, objectSelector: {{matchLabels: {{hook: {0}}}}}, clientConfig: "
        "{{caBundle: LS0tLS1CRUdJTi0tLS0t, service: {{name: {0}, namespace: default}}}}, rules: "
        "[{{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}}]}}]"
        "}}",
        name));
    run_for(2s);
    int seconds = 0;
    for (; seconds <= 130; ++seconds) {
      const Got made =
          send("POST", "/api/v1/namespaces/default/configmaps",
               fmt::format(R"({{"metadata":{{"name":"{0}","labels":{{"hook":"{0}"}}}}}})", name));
      if (made.status == 201) break;
      EXPECT_EQ(made.status, 500);
      EXPECT_THAT(made.body, HasSubstr("failed calling webhook"));
      run_for(1s);
    }
    EXPECT_LE(seconds, 120);
    lateness.insert(seconds);
  }
  EXPECT_GT(lateness.size(), 1u);
}

}  // namespace
}  // namespace rocca::lab
