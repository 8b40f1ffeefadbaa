// What real nodes, hosts and people do while `up` is at work: answers that never come, refusals
// that look like success, hosts that vanish, ids that are taken in the same instant, specs that
// change.

#include "base/encoding.hpp"
#include "scenarios/engine_machines.hpp"
#include "secrets/crypto.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Between rocca and a node: counts the calls of one method, and does with each what it is told.
class Meddler final : public net::Transport {
 public:
  enum class Does { Pass, LoseTheAnswer, LoseTheQuestion, AlreadyExists };
  Meddler(net::Transport& inner, std::string method, std::function<Does(std::size_t)> decide)
      : inner_(inner), method_(std::move(method)), decide_(std::move(decide)) {}

  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (!request.url.ends_with("/" + method_))
      return inner_.exchange(request, sink, std::move(stop));
    switch (decide_(++calls_[net::Url::parse(request.url)->host])) {
      case Does::Pass:
        break;
      case Does::LoseTheAnswer: {
        net::MemorySink unheard;
        inner_.exchange(request, unheard, std::move(stop));
        throw Error(Fault::Lost, "the answer was lost");
      }
      case Does::LoseTheQuestion:
        throw Error(Fault::Lost, "the answer was lost");
      case Does::AlreadyExists: {
        net::Response response;
        response.status = 200;
        response.version = net::HttpVersion::Http2;
        response.headers = {{"content-type", "application/grpc"},
                            {"grpc-status", "6"},
                            {"grpc-message", "etcd data directory is not empty"}};
        response.trailers = response.headers;
        sink.begin(response);
        return response;
      }
    }
    return inner_.exchange(request, sink, std::move(stop));
  }

  /// By the address that was asked.
  const std::map<std::string, std::size_t>& calls() const { return calls_; }

 private:
  net::Transport& inner_;
  std::string method_;
  std::function<Does(std::size_t)> decide_;
  std::map<std::string, std::size_t> calls_;
};

TEST(BadInput, ALostAnswerOfTheFirstApplyIsFollowedByLookingNeverByARepeat) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 1)));
  Meddler meddler{rig.counting, "ApplyConfiguration",
                  [](std::size_t) { return Meddler::Does::LoseTheAnswer; }};
  rig.transport = &meddler;
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  // A second one in maintenance mode would have wedged the node for good.
  EXPECT_THAT(meddler.calls(),
              testing::ElementsAre(testing::Pair("10.0.1.11", 1u), testing::Pair("10.0.1.21", 1u)));
  converges(rig, 2);
}

TEST(BadInput, AnApplyThatNeverArrivedIsRepeatedOnceTheNodeIsSeenToWait) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 0)));
  Meddler meddler{rig.counting, "ApplyConfiguration", [](std::size_t call) {
                    return call == 1 ? Meddler::Does::LoseTheQuestion : Meddler::Does::Pass;
                  }};
  rig.transport = &meddler;
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(meddler.calls().at("10.0.1.11"), 2u);
  converges(rig, 1);
}

TEST(BadInput, ANodeThatWentOffAfterAnApplyOfUnknownFateIsStartedAgain) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 0)));
  std::stop_source stop;
  Meddler meddler{rig.counting, "ApplyConfiguration", [&](std::size_t) {
                    stop.request_stop();
                    return Meddler::Does::LoseTheQuestion;
                  }};
  rig.transport = &meddler;
  rig.stop = stop.get_token();
  EXPECT_FALSE(rig.up().ok());
  rig.stop = {};
  // Its host loses its power; the cluster's list says for some seconds more that it runs.
  rig.home.dc.set_online("pve1", false);
  rig.home.dc.set_online("pve1", true);
  converges(rig, 1);
}

TEST(BadInput, AHostThatComesBackWithEveryVmOffIsAskedForThreeThingsAtATime) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 7)));
  // Its power goes while all of them take their configurations.
  rig.home.world.after(40s, [&] {
    rig.home.dc.set_online("pve1", false);
    rig.home.dc.set_online("pve1", true);
  });
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  for (const auto& [vmid, vm] : rig.home.dc.vms)
    EXPECT_EQ(vm.power, lab::pve::Vm::Power::Running) << vmid;
  EXPECT_LE(rig.wire.peak_in_flight("pve/pve1"), 3u);
  converges(rig, 8);
}

