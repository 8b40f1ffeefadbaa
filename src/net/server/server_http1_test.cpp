#include "net/server/server.hpp"
#include "net/server/server_test_client.hpp"

#include <gmock/gmock.h>

#include <future>

namespace rocca::net {
namespace {

using test::RawClient;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using ResponderPtr = std::shared_ptr<Responder>;

/// A server in clear text with one handler.
struct Http1Server : ::testing::Test {
  Server server;
  unsigned serve(Handler handler, std::size_t body_limit = 1024 * 1024) {
    return server.port(server.listen({.address = "127.0.0.1",
                                      .tls = {},
                                      .handler = std::move(handler),
                                      .body_limit = body_limit}));
  }
  unsigned echo(std::size_t body_limit = 1024 * 1024) {
    return serve(
        [](const Incoming& request, const ResponderPtr& out) {
          out->answer(200, "", {}, request.method + " " + request.target + " " + request.body);
        },
        body_limit);
  }
};

TEST_F(Http1Server, WritesAnyReasonAndRepeatedHeadersRaw) {
  RawClient client{serve([](const Incoming&, const ResponderPtr& out) {
    out->answer(599, "no such VM 'caf\xc3\xa9' \x80\x01", {{"X-A", "1"}, {"X-A", "2"}}, "b");
  })};
  client.send("GET / HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(client.read_answer(),
            "HTTP/1.1 599 no such VM 'caf\xc3\xa9' \x80\x01\r\nX-A: 1\r\nX-A: 2\r\n"
            "Content-Length: 1\r\n\r\nb");
}

TEST_F(Http1Server, LineBreaksInAReasonOrHeaderCannotSplitTheAnswer) {
  RawClient client{serve([](const Incoming&, const ResponderPtr& out) {
    out->answer(500, "one\r\nX-Evil: 1", {{"X-B", "2\nX-Evil: 3"}}, "");
  })};
  client.send("GET / HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(client.read_answer(),
            "HTTP/1.1 500 one  X-Evil: 1\r\nX-B: 2 X-Evil: 3\r\nContent-Length: 0\r\n\r\n");
}

TEST_F(Http1Server, HandsOverTheWholeRequest) {
  std::promise<Incoming> seen;
  const auto port = serve([&](Incoming request, const ResponderPtr& out) {
    out->answer(204, "", {}, "");
    seen.set_value(std::move(request));
  });
  RawClient client{port};
  client.send(
      "PUT /a?b=%20 HTTP/1.1\r\nHost: pve:8006\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: "
      "3\r\n\r\nxyz");
  const auto request = seen.get_future().get();
  EXPECT_EQ(request.method, "PUT");
  EXPECT_EQ(request.target, "/a?b=%20");
  EXPECT_EQ(request.authority, "pve:8006");
  EXPECT_THAT(request.headers.all("X-A"), ::testing::ElementsAre("1", "2"));
  EXPECT_EQ(request.body, "xyz");
  EXPECT_EQ(request.version, HttpVersion::Http1);
  EXPECT_EQ(request.peer_address, "127.0.0.1");
  EXPECT_EQ(request.local_port, port);
  EXPECT_FALSE(request.tls);
}

TEST_F(Http1Server, AnswersPipelinedRequestsInOrderEvenWhenTheFirstTakesLonger) {
  std::vector<ResponderPtr> kept;
  RawClient client{serve([&](const Incoming& request, ResponderPtr out) {
    if (request.target != "/slow") return out->answer(200, "", {}, request.target);
    kept.push_back(out);
    server.after(std::chrono::milliseconds{20}, [out] { out->answer(200, "", {}, "slow"); });
  })};
  client.send(
      "GET /slow HTTP/1.1\r\nHost: t\r\n\r\nPOST /b HTTP/1.1\r\nHost: t\r\nContent-Length: "
      "2\r\n\r\nxxGET /c HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_THAT(client.read_answer(), EndsWith("slow"));
  EXPECT_THAT(client.read_answer(), EndsWith("/b"));
  EXPECT_THAT(client.read_answer(), EndsWith("/c"));
}

TEST_F(Http1Server, ManyPipelinedRequestsAreAllAnswered) {
  RawClient client{echo()};
  std::string all;
  for (int i = 0; i < 3000; ++i) {
    all += "GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: t\r\n\r\n";
  }
  client.send(all);
  for (int i = 0; i < 3000; ++i) {
    ASSERT_THAT(client.read_answer(), EndsWith("GET /" + std::to_string(i) + " "));
  }
}

TEST_F(Http1Server, AnswersAClientThatHalfCloses) {
  RawClient client{echo()};
  client.send("GET /a HTTP/1.1\r\nHost: t\r\n\r\nGET /b HTTP/1.1\r\nHost: t\r\n\r\n");
  client.shut_down_writing();
  EXPECT_THAT(client.read_all(), AllOf(HasSubstr("GET /a "), EndsWith("GET /b ")));
}

TEST_F(Http1Server, HeadHasTheHeadersOfGetAndNoBody) {
  RawClient client{echo()};
  client.send("HEAD / HTTP/1.1\r\nHost: t\r\n\r\nGET /n HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n");
  EXPECT_THAT(client.read_answer(), EndsWith("GET /n "));
}

TEST_F(Http1Server, StatusesWithoutBodySendNone) {
  RawClient client{serve([](const Incoming& request, const ResponderPtr& out) {
    out->answer(std::stoi(request.target.substr(1)), "", {}, "not to be sent");
  })};
  client.send("GET /204 HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 204 No Content\r\n\r\n");
  client.send("GET /304 HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"),
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 14\r\n\r\n");
  client.send("GET /200 HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_THAT(client.read_answer(), EndsWith("not to be sent"));
}

TEST_F(Http1Server, ClosesWhenTheClientAsksForIt) {
  RawClient client{echo()};
  client.send("GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.read_all(), HasSubstr("Connection: close\r\n"));
  EXPECT_FALSE(client.was_reset());
}

TEST_F(Http1Server, AHandlerThatSaysCloseIsBelievedWhereItSaysIt) {
  RawClient client{serve([](const Incoming&, const ResponderPtr& out) {
    out->begin(200, "", {{"Connection", "close"}, {"Connection", "Keep-Alive"}});
    out->finish();
  })};
  client.send("GET / HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_THAT(client.read_all(),
              StartsWith("HTTP/1.1 200 OK\r\nConnection: close\r\nConnection: Keep-Alive\r\n"));
}

TEST_F(Http1Server, Http10ClosesUnlessAskedToStayAndIsNeverChunked) {
  const auto port = serve([](const Incoming&, const ResponderPtr& out) {
    out->begin(200, "", {});
    out->write("streamed");
    out->finish();
  });
  RawClient client{port};
  client.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.read_all(), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nstreamed");
  RawClient stays{echo()};
  stays.send("GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(stays.read_answer(), HasSubstr("Connection: keep-alive"));
  stays.send("GET /2 HTTP/1.0\r\n\r\n");
  EXPECT_THAT(stays.read_all(), EndsWith("GET /2 "));
}

TEST_F(Http1Server, StreamsChunksWithTrailers) {
  RawClient client{serve([](const Incoming&, const ResponderPtr& out) {
    out->begin(200, "", {{"Trailer", "X-Sum"}});
    out->write("hello");
    out->write("0123456789abcdef!");
    out->finish({{"X-Sum", "22"}, {"X-Sum", "again"}});
  })};
  client.send("GET / HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(client.read_until("again\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n"
            "5\r\nhello\r\n11\r\n0123456789abcdef!\r\n0\r\nX-Sum: 22\r\nX-Sum: again\r\n\r\n");
}

TEST_F(Http1Server, AWholeAnswerMayHaveTrailersToo) {
  RawClient client{serve([](const Incoming&, const ResponderPtr& out) {
    out->answer(200, "", {}, "x", {{"X-T", "1"}});
  })};
  client.send("GET / HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_THAT(client.read_until("X-T: 1\r\n\r\n"),
              EndsWith("\r\n\r\n1\r\nx\r\n0\r\nX-T: 1\r\n\r\n"));
}

TEST_F(Http1Server, AStreamOfStatedLengthIsNotChunkedAndABrokenPromiseIsCut) {
  const auto port = serve([](const Incoming& request, const ResponderPtr& out) {
    out->begin(200, "", {{"Content-Length", "4"}});
    out->write(request.target == "/more" ? "12345" : request.target == "/less" ? "123" : "1234");
    out->finish();
  });
  RawClient client{port};
  client.send("GET /same HTTP/1.1\r\nHost: t\r\n\r\nGET /more HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(client.read_answer(), "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n1234");
  EXPECT_EQ(client.read_answer(), "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n1234");
  client.send("GET /less HTTP/1.1\r\nHost: t\r\n\r\n");
  client.read_all();
  EXPECT_TRUE(client.was_reset());
}

TEST_F(Http1Server, SendsALargeBodyWhole) {
  const std::string body(20 * 1024 * 1024, 'z');
  RawClient client{
      serve([&](const Incoming&, const ResponderPtr& out) { out->answer(200, "", {}, body); })};
  client.send("GET / HTTP/1.1\r\nHost: t\r\n\r\n");
  const auto answer = client.read_answer();
  EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, body.size());
}

TEST_F(Http1Server, ReadsChunkedBodies) {
  RawClient client{echo()};
  client.send("POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab");
  client.send("c\r\n2;x=y\r\nde\r\n0\r\nX-T: 1\r\n\r\n");
  EXPECT_THAT(client.read_answer(), EndsWith("POST / abcde"));
}

TEST_F(Http1Server, SaysContinueBeforeItExpectsTheBody) {
  RawClient client{echo()};
  client.send("POST / HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ok");
  EXPECT_THAT(client.read_answer(), EndsWith("POST / ok"));
}

TEST_F(Http1Server, RefusesATooLargeBodyWithoutAskingForIt) {
  RawClient client{echo(/*body_limit=*/10)};
  client.send("POST / HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n");
  EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 413 "));
}

TEST_F(Http1Server, TheRefusalOfALargeBodyReachesAClientThatIsStillSending) {
  RawClient client{echo(/*body_limit=*/1000)};
  client.send("POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n");
  client.send(std::string(1024 * 1024, 'x'));
  EXPECT_THAT(client.read_all(),
              AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("Connection: close")));
  EXPECT_FALSE(client.was_reset());
}

struct Malformed {
  const char* name;
  std::string request;
  const char* status;
};

/// With Host, a request of this many headers.
std::string many_headers(int count) {
  std::string text = "GET / HTTP/1.1\r\nHost: t\r\n";
  for (int i = 1; i < count; ++i) text += "a: b\r\n";
  return text + "\r\n";
}

std::string chunked(const std::string& chunks) {
  return "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks;
}

/// Chunks of one byte, each with an extension of this size.
std::string extended_chunks(int count, std::size_t size) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "1;" + std::string(size, 'x') + "\r\ny\r\n";
  return text;
}

struct Http1Malformed : Http1Server, ::testing::WithParamInterface<Malformed> {};

TEST_P(Http1Malformed, IsRefusedAndTheConnectionEnds) {
  RawClient client{
      serve([](const Incoming&, const ResponderPtr&) { FAIL() << "was handed over"; })};
  client.send(GetParam().request);
  EXPECT_THAT(client.read_all(), StartsWith(std::string{"HTTP/1.1 "} + GetParam().status + " "));
}

INSTANTIATE_TEST_SUITE_P(
    Table, Http1Malformed,
    ::testing::Values(
        Malformed{"NotHttp", "hello\r\n\r\n", "400"},
        Malformed{"NoHost", "GET / HTTP/1.1\r\n\r\n", "400"},
        Malformed{"TwoHosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"},
        Malformed{"LengthAndChunked",
                  "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nTransfer-Encoding: "
                  "chunked\r\n\r\n0\r\n\r\n",
                  "400"},
        Malformed{"BadLength", "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: -1\r\n\r\n", "400"},
        Malformed{"BadChunk",
                  "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400"},
        Malformed{"HugeHeader",
                  "GET / HTTP/1.1\r\nHost: t\r\nX: " + std::string(70'000, 'x') + "\r\n\r\n",
                  "431"},
        Malformed{"ManyHeaders", many_headers(5000), "431"},
        Malformed{"OneHeaderTooMany", many_headers(257), "431"},
        Malformed{
            "ManyTrailers",
            chunked("0\r\n" + many_headers(300).substr(std::string("GET / HTTP/1.1\r\n").size())),
            "431"},
        Malformed{
            "TwoLengths",
            "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
            "400"},
        Malformed{"NulInAHeader", std::string{"GET / HTTP/1.1\r\nHost:\0t\r\n\r\n", 27}, "400"},
        Malformed{"BlankBeforeColon", "GET / HTTP/1.1\r\nHost : t\r\n\r\n", "400"},
        Malformed{"ChunkSizeOverflows", chunked("FFFFFFFFFFFFFFFFF\r\nx"), "400"},
        Malformed{"ChunkLargerThanTheLimit", chunked("7fffffff\r\nx"), "413"},
        Malformed{"ChunkExtensionsWithoutEnd", chunked(extended_chunks(10, 20'000)), "400"},
        Malformed{"HugeTarget", "GET /" + std::string(100'000, 'x') + " HTTP/1.1\r\n\r\n", "431"},
        Malformed{"NewerVersion", "GET / HTTP/2.0\r\nHost: t\r\n\r\n", "505"}),
    [](const auto& one) { return one.param.name; });

TEST_F(Http1Server, TakesAsManyHeadersAndAsSmallChunksAsItsLimitsSay) {
  RawClient client{echo()};
  client.send(many_headers(256));
  EXPECT_THAT(client.read_answer(), StartsWith("HTTP/1.1 200 "));
  std::string chunks;
  for (int i = 0; i < 30'000; ++i) chunks += "1\r\ny\r\n";  // 150 KiB of framing
  client.send(chunked(chunks + "0\r\n\r\n"));
  EXPECT_THAT(client.read_answer(), EndsWith(std::string(30'000, 'y')));
}

TEST_F(Http1Server, DeclinesAnUpgradeAndAnswers) {
  RawClient client{echo()};
  client.send(
      "GET /u HTTP/1.1\r\nHost: t\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
      "HTTP2-Settings: AAMAAABk\r\n\r\nGET /v HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_THAT(client.read_answer(), EndsWith("GET /u "));
  EXPECT_THAT(client.read_answer(), EndsWith("GET /v "));
}

TEST_F(Http1Server, CutSendsAReset) {
  RawClient client{serve([](const Incoming&, const ResponderPtr& out) { out->cut(); })};
  client.send("GET / HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_THAT(client.read_all(), IsEmpty());
  EXPECT_TRUE(client.was_reset());
}

TEST_F(Http1Server, AHalfRequestFollowedByTheEndIsNoRequest) {
  RawClient client{
      serve([](const Incoming&, const ResponderPtr&) { FAIL() << "was handed over"; })};
  client.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nhalf");
  client.shut_down_writing();
  EXPECT_THAT(client.read_all(), IsEmpty());
}

}  // namespace
}  // namespace rocca::net
