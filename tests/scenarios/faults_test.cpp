// Everything that the lab can let go wrong, as the client sees it.

#include "lab/sim/faults.hpp"

#include "scenarios/lab_rig.hpp"
#include "support/administrator.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using proxmox::Reason;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

proxmox::VmCreate vm(proxmox::Vmid id, const std::string& name = "ours") {
  proxmox::VmCreate create;
  create.vmid = id;
  create.name = name;
  create.bios = "seabios";
  proxmox::Drive disk;
  disk.storage = "local-lvm";
  disk.size = Bytes::gib(1);
  create.drives["scsi0"] = disk;
  return create;
}

proxmox::TaskFilter about(std::optional<proxmox::Vmid> vmid, const std::string& type = "") {
  proxmox::TaskFilter filter;
  filter.vmid = vmid;
  filter.type = type;
  return filter;
}

class Site : public LabRig {
 public:
  explicit Site(const std::string& faults = "", std::uint64_t seed = 1)
      : LabRig(lab::pve::Release::v9(), {"pve1", "pve2", "pve3"}, seed),
        client(wire, access(home.token)) {
    arm(faults);
  }

  void arm(const std::string& faults) { lab::Faults::parse(faults, "faults.yaml").arm(home.dc); }

  void make(proxmox::Vmid id, const std::string& host = "pve1") {
    finish(client, std::get<proxmox::Upid>(client.start_create(host, vm(id))));
  }
  /// Names of the VMs there are, by the state of the world and not by what anybody says.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [id, one] : home.dc.vms) all.push_back(one.config.at("name"));
    return all;
  }
  proxmox::Failure failure_of(const proxmox::Upid& upid) {
    for (int i = 0; i < 2000; ++i) {
      const auto task = client.find_task(upid);
      if (task && !task->running) {
        const auto failure = task->failure();
        EXPECT_TRUE(failure) << "the task worked";
        return failure.value_or(proxmox::Failure{});
      }
      pause(1s);
    }
    ADD_FAILURE() << "the task does not end";
    return {};
  }

  test::Administrator client;
};

template <class Call>
Error error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "it worked";
  return Error(Fault::Bug, "it worked");
}

TEST(Faults, Latency) {
  Site site{"- {request: {path: /version}, delay: 20s}"};
  const Instant start = site.home.world.now();
  site.client.version();
  EXPECT_GE(site.home.world.now() - start, 20s);
}

struct Status {
  int status;
  Fault fault;
};

class FaultsOfTheDoor : public testing::TestWithParam<Status> {};

