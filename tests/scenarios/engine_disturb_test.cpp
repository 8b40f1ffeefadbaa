// What nodes go through that may silence them: control planes one at a time, workers one first and
// then a few at a time, and each must be well again before the next one is touched.

#include "scenarios/engine_rig.hpp"

#include <algorithm>
#include <set>

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using End = engine::StepResult::End;

std::string with_vlan(unsigned planes, unsigned vlan, unsigned workers = 0) {
  return replace_all(static_spec(pools(planes, workers)), "    addressing: static\n",
                     fmt::format("    addressing: static\n    vlan: {}\n", vlan));
}

std::string with_patch(unsigned planes, const std::string& patch) {
  return replace_all(static_spec(pools(planes, 0)), "extensions: [qemu-guest-agent]",
                     "extensions: [qemu-guest-agent], patches: { all: [ " + patch + " ] }");
}

/// A VLAN that leads to where the untagged ones are: the switch's own.
lab::Home::Options with_native_vlan(unsigned vlan) {
  lab::Home::Options options;
  lab::Lans::Lan lan;
  lan.wire = fmt::format("vmbr0.{}", vlan);
  lan.subnet = *Cidr::parse("10.0.0.0/16");
  lan.gateway = IpAddress::parse("10.0.0.1");
  options.lans.push_back(lan);
  return options;
}

std::string card(const ClusterRig& rig, unsigned vmid) {
  return *rig.home.dc.vms.at(vmid).find("net0");
}

std::vector<unsigned> tagged(const ClusterRig& rig, const std::string& tag) {
  std::vector<unsigned> all;
  for (const auto& [vmid, vm] : rig.home.dc.vms)
    if (card(rig, vmid).ends_with(",tag=" + tag)) all.push_back(vmid);
  return all;
}

/// Somebody moves a card, as the GUI does it.
void move_card(ClusterRig& rig, unsigned vmid, const std::string& tag) {
  proxmox::VmUpdate update;
  update.set["net0"] = card(rig, vmid) + ",tag=" + tag;
  client_with(rig, rig.home.root_token).start_update("pve1", vmid, update);
  rig.home.world.run_for(2s);
}

bool has_quorum(ClusterRig& rig, unsigned vmid) {
  const lab::talos::TalosNode* node = rig.home.estate.find(vmid);
  return node != nullptr && node->etcd() && node->etcd()->has_quorum();
}

/// Whenever a control plane is given another card or configuration, etcd has a leader on both
/// others, and their API servers answer.
class Watched final : public net::Transport {
 public:
  explicit Watched(ClusterRig& rig) : rig_(rig) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    const bool applies = request.url.ends_with("/ApplyConfiguration");
    const bool moves = request.url.find("/config") != std::string::npos &&
                       (request.method == "PUT" || request.method == "POST");
    if (applies || moves) {
      for (const unsigned vmid : {100u, 101u, 102u}) {
        const lab::Truth truth = rig_.home.estate.truth(vmid);
        const bool meant = moves ? request.url.find(fmt::format("/{}/", vmid)) != std::string::npos
                                 : std::find(truth.heard.begin(), truth.heard.end(),
                                             host_of(request.url)) != truth.heard.end();
        if (meant) {
          touched.push_back(vmid);
          continue;
        }
        EXPECT_THAT(truth.heard, Not(IsEmpty())) << request.url << " while " << vmid << " is away";
        EXPECT_TRUE(truth.etcd_runs) << request.url << ' ' << vmid;
        EXPECT_TRUE(truth.apiserver_runs) << request.url << ' ' << vmid;
      }
    }
    return rig_.counting.exchange(request, sink, std::move(stop));
  }
  std::vector<unsigned> touched;

 private:
  static std::string host_of(const std::string& url) {
    const std::string rest = url.substr(url.find("//") + 2);
    return rest.substr(0, rest.find(':'));
  }
  ClusterRig& rig_;
};

