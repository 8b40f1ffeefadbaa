// Doctor and its probe on the lab.
#include "base/encoding.hpp"
#include "base/files.hpp"
#include "doctor/checkup.hpp"
#include "doctor/probe.hpp"
#include "doctor/requirements.hpp"
#include "doctor/trace.hpp"
#include "net/http.hpp"
#include "scenarios/lab_rig.hpp"
#include "spec/load.hpp"

#include <gmock/gmock.h>

namespace rocca::scenarios {
namespace {

using doctor::Checkup;
using doctor::Grade;
using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

class DoctorOnTheLab : public testing::TestWithParam<bool> {
 protected:
  LabRig rig{GetParam() ? lab::pve::Release::v9() : lab::pve::Release::v8_4()};
  SeededEntropy entropy{7};

  doctor::Wish wish() const {
    doctor::Wish wish;
    wish.scope.hosts = {"pve1", "pve2"};
    wish.scope.image_storage = "local";
    wish.scope.disk_storages = {"local-lvm"};
    wish.scope.links = {{"vmbr0", std::nullopt, "localnetwork"}};
    return wish;
  }
  Checkup examine(const proxmox::Access& access, const doctor::Wish& wish) {
    return doctor::examine(rig.wire, rig.home.world.clock(), access, wish);
  }
  Checkup examine() { return examine(rig.access(rig.home.token), wish()); }

  doctor::ProbePlan plan() const {
    doctor::ProbePlan plan;
    plan.host = "pve1";
    plan.image_storage = "local";
    plan.disk_storage = "local-lvm";
    plan.bridge = "vmbr0";
    plan.image_url = LabRig::image_url;
    return plan;
  }
  doctor::Pause pause() {
    return [this](Duration duration) { rig.pause(duration); };
  }
  std::size_t vms() {
    return proxmox::Client{rig.wire, rig.access(rig.home.root_token)}.vms().size();
  }
};

INSTANTIATE_TEST_SUITE_P(Pve, DoctorOnTheLab, testing::Bool(),
                         [](const auto& row) { return row.param ? "v9" : "v8_4"; });

auto finds(const char* check, Grade grade, const char* text) {
  return Field(&Checkup::findings, Contains(AllOf(Field(&doctor::Finding::check, check),
                                                  Field(&doctor::Finding::grade, grade),
                                                  Field(&doctor::Finding::text, HasSubstr(text)))));
}

TEST_P(DoctorOnTheLab, AGoodHostIsHealthyAndNothingIsChanged) {
  const Checkup checkup = examine();
  EXPECT_TRUE(checkup.healthy()) << render_text(checkup, false);
  EXPECT_EQ(checkup.exit_code(), 0);
  EXPECT_EQ(vms(), 0u);
}

TEST_P(DoctorOnTheLab, AWrongTokenIsSaidAndIsAboutRights) {
  const Checkup checkup =
      examine(rig.access("rocca@pve!lab=00000000-0000-0000-0000-000000000000"), wish());
  EXPECT_EQ(checkup.exit_code(), 4) << render_text(checkup, false);
}

TEST_P(DoctorOnTheLab, AWrongFingerprintIsSaidWithTheOneThatCame) {
  proxmox::Access access = rig.access(rig.home.token);
  access.tls = net::Tls::pinned(net::Fingerprint{});
  const Checkup checkup = examine(access, wish());
  EXPECT_EQ(checkup.exit_code(), 1);
  EXPECT_THAT(checkup, finds("tls", Grade::Bad, ""));
  EXPECT_THAT(render_text(checkup, false), HasSubstr(to_string(rig.home.first().fingerprint)));
}

TEST_P(DoctorOnTheLab, AStorageWithoutImportIsSaid) {
  rig.home.dc.storages.at("local").content = {"iso"};
  const Checkup checkup = examine();
  EXPECT_EQ(checkup.exit_code(), 1) << render_text(checkup, false);
  EXPECT_THAT(checkup, finds("storage", Grade::Bad, "import"));
}

TEST_P(DoctorOnTheLab, APoolThatIsNotThereIsSaidWithTheLineThatMakesIt) {
  doctor::Wish pooled = wish();
  pooled.pools = {"talos"};
  pooled.scope.pool = "talos";
  rig.home.dc.access.pools["other"];
  const proxmox::Access root = rig.access(rig.home.root_token);
  const Checkup absent = examine(root, pooled);
  EXPECT_EQ(absent.exit_code(), 1) << render_text(absent, false);
  EXPECT_THAT(absent, finds("pool", Grade::Bad, "pool 'talos' does not exist"));
  EXPECT_THAT(render_text(absent, false),
              AllOf(HasSubstr("pveum pool add talos"), HasSubstr("one that exists: other")));
  rig.home.dc.access.pools["talos"];
  const Checkup there = examine(root, pooled);
  EXPECT_EQ(there.exit_code(), 0) << render_text(there, false);
  EXPECT_THAT(there, finds("pool", Grade::Good, "pool 'talos' is there"));
  // Proxmox hides a pool from who may not audit it: that is no proof that it is absent.
  for (const std::string who : {"rocca@pve", "rocca@pve!lab"})
    rig.home.dc.access.acl["/pool/talos"][who]["RoccaVM"] = true;
  const Checkup blind = examine(rig.access(rig.home.token), pooled);
  EXPECT_EQ(blind.exit_code(), 0) << render_text(blind, false);
  EXPECT_THAT(blind, finds("pool", Grade::Skipped, "lacks Pool.Audit on /pool/talos"));
  rig.home.dc.access.roles["RoccaVM"].insert("Pool.Audit");
  EXPECT_THAT(examine(rig.access(rig.home.token), pooled),
              finds("pool", Grade::Good, "pool 'talos' is there"));
  proxmox::Access nowhere = root;
  nowhere.endpoints = {"https://nowhere.home:8006"};
  EXPECT_THAT(examine(nowhere, pooled), finds("pool", Grade::Skipped, "not looked at"));
}

TEST_P(DoctorOnTheLab, AMissingRightIsNamedWithItsPathAndTheLinesThatGrantIt) {
  rig.home.dc.access.roles["RoccaVM"].erase("VM.PowerMgmt");
  const Checkup checkup = examine();
  EXPECT_EQ(checkup.exit_code(), 4);
  EXPECT_THAT(checkup, finds("rights", Grade::Bad, "VM.PowerMgmt on /vms/"));
  EXPECT_THAT(render_text(checkup, false), HasSubstr("pveum acl modify /vms"));
}

/// The words of a shell line.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  for (const char c : line + " ") {
    if (quote != 0 ? c == quote : c == '\'' || c == '"') {
      quote = quote != 0 ? 0 : c;
    } else if (c == ' ' && quote == 0) {
      if (!word.empty()) words.push_back(std::exchange(word, ""));
    } else {
      word += c;
    }
  }
  return words;
}

