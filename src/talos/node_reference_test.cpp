#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "proto/common.pb.h"
#include "proto/cosi.pb.h"
#include "support/reference.hpp"
#include "talos/client.hpp"
#include "text/json.hpp"

#include <gmock/gmock.h>

#include <map>

// What real Talos nodes answered, given to our client: decoders and refusals.

namespace rocca::talos {
namespace {

text::Value parse(const std::string& file) {
  text::Limits limits;
  limits.size = 64u << 20;
  return text::parse_json(test::read_file(file), file, limits);
}

std::string text_at(const text::Value& object, std::string_view key) {
  const text::Value* value = object.find(key);
  return value == nullptr || value->is_null() || !value->is_scalar() ? "" : value->text();
}

/// Every recorded call of every file.
void for_each_call(const std::function<void(const std::string&, const text::Value&)>& visit) {
  for (const std::string& file : test::reference_files("talos-node", ".json")) {
    const text::Value root = parse(file);
    const text::Value* calls = root.find("calls");
    if (calls == nullptr) {
      // Those with another shape have readers of their own: the role matrix and the sequences here,
      // the rest in the lab's tests.
      const bool known = root.find("methods") != nullptr || root.find("sequences") != nullptr ||
                         root.find("cases") != nullptr || root.find("exchanges") != nullptr ||
                         root.find("kubeconfig") != nullptr;
      EXPECT_TRUE(known) << file << " gives no case";
      continue;
    }
    EXPECT_GT(calls->size(), 0u) << file << " gives no case";
    for (const text::Value& call : calls->items())
      // A few streams were too long to keep; only their counts are recorded.
      if (call.find("responses") != nullptr)
        visit(file.substr(file.rfind('/') + 1) + "/" + text_at(call, "id"), call);
  }
}

/// Answers as the recorded node did.
class RecordedNode final : public net::Transport {
 public:
  explicit RecordedNode(const text::Value& call) : call_(call) {}

  net::Response exchange(const net::Request&, net::BodySink& sink, std::stop_token) override {
    net::Response response;
    response.status = 200;
    response.headers.add("content-type", "application/grpc+proto");
    sink.begin(response);
    for (const text::Value& message : call_.find("responses")->items()) {
      const auto bytes = from_hex(text_at(message, "hex"));
      if (bytes && !sink.write(net::grpc_frame(*bytes))) break;
    }
    response.trailers.add("grpc-status", text_at(call_, "grpc_status"));
    response.trailers.add("grpc-message", percent_encode(text_at(call_, "grpc_message")));
    return response;
  }