TEST(BadInput, ABootstrapWhoseAnswerIsLostIsCalledOnce) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(3, 0)));
  Meddler meddler{rig.counting, "Bootstrap",
                  [](std::size_t) { return Meddler::Does::LoseTheAnswer; }};
  rig.transport = &meddler;
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(meddler.calls(), testing::ElementsAre(testing::Pair("10.0.1.11", 1u)));
  converges(rig, 3);
}

TEST(BadInput, AlreadyExistsFromBootstrapIsNoSuccess) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 0)));
  Meddler meddler{rig.counting, "Bootstrap",
                  [](std::size_t) { return Meddler::Does::AlreadyExists; }};
  rig.transport = &meddler;
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok()) << "nobody has an etcd";
  EXPECT_THAT(problems(report), HasSubstr("bootstrap/blue"));
  EXPECT_THAT(rig.home.estate.bootstraps(), IsEmpty());
  EXPECT_FALSE(rig.run()->prior().bootstrapped) << "only etcd itself proves it";
  converges(rig, 1);
}

TEST(BadInput, EtcdsCallsHangBeforeItRunsAndNobodyWaitsForThem) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(3, 0)));
  // Configured, not bootstrapped: every call of etcd hangs until its deadline.
  resources::RunOptions options;
  options.targets = {"machine/cp-1", "machine/cp-2", "machine/cp-3"};
  const engine::Report report = rig.up(options);
  ASSERT_TRUE(report.ok()) << problems(report);
  const Instant begun = rig.home.world.now();
  const resources::ClusterStatus status = rig.run()->status();
  EXPECT_LT(rig.home.world.now() - begun, 1min);
  EXPECT_EQ(status.etcd, "not bootstrapped");
  EXPECT_THAT(rig.plan().steps, Not(IsEmpty()));
  EXPECT_LT(rig.home.world.now() - begun, 2min);
  converges(rig, 3);
}

TEST(BadInput, AProxmoxThatVanishesInTheMiddleIsComeBackTo) {
  for (const Duration after : {Duration{3s}, Duration{6s}, Duration{12s}}) {
    ClusterRig rig;
    rig.write_spec(impatient(three_and_two));
    lab::World& world = rig.home.world;
    world.after(after, [&] { world.network().set_up("10.0.0.2", false); });
    const Instant begun = world.now();
    try {
      const engine::Report report = rig.up();
      EXPECT_FALSE(report.ok());
      EXPECT_THAT(problems(report), HasSubstr("pve.home"));
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Unreachable) << error.render();
    }
    EXPECT_LT(world.now() - begun, 2h);
    world.network().set_up("10.0.0.2", true);
    SCOPED_TRACE(
        fmt::format("after {}", std::chrono::duration_cast<std::chrono::seconds>(after).count()));
    converges(rig, 5);
  }
}

TEST(BadInput, AnIdThatSomebodyTakesInTheSameInstantIsNeverTouched) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 1)));
  arm(rig, "- request: { method: POST, path: /qemu }\n  race: { by: alice@pam }\n");
  const engine::Report report = rig.up();
  // The intruder was first and keeps its VM as it was made: without a disk, a card, or a mark.
  const auto intruder = std::find_if(rig.home.dc.vms.begin(), rig.home.dc.vms.end(), [](auto& one) {
    return *one.second.find("name") == "intruder";
  });
  ASSERT_NE(intruder, rig.home.dc.vms.end());
  const auto config = intruder->second.config;
  const std::string* smbios = intruder->second.find("smbios1");
  EXPECT_THAT(smbios == nullptr ? "" : *smbios, Not(HasSubstr("sku")));
  for (const char* key : {"scsi0", "net0", "tags", "description"})
    EXPECT_EQ(intruder->second.find(key), nullptr) << key;
  EXPECT_EQ(intruder->second.power, lab::pve::Vm::Power::Stopped);
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(problems(report), HasSubstr("is taken by"));
  EXPECT_THAT(refused([&] { rig.up(); }), AllOf(HasSubstr("is taken by"), HasSubstr("intruder")));
  EXPECT_EQ(intruder->second.config, config);
}

