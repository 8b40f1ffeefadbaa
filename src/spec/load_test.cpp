#include "spec/load.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::spec {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* head = "apiVersion: rocca.dev/v1\nkind: Cluster\nmetadata: { name: blue }\n";
constexpr const char* body = R"(spec:
  talos: { version: v1.11.5, extensions: [qemu-guest-agent] }
  kubernetes: { version: v1.34.1 }
  network: { subnet: 10.0.0.0/16, gateway: 10.0.0.1 }
  proxmox: { endpoints: [https://pve.home:8006], token: { secret: proxmox.token }, hosts: [atlas] }
)";

class Load : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    if (const auto slash = path.rfind('/'); slash != std::string::npos)
      files_.make_folder(path.substr(0, slash), 0755);
    files_.write(path, text, 0644);
  }
  Loaded spec(const std::string& more) {
    put("c/cluster.yaml", std::string(head) + body + more);
    return load(files_, "c/cluster.yaml");
  }
  MemoryFiles files_;
};

TEST_F(Load, ThrowsWhenThereIsNoFile) {
  EXPECT_THROW(load(files_, "nowhere.yaml"), Error);
}

TEST_F(Load, NearestMachineWins) {
  const Loaded loaded = spec(
      R"(  machine: { cores: 4, memory: 8GiB, disks: { system: 30GiB, data: { size: 50GiB, storage: ceph } } }
  nodes:
    cp-1: { role: controlplane, address: 10.0.0.11, machine: { disks: { data: null } } }
  pools:
    worker: { count: 2, addresses: 10.0.0.21-29, machine: { cores: 8, disks: { data: 100GiB } } }
)");
  ASSERT_EQ(loaded.diagnostics.render(), "");
  const Machine& first = *loaded.spec.nodes[0].machine;
  const Machine& worker = *loaded.spec.find_node("worker-2")->machine;
  EXPECT_EQ(*first.cores, 4);
  EXPECT_EQ(first.disks.size(), 1u);
  EXPECT_EQ(*worker.cores, 8);
  EXPECT_EQ(*worker.memory, Bytes::gib(8));
  ASSERT_EQ(worker.disks.size(), 2u);
  EXPECT_EQ(*worker.disks[1].size, Bytes::gib(100));
  EXPECT_EQ(**worker.disks[1].storage, "ceph");
  EXPECT_EQ(*worker.system().size, Bytes::gib(30));
  EXPECT_EQ(to_string(**loaded.spec.find_node("worker-2")->address), "10.0.0.22");
  EXPECT_EQ(loaded.spec.find_node("worker-1")->machine, loaded.spec.find_node("worker-2")->machine);
}

TEST_F(Load, PoolsTakeTheirRangesInOrder) {
  const Loaded loaded = spec(
      "  pools:\n    cp: { role: controlplane, count: 3, addresses: [10.0.0.5-6, 10.0.1.9] }\n");
  std::vector<std::string> got;
  for (const Node& node : loaded.spec.nodes)
    got.push_back(node.name + "=" + to_string(**node.address));
  EXPECT_THAT(got, ElementsAre("cp-1=10.0.0.5", "cp-2=10.0.0.6", "cp-3=10.0.1.9"));
}

TEST_F(Load, EveryMemberKnowsItsPlace) {
  const Loaded loaded = spec("  nodes:\n    cp-1: { role: controlplane, address: 10.0.0.11 }\n");
  const Node& node = loaded.spec.nodes[0];
  EXPECT_EQ(to_string(loaded.spec.position(node.where)), "c/cluster.yaml:10:5");
  EXPECT_EQ(to_string(loaded.spec.position(node.address->where)), "c/cluster.yaml:10:42");
  EXPECT_FALSE(node.machine->cores.written());
}

TEST_F(Load, BasesLieUnderTheFile) {
  put("base.yaml",
      "bases: [deep/deeper.yaml]\nspec: { machine: { cores: 8, memory: 16GiB }, policy: { "
      "evenControlPlanes: warn }, state: { kubernetes: {} } }\n");
  put("deep/deeper.yaml",
      "spec: { machine: { cores: 2, cpu: x86-64-v3 }, talos: { patches: { all: p.yaml } }, "
      "secrets: { files: [shared.sops.yaml] } }\n");
  put("deep/p.yaml", "machine: { sysctls: { a: \"1\" } }\n");
  put("c/cluster.yaml", std::string("bases: [../base.yaml]\n") + head + body +
                            "  state: { local: {} }\n  machine: { memory: 8GiB }\n  nodes:\n    "
                            "cp-1: { role: controlplane, address: 10.0.0.11 }\n");
  const Loaded loaded = load(files_, "c/cluster.yaml");
  ASSERT_EQ(loaded.diagnostics.render(), "");
  const Machine& machine = *loaded.spec.nodes[0].machine;
  EXPECT_EQ(*machine.cores, 8);
  EXPECT_EQ(*machine.cpu, "x86-64-v3");
  EXPECT_EQ(*machine.memory, Bytes::gib(8));
  EXPECT_TRUE(std::holds_alternative<LocalState>(loaded.spec.state.place));
  EXPECT_EQ(to_string(loaded.spec.position(machine.cpu.where)), "deep/deeper.yaml:1:35");
  ASSERT_EQ(loaded.spec.nodes[0].patches.size(), 1u);
  EXPECT_EQ(loaded.spec.nodes[0].patches[0]->source, "deep/p.yaml");
  EXPECT_EQ(*loaded.spec.secret_files[0], "../deep/shared.sops.yaml");
}

