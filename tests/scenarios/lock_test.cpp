// rocca.lock, resolved against the lab's Image Factory and Proxmox.
#include "base/encoding.hpp"
#include "base/error.hpp"
#include "factory/client.hpp"
#include "lab_rig.hpp"
#include "locking/resolve.hpp"
#include "net/http.hpp"
#include "secrets/crypto.hpp"
#include "spec/load.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::scenarios {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;
using testing::UnorderedElementsAre;

class Locking : public testing::Test {
 protected:
  spec::Spec load(const std::string& addressing = "nocloud", const std::string& extra = "",
                  const std::string& nodes = "") {
    const spec::Loaded loaded = spec::load_text(
        files,
        fmt::format("apiVersion: rocca.dev/v1\nkind: Cluster\nmetadata: {{ name: blue }}\nspec:\n"
                    "  talos: {{ version: v1.11.5, extensions: [qemu-guest-agent{}] }}\n"
                    "  kubernetes: {{ version: v1.34.1, endpoint: {{ vip: 10.0.0.20 }} }}\n"
                    "  network: {{ addressing: {}, subnet: 10.0.0.0/16, gateway: 10.0.0.1 }}\n"
                    "  proxmox: {{ endpoints: [https://pve.home:8006], token: {{ secret: t }}, "
                    "hosts: [pve1, pve2, pve3] }}\n"
                    "  nodes:\n"
                    "    cp-1: {{ role: controlplane, address: 10.0.0.11 }}\n"
                    "    cp-2: {{ role: controlplane, address: 10.0.0.12 }}\n"
                    "    cp-3: {{ role: controlplane, address: 10.0.0.13 }}\n{}",
                    extra, addressing, nodes),
        "cluster.yaml", "/");
    EXPECT_FALSE(loaded.diagnostics.has_errors()) << loaded.diagnostics.render();
    return loaded.spec;
  }

  spec::Lock resolve(const spec::Spec& spec, const spec::Lock& before = {}, bool refresh = false,
                     bool digests = false) {
    factory::Client factory{rig.wire, *spec.talos.factory};
    proxmox::Client client{rig.wire, rig.access(rig.home.token)};
    return locking::resolve(files, spec, before,
                            {.factory = factory,
                             .look = [&] { return locking::occupied(client); },
                             .is_free =
                                 [&](std::uint64_t vmid) {
                                   return client.vmid_is_free(static_cast<proxmox::Vmid>(vmid));
                                 },
                             .refresh = refresh,
                             .digests = digests,
                             .heard = [&](const std::string& file, Bytes so_far,
                                          auto) { read[file] = so_far.count(); }});
  }
  std::uint64_t asked() const { return rig.wire.exchanges(); }

  std::map<std::string, std::uint64_t> read;  // how much of each image
  MemoryFiles files;
  LabRig rig{lab::pve::Release::v9(), {"pve1", "pve2", "pve3"}};
};

TEST_F(Locking, PinsEverythingAndAsksNobodyTheSecondTime) {
  const spec::Spec spec = load();
  const spec::Lock lock = resolve(spec);
  EXPECT_EQ(lock.talos, "1.11.5");
  EXPECT_EQ(lock.kubernetes, "1.34.1");
  EXPECT_THAT(lock.schematics, ElementsAre(Key("cluster")));
  ASSERT_EQ(lock.images.size(), 1u);
  const auto& [file, image] = *lock.images.begin();
  const std::string id = lock.schematics.at("cluster");
  EXPECT_EQ(file, "talos-v1.11.5-" + id.substr(0, 12) + "-nocloud-amd64.qcow2");
  EXPECT_EQ(image.url, "https://factory.talos.dev/image/" + id + "/v1.11.5/nocloud-amd64.qcow2");
  EXPECT_EQ(image.size, 4096u) << "as large as the factory says";
  EXPECT_EQ(image.sha256, "") << "the factory gives none";
  EXPECT_EQ(lock.extensions_of, "1.11.5");
  EXPECT_THAT(lock.extensions,
              testing::IsSupersetOf({"siderolabs/qemu-guest-agent", "siderolabs/nfsrahead"}));
  EXPECT_THAT(lock.extensions, testing::Not(testing::Contains("siderolabs/xe")));  // of 1.12
  std::set<std::string> hosts;
  for (const auto& [name, node] : lock.nodes) hosts.insert(node.host);
  EXPECT_THAT(hosts, UnorderedElementsAre("pve1", "pve2", "pve3"));

  const std::uint64_t before = asked();
  const spec::Lock again = resolve(spec, lock);
  EXPECT_EQ(again, lock);
  EXPECT_EQ(asked(), before);
  EXPECT_NO_THROW(spec::require_unchanged(lock, again));
}

