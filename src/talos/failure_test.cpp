#include "talos/failure.hpp"

#include <gmock/gmock.h>

namespace rocca::talos {
namespace {

using net::GrpcCode;
using testing::HasSubstr;
using testing::Not;

struct Case {
  GrpcCode code;
  const char* text;
  Reason reason;
};

class Refusals : public testing::TestWithParam<Case> {};

TEST_P(Refusals, AreUnderstood) {
  const Case& c = GetParam();
  EXPECT_STREQ(to_string(classify(c.code, c.text).reason), to_string(c.reason)) << c.text;
}

INSTANTIATE_TEST_SUITE_P(
    Texts, Refusals,
    testing::Values(
        Case{GrpcCode::Unavailable, "connection error: desc = \"connect: connection refused\"",
             Reason::NotUp},
        Case{GrpcCode::Unavailable, "remote error: tls: certificate required",
             Reason::NotInMaintenance},
        Case{GrpcCode::Unavailable, "remote error: tls: bad certificate", Reason::WrongIdentity},
        Case{GrpcCode::Unimplemented, "API is not implemented in maintenance mode",
             Reason::InMaintenance},
        Case{GrpcCode::PermissionDenied, "not authorized", Reason::NotAuthorized},
        Case{GrpcCode::InvalidArgument, "configuration validation failed: 1 error occurred",
             Reason::BadConfig},
        Case{GrpcCode::Unknown, "failed to parse config: yaml: line 2", Reason::BadConfig},
        Case{GrpcCode::InvalidArgument,
             "this config change can't be applied in immediate mode\ndiff: x", Reason::NeedsReboot},
        Case{GrpcCode::FailedPrecondition, "another apply configuration is already in progress",
             Reason::ApplyInProgress},
        Case{GrpcCode::FailedPrecondition, "bootstrap is not available yet", Reason::TooEarly},
        Case{GrpcCode::FailedPrecondition, "time is not in sync yet", Reason::TooEarly},
        Case{GrpcCode::AlreadyExists, "etcd data directory is not empty",
             Reason::AlreadyBootstrapped},
        Case{GrpcCode::Unimplemented, "bootstrap is only available on control plane nodes",
             Reason::NotControlPlane},
        Case{GrpcCode::Unknown, "failed to remove member: etcdserver: no leader", Reason::NoLeader},
        Case{GrpcCode::NotFound, "resource X doesn't exist", Reason::NotFound},
        Case{GrpcCode::InvalidArgument, "one-2-many proxying is not supported for COSI methods",
             Reason::BadRequest},
        Case{GrpcCode::DeadlineExceeded, "context deadline exceeded", Reason::TimedOut}));

TEST(Redaction, LeavesTheShapeAndTakesTheValues) {
  const std::string text = redact_config(
      "Config diff:\n\n--- a\n+++ b\n@@ -1,3 +1,3 @@\n machine:\n-    token: "
      "abcdef.0123456789abcdef\n"
      "+    token: fedcba.0123456789abcdef\n     hostname: cp-1\n+    ca:\n+        crt: "
      "LS0tLS1CRUdJTg==\n"
      "+        key: LS0tLS1CRUdJTiBQUklWQVRF\n+    files:\n+        - content: |\n+            "
      "very private\n"
      "+            lines\n+          path: /etc/x\n");
  EXPECT_THAT(text, HasSubstr("hostname: cp-1"));
  EXPECT_THAT(text, HasSubstr("token: ***"));
  EXPECT_THAT(text, HasSubstr("path: /etc/x"));
  for (const char* secret : {"abcdef", "fedcba", "LS0tLS", "very private", "lines"})
    EXPECT_THAT(text, Not(HasSubstr(secret)));
}

TEST(Redaction, SeesKeyMaterialUnderAnyKey) {
  EXPECT_THAT(redact_config("something: AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKKK"),
              testing::Eq("something: ***"));
  EXPECT_THAT(redact_config("    AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKKK"),
              testing::Eq("    ***"));
}

TEST(Failure, IsAnErrorThatCarriesNoConfiguration) {
  const Failure failure =
      classify(GrpcCode::InvalidArgument,
               "this config change can't be applied in immediate mode\ndiff:\n+ token: hunter2\n");
  EXPECT_THAT(failure.error("applying").render(), Not(HasSubstr("hunter2")));
}

}  // namespace
}  // namespace rocca::talos
