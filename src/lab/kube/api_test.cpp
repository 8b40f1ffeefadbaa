#include "lab/kube/api.hpp"

#include "lab/kube/test_client.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::lab::kube {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using text::Value;

std::string config_map(const std::string& name, const std::string& data) {
  return fmt::format(
      R"({{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{}"}},"data":{}}})", name,
      data);
}

TEST_F(KubeApi, StoresAndGivesBackWithUidRevisionAndOwner) {
  const auto made = send("POST", maps, config_map("one", R"({"a":"1"})"));
  ASSERT_EQ(made->status, 201) << made->body;
  const Value object = send("GET", maps + "/one")->json();
  EXPECT_EQ(object, made->json());
  EXPECT_EQ(text_at(object, {"metadata", "uid"}).size(), 36u);
  EXPECT_EQ(text::emit_json(*object.find({"metadata", "managedFields", "0", "fieldsV1"})),
            R"({"f:data":{".":{},"f:a":{}}})");
  EXPECT_EQ(text_at(object, {"metadata", "managedFields", "0", "manager"}), "tester");
  EXPECT_EQ(send("POST", maps, config_map("one", "{}"))->status, 409);
  EXPECT_EQ(send("DELETE", maps + "/one")->status, 200);
  EXPECT_EQ(text_at(send("GET", maps + "/one")->json(), {"reason"}), "NotFound");
}

TEST_F(KubeApi, VerbsOfKindsThatAreNotSimulatedAreAnsweredWith501) {
  struct Row {
    const char* method;
    const char* path;
    int status;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"POST", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", 501},
           {"GET", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", 200},
           {"GET", "/apis/resource.k8s.io/v1/deviceclasses", 501},
           {"GET", "/apis/resource.k8s.io/v1/deviceclasses?watch=1", 501},
           {"POST", "/apis/node.k8s.io/v1/runtimeclasses", 501},
           {"POST", "/api/v1/namespaces/default/pods/one/exec", 501},
           {"POST", "/api/v1/componentstatuses", 405}}) {
    const auto answer = send(row.method, row.path, "{}");
    EXPECT_EQ(answer->status, row.status) << row.method << " " << row.path << " " << answer->body;
    if (row.status == 501) {
      EXPECT_THAT(text_at(answer->json(), {"message"}), HasSubstr("does not simulate"));
    }
  }
}

TEST_F(KubeApi, ApplyOwnsConflictsTakesOverAndReleases) {
  ASSERT_EQ(apply("ours", maps + "/s", config_map("s", R"({"a":"1","b":"2"})"))->status, 201);
  const auto refused = apply("flux", maps + "/s", config_map("s", R"({"a":"9"})"));
  EXPECT_EQ(refused->status, 409);
  EXPECT_EQ(text_at(refused->json(), {"message"}),
            "Apply failed with 1 conflict: conflict with \"ours\": .data.a");
  ASSERT_EQ(apply("flux", maps + "/s", config_map("s", R"({"a":"9"})"), true)->status, 200);
  // What we no longer name goes, unless somebody else owns it.
  const Value released = apply("ours", maps + "/s",
                               R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"}})")
                             ->json();
  EXPECT_EQ(text::emit_json(*released.find("data")), R"({"a":"9"})");
  EXPECT_EQ(released.find({"metadata", "managedFields"})->size(), 1u);
}

TEST_F(KubeApi, AnApplyThatChangesNothingKeepsTheRevision) {
  const Value first = apply("ours", maps + "/s", config_map("s", R"({"a":"1"})"))->json();
  const Value again = apply("ours", maps + "/s", config_map("s", R"({"a":"1"})"))->json();
  EXPECT_EQ(text_at(first, {"metadata", "resourceVersion"}),
            text_at(again, {"metadata", "resourceVersion"}));
}

TEST_F(KubeApi, WatchSendsWhatChangesAndEndsInTime) {
  const std::string revision = text_at(send("GET", maps)->json(), {"metadata", "resourceVersion"});
  const auto watch = send("GET", maps + "?watch=1&timeoutSeconds=5&resourceVersion=" + revision +
                                     "&labelSelector=a%3Db");
  send("POST", maps, config_map("other", "{}"));
  send("POST", maps,
       R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"mine","labels":{"a":"b"}}})");
  send("PATCH", maps + "/mine", R"({"data":{"x":"y"}})", "application/merge-patch+json");
  send("PATCH", maps + "/mine", R"({"metadata":{"labels":null}})", "application/merge-patch+json");
  EXPECT_FALSE(watch->finished);
  world.run_for(6s);
  EXPECT_TRUE(watch->finished);
  EXPECT_THAT(watch->types(), ElementsAre("ADDED", "MODIFIED", "DELETED"));
}

TEST_F(KubeApi, AWatchFromBeforeARestartIsTooOld) {
  const std::string revision = text_at(send("GET", maps)->json(), {"metadata", "resourceVersion"});
  send("POST", maps, config_map("x", "{}"));
  api->restart();
  const auto watch = send("GET", maps + "?watch=1&resourceVersion=" + revision);
  EXPECT_TRUE(watch->finished);
  EXPECT_THAT(watch->body, HasSubstr("\"reason\":\"Expired\""));
}

