// Images are named by what is in them: clusters of one Proxmox share a file, and none takes it from
// another.

#include "scenarios/engine_rig.hpp"

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
                               "it was there before, or somebody else has put it there")));
  ASSERT_TRUE(run->down({}).ok());
  EXPECT_THAT(images(rig), ElementsAre(file));
}

}  // namespace
}  // namespace rocca::scenarios
