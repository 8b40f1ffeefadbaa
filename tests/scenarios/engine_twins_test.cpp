// A VM of ours that somebody restored from a backup, under another id and name and without our
// tags: nothing leads to it but a question to every VM there is. Before one is made, that is asked.

#include "lab/pve/qemu/qemu.hpp"
#include "scenarios/engine_rig.hpp"

namespace rocca::scenarios {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::StartsWith;

void finish(ClusterRig& rig, test::Administrator& client, const proxmox::Upid& upid) {
  while (client.find_task(upid)->running) rig.home.world.run_for(std::chrono::seconds{1});
  ASSERT_EQ(client.find_task(upid)->exit_status, "OK");
}

void heard_of(ClusterRig& rig) {
  rig.home.world.run_for(std::chrono::seconds{20});  // the cluster's list lags
}

std::string back_up(ClusterRig& rig, unsigned vmid) {
  const std::string upid = lab::pve::start_backup(rig.home.dc, vmid, "local");
  const lab::pve::Task* task = rig.home.dc.find_node("pve1")->find_task(upid);
  while (task->running() && rig.home.world.step()) {
  }
  EXPECT_EQ(task->status, "OK");
  for (const auto& [name, volume] : rig.home.dc.storages.at("local").on("pve1"))
    if (name.starts_with(fmt::format("backup/vzdump-qemu-{}-", vmid))) return "local:" + name;
  return "";
}

/// As a user does it in the GUI, and then gives it another name and takes the tags away.
void restore(ClusterRig& rig, const std::string& archive, unsigned vmid) {
  net::Request request;
  request.method = "POST";
  request.url = rig.home.endpoint() + "/api2/json/nodes/pve1/qemu";
  request.headers.add("Content-Type", "application/x-www-form-urlencoded");
  request.authorization = Secret{"PVEAPIToken=" + rig.home.root_token};
  request.body = fmt::format("vmid={}&archive={}", vmid, replace_all(archive, "/", "%2F"));
  request.tls = net::Tls::pinned(rig.home.first().fingerprint);
  const net::Answer answer = net::fetch(rig.wire, request);
  ASSERT_EQ(answer.head.status, 200) << answer.head.reason << answer.body;
  const std::size_t at = answer.body.find("UPID:");
  ASSERT_NE(at, std::string::npos) << answer.body;
  const auto upid = proxmox::Upid::parse(answer.body.substr(at, answer.body.find('"', at) - at));
  ASSERT_TRUE(upid);
  test::Administrator client = client_with(rig, rig.home.root_token);
  finish(rig, client, *upid);
  proxmox::VmUpdate update;
  update.set["name"] = fmt::format("restored-{}", vmid);
  update.erase = {"tags"};
  client.update("pve1", vmid, update);
  heard_of(rig);
}

void destroy(ClusterRig& rig, unsigned vmid) {
  test::Administrator client = client_with(rig, rig.home.root_token);
  if (client.find_status("pve1", vmid)->status == "running")
    finish(rig, client, client.start_stop("pve1", vmid));
  finish(rig, client, client.start_destroy("pve1", vmid, true));
  heard_of(rig);
}

/// A VM of somebody else.
void make_foreign(ClusterRig& rig, unsigned vmid, const std::string& host = "pve1",
                  const std::string& smbios = "") {
  test::Administrator client = client_with(rig, rig.home.root_token);
  proxmox::VmCreate create;
  create.vmid = vmid;
  create.name = fmt::format("db-{}", vmid);
  create.bios = "seabios";
  const auto answer = client.start_create(host, create);
  const auto* upid = std::get_if<proxmox::Upid>(&answer);
  ASSERT_NE(upid, nullptr);
  finish(rig, client, *upid);
  if (!smbios.empty()) {
    proxmox::VmUpdate update;
    update.set["smbios1"] = smbios;
    client.update(host, vmid, update);
  }
  heard_of(rig);
}

std::string option(const ClusterRig& rig, unsigned vmid, const char* key) {
  const auto found = rig.home.dc.vms.find(vmid);
  if (found == rig.home.dc.vms.end()) return "gone";
  const std::string* value = found->second.find(key);
  return value == nullptr ? "" : *value;
}

/// How often each of these VMs was asked who it is.
std::size_t asked(const ClusterRig& rig, unsigned vmid, const std::string& host = "pve1") {
  const auto found =
      rig.counting.counts.find(fmt::format("GET /nodes/{}/qemu/{}/pending", host, vmid));
  return found == rig.counting.counts.end() ? 0 : found->second;
}

std::optional<std::uint64_t> locked_vmid(ClusterRig& rig, const std::string& node) {
  const spec::Lock lock = spec::find_lock(rig.files, rig.folder).value_or(spec::Lock{});
  const auto found = lock.nodes.find(node);
  return found == lock.nodes.end() ? std::nullopt : found->second.vmid;
}

struct Loss {
  const char* name;
  bool state, lock;
};

class Restored : public testing::TestWithParam<Loss> {};

TEST_P(Restored, IsFoundByItsProofAndTakenForTheNodeThatItIs) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  const std::string smbios = option(rig, 101, "smbios1");
  const std::string archive = back_up(rig, 101);
  destroy(rig, 101);
  restore(rig, archive, 950);
  make_foreign(rig, 960);
  if (GetParam().state) rig.lose_state();
  if (GetParam().lock) rig.files.remove("/clusters/blue/rocca.lock");

  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(rig.home.dc.vms.size(), 3u) << "no second one was made";
  EXPECT_EQ(option(rig, 950, "smbios1"), smbios);
  EXPECT_EQ(option(rig, 950, "name"), "blue-worker-1");
  EXPECT_THAT(option(rig, 950, "tags"), HasSubstr("rocca"));
  EXPECT_EQ(rig.home.dc.vms.at(950).power, lab::pve::Vm::Power::Running);
  EXPECT_EQ(option(rig, 960, "name"), "db-960");
  EXPECT_EQ(locked_vmid(rig, "worker-1"), 950u) << "that is where it is from now on";
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);

  rig.counting.counts.clear();
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  EXPECT_EQ(asked(rig, 960), 0u) << "who makes nothing asks nobody else";
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_THAT(rig.home.dc.vms, testing::ElementsAre(Key(960u)));
}

