#include "proxmox/client.hpp"

#include "proxmox/scripted_transport.hpp"
#include "support/administrator.hpp"

#include <gmock/gmock.h>

namespace rocca::proxmox {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Access access(std::vector<std::string> endpoints = {"https://pve.home:8006"}) {
  return {std::move(endpoints), Secret("root@pam!rocca=11111111-2222-3333-4444-555555555555"),
          net::Tls::unverified()};
}

/// Calls `body` with a client that gets this answer, and gives the Error that comes of it.
template <class Body>
Error error_of(net::Answer answer, Body body) {
  ScriptedTransport transport{[&](const net::Request&) { return answer; }};
  test::Administrator client{transport, access()};
  try {
    body(client);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {Fault::Bug, "none"};
}

TEST(Client, SendsTheTokenAndNothingElse) {
  ScriptedTransport transport{[](const net::Request&) {
    return json_answer(200, "OK", R"({"data":{"version":"9.1.4","release":"9.1","repoid":"x"}})");
  }};
  test::Administrator client{transport, access()};
  EXPECT_EQ(client.version().version, (Version{9, 1, 4}));
  ASSERT_EQ(transport.requests.size(), 1u);
  EXPECT_EQ(transport.requests[0].url, "https://pve.home:8006/api2/json/version");
  EXPECT_EQ(transport.requests[0].authorization->reveal(),
            "PVEAPIToken=root@pam!rocca=11111111-2222-3333-4444-555555555555");
  EXPECT_EQ(transport.requests[0].version, net::HttpVersion::Http1);
}

TEST(Client, PutsDeleteParametersIntoTheQuery) {
  ScriptedTransport transport{[](const net::Request&) {
    return json_answer(
        200, "OK", R"({"data":"UPID:pve1:00001ED0:00035693:66343A23:qmdestroy:100:root@pam:"})");
  }};
  test::Administrator client{transport, access()};
  client.start_destroy("pve1", 100, true);
  EXPECT_EQ(transport.requests[0].url,
            "https://pve.home:8006/api2/json/nodes/pve1/qemu/100?purge=1");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(transport.requests[0].body));
}

TEST(Client, AsksTheNextEndpointOnlyWhenNothingWasSent) {
  int calls = 0;
  ScriptedTransport transport{[&](const net::Request& request) -> net::Answer {
    ++calls;
    if (request.url.starts_with("https://a")) throw Error(Fault::Unreachable, "connection refused");
    return json_answer(200, "OK", R"({"data":[]})");
  }};
  test::Administrator client{transport, access({"https://a:8006", "https://b:8006"})};
  EXPECT_TRUE(client.nodes().empty());
  EXPECT_EQ(calls, 2);
  client.nodes();  // stays with the one that answered
  EXPECT_EQ(calls, 3);
}

TEST(Client, BeginsWithTheEndpointThatAnsweredItsSiblings) {
  std::vector<std::string> asked;
  bool moved = false;
  ScriptedTransport transport{[&](const net::Request& request) -> net::Answer {
    asked.push_back(request.url.substr(8, 1));
    if ((asked.back() == "a") != moved) throw Error(Fault::Unreachable, "connection refused");
    return json_answer(200, "OK", R"({"data":[]})");
  }};
  const Access shared = access({"https://a:8006", "https://b:8006"});
  Client{transport, shared}.nodes();
  Client{transport, shared}.nodes();
  EXPECT_THAT(asked, testing::ElementsAre("a", "b", "b"));
  // The dead one is alive again, and the other one went: it is found again.
  moved = true;
  Client{transport, shared}.nodes();
  Client{transport, shared}.nodes();
  EXPECT_THAT(asked, testing::ElementsAre("a", "b", "b", "b", "a", "a"));
}

TEST(Client, ReadsWhatIsInForceAndWhatIsPendingInOneAnswer) {
  ScriptedTransport transport{[](const net::Request& request) {
    EXPECT_TRUE(request.url.ends_with("/qemu/100/pending")) << request.url;
    return json_answer(200, "OK", R"({"data":[{"key":"cores","value":2,"pending":4},
      {"key":"cpu","value":"host","delete":1},{"key":"digest","value":"abc"},
      {"key":"numa","pending":1},{"key":"name","value":"a"}]})");
  }};
  test::Administrator client{transport, access()};
  const auto config = client.find_whole_config("pve1", 100);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->digest, "abc");
  EXPECT_EQ(config->options,
            (std::map<std::string, std::string>{{"cores", "2"}, {"cpu", "host"}, {"name", "a"}}));
  EXPECT_EQ(config->pending, (std::map<std::string, std::optional<std::string>>{
                                 {"cores", "4"}, {"cpu", std::nullopt}, {"numa", "1"}}));
}

TEST(Client, DoesNotAskAnotherEndpointWhenTheAnswerWasLost) {
  int calls = 0;
  ScriptedTransport transport{[&](const net::Request&) -> net::Answer {
    ++calls;
    throw Error(Fault::Lost, "connection reset");
  }};
  test::Administrator client{transport, access({"https://a:8006", "https://b:8006"})};
  EXPECT_THROW(client.start_vm("pve1", 100), Error);
  EXPECT_EQ(calls, 1);
}

TEST(Client, AbsenceIsAnAnswer) {
  ScriptedTransport transport{[](const net::Request&) {
    return json_answer(
        500, "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist",
        R"({"data":null,"message":"Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist\n"})");
  }};
  test::Administrator client{transport, access()};
  EXPECT_EQ(client.find_config("pve1", 100), std::nullopt);
  EXPECT_FALSE(client.find_status("pve1", 100));
}

