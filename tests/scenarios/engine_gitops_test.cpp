#include "lab/flux/charts.hpp"
#include "lab/sim/network.hpp"
#include "scaffold/gitops.hpp"
#include "scenarios/handover_rig.hpp"
#include "support/kill_sweep.hpp"
#include "text/yaml.hpp"

#include <set>

// The repository that `rocca new --gitops` writes, and what comes late: MetalLB's webhook, under
// Flux and under rocca itself. And a handover that is killed.

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using lab::kube::text_at;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using text::Value;

std::map<std::string, std::string> gitops_tree() {
  std::map<std::string, std::string> tree;
  for (const spec::NewFile& file : spec::gitops_files("")) tree[file.path.substr(1)] = file.content;
  return tree;
}

std::vector<Value> objects_of(const std::string& text, const std::string& name) {
  std::vector<Value> all;
  for (Value& one : text::parse_yaml_stream(text, name))
    if (one.is_map() && one.size() != 0) all.push_back(std::move(one));
  return all;
}

TEST(Gitops, EveryReferenceOfTheTemplateLeadsSomewhere) {
  const auto tree = gitops_tree();
  std::set<std::string> there;  // kind/namespace/name
  std::vector<Value> all;
  for (const auto& [path, text] : tree) {
    if (!path.ends_with(".yaml")) continue;
    for (Value& object : objects_of(text, path)) {
      const std::string folder = path.substr(0, path.rfind('/') + 1);
      if (path.ends_with("/kustomization.yaml")) {
        for (const Value& resource : object.find("resources")->items())
          EXPECT_TRUE(tree.contains(folder + resource.text())) << path << ": " << resource.text();
        continue;
      }
      const std::string key = fmt::format("{}/{}/{}", text_at(object, {"kind"}),
                                          text_at(object, {"metadata", "namespace"}),
                                          text_at(object, {"metadata", "name"}));
      EXPECT_TRUE(there.insert(key).second) << key << " is there twice";
      EXPECT_FALSE(text_at(object, {"apiVersion"}).empty()) << path;
      all.push_back(std::move(object));
    }
  }
  there.insert("GitRepository/flux-system/flux-system");  // the handover brings it
  for (const char* space : {"flux-system", "kube-system"})
    there.insert(fmt::format("Namespace//{}", space));
  std::size_t references = 0;
  const auto want = [&](const std::string& key, const Value& from) {
    ++references;
    EXPECT_TRUE(there.contains(key)) << text_at(from, {"metadata", "name"}) << " names " << key;
  };
  for (const Value& object : all) {
    const std::string space = text_at(object, {"metadata", "namespace"});
    if (!space.empty()) want("Namespace//" + space, object);
    if (const Value* needed = object.find({"spec", "dependsOn"}))
      for (const Value& one : needed->items())
        want(fmt::format("Kustomization/{}/{}", space, text_at(one, {"name"})), object);
    for (const auto& path : {std::vector<std::string_view>{"spec", "sourceRef"},
                             std::vector<std::string_view>{"spec", "chart", "spec", "sourceRef"}}) {
      const Value* source = &object;
      for (const std::string_view key : path) source = source ? source->find(key) : nullptr;
      if (source != nullptr)
        want(fmt::format("{}/{}/{}", text_at(*source, {"kind"}), space, text_at(*source, {"name"})),
             object);
    }
    if (text_at(object, {"kind"}) == "Kustomization") {
      ++references;
      const std::string path = text_at(object, {"spec", "path"}).substr(2) + "/kustomization.yaml";
      EXPECT_TRUE(tree.contains(path)) << path;
      if (const Value* checks = object.find({"spec", "healthChecks"}))
        for (const Value& one : checks->items())
          want(fmt::format("{}/{}/{}", text_at(one, {"kind"}), text_at(one, {"namespace"}),
                           text_at(one, {"name"})),
               object);
    }
  }
  EXPECT_GT(references, 40u);
}