TEST(Disturb, AWrongVlanCutsOffOneControlPlaneAndNoMore) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(3, 0)));
  ASSERT_TRUE(rig.up().ok());
  const std::vector before{card(rig, 100), card(rig, 101), card(rig, 102)};
  rig.write_spec(with_vlan(3, 77));
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  const std::vector<unsigned> gone = tagged(rig, "77");
  ASSERT_EQ(gone.size(), 1u) << problems(report);
  const unsigned lost = gone.front();
  const unsigned other = lost == 100 ? 101 : 100;
  EXPECT_THAT(rig.home.estate.truth(lost).heard, IsEmpty());
  EXPECT_TRUE(has_quorum(rig, other));
  const std::string name = fmt::format("cp-{}", lost - 99);
  const engine::StepResult& failed = report.steps.at("vm/" + name);
  ASSERT_TRUE(failed.error) << problems(report);
  EXPECT_EQ(exit_code(failed.error->fault()), 1);
  EXPECT_THAT(
      failed.error->render(),
      AllOf(HasSubstr(name + " is not well"), HasSubstr("net0 became"), HasSubstr("tag=77"),
            HasSubstr(fmt::format("`qm set {} --net0", lost)), HasSubstr(before.at(lost - 100)),
            HasSubstr("the other control planes are left as they were")));
  for (const unsigned vmid : {100u, 101u, 102u}) {
    if (vmid == lost) continue;
    const engine::StepResult& step = report.steps.at(fmt::format("vm/cp-{}", vmid - 99));
    ASSERT_TRUE(step.error);
    EXPECT_EQ(exit_code(step.error->fault()), 1);
    EXPECT_THAT(step.error->render(), HasSubstr(name + " has not come back"));
  }

  // With the same spec nobody else goes either, and with the old one it comes back at once.
  static_cast<void>(rig.up());
  EXPECT_EQ(tagged(rig, "77").size(), 1u);
  rig.write_spec(static_spec(pools(3, 0)));
  const engine::Report back = rig.up();
  EXPECT_TRUE(back.ok()) << problems(back);
  EXPECT_THAT(rig.home.estate.truth(lost).heard, Not(IsEmpty()));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(Disturb, ARightVlanIsTakenOneByOne) {
  ClusterRig rig{with_native_vlan(77)};
  rig.write_spec(static_spec(pools(3, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(with_vlan(3, 77));
  Watched watched{rig};
  rig.transport = &watched;
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(watched.touched.size(), 3u);
  EXPECT_EQ(tagged(rig, "77").size(), 3u);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(Disturb, AVlanIsOfTheClassService) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(with_vlan(1, 77));
  EXPECT_EQ(rig.plan().effect, engine::Effect::Service);
}

TEST(Disturb, ASingleControlPlaneWaitsForNobody) {
  ClusterRig rig{with_native_vlan(77)};
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(with_vlan(1, 77));
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(tagged(rig, "77").size(), 1u);
}

TEST(Disturb, ASingleControlPlaneThatIsCutOffComesBack) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(with_vlan(1, 77));
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.steps.at("vm/cp-1").error) << problems(report);
  EXPECT_THAT(report.steps.at("vm/cp-1").error->render(),
              AllOf(HasSubstr("cp-1 is not well"), Not(HasSubstr("other control planes"))));
  rig.write_spec(static_spec(pools(1, 0)));
  const engine::Report back = rig.up();
  EXPECT_TRUE(back.ok()) << problems(back);
}

/// Which control planes somebody has moved to VLANs that lead nowhere.
using Moves = std::vector<std::pair<unsigned, std::string>>;
class Moved : public testing::TestWithParam<Moves> {};

TEST_P(Moved, ComeBackAlthoughTheyAreNotWell) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(3, 0)));
  ASSERT_TRUE(rig.up().ok());
  for (const auto& [vmid, tag] : GetParam()) move_card(rig, vmid, tag);
  rig.home.world.run_for(1min);
  for (const auto& [vmid, tag] : GetParam()) {
    EXPECT_THAT(rig.home.estate.truth(vmid).heard, IsEmpty());
    EXPECT_THAT(tagged(rig, tag), Contains(vmid));
  }
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  for (const auto& [vmid, tag] : GetParam()) EXPECT_THAT(tagged(rig, tag), IsEmpty());
  EXPECT_TRUE(has_quorum(rig, 102));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