TEST(Client, ATakenVmidIsAnAnswer) {
  for (const char* text : {"unable to create VM 100 - VM 100 already exists on node 'pve2'",
                           "unable to create VM 100 - can't lock file "
                           "'/var/lock/qemu-server/lock-100.conf' - got timeout"}) {
    ScriptedTransport transport{
        [&](const net::Request&) { return json_answer(500, text, R"({"data":null})"); }};
    Client client{transport, access()};
    VmCreate create;
    create.vmid = 100;
    EXPECT_TRUE(std::holds_alternative<VmidTaken>(client.start_create("pve1", create))) << text;
  }
}

TEST(Client, ReadsNumbersHoweverPerlWritesThem) {
  ScriptedTransport transport{[](const net::Request&) {
    return json_answer(
        200, "OK",
        R"({"data":[{"vmid":"100","node":"a","template":"1","status":"running"},{"vmid":101,"node":"a","template":0}]})");
  }};
  test::Administrator client{transport, access()};
  const auto vms = client.vms();
  ASSERT_EQ(vms.size(), 2u);
  EXPECT_EQ(vms[0].vmid, 100u);
  EXPECT_TRUE(vms[0].is_template);
  EXPECT_FALSE(vms[1].is_template);
}

TEST(Client, PrefersTheWholeMessageOverTheReasonPhrase) {
  const Error error = error_of(
      json_answer(500, "first line", R"({"data":null,"message":"first line\nsecond line\n"})"),
      [](Client& client) { client.nodes(); });
  EXPECT_THAT(error.message(), HasSubstr("second line"));
}

TEST(Client, TellsAWrongTokenFromAMissingRight) {
  net::Answer refused;
  refused.head.status = 401;
  refused.head.reason = "Authentication failed!";
  Error error = error_of(refused, [](Client& client) { client.version(); });
  EXPECT_EQ(error.fault(), Fault::Denied);
  EXPECT_THAT(error.hint(), HasSubstr("user@realm!tokenid=secret"));
  EXPECT_THAT(error.render(), Not(HasSubstr("11111111")));
  error = error_of(
      json_answer(403, "Permission check failed (/vms/100, VM.PowerMgmt)", R"({"data":null})"),
      [](Client& client) { client.start_vm(test::owned("pve1", 100)); });
  EXPECT_EQ(error.fault(), Fault::Denied);
  EXPECT_THAT(error.hint(), HasSubstr("VM.PowerMgmt on /vms/100"));
}

TEST(Client, RecognisesWhatIsNotProxmox) {
  net::Answer page;
  page.head.status = 200;
  page.head.reason = "OK";
  page.head.headers.add("Content-Type", "text/html");
  page.body = "<html>router</html>";
  EXPECT_THAT(error_of(page, [](Client& c) { c.version(); }).hint(), HasSubstr("web page"));
  page.head.status = 502;
  EXPECT_THAT(error_of(page, [](Client& c) { c.version(); }).message(), HasSubstr("error page"));
  EXPECT_THAT(error_of(json_answer(200, "OK", R"({"data":[{"vmid":1)"), [](Client& c) { c.vms(); })
                  .message(),
              HasSubstr("cut short"));
  EXPECT_THAT(
      error_of(json_answer(200, "OK", R"({"hello":1})"), [](Client& c) { c.vms(); }).message(),
      HasSubstr("no `data`"));
  net::Answer moved;
  moved.head.status = 301;
  EXPECT_THAT(error_of(moved, [](Client& c) { c.vms(); }).message(), HasSubstr("elsewhere"));
}

TEST(Client, RefusesEndpointsThatAreNone) {
  ScriptedTransport transport{[](const net::Request&) { return net::Answer{}; }};
  for (const char* endpoint :
       {"pve.home", "http://pve.home:8006", "https://pve.home:8006/api2/json", ""})
    EXPECT_THROW((Client{transport, access({endpoint})}), Error) << endpoint;
  EXPECT_NO_THROW((Client{transport, access({"https://pve.home:8006/"})}));
  EXPECT_THROW((Client{transport, access({})}), Error);
}

TEST(Client, ASilentAgentIsAnAnswerAndAMissingRightIsNot) {
  ScriptedTransport silent{[](const net::Request&) {
    return json_answer(500, "QEMU guest agent is not running", R"({"data":null})");
  }};
  Client client{silent, access()};
  EXPECT_EQ(client.find_agent_interfaces("pve1", 100), std::nullopt);
  ScriptedTransport denied{[](const net::Request&) {
    return json_answer(403, "Permission check failed (/vms/100, VM.GuestAgent.Audit)",
                       R"({"data":null})");
  }};
  Client without{denied, access()};
  EXPECT_THROW(without.find_agent_interfaces("pve1", 100), Error);
}

TEST(Client, KnowsTheServersClock) {
  ScriptedTransport transport{[](const net::Request&) {
    net::Answer answer = json_answer(200, "OK", R"({"data":[]})");
    answer.head.headers.add("Date", "Mon, 16 Nov 2026 00:12:11 GMT");
    return answer;
  }};
  test::Administrator client{transport, access()};
  client.nodes();
  EXPECT_EQ(client.server_time(), parse_instant("2026-11-16T00:12:11Z"));
}

}  // namespace
}  // namespace rocca::proxmox
