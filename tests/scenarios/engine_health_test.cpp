// What `up` promises is true when it ends, `status` calls a cluster healthy only then, and says why
// where it does not.

#include "kube/client.hpp"
#include "kube/waits.hpp"
#include "report/status.hpp"
#include "scenarios/engine_machines.hpp"
#include "scenarios/handover_rig.hpp"
#include "text/yaml.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using lab::kube::condition_status;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string without_endpoint(const std::string& nodes) {
  return replace_all(static_spec(nodes), "    endpoint: { vip: 10.0.1.10 }\n", "");
}

void raise(HandoverRig& one, const std::string& spec) {
  one.rig.write_spec(spec);
  const engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
}

resources::ClusterStatus status_of(HandoverRig& one) {
  return one.rig.run(one.options())->status();
}

std::string why(const resources::ClusterStatus& status) {
  return status.problems.empty() ? "no problem is named" : join(status.problems, "\n");
}

/// The names of Nodes that are ready, by the kubeconfig that `up` wrote, at this very moment.
std::vector<std::string> ready_nodes(HandoverRig& one) {
  kube::Client client{one.rig.wire, one.rig.files,
                      kube::load_kubeconfig(one.rig.files, "/clusters/blue/configs/kubeconfig")};
  std::vector<std::string> names;
  for (const text::Value& node : client.list("/api/v1/nodes"))
    if (kube::node_ready(node).done) names.push_back(kube::text_at(node, {"metadata", "name"}));
  return names;
}

// ---- the end of `up`

TEST(Health, UpEndsWhenTheApiAnswersThroughTheEndpointAndEveryNodeIsReady) {
  for (const bool vip : {false, true}) {
    SCOPED_TRACE(vip);
    HandoverRig one;
    raise(one, vip ? static_spec(pools(1, 2)) : without_endpoint(pools(1, 2)));
    EXPECT_THAT(ready_nodes(one), ElementsAre("cp-1", "worker-1", "worker-2"));
    const resources::ClusterStatus status = status_of(one);
    EXPECT_TRUE(status.healthy) << why(status);
    EXPECT_THAT(one.plan(), IsEmpty());
  }
}

/// Nothing answers at a port, as long as something is so.
class Closed final : public net::Transport {
 public:
  Closed(net::Transport& inner, std::string part, std::function<bool()> lasts)
      : inner_(inner), part_(std::move(part)), lasts_(std::move(lasts)) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (request.url.find(part_) != std::string::npos) {
      ++asked;
      if (lasts_()) throw Error(Fault::Unreachable, "connection refused");
    }
    return inner_.exchange(request, sink, std::move(stop));
  }
  std::size_t asked = 0;

 private:
  net::Transport& inner_;
  std::string part_;
  std::function<bool()> lasts_;
};

TEST(Health, AnEndpointThatStaysSilentEndsUpWithinItsTimeoutAndWithTheReason) {
  HandoverRig one;
  Closed closed{one.rig.counting, ":6443/api/v1/nodes", [] { return true; }};
  one.rig.transport = &closed;
  one.rig.write_spec(replace_all(without_endpoint(pools(1, 1)), "  kubernetes:\n",
                                 "  timeouts: { bootstrap: 4m }\n  kubernetes:\n"));
  const Tick began = one.rig.home.world.clock().tick();
  const std::string said = one.failure();
  EXPECT_LT(one.rig.home.world.clock().tick() - began, 10min);
  EXPECT_THAT(said, AllOf(HasSubstr("health/blue: "), HasSubstr("still waiting after 4m"),
                          HasSubstr("the Kubernetes API to answer at https://10.0.1.11:6443"),
                          HasSubstr("connection refused")));
  // The heartbeat repeats the reason.
  EXPECT_THAT(one.rig.log, Contains(AllOf(HasSubstr("still waiting health/blue"),
                                          HasSubstr("https://10.0.1.11:6443"))));
  one.rig.transport = nullptr;
  const engine::Report report = one.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(one.plan(), IsEmpty());
}