// One; two that have quorum where nobody hears them; all in one place; each alone, without quorum.
INSTANTIATE_TEST_SUITE_P(Disturb, Moved,
                         testing::Values(Moves{{101, "66"}}, Moves{{100, "66"}, {101, "66"}},
                                         Moves{{100, "66"}, {101, "66"}, {102, "66"}},
                                         Moves{{100, "66"}, {101, "67"}, {102, "68"}}));

/// Changes that end or begin something anew on a control plane.
struct Patch {
  const char* name;
  const char* patch;
};
class Patched : public testing::TestWithParam<Patch> {};

TEST_P(Patched, GoesThroughTheControlPlanesOneByOne) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(3, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.world.run_for(5min);
  rig.write_spec(with_patch(3, GetParam().patch));
  Watched watched{rig};
  rig.transport = &watched;
  rig.log.clear();
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(watched.touched.size(), 3u);
  // Each is applied and over before the next one begins.
  std::vector<std::string> order;
  for (const std::string& line : rig.log)
    if (line.find("machine/cp-") != std::string::npos)
      for (const char* what : {" acted ", " settled "})
        if (line.find(what) != std::string::npos) order.push_back(trim(what).data());
  ASSERT_EQ(order.size(), 6u) << testing::PrintToString(rig.log);
  for (std::size_t i = 0; i < order.size(); ++i)
    EXPECT_EQ(order[i].substr(0, 5), i % 2 == 0 ? "acted" : "settl")
        << testing::PrintToString(rig.log);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Disturb, Patched,
    testing::Values(Patch{"ApiServer", "cluster: { apiServer: { extraArgs: { v: \"4\" } } }"},
                    Patch{"Etcd", "cluster: { etcd: { extraArgs: { snapshot-count: \"5000\" } } }"},
                    Patch{"Kubelet", "machine: { kubelet: { extraArgs: { v: \"4\" } } }"},
                    Patch{"Network",
                          "machine: { network: { extraHostEntries: [ { ip: 10.0.0.9, aliases: "
                          "[nas] } ] } }"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(Disturb, HarmlessChangesGoAllAtOnce) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(3, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(with_patch(3, "machine: { nodeAnnotations: { room: cellar } }"));
  const Instant before = rig.home.world.now();
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_LT(rig.home.world.now() - before, 5s);
}

// ---- workers

std::string workers_with(unsigned workers, const std::string& machine,
                         const std::string& patches = "") {
  return replace_all(
      replace_all(static_spec(pools(1, workers)), "machine: { memory: 8GiB, cores: 4 }",
                  "machine: { memory: 8GiB, cores: 4" + machine + " }"),
      "extensions: [qemu-guest-agent]",
      "extensions: [qemu-guest-agent]" +
          (patches.empty() ? "" : ", patches: { worker: [ " + patches + " ] }"));
}
std::string workers_in_vlan(unsigned workers, unsigned vlan) {
  return workers_with(workers, fmt::format(", nics: [ {{ vlan: {} }} ]", vlan));
}

/// In which order they were acted on and settled: "+worker-1", "-worker-1".
std::vector<std::string> order_of(const ClusterRig& rig, const std::string& kind) {
  std::vector<std::string> order;
  for (const std::string& line : rig.log) {
    const std::size_t name = line.find(kind + "/worker-");
    if (name == std::string::npos) continue;
    const std::string node = line.substr(name + kind.size() + 1);
    if (line.find(" acted ") != std::string::npos)
      order.push_back("+" + node.substr(0, node.find(':')));
    if (line.find(" settled ") != std::string::npos) order.push_back("-" + node);
  }
  return order;
}

/// How many were under way at once, at the most; the first one must have been alone.
std::size_t most_at_once(const std::vector<std::string>& order) {
  std::set<std::string> begun;
  std::size_t most = 0;
  bool first_is_over = false;
  for (const std::string& each : order) {
    if (each.front() == '+')
      begun.insert(each.substr(1));
    else
      begun.erase(each.substr(1));
    first_is_over = first_is_over || each.front() == '-';
    EXPECT_TRUE(first_is_over || begun.size() == 1) << testing::PrintToString(order);
    most = std::max(most, begun.size());
  }
  return most;
}

TEST(Workers, AWrongVlanCutsOffOneAndNoMore) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 8)));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(workers_in_vlan(8, 77));
  const engine::Report report = rig.up();
  const std::vector<unsigned> gone = tagged(rig, "77");
  ASSERT_EQ(gone.size(), 1u) << problems(report);
  EXPECT_THAT(rig.home.estate.truth(gone.front()).heard, IsEmpty());
  const std::string name = fmt::format("worker-{}", gone.front() - 100);
  const engine::StepResult& failed = report.steps.at("vm/" + name);
  ASSERT_TRUE(failed.error) << problems(report);
  EXPECT_EQ(exit_code(failed.error->fault()), 1);
  EXPECT_THAT(failed.error->render(),
              AllOf(HasSubstr(name + " is not well"), HasSubstr("tag=77"),
                    HasSubstr(fmt::format("`qm set {} --net0", gone.front())),
                    HasSubstr("the other workers are left as they were")));
  for (unsigned worker = 1; worker <= 8; ++worker) {
    const std::string other = fmt::format("worker-{}", worker);
    if (other == name) continue;
    const engine::StepResult& step = report.steps.at("vm/" + other);
    ASSERT_TRUE(step.error) << other;
    EXPECT_THAT(step.error->render(), HasSubstr(name + " has not come back"));
  }

  // With the same spec nobody else goes either, whoever runs it; with the old one it comes back.
  rig.lose_state();
  const engine::Report again = rig.up();
  EXPECT_EQ(tagged(rig, "77"), gone);
  EXPECT_THAT(problems(again), HasSubstr(name + " does not answer"));
  rig.write_spec(static_spec(pools(1, 8)));
  const engine::Report back = rig.up();
  EXPECT_TRUE(back.ok()) << problems(back);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(Workers, ARightVlanIsTakenByOneAndThenByAQuarterOfThemAtATime) {
  ClusterRig rig{with_native_vlan(77)};
  rig.write_spec(static_spec(pools(1, 8)));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(workers_in_vlan(8, 77));
  const engine::Plan plan = rig.plan();
  ASSERT_EQ(plan.steps.size(), 8u);
  for (const engine::Planned& step : plan.steps)
    EXPECT_EQ(step.turn, "one worker first, then 2 at a time") << step.address;
  rig.log.clear();
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(tagged(rig, "77").size(), 8u);
  EXPECT_EQ(most_at_once(order_of(rig, "vm")), 2u) << testing::PrintToString(rig.log);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(Workers, OneThatIsTakenWellSaysNothingOfAnotherNetwork) {
  ClusterRig rig{with_native_vlan(77)};
  const auto two = [](const std::string& first, const std::string& second) {
    return static_spec(fmt::format(R"(  pools:
    cp: {{ role: controlplane, count: 1, addresses: 10.0.1.11-10.0.1.15 }}
    a: {{ count: 6, addresses: 10.0.1.21-10.0.1.26, machine: {{ nics: [ {{ {} }} ] }} }}
    b: {{ count: 6, addresses: 10.0.1.31-10.0.1.36, machine: {{ nics: [ {{ {} }} ] }} }}
)",
                                   first, second));
  };
  rig.write_spec(two("bridge: vmbr0", "bridge: vmbr0"));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(two("vlan: 77", "vlan: 78"));
  EXPECT_FALSE(rig.up().ok());
  EXPECT_EQ(tagged(rig, "78").size(), 1u);
}

