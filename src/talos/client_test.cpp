#include "talos/client.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "proto/common.pb.h"
#include "proto/etcd.pb.h"
#include "proto/lifecycle.pb.h"
#include "proto/machine.pb.h"
#include "talos/waits.hpp"

#include <gmock/gmock.h>

namespace rocca::talos {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Answers gRPC calls by a function of the method and the request's bytes; keeps what was asked.
class FakeNode final : public net::Transport {
 public:
  struct Reply {
    int code = 0;
    std::string message;
    std::vector<std::string> messages;
  };
  using Script = std::function<Reply(const std::string& method, const net::Request&)>;
  explicit FakeNode(Script script) : script_(std::move(script)) {}

  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token) override {
    requests.push_back(request);
    const auto url = net::Url::parse(request.url);
    const Reply reply = script_(url->target, request);
    net::Response response;
    response.status = 200;
    response.version = net::HttpVersion::Http2;
    response.headers.add("content-type", "application/grpc");
    sink.begin(response);
    for (const std::string& message : reply.messages)
      if (!sink.write(net::grpc_frame(message))) break;
    response.trailers.add("grpc-status", std::to_string(reply.code));
    response.trailers.add("grpc-message", percent_encode(reply.message));
    return response;
  }

  std::vector<net::Request> requests;

 private:
  Script script_;
};

template <class Message>
Message sent(const net::Request& request) {
  Message message;
  message.ParseFromString(std::get<std::string>(request.body).substr(5));
  return message;
}

TEST(Client, OnlyCallsThatReadMayGoOutTwice) {
  FakeNode node{[](const std::string&, const net::Request&) {
    return FakeNode::Reply{0, "", {""}};
  }};
  Client client{node, Access::maintenance("10.0.0.11")};
  client.version();
  client.services();
  client.etcd_members();
  client.find_machine_status();
  client.read_file("/proc/version");
  for (const net::Request& request : node.requests) EXPECT_TRUE(request.reads) << request.url;
  node.requests.clear();
  client.apply(Secret("version: v1alpha1\n"), {});
  client.bootstrap();
  client.reset({});
  client.etcd_leave();
  client.restart_service("kubelet");
  EXPECT_EQ(node.requests.size(), 5U);
  for (const net::Request& request : node.requests) EXPECT_FALSE(request.reads) << request.url;
}

TEST(Client, AlwaysNamesTheApplyMode) {
  FakeNode node{[](const std::string&, const net::Request&) {
    return FakeNode::Reply{0, "", {""}};
  }};
  Client client{node, Access::maintenance("10.0.0.11")};
  client.apply(Secret("version: v1alpha1\n"), {});
  const auto request = sent<proto::machine::ApplyConfigurationRequest>(node.requests[0]);
  EXPECT_EQ(request.mode(), proto::machine::ApplyConfigurationRequest::AUTO);
  EXPECT_EQ(request.data(), "version: v1alpha1\n");
  EXPECT_EQ(node.requests[0].url,
            "https://10.0.0.11:50000/machine.MachineService/ApplyConfiguration");
}

TEST(Client, RedactsWhatAnApplyShows) {
  FakeNode node{[](const std::string&, const net::Request&) {
    proto::machine::ApplyConfigurationResponse response;
    response.add_messages()->set_mode_details("Dry run summary:\n+    token: hunter2\n");
    return FakeNode::Reply{0, "", {response.SerializeAsString()}};
  }};
  Client client{node, Access::maintenance("10.0.0.11")};
  const Applied applied = client.apply(Secret("x"), {.mode = ApplyMode::Auto, .dry_run = true});
  EXPECT_THAT(applied.details, HasSubstr("token: ***"));
  EXPECT_THAT(applied.details, Not(HasSubstr("hunter2")));
}

TEST(Client, NeverShowsASecretThatAPatchBroughtIn) {
  bool refuse = false;
  FakeNode node{[&](const std::string&, const net::Request&) {
    proto::machine::ApplyConfigurationResponse response;
    response.add_messages()->set_mode_details("Dry run summary:\n+    greeting: hunter2\n");
    return refuse ? FakeNode::Reply{3, "cannot parse \"hunter2\"", {}}
                  : FakeNode::Reply{0, "", {response.SerializeAsString()}};
  }};
  Client client{node, Access::maintenance("10.0.0.11")};
  ApplyOptions options;
  options.hidden = {Secret("hunter2")};
  EXPECT_THAT(client.apply(Secret("x"), options).details,
              AllOf(HasSubstr("greeting: ***"), Not(HasSubstr("hunter2"))));
  refuse = true;
  try {
    client.apply(Secret("x"), options);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.render(), AllOf(HasSubstr("cannot parse"), Not(HasSubstr("hunter2"))));
  }
}

TEST(Client, SeesARefusalInsideStatusZero) {
  FakeNode node{[](const std::string&, const net::Request&) {
    proto::machine::BootstrapResponse response;
    auto* metadata = response.add_messages()->mutable_metadata();
    metadata->set_error("rpc error: code = PermissionDenied desc = not authorized");
    metadata->mutable_status()->set_code(7);
    return FakeNode::Reply{0, "", {response.SerializeAsString()}};
  }};
  Client client{node, Access::maintenance("10.0.0.11")};
  try {
    client.bootstrap();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Denied);
  }
}

