#include "lab/kube/conditions.hpp"
#include "lab/kube/json.hpp"
#include "lab/machines/clusters.hpp"
#include "scenarios/engine_rig.hpp"

#include <gmock/gmock.h>

namespace rocca::scenarios {
namespace {

using lab::kube::condition_status;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

lab::kube::Api& api(ClusterRig& rig) {
  lab::Kubernetes* kubernetes = rig.home.estate.clusters().find("blue");
  if (kubernetes == nullptr || kubernetes->api() == nullptr)
    throw Error(Fault::NotFound, "the lab's cluster has no Kubernetes");
  return *kubernetes->api();
}

std::vector<std::string> nodes(ClusterRig& rig) {
  std::vector<std::string> all;
  for (const auto& [key, node] : api(rig).storage().all("/nodes"))
    all.push_back(fmt::format("{} {}", key.name, condition_status(*node, "Ready")));
  return all;
}

TEST(EngineKubernetes, EveryMachineThatComesUpIsAReadyNode) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  rig.home.world.run_for(std::chrono::minutes{1});  // kubelets need a moment to register
  EXPECT_THAT(nodes(rig), ElementsAre("cp-1 True", "worker-1 True"));
}

/// Who was told to reset itself, in order.
class Resets final : public net::Transport {
 public:
  explicit Resets(net::Transport& inner) : inner_(inner) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (request.url.ends_with("/machine.MachineService/Reset"))
      hosts.push_back(net::Url::parse(request.url)->host);
    return inner_.exchange(request, sink, std::move(stop));
  }
  std::vector<std::string> hosts;

 private:
  net::Transport& inner_;
};

/// Nobody reaches this address, as long as something is so.
class Silence final : public net::Transport {
 public:
  Silence(net::Transport& inner, std::string host, std::function<bool()> lasts)
      : inner_(inner), host_(std::move(host)), lasts_(std::move(lasts)) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (net::Url::parse(request.url)->host == host_ && lasts_())
      throw Error(Fault::Unreachable, "no route to " + host_);
    return inner_.exchange(request, sink, std::move(stop));
  }

 private:
  net::Transport& inner_;
  std::string host_;
  std::function<bool()> lasts_;
};

struct Farewell {
  bool cordoned = false;  // and before its Node went
  bool gone = false;
};
Farewell farewell_of(ClusterRig& rig, const std::string& node) {
  Farewell seen;
  for (const lab::kube::Change& change : api(rig).storage().history()) {
    if (change.resource != "/nodes" || change.key.name != node) continue;
    if (change.after && lab::kube::bool_at(*change.after, {"spec", "unschedulable"}))
      seen.cordoned = !seen.gone;
    if (!change.after) seen.gone = true;
  }
  return seen;
}

class AWorkerThatGoes : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(EngineKubernetes, AWorkerThatGoes,
                         testing::Values("static", "static, lost", "dhcp, lost"),
                         [](const auto& one) {
                           return replace_all(replace_all(one.param, ",", ""), " ", "_");
                         });