 private:
  const text::Value& call_;
};

/// Calls the method of our client that stands for the recorded one; false if we have none.
bool ask(Client& client, const text::Value& call) {
  const std::string method = text_at(call, "method");
  const std::string name = method.substr(method.rfind('/') + 1);
  const auto nothing = [](std::string_view) { return true; };
  if (method.starts_with("/cosi.")) {
    const text::Value* request = call.find("request");
    const std::string type = request != nullptr ? text_at(*request, "type") : "";
    if (name == "Get") {
      if (type.starts_with("MachineStatuses.")) return client.find_machine_status(), true;
      if (type.starts_with("HostnameStatuses.")) return client.find_hostname(), true;
      if (type.starts_with("SystemInformations.")) return client.find_system_information(), true;
      if (type.starts_with("SystemDisks.")) return client.find_system_disk(), true;
      if (type.starts_with("MachineConfigs.")) return client.find_config(), true;
      if (type.starts_with("TimeStatuses.")) return client.time_in_sync(), true;
      return client.find_resource("x", type, "z"), true;
    }
    if (name == "List") {
      if (type.starts_with("Members.cluster.")) return client.members(), true;
      if (type.starts_with("AddressStatuses.")) return client.addresses(), true;
      if (type.starts_with("LinkStatuses.")) return client.links(), true;
      if (type.starts_with("Disks.block.")) return client.disks(), true;
      if (type.starts_with("ExtensionStatuses.")) return client.extensions(), true;
      if (type.starts_with("NodeStatuses.")) return client.find_kubernetes_node(), true;
      return client.list_resources("x", type), true;
    }
    if (name == "Watch")
      return client.watch_resource("x", type, "z", [](const auto&) { return true; }), true;
    return false;
  }
  if (!method.starts_with("/machine.MachineService/")) return false;
  if (name == "Version") return client.version(), true;
  if (name == "ServiceList") return client.services(), true;
  if (name == "ApplyConfiguration") return client.apply(Secret("x"), {}), true;
  if (name == "Bootstrap") return client.bootstrap(), true;
  if (name == "Reboot") return client.reboot(), true;
  if (name == "Shutdown") return client.shutdown(), true;
  if (name == "Reset") return client.reset({}), true;
  if (name == "Upgrade") return client.upgrade({}), true;
  if (name == "EtcdMemberList") return client.etcd_members(), true;
  if (name == "EtcdStatus") return client.etcd_status(), true;
  if (name == "EtcdAlarmList") return client.etcd_alarms(), true;
  if (name == "EtcdLeaveCluster") return client.etcd_leave(), true;
  if (name == "EtcdRemoveMemberByID") return client.etcd_remove_member(1), true;
  if (name == "EtcdForfeitLeadership") return client.etcd_forfeit_leadership(), true;
  if (name == "EtcdDefragment") return client.etcd_defragment(), true;
  if (name == "EtcdSnapshot") return client.etcd_snapshot(nothing), true;
  if (name == "Events") return client.events(0, [](const Event&) { return true; }), true;
  if (name == "Logs") return client.logs("x", 0, nothing), true;
  if (name == "Dmesg") return client.dmesg(nothing), true;
  if (name == "Read") return client.read_file("x"), true;
  if (name == "MetaWrite") return client.meta_write(10, "x"), true;
  if (name == "MetaDelete") return client.meta_delete(10), true;
  return false;
}

TEST(RecordedNodes, EveryAnswerIsReadByOurClient) {
  std::size_t asked = 0;
  for_each_call([&](const std::string& where, const text::Value& call) {
    // Ended by the recorder, or with secrets blanked out: then there is no answer to read.
    if (call.find("ended_by") != nullptr) return;
    for (const text::Value& message : call.find("responses")->items())
      if (message.find("hex") == nullptr) return;
    SCOPED_TRACE(where);
    RecordedNode node{call};
    Client client{node, Access::maintenance("10.5.0.2")};
    const int status = static_cast<int>(call.find("grpc_status")->as_int().value_or(2));
    try {
      if (!ask(client, call)) return;
      const std::string method = text_at(call, "method");
      // Absence and a status that could not be had are answers of ours.
      EXPECT_TRUE(status == 0 || method.ends_with("/Get") || method.ends_with("MetaDelete"))
          << status;
    } catch (const Error& error) {
      EXPECT_NE(error.fault(), Fault::Bug) << error.render();
      EXPECT_EQ(error.message().find("cannot be read"), std::string::npos) << error.message();
      const bool inside =
          text::emit_json(*call.find("responses")).find("\"error\"") != std::string::npos;
      EXPECT_TRUE(status != 0 || inside) << error.render();
    }
    ++asked;
    test::count_case();
  });
  std::printf("%zu recorded calls answered to our client\n", asked);
}

TEST(RecordedNodes, EveryRefusalIsPlaced) {
  std::map<std::string, std::size_t> reasons;
  for_each_call([&](const std::string& where, const text::Value& call) {
    const auto code = call.find("grpc_status")->as_int().value_or(0);
    if (code == 0 || call.find("ended_by") != nullptr) return;
    const std::string text = text_at(call, "grpc_message");
    const Failure failure = classify(static_cast<net::GrpcCode>(code), text);
    EXPECT_NE(failure.reason, Reason::Other)
        << where << ": " << text_at(call, "grpc_code") << " " << text;
    ++reasons[to_string(failure.reason)];
    test::count_case();
  });
  for (const auto& [reason, count] : reasons) std::printf("%-20s %zu\n", reason.c_str(), count);
}

TEST(RecordedNodes, TheRoleMatrixIsReadAsRefusedOrLetThrough) {
  for (const std::string& file : test::reference_files("talos-node", "role-matrix.json")) {
    const text::Value root = parse(file);
    for (const text::Value& method : root.find("methods")->items())
      for (const text::Entry& result : method.find("results")->entries()) {
        const std::string code = result.value.items()[0].text();
        const std::string text = result.value.items()[1].text();
        if (code != "PermissionDenied") continue;
        EXPECT_EQ(classify(net::GrpcCode::PermissionDenied, text).reason == Reason::NotAuthorized,
                  text == "not authorized")
            << text_at(method, "id");
        test::count_case();
      }
  }
}

}  // namespace
}  // namespace rocca::talos
