#include "factory/client.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

#include <functional>

namespace rocca::factory {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FakeFactory final : public net::Transport {
 public:
  using Script = std::function<net::Answer(const net::Request&)>;
  explicit FakeFactory(Script script) : script_(std::move(script)) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token) override {
    requests.push_back(request);
    const net::Answer answer = script_(request);
    sink.begin(answer.head);
    for (std::size_t at = 0; at < answer.body.size(); at += piece)
      if (!sink.write(std::string_view(answer.body).substr(at, piece))) break;
    return answer.head;
  }
  std::vector<net::Request> requests;
  std::size_t piece = 1000;

 private:
  Script script_;
};

net::Answer answer(int status, std::string body, net::Headers headers = {}) {
  net::Answer result;
  result.head.status = status;
  result.head.headers = std::move(headers);
  result.body = std::move(body);
  return result;
}

const Schematic guest_agent = [] {
  Schematic schematic;
  schematic.extensions = {"siderolabs/qemu-guest-agent"};
  return schematic;
}();

TEST(Image, HasItsPath) {
  EXPECT_EQ(image_path("ID", {1, 11, 5}, {}), "/image/ID/v1.11.5/nocloud-amd64.qcow2");
  EXPECT_EQ(image_path("ID", {1, 11, 5}, {Platform::Metal, "arm64", "iso", true}),
            "/image/ID/v1.11.5/metal-arm64-secureboot.iso");
}

TEST(Factory, SendsTheBytesThatAreHashedAndComparesTheId) {
  FakeFactory right{
      [](const net::Request&) { return answer(201, "{\"id\":\"" + guest_agent.id() + "\"}"); }};
  EXPECT_EQ(Client(right, "https://factory.talos.dev/").register_schematic(guest_agent),
            guest_agent.id());
  EXPECT_EQ(std::get<std::string>(right.requests[0].body), guest_agent.canonical());
  EXPECT_EQ(right.requests[0].url, "https://factory.talos.dev/schematics");
  FakeFactory other{[](const net::Request&) { return answer(201, R"({"id":"0000"})"); }};
  EXPECT_THROW(Client(other, "https://factory.talos.dev").register_schematic(guest_agent), Error);
}

TEST(Factory, FollowsToTheContentNetworkAndTellsTheSize) {
  FakeFactory server{[](const net::Request& request) {
    if (request.url.find("cdn") == std::string::npos)
      return answer(302, "", {{"Location", "https://cdn.example/x"}});
    return answer(200, "", {{"Content-Length", "1306525696"}});
  }};
  const ImageFacts facts = Client(server, "https://factory.talos.dev")
                               .image("ID", {1, 11, 5}, {}, std::chrono::minutes{5});
  EXPECT_EQ(facts.size, Bytes{1306525696});
  EXPECT_EQ(facts.url, "https://factory.talos.dev/image/ID/v1.11.5/nocloud-amd64.qcow2")
      << "the pinned URL is the factory's, a CDN's expires";
  FakeFactory circle{[](const net::Request&) {
    return answer(302, "", {{"Location", "https://factory.talos.dev/again"}});
  }};
  EXPECT_THROW(Client(circle, "https://factory.talos.dev")
                   .image("ID", {1, 11, 5}, {}, std::chrono::minutes{5}),
               Error);
}

TEST(Digest, IsOfTheBytesThatCameInWhateverPieces) {
  FakeFactory server{[](const net::Request& request) {
    if (request.url.find("cdn") == std::string::npos)
      return answer(307, "not here", {{"Location", "https://cdn.example/x"}});
    return answer(200, "abc", {{"Content-Length", "3"}});
  }};
  server.piece = 2;
  std::vector<std::uint64_t> heard;
  const ImageDigest found =
      Client(server, "https://factory.talos.dev")
          .digest("ID", {1, 11, 5}, {}, [&](Bytes so_far, std::optional<Bytes> all) {
            EXPECT_EQ(all, Bytes{3});
            heard.push_back(so_far.count());
          });
  EXPECT_EQ(found.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(found.size, Bytes{3});
  EXPECT_THAT(heard, ElementsAre(2, 3)) << "and nothing of the page that sent us on";
  EXPECT_EQ(server.requests[0].url,
            "https://factory.talos.dev/image/ID/v1.11.5/nocloud-amd64.qcow2");
  for (const net::Request& request : server.requests) {
    EXPECT_EQ(request.method, "GET");
    EXPECT_TRUE(request.idle_timeout) << "a silent line must not hold us for hours";
  }
}

TEST(Digest, OfWhatDidNotComeWholeIsNone) {
  FakeFactory cut{[](const net::Request&) {
    return answer(200, "abc", {{"Content-Length", "4"}});
  }};
  try {
    Client(cut, "https://factory.talos.dev").digest("ID", {1, 11, 5}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Lost);
    EXPECT_THAT(error.message(), HasSubstr("3 bytes of /image/ID"));
  }
  FakeFactory refusing{[](const net::Request&) {
    return answer(404, "no such version" + std::string(1 << 20, 'x'),
                  {{"Content-Type", "text/plain"}});
  }};
  try {
    Client(refusing, "https://factory.talos.dev").digest("ID", {1, 11, 5}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::NotFound);
    EXPECT_THAT(error.message(), HasSubstr("no such version"));
    EXPECT_LT(error.message().size(), 1000u);
  }
  FakeFactory circle{[](const net::Request&) {
    return answer(302, "", {{"Location", "https://factory.talos.dev/again"}});
  }};
  EXPECT_THROW(Client(circle, "https://factory.talos.dev").digest("ID", {1, 11, 5}, {}), Error);
}

TEST(Factory, SaysWhatItWasRefused) {
  FakeFactory server{[](const net::Request&) {
    return answer(404, "schematic not found\n", {{"Content-Type", "text/plain"}});
  }};
  Client client{server, "https://factory.talos.dev"};
  EXPECT_FALSE(client.knows("ID"));
  try {
    client.extensions({1, 99, 0});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::NotFound);
    EXPECT_THAT(error.message(), HasSubstr("schematic not found"));
  }
}

TEST(Factory, ListsVersionsAndExtensions) {
  FakeFactory server{[](const net::Request& request) {
    if (request.url.ends_with("/versions"))
      return answer(200, R"(["v1.11.5","v1.12.0-beta.1","nonsense"])");
    return answer(200, R"([{"name":"siderolabs/iscsi-tools","ref":"r","digest":"sha256:x"}])");
  }};
  Client client{server, "https://factory.talos.dev"};
  EXPECT_THAT(client.versions(), ElementsAre(Version{1, 11, 5}, Version{1, 12, 0, "beta.1"}));
  EXPECT_EQ(client.extensions({1, 11, 5}).front().name, "siderolabs/iscsi-tools");
}

TEST(Factory, RefusesAUrlThatIsNone) {
  FakeFactory server{[](const net::Request&) { return answer(200, ""); }};
  EXPECT_THROW(Client(server, "factory.talos.dev"), Error);
}

}  // namespace
}  // namespace rocca::factory