TEST_P(AWorkerThatGoes, IsCordonedAndItsNodeGoesWithIt) {
  const std::string how = GetParam();
  const auto spec = [&](unsigned workers) {
    std::string text = static_spec(pools(1, workers));
    if (!how.starts_with("dhcp")) return text;
    text = replace_all(text, "addressing: static", "addressing: dhcp");
    for (const char* fixed : {"    endpoint: { vip: 10.0.1.10 }\n", "    gateway: 10.0.0.1\n",
                              "    nameservers: [10.0.0.1]\n", ", addresses: 10.0.1.11-10.0.1.15",
                              ", addresses: 10.0.1.21-10.0.1.40"})
      text = replace_all(text, fixed, "");
    return text;
  };
  ClusterRig rig;
  Resets resets{rig.counting};
  rig.transport = &resets;
  rig.write_spec(spec(2));
  const engine::Report up = rig.up();
  ASSERT_TRUE(up.ok()) << problems(up);
  rig.home.world.run_for(std::chrono::minutes{1});
  ASSERT_THAT(nodes(rig), ElementsAre("cp-1 True", "worker-1 True", "worker-2 True"));
  std::string where;
  for (const lab::Truth& truth : rig.home.estate.truths())
    if (truth.hostname == "worker-2") where = truth.heard.front();
  if (how.ends_with("lost")) {
    rig.lose_state();
    rig.files.remove("/clusters/blue/rocca.lock");
  }
  rig.write_spec(spec(1));
  const engine::Report report = rig.up(allow_data_loss());
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(nodes(rig), ElementsAre("cp-1 True", "worker-1 True"));
  const auto [cordoned, gone] = farewell_of(rig, "worker-2");
  EXPECT_TRUE(cordoned) << "nothing new may be put on a node that goes";
  EXPECT_TRUE(gone);
  EXPECT_THAT(resets.hosts, ElementsAre(where)) << "nothing of the cluster stays on its disk";
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

std::string with_firmware(const std::string& pool) {
  std::string text = pools(1, 2);
  if (pool == "cp")
    return replace_all(text, "10.0.1.11-10.0.1.15 }",
                       "10.0.1.11-10.0.1.15, machine: { firmware: seabios } }");
  return replace_all(text, "cores: 4 }", "cores: 4, firmware: seabios }");
}

TEST(EngineKubernetes, AWorkerThatIsMadeAnewLeavesInOrderAndComesBack) {
  ClusterRig rig;
  Resets resets{rig.counting};
  rig.transport = &resets;
  rig.write_spec(static_spec(pools(1, 2)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.world.run_for(std::chrono::minutes{1});
  const auto before = identities(rig);
  rig.write_spec(static_spec(with_firmware("worker")));
  EXPECT_THAT(refused([&] { rig.up(); }), HasSubstr("--allow replace"));
  EXPECT_THAT(resets.hosts, IsEmpty());
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::Replace);
  const engine::Report report = rig.up(options);
  EXPECT_TRUE(report.ok()) << problems(report);
  for (const char* worker : {"worker-1", "worker-2"}) {
    const auto [cordoned, gone] = farewell_of(rig, worker);
    EXPECT_TRUE(cordoned) << worker;
    EXPECT_TRUE(gone) << worker;
  }
  EXPECT_THAT(resets.hosts, UnorderedElementsAre("10.0.1.21", "10.0.1.22"));
  EXPECT_EQ(*rig.home.dc.vms.at(101).find("bios"), "seabios");
  EXPECT_EQ(identities(rig), before) << "the same ids, names, addresses and UUIDs";
  rig.home.world.run_for(std::chrono::minutes{1});
  EXPECT_THAT(nodes(rig), ElementsAre("cp-1 True", "worker-1 True", "worker-2 True"));
  for (const auto& [key, node] : api(rig).storage().all("/nodes"))
    EXPECT_FALSE(lab::kube::bool_at(*node, {"spec", "unschedulable"})) << key.name;
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(EngineKubernetes, AWorkerThatIsDeadIsMadeAnewAllTheSame) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 2)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.world.run_for(std::chrono::minutes{1});
  deafen(rig);
  Silence silence{rig.counting, "10.0.1.21", [&] {
                    const auto vm = rig.home.dc.vms.find(101);
                    return vm != rig.home.dc.vms.end() && *vm->second.find("bios") == "ovmf";
                  }};
  rig.transport = &silence;
  rig.write_spec(static_spec(with_firmware("worker")));
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::Replace);
  const engine::Report report = rig.up(options);
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(EngineKubernetes, AControlPlaneIsNotMadeAnew) {
  ClusterRig rig;
  Resets resets{rig.counting};
  rig.transport = &resets;
  rig.write_spec(static_spec(pools(1, 2)));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(static_spec(with_firmware("cp")));
  resources::RunOptions options = allow_data_loss();
  options.policy.allowed.insert(engine::Effect::Replace);
  EXPECT_THAT(refused([&] { rig.up(options); }),
              HasSubstr("cp-1 would have to be made anew (bios differs), and it is a control"));
  EXPECT_THAT(resets.hosts, IsEmpty());
  EXPECT_EQ(rig.home.dc.vms.size(), 3u);
}

/// Answers some requests itself and passes on the others.
class Intercepted final : public net::Transport {
 public:
  using Script = std::function<std::optional<net::Answer>(const net::Request&)>;
  Intercepted(net::Transport& inner, Script script) : inner_(inner), script_(std::move(script)) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    const auto answer = script_(request);
    if (!answer) return inner_.exchange(request, sink, std::move(stop));
    sink.begin(answer->head);
    sink.write(answer->body);
    return answer->head;
  }

 private:
  net::Transport& inner_;
  Script script_;
};

net::Answer forbidden() {
  net::Answer answer;
  answer.head.status = 403;
  answer.head.headers.add("Content-Type", "application/json");
  answer.body =
      R"({"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,)"
      R"("message":"admission webhook \"freeze.example.org\" denied the request"})";
  return answer;
}

/// A cluster of one control plane and two workers whose spec asks for one worker less.
void shrink(ClusterRig& rig) {
  rig.write_spec(static_spec(pools(1, 2)));
  const engine::Report up = rig.up();
  ASSERT_TRUE(up.ok()) << problems(up);
  rig.home.world.run_for(std::chrono::minutes{1});
  ASSERT_THAT(nodes(rig), ElementsAre("cp-1 True", "worker-1 True", "worker-2 True"));
  rig.write_spec(static_spec(pools(1, 1)));
}

