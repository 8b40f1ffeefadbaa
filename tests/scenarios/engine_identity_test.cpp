// Nothing is touched without proof: foreign VMs at our ids, with our names and tags, copies of
// ours, and strangers at our addresses.

#include "scenarios/engine_rig.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

/// A VM as a user makes one, on the simulated hosts directly.
void make_foreign(ClusterRig& rig, unsigned vmid, std::map<std::string, std::string> options) {
  test::Administrator client = client_with(rig, rig.home.root_token);
  proxmox::VmCreate create;
  create.vmid = vmid;
  create.name = options.contains("name") ? options["name"] : "db-1";
  create.bios = "seabios";
  if (options.contains("tags")) create.tags = split(options["tags"], ';');
  const auto answer = client.start_create("pve1", create);
  const auto* upid = std::get_if<proxmox::Upid>(&answer);
  ASSERT_NE(upid, nullptr);
  while (client.find_task(*upid)->running) rig.home.world.run_for(std::chrono::seconds{1});
  if (options.contains("smbios1")) {
    proxmox::VmUpdate update;
    update.set["smbios1"] = options["smbios1"];
    client.update("pve1", vmid, update);
  }
  rig.home.world.run_for(std::chrono::seconds{20});
}

std::string config_of(const ClusterRig& rig, unsigned vmid) {
  std::string text;
  const auto found = rig.home.dc.vms.find(vmid);
  if (found == rig.home.dc.vms.end()) return "gone";
  for (const char* key : {"name", "tags", "smbios1", "cores", "memory", "net0", "description"})
    if (const std::string* value = found->second.find(key)) text += *value + "\n";
  return text;
}

struct Foreign {
  const char* name;
  std::map<std::string, std::string> options;
  unsigned vmid;
  const char* says;
};

class ForeignVm : public testing::TestWithParam<Foreign> {};

TEST_P(ForeignVm, IsNeverTouchedAndIsNamed) {
  ClusterRig rig;
  // The lock wants this id for the first control plane.
  rig.files.write("/clusters/blue/rocca.lock", [] {
    spec::Lock lock;
    lock.cluster = "blue";
    lock.nodes["cp-1"] = {"pve1", 104, {}};
    return spec::to_text(lock);
  }());
  rig.write_spec(static_spec(pools(1, 0)));
  make_foreign(rig, GetParam().vmid, GetParam().options);
  const std::string before = config_of(rig, GetParam().vmid);
  EXPECT_THAT(refused([&] { rig.up(); }),
              AllOf(HasSubstr(GetParam().says), HasSubstr(std::to_string(GetParam().vmid))));
  EXPECT_EQ(config_of(rig, GetParam().vmid), before);
  EXPECT_EQ(rig.home.dc.vms.size(), 1u);
  // Nor does `down` take it for ours.
  EXPECT_TRUE(rig.down().ok());
  EXPECT_EQ(config_of(rig, GetParam().vmid), before);
}

const Foreign foreigners[] = {
    {"WithOurId", {{"name", "db-1"}}, 104, "VM id 104 of cp-1 is taken by VM 104 'db-1' on pve1"},
    {"WithOurName",
     {{"name", "blue-cp-1"}},
     900,
     "VM 900 'blue-cp-1' on pve1 has the name of cp-1"},
};
INSTANTIATE_TEST_SUITE_P(Of, ForeignVm, testing::ValuesIn(foreigners),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(Identity, AVmThatShowsOnlyHalfOfTheProofIsRefusedByUpAndLeftAloneByDown) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0)));
  proxmox::Smbios smbios;
  smbios.uuid = engine::derive_uuid(test_bundle().cluster_id, "cp-1");
  smbios.family = "rocca";
  smbios.sku = "blue/somebody-else";
  make_foreign(rig, 100, {{"name", "blue-cp-1"}, {"smbios1", smbios.print()}});
  EXPECT_THAT(refused([&] { rig.up(); }), HasSubstr("has the UUID of blue/cp-1, but its mark is"));
  EXPECT_EQ(rig.home.dc.vms.size(), 1u);
  const auto down = rig.run();
  EXPECT_THAT(down->plan_down().kept,
              testing::Contains(testing::Pair(
                  "VM 100", HasSubstr("carries the mark blue/somebody-else, but its UUID is"))));
  EXPECT_TRUE(down->down({}).ok());
  EXPECT_EQ(rig.home.dc.vms.size(), 1u);
}