/// All Kustomizations that are not ready, with why.
std::vector<std::string> unready(HandoverRig& one) {
  std::vector<std::string> all;
  for (const auto& [key, object] :
       one.api().storage().all("kustomize.toolkit.fluxcd.io/kustomizations"))
    if (lab::kube::condition_status(*object, "Ready") != "True")
      all.push_back(fmt::format(
          "{}: {}", key.name, text_at(*lab::kube::find_condition(*object, "Ready"), {"message"})));
  return all;
}

constexpr const char* template_flux =
    "    flux: { url: \"https://git.home/fleet\", path: flux, auth: { secret: flux.git } }\n"
    "    waitFor: [ { endpointSlice: site/site } ]\n";

std::string with_longhorn(std::string text) {
  return replace_all(std::move(text), "[qemu-guest-agent]",
                     "[qemu-guest-agent, iscsi-tools, util-linux-tools]");
}

/// How late webhooks are, drawn between nothing and two minutes; both ends come first.
/// ROCCA_WEBHOOK_DRAWS asks for more.
std::vector<unsigned> latenesses(std::size_t draws) {
  if (const char* asked = std::getenv("ROCCA_WEBHOOK_DRAWS"))
    draws = parse_uint(asked).value_or(draws);
  SeededEntropy chance{2026};
  std::vector<unsigned> all{0, 120};
  while (all.size() < draws) all.push_back(static_cast<unsigned>(chance.below(121)));
  return all;
}

TEST(Gitops, TheTemplateComesUpUnderFluxHoweverLateWebhooksAre) {
  int named = 0;
  for (const unsigned late : latenesses(5)) {
    HandoverRig one;
    one.rig.home.estate.clusters().webhooks_late = std::chrono::seconds{late};
    one.push(gitops_tree());
    one.write(template_flux, "  addons: { longhorn: true }\n");
    one.rig.write_spec(with_longhorn(one.rig.files.get("/clusters/blue/cluster.yaml")));
    const engine::Report report = one.up();
    ASSERT_TRUE(report.ok()) << late << ": " << problems(report);
    // Flux asks for the pool when MetalLB's Pods are ready, some seconds later. Who waits is told
    // which endpoint keeps Flux back.
    const auto names_endpoint = testing::Contains(AllOf(
        HasSubstr("waiting handover/git"), HasSubstr("Kustomization flux-system/metallb-pool: "),
        HasSubstr("Service metallb-system/metallb-webhook-service has")));
    if (late >= 60) {
      EXPECT_THAT(one.rig.log, names_endpoint) << late;
      ++named;
    }
    one.rig.home.world.run_for(10min);
    EXPECT_THAT(unready(one), IsEmpty()) << late;
    const auto traefik = one.find("/services", "traefik", "traefik");
    ASSERT_TRUE(traefik);
    EXPECT_EQ(text_at(*traefik, {"status", "loadBalancer", "ingress", "0", "ip"}), "192.168.1.240");
    EXPECT_THAT(one.plan(), IsEmpty()) << late;
    // Somebody outside reaches Traefik: now it may be called usable.
    const auto status = one.rig.run(one.options())->status();
    ASSERT_TRUE(status.use);
    EXPECT_TRUE(status.use->usable) << status.use->told;
    EXPECT_THAT(status.use->told,
                HasSubstr("https://192.168.1.240:443/ (Service traefik/traefik)"));
    EXPECT_EQ(status.flux->told, "main@sha1:" + one.commit);
  }
  EXPECT_GE(named, 2) << "no webhook was late: that shows nothing";
}

/// MetalLB as its project's manifest has it.
std::string metallb() {
  std::string text =
      "{ apiVersion: v1, kind: Namespace, metadata: { name: metallb-system, labels: { "
      "pod-security.kubernetes.io/enforce: privileged } } }\n";
  const auto chart = lab::flux::chart_objects("metallb", "metallb", "metallb-system");
  for (const Value& object : *chart) text += "---\n" + text::emit_yaml(object);
  return text;
}

constexpr const char* pool = R"(---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: { name: home, namespace: metallb-system }
spec: { addresses: [ 10.0.9.1-10.0.9.20 ] }
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: { name: home, namespace: metallb-system }
spec: { ipAddressPools: [ home ] }
)";

