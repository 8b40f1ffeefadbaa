#include "doctor/wish_of.hpp"

#include "base/files.hpp"
#include "spec/load.hpp"

#include <gmock/gmock.h>

namespace rocca::doctor {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

spec::Spec spec_of(const std::string& machine, const std::string& hosts = "[atlas]") {
  MemoryFiles files;
  const std::string text = R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: { name: blue }
spec:
  talos: { version: v1.11.5 }
  kubernetes: { version: v1.32.1 }
  network: { addressing: static, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [1.1.1.1] }
  proxmox:
    endpoints: [https://pve.home:8006]
    insecure: true
    token: { secret: proxmox.token }
    hosts: )" + hosts + R"(
    storage: { images: local, disks: local-lvm }
    bridge: vmbr0
  machine: )" + machine + R"(
  nodes:
    cp-1: { role: controlplane, address: 10.0.0.11 }
)";
  const spec::Loaded loaded = spec::load_text(files, text, "cluster.yaml", ".");
  EXPECT_FALSE(loaded.diagnostics.has_errors()) << loaded.diagnostics.render();
  return loaded.spec;
}

TEST(WishOf, NamesWhatTheSpecNames) {
  const spec::Spec spec = spec_of(
      "{ cores: 4, memory: 8GiB, vmid: 9001, disks: { system: 20GiB, data: { size: 100GiB, "
      "storage: big } } }");
  const Wish wish = wish_of(spec);
  EXPECT_THAT(wish.scope.hosts, ElementsAre("atlas"));
  EXPECT_THAT(wish.scope.disk_storages, ElementsAre("big", "local-lvm"));
  EXPECT_EQ(wish.scope.image_storage, "local");
  ASSERT_EQ(wish.scope.links.size(), 1u);
  EXPECT_EQ(wish.scope.links[0].bridge, "vmbr0");
  ASSERT_EQ(wish.machines.size(), 1u);
  EXPECT_EQ(wish.machines[0].vmid, 9001u);
  Bytes big;
  for (const auto& space : wish.space)
    if (space.storage == "big") big = big + space.bytes;
  EXPECT_GE(big, Bytes::gib(100));
}

TEST(WishOf, AsksOnlyForRightsItWillUse) {
  const Wish without = wish_of(spec_of("{ agent: false, disks: { system: 20GiB } }"));
  EXPECT_THAT(without.acts, Not(Contains(proxmox::Act::ReadAgent)));
  EXPECT_THAT(without.acts, Not(Contains(proxmox::Act::CloneTemplate)));
  EXPECT_THAT(without.acts, Not(Contains(proxmox::Act::MigrateVm)));
  const Wish with = wish_of(spec_of("{ agent: true, disks: { system: 20GiB } }", "[atlas, bear]"));
  EXPECT_THAT(with.acts, Contains(proxmox::Act::ReadAgent));
  EXPECT_THAT(with.acts, Contains(proxmox::Act::MigrateVm));
}

}  // namespace
}  // namespace rocca::doctor