TEST(Workers, OneThatSomebodyHasCutOffComesBackAndThenTheOthersGo) {
  ClusterRig rig{with_native_vlan(77)};
  rig.write_spec(static_spec(pools(1, 3)));
  ASSERT_TRUE(rig.up().ok());
  move_card(rig, 102, "66");
  rig.home.world.run_for(1min);
  ASSERT_THAT(rig.home.estate.truth(102).heard, IsEmpty());
  rig.write_spec(workers_in_vlan(3, 77));
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(tagged(rig, "77").size(), 3u);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

/// While one worker is switched off, applied to or moved, the others are there.
class WatchedWorkers final : public net::Transport {
 public:
  WatchedWorkers(ClusterRig& rig, unsigned workers) : rig_(rig), workers_(workers) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    const bool halts = request.url.ends_with("/status/shutdown");
    const bool applies = request.url.ends_with("/ApplyConfiguration");
    if (halts || applies) {
      ++touched;
      for (unsigned vmid = 101; vmid < 101 + workers_; ++vmid) {
        const lab::Truth truth = rig_.home.estate.truth(vmid);
        const bool meant =
            request.url.find(fmt::format("/{}/", vmid)) != std::string::npos ||
            request.url.find(fmt::format("//10.0.1.{}:", vmid - 80)) != std::string::npos;
        EXPECT_TRUE(meant || !truth.heard.empty())
            << request.url << " while " << vmid << " is away";
      }
    }
    return rig_.counting.exchange(request, sink, std::move(stop));
  }
  unsigned touched = 0;

 private:
  ClusterRig& rig_;
  unsigned workers_;
};

