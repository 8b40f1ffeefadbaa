#include "kube/watch.hpp"

#include "kube/discovery.hpp"
#include "kube/object.hpp"
#include "kube/scripted_transport.hpp"

#include <gmock/gmock.h>

namespace rocca::kube {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

class WatchTest : public testing::Test {
 protected:
  WatchTest() { access.server = "https://10.0.0.20:6443"; }

  ScriptedTransport transport{[this](const net::Request&) {
    net::Answer next = answers.at(0);
    answers.erase(answers.begin());
    return next;
  }};
  MemoryFiles files;
  Access access;
  std::vector<net::Answer> answers;
};

constexpr const char* list_of_one =
    R"({"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a","resourceVersion":"5"}}]})";

TEST_F(WatchTest, GoesOnFromTheLastEventBookmarksIncluded) {
  Client client{transport, files, access};
  Watch watch{client, "/api/v1/pods", {{"labelSelector", "a=b"}}};
  answers = {answer(200, list_of_one),
             answer(200,
                    "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"a\","
                    "\"resourceVersion\":\"8\"}}}\n{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":"
                    "{\"resourceVersion\":\"12\"}}}\n"),
             answer(200, "")};
  EXPECT_EQ(watch.list().size(), 1u);
  std::vector<std::string> seen;
  const auto on = [&](const WatchEvent& event) {
    if (event.type != WatchEvent::Type::Bookmark)
      seen.push_back(text_at(event.object, {"metadata", "name"}));
    return true;
  };
  EXPECT_EQ(watch.follow(on, 30s), Watch::End::Closed);
  EXPECT_THAT(seen, ElementsAre("a"));
  EXPECT_EQ(watch.resource_version(), "12");
  EXPECT_EQ(watch.follow(on, 30s), Watch::End::Closed);
  EXPECT_THAT(transport.requests.back().url,
              HasSubstr("labelSelector=a%3Db&watch=1&resourceVersion=12&allowWatchBookmarks=true&"
                        "timeoutSeconds=30"));
  // It has no end of its own.
  EXPECT_EQ(transport.requests.back().timeout, std::nullopt);
}

TEST_F(WatchTest, ListsAgainWhenItIsTooOldAndEndsWhenItIsEnough) {
  Client client{transport, files, access};
  Watch watch{client, "/api/v1/pods"};
  const auto on = [](const WatchEvent&) { return false; };
  EXPECT_EQ(watch.follow(on, 1s), Watch::End::TooOld);  // nothing was listed yet
  answers = {answer(200, list_of_one),
             answer(200,
                    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"status\":"
                    "\"Failure\",\"reason\":\"Expired\",\"message\":\"too old\",\"code\":410}}\n"),
             answer(200,
                    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"status\":"
                    "\"Failure\",\"reason\":\"InternalError\",\"message\":\"x\",\"code\":500}}\n"),
             answer(200, "{\"type\":\"ADDED\",\"object\":{}}\n")};
  watch.list();
  EXPECT_EQ(watch.follow(on, 1s), Watch::End::TooOld);
  EXPECT_EQ(watch.follow(on, 1s), Watch::End::Trouble);
  EXPECT_EQ(watch.follow(on, 1s), Watch::End::Enough);
}

TEST(WatchLinesTest, PutLinesTogetherFromPieces) {
  WatchLines lines;
  EXPECT_TRUE(lines.take("{\"type\":\"ADDED\",\"obj").empty());
  EXPECT_EQ(lines.take("ect\":{}}\n{\"type\":\"DELETED\",\"object\":{}}\n{").size(), 2u);
  EXPECT_FALSE(lines.failure());
}

TEST_F(WatchTest, DiscoveryKnowsStableKindsAndAsksAgainForOthers) {
  Client client{transport, files, access};
  Discovery discovery{client};
  EXPECT_EQ(discovery.find_path({"apps/v1", "Deployment", "", "web"}),
            "/apis/apps/v1/namespaces/default/deployments/web");
  EXPECT_EQ(discovery.find_path({"v1", "Namespace", "wrong", "a"}), "/api/v1/namespaces/a");
  EXPECT_TRUE(transport.requests.empty());
  const std::string list =
      R"({"groupVersion":"a.io/v1","resources":[{"name":"foos","kind":"Foo","namespaced":true,"verbs":["list"]},{"name":"foos/status","kind":"Foo","namespaced":true}]})";
  answers = {answer(404, "404 page not found"), answer(200, list)};
  EXPECT_EQ(discovery.find("a.io/v1", "Foo"), std::nullopt);  // not yet
  const auto foo = discovery.find("a.io/v1", "Foo");          // its CRD has come
  ASSERT_TRUE(foo);
  EXPECT_EQ(foo->plural, "foos");
  EXPECT_TRUE(discovery.find("a.io/v1", "Foo"));  // known by now
  EXPECT_EQ(transport.requests.size(), 2u);
  answers = {answer(200, list)};
  EXPECT_EQ(discovery.find("a.io/v1", "Bar"), std::nullopt);  // asked once more, in vain
  EXPECT_TRUE(answers.empty());
}

}  // namespace
}  // namespace rocca::kube