TEST(Client, EveryUnaryCallHasADeadline) {
  FakeNode node{[](const std::string&, const net::Request&) {
    return FakeNode::Reply{0, "", {""}};
  }};
  Client client{node, Access::maintenance("10.0.0.11")};
  client.etcd_members();
  client.etcd_status();
  client.bootstrap();
  for (const auto& request : node.requests) {
    EXPECT_TRUE(request.timeout);
    EXPECT_TRUE(request.headers.find("grpc-timeout"));
  }
}

TEST(Client, GoesThroughAControlPlaneWhenTold) {
  FakeNode node{[](const std::string&, const net::Request&) {
    return FakeNode::Reply{0, "", {""}};
  }};
  Access access = Access::maintenance("10.0.0.21");
  access.through = "10.0.0.11";
  Client{node, access}.version();
  EXPECT_THAT(node.requests[0].url, HasSubstr("//10.0.0.11:50000/"));
  EXPECT_EQ(node.requests[0].headers.find("node"), "10.0.0.21");
}

TEST(Client, UploadsASnapshotInPieces) {
  std::string body;
  FakeNode node{[&](const std::string&, const net::Request& request) {
    auto& source = *std::get<std::shared_ptr<net::BodySource>>(request.body);
    std::array<char, 7> buffer{};
    while (const std::size_t n = source.read(buffer)) body.append(buffer.data(), n);
    return FakeNode::Reply{0, "", {""}};
  }};
  Client client{node, Access::maintenance("10.0.0.11")};
  std::vector<std::string> pieces = {"third", "second", "first"};
  client.etcd_recover([&]() -> std::optional<std::string> {
    if (pieces.empty()) return std::nullopt;
    std::string piece = pieces.back();
    pieces.pop_back();
    return piece;
  });
  std::vector<std::string> received;
  net::GrpcFrames frames{1024};
  frames.feed(body, [&](std::string_view bytes) {
    proto::common::Data data;
    EXPECT_TRUE(data.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
    received.push_back(data.bytes());
    return true;
  });
  EXPECT_THAT(received, ElementsAre("first", "second", "third"));
}

TEST(Client, AnInstallerThatFailedIsAnError) {
  FakeNode node{[](const std::string&, const net::Request&) {
    proto::machine::LifecycleServiceUpgradeResponse said, ended;
    said.mutable_progress()->set_message("copying");
    ended.mutable_progress()->set_exit_code(3);
    return FakeNode::Reply{0, "", {said.SerializeAsString(), ended.SerializeAsString()}};
  }};
  Client client{node, Access::maintenance("10.0.0.11")};
  std::vector<std::string> told;
  EXPECT_THROW(
      client.lifecycle_upgrade("image", [&](std::string_view line) { told.emplace_back(line); }),
      Error);
  EXPECT_THAT(told, ElementsAre("copying"));
}

TEST(Client, DeletingAnAbsentMetaKeyIsAnAnswer) {
  FakeNode node{[](const std::string&, const net::Request&) {
    return FakeNode::Reply{5, "meta key not found", {}};
  }};
  EXPECT_FALSE(Client(node, Access::maintenance("10.0.0.11")).meta_delete(10));
}

TEST(Look, TellsMaintenanceFromAnotherClusterFromNobody) {
  const Access secure = Access::secure("10.0.0.11", "ca", nullptr);
  FakeNode nobody{[](const std::string&, const net::Request&) -> FakeNode::Reply {
    throw Error(Fault::Unreachable, "connection refused");
  }};
  EXPECT_EQ(look(nobody, secure).door, Door::Closed);
  const auto by_trust = [](Fault without) {
    return [without](const std::string&, const net::Request& request) -> FakeNode::Reply {
      if (request.tls.trust == net::Tls::Trust::Authority)
        throw Error(Fault::Denied, "certificate is not of our CA");
      if (without != Fault::Bug) throw Error(without, "certificate required (116)");
      return {0, "", {""}};
    };
  };
  FakeNode maintenance{by_trust(Fault::Bug)};
  EXPECT_EQ(look(maintenance, secure).door, Door::Maintenance);
  FakeNode foreign{by_trust(Fault::Denied)};
  EXPECT_EQ(look(foreign, secure).door, Door::Foreign);
}

TEST(Look, ANodeThatTakesItsConfigurationBetweenTwoKnocksIsOurs) {
  bool taken = false;
  FakeNode node{[&](const std::string&, const net::Request& request) -> FakeNode::Reply {
    const bool with_ours = request.tls.trust == net::Tls::Trust::Authority;
    if (with_ours && !taken) {
      taken = true;
      throw Error(Fault::Denied, "certificate is not of our CA");
    }
    if (!with_ours) throw Error(Fault::Denied, "certificate required (116)");
    return {0, "", {""}};
  }};
  EXPECT_EQ(look(node, Access::secure("10.0.0.11", "ca", nullptr)).door, Door::Ours);
}

}  // namespace
}  // namespace rocca::talos