TEST_F(Locking, LeavesIdsAloneThatOthersHave) {
  rig.home.dc.vms[100].id = 100;
  rig.home.dc.vms[100].node = "pve1";
  rig.home.dc.vms[101].id = 101;
  rig.home.dc.vms[101].node = "pve2";
  const spec::Lock lock = resolve(load());
  EXPECT_EQ(lock.nodes.at("cp-1").vmid, 102u);
  EXPECT_EQ(lock.nodes.at("cp-3").vmid, 104u);
}

TEST_F(Locking, AnIdThatTheTokenCannotSeeIsNotTakenEither) {
  rig.home.dc.vms[100].id = 100;
  rig.home.dc.vms[100].node = "pve1";
  for (const char* who : {"rocca@pve", "rocca@pve!lab"})
    rig.home.dc.access.acl["/vms/100"][who]["NoAccess"] = true;
  proxmox::Client client{rig.wire, rig.access(rig.home.token)};
  EXPECT_TRUE(client.vms().empty()) << "or this shows nothing";
  EXPECT_EQ(resolve(load()).nodes.at("cp-1").vmid, 101u);
}

TEST_F(Locking, BeginsWhereTheOwnerWantsNewIds) {
  rig.home.dc.options["next-id"] = "lower=4000,upper=5000";
  EXPECT_EQ(resolve(load()).nodes.at("cp-1").vmid, 4000u);
}

TEST_F(Locking, ANodeWithMetaHasASchematicAndAnImageOfItsOwn) {
  const spec::Lock lock = resolve(load("meta"));
  EXPECT_THAT(lock.schematics, ElementsAre(Key("cp-1"), Key("cp-2"), Key("cp-3")));
  EXPECT_EQ(lock.images.size(), 3u);
  for (const auto& [file, image] : lock.images) EXPECT_THAT(file, HasSubstr("metal-amd64"));
}

TEST_F(Locking, APoolsAndANodesOwnImageArePinnedByTheirNames) {
  const spec::Lock lock = resolve(
      load("nocloud", "",
           R"(    big: { role: worker, address: 10.0.0.21, talos: { kernelArgs: [intel_iommu=on] } }
  pools:
    gpu: { count: 2, addresses: 10.0.0.31-10.0.0.39, talos: { extensions: [qemu-guest-agent, i915] } }
)"));
  EXPECT_THAT(lock.schematics, ElementsAre(Key("cluster"), Key("nodes.big"), Key("pools.gpu")));
  EXPECT_EQ(lock.images.size(), 3u);
  for (const auto& [file, image] : lock.images) EXPECT_TRUE(image.size) << file;
  EXPECT_EQ(spec::parse_lock(spec::to_text(lock), "rocca.lock"), lock);
}

TEST_F(Locking, AnExtensionOfAPoolThatTheFactoryDoesNotHave) {
  const spec::Spec spec = load("nocloud", "", R"(  pools:
    gpu: { count: 1, addresses: 10.0.0.31-10.0.0.39, talos: { extensions: [qemu-guest-agent, nonesuch] } }
)");
  try {
    resolve(spec);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
    EXPECT_THAT(error.message(), HasSubstr("cluster.yaml:14:"));
    EXPECT_THAT(error.message(), HasSubstr("siderolabs/nonesuch"));
  }
}

TEST_F(Locking, AChangedSpecChangesOnlyWhatItMust) {
  const spec::Lock before = resolve(load());
  spec::Lock kept = before;
  kept.nodes["metal"].uuid = Uuid::parse("4c4c4544-0042-4d10-8051-b3c04f4a3532");
  kept.images.begin()->second.sha256 = std::string(64, 'a');
  const spec::Lock after = resolve(load(), kept);
  EXPECT_EQ(after, kept) << "a digest, and a machine that is known by its UUID, stay";

  const spec::Lock changed = resolve(load("nocloud", ", iscsi-tools"), before);
  EXPECT_EQ(changed.nodes, before.nodes);
  EXPECT_NE(changed.schematics, before.schematics);
  try {
    spec::require_unchanged(before, changed);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Refused);
    EXPECT_THAT(error.message(), HasSubstr("schematics.cluster"));
  }
}