/// Does what `pveum` does with one of doctor's lines, through the API and as root. False: refused.
bool pveum(LabRig& rig, const std::string& line) {
  if (const std::size_t either = line.find(" || "); either != std::string::npos)
    return pveum(rig, line.substr(0, either)) || pveum(rig, line.substr(either + 4));
  const std::vector<std::string> words = words_of(line);
  if (words.size() < 4 || words[0] != "pveum") {
    ADD_FAILURE() << "not a line of pveum: " << line;
    return false;
  }
  std::string path = "/access/" + words[1] + (words[1] == "role" ? "s" : "");
  std::string form;
  const auto add = [&](const std::string& key, const std::string& value) {
    form += (form.empty() ? "" : "&") + key + "=" + percent_encode(value);
  };
  if (words[1] == "acl")
    add("path", words[3]);
  else if (words[2] == "add")
    add("roleid", words[3]);
  else
    path += "/" + words[3];
  for (std::size_t i = 4; i + 1 < words.size(); i += 2) add(words[i].substr(2), words[i + 1]);
  net::Request request;
  request.method = words[2] == "add" ? "POST" : "PUT";
  request.url = rig.home.endpoint() + "/api2/json" + path;
  request.tls = net::Tls::pinned(rig.home.first().fingerprint);
  request.authorization = Secret{"PVEAPIToken=" + rig.home.root_token};
  request.headers.add("Content-Type", "application/x-www-form-urlencoded");
  request.body = form;
  return net::fetch(rig.wire, request).head.status == 200;
}