/// What a worker is silent for, for a while or for good.
struct Ordeal {
  const char* name;
  const char* machine;
  const char* patch;
};
class Ordeals : public testing::TestWithParam<Ordeal> {};

TEST_P(Ordeals, AreGoneThroughOneByOne) {
  ClusterRig rig;
  rig.write_spec(workers_with(3, ""));
  ASSERT_TRUE(rig.up().ok());
  rig.home.world.run_for(5min);
  rig.write_spec(workers_with(3, GetParam().machine, GetParam().patch));
  WatchedWorkers watched{rig, 3};
  rig.transport = &watched;
  rig.log.clear();
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::PowerCycle);
  const engine::Report report = rig.up(options);
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(watched.touched, 3u);
  const std::string kind = std::string_view(GetParam().patch).empty() ? "vm" : "machine";
  EXPECT_EQ(most_at_once(order_of(rig, kind)), 1u) << testing::PrintToString(rig.log);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Workers, Ordeals,
    testing::Values(Ordeal{"PowerCycle", ", cpu: x86-64-v3", ""},
                    Ordeal{"Network", "",
                           "machine: { network: { extraHostEntries: [ { ip: 10.0.0.9, aliases: "
                           "[nas] } ] } }"},
                    Ordeal{"Kubelet", "", "machine: { kubelet: { extraArgs: { v: \"4\" } } }"},
                    Ordeal{"Reboot", "",
                           "machine: { udev: { rules: [ \"SUBSYSTEM==\\\"usb\\\"\" ] } }"}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(Workers, HarmlessChangesGoAllAtOnce) {
  ClusterRig rig;
  rig.write_spec(workers_with(4, ""));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(workers_with(4, "", "machine: { nodeAnnotations: { room: cellar } }"));
  for (const engine::Planned& step : rig.plan().steps) EXPECT_EQ(step.turn, "") << step.address;
  rig.log.clear();
  EXPECT_TRUE(rig.up().ok());
  const std::vector<std::string> order = order_of(rig, "machine");
  ASSERT_EQ(order.size(), 8u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(order[i].front(), '+') << order[i];
}

// ---- answers that never came

/// Moves a card, or applies a configuration, and loses the answer of the first.
class Forgetful final : public net::Transport {
 public:
  Forgetful(net::Transport& inner, std::string path) : inner_(inner), path_(std::move(path)) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (lost_ || request.method == "GET" || request.url.find(path_) == std::string::npos)
      return inner_.exchange(request, sink, std::move(stop));
    lost_ = true;
    net::MemorySink unheard;
    inner_.exchange(request, unheard, std::move(stop));
    throw Error(Fault::Lost, "the answer was lost");
  }

 private:
  net::Transport& inner_;
  std::string path_;
  bool lost_ = false;
};

TEST(Disturb, AControlPlaneIsWatchedAlthoughTheAnswerWasLost) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(3, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(with_vlan(3, 77));
  Forgetful forgetful{rig.counting, "/config"};
  rig.transport = &forgetful;
  const engine::Report report = rig.up();
  ASSERT_EQ(tagged(rig, "77").size(), 1u) << problems(report);
  EXPECT_THAT(problems(report), AllOf(HasSubstr("is not well"), HasSubstr("tag=77"),
                                      HasSubstr("the other control planes are left as they were")));
}

TEST(Workers, OneIsWatchedAlthoughTheAnswerWasLost) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 4)));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(workers_in_vlan(4, 77));
  Forgetful forgetful{rig.counting, "/config"};
  rig.transport = &forgetful;
  const engine::Report report = rig.up();
  ASSERT_EQ(tagged(rig, "77").size(), 1u) << problems(report);
  EXPECT_THAT(problems(report), AllOf(HasSubstr("is not well"), HasSubstr("tag=77"),
                                      HasSubstr("the other workers are left as they were")));
}

