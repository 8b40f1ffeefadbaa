#include "net/transport.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::net {
namespace {

TEST(MemorySink, KeepsUpToItsLimitAndRefusesMore) {
  MemorySink sink(5);
  EXPECT_TRUE(sink.write("abc"));
  EXPECT_TRUE(sink.write("de"));
  try {
    sink.write("f");
    FAIL() << "took more than its limit";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Rejected);
    EXPECT_THAT(error.message(), ::testing::HasSubstr("5 bytes"));
  }
  EXPECT_EQ(sink.text(), "abcde");
}

class Echo final : public Transport {
 public:
  Response exchange(const Request& request, BodySink& sink, std::stop_token) override {
    Response head;
    head.status = 404;
    sink.begin(head);
    sink.write(request.url);
    return head;
  }
};

TEST(Fetch, ReturnsHeadAndBodyAndA404IsAnAnswer) {
  Echo echo;
  Request request;
  request.url = "http://a/";
  const Answer answer = fetch(echo, request);
  EXPECT_EQ(answer.head.status, 404);
  EXPECT_EQ(answer.body, "http://a/");
}

}  // namespace
}  // namespace rocca::net