/// What the host's last download said.
std::vector<std::string> download_log(ClusterRig& rig) {
  std::vector<std::string> lines;
  for (const auto& task : rig.home.dc.find_node("pve1")->tasks())
    if (task->upid.type == "download") lines = task->log;
  return lines;
}

TEST(BadInput, AWrongChecksumLeavesNoImageAndNoVm) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 0)));
  std::string file;
  for (const engine::Planned& step : rig.plan().steps)
    if (step.address.starts_with("image/")) file = step.address.substr(step.address.rfind('/') + 1);
  const auto lock = [&] {
    return spec::find_lock(rig.files, "/clusters/blue").value_or(spec::Lock{});
  };
  const auto pin = [&](const std::string& sha256) {
    spec::Lock pinned = lock();
    pinned.cluster = "blue";
    pinned.images[file].sha256 = sha256;
    spec::write_lock(rig.files, "/clusters/blue", pinned);
  };
  pin(std::string(64, 'a'));
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(problems(report), AllOf(HasSubstr("checksum mismatch: got"), HasSubstr("image/"),
                                      HasSubstr("`rocca lock --refresh --digest`")));
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
  EXPECT_FALSE(rig.home.dc.storages.at("local").on("pve1").contains("import/" + file));
  // The right one, in the spelling of whoever wrote it, is checked by Proxmox.
  std::string why;
  const auto image =
      rig.home.factory.image(net::Url::parse(lock().images.at(file).url)->target, why);
  ASSERT_TRUE(image) << why;
  pin(to_hex(secrets::crypto::sha256(image->bytes)));
  converges(rig, 1);
  EXPECT_EQ(lock().images.at(file).sha256, to_hex(secrets::crypto::sha256(image->bytes)));
  EXPECT_THAT(download_log(rig), Contains("calculating checksum...OK, checksum verified"));
  // A digest that comes later changes nothing of what is there.
  pin("");
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(BadInput, ASpecThatChangesWhileUpRunsIsTheNextRunsBusiness) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 1)));
  const auto run = rig.run();
  bool changed = false;
  const engine::Report report = run->up([&](const engine::Event& event) {
    if (changed || event.address != "vm/worker-1") return;
    rig.write_spec(impatient(pools(1, 2)));
    changed = true;
  });
  EXPECT_TRUE(changed);
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(rig.home.dc.vms.size(), 2u) << "what was planned, and nothing else";
  std::vector<std::string> next;
  for (const engine::Planned& step : rig.plan().steps) next.push_back(step.address);
  EXPECT_THAT(next, testing::IsSupersetOf({"vm/worker-2", "machine/worker-2", "member/worker-2"}));
  converges(rig, 3);
}

TEST(BadInput, ALiveOwnerKeepsItsLockAndADeadOneDoesNot) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  auto other = state::local_store(rig.files, "/clusters/blue/.rocca");
  state::Holder holder;
  holder.id = "another-run";
  holder.who = "anna@laptop";
  holder.doing = "up";
  holder.since = rig.home.world.now();
  holder.until = holder.since + 2min;
  auto lock = other->lock(holder);
  try {
    rig.up();
    ADD_FAILURE() << "two at once";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Locked);
    EXPECT_THAT(error.render(), HasSubstr("anna@laptop"));
  }
  // It is killed: its lock goes with it.
  static_cast<void>(lock.release());
  static_cast<void>(other.release());
  rig.die();
  converges(rig, 1);
}

// ---- down

TEST(EngineDown, TakesWhatWasOnlyHalfMade) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 2)));
  arm(rig,
      "- task: { type: resize, id: \"101\" }\n  fail: \"no space left on device\"\n"
      "- task: { type: qmstart, id: \"102\" }\n  fail: \"start failed\"\n");
  EXPECT_FALSE(rig.up().ok());
  EXPECT_EQ(rig.home.dc.vms.size(), 3u);
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

struct Waits {
  const char* name;
  bool reboot;
  bool ours;  // begun with our own token
};
class IgnoredButton : public testing::TestWithParam<Waits> {};