TEST(Use, IsSaidOnlyOfWhatWasSeen) {
  HandoverRig one;
  one.rig.files.write("/clusters/blue/metallb.yaml", metallb() + pool);
  one.write(plain_flux, "  addons: { manifests: [ metallb.yaml ], certApprover: true }\n");
  ASSERT_TRUE(one.up().ok());
  const auto use = [&] { return *one.rig.run(one.options())->status().use; };
  EXPECT_FALSE(use().usable);
  EXPECT_EQ(use().told, "no Service has an address of a load balancer");
  auto files = shop_files;
  files["clusters/blue/shop.yaml"] =
      replace_all(files["clusters/blue/shop.yaml"], "spec: { selector: { app: web }, ports",
                  "spec: { type: LoadBalancer, selector: { app: web }, ports");
  one.push(files);
  one.rig.home.world.run_for(5min);
  EXPECT_TRUE(use().usable) << use().told;
  EXPECT_THAT(use().told, HasSubstr("http://10.0.9.1:80/ (Service shop/web) answers"));
  // Nobody is behind it any more.
  files["clusters/blue/shop.yaml"] =
      replace_all(files["clusters/blue/shop.yaml"], "replicas: 2", "replicas: 0");
  one.push(files);
  one.rig.home.world.run_for(5min);
  EXPECT_FALSE(use().usable);
  EXPECT_THAT(use().told, HasSubstr("nobody answers at http://10.0.9.1:80/"));
}

TEST(Use, NeedsAPodInTheClustersNetworkAndItsLogs) {
  HandoverRig one;
  const auto use = [&] { return *one.rig.run(one.options())->status().use; };
  one.write("    publish: [ { files: { folder: configs } } ]\n", "", "cni: none");
  ASSERT_TRUE(one.up().ok());
  EXPECT_FALSE(use().usable);
  EXPECT_EQ(use().told, "no Pod runs in the cluster's own network");
  // Nobody approves the certificates of kubelets: the logs of Pods cannot be had.
  HandoverRig two;
  two.rig.home.estate.clusters().refused_images["cert-approver"] = "manifest unknown";
  two.write(plain_flux, "  addons: { certApprover: true }\n");
  EXPECT_THAT(two.failure(),
              AllOf(HasSubstr("addon/cert-approver"), HasSubstr("manifest unknown")));
  const auto unseen = *two.rig.run(two.options())->status().use;
  EXPECT_FALSE(unseen.usable);
  EXPECT_THAT(unseen.told, AllOf(HasSubstr("the logs of Pod "), HasSubstr(" do not come: ")));
  two.rig.home.estate.clusters().refused_images.clear();
  ASSERT_TRUE(two.up().ok());
  EXPECT_EQ(two.rig.run(two.options())->status().use->told,
            "no Service has an address of a load balancer");
}

TEST(Gitops, LonghornOfTheTemplateNeedsItsNodesPrepared) {
  HandoverRig one;
  one.push(gitops_tree());
  one.write(
      "    flux: { url: \"https://git.home/fleet\", path: flux, auth: { secret: flux.git } }\n");
  ASSERT_TRUE(one.up().ok());  // the root itself is ready; what it brought is Flux's to say
  one.rig.home.world.run_for(20min);
  EXPECT_THAT(unready(one), testing::Contains(HasSubstr("longhorn")));
}

TEST(Webhooks, APoolOfOursNeverFailsHoweverLateItsWebhookIs) {
  int waited = 0;
  for (const unsigned late : latenesses(6)) {
    HandoverRig one;
    one.rig.home.estate.clusters().webhooks_late = std::chrono::seconds{late};
    // Together, the pool is there before anybody is asked about it.
    one.rig.files.write("/clusters/blue/metallb.yaml", metallb() + (late % 2 == 0 ? "" : pool));
    one.write(plain_flux, "  addons: { manifests: [ metallb.yaml ] }\n");
    engine::Report report = one.up();
    ASSERT_TRUE(report.ok()) << late << " s late: " << problems(report);
    // A change right behind it is not: its webhook is asked, and does not answer yet.
    one.rig.log.clear();
    one.rig.files.write("/clusters/blue/metallb.yaml",
                        metallb() + replace_all(pool, "10.0.9.20", "10.0.9.30"));
    const Instant begun = one.rig.home.world.now();
    report = one.up();
    ASSERT_TRUE(report.ok()) << late << " s late: " << problems(report);
    EXPECT_TRUE(one.find("metallb.io/ipaddresspools", "metallb-system", "home"));
    EXPECT_THAT(one.plan(), IsEmpty());
    if (one.rig.home.world.now() - begun < 10s) continue;  // it was there in time
    EXPECT_THAT(one.rig.log, testing::Contains(AllOf(
                                 HasSubstr("waiting addon/manifests"),
                                 HasSubstr("Service metallb-system/metallb-webhook-service has"))))
        << late;
    ++waited;
  }
  EXPECT_GE(waited, 2) << "who waits is told which endpoint is waited for";
}