TEST_F(KubeApi, OfTwoWhoRenewALeaseOneLoses) {
  const std::string leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
  const auto lease = [](const std::string& holder, const std::string& revision) {
    return fmt::format(
        R"({{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{{"name":"l","resourceVersion":"{}"}},"spec":{{"holderIdentity":"{}","leaseDurationSeconds":15}}}})",
        revision, holder);
  };
  const Value made = send("POST", leases, lease("one", ""))->json();
  const std::string revision = text_at(made, {"metadata", "resourceVersion"});
  EXPECT_EQ(send("PUT", leases + "/l", lease("two", revision))->status, 200);
  const auto late = send("PUT", leases + "/l", lease("three", revision));
  EXPECT_EQ(late->status, 409);
  EXPECT_THAT(late->body, HasSubstr("the object has been modified"));
  EXPECT_EQ(send("PUT", leases + "/l", lease("four", ""))->status, 422)
      << "a Lease is never overwritten blindly";
}

TEST_F(KubeApi, ANodeBecomesReadyWithItsNetworkAndUnknownWithoutItsKubelet) {
  bool network = false;
  api->set_network_ready([&](const std::string&) { return network; });
  api->join({"worker-1", "10.0.0.21"});
  const auto ready = [&] {
    const Object node = api->find("/nodes", "", "worker-1");
    for (const Value& one : node->find({"status", "conditions"})->items())
      if (text_at(one, {"type"}) == "Ready") return text_at(one, {"status"});
    return std::string{};
  };
  world.run_for(30s);
  EXPECT_EQ(ready(), "False");
  network = true;
  world.run_for(30s);
  EXPECT_EQ(ready(), "True");
  EXPECT_EQ(api->find("/nodes", "", "worker-1")->find({"spec", "taints"}), nullptr);
  api->leave("worker-1");
  world.run_for(40s);
  EXPECT_EQ(ready(), "True") << "the grace period is not over";
  world.run_for(20s);
  EXPECT_EQ(ready(), "Unknown");
}

TEST_F(KubeApi, WithoutQuorumReadsHangAndReadyzFails) {
  send("POST", maps, config_map("one", "{}"));
  quorum = false;
  EXPECT_EQ(send("GET", maps + "/one?resourceVersion=0")->status, 200);
  EXPECT_EQ(send("GET", "/readyz")->status, 500);
  const auto hangs = send("GET", maps + "/one");
  world.run_for(59s);
  EXPECT_FALSE(hangs->finished);
  world.run_for(2s);
  EXPECT_TRUE(hangs->was_cut);
}

TEST_F(KubeApi, RbacLetsInWhomABindingNames) {
  const User vera{"vera", {"system:authenticated"}};
  EXPECT_EQ(send("GET", maps, "", "", vera)->status, 403);
  send("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
       R"({"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"v"},
           "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},
           "subjects":[{"kind":"User","name":"vera"}]})");
  EXPECT_EQ(send("GET", maps, "", "", vera)->status, 200);
  EXPECT_EQ(send("GET", "/api/v1/namespaces/kube-system/configmaps", "", "", vera)->status, 403);
  EXPECT_EQ(send("DELETE", maps + "/x", "", "", vera)->status, 403);
}

TEST_F(KubeApi, ACustomKindIsServedOnlyAfterItIsEstablished) {
  const std::string crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  ASSERT_EQ(send("POST", crds, R"({"apiVersion":"apiextensions.k8s.io/v1",
      "kind":"CustomResourceDefinition","metadata":{"name":"things.lab.dev"},"spec":{"group":"lab.dev",
      "scope":"Namespaced","names":{"kind":"Thing","plural":"things"},"versions":[{"name":"v1",
      "served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":
      {"type":"object","required":["size"],"properties":{"size":{"type":"integer","minimum":1},
      "mode":{"type":"string","default":"fast"}}}}}}}]}})")
                ->status,
            201);
  const std::string things = "/apis/lab.dev/v1/namespaces/default/things";
  const auto thing = [](const std::string& spec) {
    return fmt::format(
        R"({{"apiVersion":"lab.dev/v1","kind":"Thing","metadata":{{"name":"t"}},"spec":{}}})",
        spec);
  };
  EXPECT_EQ(send("POST", things, thing(R"({"size":3})"))->status, 404);
  world.run_for(1s);
  const auto bad = send("POST", things, thing(R"({"size":0})"));
  EXPECT_EQ(bad->status, 422);
  EXPECT_THAT(bad->body, HasSubstr("should be greater than or equal to 1"));
  const auto good = send("POST", things, thing(R"({"size":3,"bogus":1})"));
  ASSERT_EQ(good->status, 201) << good->body;
  EXPECT_EQ(text::emit_json(*good->json().find("spec")), R"({"size":3,"mode":"fast"})");
  EXPECT_THAT(std::string(*good->headers.find("Warning")), HasSubstr("spec.bogus"));
}

}  // namespace
}  // namespace rocca::lab::kube
