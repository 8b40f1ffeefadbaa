// Images are named by what is in them: clusters of one Proxmox share a file, and none takes it from
// another.

#include "factory/client.hpp"
#include "scenarios/engine_rig.hpp"
#include "talos/client.hpp"

namespace rocca::scenarios {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using testing::StartsWith;

const secrets::Bundle& green_bundle() {
  static const secrets::Bundle bundle = make_bundle(8);
  return bundle;
}

void blue(ClusterRig& rig) {
  rig.turn_to("/clusters/blue", test_bundle());
}
void green(ClusterRig& rig) {
  rig.turn_to("/clusters/green", green_bundle());
}

std::string green_spec() {
  return replace_all(replace_all(replace_all(static_spec(pools(1, 0)), "name: blue", "name: green"),
                                 "10.0.1.10", "10.0.2.10"),
                     "10.0.1.11-10.0.1.15", "10.0.2.11-10.0.2.15");
}

std::vector<std::string> images(const ClusterRig& rig, const std::string& host = "pve1") {
  std::vector<std::string> all;
  for (const auto& [name, volume] : rig.home.dc.storages.at("local").on(host))
    if (name.starts_with("import/")) all.push_back(name);
  return all;
}

resources::RunOptions purge() {
  resources::RunOptions options;
  options.purge_images = true;
  return options;
}

void raise_both(ClusterRig& rig) {
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  green(rig);
  rig.write_spec(green_spec());
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  ASSERT_THAT(images(rig), SizeIs(1));
}

TEST(EngineImages, DownLeavesAnImageThatAnotherClusterMayNeed) {
  ClusterRig rig;
  raise_both(rig);
  const auto run = rig.run(purge());
  EXPECT_THAT(run->plan_down().kept,
              ElementsAre(Pair(StartsWith("image/local@pve1/talos-"),
                               AllOf(HasSubstr("VM 100 'blue-cp-1' on pve1 is of the cluster blue"),
                                     HasSubstr("may have been made of the same image")))));
  ASSERT_TRUE(run->down({}).ok());
  EXPECT_THAT(images(rig), SizeIs(1));
  blue(rig);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  ASSERT_TRUE(rig.down(purge()).ok());
  EXPECT_THAT(images(rig), IsEmpty());
}

// A `down` keeps images and forgets them; a second one that is to purge them finds them again.
TEST(EngineImages, DownWithPurgeAfterADownDeletesTheImage) {
  for (const char* storage : {"local", "shared"}) {
    SCOPED_TRACE(storage);
    lab::Home::Options two_hosts;
    two_hosts.hosts = {"pve1", "pve2"};
    ClusterRig rig{two_hosts};
    rig.write_spec(replace_all(static_spec(pools(1, 1), "[pve1, pve2]"), "    insecure: true\n",
                               fmt::format("    insecure: true\n    storage: {{ images: {}, disks: "
                                           "local-lvm }}\n",
                                           storage)));
    ASSERT_TRUE(rig.up().ok());
    const auto files = [&] {
      std::size_t count = 0;
      for (const auto& [host, volumes] : rig.home.dc.storages.at(storage).volumes)
        for (const auto& [name, volume] : volumes) count += name.starts_with("import/");
      return count;
    };
    ASSERT_GT(files(), 0u);
    ASSERT_TRUE(rig.down().ok());
    ASSERT_GT(files(), 0u) << "kept without --purge-images";
    const auto run = rig.run(purge());
    EXPECT_FALSE(run->plan_down().empty());
    const engine::Report report = run->down({});
    EXPECT_TRUE(report.ok()) << problems(report);
    EXPECT_EQ(files(), 0u);
    EXPECT_TRUE(rig.run(purge())->plan_down().empty());
  }
}

// What only opened the cluster that is gone goes with it; what others wrote there stays.
TEST(EngineDown, RemovesTheAccessFilesOfTheClusterThatIsGone) {
  for (const bool foreign : {false, true}) {
    ClusterRig rig;
    rig.write_spec(static_spec(pools(1, 0)));
    ASSERT_TRUE(rig.up().ok());
    const std::string kubeconfig = "/clusters/blue/configs/kubeconfig";
    const std::string talosconfig = "/clusters/blue/configs/talosconfig";
    ASSERT_TRUE(rig.files.find(kubeconfig));
    ASSERT_TRUE(rig.files.find(talosconfig));
    if (foreign) rig.files.write(kubeconfig, "apiVersion: v1\nkind: Config\nusers: []\n");
    ASSERT_TRUE(rig.down().ok());
    EXPECT_EQ(rig.files.find(kubeconfig).has_value(), foreign);
    EXPECT_FALSE(rig.files.find(talosconfig));
  }
}

// The other way round: whoever fetched it goes first, and the last one takes it along.
TEST(EngineImages, WhoeverIsLastTakesTheImageAlong) {
  ClusterRig rig;
  raise_both(rig);
  blue(rig);
  ASSERT_TRUE(rig.down(purge()).ok());
  EXPECT_THAT(images(rig), SizeIs(1));
  green(rig);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  ASSERT_TRUE(rig.down(purge()).ok());
  EXPECT_THAT(images(rig), IsEmpty());
}

// The last worker of a host goes, and its image is left over there.
TEST(EngineImages, AnUnusedImageStaysWhileAnotherClusterIsThere) {
  lab::Home::Options two_hosts;
  two_hosts.hosts = {"pve1", "pve2"};
  ClusterRig rig{two_hosts};
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  green(rig);
  const auto with_workers = [](unsigned count) {
    std::string text = replace_all(green_spec(), "count: 0", fmt::format("count: {}", count));
    return replace_all(text, "memory: 8GiB", "host: pve2, memory: 8GiB");
  };
  rig.write_spec(replace_all(with_workers(1), "[pve1]", "[pve1, pve2]"));
  ASSERT_TRUE(rig.up().ok());
  ASSERT_THAT(images(rig, "pve2"), SizeIs(1));
  rig.write_spec(replace_all(with_workers(0), "[pve1]", "[pve1, pve2]"));
  ASSERT_TRUE(rig.up(allow_data_loss()).ok());
  EXPECT_THAT(images(rig, "pve2"), SizeIs(1));
  const engine::Plan kept = rig.plan();
  EXPECT_THAT(differences(kept), IsEmpty());
  EXPECT_THAT(kept.kept, ElementsAre(Pair(StartsWith("image/local@pve2/"), HasSubstr("blue"))));
  blue(rig);
  ASSERT_TRUE(rig.down().ok());
  // Nobody else is left who could need it.
  green(rig);
  ASSERT_TRUE(rig.up().ok());
  EXPECT_THAT(images(rig, "pve2"), IsEmpty());
  EXPECT_THAT(rig.plan().kept, IsEmpty());
}

/// Extensions of a node, by its own word.
std::vector<std::string> extensions_of(ClusterRig& rig, const std::string& address) {
  const resources::Cluster cluster = rig.cluster();
  talos::Client node{rig.wire, talos::Access::secure(address, cluster.authority, cluster.identity)};
  std::vector<std::string> names;
  for (const talos::Extension& each : node.extensions())
    names.push_back(each.name == "schematic" ? each.version : each.name);
  return names;
}
std::string config_of(ClusterRig& rig, const std::string& address) {
  const resources::Cluster cluster = rig.cluster();
  talos::Client node{rig.wire, talos::Access::secure(address, cluster.authority, cluster.identity)};
  return std::string{node.find_config()->reveal()};
}

std::string with_gpus(unsigned count, const std::string& image, const std::string& more = "") {
  return replace_all(
      static_spec(pools(1, 1) + fmt::format("    gpu: {{ count: {}, addresses: "
                                            "10.0.1.51-10.0.1.59, talos: {{ {} }} }}\n",
                                            count, image)),
      "extensions: [qemu-guest-agent]", "extensions: [qemu-guest-agent]" + more);
}

const char* const graphics = "extensions: [qemu-guest-agent, i915], kernelArgs: [intel_iommu=on]";

std::vector<std::string> made(const engine::Plan& plan) {
  std::vector<std::string> all;
  for (const engine::Planned& step : plan.steps) all.push_back(step.address);
  return all;
}

struct Way {
  const char* name;
  const char* talos;  // beside the extensions
  const char* network;
  const char* content;  // where images lie
  std::size_t shared;   // images of the nodes without one of their own
  bool own;             // every node has one of its own
};

class TwoSchematics : public testing::TestWithParam<Way> {
 protected:
  std::string spec(unsigned count, const std::string& image) const {
    return replace_all(with_gpus(count, image, GetParam().talos), "addressing: static",
                       fmt::format("addressing: {}", GetParam().network));
  }
  std::size_t images_there() const {
    std::size_t count = 0;
    for (const auto& [name, volume] : rig.home.dc.storages.at("local").on("pve1"))
      count += name.starts_with(GetParam().content);
    return count;
  }
  spec::Lock lock() { return *spec::find_lock(rig.files, "/clusters/blue"); }
  ClusterRig rig;
};

TEST_P(TwoSchematics, LiveAWholeLife) {
  const Way& way = GetParam();
  rig.write_spec(spec(1, graphics));
  converges(rig, 3);
  EXPECT_EQ(images_there(), way.shared + 1);
  const std::string theirs = lock().schematics.at(way.own ? "gpu-1" : "pools.gpu");
  const std::string others = lock().schematics.at(way.own ? "worker-1" : "cluster");
  ASSERT_NE(theirs, others);
  EXPECT_THAT(extensions_of(rig, "10.0.1.51"), ElementsAre("qemu-guest-agent", "i915", theirs));
  EXPECT_THAT(extensions_of(rig, "10.0.1.21"), ElementsAre("qemu-guest-agent", others));
  EXPECT_THAT(config_of(rig, "10.0.1.51"), HasSubstr("installer/" + theirs + ":v1.11.5"));
  EXPECT_THAT(config_of(rig, "10.0.1.21"), HasSubstr("installer/" + others + ":v1.11.5"));

  // One more of the pool shares what is there; with META it has an image of its own.
  rig.write_spec(spec(2, graphics));
  EXPECT_THAT(made(rig.plan()), testing::IsSupersetOf({"vm/gpu-2", "machine/gpu-2"}));
  converges(rig, 4);
  EXPECT_EQ(images_there(), way.shared + (way.own ? 2 : 1));
  EXPECT_THAT(extensions_of(rig, "10.0.1.52"), testing::Contains("i915"));

  // Another image for nodes that run is an upgrade: of these, and of no others.
  rig.write_spec(spec(2, "extensions: [qemu-guest-agent, amdgpu]"));
  const std::string why = refused([&] { rig.up(); });
  EXPECT_THAT(why, AllOf(HasSubstr("gpu-1 was installed with schematic " + theirs.substr(0, 12)),
                         HasSubstr("gpu-2 was installed"), testing::Not(HasSubstr("worker-1"))));

  // Nobody has the pool's image any more.
  rig.write_spec(spec(0, graphics));
  const engine::Report report = rig.up(allow_data_loss());
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(images_there(), way.shared);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  EXPECT_EQ(lock().schematics.size(), way.own ? 2u : 1u);
  EXPECT_TRUE(rig.down(purge()).ok());
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
  EXPECT_EQ(images_there(), 0u);
}

INSTANTIATE_TEST_SUITE_P(By, TwoSchematics,
                         testing::Values(Way{"Import", "", "static", "import/", 1, false},
                                         Way{"Iso", ", boot: iso", "static", "iso/", 1, false},
                                         Way{"Meta", "", "meta", "import/", 2, true}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(EngineImages, ASchematicsFileOrIdMayBeANodesOwn) {
  ClusterRig rig;
  factory::Client factory{rig.wire, "https://factory.talos.dev", net::Tls::unverified()};
  factory::Schematic by_id;
  by_id.extensions = {"siderolabs/amdgpu", "siderolabs/qemu-guest-agent"};
  const std::string id = factory.register_schematic(by_id);
  rig.files.write("/clusters/blue/gpu.yaml",
                  "customization:\n  systemExtensions:\n    officialExtensions:\n"
                  "      - siderolabs/i915\n      - siderolabs/qemu-guest-agent\n");
  rig.write_spec(static_spec(fmt::format(R"(  nodes:
    cp-1: {{ role: controlplane, address: 10.0.1.11 }}
    one: {{ role: worker, address: 10.0.1.21, talos: {{ schematic: gpu.yaml }} }}
    two: {{ role: worker, address: 10.0.1.22, talos: {{ schematic: {} }} }}
    same: {{ role: worker, address: 10.0.1.23, talos: {{ extensions: [amdgpu, qemu-guest-agent] }} }}
)",
                                         id)));
  converges(rig, 4);
  EXPECT_THAT(images(rig), SizeIs(3)) << "what is made of the same parts is the same image";
  EXPECT_THAT(extensions_of(rig, "10.0.1.21"), testing::Contains("i915"));
  EXPECT_THAT(extensions_of(rig, "10.0.1.22"), testing::Contains(id));
  EXPECT_THAT(extensions_of(rig, "10.0.1.23"), testing::Contains(id));
}

// Somebody had put it there: by hand, or with another tool.
TEST(EngineImages, AnImageThatWasThereBeforeIsNotOursToDelete) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  const auto volumes = rig.home.dc.storages.at("local").on("pve1");
  ASSERT_TRUE(rig.down(purge()).ok());
  ASSERT_THAT(images(rig), IsEmpty());
  rig.home.world.run_for(std::chrono::hours{1});
  for (auto [name, volume] : volumes)
    if (name.starts_with("import/")) {
      volume.ctime = rig.home.world.unix_time();
      rig.home.dc.storages.at("local").on("pve1")[name] = volume;
    }
  const std::string file = images(rig).at(0);
  ASSERT_TRUE(rig.up().ok());
  const auto run = rig.run(purge());
  EXPECT_THAT(run->plan_down().kept,
              ElementsAre(Pair(HasSubstr(file.substr(7)),
                               "it was there before, or another user has put it there")));
  ASSERT_TRUE(run->down({}).ok());
  EXPECT_THAT(images(rig), ElementsAre(file));
}

}  // namespace
}  // namespace rocca::scenarios
