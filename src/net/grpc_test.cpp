#include "net/grpc.hpp"

#include "base/error.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <rapidcheck.h>

#include <cstdlib>

namespace rocca::net {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

/// Answers every exchange the same way, and remembers what it was asked.
class Scripted final : public Transport {
 public:
  Response exchange(const Request& request, BodySink& sink, std::stop_token) override {
    asked = request;
    if (fail_before_head) throw Error(*fail_before_head, "no answer");
    Response so_far = answer;
    so_far.trailers = {};
    sink.begin(so_far);
    for (const auto& chunk : chunks)
      if (!sink.write(chunk)) return so_far;
    if (fail_after_body) throw Error(*fail_after_body, "broke off");
    return answer;
  }

  Response answer;
  std::vector<std::string> chunks;
  std::optional<Fault> fail_before_head;
  std::optional<Fault> fail_after_body;
  Request asked;
};

class Grpc : public ::testing::Test {
 protected:
  Grpc() {
    transport_.answer.status = 200;
    transport_.answer.version = HttpVersion::Http2;
    transport_.answer.headers = {{"content-type", "application/grpc"}};
    call_.origin = "https://10.0.0.11:50000";
    call_.method = "/machine.MachineService/Version";
    call_.message = "ask";
  }

  void status(const std::string& code, const std::string& message = "") {
    transport_.answer.trailers = {{"grpc-status", code}};
    if (!message.empty()) transport_.answer.trailers.add("grpc-message", message);
  }

  Fault fault_of_unary() {
    try {
      grpc_unary(transport_, call_);
    } catch (const Error& error) {
      return error.fault();
    }
    ADD_FAILURE() << "no error came";
    return Fault::Bug;
  }

