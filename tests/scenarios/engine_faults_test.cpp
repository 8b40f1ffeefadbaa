// Things go wrong half-way: the next `up` or `down` goes on from there, and asks nothing.

#include "lab/sim/chaos.hpp"
#include "scenarios/engine_rig.hpp"
#include "state/http_store.hpp"
#include "state/null_store.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;

TEST(EngineFaults, AFailedVmSkipsOnlyWhatNeedsIt) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 2)));
  arm(rig,
      "- task: { type: qmstart, id: \"102\" }\n  fail: \"start failed: QEMU exited with code "
      "1\"\n");
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  using End = engine::StepResult::End;
  EXPECT_EQ(report.steps.at("vm/worker-2").end, End::Failed);
  EXPECT_EQ(report.steps.at("machine/worker-2").end, End::Skipped);
  EXPECT_EQ(report.steps.at("machine/worker-2").cause, "vm/worker-2");
  EXPECT_THAT(report.steps.at("member/worker-1").end, testing::AnyOf(End::Done, End::Unchanged));
  converges(rig, 3);
}

TEST(EngineFaults, AFullStorageStopsVmsAndTheRerunGoesOn) {
  ClusterRig rig;
  rig.write_spec(static_spec(three_and_two));
  arm(rig, "- at: 7s\n  fill: local-lvm\n");
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(problems(report), AllOf(HasSubstr("local-lvm on pve1 has 0"), HasSubstr("free of"),
                                      HasSubstr("and the disks of"), HasSubstr("20GiB"),
                                      HasSubstr("hint: free space on that storage")));
  arm(rig, "- at: 0s\n  free: local-lvm\n");
  rig.home.world.run_for(1min);
  converges(rig, 5);
}

TEST(EngineFaults, NineBytesAreNoImage) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  rig.home.factory.truncate = true;
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(problems(report), HasSubstr("Image is not in qcow2 format"));
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
  rig.home.factory.truncate = false;
  converges(rig, 1);
}

/// Of the image that the plan is about: as it is called on the storage.
std::string image_of(ClusterRig& rig) {
  for (const engine::Planned& step : rig.plan().steps)
    if (step.address.starts_with("image/")) return step.address.substr(step.address.rfind('/') + 1);
  return "";
}

// Proxmox looks into what is to be imported, but takes any file for an ISO.
TEST(EngineFaults, NineBytesThatProxmoxTookAreTakenAwayAgain) {
  ClusterRig rig;
  rig.write_spec(
      replace_all(static_spec(pools(1, 0)), "[qemu-guest-agent]", "[qemu-guest-agent], boot: iso"));
  const std::string file = image_of(rig);
  rig.home.factory.truncate = true;
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(problems(report), AllOf(HasSubstr("has 9 bytes: that is no image of Talos"),
                                      HasSubstr("A proxy or a portal may answer")));
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
  rig.home.world.run_for(30s);
  EXPECT_FALSE(rig.home.dc.storages.at("local").on("pve1").contains("iso/" + file));
  rig.home.factory.truncate = false;
  converges(rig, 1);
}

/// Proxmox refuses to delete volumes.
class RefusedDeletions final : public net::Transport {
 public:
  explicit RefusedDeletions(net::Transport& inner) : inner_(inner) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (request.method == "DELETE" && request.url.find("/content/") != std::string::npos)
      throw Error(Fault::Denied, "Permission check failed (/storage/local, Datastore.Allocate)");
    return inner_.exchange(request, sink, std::move(stop));
  }

 private:
  net::Transport& inner_;
};

TEST(EngineFaults, AnImageThatCannotBeDeletedIsReportedWithTheReasonForIt) {
  ClusterRig rig;
  RefusedDeletions refusing{rig.counting};
  rig.transport = &refusing;
  rig.write_spec(
      replace_all(static_spec(pools(1, 0)), "[qemu-guest-agent]", "[qemu-guest-agent], boot: iso"));
  rig.home.factory.truncate = true;
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(problems(report), AllOf(HasSubstr("has 9 bytes"), HasSubstr("Datastore.Allocate")));
}