const Loss losses[] = {{"WithEverythingRemembered", false, false},
                       {"AfterTheStateWasLost", true, false},
                       {"AfterStateAndLockWereLost", true, true}};
INSTANTIATE_TEST_SUITE_P(Of, Restored, testing::ValuesIn(losses),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(Twins, WhereTheSpecSaysTheIdARestoredVmStaysOnlyIfTheSpecFollows) {
  ClusterRig rig;
  const auto spec = [](unsigned vmid, const char* memory) {
    return static_spec(fmt::format(
        "  nodes:\n"
        "    cp-1: {{ role: controlplane, address: 10.0.1.11 }}\n"
        "    w-1: {{ role: worker, address: 10.0.1.21, machine: {{ vmid: {}, memory: {} }} }}\n",
        vmid, memory));
  };
  rig.write_spec(spec(130, "4GiB"));
  ASSERT_TRUE(rig.up().ok());
  const std::string archive = back_up(rig, 130);
  destroy(rig, 130);
  restore(rig, archive, 950);
  const std::vector<std::string> before = identities(rig);
  EXPECT_THAT(refused([&] { rig.up(); }),
              AllOf(HasSubstr("--allow replace"), HasSubstr("nodes.w-1.machine.vmid: 950")));
  EXPECT_EQ(identities(rig), before);
  rig.write_spec(spec(950, "4GiB"));
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(rig.home.dc.vms.size(), 2u);
  EXPECT_EQ(option(rig, 950, "name"), "blue-w-1");
  EXPECT_EQ(rig.home.dc.vms.at(950).power, lab::pve::Vm::Power::Running);
  EXPECT_EQ(locked_vmid(rig, "w-1"), 950u);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  // It is switched off and on where it is, too.
  rig.write_spec(spec(950, "5GiB"));
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::PowerCycle);
  const engine::Report again = rig.up(options);
  EXPECT_TRUE(again.ok()) << problems(again);
  EXPECT_EQ(option(rig, 950, "memory"), "5120");
  EXPECT_EQ(rig.home.dc.vms.at(950).power, lab::pve::Vm::Power::Running);
  EXPECT_EQ(rig.home.dc.vms.size(), 2u);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(Twins, OfTwoRestoredVmsNoneIsTakenAndNoThirdIsMade) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  const std::string archive = back_up(rig, 101);
  destroy(rig, 101);
  restore(rig, archive, 950);
  restore(rig, archive, 951);
  const std::vector<std::string> before = identities(rig);
  for (const bool remembered : {true, false}) {
    EXPECT_THAT(refused([&] { rig.up(); }),
                AllOf(HasSubstr("VM 950 'restored-950' on pve1"),
                      HasSubstr("VM 951 'restored-951' on pve1"), HasSubstr("Neither is touched")))
        << remembered;
    EXPECT_EQ(identities(rig), before);
    EXPECT_EQ(locked_vmid(rig, "worker-1"), 101u);
    rig.lose_state();
  }
}

TEST(Twins, ANodeThatComesBackToTheSpecIsTheOneThatWasRestored) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 2)));
  ASSERT_TRUE(rig.up().ok());
  const std::string archive = back_up(rig, 102);
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up(allow_data_loss()).ok());
  ASSERT_EQ(rig.home.dc.vms.size(), 2u);
  restore(rig, archive, 950);
  EXPECT_THAT(differences(rig.plan()), IsEmpty()) << "who makes nothing asks nobody";
  rig.write_spec(static_spec(pools(1, 2)));
  const auto steps = differences(rig.plan());
  EXPECT_THAT(steps, Contains(StartsWith("~ vm/worker-2")));
  EXPECT_THAT(steps, Not(Contains(StartsWith("+ vm/"))));
}