  Scripted transport_;
  GrpcCall call_;
};

TEST_F(Grpc, AUnaryCallIsAPostOfOneFrame) {
  transport_.chunks = {grpc_frame("answer")};
  status("0");
  call_.metadata = {{"Nodes", "10.0.0.12"}, {"runtime", "Talos"}};
  const GrpcAnswer answer = grpc_unary(transport_, call_);
  EXPECT_TRUE(answer.status.ok());
  EXPECT_EQ(answer.message, "answer");

  const Request& asked = transport_.asked;
  EXPECT_EQ(asked.method, "POST");
  EXPECT_EQ(asked.url, "https://10.0.0.11:50000/machine.MachineService/Version");
  EXPECT_EQ(asked.version, HttpVersion::Http2);
  EXPECT_EQ(std::get<std::string>(asked.body), std::string("\0\0\0\0\3ask", 8));
  EXPECT_EQ(asked.timeout, Duration(30s));
  EXPECT_THAT(
      asked.headers,
      ElementsAre(Header{"content-type", "application/grpc"}, Header{"te", "trailers"},
                  Header{"grpc-encoding", "identity"}, Header{"grpc-accept-encoding", "identity"},
                  Header{"grpc-timeout", "30000000u"}, Header{"nodes", "10.0.0.12"},
                  Header{"runtime", "Talos"}));
}

TEST_F(Grpc, TheTimeoutHasAtMostEightDigits) {
  status("0");
  transport_.chunks = {grpc_frame("")};
  const auto sent = [&](std::optional<Duration> deadline) {
    call_.deadline = deadline;
    grpc_unary(transport_, call_);
    return std::string(transport_.asked.headers.find("grpc-timeout").value_or("none"));
  };
  EXPECT_EQ(sent(1ns), "1u");
  EXPECT_EQ(sent(99s), "99000000u");
  EXPECT_EQ(sent(100s), "100000m");
  EXPECT_EQ(sent(48h), "172800S");
  EXPECT_EQ(sent(std::nullopt), "none");
  EXPECT_EQ(transport_.asked.timeout, std::nullopt);
}

TEST_F(Grpc, StatusAndMessageComeFromTheTrailers) {
  status("5", "no%20such%20node%3A %E2%82%AC 100% sure%");
  const GrpcAnswer answer = grpc_unary(transport_, call_);
  EXPECT_EQ(answer.status.code, GrpcCode::NotFound);
  EXPECT_EQ(answer.status.message, "no such node: € 100% sure%");
}

TEST_F(Grpc, ATrailersOnlyAnswerHasThemInTheHeaders) {
  transport_.answer.headers.add("grpc-status", "7");
  transport_.answer.headers.add("grpc-message", "not authorized");
  const GrpcAnswer answer = grpc_unary(transport_, call_);
  EXPECT_EQ(answer.status.code, GrpcCode::PermissionDenied);
  EXPECT_EQ(answer.status.message, "not authorized");
}

TEST_F(Grpc, AMissingStatusIsALostAnswer) {
  EXPECT_EQ(fault_of_unary(), Fault::Lost);
  const GrpcStatus end = grpc_stream(transport_, call_, [](std::string_view) { return true; });
  EXPECT_EQ(end.code, GrpcCode::Unavailable);
  EXPECT_THAT(end.message, HasSubstr("without a status"));
}

TEST_F(Grpc, AnUnknownStatusIsUnknown) {
  for (const char* code : {"17", "x", "-1", ""}) {
    status(code);
    EXPECT_EQ(grpc_unary(transport_, call_).status.code, GrpcCode::Unknown) << code;
  }
}

struct Mapped {
  int http;
  GrpcCode code;
};

class BareHttpStatus : public Grpc, public ::testing::WithParamInterface<Mapped> {};

TEST_P(BareHttpStatus, IsMapped) {
  transport_.answer.status = GetParam().http;
  transport_.answer.headers = {{"content-type", "text/html"}};
  transport_.chunks = {"<html>", "not a frame"};
  const GrpcStatus status = grpc_unary(transport_, call_).status;
  EXPECT_EQ(status.code, GetParam().code);
  EXPECT_THAT(status.message, HasSubstr(std::to_string(GetParam().http)));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BareHttpStatus,
    ::testing::Values(Mapped{400, GrpcCode::Internal}, Mapped{401, GrpcCode::Unauthenticated},
                      Mapped{403, GrpcCode::PermissionDenied}, Mapped{404, GrpcCode::Unimplemented},
                      Mapped{429, GrpcCode::Unavailable}, Mapped{500, GrpcCode::Unknown},
                      Mapped{502, GrpcCode::Unavailable}, Mapped{503, GrpcCode::Unavailable},
                      Mapped{504, GrpcCode::Unavailable}, Mapped{302, GrpcCode::Unknown}),
    [](const auto& row) { return "Http" + std::to_string(row.param.http); });

TEST_F(Grpc, AnAnswerThatIsNotGrpcIsRejected) {
  for (const char* type : {"text/html", "application/json", "application/grpcweb", ""}) {
    transport_.answer.headers = {{"content-type", type}};
    transport_.chunks = {"hello"};
    EXPECT_EQ(fault_of_unary(), Fault::Rejected) << type;
  }
  status("0");
  transport_.chunks = {grpc_frame("x")};
  for (const char* type :
       {"application/grpc+proto", "application/grpc;charset=utf-8", "Application/GRPC"}) {
    transport_.answer.headers = {{"content-type", type}};
    EXPECT_EQ(grpc_unary(transport_, call_).message, "x") << type;
  }
}

TEST_F(Grpc, AUnaryCallWantsExactlyOneMessage) {
  status("0");
  EXPECT_EQ(grpc_unary(transport_, call_).status.code, GrpcCode::Internal);
  transport_.chunks = {grpc_frame("a") + grpc_frame("b")};
  EXPECT_EQ(grpc_unary(transport_, call_).status.code, GrpcCode::Internal);
}

TEST_F(Grpc, AStreamGivesItsMessagesInOrderHoweverTheyAreCut) {
  const std::string body = grpc_frame("one") + grpc_frame("") + grpc_frame("three");
  for (const char byte : body) transport_.chunks.emplace_back(1, byte);
  status("0");
  std::vector<std::string> messages;
  const auto end = grpc_stream(transport_, call_, [&](std::string_view message) {
    messages.emplace_back(message);
    return true;
  });
  EXPECT_TRUE(end.ok());
  EXPECT_THAT(messages, ElementsAre("one", "", "three"));
}

TEST_F(Grpc, AStreamMayBeLeftEarly) {
  transport_.chunks = {grpc_frame("one") + grpc_frame("two"), grpc_frame("three")};
  status("13");
  int seen = 0;
  EXPECT_TRUE(grpc_stream(transport_, call_, [&](std::string_view) { return ++seen < 2; }).ok());
  EXPECT_EQ(seen, 2);
}

TEST_F(Grpc, AStreamThatBreaksOffIsUnavailable) {
  transport_.chunks = {grpc_frame("one"), grpc_frame("two").substr(0, 6)};
  transport_.fail_after_body = Fault::Lost;
  int seen = 0;
  const auto end = grpc_stream(transport_, call_, [&](std::string_view) { return ++seen > 0; });
  EXPECT_EQ(end.code, GrpcCode::Unavailable);
  EXPECT_THAT(end.message, HasSubstr("broke off"));
  EXPECT_EQ(seen, 1);
}

TEST_F(Grpc, AnAnswerThatBreaksOffIsLost) {
  transport_.chunks = {grpc_frame("one").substr(0, 6)};
  transport_.fail_after_body = Fault::Lost;
  EXPECT_EQ(fault_of_unary(), Fault::Lost) << "the call may have been carried out";
}

TEST_F(Grpc, HalfAMessageBeforeAGoodStatusIsInternal) {
  transport_.chunks = {grpc_frame("one").substr(0, 6)};
  status("0");
  EXPECT_EQ(grpc_stream(transport_, call_, [](std::string_view) { return true; }).code,
            GrpcCode::Internal);
}

TEST_F(Grpc, NoAnswerAtAllIsWhatTheTransportThrew) {
  for (const Fault fault : {Fault::Unreachable, Fault::Lost, Fault::Denied, Fault::Interrupted}) {
    transport_.fail_before_head = fault;
    EXPECT_EQ(fault_of_unary(), fault);
  }
}

TEST_F(Grpc, ALossAfterTheDeadlineIsDeadlineExceeded) {
  call_.deadline = 1ns;  // over before the transport has thrown
  transport_.fail_before_head = Fault::Lost;
  EXPECT_EQ(grpc_unary(transport_, call_).status.code, GrpcCode::DeadlineExceeded);
  transport_.fail_before_head = Fault::Unreachable;
  EXPECT_EQ(fault_of_unary(), Fault::Unreachable) << "nothing was sent: the caller may repeat it";
}

TEST_F(Grpc, ALossInTheLastMillisecondBeforeTheDeadlineIsDeadlineExceeded) {
  call_.deadline = 1ms;  // libcurl's alarm may ring so early
  transport_.fail_before_head = Fault::Lost;
  EXPECT_EQ(grpc_unary(transport_, call_).status.code, GrpcCode::DeadlineExceeded);
  call_.deadline = 1h;
  EXPECT_EQ(fault_of_unary(), Fault::Lost) << "the deadline was far away";
}

TEST_F(Grpc, AMessageOverTheLimitIsRejectedBeforeItIsRead) {
  call_.message_limit = 4;
  status("0");
  transport_.chunks = {grpc_frame("1234")};
  EXPECT_EQ(grpc_unary(transport_, call_).message, "1234");
  transport_.chunks = {std::string("\0\0\0\0\5", 5)};
  EXPECT_EQ(fault_of_unary(), Fault::Rejected);
  transport_.chunks = {std::string("\0\xff\xff\xff\xff", 5)};
  EXPECT_EQ(fault_of_unary(), Fault::Rejected);
}

TEST_F(Grpc, ACompressedFrameIsRejected) {
  transport_.chunks = {std::string("\1\0\0\0\1x", 6)};
  EXPECT_EQ(fault_of_unary(), Fault::Rejected);
}

TEST(GrpcCodeNames, AreThoseOfGrpcGo) {
  EXPECT_STREQ(to_string(GrpcCode::Ok), "OK");
  EXPECT_STREQ(to_string(GrpcCode::Cancelled), "Canceled");
  EXPECT_STREQ(to_string(GrpcCode::FailedPrecondition), "FailedPrecondition");
  EXPECT_STREQ(to_string(GrpcCode::Unauthenticated), "Unauthenticated");
}

TEST(GrpcFrames, AnyCutOfAnyMessagesGivesThemBack) {
  EXPECT_TRUE(rc::check("frames", [](const std::vector<std::string>& messages,
                                     const std::vector<std::uint8_t>& cuts) {
    std::string body;
    for (const auto& message : messages) body += grpc_frame(message);
    GrpcFrames frames(1 << 20);
    std::vector<std::string> back;
    const auto keep = [&](std::string_view message) {
      back.emplace_back(message);
      return true;
    };
    std::string_view rest = body;
    for (const std::size_t cut : cuts) {
      const std::size_t size = std::min(cut, rest.size());
      RC_ASSERT(frames.feed(rest.substr(0, size), keep));
      rest.remove_prefix(size);
    }
    RC_ASSERT(frames.feed(rest, keep));
    RC_ASSERT(frames.at_boundary());
    RC_ASSERT(back == messages);
  }));
}

}  // namespace
}  // namespace rocca::net
