// Versions of Kubernetes on a running cluster, and what cannot be changed there.

#include "lab/machines/clusters.hpp"
#include "scenarios/engine_rig.hpp"
#include "support/kill_sweep.hpp"
#include "talosconfig/images.hpp"

#include <algorithm>

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using talos::Component;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string with_kubernetes(const std::string& version, unsigned planes, unsigned workers) {
  return replace_all(static_spec(pools(planes, workers)), "v1.34.1", version);
}

const std::vector<std::string>& skews(ClusterRig& rig) {
  lab::Kubernetes* kubernetes = rig.home.estate.clusters().find("blue");
  if (kubernetes == nullptr) throw Error(Fault::NotFound, "the lab's cluster has no Kubernetes");
  return kubernetes->skews();
}

/// What a node's configuration says, as the lab has it.
talos::KubernetesImages images_of(const lab::Truth& truth) {
  return talos::kubernetes_images(truth.config, 11);
}

/// "cp-1 kube-apiserver v1.33.4" for every component of every node.
std::vector<std::string> versions(ClusterRig& rig) {
  std::vector<std::string> all;
  for (const lab::Truth& truth : rig.home.estate.truths())
    for (const Component component : talos::components)
      if (const auto version = talos::image_version(images_of(truth).of(component)))
        all.push_back(
            fmt::format("{} {} v{}", truth.hostname, to_string(component), to_string(*version)));
  return all;
}

/// Writes down which images changed, in order, and what runs beside them at that moment.
class Recorder final : public net::Transport {
 public:
  explicit Recorder(ClusterRig& rig) : rig_(rig), last_(versions(rig)) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    net::Response response = rig_.counting.exchange(request, sink, std::move(stop));
    if (!request.url.ends_with("/ApplyConfiguration")) return response;
    const std::vector<std::string> now = versions(rig_);
    for (const std::string& line : now)
      if (std::find(last_.begin(), last_.end(), line) == last_.end()) changes.push_back(line);
    last_ = now;
    return response;
  }
  std::vector<std::string> changes;

 private:
  ClusterRig& rig_;
  std::vector<std::string> last_;
};

struct Refused {
  const char* name;
  const char* from;
  const char* to;
  const char* why;
  const char* hint;
};
class RefusedVersions : public testing::TestWithParam<Refused> {};

TEST_P(RefusedVersions, AreSaidInThePlanAndNothingIsTouched) {
  const Refused& row = GetParam();
  ClusterRig rig;
  rig.write_spec(with_kubernetes(row.from, 1, 1));
  ASSERT_TRUE(rig.up().ok());
  const std::vector<std::string> before = versions(rig);
  rig.write_spec(with_kubernetes(row.to, 1, 1));
  const engine::Plan plan = rig.plan();
  EXPECT_GE(plan.summary.refused, 2u);
  for (const engine::Planned& step : plan.steps) {
    if (!step.address.starts_with("machine/")) continue;
    EXPECT_THAT(step.change.refusal, HasSubstr(row.why)) << step.address;
    EXPECT_THAT(step.change.hint, HasSubstr(row.hint)) << step.address;
  }
  EXPECT_THAT(refused([&] { static_cast<void>(rig.up()); }), HasSubstr(row.why));
  EXPECT_EQ(versions(rig), before);
}

INSTANTIATE_TEST_SUITE_P(
    Table, RefusedVersions,
    testing::Values(Refused{"MinorDown", "v1.34.1", "v1.33.1", "is a downgrade", "to v1.34.1"},
                    Refused{"ManyMinorsDown", "v1.34.1", "v1.29.0", "is a downgrade", "to v1.34.1"},
                    Refused{"PatchDown", "v1.34.1", "v1.34.0", "is a downgrade", "to v1.34.1"},
                    Refused{"TwoMinorsUp", "v1.32.1", "v1.34.1", "skips v1.33",
                            "a release of v1.33"}),
    [](const auto& row) { return row.param.name; });

