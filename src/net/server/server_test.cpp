#include "net/server/server.hpp"

#include "base/error.hpp"
#include "net/server/server_test_client.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

namespace rocca::net {
namespace {

using namespace std::chrono_literals;
using test::Http2Client;
using test::RawClient;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using ResponderPtr = std::shared_ptr<Responder>;

constexpr std::string_view get = "GET / HTTP/1.1\r\nHost: test\r\n\r\n";

Server::Id listen(Server& server, Handler handler, const std::string& address = "127.0.0.1") {
  return server.listen({.address = address, .tls = {}, .handler = std::move(handler)});
}

void say_hello(const Incoming&, const ResponderPtr& out) {
  out->answer(200, "", {}, "hello");
}

TEST(Server, ListensOnLoopbackAddressesOfBothFamilies) {
  Server server;
  for (const std::string address : {"127.0.0.1", "127.3.4.5", "::1"}) {
    const auto id = listen(
        server,
        [](const Incoming& request, const ResponderPtr& out) {
          out->answer(200, "", {},
                      request.local_address + " " + std::to_string(request.local_port));
        },
        address);
    ASSERT_NE(server.port(id), 0U);
    RawClient client{server.port(id), address};
    client.send(get);
    EXPECT_THAT(client.read_answer(), EndsWith(address + " " + std::to_string(server.port(id))));
  }
}

TEST(Server, RefusesATakenAddressAndOneThatIsNone) {
  Server server;
  const auto id = listen(server, say_hello);
  const auto fault_of = [&](const std::string& address, unsigned port) {
    try {
      server.listen({.address = address, .port = port, .tls = {}, .handler = say_hello});
    } catch (const Error& error) {
      return error.fault();
    }
    return Fault::Bug;
  };
  EXPECT_EQ(fault_of("127.0.0.1", server.port(id)), Fault::Conflict);
  EXPECT_EQ(fault_of("localhost", 0), Fault::Usage);
  EXPECT_EQ(fault_of("127.0.0.1", 70000), Fault::Usage);
  EXPECT_THROW(server.port(id + 1), Error);
  EXPECT_THROW(server.listen({.address = "127.0.0.1", .tls = {}, .handler = {}}), Error);
}

TEST(Server, AnswersLaterFromAnyThread) {
  std::vector<std::jthread> threads;
  std::mutex mutex;
  Server server;
  const auto id = listen(server, [&](Incoming request, ResponderPtr out) {
    const std::lock_guard lock{mutex};
    threads.emplace_back([out = std::move(out), target = std::move(request.target)] {
      out->begin(200, "", {});
      for (int i = 0; i < 50; ++i) out->write(target);
      out->finish();
    });
  });
  std::vector<std::jthread> clients;
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&, i] {
      RawClient client{server.port(id)};
      client.send("GET /n" + std::to_string(i) +
                  " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
      const auto all = client.read_all();
      std::size_t count = 0;
      for (auto at = all.find("/n" + std::to_string(i)); at != std::string::npos;
           at = all.find("/n" + std::to_string(i), at + 1)) {
        ++count;
      }
      if (count == 50) ++right;
    });
  }
  clients.clear();
  EXPECT_EQ(right, 8);
}

TEST(Server, TheFirstAnswerDecides) {
  Server server;
  const auto id = listen(server, [](const Incoming&, const ResponderPtr& out) {
    out->answer(201, "", {}, "one");
    out->answer(202, "", {}, "two");
    out->begin(203, "", {});
    out->write("three");
    out->finish();
    out->cut();
  });
  RawClient client{server.port(id)};
  for (int i = 0; i < 2; ++i) {
    client.send(get);
    EXPECT_THAT(client.read_answer(), AllOf(StartsWith("HTTP/1.1 201 "), EndsWith("\r\n\r\none")));
  }
}