TEST_P(FaultsOfTheDoor, AreReadAndPass) {
  Site site{fmt::format("- {{request: {{path: /nodes}}, answer: {}, reason: Broken pipe}}",
                        GetParam().status)};
  const Error error = error_of([&] { site.client.nodes(); });
  EXPECT_EQ(error.fault(), GetParam().fault) << error.message();
  EXPECT_THAT(error.message(), HasSubstr("Broken pipe"));
  EXPECT_EQ(site.client.nodes().size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(Statuses, FaultsOfTheDoor,
                         testing::Values(Status{500, Fault::Rejected},
                                         Status{595, Fault::Unreachable}, Status{596, Fault::Lost}),
                         [](const auto& row) { return std::to_string(row.param.status); });

TEST(Faults, AnAnswerIsLostAfterTheActWasDone) {
  Site site{"- {request: {method: POST, path: /qemu}, lose: true}"};
  const Error error = error_of([&] { site.client.start_create("pve1", vm(101)); });
  EXPECT_EQ(error.fault(), Fault::Lost);
  site.pause(1min);
  EXPECT_TRUE(site.client.find_config("pve1", 101)) << "looking first finds it";
  EXPECT_THAT(site.client.tasks("pve1", about(101)),
              Contains(Field(&proxmox::TaskRow::status, "OK")));
}

TEST(Faults, AConnectionIsCutBeforeTheAct) {
  Site site{"- {request: {method: POST, path: /qemu}, cut: true}"};
  const Error error = error_of([&] { site.client.start_create("pve1", vm(101)); });
  EXPECT_EQ(error.fault(), Fault::Lost) << "nobody can tell it from the other";
  site.pause(1min);
  EXPECT_FALSE(site.client.find_config("pve1", 101));
  site.make(101);
}

TEST(Faults, ATaskFails) {
  Site site{"- {task: {type: qmcreate}, fail: no luck today}"};
  const auto upid = std::get<proxmox::Upid>(site.client.start_create("pve1", vm(101)));
  EXPECT_EQ(site.failure_of(upid).text, "no luck today");
  // The id was reserved by the call, before the task began, and a create that fails gives it back.
  EXPECT_FALSE(site.client.find_config("pve1", 101));
}

TEST(Faults, ATaskFailsAfterItsWorkIsDone) {
  Site site{"- {task: {type: qmcreate}, fail: no luck today, afterwards: true}"};
  const auto upid = std::get<proxmox::Upid>(site.client.start_create("pve1", vm(101)));
  EXPECT_EQ(site.failure_of(upid).text, "no luck today");
  EXPECT_THAT(site.names(), ElementsAre("ours"));
}

TEST(Faults, ATaskHangsUntilItIsStopped) {
  Site site{"- {task: {type: qmstart}, hang: true}"};
  site.make(101);
  const proxmox::Upid upid = site.client.start_vm("pve1", 101);
  site.pause(1h);
  EXPECT_TRUE(site.client.find_task(upid)->running);
  site.client.stop_task(upid);
  EXPECT_EQ(site.failure_of(upid).reason, Reason::Interrupted);
  site.finish(site.client, site.client.start_vm("pve1", 101));
}

TEST(Faults, AStorageIsFullAndHasSpaceAgain) {
  Site site{"- {at: 1s, fill: local-lvm}\n- {at: 5m, free: local-lvm}\n"};
  site.pause(2s);
  const auto upid = std::get<proxmox::Upid>(site.client.start_create("pve1", vm(101)));
  EXPECT_EQ(site.failure_of(upid).reason, Reason::NoSpace);
  EXPECT_THAT(site.names(), IsEmpty());
  site.pause(5min);
  site.make(101);
}

TEST(Faults, AHostGoesDownAndComesBack) {
  Site site;
  site.make(101, "pve2");
  site.finish(site.client, site.client.start_vm("pve2", 101));
  site.arm("- {at: 10s, down: pve2}\n- {at: 5m, up: pve2}\n");
  site.pause(20s);
  EXPECT_EQ(error_of([&] { site.client.find_config("pve2", 101); }).fault(), Fault::Unreachable);
  site.pause(10s);  // the others notice with their next round
  EXPECT_THAT(site.client.nodes(), Contains(AllOf(Field(&proxmox::NodeInfo::name, "pve2"),
                                                  Field(&proxmox::NodeInfo::online, false))));
  site.pause(5min);
  EXPECT_TRUE(site.client.find_config("pve2", 101));
  EXPECT_EQ(site.client.find_status("pve2", 101)->status, "stopped") << "its power was gone";
}

TEST(Faults, AnotherEndpointAnswersWhileTheFirstIsDown) {
  Site site{"- {at: 1s, down: pve1}"};
  site.pause(5s);
  proxmox::Access access = site.access(site.home.token);
  access.tls = net::Tls::authority(site.home.dc.authority.certificate_pem());
  access.endpoints = {"https://pve.home:8006", "https://pve2.home:8006"};
  test::Administrator client{site.wire, access};
  EXPECT_EQ(client.nodes().size(), 3u);
}

TEST(Faults, ABackupHoldsTheVm) {
  Site site;
  site.make(101);
  site.arm("- {at: 1s, lock: {vm: 101, as: backup}}\n- {at: 10m, unlock: 101}\n");
  site.pause(2s);
  proxmox::VmUpdate update;
  update.set["cores"] = "2";
  const Error error = error_of(
      [&] { site.finish(site.client, site.client.start_update("pve1", 101, update).value()); });
  EXPECT_EQ(error.fault(), Fault::Busy);
  EXPECT_THAT(error.message(), HasSubstr("VM is locked (backup)"));
  site.pause(10min);
  site.finish(site.client, site.client.start_update("pve1", 101, update).value());
  EXPECT_EQ(site.client.find_config("pve1", 101)->value_or("cores", ""), "2");
}

TEST(Faults, APersonChangesAVmAndTheTaskLogHasTheirName) {
  Site site;
  site.make(101);
  const std::string before = site.client.find_config("pve1", 101)->digest;
  site.arm(
      "- at: 10s\n  change: {vm: 101, by: alice@pam, set: {memory: 4096, description: hers}}\n");
  site.pause(15s);

  const auto config = site.client.find_config("pve1", 101);
  EXPECT_EQ(config->value_or("memory", ""), "4096");
  EXPECT_EQ(config->value_or("description", ""), "hers");
  // Others' tasks are seen with Sys.Audit on the host, which the token has.
  EXPECT_THAT(site.client.tasks("pve1", about(101, "qmconfig")),
              ElementsAre(AllOf(Field(&proxmox::TaskRow::user, "alice@pam"),
                                Field(&proxmox::TaskRow::status, "OK"))));
  // Who still goes by what was read before is told to look again.
  proxmox::VmUpdate update;
  update.set["name"] = "mine";
  update.digest = before;
  EXPECT_EQ(error_of([&] { site.client.update("pve1", 101, update); }).fault(), Fault::Busy);
}

/// Who was changed and when, by one seed.
std::string changed_by_seed(std::uint64_t seed) {
  Site site{"", seed};
  for (const proxmox::Vmid id : {101u, 102u, 103u, 104u}) site.make(id);
  site.arm("- {at: 10s, within: 10m, change: {vm: any, by: alice@pam, set: {cores: 3}}}");
  site.pause(11min);
  std::string text;
  for (const proxmox::TaskRow& row : site.client.tasks("pve1", about({}, "qmconfig")))
    text += fmt::format("{} by {} at {}", row.upid.id, row.user, to_string(row.started));
  return text;
}

TEST(Faults, WhichVmAPersonChangesAndWhenIsTheSeeds) {
  const std::string first = changed_by_seed(1);
  EXPECT_THAT(first, HasSubstr("by alice@pam"));
  EXPECT_EQ(changed_by_seed(1), first);
  std::set<std::string> all;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) all.insert(changed_by_seed(seed).substr(0, 3));
  EXPECT_GT(all.size(), 1u) << "every seed chose the same VM";
}

/// "ours" or "theirs": who has the id in the end. One of them does, and the other was told.
std::string race(std::uint64_t seed) {
  Site site{"- {request: {method: POST, path: /qemu}, race: {by: alice@pam}}", seed};
  const auto answer = site.client.start_create("pve1", vm(101));
  bool made = false;
  if (const auto* upid = std::get_if<proxmox::Upid>(&answer)) {
    try {
      site.finish(site.client, *upid);
      made = true;
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Conflict) << error.message();
    }
  } else {
    EXPECT_THAT(std::get<proxmox::VmidTaken>(answer).text,
                testing::AnyOf(HasSubstr("exist"), HasSubstr("lock")));
  }
  site.pause(1min);
  const lab::pve::Vm* one = site.home.dc.find_vm(101);
  if (one == nullptr) return "nobody";
  EXPECT_EQ(one->config.at("name"), made ? "ours" : "intruder") << "seed " << seed;
  EXPECT_EQ(one->node, made ? "pve1" : "pve3") << "seed " << seed;
  EXPECT_EQ(site.home.dc.vms.size(), 1u);
  // No disk of the one that lost is left, on any host.
  for (const auto& [name, node] : site.home.dc.nodes())
    for (const auto& [volume, of] : site.home.dc.storages.at("local-lvm").on(name))
      EXPECT_TRUE(made && name == "pve1") << volume << " on " << name;
  return made ? "ours" : "theirs";
}

