#include "lab/services/factory.hpp"

#include "base/error.hpp"
#include "lab/services/image_bytes.hpp"
#include "lab/sim/wire.hpp"
#include "net/transport.hpp"

#include <gmock/gmock.h>

namespace rocca::lab {
namespace {

using ::testing::HasSubstr;

class Factory : public ::testing::Test {
 protected:
  Factory() {
    world.network().set_name("factory.lab", "192.0.2.80");
    world.network().add_address("192.0.2.80");
    world.network().open("192.0.2.80", 80, {"factory", std::nullopt, factory.handler()});
  }
  net::Answer send(const std::string& method, const std::string& path, std::string body = "") {
    net::Request request;
    request.method = method;
    request.url = "http://factory.lab" + path;
    if (!body.empty()) request.body = std::move(body);
    return net::fetch(wire, request);
  }

  World world;
  Wire wire{world};
  ImageFactory factory{"http://factory.lab"};
};

constexpr const char* agent =
    "customization:\n  systemExtensions:\n    officialExtensions: [siderolabs/qemu-guest-agent]\n";
constexpr const char* agent_id = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515";

TEST_F(Factory, GivesSchematicsTheirRealIds) {
  const net::Answer posted = send("POST", "/schematics", agent);
  EXPECT_EQ(posted.head.status, 201);
  EXPECT_THAT(posted.body, HasSubstr(agent_id));
  EXPECT_EQ(send("GET", std::string("/schematics/") + agent_id).head.status, 200);
  EXPECT_EQ(ImageFactory::read_schematic("{}").id,
            "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba");
}

TEST_F(Factory, RefusesUnknownKeysAndOwners) {
  EXPECT_THAT(send("POST", "/schematics", "something: 1\n").body,
              HasSubstr("line 1: field something not found in type schematic.Schematic"));
  EXPECT_EQ(send("POST", "/schematics", "owner: me\n").head.status, 400);
}

TEST_F(Factory, ServesImagesOfKnownSchematicsOnly) {
  const std::string path = std::string("/image/") + agent_id + "/v1.11.5/nocloud-amd64.raw.xz";
  EXPECT_EQ(send("GET", path).head.status, 404);
  factory.add(agent);
  const net::Answer image = send("GET", path);
  EXPECT_EQ(image.head.headers.find("Content-Length"), std::to_string(image.body.size()));
  EXPECT_THAT(std::string(*image.head.headers.find("Content-Disposition")),
              HasSubstr("nocloud-amd64.raw.xz"));
  EXPECT_EQ(send("GET", std::string("/image/") + agent_id + "/v1.11.5/nocloud-mips.raw").body,
            "invalid architecture: \"mips\"\n");
  factory.truncate = true;
  EXPECT_EQ(send("GET", path).body.size(), 9u);
}

TEST_F(Factory, HostsOfTheSimulationSeeWhatWouldBoot) {
  Web web;
  factory.serve(web);
  factory.add(agent);
  const auto file = web.find(std::string("http://factory.lab/image/") + agent_id +
                             "/v1.11.5/nocloud-amd64.raw.xz");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->image.identity, std::string("talos v1.11.5 nocloud ") + agent_id);
  EXPECT_EQ(file->compression, "xz");
  EXPECT_FALSE(web.find("http://factory.lab/image/none/v1.11.5/nocloud-amd64.raw.xz"));
}

TEST_F(Factory, WhoeverGetsTheBytesKnowsTheImage) {
  factory.add(agent);
  const std::string path = std::string("/image/") + agent_id + "/v1.11.5/nocloud-amd64.";
  for (const char* kind : {"qcow2", "raw"}) {
    const auto known = recognise_image(send("GET", path + kind).body);
    ASSERT_TRUE(known) << kind;
    EXPECT_EQ(known->image.format, kind);
    EXPECT_EQ(known->image.identity, std::string("talos v1.11.5 nocloud ") + agent_id);
    EXPECT_GT(known->image.virtual_size, 1u << 30);
  }
  EXPECT_FALSE(recognise_image(send("GET", path + "raw.gz").body));
  std::string damaged = send("GET", path + "qcow2").body;
  damaged.back() = '!';
  EXPECT_FALSE(recognise_image(damaged));
  EXPECT_FALSE(recognise_image(damaged.substr(0, 9)));
}

TEST_F(Factory, ListsVersionsAndExtensions) {
  EXPECT_THAT(send("GET", "/versions").body, HasSubstr("\"v1.13.0\""));
  EXPECT_THAT(send("GET", "/versions").body, HasSubstr("\"v1.10.4\""));
  EXPECT_THAT(send("GET", "/version/v1.11.5/extensions/official").body,
              testing::AllOf(HasSubstr("siderolabs/tailscale"), HasSubstr("siderolabs/zfs"),
                             testing::Not(HasSubstr("siderolabs/multipath-tools"))));
  EXPECT_EQ(send("GET", "/version/v9.9.9/extensions/official").head.status, 404);
}

}  // namespace
}  // namespace rocca::lab
