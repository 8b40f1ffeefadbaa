// Contention: three workers a daemon, thirty seconds of patience, locks that are waited for.

#include "base/error.hpp"
#include "lab/data_centre.hpp"
#include "lab/pve/http.hpp"

#include <gmock/gmock.h>

namespace rocca::lab::pve {
namespace {

using namespace std::chrono_literals;

/// Keeps the answer of one request, and when it came.
class Catcher final : public net::Responder {
 public:
  explicit Catcher(World& world) : world_(world) {}
  void answer(int code, std::string text, net::Headers, std::string, net::Headers) override {
    status = code;
    reason = std::move(text);
    when = world_.now();
  }
  void begin(int, std::string, net::Headers) override {}
  void write(std::string) override {}
  void finish(net::Headers) override {}
  void cut() override { was_cut = true; }
  void tunnel(std::string, unsigned) override {}
  bool gone() const override { return false; }
  void on_gone(std::function<void()>) override {}

  int status = 0;
  std::string reason;
  Instant when{};
  bool was_cut = false;

 private:
  World& world_;
};

class DaemonTest : public testing::Test {
 protected:
  std::shared_ptr<Catcher> send(const std::string& method, const std::string& path,
                                const std::string& body = "") {
    net::Incoming in;
    in.method = method;
    in.target = "/api2/json" + path;
    in.tls = true;
    in.headers.add("Authorization", "PVEAPIToken=" + home.root_token);
    in.body = body;
    auto catcher = std::make_shared<Catcher>(home.world);
    serve(home.dc, *home.dc.find_node("pve1"), in, catcher);
    return catcher;
  }

  Home home{Home::Options{}};
};

TEST_F(DaemonTest, ALockThatIsHeldIsWaitedForTenSeconds) {
  const auto held = home.dc.cfs.try_take("file-user_cfg");
  ASSERT_TRUE(held);
  const Instant start = home.world.now();
  const auto answer = send("POST", "/pools", "poolid=a");
  home.world.run_for(1min);
  EXPECT_EQ(answer->status, 500);
  EXPECT_EQ(answer->reason, "cfs-lock 'file-user_cfg' error: got lock request timeout");
  EXPECT_GE(answer->when - start, 10s);
  EXPECT_LT(answer->when - start, 11s);
}

TEST_F(DaemonTest, AWaiterGetsTheLockWhenItIsFreed) {
  auto held = home.dc.cfs.try_take("file-user_cfg");
  const auto answer = send("POST", "/pools", "poolid=a");
  home.world.after(4s, [&] { held.reset(); });
  home.world.run_for(1min);
  EXPECT_EQ(answer->status, 200);
  EXPECT_TRUE(home.dc.access.pools.contains("a"));
}

TEST_F(DaemonTest, ThreeWaitingCallsStallTheHost) {
  const auto held = home.dc.cfs.try_take("file-user_cfg");
  const Instant start = home.world.now();
  for (const char* pool : {"a", "b", "c"}) send("POST", "/pools", std::string("poolid=") + pool);
  const auto innocent = send("GET", "/cluster/status");
  home.world.run_for(1min);
  EXPECT_EQ(innocent->status, 200);
  EXPECT_GE(innocent->when - start, 10s) << "all three workers of pvedaemon waited for the lock";
  const Instant later = home.world.now();
  const auto light = send("GET", "/version");
  home.world.run_for(1s);
  EXPECT_LT(light->when - later, 100ms) << "unprotected calls do not need pvedaemon";
}

TEST_F(DaemonTest, AfterThirtySecondsTheProxyGivesUpWhileTheWorkGoesOn) {
  const auto held = home.dc.cfs.try_take("file-user_cfg");
  std::vector<std::shared_ptr<Catcher>> answers;
  for (int i = 0; i < 12; ++i)
    answers.push_back(send("POST", "/pools", "poolid=p" + std::to_string(i)));
  home.world.run_for(29s);
  EXPECT_EQ(answers.back()->status, 0);
  home.world.run_for(2s);
  EXPECT_EQ(answers.back()->status, 596);
  EXPECT_EQ(answers.back()->reason, "Connection timed out");
}

TEST_F(DaemonTest, AHostThatLosesPowerTakesItsTasksAlong) {
  WebFile slow;
  slow.size = 1'000'000;
  slow.bytes_per_second = 1000;
  home.dc.web.put("http://images.home/slow.iso", slow);
  send("POST", "/nodes/pve1/storage/local/download-url",
       "content=iso&filename=s.iso&url=http://images.home/slow.iso");
  home.world.run_for(10s);
  Node& node = *home.dc.find_node("pve1");
  ASSERT_TRUE(node.tasks().back()->running());
  home.dc.set_online("pve1", false);
  home.world.run_for(1h);
  EXPECT_EQ(node.tasks().back()->status, "unexpected status");
  EXPECT_EQ(home.dc.find_volume("local:iso/s.iso", node), nullptr);
}

TEST(Upids, AreReadStrictlyAndPrintedBack) {
  const std::string text = "UPID:pve1:00001ED0:00035693:66343A23:qmshutdown:100:tf@pve!x:";
  const auto upid = Upid::parse(text);
  ASSERT_TRUE(upid);
  EXPECT_EQ(to_string(*upid), text);
  EXPECT_EQ(upid->user, "tf@pve!x");
  for (const char* wrong :
       {"", "UPID", "UPID:pve1:00001ED0:00035693:66343A23:qmshutdown:100:tf@pve!x",
        "UPID:pve1:1ED0:00035693:66343A23:qmshutdown:100:tf@pve:", "foo"})
    EXPECT_FALSE(Upid::parse(wrong)) << wrong;
}

}  // namespace
}  // namespace rocca::lab::pve
