#include "doctor/requirements.hpp"

#include "base/files.hpp"
#include "engine/guards.hpp"
#include "platform/proxmox/placement.hpp"
#include "spec/load.hpp"

#include <gmock/gmock.h>

namespace rocca::doctor {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

spec::Spec spec_of(const std::string& machine, const std::string& hosts = "[atlas]",
                   const std::string& boot = "import") {
  MemoryFiles files;
  const std::string text = R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: { name: blue }
spec:
  talos: { version: v1.11.5, boot: )" +
                           boot +
                           R"( }
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

Wish wish_of(const spec::Spec& spec, const spec::Lock& lock = {},
             const std::optional<std::string>& cluster_id = std::nullopt) {
  MemoryFiles files;
  return doctor::wish_of(files, spec, lock, cluster_id);
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

TEST(WishOf, NamesThePoolsThatMachinesAreMadeIn) {
  const Wish wish = wish_of(spec_of("{ pool: talos, disks: { system: 20GiB } }"));
  EXPECT_THAT(wish.pools, ElementsAre("talos"));
  EXPECT_EQ(wish.scope.pool, "talos");
  EXPECT_THAT(wish_of(spec_of("{ disks: { system: 20GiB } }")).pools, testing::IsEmpty());
}

TEST(WishOf, AsksOnlyForRightsItWillUse) {
  const Wish without = wish_of(spec_of("{ agent: false, disks: { system: 20GiB } }"));
  EXPECT_THAT(without.acts, Not(Contains(proxmox::Act::ReadAgent)));
  EXPECT_THAT(without.acts, Not(Contains(proxmox::Act::CloneTemplate)));
  EXPECT_THAT(without.acts, Not(Contains(proxmox::Act::MigrateVm)));
  const Wish with = wish_of(spec_of("{ agent: true, disks: { system: 20GiB } }", "[atlas, bear]"));
  EXPECT_THAT(with.acts, Not(Contains(proxmox::Act::ReadAgent))) << "its address is static";
  EXPECT_THAT(with.later, Contains(proxmox::Act::ReadAgent));
  EXPECT_THAT(with.later, Contains(proxmox::Act::MigrateVm));
}

TEST(WishOf, WantsAnImageOrAnIsoOrATemplate) {
  const std::string machine = "{ disks: { system: 20GiB } }";
  const Wish import = wish_of(spec_of(machine));
  EXPECT_EQ(import.image_content, "import");
  ASSERT_EQ(import.images.size(), 1u);
  EXPECT_EQ(import.images[0].artifact.ending, "qcow2");
  EXPECT_THAT(import.images[0].hosts, ElementsAre("atlas"));
  EXPECT_EQ(import.factory, "https://factory.talos.dev");
  const Wish iso = wish_of(spec_of(machine, "[atlas]", "iso"));
  EXPECT_EQ(iso.image_content, "iso");
  EXPECT_EQ(iso.images.at(0).artifact.ending, "iso");
  const Wish clone = wish_of(spec_of(machine, "[atlas]", "{ template: talos-1.11 }"));
  EXPECT_EQ(clone.image_content, "");
  EXPECT_EQ(clone.scope.image_storage, "");
  EXPECT_EQ(clone.clone_of, "talos-1.11");
  EXPECT_THAT(clone.images, testing::IsEmpty());
}

TEST(WishOf, CountsSpaceWhereTheLockPutTheNodeElseWhereUpWould) {
  const spec::Spec spec = spec_of("{ disks: { system: 20GiB } }", "[atlas, bear]");
  EXPECT_EQ(wish_of(spec).space.at(0).host, "atlas");
  spec::Lock lock;
  lock.nodes["cp-1"].host = "bear";
  EXPECT_EQ(wish_of(spec, lock).space.at(0).host, "bear");
  EXPECT_THAT(wish_of(spec, lock).images.at(0).hosts, ElementsAre("bear"));
}

TEST(WishOf, KnowsItsMachinesByWhatTheBundleAndTheLockSay) {
  const spec::Spec spec = spec_of("{ disks: { system: 20GiB } }");
  EXPECT_FALSE(wish_of(spec).machines.at(0).uuid);
  spec::Lock lock;
  lock.nodes["cp-1"].vmid = 117;
  const auto machine = wish_of(spec, lock, "id-of-the-cluster").machines.at(0);
  EXPECT_EQ(machine.uuid, engine::derive_uuid("id-of-the-cluster", "cp-1"));
  EXPECT_EQ(machine.vmid, 117u);
  EXPECT_TRUE(machine.vmid_is_locked);
  EXPECT_THAT(machine.macs, ElementsAre(resources::derive_mac(*machine.uuid, 0)));
  const Uuid adopted = *Uuid::parse("11111111-2222-4333-8444-555555555555");
  lock.nodes["cp-1"].uuid = adopted;
  EXPECT_EQ(wish_of(spec, lock, "id-of-the-cluster").machines.at(0).uuid, adopted);
}

}  // namespace
}  // namespace rocca::doctor