TEST_F(Load, PatchesApplyFromTheWidestToTheNearest) {
  put("c/cluster.yaml",
      std::string(head) +
          replace_all(
              body, "[qemu-guest-agent] }",
              R"([qemu-guest-agent], patches: { all: { machine: { a: 1 } }, controlplane: { machine: { a: 2 } }, worker: { machine: { a: 3 } } } })") +
          "  nodes:\n    cp-1: { role: controlplane, address: 10.0.0.11, patches: [ { machine: { "
          "a: 4 } }, [ { op: remove, path: /machine/env } ] ] }\n");
  const Loaded loaded = load(files_, "c/cluster.yaml");
  ASSERT_EQ(loaded.diagnostics.render(), "");
  std::vector<std::string> order;
  for (const auto& patch : loaded.spec.nodes[0].patches)
    order.push_back(patch->form == Patch::Form::Json
                        ? "json"
                        : patch->documents[0].find({"machine", "a"})->text());
  EXPECT_THAT(order, ElementsAre("1", "2", "4", "json"));
}

TEST_F(Load, OnlyExistingMachinesNeedNoProxmox) {
  put("c/cluster.yaml",
      std::string(head) +
          "spec:\n  talos: { version: v1.11.5 }\n  kubernetes: { version: v1.34.1 }\n  nodes:\n    "
          "cp-1: { role: controlplane, address: 10.0.0.11, existing: true }\n");
  const Loaded loaded = load(files_, "c/cluster.yaml");
  EXPECT_EQ(loaded.diagnostics.render(), "");
  EXPECT_FALSE(loaded.spec.nodes[0].machine);
  EXPECT_TRUE(*loaded.spec.kubernetes.schedule_on_control_planes);
}

TEST_F(Load, EvenControlPlanesMayBeLetPassByTheCaller) {
  const std::string two =
      "  nodes:\n    a: { role: controlplane, address: 10.0.0.11 }\n    b: { role: controlplane, "
      "address: 10.0.0.12 }\n";
  EXPECT_TRUE(spec(two).diagnostics.has_errors());
  const Loaded loaded = load(files_, "c/cluster.yaml", {.warn_even_control_planes = true});
  EXPECT_FALSE(loaded.diagnostics.has_errors());
  EXPECT_EQ(loaded.diagnostics.count(Severity::Warning), 1u);
}

TEST_F(Load, FiftyMistakesAtOnce) {
  std::string nodes = "  nodes:\n";
  for (int i = 0; i < 50; ++i)
    nodes += fmt::format("    n{}: {{ role: worker, adress: 10.0.0.{} }}\n", i, i + 20);
  const Loaded loaded = spec(nodes);
  std::size_t unknown = 0;
  for (const Problem& problem : loaded.diagnostics.problems())
    if (problem.code == "unknown-key") ++unknown;
  EXPECT_EQ(unknown, 50u);
}

// Every key that wants a reference, given a value instead: the value comes up nowhere.
TEST_F(Load, ASecretInClearIsNeverShown) {
  const std::string canary = "C4n4ry-hunter2-value";
  const std::vector<std::string> places = {
      "  tailscale: { authKey: CANARY }\n",
      "  state: { http: { address: https://a.b/c, password: CANARY } }\n",
      "  state: { s3: { bucket: a, key: b, accessKey: CANARY, secretKey: CANARY } }\n",
      "  handover: { flux: { url: https://a.b/c, auth: CANARY, decryption: CANARY } }\n",
      "  handover: { flux: { url: \"https://ann:CANARY@a.b/c\" } }\n",
      "  handover: { flux: { url: https://a.b/c, auth: { password: CANARY } } }\n",
      "  addons: { proxmoxCsi: { token: CANARY }, proxmoxCcm: { token: [CANARY] } }\n",
      "  tailscale:\n    authKey: |\n      CANARY\n      CANARY\n    unknown: 1\n",
      "  tailscale: { authKey: { id: CANARY } }\n",
      "  tailscale: { authKey: \"CANARY }\n",
      "  secrets: { sources: [ { infisical: { project: a, environment: b, auth: CANARY } } ] }\n"};
  for (const std::string& place : places) {
    const Loaded loaded = spec(replace_all(place, "CANARY", canary) +
                               "  nodes:\n    cp-1: { role: controlplane, address: 10.0.0.11 }\n");
    EXPECT_TRUE(loaded.diagnostics.has_errors()) << place;
    EXPECT_THAT(loaded.diagnostics.render(), Not(HasSubstr(canary))) << place;
    EXPECT_THAT(resolved_yaml(loaded.spec), Not(HasSubstr(canary))) << place;
  }
}

}  // namespace
}  // namespace rocca::spec
