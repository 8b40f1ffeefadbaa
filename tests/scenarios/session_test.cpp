// Clusters opened from values only, as a controller opens them: no folder, no environment, no
// terminal, no parsed command line.

#include "session/session.hpp"

#include "base/error.hpp"
#include "engine/runner.hpp"
#include "lab/data_centre.hpp"
#include "lab/sim/sockets.hpp"
#include "net/curl_transport.hpp"
#include "scenarios/engine_rig.hpp"
#include "session/load.hpp"
#include "support/memory_storage.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <future>
#include <thread>

namespace rocca::scenarios {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

constexpr const char* cert_approver = "  addons: { certApprover: true }\n";

spec::Spec load_without_folder(const std::string& text, const std::string& name) {
  test::NoFiles files;
  spec::Loaded loaded = session::load(files, {text, "Cluster default/" + name});
  if (loaded.diagnostics.has_errors()) throw Error(Fault::Usage, loaded.diagnostics.render());
  return std::move(loaded.spec);
}

resources::RunOptions options_for(const std::string& doing) {
  resources::RunOptions options;
  options.who = "a controller";
  options.doing = doing;
  return options;
}

// ---- one cluster, on fibers and virtual time

class SessionFromValues : public testing::Test {
 protected:
  std::unique_ptr<session::Session> open(session::Purpose purpose = session::Purpose::Apply) {
    return std::make_unique<session::Session>(inputs(purpose));
  }

  session::Inputs inputs(session::Purpose purpose = session::Purpose::Apply) {
    return {.spec = load_without_folder(text_, "blue"),
            .transport = rig_.wire,
            .files = no_files_,
            .clock = rig_.home.world.clock(),
            .entropy = rig_.entropy,
            .runner = *rig_.runner,
            .purpose = purpose,
            .options = options_for("test"),
            .secrets = {{"proxmox.token", Secret{rig_.home.token}}},
            .bundle = test_bundle(),
            .storage = memory_.storage(),
            .local_store =
                [this](state::Sealing sealing) { return memory_.open_store(std::move(sealing)); },
            .factory_trust = net::Tls::unverified()};
  }

  static void ignore(const engine::Event&) {}

  ClusterRig rig_;
  test::NoFiles no_files_;
  test::MemoryStorage memory_;
  std::string text_ = static_spec(pools(1, 1), "[pve1]", cert_approver);
};

TEST_F(SessionFromValues, PlansCreatesAndDestroysAClusterWithoutAFolder) {
  {
    const auto session = open();
    EXPECT_THAT(differences(session->run().plan()), Not(IsEmpty()));
    EXPECT_FALSE(memory_.lock->find());  // a plan writes no lock
    const engine::Report report = session->run().up(ignore);
    ASSERT_TRUE(report.ok()) << problems(report);
  }
  EXPECT_EQ(rig_.home.dc.vms.size(), 2u);
  EXPECT_EQ(rig_.home.estate.bootstraps().size(), 1u);
  ASSERT_TRUE(memory_.lock->find());
  EXPECT_EQ(memory_.lock->find()->nodes.size(), 2u);
  EXPECT_THAT(memory_.access->names(), ElementsAre("kubeconfig", "talosconfig"));
  EXPECT_EQ(memory_.manifests->size(), 1u);
  // Another session finds everything as it was left.
  EXPECT_THAT(differences(open()->run().plan()), IsEmpty());
  EXPECT_THAT(open()->run().status().nodes, testing::SizeIs(2));
  EXPECT_THAT(open(session::Purpose::History)->run().prior().items, Not(IsEmpty()));
  {
    const auto session = open(session::Purpose::Destroy);
    EXPECT_THAT(differences(session->run().plan_down()), Not(IsEmpty()));
    const engine::Report report = session->run().down(ignore);
    ASSERT_TRUE(report.ok()) << problems(report);
  }
  EXPECT_EQ(rig_.home.dc.vms.size(), 0u);
  EXPECT_THAT(memory_.access->names(), IsEmpty());
}

TEST_F(SessionFromValues, SaysWhichPlaceIsMissingForAClusterWithoutAFolder) {
  const auto refusal = [](session::Inputs given) {
    try {
      session::Session session{std::move(given)};
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Usage) << error.render();
      return error.message();
    }
    return std::string{"opened"};
  };
  auto without_lock = inputs();
  without_lock.storage.lock.reset();
  EXPECT_THAT(refusal(std::move(without_lock)), testing::HasSubstr("rocca.lock"));
  auto without_access = inputs();
  without_access.storage.access.reset();
  EXPECT_THAT(refusal(std::move(without_access)), testing::HasSubstr("access files"));
  auto without_cache = inputs();
  without_cache.storage.manifests.reset();
  EXPECT_THAT(refusal(std::move(without_cache)), testing::HasSubstr("manifests"));
  auto without_state = inputs();
  without_state.local_store = nullptr;
  EXPECT_THAT(refusal(std::move(without_state)), testing::HasSubstr("state"));
}

TEST_F(SessionFromValues, NeedsATokenThatIsGivenOrNamesEveryPlaceItLookedAt) {
  auto given = inputs();
  given.secrets.clear();
  try {
    session::Session session{std::move(given)};
    FAIL() << "opened without a token";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::NotFound) << error.render();
  }
}

