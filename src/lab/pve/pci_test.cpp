#include "base/encoding.hpp"
#include "lab/pve/http.hpp"
#include "lab/pve/qemu/qemu.hpp"
#include "lab/sim/wire.hpp"
#include "net/transport.hpp"
#include "text/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rocca::lab::pve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string gpu =
    "id=10de:2231,node=pve1,path=0000:01:00,iommugroup=14,subsystem-id=10de:147e";
const std::string other =
    "id=10de:2231,node=pve1,path=0000:02:00,iommugroup=15,subsystem-id=10de:147e";

/// A host with two cards, and VMs 100 and 101.
class Cards : public testing::TestWithParam<const char*> {
 protected:
  Cards() {
    Datacenter::Options options;
    options.release = std::string(GetParam()) == "9" ? Release::v9() : Release::v8_4();
    dc = std::make_unique<Datacenter>(world, options);
    node = &dc->add_node("pve1", "192.0.2.11");
    node->pci = {{"0000:01:00.0", {"10de:2231", "10de:147e", 14}},
                 {"0000:01:00.1", {"10de:1aef", "10de:147e", 14}},
                 {"0000:02:00.0", {"10de:2231", "10de:147e", 15}}};
    for (const char* id : {"100", "101"})
      EXPECT_EQ(run("/nodes/pve1/qemu", fmt::format("vmid={}&memory=256&machine=q35", id)), "OK");
  }

  struct Reply {
    int status = 0;
    std::string reason;
    text::Value body;
  };

  Reply call(const std::string& method, const std::string& path, const std::string& form = "",
             const std::string& token = "") {
    net::Request request;
    request.method = method;
    request.url = fmt::format("https://192.0.2.11:8006/api2/json{}", path);
    request.tls = net::Tls::pinned(node->fingerprint);
    if (token.empty()) {
      const Ticket ticket = make_ticket(*dc, "root@pam");
      request.headers.add("Cookie", "PVEAuthCookie=" + percent_encode(ticket.ticket));
      request.headers.add("CSRFPreventionToken", ticket.csrf);
    } else {
      request.headers.add("Authorization", "PVEAPIToken=" + token);
    }
    if (method == "GET" || method == "DELETE") {
      if (!form.empty()) request.url += "?" + form;
    } else {
      request.body = form;
      request.headers.add("Content-Type", "application/x-www-form-urlencoded");
    }
    const net::Answer answer = net::fetch(wire, request);
    Reply reply{answer.head.status, answer.head.reason, {}};
    if (!answer.body.empty()) reply.body = text::parse_json(answer.body, "answer");
    return reply;
  }

  Reply map(const std::string& id, const std::vector<std::string>& entries,
            const std::string& more = "") {
    std::string form = "id=" + id + more;
    for (const std::string& entry : entries) form += "&map=" + percent_encode(entry);
    return call("POST", "/cluster/mapping/pci", form);
  }

  /// The exit status of the task that the call starts.
  std::string run(const std::string& path, const std::string& form = "") {
    const Reply reply = call("POST", path, form);
    if (reply.status != 200) return reply.reason;
    const Task& task = *node->find_task(reply.body.find("data")->text());
    while (task.running() && world.step()) {
    }
    return task.status;
  }
  std::string start(unsigned id) {
    return run(fmt::format("/nodes/pve1/qemu/{}/status/start", id));
  }
  Reply give(unsigned id, const std::string& value) {
    return call("PUT", fmt::format("/nodes/pve1/qemu/{}/config", id),
                "hostpci0=" + percent_encode(value));
  }

  World world;
  std::unique_ptr<Datacenter> dc;
  Wire wire{world};
  Node* node = nullptr;
};

TEST_P(Cards, AMappingIsMadeReadChangedAndTakenAway) {
  ASSERT_EQ(map("gpu", {gpu}, "&description=the+card").status, 200);
  const Reply read = call("GET", "/cluster/mapping/pci/gpu");
  ASSERT_EQ(read.status, 200) << read.reason;
  EXPECT_EQ(read.body.find({"data", "type"})->text(), "pci");
  EXPECT_EQ(read.body.find({"data", "description"})->text(), "the card");
  ASSERT_EQ(read.body.find({"data", "map"})->size(), 1u);
  EXPECT_EQ(read.body.find({"data", "map"})->items()[0].text(), gpu);
  EXPECT_EQ(map("gpu", {gpu}).reason,
            "create hardware mapping failed: pci ID 'gpu' already defined");

  const std::string digest = read.body.find({"data", "digest"})->text();
  ASSERT_EQ(call("PUT", "/cluster/mapping/pci/gpu",
                 fmt::format("map={}&delete=description&digest={}", percent_encode(other), digest))
                .status,
            200);
  EXPECT_THAT(call("PUT", "/cluster/mapping/pci/gpu", "mdev=1&digest=" + digest).reason,
              HasSubstr("detected modified configuration"));
  EXPECT_THAT(dc->pci_mappings.at("gpu").map, ElementsAre(other));
  EXPECT_THAT(dc->pci_mappings.at("gpu").options, IsEmpty());

  EXPECT_EQ(call("DELETE", "/cluster/mapping/pci/gpu").status, 200);
  EXPECT_EQ(call("GET", "/cluster/mapping/pci/gpu").reason, "mapping 'gpu' not found");
  EXPECT_EQ(call("PUT", "/cluster/mapping/pci/gpu", "mdev=1").reason,
            "update hardware mapping failed: pci ID 'gpu' does not exist");
  EXPECT_EQ(call("DELETE", "/cluster/mapping/pci/gpu").status, 200);
}

