#include "kube/client.hpp"

#include "base/error.hpp"
#include "kube/node.hpp"
#include "kube/scripted_transport.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::kube {

namespace {

using testing::ElementsAre;

std::string status_body(int code, std::string_view reason) {
  return fmt::format(R"({{"kind":"Status","apiVersion":"v1","status":"Failure","message":"m",)"
                     R"("reason":"{}","code":{}}})",
                     reason, code);
}

Access access() {
  Access access;
  access.server = "https://10.0.0.20:6443";
  return access;
}

class KubeClient : public testing::Test {
 protected:
  Client client(Access with = access()) { return {transport, files, std::move(with)}; }
  const net::Request& sent(std::size_t index = 0) { return transport.requests.at(index); }
  std::string body(std::size_t index = 0) {
    const auto* text = std::get_if<std::string>(&sent(index).body);
    return text != nullptr ? *text : "(none)";
  }

  net::Answer next = answer(200, "{}");
  ScriptedTransport transport{[this](const net::Request&) { return next; }};
  MemoryFiles files;
};

TEST_F(KubeClient, KnowsThePaths) {
  EXPECT_EQ(path_of(nodes, "", "cp-1"), "/api/v1/nodes/cp-1");
  EXPECT_EQ(path_of(secrets, "rocca", ""), "/api/v1/namespaces/rocca/secrets");
  EXPECT_EQ(path_of(leases, "rocca", "blue"),
            "/apis/coordination.k8s.io/v1/namespaces/rocca/leases/blue");
}

TEST_F(KubeClient, AbsenceIsAnAnswerButAnUnknownPathIsNot) {
  next = answer(404, status_body(404, "NotFound"));
  EXPECT_EQ(client().find("/api/v1/nodes/x"), std::nullopt);
  EXPECT_THROW(client().get("/api/v1/nodes/x"), Error);
  EXPECT_FALSE(client().remove("/api/v1/nodes/x"));
  EXPECT_EQ(client().update("/api/v1/nodes/x", Value::map()), std::nullopt);
  next = answer(404, "404 page not found\n");
  EXPECT_THROW(client().find("/apis/x/v1/y/z"), Error);
  EXPECT_THROW(client().remove("/apis/x/v1/y/z"), Error);
}

TEST_F(KubeClient, AnAnswerThatIsNotJsonIsTheServersFault) {
  next = answer(200, "<html>Log in to the hotel's network</html>");
  const auto fault_of = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.fault();
    }
    return Fault::Bug;
  };
  EXPECT_EQ(fault_of([&] { client().find("/api/v1/nodes/x"); }), Fault::Rejected);
  EXPECT_EQ(fault_of([&] { client().list("/api/v1/nodes"); }), Fault::Rejected);
}

TEST_F(KubeClient, BranchesAreReturned) {
  next = answer(409, status_body(409, "AlreadyExists"));
  EXPECT_EQ(client().create("/api/v1/namespaces/a/secrets", Value::map()), std::nullopt);
  next = answer(409, status_body(409, "Conflict"));
  EXPECT_THROW(client().create("/api/v1/namespaces/a/secrets", Value::map()), Error);
  EXPECT_EQ(client().update("/x", Value::map()), std::nullopt);
  EXPECT_EQ(client().patch("/x", Patch::Merge, Value::map()), std::nullopt);
  EXPECT_FALSE(client().remove("/x", {.uid = "u", .resource_version = ""}));
  const auto applied = client().apply("/x", Value::map(), false);
  ASSERT_TRUE(std::holds_alternative<Failure>(applied));
  EXPECT_EQ(std::get<Failure>(applied).reason, Reason::Conflict);
}

TEST_F(KubeClient, AppliesAsItsManager) {
  client().apply("/api/v1/nodes/x", Value::map(), true);
  EXPECT_EQ(sent().method, "PATCH");
  EXPECT_EQ(sent().url, "https://10.0.0.20:6443/api/v1/nodes/x?fieldManager=rocca&force=true");
  EXPECT_EQ(sent().headers.find("Content-Type"), "application/apply-patch+yaml");
}

TEST_F(KubeClient, CordonsAndRemovesNodes) {
  Client kube = client();
  EXPECT_TRUE(cordon(kube, "w-1"));
  EXPECT_EQ(body(0), R"({"spec":{"unschedulable":true}})");
  EXPECT_EQ(sent(0).headers.find("Content-Type"), "application/merge-patch+json");
  EXPECT_TRUE(cordon(kube, "w-1", false));
  EXPECT_EQ(body(1), R"({"spec":{"unschedulable":null}})");
  EXPECT_TRUE(remove_node(kube, "w-1"));
  EXPECT_EQ(sent(2).method, "DELETE");
  EXPECT_EQ(body(2), "(none)");
  EXPECT_TRUE(remove_node(kube, "w-1", "uid-1"));
  EXPECT_EQ(body(3),
            R"({"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"uid-1"}})");
  next = answer(404, status_body(404, "NotFound"));
  EXPECT_FALSE(cordon(kube, "w-1"));
  EXPECT_FALSE(remove_node(kube, "w-1"));
}

TEST_F(KubeClient, SaysWhoItIs) {
  Access with = access();
  files.make_folder("t");
  files.write("t/token", "first\n");
  with.token_file = "t/token";
  with.impersonate = "vera";
  with.impersonate_groups = {"a", "b"};
  Client asking = client(with);
  asking.get("/version");
  files.write("t/token", "second\n");
  asking.get("/version");
  EXPECT_EQ(sent(0).authorization->reveal(), "Bearer first");
  EXPECT_EQ(sent(1).authorization->reveal(), "Bearer second");
  EXPECT_EQ(sent(0).headers.find("Impersonate-User"), "vera");
  EXPECT_THAT(sent(0).headers.all("Impersonate-Group"), ElementsAre("a", "b"));
}

TEST_F(KubeClient, ListsPageByPageAndBeginsAgainWhenTheyAreTooOld) {
  int asked = 0;
  ScriptedTransport pages{[&](const net::Request& request) {
    const bool second = request.url.find("continue=t%3D1") != std::string::npos;
    ++asked;
    if (second && asked == 2) return answer(410, status_body(410, "Expired"));
    return second ? answer(200, R"({"metadata":{},"items":[{"n":2}]})")
                  : answer(200, R"({"metadata":{"continue":"t=1"},"items":[{"n":1}]})");
  }};
  Client asking{pages, files, access()};
  const auto items = asking.list("/api/v1/nodes", {{"labelSelector", "a=b"}});
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[1].find("n")->as_int(), 2);
  EXPECT_EQ(asked, 4);
  EXPECT_EQ(pages.requests[0].url,
            "https://10.0.0.20:6443/api/v1/nodes?labelSelector=a%3Db&limit=500");
}

TEST_F(KubeClient, APutThatBreaksInTheMiddleIsLost) {
  next = answer(504, status_body(504, "Timeout"));
  try {
    client().update("/x", Value::map());
    ADD_FAILURE() << "no error came";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Lost);
  }
}

}  // namespace

}  // namespace rocca::kube
