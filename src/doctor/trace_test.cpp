#include "doctor/trace.hpp"

#include "base/error.hpp"
#include "proxmox/client.hpp"
#include "proxmox/scripted_transport.hpp"
#include "support/administrator.hpp"

#include <gmock/gmock.h>

namespace rocca::doctor {
namespace {

using proxmox::json_answer;
using proxmox::ScriptedTransport;
using testing::HasSubstr;
using testing::Not;

proxmox::Access access() {
  return {{"https://secret-host.home:8006"},
          Secret("alice@pve!cli=0000-canary"),
          net::Tls::unverified()};
}

TEST(Trace, HoldsTheExchangeAndNobodysSecrets) {
  ScriptedTransport server{[](const net::Request&) {
    return json_answer(
        200, "OK", R"({"data":"UPID:pve1:00001ED0:00035693:66343A23:qmstart:100:alice@pve!cli:"})");
  }};
  VirtualClock clock;
  std::string trace;
  Tracing tracing{server, clock, "alice@pve!cli", [&](std::string_view line) { trace += line; }};
  test::Administrator client{tracing, access()};
  client.start_vm("pve1", 100);
  EXPECT_THAT(trace, HasSubstr("/nodes/pve1/qemu/100/status/start"));
  for (const char* private_word : {"canary", "alice", "secret-host"})
    EXPECT_THAT(trace, Not(HasSubstr(private_word)));
}

TEST(Trace, BytesThatAreNoTextDoNotHideTheAnswer) {
  ScriptedTransport server{
      [](const net::Request&) { return json_answer(400, "bad \xff\x1b[2J", R"({"data":null})"); }};
  VirtualClock clock;
  std::string trace;
  Tracing tracing{server, clock, "alice@pve!cli", [&](std::string_view line) { trace += line; }};
  net::Request request;
  request.url = "https://pve.home:8006/api2/json/version";
  EXPECT_EQ(net::fetch(tracing, request).head.status, 400);
  EXPECT_THAT(trace, HasSubstr("bad \uFFFD\\u001b[2J"));
}

TEST(Trace, ReplaysToTheSameEnd) {
  ScriptedTransport server{[](const net::Request& request) {
    if (request.url.ends_with("/version"))
      return json_answer(200, "OK", R"({"data":{"version":"9.1.4"}})");
    return json_answer(500, "VM 100 not running",
                       R"({"data":null,"message":"VM 100 not running\n"})");
  }};
  VirtualClock clock;
  std::string trace;
  Tracing tracing{server, clock, "alice@pve!cli", [&](std::string_view line) { trace += line; }};
  const auto life = [](net::Transport& transport) {
    test::Administrator client{transport, access()};
    client.version();
    try {
      client.start_reset("pve1", 100);
    } catch (const Error& error) {
      return error.render();
    }
    return std::string("no error");
  };
  const std::string recorded = life(tracing);
  Replaying replaying{trace};
  EXPECT_EQ(life(replaying), recorded);
  EXPECT_EQ(replaying.left(), 0u);
}

TEST(Trace, ARequestOutOfOrderIsNamed) {
  Replaying replaying{
      R"({"method":"GET","path":"/version","status":200,"reason":"OK","type":"application/json","body":"{}"})"};
  test::Administrator client{replaying, access()};
  try {
    client.nodes();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("goes on with GET /version, not with GET /nodes"));
  }
}

}  // namespace
}  // namespace rocca::doctor