TEST(Twins, HalfAProofIsEnoughToMakeNothing) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  proxmox::Smbios smbios;  // its UUID, and nobody's mark
  smbios.uuid = engine::derive_uuid(test_bundle().cluster_id, "worker-1");
  destroy(rig, 101);
  make_foreign(rig, 950, "pve1", smbios.print());
  EXPECT_THAT(refused([&] { rig.up(); }),
              AllOf(HasSubstr("VM 950"), HasSubstr("has the UUID of blue/worker-1")));
  EXPECT_EQ(rig.home.dc.vms.size(), 2u);
}

/// Proxmox lists containers beside VMs.
class WithContainer final : public net::Transport {
 public:
  WithContainer(net::Transport& inner, std::string row) : inner_(inner), row_(std::move(row)) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (request.url.find("/cluster/resources") == std::string::npos)
      return inner_.exchange(request, sink, std::move(stop));
    const net::Answer answer = net::fetch(inner_, request, std::move(stop));
    std::string body = answer.body;
    const std::size_t list = body.find("\"data\":[");
    if (list != std::string::npos) {
      body.insert(list + 8, row_ + ",");
      ++added;
    }
    net::Response head = answer.head;
    sink.begin(head);
    sink.write(body);
    return head;
  }
  std::size_t added = 0;

 private:
  net::Transport& inner_;
  std::string row_;
};

TEST(Twins, TemplatesAndContainersOfOthersDoNotMatter) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  make_foreign(rig, 950);
  test::Administrator client = client_with(rig, rig.home.root_token);
  finish(rig, client, client.start_template("pve1", 950));
  destroy(rig, 101);
  WithContainer listed{rig.counting,
                       R"({"type":"lxc","id":"lxc/777","vmid":777,"node":"pve1","name":"dns",)"
                       R"("status":"running","template":0})"};
  rig.transport = &listed;
  rig.counting.counts.clear();
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_GT(listed.added, 0u);
  EXPECT_EQ(rig.home.dc.vms.size(), 3u);
  EXPECT_NE(option(rig, 101, "smbios1"), "gone");
  EXPECT_EQ(asked(rig, 950), 1u) << "a template may have been one of ours";
  for (const auto& [what, times] : rig.counting.counts)
    EXPECT_EQ(what.find("/777"), std::string::npos) << what;
}

TEST(Twins, ATemplateThatWasMadeOfANodeIsNamedAndNothingIsMadeBesideIt) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  const std::string archive = back_up(rig, 101);
  destroy(rig, 101);
  restore(rig, archive, 950);
  test::Administrator client = client_with(rig, rig.home.root_token);
  finish(rig, client, client.start_template("pve1", 950));
  heard_of(rig);
  EXPECT_THAT(refused([&] { rig.up(); }),
              AllOf(HasSubstr("VM 950 'restored-950' on pve1"), HasSubstr("blue/worker-1"),
                    HasSubstr("is a template")));
  EXPECT_EQ(rig.home.dc.vms.size(), 2u);
}

TEST(Twins, EveryVmOfOthersIsAskedOnceHoweverManyAreToBeMade) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  for (unsigned vmid = 950; vmid < 960; ++vmid) make_foreign(rig, vmid);
  rig.counting.counts.clear();
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  for (unsigned vmid = 950; vmid < 960; ++vmid) EXPECT_EQ(asked(rig, vmid), 0u) << vmid;
  rig.write_spec(static_spec(pools(1, 6)));
  rig.counting.counts.clear();
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  for (unsigned vmid = 950; vmid < 960; ++vmid) EXPECT_EQ(asked(rig, vmid), 1u) << vmid;
  EXPECT_EQ(rig.home.dc.vms.size(), 17u);
}

TEST(Twins, VmsOfOthersOnAHostThatIsOffKeepNobodyFromWorking) {
  lab::Home::Options home;
  home.hosts = {"pve1", "pve2", "pve3"};  // two keep the quorum
  ClusterRig rig{home};
  make_foreign(rig, 950, "pve2");
  make_foreign(rig, 951, "pve2");
  rig.home.dc.set_online("pve2", false);
  heard_of(rig);
  rig.counting.counts.clear();
  rig.write_spec(static_spec(pools(1, 1)));
  const engine::Report first = rig.up();
  EXPECT_TRUE(first.ok()) << problems(first);
  EXPECT_LE(asked(rig, 951, "pve2"), 1u) << "a host that is off makes everybody wait";
  rig.write_spec(static_spec(pools(1, 2)));
  const engine::Report second = rig.up();
  EXPECT_TRUE(second.ok()) << problems(second);
  EXPECT_EQ(rig.home.dc.vms.size(), 5u);
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_THAT(rig.home.dc.vms, testing::ElementsAre(Key(950u), Key(951u)));
}

}  // namespace
}  // namespace rocca::scenarios
