#include "lab/sim/faults.hpp"

#include "base/error.hpp"
#include "lab/data_centre.hpp"
#include "lab/sim/wire.hpp"
#include "text/json.hpp"

#include <gmock/gmock.h>

namespace rocca::lab {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class FaultsTest : public testing::Test {
 protected:
  FaultsTest() : home(options()), wire(home.world) {}

  static Home::Options options() {
    Home::Options all;
    all.hosts = {"pve1", "pve2", "pve3"};
    all.release = pve::Release::v8_4();
    return all;
  }

  void arm(const std::string& yaml) { Faults::parse(yaml, "faults.yaml").arm(home.dc); }

  net::Answer send(const std::string& method, const std::string& path, const std::string& body = "",
                   const std::string& host = "pve1") {
    net::Request one;
    one.method = method;
    one.url = "https://" + host + ":8006/api2/json" + path;
    one.tls = net::Tls::authority(home.dc.authority.certificate_pem());
    one.authorization = Secret{"PVEAPIToken=" + home.root_token};
    if (method == "POST" || method == "PUT") {
      one.body = body;
      one.headers.add("Content-Type", "application/x-www-form-urlencoded");
    }
    return net::fetch(wire, one);
  }

  Fault fault_of(const std::string& method, const std::string& path, const std::string& body = "") {
    try {
      send(method, path, body);
    } catch (const Error& error) {
      return error.fault();
    }
    ADD_FAILURE() << "there was an answer";
    return Fault::Bug;
  }

  void put_image() {
    WebFile file;
    file.size = 1000;
    home.dc.web.put("http://images.home/x.iso", file);
  }