TEST(Faults, TwoRaceForOneVmidAndOneOfThemHasIt) {
  std::set<std::string> winners;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const std::string winner = race(seed);
    EXPECT_EQ(race(seed), winner) << "seed " << seed;
    winners.insert(winner);
  }
  EXPECT_THAT(winners, testing::UnorderedElementsAre("ours", "theirs"));
}

TEST(Faults, APersonTakesTheVmidBefore) {
  Site site{"- {at: 5s, create: {vm: 101, host: pve2, by: alice@pam, set: {name: intruder}}}"};
  site.pause(10s);
  EXPECT_TRUE(
      std::holds_alternative<proxmox::VmidTaken>(site.client.start_create("pve1", vm(101))));
  EXPECT_THAT(site.names(), ElementsAre("intruder"));
  EXPECT_THAT(site.client.tasks("pve2", about(101)),
              ElementsAre(Field(&proxmox::TaskRow::user, "alice@pam")));
}

TEST(Faults, NumbersThatComeAsTextsAreRead) {
  Site plain;
  Site texts{"- {request: {}, times: 0, strings: true}"};
  for (Site* site : {&plain, &texts}) {
    site->make(101);
    site->finish(site->client, site->client.start_vm("pve1", 101));
    site->pause(30s);
  }
  EXPECT_EQ(texts.client.vms().at(0).vmid, plain.client.vms().at(0).vmid);
  EXPECT_EQ(texts.client.nodes().at(0).memory_total, plain.client.nodes().at(0).memory_total);
  EXPECT_EQ(texts.client.storages("pve1").at(0).total, plain.client.storages("pve1").at(0).total);
  EXPECT_EQ(texts.client.find_status("pve1", 101)->uptime,
            plain.client.find_status("pve1", 101)->uptime);
  EXPECT_EQ(texts.client.find_config("pve1", 101)->options,
            plain.client.find_config("pve1", 101)->options);
  EXPECT_EQ(texts.client.next_free_vmid(), plain.client.next_free_vmid());
  EXPECT_EQ(texts.client.tasks("pve1").size(), plain.client.tasks("pve1").size());
}