TEST_P(Cards, EntriesAreCheckedOneByOne) {
  const Reply reply = map("gpu", {gpu, "id=10de,node=pve1,path=0000:01:00"});
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.body.find("errors")->find("map[0]"), nullptr);
  EXPECT_NE(reply.body.find("errors")->find("map[1]"), nullptr);
  EXPECT_EQ(call("POST", "/cluster/mapping/pci", "id=gpu").status, 400);
  EXPECT_THAT(dc->pci_mappings, IsEmpty());
}

TEST_P(Cards, ATokenNeedsTheRights) {
  ASSERT_EQ(map("gpu", {gpu}).status, 200);
  dc->access.users["ann@pve"].tokens["t"] = {"s", false, 0, ""};
  const std::string token = "ann@pve!t=s";
  EXPECT_EQ(call("GET", "/cluster/mapping/pci/gpu", "", token).status, 403);
  EXPECT_EQ(call("POST", "/cluster/mapping/pci", "id=x&map=" + percent_encode(gpu), token).status,
            403);
  EXPECT_EQ(call("GET", "/cluster/mapping/pci", "", token).body.find("data")->size(), 0u);
  dc->access.grant("ann@pve", "/mapping/pci/gpu", {"Mapping.Audit"});
  EXPECT_EQ(call("GET", "/cluster/mapping/pci/gpu", "", token).status, 200);
  EXPECT_EQ(call("GET", "/cluster/mapping/pci", "", token).body.find("data")->size(), 1u);
}

TEST_P(Cards, AVmGetsEveryFunctionAndNobodyElseDoes) {
  ASSERT_EQ(map("gpu", {gpu}).status, 200);
  for (const unsigned id : {100u, 101u}) ASSERT_EQ(give(id, "mapping=gpu,pcie=1").status, 200);
  ASSERT_EQ(start(100), "OK");
  EXPECT_THAT(dc->vms.at(100).pci, ElementsAre("0000:01:00.0", "0000:01:00.1"));
  EXPECT_EQ(start(101), "PCI device '0000:01:00.0' already in use by VMID '100'");
  ASSERT_EQ(run("/nodes/pve1/qemu/100/status/stop"), "OK");
  EXPECT_EQ(start(101), "OK");
}

TEST_P(Cards, TheFirstFreeAlternativeIsTaken) {
  ASSERT_EQ(map("gpu", {gpu, other}).status, 200);
  for (const unsigned id : {100u, 101u}) {
    ASSERT_EQ(give(id, "mapping=gpu,pcie=1").status, 200);
    ASSERT_EQ(start(id), "OK");
  }
  EXPECT_THAT(dc->vms.at(101).pci, ElementsAre("0000:02:00.0"));
  ASSERT_EQ(run("/nodes/pve1/qemu", "vmid=102&memory=256&machine=q35"), "OK");
  ASSERT_EQ(give(102, "mapping=gpu,pcie=1").status, 200);
  EXPECT_EQ(start(102), "could not find a free device for 'hostpci0'");
}

TEST_P(Cards, HardwareThatIsNotAsSaidEndsTheStart) {
  ASSERT_EQ(give(100, "mapping=gpu").status, 200);
  EXPECT_EQ(start(100), "PCI device mapping not found for 'gpu'");
  const auto says = [&](const std::string& entry) {
    dc->pci_mappings["gpu"].map = {entry};
    return start(100);
  };
  const std::string invalid = "PCI device mapping invalid (hardware probably changed): ";
  EXPECT_EQ(says("id=10de:2231,node=pve2,path=0000:01:00"),
            "PCI device mapping not found for 'gpu'");
  EXPECT_EQ(says("id=10de:2231,node=pve1,path=0000:07:00"),
            invalid + "pci device '0000:07:00.0' not found");
  EXPECT_EQ(says("id=10de:0001,node=pve1,path=0000:01:00,iommugroup=14,subsystem-id=10de:147e"),
            invalid + "'id' does not match for 'gpu' (10de:2231 != 10de:0001)");
  EXPECT_EQ(says("id=10de:2231,node=pve1,path=0000:01:00,subsystem-id=10de:147e"),
            invalid + "no 'iommugroup' for device '0000:01:00.0'");
  const Reply looked = call("GET", "/cluster/mapping/pci", "check-node=pve1");
  EXPECT_THAT(text::emit_json(looked.body), HasSubstr("Invalid configuration: no 'iommugroup'"));
  EXPECT_EQ(says(gpu), "OK");
}

TEST_P(Cards, AsPciExpressOnlyQ35HasThem) {
  ASSERT_EQ(map("gpu", {gpu}).status, 200);
  ASSERT_EQ(run("/nodes/pve1/qemu", "vmid=102&memory=256"), "OK");
  ASSERT_EQ(give(102, "mapping=gpu,pcie=1").status, 200);
  EXPECT_EQ(start(102), "q35 machine model is not enabled");
  ASSERT_EQ(give(102, "mapping=gpu").status, 200);
  EXPECT_EQ(start(102), "OK");
}

INSTANTIATE_TEST_SUITE_P(Releases, Cards, testing::Values("8.4", "9"), [](const auto& row) {
  return std::string(row.param) == "9" ? "Nine" : "Eight";
});

}  // namespace
}  // namespace rocca::lab::pve