TEST(Server, AHandlerThatThrowsAnswers500AndTheNextRequestIsServed) {
  Server server;
  const auto id = listen(server, [](const Incoming& request, const ResponderPtr& out) {
    if (request.target == "/error") throw Error(Fault::Bug, "the lamp is broken");
    if (request.target == "/int") throw 7;
    out->answer(200, "", {}, "fine");
  });
  RawClient client{server.port(id)};
  client.send("GET /error HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_THAT(client.read_answer(), AllOf(StartsWith("HTTP/1.1 500 Internal Server Error"),
                                          EndsWith("the lamp is broken\n")));
  client.send("GET /int HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_THAT(client.read_answer(), StartsWith("HTTP/1.1 500 "));
  client.send("GET /fine HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_THAT(client.read_answer(), EndsWith("fine"));
}

TEST(Server, AResponderLetGoUnansweredAnswers500) {
  Server server;
  const auto id = listen(server, [](const Incoming&, const ResponderPtr&) {});
  RawClient client{server.port(id)};
  client.send(get);
  EXPECT_THAT(client.read_answer(), StartsWith("HTTP/1.1 500 "));
}

TEST(Server, ABegunResponderLetGoCutsItsStream) {
  Server server;
  const auto id = listen(server, [](const Incoming&, const ResponderPtr& out) {
    out->begin(200, "", {});
    out->write("half");
  });
  RawClient client{server.port(id)};
  client.send(get);
  EXPECT_THAT(client.read_all(), Not(EndsWith("0\r\n\r\n")));
  EXPECT_TRUE(client.was_reset());
}

TEST(Server, RunsPostedTasksAndTimersInOrder) {
  Server server;
  std::promise<std::vector<int>> done;
  std::vector<int> order;  // only touched on the loop's thread
  server.after(30ms, [&] {
    order.push_back(3);
    done.set_value(order);
  });
  server.after(10ms, [&] { order.push_back(2); });
  server.post([] { throw std::runtime_error("dropped"); });
  server.post([&] { order.push_back(1); });
  EXPECT_THAT(done.get_future().get(), ElementsAre(1, 2, 3));
}

TEST(Server, TellsWhenAClientLeavesBeforeItsAnswer) {
  Server server;
  for (const bool reset : {false, true}) {
    std::promise<ResponderPtr> asked;
    std::promise<void> gone;
    const auto id = listen(server, [&](const Incoming&, ResponderPtr out) {
      out->on_gone([&] { gone.set_value(); });
      out->begin(200, "", {});
      asked.set_value(std::move(out));
    });
    RawClient client{server.port(id)};
    client.send(get);
    const auto out = asked.get_future().get();
    EXPECT_THAT(client.read_until("\r\n\r\n"), HasSubstr("chunked"));
    EXPECT_FALSE(out->gone());
    reset ? client.break_off() : client.leave();
    gone.get_future().get();
    EXPECT_TRUE(out->gone());
    out->write("into the void");
    out->finish();
    std::promise<void> late;
    out->on_gone([] { FAIL() << "the answer was finished"; });
    server.post([&] { late.set_value(); });
    late.get_future().get();
    server.close(id);
  }
}

TEST(Server, OnGoneIsCalledAtOnceWhenTheClientHasAlreadyLeft) {
  Server server;
  std::promise<ResponderPtr> asked;
  const auto id =
      listen(server, [&](const Incoming&, ResponderPtr out) { asked.set_value(std::move(out)); });
  RawClient client{server.port(id)};
  client.send(get);
  const auto out = asked.get_future().get();
  server.close(id);
  EXPECT_TRUE(out->gone());
  std::promise<void> gone;
  out->on_gone([&] { gone.set_value(); });
  gone.get_future().get();
}

TEST(Server, ClosingAListenerEndsItsConnectionsAndNoOthers) {
  Server server;
  const auto first = listen(server, say_hello);
  const auto second = listen(server, say_hello);
  RawClient to_first{server.port(first)};
  RawClient to_second{server.port(second)};
  to_first.send(get);
  EXPECT_THAT(to_first.read_answer(), EndsWith("hello"));
  const auto port = server.port(first);
  server.close(first);
  EXPECT_THAT(to_first.read_all(), IsEmpty());
  EXPECT_THROW(RawClient{port}, std::runtime_error);
  to_second.send(get);
  EXPECT_THAT(to_second.read_answer(), EndsWith("hello"));
}

TEST(Server, AHandlerMayCloseItsOwnListener) {
  Server server;
  std::promise<Server::Id> own;
  const auto known = own.get_future().share();
  std::atomic<int> asked = 0;
  const auto id = listen(server, [&](const Incoming&, const ResponderPtr& out) {
    ++asked;
    server.close(known.get());
    out->answer(200, "", {}, "too late");
  });
  own.set_value(id);
  RawClient client{server.port(id)};
  client.send(std::string(get) + std::string(get));
  EXPECT_THAT(client.read_all(), IsEmpty());
  EXPECT_THROW(server.port(id), Error);
  server.stop();
  EXPECT_EQ(asked, 1) << "what waits behind it has nobody to answer it any more";
}

TEST(Server, AnAnsweredClientIsNotGone) {
  Server server;
  std::promise<ResponderPtr> asked;
  const auto id = listen(server, [&](const Incoming&, ResponderPtr out) {
    out->on_gone([] { ADD_FAILURE() << "it got its answer"; });
    out->answer(200, "", {}, "all");
    asked.set_value(std::move(out));
  });
  RawClient client{server.port(id)};
  client.send(get);
  EXPECT_THAT(client.read_answer(), EndsWith("all"));
  client.leave();
  const auto out = asked.get_future().get();
  server.stop();
  EXPECT_FALSE(out->gone());
  EXPECT_EQ(out->unsent(), 0U);
}

TEST(Server, StopEndsOpenStreamsAtOnce) {
  std::promise<ResponderPtr> asked;
  std::atomic<int> gone = 0;
  Server server;
  const auto id = listen(server, [&](const Incoming&, ResponderPtr out) {
    out->on_gone([&] { ++gone; });
    out->begin(200, "", {});
    asked.set_value(std::move(out));
  });
  RawClient client{server.port(id)};
  client.send(get);
  const auto out = asked.get_future().get();
  client.read_until("\r\n\r\n");
  server.stop();
  EXPECT_EQ(gone, 1);
  EXPECT_TRUE(out->gone());
  EXPECT_THAT(client.read_all(), IsEmpty());
  server.stop();
  out->write("late");
  server.post([] { FAIL() << "ran after the end"; });
  EXPECT_THROW(listen(server, say_hello), Error);
}

TEST(Server, StopsFromWithinAHandler) {
  Server server;
  const auto id = listen(server, [&](const Incoming&, const ResponderPtr&) { server.stop(); });
  RawClient client{server.port(id)};
  client.send(get);
  EXPECT_THAT(client.read_all(), IsEmpty());
  server.stop();
}

TEST(Server, StopsWhileOtherThreadsAnswerAndPost) {
  std::atomic<bool> over = false;
  std::promise<ResponderPtr> asked;
  auto server = std::make_unique<Server>();
  const auto id =
      listen(*server, [&](const Incoming&, ResponderPtr out) { asked.set_value(std::move(out)); });
  RawClient client{server->port(id)};
  client.send(get);
  auto out = asked.get_future().get();
  out->begin(200, "", {});
  std::promise<void> writing;
  std::jthread writer{[&, out] {
    out->write("first");
    writing.set_value();
    while (!over) out->write("x");
  }};
  writing.get_future().get();
  server.reset();
  over = true;
  EXPECT_TRUE(out->gone());
}

TEST(Server, CutsAStreamWhoseClientDoesNotRead) {
  Server server;
  std::promise<ResponderPtr> asked;
  std::promise<void> over;
  const auto id =
      listen(server, [&](const Incoming&, ResponderPtr out) { asked.set_value(std::move(out)); });
  RawClient client{server.port(id)};
  client.send(get);
  const auto out = asked.get_future().get();
  out->begin(200, "", {});
  const std::string block(1024 * 1024, 'x');
  std::size_t written = 0;
  // Two more than the limit and what the kernel's buffers take; without the limit this never ends.
  while (!out->gone() && written < 20 * Responder::stream_limit) {
    out->write(block);
    written += block.size();
    EXPECT_LE(out->unsent(), Responder::stream_limit + 2 * block.size());
  }
  EXPECT_LT(written, 20 * Responder::stream_limit);
  client.read_all();
  EXPECT_TRUE(client.was_reset());
}

}  // namespace
}  // namespace rocca::net