  Home home;
  Wire wire;
};

TEST_F(FaultsTest, AnAnswerIsLostAfterTheActWasDone) {
  arm("- {request: {method: POST, path: /pools}, lose: true}");
  EXPECT_EQ(fault_of("POST", "/pools", "poolid=blue"), Fault::Lost);
  EXPECT_TRUE(home.dc.access.pools.contains("blue")) << "it was done";
  EXPECT_THAT(send("POST", "/pools", "poolid=blue").head.reason, HasSubstr("already exists"))
      << "once only";
}

TEST_F(FaultsTest, AConnectionIsCutBeforeAnythingIsDone) {
  arm("- {request: {method: POST}, skip: 1, cut: true}");
  EXPECT_EQ(send("POST", "/pools", "poolid=one").head.status, 200);
  EXPECT_EQ(fault_of("POST", "/pools", "poolid=two"), Fault::Lost);
  EXPECT_FALSE(home.dc.access.pools.contains("two"));
}

TEST_F(FaultsTest, AStatusIsAnsweredInsteadOfTheHandler) {
  arm("- {request: {host: pve1, path: /version}, times: 2, answer: 596, reason: Broken pipe}");
  for (int i = 0; i < 2; ++i) {
    const net::Answer answer = send("GET", "/version");
    EXPECT_EQ(answer.head.status, 596);
    EXPECT_EQ(answer.head.reason, "Broken pipe");
  }
  EXPECT_EQ(send("GET", "/version").head.status, 200);
}

TEST_F(FaultsTest, ARequestIsLate) {
  arm("- {request: {path: /version}, delay: 20s}");
  const Instant start = home.world.now();
  EXPECT_EQ(send("GET", "/version").head.status, 200);
  EXPECT_GE(home.world.now() - start, 20s);
}

TEST_F(FaultsTest, ChanceIsTheSeeds) {
  const auto struck = [](std::uint64_t seed) {
    Home::Options all;
    all.seed = seed;
    Home other{all};
    Faults::parse("- {request: {path: /version}, times: 0, chance: 300, answer: 500}", "f")
        .arm(other.dc);
    Wire through{other.world};
    std::string pattern;
    for (int i = 0; i < 40; ++i) {
      net::Request one;
      one.url = "https://pve.home:8006/api2/json/version";
      one.tls = net::Tls::unverified();
      one.authorization = Secret{"PVEAPIToken=" + other.token};
      pattern += net::fetch(through, one).head.status == 200 ? '.' : '!';
    }
    return pattern;
  };
  EXPECT_EQ(struck(5), struck(5));
  EXPECT_NE(struck(5), struck(6));
  EXPECT_THAT(struck(5), HasSubstr("!"));
}

TEST_F(FaultsTest, ATaskFailsOrHangsUntilItIsStopped) {
  arm("- {task: {type: download}, fail: no luck today}\n- {task: {type: imgdel}, hang: true}\n");
  put_image();
  const std::string path = "/nodes/pve1/storage/local";
  const net::Answer started = send("POST", path + "/download-url",
                                   "content=iso&filename=x.iso&url=http://images.home/x.iso");
  ASSERT_EQ(started.head.status, 200) << started.head.reason;
  home.world.run_for(1min);
  pve::Node& node = *home.dc.find_node("pve1");
  EXPECT_EQ(node.tasks().back()->status, "no luck today");

  ASSERT_EQ(send("DELETE", path + "/content/local:iso/y.iso").head.status, 200);
  home.world.run_for(1h);
  EXPECT_TRUE(node.tasks().back()->running());
  ASSERT_EQ(send("DELETE", "/nodes/pve1/tasks/" + node.tasks().back()->text).head.status, 200);
  EXPECT_EQ(node.tasks().back()->status, "received interrupt");
}

TEST_F(FaultsTest, AHostGoesDownAndComesBack) {
  arm("- {at: 10s, down: pve2}\n- {at: 60s, up: pve2}\n");
  EXPECT_EQ(send("GET", "/nodes/pve2/version").head.status, 200);
  home.world.run_for(20s);
  const net::Answer answer = send("GET", "/nodes/pve2/version");
  EXPECT_EQ(answer.head.status, 595);
  EXPECT_EQ(answer.head.reason, "No route to host");
  EXPECT_TRUE(home.dc.quorate);
  EXPECT_THROW(send("GET", "/version", "", "pve2"), Error);
  home.world.run_for(1min);
  EXPECT_EQ(send("GET", "/nodes/pve2/version", "", "pve2").head.status, 200);
}

TEST_F(FaultsTest, HalfOfTheHostsIsNoQuorum) {
  arm("- {at: 1s, down: pve2}\n- {at: 1s, down: pve3}\n");
  home.world.run_for(5s);
  const net::Answer answer = send("POST", "/pools", "poolid=x");
  EXPECT_EQ(answer.head.status, 500);
  EXPECT_EQ(answer.head.reason, "cfs-lock 'file-user_cfg' error: no quorum!");
}

TEST_F(FaultsTest, AStorageIsFull) {
  arm("- {at: 1s, fill: local}");
  put_image();
  home.world.run_for(2s);
  send("POST", "/nodes/pve1/storage/local/download-url",
       "content=iso&filename=x.iso&url=http://images.home/x.iso");
  home.world.run_for(1min);
  EXPECT_THAT(home.dc.find_node("pve1")->tasks().back()->status,
              HasSubstr("No space left on device"));
}

TEST_F(FaultsTest, ABackupHoldsALock) {
  pve::Vm& vm = home.dc.vms[100];
  vm.id = 100;
  vm.node = "pve1";
  arm("- {at: 1s, lock: {vm: 100, as: backup}}\n- {at: 10s, unlock: 100}\n");
  home.world.run_for(2s);
  EXPECT_EQ(home.dc.vms.at(100).config.at("lock"), "backup");
  home.world.run_for(10s);
  EXPECT_FALSE(home.dc.vms.at(100).config.contains("lock"));
}

struct Wrong {
  const char* name;
  const char* yaml;
  const char* complaint;
};

class WrongFaults : public testing::TestWithParam<Wrong> {};

TEST_P(WrongFaults, AreRefusedWithTheirPlace) {
  try {
    Faults::parse(GetParam().yaml, "f.yaml");
    FAIL() << "it was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
    EXPECT_THAT(error.message(), HasSubstr(GetParam().complaint));
    EXPECT_THAT(error.message(), HasSubstr("f.yaml:"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongFaults,
    testing::Values(Wrong{"NotAList", "a: b", "list of faults"},
                    Wrong{"UnknownKind", "- {foo: 1}", "request, task, at or machine"},
                    Wrong{"NoAction", "- {request: {path: /x}}",
                          "delay, answer, cut, lose, truncate, strings or race"},
                    Wrong{"UnknownField", "- {request: {pth: /x}, cut: true}", "'pth'"},
                    Wrong{"BadDuration", "- {at: soon, down: pve1}", "duration"},
                    Wrong{"BadStatus", "- {request: {}, answer: 77}", "200 to 599"},
                    Wrong{"UnknownAct", "- {at: 1s, explode: pve1}", "'explode'"},
                    Wrong{"BodyWithoutAnswer", "- {request: {}, delay: 1s, body: x}", "an answer"},
                    Wrong{"BadRace", "- {request: {}, race: {who: x}}", "'who'"},
                    Wrong{"BadVm", "- {at: 1s, lock: {vm: all}}", "number of a VM"},
                    Wrong{"NoVm", "- {at: 1s, change: {by: a@pam}}", "`vm` is needed"},
                    Wrong{"LockHasNoPerson", "- {at: 1s, lock: {vm: 1, by: a@pam}}", "'by'"},
                    Wrong{"BadQuorum", "- {at: 1s, quorum: maybe}", "true or false"},
                    Wrong{"BadSet", "- {at: 1s, change: {vm: 1, set: 5}}", "a map"},
                    Wrong{"BadTrouble", "- {machine: {vm: 1}, trouble: gremlins}",
                          "'gremlins' is not one of boot-loop"},
                    Wrong{"NoTrouble", "- {machine: {vm: 1}}", "trouble is needed"},
                    Wrong{"BadMachine", "- {machine: {name: x}, trouble: halt}", "vm, host"},
                    Wrong{"MachineIsNoMap", "- {machine: 100, trouble: halt}", "a map"},
                    Wrong{"BadLease", "- {at: 1s, lease: mine}", "number of a VM"},
                    Wrong{"BadForeign", "- {at: 1s, foreign: printer}", "an address"},
                    Wrong{"BadLateness", "- {at: 1s, webhooks: late}", "0s-120s"},
                    Wrong{"LatenessBackwards", "- {at: 1s, webhooks: 9s-1s}", "0s-120s"},
                    Wrong{"TaskWithoutEnd", "- {task: {type: x}}", "fail or hang"}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace rocca::lab
