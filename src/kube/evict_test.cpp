#include "kube/evict.hpp"

#include "base/error.hpp"
#include "kube/scripted_transport.hpp"
#include "text/json.hpp"

#include <gmock/gmock.h>

namespace rocca::kube {
namespace {

using namespace std::chrono_literals;

TEST(Evict, TellsABudgetFromAMistake) {
  const auto blocked = read_eviction(
      answer(
          429,
          R"({"kind":"Status","status":"Failure","reason":"TooManyRequests","message":"Cannot evict pod",)"
          R"("details":{"causes":[{"reason":"DisruptionBudget","message":"The disruption budget web needs 2 healthy pods and has 2 currently"}],"retryAfterSeconds":10},"code":429})"),
      "a/b");
  EXPECT_EQ(blocked.answer, Eviction::Answer::Later);
  EXPECT_EQ(blocked.why, "The disruption budget web needs 2 healthy pods and has 2 currently");
  EXPECT_EQ(blocked.after, Duration{10s});
  const auto gone = read_eviction(
      answer(
          404,
          R"({"kind":"Status","status":"Failure","reason":"NotFound","message":"x","code":404})"),
      "a/b");
  EXPECT_EQ(gone.answer, Eviction::Answer::Gone);
  EXPECT_THROW(
      read_eviction(
          answer(
              500,
              R"({"kind":"Status","status":"Failure","message":"This pod has more than one PodDisruptionBudget","code":500})"),
          "a/b"),
      Error);
}

TEST(Evict, AsksForThisVeryPodOnly) {
  ScriptedTransport transport{[](const net::Request&) { return answer(201, "{}"); }};
  MemoryFiles files;
  Access access;
  access.server = "https://10.0.0.20:6443";
  Client client{transport, files, access};
  EXPECT_EQ(evict(client, "shop", "web-1", "uid-1").answer, Eviction::Answer::Accepted);
  const net::Request& sent = transport.requests.at(0);
  EXPECT_EQ(sent.url, "https://10.0.0.20:6443/api/v1/namespaces/shop/pods/web-1/eviction");
  const Value body = text::parse_json(std::get<std::string>(sent.body), "sent");
  EXPECT_EQ(body.find({"deleteOptions", "preconditions", "uid"})->text(), "uid-1");
}

TEST(Evict, LeavesMirrorsAndDaemonsAlone) {
  const Value pods = text::parse_json(R"([
    {"metadata":{"name":"static","annotations":{"kubernetes.io/config.mirror":"x"}}},
    {"metadata":{"name":"agent","ownerReferences":[{"kind":"DaemonSet","controller":true}]}},
    {"metadata":{"name":"web","namespace":"shop","uid":"u","ownerReferences":[{"kind":"ReplicaSet","controller":true}]},
     "spec":{"volumes":[{"name":"t","emptyDir":{}}]}},
    {"metadata":{"name":"lonely","namespace":"shop"}}])",
                                      "pods");
  const auto all = leaving(pods.items());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "web");
  EXPECT_TRUE(all[0].local_data);
  EXPECT_FALSE(all[0].unmanaged);
  EXPECT_TRUE(all[1].unmanaged);
}

}  // namespace
}  // namespace rocca::kube