TEST(EngineFaults, ADownloadThatIsNotOfThePinnedSizeIsTakenAwayAgain) {
  ClusterRig rig;
  rig.write_spec(
      replace_all(static_spec(pools(1, 0)), "[qemu-guest-agent]", "[qemu-guest-agent], boot: iso"));
  const std::string file = image_of(rig);
  ASSERT_TRUE(rig.up().ok());
  const auto size = spec::find_lock(rig.files, "/clusters/blue")->images.at(file).size;
  ASSERT_TRUE(size);
  resources::RunOptions purge;
  purge.purge_images = true;
  ASSERT_TRUE(rig.down(purge).ok());
  // The factory offers us what is pinned, and the host gets something else.
  const auto run = rig.run();
  const engine::Report report = run->up([&](const engine::Event& event) {
    if (event.kind == engine::Event::Kind::Acted && event.address.starts_with("image/"))
      rig.home.factory.truncate = true;
  });
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(problems(report), HasSubstr(fmt::format("has 9 bytes, and the image has {}", *size)));
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
  rig.home.world.run_for(30s);
  EXPECT_FALSE(rig.home.dc.storages.at("local").on("pve1").contains("iso/" + file));
}

TEST(EngineFaults, AFactoryThatOffersAnotherSizeThanThePinnedOneIsNotAskedForIt) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  const std::string file = image_of(rig);
  spec::Lock lock = spec::find_lock(rig.files, "/clusters/blue").value_or(spec::Lock{});
  lock.cluster = "blue";
  lock.images[file].size = 4097;
  spec::write_lock(rig.files, "/clusters/blue", lock);
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(problems(report), AllOf(HasSubstr("the Image Factory offers 4096 bytes for " + file),
                                      HasSubstr("and 4097 are pinned"),
                                      HasSubstr("Remove the entry from rocca.lock")));
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
  EXPECT_FALSE(rig.home.dc.storages.at("local").on("pve1").contains("import/" + file));
}

TEST(EngineFaults, NineBytesThatAreThereAlreadyAreRefused) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  std::string name;
  for (const engine::Planned& step : rig.plan().steps)
    if (step.address.starts_with("image/"))
      name = "import/" + step.address.substr(step.address.rfind('/') + 1);
  lab::pve::Volume volume;
  volume.name = name;
  volume.content = "import";
  volume.format = "qcow2";
  volume.size = volume.used = 9;
  rig.home.dc.storages.at("local").on("pve1")[name] = volume;
  EXPECT_THAT(refused([&] { rig.up(); }), HasSubstr("has 9 bytes: that is no image of Talos"));
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

TEST(EngineFaults, AnImageThatIsNotAsPinnedIsRefused) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  ASSERT_TRUE(rig.down().ok());
  spec::Lock lock = *spec::find_lock(rig.files, "/clusters/blue");
  ASSERT_FALSE(lock.images.empty());
  lock.images.begin()->second.size = 4097;
  spec::write_lock(rig.files, "/clusters/blue", lock);
  EXPECT_THAT(refused([&] { rig.up(); }), HasSubstr("has 4096 bytes, and the image has 4097"));
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

struct Lost {
  const char* name;
  const char* method;
  const char* path;
};
class LostAnswer : public testing::TestWithParam<Lost> {};
TEST_P(LostAnswer, IsFollowedByLooking) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  arm(rig, fmt::format("- request: {{ method: {}, path: {} }}\n  times: 2\n  lose: true\n",
                       GetParam().method, GetParam().path));
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(rig.home.dc.vms.size(), 2u);
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}
const Lost lost[] = {
    {"Create", "POST", "/qemu"},  {"Download", "POST", "/download-url"},
    {"Resize", "PUT", "/resize"}, {"Start", "POST", "/status/start"},
    {"Read", "GET", "/pending"},  {"Tasks", "GET", "/tasks"},
};
INSTANTIATE_TEST_SUITE_P(Of, LostAnswer, testing::ValuesIn(lost),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(EngineFaults, ManyLostAnswersEndInTheSameCluster) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    lab::Home::Options options;
    options.seed = seed;
    ClusterRig rig{options};
    lab::Chaos::Options unkind;
    unkind.dropped_before = 30;
    unkind.dropped_after = 30;
    lab::Chaos chaos{rig.wire, rig.home.world, rig.parker, rig.home.world.fork("chaos"), unkind};
    rig.transport = &chaos;
    rig.write_spec(static_spec(pools(3, 1)));
    for (int i = 0; i < 4; ++i) {
      try {
        if (rig.up().ok()) break;
      } catch (const Error&) {
        // A look that could not be had: the next run looks again.
      }
    }
    EXPECT_GT(chaos.struck(), 5u);
    rig.transport = nullptr;
    SCOPED_TRACE(fmt::format("seed {}", seed));
    converges(rig, 4);
  }
}