// ---- two at once, on threads and sockets

/// A spec of one control plane and one worker on one host, with VM ids of its own.
std::string small_spec(const std::string& name, const std::string& host, unsigned third,
                       unsigned vmid) {
  return fmt::format(R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: {{ name: {0} }}
spec:
  talos: {{ version: v1.11.5, extensions: [qemu-guest-agent] }}
  kubernetes: {{ version: v1.34.1, endpoint: {{ vip: 10.0.{2}.10 }} }}
  network: {{ addressing: static, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1] }}
  proxmox:
    endpoints: [https://pve.home:8006]
    insecure: true
    token: {{ secret: proxmox.token }}
    hosts: [{1}]
  nodes:
    cp-1: {{ role: controlplane, address: 10.0.{2}.11, machine: {{ vmid: {3} }} }}
    worker-1: {{ role: worker, address: 10.0.{2}.21, machine: {{ vmid: {4} }} }}
)",
                     name, host, third, vmid, vmid + 1);
}

lab::Home::Options two_hosts(const Clock& clock) {
  lab::Home::Options options;
  options.hosts = {"pve1", "pve2"};
  options.start = clock.now();
  return options;
}

lab::Sockets::Options in_time_lapse() {
  lab::Sockets::Options options;
  options.speed = 40;
  return options;
}

class TwoSessions : public testing::Test {
 protected:
  struct Tenant {
    std::string name;
    std::string text;
    secrets::Bundle bundle;
    test::MemoryStorage memory = {};
    test::NoFiles files = {};
  };

  std::unique_ptr<session::Session> open(Tenant& tenant, engine::Runner& runner,
                                         session::Purpose purpose) {
    return std::make_unique<session::Session>(
        session::Inputs{.spec = load_without_folder(tenant.text, tenant.name),
                        .transport = curl_,
                        .files = tenant.files,
                        .clock = clock_,
                        .entropy = entropy_,
                        .runner = runner,
                        .purpose = purpose,
                        .options = options_for("test"),
                        .secrets = {{"proxmox.token", Secret{home_.token}}},
                        .bundle = tenant.bundle,
                        .storage = tenant.memory.storage(),
                        .local_store =
                            [&tenant](state::Sealing sealing) {
                              return tenant.memory.open_store(std::move(sealing));
                            },
                        .factory_trust = net::Tls::unverified()});
  }

  engine::Report up(Tenant& tenant) {
    const auto runner = engine::pool_runner(33, clock_);
    const auto session = open(tenant, *runner, session::Purpose::Apply);
    session->run().plan();
    return session->run().up([](const engine::Event&) {});
  }
  std::vector<std::string> plan(Tenant& tenant) {
    const auto runner = engine::pool_runner(33, clock_);
    return differences(open(tenant, *runner, session::Purpose::Apply)->run().plan());
  }
  engine::Report down(Tenant& tenant) {
    const auto runner = engine::pool_runner(33, clock_);
    return open(tenant, *runner, session::Purpose::Destroy)->run().down([](const engine::Event&) {
    });
  }

  std::size_t count_vms() {
    std::size_t count = 0;
    sockets_.run([&] { count = home_.dc.vms.size(); });
    return count;
  }

  SystemClock clock_;
  SystemEntropy entropy_;
  lab::Home home_{two_hosts(clock_)};
  lab::Sockets sockets_{home_.world, clock_, in_time_lapse()};
  net::CurlTransport curl_{{.proxy = sockets_.proxy()}};
  Tenant blue_{"blue", small_spec("blue", "pve1", 1, 201), make_bundle(7)};
  Tenant green_{"green", small_spec("green", "pve2", 2, 301), make_bundle(8)};
};

TEST_F(TwoSessions, CreateAndDestroyTheirClustersAtOnceInOneProcess) {
  {
    auto other = std::async(std::launch::async, [this] { return up(green_); });
    const engine::Report blue = up(blue_);
    const engine::Report green = other.get();
    EXPECT_TRUE(blue.ok()) << problems(blue);
    EXPECT_TRUE(green.ok()) << problems(green);
  }
  EXPECT_EQ(count_vms(), 4u);
  {
    auto other = std::async(std::launch::async, [this] { return plan(green_); });
    EXPECT_THAT(plan(blue_), IsEmpty());
    EXPECT_THAT(other.get(), IsEmpty());
  }
  // Each has its own, and nothing of the other.
  EXPECT_EQ(blue_.memory.lock->find()->cluster, "blue");
  EXPECT_EQ(green_.memory.lock->find()->cluster, "green");
  EXPECT_NE(blue_.memory.access->find("kubeconfig"), green_.memory.access->find("kubeconfig"));
  {
    auto other = std::async(std::launch::async, [this] { return down(green_); });
    const engine::Report blue = down(blue_);
    const engine::Report green = other.get();
    EXPECT_TRUE(blue.ok()) << problems(blue);
    EXPECT_TRUE(green.ok()) << problems(green);
  }
  EXPECT_EQ(count_vms(), 0u);
}

}  // namespace
}  // namespace rocca::scenarios