TEST(Workers, OneThatStartsIsWatchedAlthoughTheAnswerWasLost) {
  ClusterRig rig;
  rig.write_spec(workers_with(3, ""));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(workers_with(3, ", cpu: x86-64-v3"));
  Forgetful forgetful{rig.counting, "/status/start"};
  rig.transport = &forgetful;
  rig.log.clear();
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::PowerCycle);
  const engine::Report report = rig.up(options);
  EXPECT_TRUE(report.ok()) << problems(report);
  // Nobody else is switched off before it is there again.
  EXPECT_EQ(most_at_once(order_of(rig, "vm")), 1u);
  EXPECT_THAT(rig.log, Contains(HasSubstr("to be well again: ")));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

std::string by_dhcp(std::string text) {
  text = replace_all(text, "addressing: static", "addressing: dhcp");
  for (const char* fixed : {"    endpoint: { vip: 10.0.1.10 }\n", "    gateway: 10.0.0.1\n",
                            "    nameservers: [10.0.0.1]\n", ", addresses: 10.0.1.11-10.0.1.15",
                            ", addresses: 10.0.1.21-10.0.1.40"})
    text = replace_all(text, fixed, "");
  return text;
}

// Under DHCP the endpoint is the first control plane's lease, so it is configured before the
// others. One that was created and not configured yet runs no API server: waiting for it would be
// waiting for what comes later in the same run.
TEST(Disturb, AControlPlaneThatHasNotJoinedYetKeepsNobodyWaiting) {
  ClusterRig rig;
  rig.write_spec(by_dhcp(static_spec(pools(1, 0))));
  ASSERT_TRUE(rig.up().ok());
  rig.home.world.run_for(1min);
  rig.write_spec(by_dhcp(static_spec(pools(3, 0))));
  resources::RunOptions only;
  only.targets = {"member/cp-2", "vm/cp-3"};
  ASSERT_TRUE(rig.up(only).ok());
  rig.home.world.run_for(2min);
  rig.write_spec(by_dhcp(with_patch(3, "cluster: { apiServer: { extraArgs: { v: \"4\" } } }")));
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

}  // namespace
}  // namespace rocca::scenarios