TEST(Health, TheNodesAreListedOnceForAllOfThem) {
  HandoverRig one;
  raise(one, static_spec(pools(1, 6)));
  Closed lists{one.rig.counting, "/api/v1/nodes", [] { return false; }};
  one.rig.transport = &lists;
  EXPECT_THAT(one.plan(), IsEmpty());
  EXPECT_EQ(lists.asked, 1u);
  const std::size_t before = lists.asked;
  EXPECT_TRUE(status_of(one).healthy);
  EXPECT_LE(lists.asked - before, 2u);
}

TEST(Health, AddOnsThatWaitForNodesListThemOnce) {
  HandoverRig one;
  one.write(plain_flux, "", "cni: { cilium: { version: 1.16.5 } }");
  const std::string spec = one.rig.files.get("/clusters/blue/cluster.yaml");
  one.rig.write_spec(replace_all(spec, "worker: { count: 1", "worker: { count: 5"));
  const engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  Closed lists{one.rig.counting, "/api/v1/nodes", [] { return false; }};
  one.rig.transport = &lists;
  EXPECT_THAT(one.plan(), IsEmpty());
  EXPECT_EQ(lists.asked, 2u);  // the CNI's wait and the cluster's own
}

// ---- after changes

TEST(Health, TheSharedAddressIsAskedForAgainAfterControlPlanesWereRestarted) {
  for (const unsigned planes : {1, 3}) {
    SCOPED_TRACE(planes);
    HandoverRig one;
    const std::string spec = fmt::format(
        "  machine: {{ memory: 4GiB, cores: 2 }}\n  pools:\n"
        "    cp: {{ role: controlplane, count: {}, addresses: 10.0.1.11-10.0.1.15 }}\n",
        planes);
    raise(one, static_spec(spec));
    one.rig.write_spec(static_spec(replace_all(spec, "4GiB", "5GiB")));
    resources::RunOptions how = one.options();
    how.policy.allowed.insert(engine::Effect::PowerCycle);
    const engine::Report report = one.rig.up(how);
    ASSERT_TRUE(report.ok()) << problems(report);
    EXPECT_THAT(one.plan(), IsEmpty());
    const resources::ClusterStatus status = status_of(one);
    EXPECT_TRUE(status.healthy) << why(status);
  }
}

TEST(Health, AccessFilesNameTheNewAddressOfAControlPlane) {
  HandoverRig one;
  const std::string spec =
      static_spec("  nodes:\n    cp-1: { role: controlplane, address: 10.0.1.11 }\n");
  raise(one, spec);
  one.rig.write_spec(replace_all(spec, "10.0.1.11", "10.0.1.12"));
  resources::RunOptions how = one.options();
  how.policy.allowed.insert(engine::Effect::PowerCycle);
  EXPECT_THAT(differences(one.rig.plan(how)), Contains(HasSubstr("access/blue")));
  const engine::Report report = one.rig.up(how);
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(one.rig.files.get("/clusters/blue/configs/talosconfig"), HasSubstr("10.0.1.12"));
  EXPECT_THAT(one.plan(), IsEmpty());
}

// ---- what was deleted

TEST(Health, ADeletedCniIsInstalledAgain) {
  HandoverRig one;
  one.write(plain_flux, "", "cni: { cilium: { version: 1.16.5 } }");
  engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  const struct {
    const char* resource;
    const char* name;
  } deleted[] = {{"apps/daemonsets", "cilium"}, {"apps/deployments", "cilium-operator"}};
  for (const auto& each : deleted) {
    SCOPED_TRACE(each.name);
    kube::Client client{one.rig.wire, one.rig.files,
                        kube::load_kubeconfig(one.rig.files, "/clusters/blue/configs/kubeconfig")};
    client.remove(fmt::format("/apis/apps/v1/namespaces/kube-system/{}/{}",
                              std::string(each.resource).substr(5), each.name),
                  {});
    one.rig.home.world.run_for(1min);
    const resources::ClusterStatus status = status_of(one);
    EXPECT_FALSE(status.healthy);
    EXPECT_THAT(status.problems, Contains(AllOf(HasSubstr("addon/cni"), HasSubstr(each.name),
                                                HasSubstr("missing"))));
    EXPECT_THAT(one.plan(), Contains(AllOf(HasSubstr("addon/cni"), HasSubstr("run again"))));
    report = one.up();
    ASSERT_TRUE(report.ok()) << problems(report);
    EXPECT_TRUE(one.find(each.resource, "kube-system", each.name));
    EXPECT_THAT(one.plan(), IsEmpty());
    EXPECT_TRUE(status_of(one).healthy) << why(status_of(one));
  }
}