struct Nonsense {
  const char* name;
  const char* faults;
  Fault fault;
  const char* message;
  const char* hint;
};

class AnswersOfNoProxmox : public testing::TestWithParam<Nonsense> {};

TEST_P(AnswersOfNoProxmox, AreSaidAsWhatTheyAre) {
  Site site{GetParam().faults};
  const Error error = error_of([&] { site.client.start_create("pve1", vm(101)); });
  EXPECT_EQ(error.fault(), GetParam().fault);
  EXPECT_THAT(error.message(), HasSubstr(GetParam().message));
  EXPECT_THAT(error.hint(), HasSubstr(GetParam().hint));
}

INSTANTIATE_TEST_SUITE_P(
    All, AnswersOfNoProxmox,
    testing::Values(
        Nonsense{"Truncated", "- {request: {method: POST}, truncate: 20}", Fault::Lost,
                 "the answer is cut short", "looks first"},
        Nonsense{"WebPage",
                 "- {request: {method: POST}, answer: 502, reason: Bad Gateway, type: text/html,"
                 " body: '<html>nginx</html>'}",
                 Fault::Rejected, "an error page came back", "reverse proxy"},
        Nonsense{"WebPageInsteadOfData",
                 "- {request: {method: POST}, answer: 200, reason: OK, type: text/html,"
                 " body: '<html>Welcome</html>'}",
                 Fault::Rejected, "it is no JSON", "reverse proxy"},
        Nonsense{"OtherJson",
                 "- {request: {method: POST}, answer: 200, reason: OK, body: '{\"kind\": 1}'}",
                 Fault::Rejected, "it has no `data`", "https://HOST:8006"}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace rocca::scenarios