TEST(Identity, TwoVmsWithOneProofAreBothLeftAlone) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  // A restored backup of the worker: everything is the same but the id.
  const std::string smbios = *rig.home.dc.vms.at(101).find("smbios1");
  make_foreign(rig, 950, {{"name", "restored"}, {"smbios1", smbios}});
  EXPECT_THAT(refused([&] { rig.down(); }),
              AllOf(HasSubstr("VM 101"), HasSubstr("VM 950"), HasSubstr("Neither is touched")));
  rig.lose_state();  // then all are asked, and both show themselves to `up`
  EXPECT_THAT(refused([&] { rig.up(); }),
              AllOf(HasSubstr("VM 101"), HasSubstr("VM 950"), HasSubstr("Neither is touched")));
  EXPECT_EQ(rig.home.dc.vms.size(), 3u);
}

TEST(Identity, VmsWhoseAddressesWereSwappedAreRefused) {
  ClusterRig rig;
  const auto spec = [](const char* first, const char* second) {
    return static_spec(
        fmt::format("  nodes:\n"
                    "    cp-1: {{ role: controlplane, address: 10.0.1.11 }}\n"
                    "    w-1: {{ role: worker, address: {} }}\n"
                    "    w-2: {{ role: worker, address: {} }}\n",
                    first, second));
  };
  rig.write_spec(spec("10.0.1.21", "10.0.1.22"));
  ASSERT_TRUE(rig.up().ok());
  const auto before = identities(rig);
  rig.write_spec(spec("10.0.1.22", "10.0.1.21"));
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::PowerCycle);
  EXPECT_THAT(refused([&] { rig.up(options); }),
              AllOf(HasSubstr("machine/w-1: who answers at 10.0.1.22 is w-2 (machine "),
                    HasSubstr("w-1 can have this address once w-2 is elsewhere")));
  EXPECT_EQ(identities(rig), before);
  // One after the other they can have them.
  for (const auto& [first, second] : {std::pair{"10.0.1.23", "10.0.1.22"},
                                      {"10.0.1.23", "10.0.1.21"},
                                      {"10.0.1.22", "10.0.1.21"}}) {
    rig.write_spec(spec(first, second));
    const engine::Report report = rig.up(options);
    EXPECT_TRUE(report.ok()) << problems(report);
    EXPECT_THAT(differences(rig.plan()), IsEmpty());
  }
}

TEST(Identity, AVmMayHaveTheAddressOfOneThatLeaves) {
  ClusterRig rig;
  const std::string planes =
      "  nodes:\n    cp-1: { role: controlplane, address: 10.0.1.11 }\n    w-1: { role: worker, "
      "address: ";
  rig.write_spec(
      static_spec(planes + "10.0.1.21 }\n    w-2: { role: worker, address: 10.0.1.22 }\n"));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(static_spec(planes + "10.0.1.22 }\n"));
  resources::RunOptions options = allow_data_loss();
  options.policy.allowed.insert(engine::Effect::PowerCycle);
  const engine::Report report = rig.up(options);
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(rig.home.dc.vms.size(), 2u);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

/// What a worker's VM is to become, and the class of change that this is.
struct Disturbance {
  const char* name;
  const char* machine;
  engine::Effect effect;
};

class Twin : public testing::TestWithParam<Disturbance> {};

TEST_P(Twin, KeepsUpFromDisturbingTheOriginal) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  // A restored backup under another name and without tags: nothing leads to it but a look at all.
  const std::string smbios = *rig.home.dc.vms.at(101).find("smbios1");
  make_foreign(rig, 950, {{"name", "restored"}, {"smbios1", smbios}});
  EXPECT_THAT(differences(rig.plan()), IsEmpty()) << "who changes nothing asks nobody";
  rig.write_spec(
      static_spec(replace_all(pools(1, 1), "memory: 8GiB, cores: 4", GetParam().machine)));
  std::vector<unsigned> went_off;
  const auto on_power = rig.home.dc.on_power;
  rig.home.dc.on_power = [&](lab::pve::Vm& vm, bool running) {
    if (!running) went_off.push_back(vm.id);
    on_power(vm, running);
  };
  const std::string original = config_of(rig, 101), twin = config_of(rig, 950);
  resources::RunOptions options;
  options.policy.allowed.insert(GetParam().effect);
  EXPECT_THAT(
      refused([&] { rig.up(options); }),
      AllOf(HasSubstr("VM 101"), HasSubstr("VM 950 'restored'"), HasSubstr("Neither is touched")));
  rig.home.dc.on_power = on_power;
  EXPECT_THAT(went_off, IsEmpty());
  EXPECT_EQ(config_of(rig, 101), original);
  EXPECT_EQ(config_of(rig, 950), twin);
  EXPECT_EQ(rig.home.dc.vms.size(), 3u);
}

