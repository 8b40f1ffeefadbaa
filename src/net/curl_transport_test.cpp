#include "net/curl_transport.hpp"

#include "base/error.hpp"
#include "net/net_test_server.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <latch>
#include <map>

namespace rocca::net {
namespace {

using namespace std::chrono_literals;
using test::Connection;
using test::http_answer;
using test::TestServer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// A transport that knows no proxy, whatever the machine's environment says.
class Curl : public ::testing::Test {
 protected:
  Curl() {
    for (const char* name : {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
                             "no_proxy", "NO_PROXY"})
      unsetenv(name);
  }

  Error error_of(const Request& request, std::stop_token stop = {}) {
    MemorySink sink;
    return error_of(request, sink, std::move(stop));
  }

  Error error_of(const Request& request, BodySink& sink, std::stop_token stop = {}) {
    try {
      transport_.exchange(request, sink, std::move(stop));
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "no error came";
    return {Fault::Bug, "none"};
  }

  CurlTransport transport_;
};

Request get(std::string url) {
  Request request;
  request.url = std::move(url);
  return request;
}

Request send_text(std::string method, std::string url, std::string body) {
  Request request;
  request.method = std::move(method);
  request.url = std::move(url);
  request.body = std::move(body);
  return request;
}

// ---- answers ----

struct StatusLine {
  const char* name;
  std::string line;
  int status;
  std::string reason;
};

class ReasonPhrase : public Curl, public ::testing::WithParamInterface<StatusLine> {};

TEST_P(ReasonPhrase, IsKeptByteByByte) {
  TestServer server([](Connection& connection) {
    connection.read_request();
    connection.send(http_answer("x", GetParam().line));
  });
  const Answer answer = fetch(transport_, get(server.url()));
  EXPECT_EQ(answer.head.status, GetParam().status);
  EXPECT_EQ(answer.head.reason, GetParam().reason);
  EXPECT_EQ(answer.head.version, HttpVersion::Http1);
  EXPECT_EQ(answer.body, "x");
}

INSTANTIATE_TEST_SUITE_P(
    Table, ReasonPhrase,
    ::testing::Values(
        StatusLine{"Usual", "HTTP/1.1 200 OK", 200, "OK"},
        StatusLine{"Sentence", "HTTP/1.1 500 VM 104 not running", 500, "VM 104 not running"},
        StatusLine{"Empty", "HTTP/1.1 403 ", 403, ""},
        StatusLine{"Missing", "HTTP/1.1 404", 404, ""},
        StatusLine{"Latin1", "HTTP/1.1 400 caf\xe9", 400, "caf\xe9"},
        StatusLine{"Utf8", "HTTP/1.1 400 caf\xc3\xa9 \xe2\x80\x9cx\xe2\x80\x9d", 400,
                   "caf\xc3\xa9 \xe2\x80\x9cx\xe2\x80\x9d"},
        StatusLine{"Blanks", "HTTP/1.1 500  two  blanks ", 500, " two  blanks "},
        StatusLine{"OwnStatus", "HTTP/1.1 596 Connection timed out", 596, "Connection timed out"}),
    [](const auto& row) { return row.param.name; });

TEST_F(Curl, SkipsInterimAnswersAndKeepsRepeatedHeaders) {
  TestServer server([](Connection& connection) {
    connection.read_request();
    connection.send(
        "HTTP/1.1 100 Continue\r\nX-Early: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        "HTTP/1.1 200 Fine\r\nSet-Cookie: a=1\r\nset-cookie:b=2 \r\nContent-Length: 0\r\n\r\n");
  });
  const Answer answer = fetch(transport_, get(server.url()));
  EXPECT_EQ(answer.head.status, 200);
  EXPECT_EQ(answer.head.reason, "Fine");
  EXPECT_THAT(answer.head.headers,
              ElementsAre(Header{"Set-Cookie", "a=1"}, Header{"set-cookie", "b=2"},
                          Header{"Content-Length", "0"}));
}

TEST_F(Curl, GivesTrailersApartFromHeaders) {
  TestServer server([](Connection& connection) {
    connection.read_request();
    connection.send(
        "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n");
  });
  const Answer answer = fetch(transport_, get(server.url()));
  EXPECT_EQ(answer.body, "abc");
  EXPECT_THAT(answer.head.trailers, ElementsAre(Header{"X-Sum", "7"}));
  EXPECT_FALSE(answer.head.headers.find("x-sum").has_value());
}

TEST_F(Curl, FollowsNothingRemembersNoCookieAndUnpacksNothing) {
  std::vector<std::string> heads;
  TestServer server([&](Connection& connection) {
    while (const auto seen = connection.read_request()) {
      heads.push_back(seen->head);
      connection.send(
          "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nSet-Cookie: a=1\r\nContent-Encoding: "
          "gzip\r\n"
          "Content-Length: 3\r\n\r\nraw");
    }
  });
  EXPECT_EQ(fetch(transport_, get(server.url("/one"))).head.status, 302);
  EXPECT_EQ(fetch(transport_, get(server.url("/two"))).body, "raw");
  ASSERT_EQ(heads.size(), 2U);
  EXPECT_THAT(heads[1], AllOf(HasSubstr("GET /two HTTP/1.1\r\n"), Not(HasSubstr("ookie")),
                              Not(HasSubstr("ccept-Encoding"))));
}

TEST_F(Curl, HeadHasNoBodyAndBeginsTheSinkAllTheSame) {
  TestServer server([](Connection& connection) {
    connection.read_request();
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
  });
  struct Sink final : BodySink {
    void begin(const Response& head) override { statuses.push_back(head.status); }
    bool write(std::string_view) override { return true; }
    std::vector<int> statuses;
  } sink;
  Request request = get(server.url());
  request.method = "HEAD";
  EXPECT_EQ(transport_.exchange(request, sink, {}).headers.find("content-length"), "1000");
  EXPECT_THAT(sink.statuses, ElementsAre(200));
}

// ---- requests ----

TEST_F(Curl, SendsWhatItWasToldAndNothingOfItsOwn) {
  std::string head;
  std::string body;
  TestServer server([&](Connection& connection) {
    const auto seen = connection.read_request().value();
    head = seen.head;
    body = seen.body;
    connection.send(http_answer(""));
  });
  Request request = send_text("POST", server.url("/a/../b?x=%20"), std::string(3 << 20, 'z'));
  request.headers = {{"X-One", "1"}, {"X-Empty", ""}, {"X-One", "2"}};
  request.authorization = Secret("PVEAPIToken=a@b!c=d");
  EXPECT_EQ(fetch(transport_, request).head.status, 200);
  EXPECT_THAT(
      head,
      AllOf(HasSubstr("POST /a/../b?x=%20 HTTP/1.1\r\n"), HasSubstr("\r\nX-One: 1\r\n"),
            HasSubstr("\r\nX-One: 2\r\n"), HasSubstr("\r\nX-Empty:\r\n"),
            HasSubstr("\r\nAuthorization: PVEAPIToken=a@b!c=d\r\n"),
            HasSubstr("\r\nUser-Agent: rocca\r\n"), HasSubstr("\r\nContent-Length: 3145728\r\n")));
  EXPECT_THAT(head, AllOf(Not(HasSubstr("Expect")), Not(HasSubstr("Content-Type"))));
  EXPECT_EQ(body, std::string(3 << 20, 'z'));
}

TEST_F(Curl, AnEmptyPostHasALengthAndADeleteHasNone) {
  std::vector<std::string> heads;
  TestServer server([&](Connection& connection) {
    heads.push_back(connection.read_request().value().head);
    connection.send(http_answer(""));
  });
  Request request = get(server.url());
  request.method = "POST";
  fetch(transport_, request);
  request.method = "DELETE";
  fetch(transport_, request);
  ASSERT_EQ(heads.size(), 2U);
  EXPECT_THAT(heads[0], AllOf(HasSubstr("POST / "), HasSubstr("Content-Length: 0\r\n")));
  EXPECT_THAT(heads[1], AllOf(HasSubstr("DELETE / "), Not(HasSubstr("Content-Length"))));
}

/// A body of `left` bytes, with or without telling its size.
class Source final : public BodySource {
 public:
  Source(std::size_t size, bool tell)
      : left_(size), size_(tell ? std::optional(size) : std::nullopt) {}
  std::optional<std::uint64_t> size() const override { return size_; }
  std::size_t read(std::span<char> out) override {
    const std::size_t count = std::min(left_, out.size());
    std::fill_n(out.begin(), count, 'y');
    left_ -= count;
    return count;
  }

 private:
  std::size_t left_;
  std::optional<std::uint64_t> size_;
};

TEST_F(Curl, StreamsABodyOfKnownAndOfUnknownSize) {
  std::vector<Connection::Seen> requests;
  TestServer server([&](Connection& connection) {
    requests.push_back(connection.read_request().value());
    connection.send(http_answer(""));
  });
  for (const bool tell : {true, false}) {
    Request request = get(server.url());
    request.method = "PUT";
    request.body = std::make_shared<Source>(200'000, tell);
    EXPECT_EQ(fetch(transport_, request).head.status, 200);
  }
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].body, std::string(200'000, 'y'));
  EXPECT_EQ(requests[1].body, std::string(200'000, 'y'));
  EXPECT_THAT(requests[0].head, HasSubstr("Content-Length: 200000"));
  EXPECT_THAT(requests[1].head, HasSubstr("Transfer-Encoding: chunked"));
}

TEST_F(Curl, WhatASourceThrowsComesOutAsItIs) {
  TestServer server([](Connection& connection) { connection.wait_for_leave(); });
  struct Bad final : BodySource {
    std::optional<std::uint64_t> size() const override { return 10; }
    std::size_t read(std::span<char>) override { throw Error(Fault::NotFound, "the disk is gone"); }
  };
  Request request = get(server.url());
  request.method = "PUT";
  request.body = std::make_shared<Bad>();
  const Error error = error_of(request);
  EXPECT_EQ(error.fault(), Fault::NotFound);
  EXPECT_EQ(error.message(), "the disk is gone");
}

TEST_F(Curl, RefusesWhatWouldBecomeASecondRequest) {
  Request request = get("http://127.0.0.1:1/");
  request.headers = {{"X", "1\r\nEvil: 2"}};
  EXPECT_EQ(error_of(request).fault(), Fault::Usage);
  request.headers = {{"X: 1\r\nEvil", "2"}};
  EXPECT_EQ(error_of(request).fault(), Fault::Usage);
  request.headers = {};
  request.authorization = Secret("secret\r\nEvil: 2");
  const Error error = error_of(request);
  EXPECT_EQ(error.fault(), Fault::Usage);
  EXPECT_THAT(error.render(), Not(HasSubstr("secret")));
  request.authorization.reset();
  request.method = "GET / HTTP/1.1\r\nEvil: 2\r\n\r\nGET";
  EXPECT_EQ(error_of(request).fault(), Fault::Usage);
  EXPECT_EQ(error_of(get("http://127.0.0.1:1/x HTTP/1.1")).fault(), Fault::Usage);
  EXPECT_EQ(error_of(get("file:///etc/passwd")).fault(), Fault::Usage);
}

// ---- reuse, and what is never sent twice ----

TEST_F(Curl, ReusesTheConnectionForGet) {
  TestServer server(test::always("hi"));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(fetch(transport_, get(server.url())).body, "hi");
  EXPECT_EQ(server.connections(), 1U);
  EXPECT_EQ(fetch(transport_, send_text("POST", server.url(), "x")).body, "hi");
  EXPECT_EQ(server.connections(), 2U);
  EXPECT_EQ(fetch(transport_, get(server.url())).body, "hi");
  EXPECT_EQ(server.connections(), 2U);
}

TEST_F(Curl, ReusesTheConnectionForAPostThatOnlyReads) {
  TestServer server(test::always("hi"));
  Request request = send_text("POST", server.url(), "x");
  request.reads = true;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(fetch(transport_, request).body, "hi");
  EXPECT_EQ(server.connections(), 1U);
}

struct Drop {
  const char* method;
  bool reset;
};

class ActsThenDrops : public Curl, public ::testing::WithParamInterface<Drop> {};

TEST_P(ActsThenDrops, SeesTheRequestExactlyOnceAndWeCallItLost) {
  std::mutex mutex;
  std::map<std::string, int> seen;
  TestServer server([&](Connection& connection) {
    while (const auto request = connection.read_request()) {
      {
        const std::lock_guard lock(mutex);
        ++seen[request->method()];
      }
      if (request->method() != "GET") {  // it acted; nobody hears of it
        if (GetParam().reset) connection.reset();
        return;
      }
      connection.send(http_answer("kept"));
    }
  });
  ASSERT_EQ(fetch(transport_, get(server.url())).body, "kept");
  for (int i = 1; i <= 3; ++i) {
    ASSERT_EQ(fetch(transport_, get(server.url())).body, "kept");
    EXPECT_EQ(error_of(send_text(GetParam().method, server.url("/act?token=abc"), "x")).fault(),
              Fault::Lost);
    const std::lock_guard lock(mutex);
    EXPECT_EQ(seen[GetParam().method], i);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, ActsThenDrops,
                         ::testing::Values(Drop{"POST", false}, Drop{"PUT", false},
                                           Drop{"DELETE", false}, Drop{"PATCH", false},
                                           Drop{"POST", true}, Drop{"PUT", true},
                                           Drop{"DELETE", true}),
                         [](const auto& row) {
                           return std::string(row.param.method) +
                                  (row.param.reset ? "Reset" : "Closed");
                         });

TEST_F(Curl, AGetMayBeRepeatedOnANewConnection) {
  std::atomic<int> gets = 0;
  TestServer server([&](Connection& connection) {
    while (connection.read_request()) {
      if (++gets == 2) return;  // the kept connection dies under the second one
      connection.send(http_answer("fine"));
    }
  });
  EXPECT_EQ(fetch(transport_, get(server.url())).body, "fine");
  EXPECT_EQ(fetch(transport_, get(server.url())).body, "fine");
  EXPECT_EQ(gets, 3);
}

TEST_F(Curl, APostThatOnlyReadsIsSentWholeOnANewConnection) {
  std::atomic<int> posts = 0;
  std::string last;
  TestServer server([&](Connection& connection) {
    while (const auto request = connection.read_request()) {
      if (++posts == 2) return;  // the kept connection dies under the second one
      last = request->body;
      connection.send(http_answer("fine"));
    }
  });
  Request request = send_text("POST", server.url(), "all of it");
  request.reads = true;
  EXPECT_EQ(fetch(transport_, request).body, "fine");
  EXPECT_EQ(fetch(transport_, request).body, "fine");
  EXPECT_EQ(posts, 3);
  EXPECT_EQ(last, "all of it");
}

// ---- no answer ----

TEST_F(Curl, AClosedPortIsUnreachable) {
  unsigned port = 0;
  { port = TestServer(test::always("")).port(); }
  const Error error = error_of(send_text("POST", fmt::format("http://127.0.0.1:{}/x", port), "x"));
  EXPECT_EQ(error.fault(), Fault::Unreachable);
  EXPECT_EQ(error.message(),
            fmt::format("cannot reach http://127.0.0.1:{}: connection refused", port));
}

struct Broken {
  const char* name;
  const char* answer;
  const char* says;
};

class BrokenAnswer : public Curl, public ::testing::WithParamInterface<Broken> {};

TEST_P(BrokenAnswer, IsLost) {
  TestServer server([](Connection& connection) {
    connection.read_request();
    connection.send(GetParam().answer);
  });
  const Error error = error_of(send_text("POST", server.url("/act?token=abc"), "x"));
  EXPECT_EQ(error.fault(), Fault::Lost);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("POST " + server.url("/act")), HasSubstr(GetParam().says)));
  EXPECT_THAT(error.render(), Not(HasSubstr("token"))) << "a query may hold a secret";
}

INSTANTIATE_TEST_SUITE_P(
    Table, BrokenAnswer,
    ::testing::Values(
        Broken{"Nothing", "", "closed before an answer came"},
        Broken{"HalfAHead", "HTTP/1.1 200 OK\r\nContent-", "was lost"},
        Broken{"HalfABody", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", "in the middle"},
        Broken{"HalfAChunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
               "in the middle"},
        Broken{"NotHttp", "SSH-2.0-OpenSSH_9.2p1 Debian\r\n", "not HTTP"},
        Broken{"OnlyInterim", "HTTP/1.1 100 Continue\r\n\r\n", "was lost"}),
    [](const auto& row) { return row.param.name; });

TEST_F(Curl, NoAnswerInTimeIsLost) {
  TestServer server([](Connection& connection) { connection.wait_for_leave(); });
  Request request = get(server.url());
  request.timeout = 40ms;
  const Error error = error_of(request);
  EXPECT_EQ(error.fault(), Fault::Lost);
  EXPECT_THAT(error.message(), HasSubstr("did not come within 40ms"));
}

TEST_F(Curl, ASilentBodyEndsAfterTheIdleTime) {
  TestServer server([](Connection& connection) {
    connection.read_request();
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
    connection.wait_for_leave();
  });
  Request request = get(server.url());
  request.timeout.reset();
  request.idle_timeout = 40ms;
  MemorySink sink;
  const Error error = error_of(request, sink);
  EXPECT_EQ(error.fault(), Fault::Lost);
  EXPECT_THAT(error.message(), HasSubstr("nothing came for 40ms"));
  EXPECT_EQ(sink.text(), "abc");
}

TEST_F(Curl, AHandshakeThatNeverEndsIsUnreachable) {
  TestServer server([](Connection& connection) { connection.wait_for_leave(); });
  Request request = get(fmt::format("https://127.0.0.1:{}/", server.port()));
  request.method = "POST";
  request.connect_timeout = 40ms;
  const Error error = error_of(request);
  EXPECT_EQ(error.fault(), Fault::Unreachable);
  EXPECT_THAT(error.message(), HasSubstr("no connection within 40ms"));
}

// ---- cancelling: the transport's own waits are a minute long, so a missed wake-up fails by
// CTest's limit ----

TEST_F(Curl, AStopEndsAWaitForAnAnswer) {
  std::stop_source stop;
  std::latch waiting(1);
  TestServer server([&](Connection& connection) {
    connection.read_request();
    if (connection.number() == 1) waiting.count_down();
    connection.wait_for_leave();
  });
  std::jthread canceller([&] {
    waiting.wait();
    // curl looks around once more 200 ms after connecting. The deadline of another exchange is
    // later than that, so from here on nothing but the stop can wake the first one.
    Request other = get(server.url());
    other.timeout = 300ms;
    MemorySink sink;
    EXPECT_THROW(CurlTransport().exchange(other, sink, {}), Error);
    stop.request_stop();
  });
  Request request = get(server.url());
  request.timeout.reset();
  request.connect_timeout = 1h;  // this timer runs on after connecting
  EXPECT_EQ(error_of(request, stop.get_token()).fault(), Fault::Interrupted);
}

TEST_F(Curl, AStopEndsAStream) {
  std::stop_source stop;
  TestServer server([&](Connection& connection) {
    connection.read_request();
    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    connection.wait_for_leave();
  });
  struct Sink final : BodySink {
    explicit Sink(std::stop_source& source) : stop(source) {}
    bool write(std::string_view) override {
      stop.request_stop();
      return true;
    }
    std::stop_source& stop;
  } sink(stop);
  Request request = get(server.url());
  request.timeout.reset();
  EXPECT_EQ(error_of(request, sink, stop.get_token()).fault(), Fault::Interrupted);
}

TEST_F(Curl, AStopEndsAHandshake) {
  std::stop_source stop;
  TestServer server([&](Connection& connection) {
    stop.request_stop();
    connection.wait_for_leave();
  });
  Request request = get(fmt::format("https://127.0.0.1:{}/", server.port()));
  request.connect_timeout = 10min;
  request.timeout.reset();
  EXPECT_EQ(error_of(request, stop.get_token()).fault(), Fault::Interrupted);
}

TEST_F(Curl, AStopThatCameBeforeSendsNothing) {
  TestServer server(test::always(""));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(error_of(get(server.url()), stop.get_token()).fault(), Fault::Interrupted);
  EXPECT_EQ(server.connections(), 0U);
}

// ---- sinks ----

TEST_F(Curl, ASinkThatHadEnoughEndsWithoutAnError) {
  TestServer server([](Connection& connection) {
    connection.read_request();
    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n3\r\nabc\r\n");
    connection.wait_for_leave();
  });
  struct Sink final : BodySink {
    void begin(const Response& head) override {
      calls.push_back(fmt::format("begin {}", head.status));
    }
    bool write(std::string_view bytes) override {
      calls.emplace_back(bytes);
      return false;
    }
    std::vector<std::string> calls;
  } sink;
  EXPECT_EQ(transport_.exchange(get(server.url()), sink, {}).headers.find("X"), "y");
  EXPECT_THAT(sink.calls, ElementsAre("begin 200", "abc"));
}

TEST_F(Curl, WhatASinkThrowsComesOutAsItIs) {
  TestServer server(test::always("abc"));
  MemorySink small(2);
  const Error error = error_of(get(server.url()), small);
  EXPECT_EQ(error.fault(), Fault::Rejected);
  struct Early final : BodySink {
    void begin(const Response&) override { throw std::logic_error("at the head"); }
    bool write(std::string_view) override { return true; }
  } early;
  EXPECT_THROW(transport_.exchange(get(server.url()), early, {}), std::logic_error);
}

// ---- proxies ----

TEST_F(Curl, AsksTheProxyOfTheEnvironmentThatItWasMadeIn) {
  std::string head;
  TestServer proxy([&](Connection& connection) {
    head = connection.read_request().value().head;
    connection.send(http_answer("by proxy"));
  });
  setenv("http_proxy", proxy.url().c_str(), 1);
  CurlTransport proxied;
  unsetenv("http_proxy");
  EXPECT_EQ(fetch(proxied, get("http://example.invalid/x")).body, "by proxy");
  EXPECT_THAT(head, HasSubstr("GET http://example.invalid/x HTTP/1.1\r\n"));
}

TEST_F(Curl, AProxyThatRefusesTheTunnelSeesNoHeaderOfOurs) {
  std::string head;
  TestServer proxy([&](Connection& connection) {
    head = connection.read_request().value().head;
    connection.send(http_answer("", "HTTP/1.1 403 Not today"));
  });
  setenv("HTTPS_PROXY", proxy.url().c_str(), 1);
  CurlTransport proxied;
  unsetenv("HTTPS_PROXY");
  Request request = send_text("POST", "https://example.invalid/x", "body");
  request.authorization = Secret("hidden");
  MemorySink sink;
  try {
    proxied.exchange(request, sink, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Unreachable) << "the proxy was asked, the server was not";
    EXPECT_THAT(error.message(), AllOf(HasSubstr("through the proxy"), HasSubstr("403")));
    EXPECT_THAT(error.hint(), HasSubstr("the proxy does not let us there"));
  }
  EXPECT_THAT(head, AllOf(HasSubstr("CONNECT example.invalid:443"), Not(HasSubstr("hidden"))));
}

TEST_F(Curl, ACredentialDoesNotLeaveThisMachineInClear) {
  bool asked = false;
  TestServer proxy([&](Connection& connection) {
    asked = true;
    connection.send(http_answer(""));
  });
  setenv("http_proxy", proxy.url().c_str(), 1);
  CurlTransport proxied;
  unsetenv("http_proxy");
  Request request = get("http://example.invalid/x");
  request.authorization = Secret("hidden");
  MemorySink sink;
  try {
    proxied.exchange(request, sink, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Refused);
    EXPECT_THAT(error.hint(), HasSubstr("plainHttp"));
  }
  EXPECT_FALSE(asked);
}

TEST_F(Curl, AProxyOverTlsIsRefusedInWords) {
  setenv("https_proxy", "https://proxy.invalid:8443", 1);
  CurlTransport proxied;
  unsetenv("https_proxy");
  MemorySink sink;
  try {
    proxied.exchange(get("https://example.invalid/"), sink, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
    EXPECT_THAT(error.hint(), HasSubstr("HTTPS_PROXY"));
  }
}

// ---- many at once ----

TEST_F(Curl, SixtyFourThreadsOnManyEndpointsGetTheirOwnAnswers) {
  const test::Authority authority;
  TestServer::Options tls;
  tls.tls = authority.issue({"127.0.0.1"});
  std::vector<std::unique_ptr<TestServer>> servers;
  for (int i = 0; i < 6; ++i)
    servers.push_back(std::make_unique<TestServer>(i % 2 == 0 ? TestServer::Options{} : tls,
                                                   test::always(std::to_string(i))));
  std::atomic<int> right = 0;
  std::latch start(64);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 64; ++t)
      threads.emplace_back([&, t] {
        start.arrive_and_wait();
        for (std::size_t round = 0; round < 4; ++round) {
          const std::size_t which = (t + round) % servers.size();
          Request request = get(servers[which]->url());
          if (round == 3) request.method = "POST";
          request.tls =
              t % 3 == 0 ? Tls::pinned(tls.tls->fingerprint) : Tls::authority(authority.pem());
          if (fetch(transport_, request).body == std::to_string(which)) ++right;
        }
      });
  }
  EXPECT_EQ(right, 64 * 4);
}

}  // namespace
}  // namespace rocca::net
