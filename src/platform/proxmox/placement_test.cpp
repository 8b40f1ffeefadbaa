#include "platform/proxmox/placement.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "spec/load.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace rocca::resources {
namespace {

spec::Spec spec_of(const std::string& hosts, unsigned planes, unsigned workers,
                   const std::string& more = "") {
  MemoryFiles files;
  const std::string text = fmt::format(R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: {{ name: blue }}
spec:
  talos: {{ version: v1.11.5 }}
  kubernetes: {{ version: v1.34.1 }}
  policy: {{ evenControlPlanes: warn }}
  network: {{ addressing: static, subnet: 10.0.0.0/16, gateway: 10.0.0.1 }}
  proxmox:
    endpoints: [https://pve.home:8006]
    insecure: true
    token: {{ secret: proxmox.token }}
    hosts: {}
  pools:
    cp: {{ role: controlplane, count: {}, addresses: 10.0.1.1-10.0.1.99 }}
    worker: {{ count: {}, addresses: 10.0.2.1-10.0.2.250 }}
{})",
                                       hosts, planes, workers, more);
  spec::Loaded loaded = spec::load_text(files, text, "cluster.yaml", "/");
  EXPECT_FALSE(loaded.diagnostics.has_errors()) << loaded.diagnostics.render();
  return loaded.spec;
}

TEST(Choose, PutsControlPlanesOnHostsOfTheirOwn) {
  const spec::Lock lock = choose(spec_of("[a, b, c]", 3, 2), {}, {});
  std::set<std::string> hosts;
  for (const char* node : {"cp-1", "cp-2", "cp-3"}) hosts.insert(lock.nodes.at(node).host);
  EXPECT_EQ(hosts.size(), 3u);
}

TEST(Choose, KeepsWhatIsLocked) {
  spec::Lock lock;
  lock.nodes["cp-2"] = {"c", 123, {}};
  lock.nodes["gone"] = {"a", 100, {}};
  const spec::Lock chosen = choose(spec_of("[a, b, c]", 3, 1), lock, {});
  EXPECT_EQ(chosen.nodes.at("cp-2"), lock.nodes.at("cp-2"));
  EXPECT_EQ(chosen.nodes.at("gone"), lock.nodes.at("gone")) << "it comes back with the same id";
  EXPECT_NE(chosen.nodes.at("cp-1").vmid, 100u) << "a node that may come back has it";
  EXPECT_EQ(choose(spec_of("[a, b, c]", 3, 1), chosen, {}), chosen);
}

TEST(Choose, AddingAWorkerMovesNobody) {
  const spec::Lock before = choose(spec_of("[a, b]", 3, 2), {}, {});
  const spec::Lock after = choose(spec_of("[a, b]", 3, 3), before, {});
  for (const auto& [node, chosen] : before.nodes) EXPECT_EQ(after.nodes.at(node), chosen) << node;
}

TEST(Choose, TakesNoIdThatIsTaken) {
  Choices choices;
  choices.taken = {100, 101, 103};
  const spec::Lock lock = choose(spec_of("[a]", 1, 2), {}, choices);
  EXPECT_EQ(lock.nodes.at("cp-1").vmid, 102u);
  EXPECT_EQ(lock.nodes.at("worker-1").vmid, 104u);
  EXPECT_EQ(lock.nodes.at("worker-2").vmid, 105u);
}

TEST(Choose, LeavesHostsAloneThatAreOffline) {
  Choices choices;
  choices.offline_hosts = {"a"};
  const spec::Lock lock = choose(spec_of("[a, b]", 1, 1), {}, choices);
  EXPECT_EQ(lock.nodes.at("cp-1").host, "b");
  choices.offline_hosts = {"a", "b"};
  EXPECT_THROW(choose(spec_of("[a, b]", 1, 1), {}, choices), Error);
}

TEST(Choose, RefusesAnIdOfTheSpecThatAnotherNodeHas) {
  spec::Lock lock;
  lock.nodes["worker-1"] = {"a", 150, {}};
  const std::string more =
      "  nodes:\n    extra: { role: worker, address: 10.0.3.1, machine: { vmid: 150 } }\n";
  try {
    choose(spec_of("[a]", 1, 1, more), lock, {});
    FAIL() << "two nodes with one id";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Conflict);
    EXPECT_THAT(error.message(), testing::HasSubstr("150 is wanted for extra"));
  }
}

RC_GTEST_PROP(Choose, SpreadsControlPlanesAndRepeatsNoId, ()) {
  const auto hosts = *rc::gen::inRange(1, 6);
  const auto planes = static_cast<unsigned>(*rc::gen::inRange(1, 9));
  const auto workers = static_cast<unsigned>(*rc::gen::inRange(0, 12));
  std::vector<std::string> names;
  for (int i = 0; i < hosts; ++i) names.push_back(fmt::format("h{}", i));
  const spec::Spec spec = spec_of(fmt::format("[{}]", fmt::join(names, ", ")), planes, workers);
  const spec::Lock lock = choose(spec, {}, {});
  std::map<std::string, unsigned> count;
  for (const std::string& name : names) count[name] = 0;
  std::set<std::uint64_t> ids;
  for (const spec::Node& node : spec.nodes) {
    const spec::LockedNode& chosen = lock.nodes.at(node.name);
    RC_ASSERT(ids.insert(*chosen.vmid).second);
    if (node.control_plane()) ++count.at(chosen.host);
  }
  const auto [least, most] = std::minmax_element(
      count.begin(), count.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  RC_ASSERT(most->second - least->second <= 1u);
}

TEST(DeriveMac, IsLocalUnicastAndStable) {
  const Uuid uuid = *Uuid::parse("6e1d2f5a-0000-4000-8000-000000000001");
  const MacAddress mac = derive_mac(uuid, 0);
  EXPECT_TRUE(mac.is_local());
  EXPECT_FALSE(mac.is_multicast());
  EXPECT_EQ(mac, derive_mac(uuid, 0));
  EXPECT_NE(mac, derive_mac(uuid, 1));
}

}  // namespace
}  // namespace rocca::resources