TEST_P(IgnoredButton, DoesNotHoldDownForEver) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  deafen(rig);
  // A task waits for the guest, for half an hour, and holds the VM's lock meanwhile.
  test::Administrator client =
      client_with(rig, GetParam().ours ? rig.home.token : rig.home.root_token);
  if (GetParam().reboot)
    client.start_reboot("pve1", 100, 30min);
  else
    client.start_shutdown("pve1", 100, 30min, false);
  rig.home.world.run_for(5s);
  const Instant begun = rig.home.world.now();
  const engine::Report down = rig.down();
  if (GetParam().ours) {
    EXPECT_TRUE(down.ok()) << problems(down);
    EXPECT_THAT(rig.home.dc.vms, IsEmpty());
    EXPECT_LT(rig.home.world.now() - begun, 5min);
    return;
  }
  // Somebody else's, which our token may not end: it says whose it is and which right is missing.
  EXPECT_FALSE(down.ok());
  EXPECT_LT(rig.home.world.now() - begun, 20min);
  EXPECT_THAT(problems(down), AllOf(HasSubstr("root@pam"), HasSubstr("Sys.Modify on /nodes/pve1")));
  EXPECT_EQ(rig.home.dc.vms.size(), 1u) << "the other one is gone";
  rig.home.world.run_for(30min);
  const engine::Report again = rig.down();
  EXPECT_TRUE(again.ok()) << problems(again);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}
const Waits waits[] = {{"our_reboot", true, true},
                       {"our_shutdown", false, true},
                       {"a_reboot_of_somebody_else", true, false},
                       {"a_shutdown_of_somebody_else", false, false}};
INSTANTIATE_TEST_SUITE_P(In, IgnoredButton, testing::ValuesIn(waits),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(EngineDown, StopsAPausedGuestWithoutAskingIt) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.dc.vms.at(100).power = lab::pve::Vm::Power::Paused;
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
  EXPECT_EQ(times_asked(rig, "POST /nodes/pve1/qemu/100/status/shutdown"), 0u);
  EXPECT_EQ(times_asked(rig, "POST /nodes/pve1/qemu/100/status/stop"), 1u);
}

TEST(EngineDown, StopsInVainEverMoreSlowlyAndNotForEver) {
  ClusterRig rig;
  rig.write_spec(impatient(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  arm(rig,
      "- task: { type: qmshutdown, id: \"100\" }\n  fail: \"VM quit/powerdown failed - got "
      "timeout\"\n"
      "- task: { type: qmstop, id: \"100\" }\n  times: 1000\n  fail: \"no such luck\"\n");
  const Instant begun = rig.home.world.now();
  const engine::Report down = rig.down();
  EXPECT_FALSE(down.ok());
  EXPECT_THAT(problems(down),
              AllOf(HasSubstr("not stopped after 8 failed attempts"), HasSubstr("no such luck")));
  EXPECT_EQ(times_asked(rig, "POST /nodes/pve1/qemu/100/status/stop"), 8u);
  EXPECT_GT(rig.home.world.now() - begun, 2min) << "with pauses";
  EXPECT_LT(rig.home.world.now() - begun, 10min);
}

TEST(EngineDown, AHostThatIsOffIsNamedAndTheNextDownEndsIt) {
  lab::Home::Options options;
  options.hosts = {"pve1", "pve2", "pve3"};
  ClusterRig rig{options};
  rig.write_spec(replace_all(impatient(pools(1, 2)), "hosts: [pve1]", "hosts: [pve1, pve2, pve3]"));
  ASSERT_TRUE(rig.up().ok());
  arm(rig, "- { at: 0s, down: pve3 }\n");
  rig.home.world.run_for(1min);
  const Instant begun = rig.home.world.now();
  const engine::Report first = rig.down();
  EXPECT_FALSE(first.ok()) << "a VM of ours is still there";
  EXPECT_THAT(problems(first), HasSubstr("host pve3 is off"));
  ASSERT_EQ(rig.home.dc.vms.size(), 1u) << "all others are gone";
  EXPECT_EQ(rig.home.dc.vms.begin()->second.node, "pve3");
  EXPECT_LT(rig.home.world.now() - begun, 1h);
  arm(rig, "- { at: 0s, up: pve3 }\n");
  rig.home.world.run_for(1min);
  const engine::Report report = rig.down();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

}  // namespace
}  // namespace rocca::scenarios