std::vector<std::string> pveum_lines(const Checkup& checkup) {
  std::vector<std::string> lines;
  for (const doctor::Finding& finding : checkup.findings)
    for (const std::string& line : finding.fix)
      if (line.starts_with("pveum")) lines.push_back(line);
  return lines;
}

TEST_P(DoctorOnTheLab, TheLinesItPrintsMendItWhateverWasThereBefore) {
  auto& access = rig.home.dc.access;
  access.roles["RoccaVM"].erase("VM.PowerMgmt");  // a role of the last time, that lacks one
  access.roles.erase("RoccaImage");               // and one that is gone
  access.acl.erase("/storage/local");
  const Checkup before = examine();
  ASSERT_EQ(before.exit_code(), 4);
  const std::vector<std::string> lines = pveum_lines(before);
  ASSERT_FALSE(lines.empty());
  for (int times = 0; times < 2; ++times) {  // who runs them again does no harm
    for (const std::string& line : lines) EXPECT_TRUE(pveum(rig, line)) << line;
    const Checkup after = examine();
    EXPECT_EQ(after.exit_code(), 0) << render_text(after, false);
  }
}

TEST_P(DoctorOnTheLab, TheRightsOnAVnetAreThoseOfItsZone) {
  rig.home.dc.zones["lan"] = {{"type", "simple"}};
  rig.home.dc.vnets["vnet1"] = {{"zone", "lan"}};
  rig.home.dc.access.roles["Seer"] = {"SDN.Audit"};
  for (const char* who : {"rocca@pve", "rocca@pve!lab"})
    rig.home.dc.access.acl["/sdn/zones/lan"][who]["Seer"] = true;
  doctor::Wish other = wish();
  other.scope.links = {{"vnet1", std::nullopt, "localnetwork"}};
  const auto ask = [&] { return examine(rig.access(rig.home.token), other); };
  const Checkup before = ask();
  EXPECT_THAT(before, finds("rights", Grade::Bad, "SDN.Use on /sdn/zones/lan/vnet1 is missing"));
  for (const std::string& line : pveum_lines(before)) EXPECT_TRUE(pveum(rig, line)) << line;
  const Checkup after = ask();
  EXPECT_TRUE(after.healthy()) << render_text(after, false);
}

TEST_P(DoctorOnTheLab, ASpecWantsSpaceOnEveryHostItIsSpreadOver) {
  MemoryFiles files;
  const auto checkup_of = [&](const std::string& data, const std::string& boot) {
    const spec::Loaded loaded = spec::load_text(files,
                                                R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: { name: blue }
spec:
  talos: { version: v1.11.5, boot: )" + boot + R"( }
  kubernetes: { version: v1.34.1 }
  network: { subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1] }
  proxmox:
    endpoints: [https://pve.home:8006]
    insecure: true
    token: { secret: proxmox.token }
    hosts: [pve1, pve2]
    storage: { images: local, disks: local-lvm }
    bridge: vmbr0
  machine: { agent: false, disks: { system: 20GiB, data: )" +
                                                    data + R"( } }
  nodes:
    cp-1: { role: controlplane, address: 10.0.0.11 }
    w-1: { role: worker, address: 10.0.0.12 }
)",
                                                "cluster.yaml", ".");
    EXPECT_FALSE(loaded.diagnostics.has_errors()) << loaded.diagnostics.render();
    return examine(rig.access(rig.home.token),
                   doctor::wish_of(files, loaded.spec, {}, "id-of-the-cluster"));
  };
  EXPECT_THAT(checkup_of("10GiB", "import"), Not(finds("storage", Grade::Warning, "")));
  const Checkup full = checkup_of("900TiB", "import");
  for (const char* host : {"'local-lvm' on pve1 has", "'local-lvm' on pve2 has"})
    EXPECT_THAT(full, finds("storage", Grade::Warning, host)) << render_text(full, false);
  EXPECT_THAT(full, finds("storage", Grade::Warning, "the cluster wants 921620.0 GiB"));
  rig.home.dc.storages.at("local").content = {"import"};
  EXPECT_THAT(checkup_of("10GiB", "import"), Not(finds("storage", Grade::Bad, "")));
  EXPECT_THAT(checkup_of("10GiB", "iso"), finds("storage", Grade::Bad, "does not take 'iso'"));
  EXPECT_THAT(checkup_of("10GiB", "{ template: golden }"),
              AllOf(finds("images", Grade::Bad, "there is no template 'golden'"),
                    Not(finds("storage", Grade::Bad, ""))));
}