TEST(EngineDown, EndsOnDeadHalfMadeAndGoneVms) {
  ClusterRig rig;
  rig.write_spec(static_spec(three_and_two));
  ASSERT_TRUE(rig.up().ok());
  // One is gone, one is off, one is paused for good, one ignores its power button.
  test::Administrator client = client_with(rig, rig.home.root_token);
  client.start_stop("pve1", 100);
  client.start_stop("pve1", 101);
  rig.home.world.run_for(20s);
  client.start_destroy("pve1", 101, true);
  rig.home.world.run_for(20s);
  rig.home.dc.vms.at(102).power = lab::pve::Vm::Power::Paused;
  const auto guest_of = rig.home.dc.guest_of;
  rig.home.dc.guest_of = [&](const lab::pve::Vm& vm) {
    if (vm.id != 103) return guest_of(vm);
    lab::pve::Guest deaf;
    deaf.acpi = false;
    return std::optional{deaf};
  };
  const engine::Report report = rig.down();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
  // And once more, on nothing.
  EXPECT_TRUE(rig.down().ok());
}

TEST(EngineDown, LooksOnceMoreAndNamesWhatStillCarriesOurMark) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  const lab::pve::Vm saved = rig.home.dc.vms.at(101);
  const auto run = rig.run();
  const engine::Report report = run->down([&](const engine::Event& event) {
    // Worker-1 is gone; somebody restores it from a backup, at another id and without our tags.
    if (event.kind != engine::Event::Kind::Settled || event.address != "vm/worker-1") return;
    lab::pve::Vm& restored = rig.home.dc.vms[555] = saved;
    restored.id = 555;
    restored.config["name"] = "restored";
    restored.config.erase("tags");
    restored.power = lab::pve::Vm::Power::Stopped;
  });
  EXPECT_FALSE(report.ok()) << "a VM of ours is there";
  EXPECT_THAT(problems(report), AllOf(HasSubstr("VM 555 'restored' on pve1 still carries our mark"),
                                      HasSubstr("run `rocca down` again")));
  EXPECT_TRUE(rig.home.dc.vms.contains(555));
  EXPECT_TRUE(rig.store->load()) << "what is not over is not forgotten";
  const engine::Report again = rig.down();
  EXPECT_TRUE(again.ok()) << problems(again);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

/// What Proxmox is asked, in order.
class Questions final : public net::Transport {
 public:
  explicit Questions(net::Transport& inner) : inner_(inner) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    all.push_back(request.method + " " + request.url);
    return inner_.exchange(request, sink, std::move(stop));
  }
  std::vector<std::string> with(const std::string& part, const std::string& without = "\n") const {
    std::vector<std::string> found;
    for (const std::string& each : all)
      if (each.find(part) != each.npos && each.find(without) == each.npos) found.push_back(each);
    return found;
  }
  std::vector<std::string> all;

 private:
  net::Transport& inner_;
};

TEST(EngineDown, AsksNoVmTwiceHowItStandsBeforeAShutdown) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  rig.home.world.run_for(1h);
  Questions questions{rig.wire};
  rig.transport = &questions;
  ASSERT_TRUE(rig.down().ok());
  EXPECT_THAT(questions.with("POST"), testing::SizeIs(1)) << "a shutdown";
  EXPECT_THAT(questions.with("DELETE"), testing::SizeIs(1));
  // Before the shutdown. Its end is in the task list, and Proxmox destroys nothing that runs.
  EXPECT_THAT(questions.with("/status/current"), testing::SizeIs(1));
}

// It was seen to be off, and is started by someone else right before the destroy.
TEST(EngineDown, SwitchesOffAgainWhatWasStartedBeforeTheDestroy) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  class Starts final : public net::Transport {
   public:
    explicit Starts(ClusterRig& rig) : rig_(rig) {}
    net::Response exchange(const net::Request& request, net::BodySink& sink,
                           std::stop_token stop) override {
      if (request.method == "DELETE" && ++destroys == 1) {
        lab::pve::Vm& vm = rig_.home.dc.vms.at(100);
        vm.power = lab::pve::Vm::Power::Running;
        vm.pid = 4711;
        vm.started = rig_.home.world.now();
      }
      return rig_.counting.exchange(request, sink, std::move(stop));
    }
    unsigned destroys = 0;

   private:
    ClusterRig& rig_;
  } starts{rig};
  rig.transport = &starts;
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_EQ(starts.destroys, 2u);
  EXPECT_EQ(rig.counting.counts["POST /nodes/pve1/qemu/100/status/shutdown"], 2u)
      << "the guest that runs now is asked";
  EXPECT_TRUE(rig.home.dc.vms.empty());
}