const Disturbance disturbances[] = {
    {"Replacing", "memory: 8GiB, cores: 4, firmware: seabios", engine::Effect::Replace},
    {"PowerCycling", "memory: 8GiB, cores: 2", engine::Effect::PowerCycle},
};
INSTANTIATE_TEST_SUITE_P(Of, Twin, testing::ValuesIn(disturbances),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(Identity, AVmThatMovedIsFollowedAndNoDrift) {
  lab::Home::Options options;
  options.hosts = {"pve1", "pve2"};
  ClusterRig rig{options};
  rig.write_spec(static_spec(pools(1, 1), "[pve1, pve2]"));
  const engine::Report up = rig.up();
  ASSERT_TRUE(up.ok()) << problems(up);
  const std::string before = rig.home.dc.vms.at(101).node;
  rig.home.dc.vms.at(101).node = before == "pve1" ? "pve2" : "pve1";  // as HA does
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  for (const resources::Drift& drift : rig.run()->drift())
    ADD_FAILURE() << drift.address << " " << drift.field;
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

TEST(Identity, ProtectRefusesDown) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 0), "[pve1]", "  protect: true\n"));
  ASSERT_TRUE(rig.up().ok());
  EXPECT_THAT(refused([&] { rig.down(); }), HasSubstr("protect: true"));
  EXPECT_EQ(rig.home.dc.vms.size(), 1u);
}

// ---- what a node is

std::string three_nodes(const std::string& role) {
  return static_spec(
      replace_all("  nodes:\n"
                  "    n-1: { role: controlplane, address: 10.0.1.11 }\n"
                  "    n-2: { role: ROLE, address: 10.0.1.12 }\n"
                  "    n-3: { role: ROLE, address: 10.0.1.13 }\n",
                  "ROLE", role));
}

struct NewRole {
  const char* name;
  const char* before;
  const char* after;
  const char* refusal;
};
class Roles : public testing::TestWithParam<NewRole> {};

TEST_P(Roles, StayWhatTheyAreAlthoughNobodyRemembersThem) {
  ClusterRig rig;
  rig.write_spec(three_nodes(GetParam().before));
  ASSERT_TRUE(rig.up().ok());
  const auto before = identities(rig);
  const std::string config = rig.home.estate.truth(101).config;
  rig.write_spec(three_nodes(GetParam().after));
  resources::RunOptions options = allow_data_loss();
  options.policy.allowed.insert({engine::Effect::Replace, engine::Effect::PowerCycle});
  EXPECT_THAT(refused([&] { rig.up(options); }), HasSubstr(GetParam().refusal));
  rig.lose_state();
  rig.files.remove("/clusters/blue/rocca.lock");
  EXPECT_THAT(refused([&] { rig.up(options); }), HasSubstr(GetParam().refusal));
  // Its VM says it as well, while nobody is at home.
  arm(rig, "- { at: 0s, crash: 101 }\n");
  rig.home.world.run_for(1min);
  EXPECT_THAT(refused([&] { rig.up(options); }), HasSubstr(GetParam().refusal));
  EXPECT_EQ(identities(rig), before);
  EXPECT_EQ(rig.home.estate.truth(101).config, config);
}

INSTANTIATE_TEST_SUITE_P(
    Identity, Roles,
    testing::Values(NewRole{"Workers", "worker", "controlplane",
                            "n-2 is a worker, and the spec makes it a control plane"},
                    NewRole{"ControlPlanes", "controlplane", "worker",
                            "n-2 is a control plane, and the spec makes it a worker"}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace rocca::scenarios