TEST(Health, AnInstallerThatFailedIsRunAgainByTheNextUp) {
  HandoverRig one;
  one.rig.home.estate.clusters().crashing_images["alpine/helm"] = "no route to helm.cilium.io";
  one.write(plain_flux, "", "cni: { cilium: { version: 1.16.5 } }");
  EXPECT_THAT(one.failure(), HasSubstr("addon/cni"));
  // Kubernetes has given up.
  for (const auto& [key, job] : one.api().storage().all("batch/jobs")) {
    text::Value failed = *job;
    failed.find("status")->set(
        "conditions", text::parse_yaml("[ { type: Failed, status: \"True\", reason: "
                                       "BackoffLimitExceeded, message: Job has reached it } ]",
                                       "conditions"));
    one.api().storage().put("batch/jobs", key, failed);
    break;
  }
  one.rig.home.estate.clusters().crashing_images.clear();
  const engine::Report report = one.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(one.plan(), IsEmpty());
}

TEST(Health, ADeletedAddOnIsInstalledAgain) {
  HandoverRig one;
  one.write(plain_flux, R"(  addons:
    manifests:
      - |
        apiVersion: v1
        kind: ConfigMap
        metadata: { name: hours, namespace: default }
        data: { open: "9-17" }
)");
  engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  kube::Client client{one.rig.wire, one.rig.files,
                      kube::load_kubeconfig(one.rig.files, "/clusters/blue/configs/kubeconfig")};
  client.remove("/api/v1/namespaces/default/configmaps/hours", {});
  const resources::ClusterStatus status = status_of(one);
  EXPECT_FALSE(status.healthy);
  EXPECT_THAT(status.problems, ElementsAre(HasSubstr("addon/manifests")));
  report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_TRUE(one.find("/configmaps", "default", "hours"));
  EXPECT_TRUE(status_of(one).healthy);
}

TEST(Health, WithoutItsNetworkNodesAreNotReadyAndTheClusterIsNotHealthy) {
  HandoverRig one;
  raise(one, static_spec(pools(1, 1)));
  kube::Client client{one.rig.wire, one.rig.files,
                      kube::load_kubeconfig(one.rig.files, "/clusters/blue/configs/kubeconfig")};
  client.remove("/apis/apps/v1/namespaces/kube-system/daemonsets/kube-flannel", {});
  one.rig.home.world.run_for(1min);
  EXPECT_EQ(condition_status(*one.find("/nodes", "", "worker-1"), "Ready"), "False");
  const resources::ClusterStatus status = status_of(one);
  EXPECT_FALSE(status.healthy);
  EXPECT_THAT(status.problems,
              ElementsAre(AllOf(HasSubstr("health/blue: "), HasSubstr("cp-1 and worker-1"),
                                HasSubstr("cni plugin not initialized"))));
  // `up` cannot bring it back, and says who can.
  EXPECT_THAT(one.failure(), AllOf(HasSubstr("health/blue"), HasSubstr("kube-flannel is missing"),
                                   HasSubstr("talosctl upgrade-k8s --to 1.34.1")));
}

// ---- drift promises only what `up` does