TEST(NodeRemoval, ARefusedCordonStopsItBeforeTheReset) {
  ClusterRig rig;
  shrink(rig);
  std::size_t refusals = 0;
  Intercepted refusing{
      rig.counting, [&](const net::Request& request) -> std::optional<net::Answer> {
        if (request.method != "PATCH" || request.url.find("/api/v1/nodes/") == std::string::npos)
          return std::nullopt;
        ++refusals;
        return forbidden();
      }};
  Resets resets{refusing};
  rig.transport = &resets;
  const engine::Report report = rig.up(allow_data_loss());
  EXPECT_GT(refusals, 0u);
  EXPECT_FALSE(report.ok());
  ASSERT_TRUE(report.steps.at("member/worker-2").error) << "a refused cordon is not done";
  EXPECT_EQ(report.steps.at("member/worker-2").error->fault(), Fault::Denied);
  EXPECT_THAT(resets.hosts, IsEmpty());
  EXPECT_EQ(rig.home.dc.vms.size(), 3u);
  EXPECT_THAT(nodes(rig), ElementsAre("cp-1 True", "worker-1 True", "worker-2 True"));
  rig.transport = nullptr;
  EXPECT_TRUE(rig.up(allow_data_loss()).ok());
  EXPECT_THAT(nodes(rig), ElementsAre("cp-1 True", "worker-1 True"));
}

TEST(NodeRemoval, ARefusedCordonStopsAReplacementBeforeTheReset) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 2)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.world.run_for(std::chrono::minutes{1});
  Intercepted refusing{
      rig.counting, [&](const net::Request& request) -> std::optional<net::Answer> {
        if (request.method != "PATCH" || request.url.find("/api/v1/nodes/") == std::string::npos)
          return std::nullopt;
        return forbidden();
      }};
  Resets resets{refusing};
  rig.transport = &resets;
  rig.write_spec(static_spec(with_firmware("worker")));
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::Replace);
  const engine::Report report = rig.up(options);
  EXPECT_FALSE(report.ok());
  ASSERT_TRUE(report.steps.at("vm/worker-1").error);
  EXPECT_EQ(report.steps.at("vm/worker-1").error->fault(), Fault::Denied);
  EXPECT_THAT(resets.hosts, IsEmpty()) << "Pods would be lost that a drain moves away";
  EXPECT_EQ(rig.home.dc.vms.size(), 3u);
}

TEST(NodeRemoval, ARefusedDeletionOfTheNodeObjectIsReported) {
  ClusterRig rig;
  shrink(rig);
  std::size_t refusals = 0;
  Intercepted refusing{
      rig.counting, [&](const net::Request& request) -> std::optional<net::Answer> {
        if (request.method != "DELETE" || request.url.find("/api/v1/nodes/") == std::string::npos)
          return std::nullopt;
        ++refusals;
        return forbidden();
      }};
  rig.transport = &refusing;
  const engine::Report report = rig.up(allow_data_loss());
  EXPECT_GT(refusals, 0u);
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(nodes(rig), testing::Contains(testing::StartsWith("worker-2")));
  rig.transport = nullptr;
  EXPECT_TRUE(rig.up(allow_data_loss()).ok());
  EXPECT_THAT(nodes(rig), ElementsAre("cp-1 True", "worker-1 True"));
  EXPECT_EQ(rig.home.dc.vms.size(), 2u);
}

TEST(NodeRemoval, AnotherClusterAtTheEndpointDoesNotStopIt) {
  ClusterRig rig;
  shrink(rig);
  std::size_t refusals = 0;
  // What a transport throws when the certificate at this address is not of our cluster.
  Intercepted foreign{rig.counting, [&](const net::Request& request) -> std::optional<net::Answer> {
                        if (request.url.starts_with("https://10.0.1.10:6443/")) {
                          ++refusals;
                          throw Error(Fault::Denied, "the certificate of 10.0.1.10 is not trusted");
                        }
                        return std::nullopt;
                      }};
  rig.transport = &foreign;
  const engine::Report report = rig.up(allow_data_loss());
  EXPECT_GT(refusals, 0u);
  EXPECT_FALSE(report.steps.at("member/worker-2").error) << problems(report);
  EXPECT_TRUE(farewell_of(rig, "worker-2").cordoned);
  EXPECT_THAT(nodes(rig), ElementsAre("cp-1 True", "worker-1 True"));
}

TEST(NodeRemoval, GoesOnWithoutAKubernetesThatAnswers) {
  ClusterRig rig;
  shrink(rig);
  Intercepted silent{rig.counting, [&](const net::Request& request) -> std::optional<net::Answer> {
                       if (request.url.find("/api/v1/nodes/") != std::string::npos)
                         throw Error(Fault::Unreachable, "no route");
                       return std::nullopt;
                     }};
  Resets resets{silent};
  rig.transport = &resets;
  const engine::Report report = rig.up(allow_data_loss());
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(resets.hosts.size(), 1u);
  EXPECT_EQ(rig.home.dc.vms.size(), 2u);
}

}  // namespace
}  // namespace rocca::scenarios
