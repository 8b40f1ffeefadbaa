#include "kube/failure.hpp"

#include <gmock/gmock.h>

namespace rocca::kube {

namespace {

using namespace std::chrono_literals;

TEST(KubeFailure, TakesTheWaitFromTheHeaderOrTheDetails) {
  const char* body = R"({"kind":"Status","reason":"TooManyRequests","code":429,)"
                     R"("details":{"retryAfterSeconds":10}})";
  EXPECT_EQ(classify(429, {}, body).retry_after, 10s);
  EXPECT_EQ(classify(429, {{"Retry-After", "3"}}, body).retry_after, 3s);
  EXPECT_EQ(classify(429, {}, "slow down").retry_after, std::nullopt);
  EXPECT_EQ(classify(429, {}, "slow down").remedy(), Remedy::Wait);
}

TEST(KubeFailure, AGatewaysPageIsNoStatus) {
  const Failure failure = classify(502, {}, "<html><body>Bad Gateway</body></html>");
  EXPECT_EQ(failure.reason, Reason::Unknown);
  EXPECT_EQ(failure.remedy(), Remedy::Retry);
  EXPECT_EQ(failure.error("x", true).fault(), Fault::Lost);
  EXPECT_EQ(failure.error("x", false).fault(), Fault::Busy);
}

TEST(KubeFailure, AnObjectThatIsNoStatusDoesNotSpeakForTheServer) {
  const Failure failure = classify(403, {}, R"({"kind":"Pod","reason":"AlreadyExists"})");
  EXPECT_EQ(failure.reason, Reason::Forbidden);
}

TEST(KubeFailure, EtcdsTroublesPass) {
  const Failure failure =
      classify(500, {}, R"({"kind":"Status","message":"etcdserver: leader changed","code":500})");
  EXPECT_EQ(failure.remedy(), Remedy::Retry);
}

}  // namespace

}  // namespace rocca::kube