TEST(Health, DriftDoesNotPromiseWhatUpOnlyWaitsFor) {
  HandoverRig one;
  raise(one, static_spec(pools(1, 1)));
  Closed closed{one.rig.counting, ":6443/api/v1/nodes", [] { return true; }};
  one.rig.transport = &closed;
  const auto run = one.rig.run(one.options());
  const std::vector<resources::Drift> drifts = run->drift();
  ASSERT_THAT(drifts, testing::SizeIs(1));
  EXPECT_TRUE(drifts.front().waits);
  const std::string text =
      report::render(drifts, {}, "blue", one.rig.home.world.now(), {.width = 100});
  EXPECT_THAT(text, AllOf(HasSubstr("waits for it and changes nothing"), Not(HasSubstr("puts"))));
}

// ---- reasons

TEST(Health, AfterARefusedRenameEtcdsOwnMembersAreCounted) {
  HandoverRig one;
  const std::string spec = static_spec(
      "  nodes:\n    cp-1: { role: controlplane, address: 10.0.1.11 }\n"
      "    cp-2: { role: controlplane, address: 10.0.1.12 }\n"
      "    cp-3: { role: controlplane, address: 10.0.1.13 }\n");
  raise(one, spec);
  one.rig.write_spec(replace_all(spec, "cp-3", "cp-9"));
  const resources::ClusterStatus status = status_of(one);
  EXPECT_THAT(status.etcd, AllOf(HasSubstr("3 members"), HasSubstr("cp-3 is in no spec"),
                                 Not(HasSubstr("quorum")), Not(HasSubstr("does not answer"))));
  EXPECT_FALSE(status.healthy);
  EXPECT_THAT(status.problems, Contains(HasSubstr("cp-9: ")));
}

TEST(Health, ASharedAddressThatAnotherMachineHasIsTheReason) {
  HandoverRig one;
  raise(one, static_spec(pools(1, 1)));
  Closed taken{one.rig.counting, "://10.0.1.10:6443", [] { return true; }};
  one.rig.transport = &taken;
  const resources::ClusterStatus status = status_of(one);
  EXPECT_FALSE(status.healthy);
  EXPECT_THAT(status.problems, Contains(AllOf(HasSubstr("vip/blue"), HasSubstr("refused"))));
  EXPECT_THAT(report::render(status, one.rig.home.world.now(), {.width = 120}),
              AllOf(HasSubstr("vip/blue: "), HasSubstr("is not healthy")));
}

TEST(Health, EveryStatusThatIsNotHealthyHasItsReason) {
  HandoverRig one;
  raise(one, static_spec(pools(3, 1)));
  one.rig.home.estate.crash(101);
  one.rig.home.world.run_for(1min);
  const resources::ClusterStatus status = status_of(one);
  EXPECT_FALSE(status.healthy);
  EXPECT_THAT(status.problems, Contains(HasSubstr("cp-2: ")));
}

TEST(Health, AccessFilesThatNameAnOldLeaseMakeTheClusterUnhealthy) {
  HandoverRig one;
  std::string spec = replace_all(without_endpoint("  machine: { agent: true }\n  nodes:\n"
                                                  "    cp-1: { role: controlplane }\n"),
                                 "addressing: static", "addressing: dhcp");
  for (const char* fixed : {"    gateway: 10.0.0.1\n", "    nameservers: [10.0.0.1]\n"})
    spec = replace_all(spec, fixed, "");
  raise(one, spec);
  EXPECT_TRUE(status_of(one).healthy) << why(status_of(one));
  one.rig.home.estate.crash(100);
  arm(one.rig, "- at: 0s\n  lease: 100\n");
  test::Administrator client = root(one.rig);
  wait_for(one.rig, client, client.start_vm("pve1", 100));
  one.rig.home.world.run_for(5min);
  const resources::ClusterStatus status = status_of(one);
  EXPECT_FALSE(status.healthy);
  EXPECT_THAT(status.problems,
              Contains(AllOf(HasSubstr("access/blue: "), HasSubstr("kubeconfig.server"))));
  const engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_TRUE(status_of(one).healthy) << why(status_of(one));
}

}  // namespace
}  // namespace rocca::scenarios