TEST_P(DoctorOnTheLab, ABridgeAndAHostThatAreNotThereAreSaid) {
  doctor::Wish other = wish();
  other.scope.hosts = {"pve1", "atlas"};
  other.scope.links = {{"vmbr9", std::nullopt, "localnetwork"}};
  const Checkup checkup = examine(rig.access(rig.home.token), other);
  EXPECT_NE(checkup.exit_code(), 0);
  EXPECT_THAT(render_text(checkup, false), AllOf(HasSubstr("atlas"), HasSubstr("vmbr9")));
}

TEST_P(DoctorOnTheLab, AProbeMakesStartsAndRemovesOneVm) {
  proxmox::Client client{rig.wire, rig.access(rig.home.token)};
  const doctor::Probe probe =
      doctor::probe(client, rig.home.world.clock(), entropy, plan(), pause());
  EXPECT_TRUE(probe.clean) << render_text(probe);
  for (const doctor::ProbeStep& step : probe.steps)
    EXPECT_TRUE(step.ok || step.name == "boot") << render_text(probe);
  EXPECT_EQ(vms(), 0u);
  EXPECT_TRUE(client.volumes("pve1", "local", "import").empty());
}

TEST_P(DoctorOnTheLab, ATraceOfAProbeReplaysAndHoldsNoSecret) {
  std::string trace;
  doctor::Tracing tracing{rig.wire, rig.home.world.clock(), "rocca@pve!lab",
                          [&](std::string_view line) { trace += line; }};
  proxmox::Client client{tracing, rig.access(rig.home.token)};
  const doctor::Probe first =
      doctor::probe(client, rig.home.world.clock(), entropy, plan(), pause());
  EXPECT_THAT(trace, AllOf(Not(HasSubstr(rig.home.token.substr(rig.home.token.find('=') + 1))),
                           Not(HasSubstr("rocca@pve"))));

  doctor::Replaying replaying{trace};
  proxmox::Client again{replaying, rig.access(rig.home.token)};
  SeededEntropy same{7};
  VirtualClock clock;
  const doctor::Probe second = doctor::probe(again, clock, same, plan(),
                                             [&](Duration duration) { clock.advance(duration); });
  ASSERT_EQ(second.steps.size(), first.steps.size()) << render_text(second);
  for (std::size_t i = 0; i < first.steps.size(); ++i) {
    EXPECT_EQ(second.steps[i].name, first.steps[i].name);
    EXPECT_EQ(second.steps[i].ok, first.steps[i].ok) << render_text(second);
  }
  EXPECT_EQ(replaying.left(), 0u);
}

TEST_P(DoctorOnTheLab, AnInterruptedProbeStillTakesItsVmAway) {
  proxmox::Client client{rig.wire, rig.access(rig.home.token)};
  bool told = false;
  const auto stopping = [&](Duration duration) {
    // While the VM is being made; after that, pauses are real ones.
    if (!told && vms() > 0) {
      told = true;
      throw Error(Fault::Interrupted, "interrupted");
    }
    rig.pause(duration);
  };
  EXPECT_THROW(doctor::probe(client, rig.home.world.clock(), entropy, plan(), stopping), Error);
  EXPECT_TRUE(told);
  EXPECT_EQ(vms(), 0u);
}

TEST_P(DoctorOnTheLab, AnImageThatCannotBeFetchedLeavesNothingBehind) {
  proxmox::Client client{rig.wire, rig.access(rig.home.token)};
  doctor::ProbePlan other = plan();
  other.image_url = "https://factory.home/none.qcow2";
  const doctor::Probe probe =
      doctor::probe(client, rig.home.world.clock(), entropy, other, pause());
  EXPECT_FALSE(probe.ok());
  EXPECT_TRUE(probe.clean) << render_text(probe);
  EXPECT_EQ(vms(), 0u);
}

}  // namespace
}  // namespace rocca::scenarios