TEST_F(Locking, AnExtensionThatTheFactoryDoesNotHave) {
  const spec::Spec spec = load("nocloud", ", nonesuch");
  try {
    resolve(spec);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
    EXPECT_THAT(error.message(), HasSubstr("cluster.yaml:5:"));
    EXPECT_THAT(error.message(), HasSubstr("siderolabs/nonesuch"));
  }
}

TEST_F(Locking, RefreshAsksAgain) {
  const spec::Lock before = resolve(load());
  rig.home.factory.extensions.push_back({"siderolabs/new", "", "", "", ""});
  EXPECT_EQ(resolve(load(), before), before);
  EXPECT_EQ(resolve(load(), before, true).extensions.size(), before.extensions.size() + 1);
}

TEST_F(Locking, ADigestIsReadOnceAndOnlyWhenItIsAskedFor) {
  const spec::Lock plain = resolve(load());
  EXPECT_THAT(read, testing::IsEmpty());
  const spec::Lock lock = resolve(load(), plain, false, /*digests=*/true);
  const auto& [file, image] = *lock.images.begin();
  std::string why;
  const auto real = rig.home.factory.image(net::Url::parse(image.url)->target, why);
  ASSERT_TRUE(real) << why;
  EXPECT_EQ(image.sha256, to_hex(secrets::crypto::sha256(real->bytes)));
  EXPECT_THAT(read, ElementsAre(testing::Pair(file, 4096u))) << "three nodes share it";
  spec::Lock without = lock;
  without.images.begin()->second.sha256.clear();
  EXPECT_EQ(without, plain);

  const std::uint64_t before = asked();
  EXPECT_EQ(resolve(load(), lock, false, true), lock);
  EXPECT_EQ(resolve(load(), lock), lock) << "it stays without being asked for";
  EXPECT_EQ(asked(), before);

  spec::Lock old = lock;
  old.images.begin()->second.sha256 = std::string(64, 'a');
  EXPECT_EQ(resolve(load(), old, false, true), old) << "one that a user wrote is kept";
  EXPECT_EQ(resolve(load(), old, /*refresh=*/true), old);
  EXPECT_EQ(resolve(load(), old, true, true), lock);
}

TEST_F(Locking, WithMetaEveryNodesImageIsRead) {
  const spec::Lock lock = resolve(load("meta"), {}, false, true);
  std::set<std::string> digests;
  for (const auto& [file, image] : lock.images) digests.insert(image.sha256);
  EXPECT_EQ(digests.size(), 3u);
  EXPECT_EQ(read.size(), 3u);
}

TEST_F(Locking, AnImageOfAnotherSizeThanThePinnedOneGetsNoDigest) {
  const spec::Lock before = resolve(load());
  rig.home.factory.truncate = true;
  try {
    resolve(load(), before, false, true);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Conflict);
    EXPECT_THAT(error.render(), testing::AllOf(HasSubstr("has 9 bytes, and 4096 are pinned"),
                                               HasSubstr("looking for the image of cp-1"),
                                               HasSubstr("--refresh --digest")));
  }
}

TEST_F(Locking, ALockOfAnotherClusterIsRefused) {
  spec::Lock other = resolve(load());
  other.cluster = "green";
  EXPECT_THROW(resolve(load(), other), Error);
}

TEST_F(Locking, AFactoryThatCannotBeReached) {
  rig.home.world.network().set_up(lab::Internet::factory_address, false);
  try {
    resolve(load());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Unreachable);
    EXPECT_THAT(error.render(), HasSubstr("factory.talos.dev"));
  }
}

}  // namespace
}  // namespace rocca::scenarios
