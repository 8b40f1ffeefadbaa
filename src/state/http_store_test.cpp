#include "state/http_store.hpp"

#include "base/error.hpp"
#include "state/store_test_support.hpp"
#include "state/terraform_test_server.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::state {

namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::fresh;
using test::note;
using test::run;
using test::TerraformServer;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> lines(const TerraformServer& server) {
  std::vector<std::string> all;
  for (const auto& seen : server.seen()) all.push_back(seen.method + " " + seen.target);
  return all;
}

TEST(HttpStore, SpeaksTerraformsProtocol) {
  TerraformServer server{{.relock = true}};
  VirtualClock clock;
  {
    const auto store = server.open(clock);
    const auto lock = store->lock(run("id/1"));
    store->load();
    store->replace(fresh());
    store->append(std::vector{note("a", "1"), note("b", "2")});
    store->clear();
  }
  EXPECT_THAT(lines(server),
              ElementsAre("LOCK /state/blue/lock", "LOCK /state/blue/lock", "GET /state/blue",
                          "GET /state/blue", "POST /state/blue?ID=id%2F1", "GET /state/blue",
                          "POST /state/blue?ID=id%2F1", "DELETE /state/blue?ID=id%2F1",
                          "UNLOCK /state/blue/lock"));
  const text::Value info = text::parse_json(server.seen().front().body, "lock info");
  EXPECT_EQ(info.find("ID")->text(), "id/1");
  EXPECT_EQ(info.find("Who")->text(), "id/1@machine");
  EXPECT_EQ(info.find("Operation")->text(), "up");
  const text::Value posted = text::parse_json(server.seen()[4].body, "state");
  EXPECT_EQ(posted.find("serial")->as_uint(), 1u);
  EXPECT_EQ(posted.find("lineage")->text(), "6f1c");
}

TEST(HttpStore, UsesTheMethodsAndAddressesItIsTold) {
  TerraformServer server{{.relock = true}};
  VirtualClock clock;
  HttpAccess access = server.access();
  access.address += "?token=1";
  access.update_method = "PUT";
  access.lock_method = "POST";
  access.unlock_method = "DELETE";
  access.unlock_address = access.lock_address + "/free";
  {
    const auto store = http_store(server.transport(), clock, access);
    const auto lock = store->lock(run("a"));
    store->replace(fresh());
    EXPECT_TRUE(server.lock());
  }
  EXPECT_FALSE(server.lock());
  EXPECT_THAT(lines(server),
              ElementsAre("POST /state/blue/lock", "POST /state/blue/lock",
                          "GET /state/blue?token=1", "GET /state/blue?token=1",
                          "PUT /state/blue?token=1&ID=a", "DELETE /state/blue/lock/free"));
}

TEST(HttpStore, SaysWhoItIs) {
  TerraformServer server{{.relock = true, .authorization = "Basic dXNlcjpwYXNz"}};
  VirtualClock clock;
  HttpAccess access = server.access();
  const Error error = error_of([&] { http_store(server.transport(), clock, access)->load(); });
  EXPECT_EQ(error.fault(), Fault::Denied);
  access.username = "user";
  access.password = Secret{"pass"};
  EXPECT_EQ(http_store(server.transport(), clock, access)->load(), std::nullopt);
}

TEST(HttpStore, WithoutALockAddressItStillSeesThatSomebodyWrote) {
  TerraformServer server{{}};
  VirtualClock clock;
  HttpAccess access = server.access();
  access.lock_address.clear();
  const auto one = http_store(server.transport(), clock, access);
  const auto two = http_store(server.transport(), clock, access);
  const auto first = one->lock(run("a"));
  const auto second = two->lock(run("b"));
  first->renew();
  EXPECT_EQ(one->holder(), std::nullopt);
  one->replace(fresh());
  two->load();
  one->append(std::vector{note("k", "v")});
  EXPECT_EQ(error_of([&] { two->append(std::vector{note("k", "w")}); }).fault(), Fault::Conflict);
  EXPECT_EQ(one->load()->notes.at("k"), "v");
}

TEST(HttpStore, DoesNotTakeTerraformsLockHoweverOldItIs) {
  TerraformServer server{{.relock = true}};
  VirtualClock clock;
  const auto store = server.open(clock);
  // As the real one writes it.
  server.answer_next(
      423, R"({"ID":"0d6f","Operation":"OperationTypeApply","Info":"",)"
           R"("Who":"ann@desk","Version":"1.10.6","Created":"2020-01-01T00:00:00Z","Path":""})");
  const Error error = error_of([&] { store->lock(run("a")); });
  EXPECT_EQ(error.fault(), Fault::Locked);
  EXPECT_THAT(error.message(), HasSubstr("ann@desk (OperationTypeApply) since 2020-01-01"));
  EXPECT_THAT(error.hint(), HasSubstr("--take-over"));
}

TEST(HttpStore, LeavesALockAloneWhoseHolderIsNotNamed) {
  TerraformServer server{{.relock = true}};
  VirtualClock clock;
  const auto store = server.open(clock);
  server.answer_next(409, "busy");
  EXPECT_EQ(error_of([&] { store->lock(run("a"), /*force=*/true); }).fault(), Fault::Locked);
}

struct Trouble {
  std::string name;
  int status;
  bool writing;
  Fault fault;
};

class HttpTrouble : public testing::TestWithParam<Trouble> {};

TEST_P(HttpTrouble, HasItsFault) {
  TerraformServer server{{.relock = true}};
  VirtualClock clock;
  const auto store = server.open(clock);
  const auto lock = store->lock(run("a"));
  HttpAccess access = server.access();
  if (GetParam().writing) {
    server.answer_next(GetParam().status, "something <b>went</b> wrong");
    EXPECT_EQ(error_of([&] { store->clear(); }).fault(), GetParam().fault);
  } else {
    server.answer_next(GetParam().status, "something went wrong");
    const Error error = error_of([&] { store->load(); });
    EXPECT_EQ(error.fault(), GetParam().fault);
    EXPECT_THAT(error.message(), HasSubstr("something went wrong"));
  }
}

INSTANTIATE_TEST_SUITE_P(Table, HttpTrouble,
                         testing::Values(Trouble{"ReadDenied", 403, false, Fault::Denied},
                                         Trouble{"ReadBroken", 500, false, Fault::Unreachable},
                                         Trouble{"ReadTooOften", 429, false, Fault::Busy},
                                         Trouble{"ReadOdd", 418, false, Fault::Rejected},
                                         Trouble{"WriteDenied", 401, true, Fault::Denied},
                                         Trouble{"WriteMayHaveWorked", 502, true, Fault::Lost},
                                         Trouble{"WriteWithoutTheLock", 423, true, Fault::Locked},
                                         Trouble{"WriteRefused", 400, true, Fault::Rejected}),
                         [](const auto& test) { return test.param.name; });

TEST(HttpStore, RefusesAddressesThatAreNone) {
  TerraformServer server{{}};
  VirtualClock clock;
  HttpAccess access;
  access.address = "gitlab.home/state";
  EXPECT_EQ(error_of([&] { http_store(server.transport(), clock, access); }).fault(), Fault::Usage);
}

}  // namespace

}  // namespace rocca::state