TEST(Webhooks, APoolInTheRootItselfIsExplainedByTheEndpointToo) {
  HandoverRig one;
  one.rig.home.estate.clusters().webhooks_late = 90s;
  one.rig.files.write("/clusters/blue/metallb.yaml", metallb());
  auto files = shop_files;
  files["clusters/blue/pool.yaml"] = pool;
  one.push(files);
  one.write(plain_flux, "  addons: { manifests: [ metallb.yaml ] }\n");
  const engine::Report report = one.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(one.rig.log, testing::Contains(AllOf(
                               HasSubstr("waiting handover/git: Kustomization flux-system/"),
                               HasSubstr("failed calling webhook"),
                               HasSubstr("Service metallb-system/metallb-webhook-service has"))));
}

/// Everything of the handover that must be the same however one got there.
std::string end_state(HandoverRig& one) {
  one.rig.home.world.run_for(2min);
  std::string text = one.revision() + "\n";
  for (const char* resource :
       {"/namespaces", "apps/deployments", "/secrets", "source.toolkit.fluxcd.io/gitrepositories"})
    for (const auto& [key, object] : one.api().storage().all(resource))
      text += fmt::format("{} {}/{} {}\n", resource, key.space, key.name,
                          text_at(*object, {"metadata", "annotations", "rocca.dev/applied"}));
  text += one.rig.files.find("/published/kubeconfig") ? "published\n" : "";
  const auto state =
      state::local_store(one.rig.files, "/clusters/blue/.rocca")->load().value_or(state::State{});
  for (const auto& [address, item] : state.items)
    text += fmt::format("remembered {} {}\n", address, item.receipt);
  return text;
}

TEST(EngineHandoverKill, TheHandoverConvergesWhereverItIsKilled) {
  HandoverRig one;
  const auto must = [](const engine::Report& report) {
    if (!report.ok()) throw Error(Fault::Bug, problems(report));
  };
  one.write("    publish: [ { files: { folder: configs } } ]\n");
  must(one.up());
  one.write(plain_flux + "    publish: [ { files: { folder: /published } } ]\n",
            "  addons: { certApprover: true }\n");
  test::KillSweep::Options options;
  const char* asked = std::getenv("ROCCA_SWEEP_EVERY");
  options.every = asked != nullptr ? parse_uint(asked).value_or(17) : 17;
  options.run = options.recover = [&] { must(one.up()); };
  options.died = [&] { one.rig.die(); };
  options.end_state = [&] { return end_state(one); };
  test::KillSweep sweep{options};
  test::EdgeTransport wire{one.rig.wire, sweep};
  test::EdgeFiles files{one.rig.files, sweep};
  one.rig.transport = &wire;
  one.rig.door_files = &files;
  one.rig.store.reset();
  const test::KillSweep::Result result = sweep.sweep();
  one.rig.transport = nullptr;
  one.rig.door_files = nullptr;
  one.rig.store.reset();
  fmt::print("{}\n", result.summary());
  EXPECT_THAT(result.failures, IsEmpty());
  EXPECT_GT(result.edges, 200u);
  EXPECT_THAT(result.expected, HasSubstr("main@sha1:"));
  EXPECT_THAT(one.plan(), IsEmpty());
}

}  // namespace
}  // namespace rocca::scenarios