TEST(EngineVersions, OneMinorUpGoesInTheOrderOfTalos) {
  ClusterRig rig;
  rig.write_spec(with_kubernetes("v1.32.1", 3, 2));
  ASSERT_TRUE(rig.up().ok());
  rig.home.world.run_for(1min);
  rig.write_spec(with_kubernetes("v1.33.4", 3, 2));
  const engine::Plan plan = rig.plan();
  EXPECT_EQ(plan.summary.refused, 0u) << testing::PrintToString(differences(plan));
  EXPECT_EQ(plan.effect, engine::Effect::Service);
  EXPECT_THAT(differences(plan), testing::Contains(HasSubstr("Kubernetes v1.32.1 → v1.33.4 (every "
                                                             "API server first")));
  Recorder recorder{rig};
  rig.transport = &recorder;
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  rig.home.world.run_for(2min);
  rig.transport = nullptr;
  // kube-apiserver on all control planes, then the next component; kubelets last, workers' after
  // control planes'.
  ASSERT_EQ(recorder.changes.size(), 3u * 5u + 2u);
  std::vector<std::string> kinds;
  for (const std::string& line : recorder.changes) {
    const std::vector<std::string> words = split(line, ' ');
    EXPECT_EQ(words[2], "v1.33.4");
    kinds.push_back((words[0].starts_with("cp") ? "cp " : "worker ") + words[1]);
  }
  kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
  EXPECT_THAT(kinds,
              ElementsAre("cp kube-apiserver", "cp kube-controller-manager", "cp kube-scheduler",
                          "cp kube-proxy", "cp kubelet", "worker kubelet"));
  EXPECT_THAT(skews(rig), IsEmpty());
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(EngineVersions, APatchReleaseGoesInTheSameOrder) {
  ClusterRig rig;
  rig.write_spec(with_kubernetes("v1.33.1", 1, 1));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(with_kubernetes("v1.33.4", 1, 1));
  Recorder recorder{rig};
  rig.transport = &recorder;
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  rig.transport = nullptr;
  EXPECT_THAT(recorder.changes,
              ElementsAre("cp-1 kube-apiserver v1.33.4", "cp-1 kube-controller-manager v1.33.4",
                          "cp-1 kube-scheduler v1.33.4", "cp-1 kube-proxy v1.33.4",
                          "cp-1 kubelet v1.33.4", "worker-1 kubelet v1.33.4"));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

/// With another change in the same step: only the images are held back.
TEST(EngineVersions, OtherChangesDoNotWaitForTheOrder) {
  ClusterRig rig;
  rig.write_spec(with_kubernetes("v1.32.1", 3, 1));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(replace_all(with_kubernetes("v1.33.4", 3, 1), "extensions: [qemu-guest-agent]",
                             "extensions: [qemu-guest-agent], sysctls: { vm.swappiness: 1 }"));
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  rig.home.world.run_for(1min);
  EXPECT_THAT(skews(rig), IsEmpty());
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

/// A new node would bring the new kubelet to old API servers.
TEST(EngineVersions, ANewNodeWaitsForTheApiServers) {
  ClusterRig rig;
  rig.write_spec(with_kubernetes("v1.32.1", 3, 1));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(with_kubernetes("v1.33.4", 3, 2));
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  rig.home.world.run_for(2min);
  EXPECT_THAT(skews(rig), IsEmpty());
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

std::size_t every() {
  const char* asked = std::getenv("ROCCA_SWEEP_EVERY");
  const auto number = asked == nullptr ? std::nullopt : parse_uint(asked);
  return number && *number > 0 ? static_cast<std::size_t>(*number) : 23;
}

TEST(EngineVersions, AKilledUpgradeGoesOnWhereItWas) {
  ClusterRig rig;
  rig.write_spec(with_kubernetes("v1.32.1", 3, 1));
  ASSERT_TRUE(rig.up().ok());
  rig.home.world.run_for(1min);
  rig.write_spec(with_kubernetes("v1.33.4", 3, 1));
  test::KillSweep::Options options;
  options.every = every();
  options.run = [&] {
    const engine::Report report = rig.up();
    if (!report.ok()) throw Error(Fault::Bug, problems(report));
  };
  options.recover = options.run;
  options.died = [&] { rig.die(); };
  options.end_state = [&] {
    rig.home.world.run_for(2min);
    return join(versions(rig), "\n") + join(skews(rig), "\n") + join(differences(rig.plan()), "\n");
  };
  test::KillSweep sweep{options};
  test::EdgeTransport wire{rig.wire, sweep};
  test::EdgeFiles files{rig.files, sweep};
  rig.transport = &wire;
  rig.door_files = &files;
  rig.store.reset();
  const test::KillSweep::Result result = sweep.sweep();
  fmt::print("{}\n", result.summary());
  EXPECT_THAT(result.failures, IsEmpty());
  EXPECT_THAT(result.expected, AllOf(HasSubstr("worker-1 kubelet v1.33.4"), Not(HasSubstr("v1.32")),
                                     Not(HasSubstr("newer"))));
}

/// The spec's history says nothing of what somebody did with talosctl.
TEST(EngineVersions, WhatNodesRunDecidesAndNotTheSpecsHistory) {
  ClusterRig rig;
  rig.write_spec(with_kubernetes("v1.32.1", 1, 0));
  ASSERT_TRUE(rig.up().ok());
  const resources::Cluster cluster = rig.cluster();
  talos::Client node{
      rig.wire, talos::Access::secure("10.0.1.11", cluster.authority, cluster.identity), {}};
  const std::string config{node.find_config()->reveal()};
  const auto upgrade = [&](const std::string& part) {
    node.apply(Secret{replace_all(std::string(node.find_config()->reveal()), part + ":v1.32.1",
                                  part + ":v1.33.4")},
               {talos::ApplyMode::NoReboot, false, 1min, {}});
    rig.home.world.run_for(1min);
  };
  upgrade("kube-apiserver");
  // The spec that created it would be a way back now, and the one after the next a jump.
  EXPECT_THAT(differences(rig.plan()), ElementsAre(HasSubstr("is a downgrade")));
  rig.write_spec(with_kubernetes("v1.34.1", 1, 0));
  EXPECT_THAT(differences(rig.plan()), ElementsAre(HasSubstr("skips v1.33")));
  // What was begun goes on.
  rig.write_spec(with_kubernetes("v1.33.4", 1, 0));
  Recorder recorder{rig};
  rig.transport = &recorder;
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(recorder.changes,
              ElementsAre("cp-1 kube-controller-manager v1.33.4", "cp-1 kube-scheduler v1.33.4",
                          "cp-1 kube-proxy v1.33.4", "cp-1 kubelet v1.33.4"));
  rig.transport = nullptr;
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

/// What the lab is strict about: a kubelet that is newer than an API server is not let in.
TEST(EngineVersions, TheLabRefusesAKubeletThatIsTooNew) {
  ClusterRig rig;
  rig.write_spec(with_kubernetes("v1.32.1", 1, 0));
  ASSERT_TRUE(rig.up().ok());
  rig.home.world.run_for(1min);
  const resources::Cluster cluster = rig.cluster();
  talos::Client node{
      rig.wire, talos::Access::secure("10.0.1.11", cluster.authority, cluster.identity), {}};
  // Both at once, as rocca did before it knew the order.
  node.apply(Secret{replace_all(std::string(node.find_config()->reveal()), ":v1.32.1", ":v1.33.4")},
             {talos::ApplyMode::NoReboot, false, 1min, {}});
  EXPECT_THAT(skews(rig), ElementsAre(AllOf(HasSubstr("the kubelet of cp-1 (v1.33.4) is newer"),
                                            HasSubstr("API server of cp-1 (v1.32.1)"))));
}

struct Fixed {
  const char* name;
  const char* from;
  const char* to;
  const char* path;
  const char* hint;
};
class FixedKeys : public testing::TestWithParam<Fixed> {};

TEST_P(FixedKeys, AreRefusedOnARunningCluster) {
  const Fixed& row = GetParam();
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  const std::string config = rig.home.estate.truth(100).config;
  rig.write_spec(replace_all(static_spec(pools(1, 1)), row.from, row.to));
  const engine::Plan plan = rig.plan();
  EXPECT_GE(plan.summary.refused, 1u) << testing::PrintToString(differences(plan));
  const std::string why = refused([&] { static_cast<void>(rig.up()); });
  EXPECT_THAT(why, AllOf(HasSubstr(row.path), HasSubstr("cannot be changed"), HasSubstr(row.hint)));
  EXPECT_EQ(rig.home.estate.truth(100).config, config);
  // With the old spec there is nothing to do.
  rig.write_spec(static_spec(pools(1, 1)));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

constexpr const char* kubernetes = "    version: v1.34.1\n";
INSTANTIATE_TEST_SUITE_P(
    Table, FixedKeys,
    testing::Values(
        Fixed{"PodCidr", kubernetes, "    version: v1.34.1\n    podCIDR: 10.200.0.0/16\n",
              "cluster.network.podSubnets", "kubernetes.podCIDR"},
        Fixed{"ServiceCidr", kubernetes, "    version: v1.34.1\n    serviceCIDR: 10.201.0.0/16\n",
              "cluster.network.serviceSubnets", "kubernetes.serviceCIDR"},
        Fixed{"HostName", "  network:\n", "  naming: { host: \"{cluster}-{node}\" }\n  network:\n",
              "machine.network.hostname", "naming.host"},
        Fixed{"Cni", kubernetes, "    version: v1.34.1\n    cni: none\n",
              "cluster.network.cni.name", "kubernetes.cni"},
        Fixed{"DnsDomain", "extensions: [qemu-guest-agent]",
              "extensions: [qemu-guest-agent], patches: { all: [ { cluster: { network: { "
              "dnsDomain: home } } } ] }",
              "cluster.network.dnsDomain", "talos.patches"}),
    [](const auto& row) { return row.param.name; });

/// A patch may pin older kubelets, and nothing that Kubernetes does not support.
TEST(EngineVersions, OfPatchesAreCheckedBeforeAnythingIsCreated) {
  const auto patched = [](const std::string& patch) {
    return replace_all(static_spec(pools(1, 1)), "extensions: [qemu-guest-agent]",
                       "extensions: [qemu-guest-agent], patches: " + patch);
  };
  ClusterRig rig;
  rig.write_spec(
      patched("{ worker: [ { machine: { kubelet: { image: 'a/kubelet:v1.35.0' } } } ] }"));
  EXPECT_THAT(
      refused([&] { static_cast<void>(rig.up()); }),
      AllOf(HasSubstr("kubelet v1.35.0 is newer than"), HasSubstr("machine.kubelet.image")));
  rig.write_spec(patched(
      "{ controlplane: [ { cluster: { apiServer: { image: 'a/kube-apiserver:v1.33.0' } } } ] }"));
  EXPECT_THAT(
      refused([&] { static_cast<void>(rig.up()); }),
      HasSubstr("sets kube-apiserver of cp-1 to v1.33.0, and kubernetes.version is v1.34.1"));
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
  rig.write_spec(
      patched("{ worker: [ { machine: { kubelet: { image: 'a/kubelet:v1.33.2' } } } ] }"));
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

}  // namespace
}  // namespace rocca::scenarios