TEST(EngineDown, IsToldOfOldTasksOnlyOnce) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  Questions questions{rig.wire};
  rig.transport = &questions;
  const auto begun = rig.home.world.unix_time();
  ASSERT_TRUE(rig.down().ok());
  const auto lists = questions.with("/tasks?", "vmid=");
  ASSERT_GT(lists.size(), 3u);
  // One for what was asked of the VM lately, one for how long tasks take; then only what is new.
  for (std::size_t i = 2; i < lists.size(); ++i) {
    const std::string since = lists[i].substr(lists[i].find("since=") + 6);
    EXPECT_GE(std::stoll(since), begun) << lists[i];
  }
}

TEST(EngineDown, SeesWhoBeganSomethingSinceItLooked) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  const unsigned vmid = rig.home.dc.vms.begin()->first;
  // The lock comes behind the last look at how it stands, and in front of the act.
  class Between final : public net::Transport {
   public:
    Between(ClusterRig& rig, unsigned vmid) : rig_(rig), vmid_(vmid) {}
    net::Response exchange(const net::Request& request, net::BodySink& sink,
                           std::stop_token stop) override {
      net::Response answer = rig_.wire.exchange(request, sink, std::move(stop));
      if (request.url.find("/status/current") != request.url.npos && !begun_) {
        begun_ = true;
        rig_.home.dc.vms.at(vmid_).config["lock"] = "backup";
        rig_.home.world.after(20s, [this] { rig_.home.dc.vms.at(vmid_).config.erase("lock"); });
      }
      if (request.method == "POST" && rig_.home.dc.vms.at(vmid_).config.contains("lock")) ++in_vain;
      return answer;
    }
    unsigned in_vain = 0;

   private:
    ClusterRig& rig_;
    unsigned vmid_;
    bool begun_ = false;
  } between{rig, vmid};
  rig.transport = &between;
  static_cast<void>(rig.down());
  EXPECT_EQ(between.in_vain, 0u) << "nobody shuts down what is being saved";
  rig.transport = nullptr;
  rig.home.world.run_for(1min);
  EXPECT_TRUE(rig.down().ok());
  EXPECT_TRUE(rig.home.dc.vms.empty());
}

TEST(EngineDown, NeedsNoNode) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(3, 1)));
  ASSERT_TRUE(rig.up().ok());
  // Nobody answers at any address of the cluster.
  for (const char* address : {"10.0.1.11", "10.0.1.12", "10.0.1.13", "10.0.1.21"})
    rig.home.world.network().set_up(address, false);
  const engine::Report report = rig.down();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

TEST(EngineDown, KeepsImagesUnlessToldOtherwise) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  ASSERT_TRUE(rig.up().ok());
  const auto images = [&] {
    std::size_t count = 0;
    for (const auto& [name, volume] : rig.home.dc.storages.at("local").on("pve1"))
      count += name.starts_with("import/");
    return count;
  };
  EXPECT_EQ(images(), 1u);
  ASSERT_TRUE(rig.down().ok());
  EXPECT_EQ(images(), 1u);
  ASSERT_TRUE(rig.up().ok());
  resources::RunOptions options;
  options.purge_images = true;
  ASSERT_TRUE(rig.down(options).ok());
  EXPECT_EQ(images(), 0u);
}

TEST(EngineFaults, DownGoesOnWithoutAStateThatIsOutOfReach) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  state::HttpAccess access;
  access.address = "https://nowhere.home/state";
  rig.store = state::http_store(rig.wire, rig.home.world.clock(), access);
  try {
    rig.down();
    ADD_FAILURE() << "went on without being told to";
  } catch (const Error& error) {
    EXPECT_THAT(error.render(),
                AllOf(HasSubstr("nowhere.home"), HasSubstr("`rocca down --without-state`")));
  }
  EXPECT_EQ(rig.home.dc.vms.size(), 2u);
  rig.store = state::forgetful_store();
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
  // The state comes back and remembers what is gone: the next `down` makes it forget.
  rig.store.reset();
  {
    const auto run = rig.run();
    EXPECT_TRUE(run->plan_down().empty());
    EXPECT_TRUE(run->remembers_down());
    EXPECT_TRUE(run->down([](const engine::Event&) {}).ok());
  }
  const engine::Report up = rig.up();
  EXPECT_TRUE(up.ok()) << problems(up);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

}  // namespace
}  // namespace rocca::scenarios
