#include "net/server/server.hpp"
#include "net/server/server_test_client.hpp"

#include <gmock/gmock.h>

#include <future>

namespace rocca::net {
namespace {

using test::Http2Client;
using test::RawClient;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

using ResponderPtr = std::shared_ptr<Responder>;

constexpr std::uint32_t no_error = 0;
constexpr std::uint32_t internal_error = 2;
constexpr std::uint32_t enhance_your_calm = 11;

/// A server in clear text, spoken to by prior knowledge.
struct Http2Server : ::testing::Test {
  Server server;
  unsigned serve(Handler handler, std::size_t body_limit = 64 * 1024 * 1024) {
    return server.port(server.listen({.address = "127.0.0.1",
                                      .tls = {},
                                      .handler = std::move(handler),
                                      .body_limit = body_limit}));
  }
};

TEST_F(Http2Server, HandsOverTheRequestAndAnswersWithRepeatedHeaders) {
  std::promise<Incoming> seen;
  RawClient wire{serve([&](Incoming request, const ResponderPtr& out) {
    out->answer(207, "no reason in HTTP/2", {{"X-A", "1"}, {"x-a", "2"}, {"Connection", "close"}},
                "body");
    seen.set_value(std::move(request));
  })};
  Http2Client client{wire};
  const auto& answer =
      client.wait(client.request("POST", "/a?b", {{"x-q", "1"}, {"x-q", "2"}}, "data"));
  const auto request = seen.get_future().get();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/a?b");
  EXPECT_EQ(request.authority, "test");
  EXPECT_EQ(request.body, "data");
  EXPECT_EQ(request.version, HttpVersion::Http2);
  EXPECT_THAT(request.headers.all("x-q"), ElementsAre("1", "2"));
  EXPECT_EQ(answer.status(), "207");
  EXPECT_THAT(answer.headers.all("x-a"), ElementsAre("1", "2"));
  EXPECT_THAT(answer.headers.find("connection"), Eq(std::nullopt));
  EXPECT_THAT(answer.headers.find("content-length"), Optional(Eq("4")));
  EXPECT_EQ(answer.body, "body");
}

TEST_F(Http2Server, AnswersManyStreamsInAnyOrder) {
  std::vector<std::pair<std::string, ResponderPtr>> kept;
  RawClient wire{serve([&](Incoming request, ResponderPtr out) {
    kept.emplace_back(request.target, std::move(out));
    if (kept.size() < 100) return;
    for (auto it = kept.rbegin(); it != kept.rend(); ++it)
      it->second->answer(200, "", {}, it->first);
    kept.clear();
  })};
  Http2Client client{wire};
  std::vector<std::int32_t> streams;
  for (int i = 0; i < 100; ++i) streams.push_back(client.request("GET", "/" + std::to_string(i)));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(client.wait(streams[static_cast<std::size_t>(i)]).body, "/" + std::to_string(i));
  }
}

TEST_F(Http2Server, StreamsWithTrailers) {
  RawClient wire{serve([&](const Incoming&, const ResponderPtr& out) {
    out->begin(200, "", {{"content-type", "application/grpc"}});
    out->write("one");
    server.after(std::chrono::milliseconds{5}, [out] {
      out->write("two");
      out->finish({{"grpc-status", "0"}, {"grpc-message", "ok"}});
    });
  })};
  Http2Client client{wire};
  const auto& answer = client.wait(client.request("POST", "/s/m"));
  EXPECT_EQ(answer.body, "onetwo");
  EXPECT_THAT(answer.trailers.find("grpc-status"), Optional(Eq("0")));
  EXPECT_THAT(answer.trailers.find("grpc-message"), Optional(Eq("ok")));
}

TEST_F(Http2Server, AnEmptyAnswerEndsWithItsHeadersAsGrpcsTrailersOnlyAnswersMust) {
  RawClient wire{serve([](const Incoming&, const ResponderPtr& out) {
    out->answer(200, "", {{"content-type", "application/grpc"}, {"grpc-status", "12"}}, "");
  })};
  Http2Client client{wire};
  const auto& answer = client.wait(client.request("POST", "/s/m", {{"te", "trailers"}}, "x"));
  EXPECT_TRUE(answer.ended_with_head);
  EXPECT_THAT(answer.headers.find("grpc-status"), Optional(Eq("12")));
}

TEST_F(Http2Server, HeadAndNoContentSendNoBody) {
  RawClient wire{serve([](const Incoming& request, const ResponderPtr& out) {
    out->answer(request.method == "HEAD" ? 200 : 204, "", {}, "12345");
  })};
  Http2Client client{wire};
  const auto head = client.wait(client.request("HEAD", "/"));
  EXPECT_TRUE(head.ended_with_head);
  EXPECT_THAT(head.headers.find("content-length"), Optional(Eq("5")));
  const auto none = client.wait(client.request("GET", "/"));
  EXPECT_EQ(none.status(), "204");
  EXPECT_THAT(none.body, IsEmpty());
  EXPECT_THAT(none.headers.find("content-length"), Eq(std::nullopt));
}

TEST_F(Http2Server, LargeBodiesGoBothWays) {
  RawClient wire{serve([](Incoming request, const ResponderPtr& out) {
    out->answer(200, "", {}, std::move(request.body));
  })};
  Http2Client client{wire};
  std::string body;
  for (int i = 0; body.size() < 12 * 1024 * 1024; ++i) body += std::to_string(i);
  const auto stream = client.request("POST", "/", {}, body);
  EXPECT_EQ(client.wait(stream).body, body);
}

TEST_F(Http2Server, SendsNoMoreThanTheClientsWindowAllows) {
  RawClient wire{serve([](const Incoming& request, const ResponderPtr& out) {
    out->answer(200, "", {}, std::string(request.target == "/big" ? 200'000 : 3, 'x'));
  })};
  Http2Client client{wire, /*automatic_windows=*/false};
  const auto big = client.request("GET", "/big");
  client.read_until([&] { return client.answer(big).body.size() >= 65'535; });
  EXPECT_EQ(client.answer(big).body.size(), 65'535U);
  EXPECT_FALSE(client.answer(big).ended);
  client.allow(big, 65'535);
  client.read_until([&] { return client.answer(big).body.size() >= 2 * 65'535; });
  EXPECT_EQ(client.answer(big).body.size(), 2 * 65'535U);
}

TEST_F(Http2Server, TellsWhenTheClientResetsAStream) {
  std::promise<ResponderPtr> asked;
  std::promise<void> gone;
  RawClient wire{serve([&](const Incoming& request, ResponderPtr out) {
    if (request.target == "/other") return out->answer(200, "", {}, "alive");
    out->on_gone([&] { gone.set_value(); });
    out->begin(200, "", {});
    asked.set_value(std::move(out));
  })};
  Http2Client client{wire};
  const auto watch = client.request("GET", "/watch");
  const auto out = asked.get_future().get();
  EXPECT_FALSE(out->gone());
  client.reset(watch);
  gone.get_future().get();
  EXPECT_TRUE(out->gone());
  EXPECT_EQ(client.wait(client.request("GET", "/other")).body, "alive");
}

TEST_F(Http2Server, TellsEveryStreamWhenTheConnectionGoes) {
  std::promise<void> gone;
  int count = 0;
  std::vector<ResponderPtr> kept;
  std::promise<void> asked;
  RawClient wire{serve([&](const Incoming&, ResponderPtr out) {
    out->on_gone([&] {
      if (++count == 3) gone.set_value();
    });
    kept.push_back(std::move(out));
    if (kept.size() == 3) asked.set_value();
  })};
  Http2Client client{wire};
  for (int i = 0; i < 3; ++i) client.request("GET", "/");
  asked.get_future().get();
  wire.leave();
  gone.get_future().get();
  server.stop();
}

TEST_F(Http2Server, CutResetsTheStreamAndNotTheConnection) {
  RawClient wire{serve([](const Incoming& request, const ResponderPtr& out) {
    if (request.target == "/cut") {
      out->begin(200, "", {});
      out->write("half");
      return out->cut();
    }
    out->answer(200, "", {}, "whole");
  })};
  Http2Client client{wire};
  EXPECT_THAT(client.wait(client.request("GET", "/cut")).reset, Optional(internal_error));
  EXPECT_EQ(client.wait(client.request("GET", "/")).body, "whole");
}

TEST_F(Http2Server, SaysGoawayWhenItStops) {
  std::promise<ResponderPtr> asked;
  RawClient wire{
      serve([&](const Incoming&, ResponderPtr out) { asked.set_value(std::move(out)); })};
  Http2Client client{wire};
  client.request("GET", "/watch");
  const auto out = asked.get_future().get();
  server.stop();
  EXPECT_FALSE(client.read_until([] { return false; }));
  EXPECT_THAT(client.goaway(), Optional(no_error));
  EXPECT_TRUE(out->gone());
}

TEST_F(Http2Server, RefusesATooLargeBodyAndServesTheNextStream) {
  RawClient wire{serve(
      [](const Incoming& request, const ResponderPtr& out) {
        out->answer(200, "", {}, std::to_string(request.body.size()));
      },
      /*body_limit=*/1000)};
  Http2Client client{wire};
  const auto& refused = client.wait(client.request("POST", "/", {}, std::string(3'000'000, 'x')));
  EXPECT_EQ(refused.status(), "413");
  EXPECT_EQ(client.wait(client.request("POST", "/", {}, std::string(1000, 'x'))).body, "1000");
}

TEST_F(Http2Server, RefusesALargeHead) {
  RawClient wire{
      serve([](const Incoming&, const ResponderPtr& out) { out->answer(200, "", {}, ""); })};
  Http2Client client{wire};
  Headers many;
  for (int i = 0; i < 40; ++i) many.add("x-" + std::to_string(i), std::string(1500, 'x'));
  for (int i = 0; i < 40; ++i) many.add("y-" + std::to_string(i), std::string(500, 'y'));
  const auto& answer = client.wait(client.request("GET", "/", many));
  EXPECT_EQ(answer.status(), "431");
}

TEST_F(Http2Server, RefusesManySmallHeaders) {
  RawClient wire{
      serve([](const Incoming&, const ResponderPtr& out) { out->answer(200, "", {}, ""); })};
  Http2Client client{wire};
  for (const auto& [count, status] : {std::pair{200, "200"}, {300, "431"}}) {
    Headers many;
    for (int i = 0; i < count; ++i) many.add("x-" + std::to_string(i), "y");
    EXPECT_EQ(client.wait(client.request("GET", "/", many)).status(), status) << count;
  }
}

TEST_F(Http2Server, AHeaderBombOfReferencesIsBounded) {
  // One big entry in the HPACK table, then references to it: few bytes on the wire, many in memory.
  RawClient wire{
      serve([](const Incoming&, const ResponderPtr& out) { out->answer(200, "", {}, ""); })};
  Http2Client client{wire};
  Headers bomb;
  for (int i = 0; i < 1000; ++i) bomb.add("x-bomb", std::string(3000, 'x'));
  const auto stream = client.request("GET", "/", bomb);
  client.wait(stream);
  // 431, or the end of the stream or the connection: all but an answer to what was asked.
  EXPECT_NE(client.answer(stream).status(), "200");
}

TEST_F(Http2Server, EndsAClientThatResetsWithoutEnd) {
  RawClient wire{
      serve([](const Incoming&, const ResponderPtr& out) { out->answer(200, "", {}, ""); })};
  Http2Client client{wire};
  for (int i = 0; i < 2000 && !wire.was_reset(); ++i) client.reset(client.open("POST", "/"));
  client.read_until([] { return false; });
  EXPECT_THAT(client.goaway(), Optional(enhance_your_calm));
}

TEST_F(Http2Server, ConnectIsDeclined) {
  RawClient wire{serve([](const Incoming&, const ResponderPtr&) { FAIL() << "was handed over"; })};
  Http2Client client{wire};
  // By hand: nghttp2's client would add :scheme and :path, which CONNECT must not have.
  wire.send(
      std::string{"\x00\x00\x11\x01\x04\x00\x00\x00\x01"
                  "\x02\x07"
                  "CONNECT\x01\x06"
                  "a:6443",
                  9 + 17});
  client.read_until(
      [&] { return client.answer(1).ended || client.answer(1).reset || client.goaway(); });
  EXPECT_NE(client.answer(1).status(), "200");
}

TEST_F(Http2Server, GarbageAfterThePrefaceEndsTheConnection) {
  RawClient wire{serve([](const Incoming&, const ResponderPtr&) { FAIL() << "was handed over"; })};
  wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(100, 'x'));
  wire.read_all();  // ends; it would wait for ever otherwise
  RawClient late{server.port(1)};
  late.send("PRI * HTTP/1.1\r\n\r\n");
  EXPECT_THAT(late.read_all(), HasSubstr("400"));
}

}  // namespace
}  // namespace rocca::net
