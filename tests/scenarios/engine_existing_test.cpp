// Machines that were there before: configured, watched and reset when told so, never made and never
// destroyed, and known by their hardware.

#include "scenarios/engine_machines.hpp"
#include "talos/client.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Two of them, and no Proxmox in the spec.
std::string two_machines(const std::string& more = "") {
  return fmt::format(R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: {{ name: blue }}
spec:
  talos: {{ version: v1.11.5, extensions: [qemu-guest-agent]{} }}
  kubernetes: {{ version: v1.34.1 }}
  timeouts: {{ boot: 3m, bootstrap: 3m }}
  network: {{ addressing: static, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1] }}
  nodes:
    cp-1: {{ role: controlplane, address: 10.0.3.1, existing: true }}
    w-1: {{ role: worker, address: 10.0.3.2, existing: true }}
)",
                     more);
}

void make_two(ClusterRig& rig) {
  make_machine(rig, 700, "10.0.3.1");
  make_machine(rig, 701, "10.0.3.2");
}

void raise(ClusterRig& rig, const std::string& text) {
  rig.write_spec(text);
  const engine::Report report = rig.up();
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

/// Whoever clones the repository on another machine: no state, no lock.
void forget(ClusterRig& rig) {
  rig.lose_state();
  rig.files.remove("/clusters/blue/rocca.lock");
}

TEST(Existing, MachinesThatRunOurConfigurationAreLeftAsTheyAre) {
  ClusterRig rig;
  make_two(rig);
  raise(rig, two_machines());
  const std::string before = rig.home.estate.truth(700).config;
  forget(rig);
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(rig.home.estate.truth(700).config, before);
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u) << "it counts as bootstrapped";
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  EXPECT_TRUE(spec::find_lock(rig.files, "/clusters/blue")->nodes.at("cp-1").uuid);
}

TEST(Existing, AConfigurationWithOurAuthorityIsChangedOnlyWhenAllowed) {
  ClusterRig rig;
  make_two(rig);
  raise(rig, two_machines());
  const std::string before = rig.home.estate.truth(700).config;
  // Nobody remembers that it was ours: it carries our CA, and is not what the spec renders.
  forget(rig);
  rig.write_spec(two_machines(", sysctls: { vm.max_map_count: \"262144\" }"));
  EXPECT_THAT(refused([&] { rig.up(); }),
              AllOf(HasSubstr("machine/cp-1"), HasSubstr("--allow replace")));
  EXPECT_EQ(rig.home.estate.truth(700).config, before);
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::Replace);
  const engine::Report report = rig.up(options);
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(rig.home.estate.truth(700).config, HasSubstr("vm.max_map_count"));
  EXPECT_EQ(rig.home.estate.bootstraps().size(), 1u);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(Existing, AnotherMachineAtAKnownOnesAddressGetsNothing) {
  ClusterRig rig;
  make_two(rig);
  raise(rig, two_machines());
  // The worker is taken out of its rack, and something else boots at its address.
  test::Administrator client = root(rig);
  wait_for(rig, client, client.start_stop("pve1", 701));
  make_machine(rig, 702, "10.0.3.2");
  EXPECT_THAT(refused([&] { rig.up(); }),
              AllOf(HasSubstr("who answers at 10.0.3.2 is machine"), HasSubstr("w-1 is machine")));
  EXPECT_FALSE(rig.home.estate.truth(702).configured) << "our secrets went to a stranger";
}

TEST(Existing, AMachineOfAnotherClusterIsRefused) {
  ClusterRig rig;
  make_two(rig);
  raise(rig, two_machines());
  static const secrets::Bundle another = make_bundle(8);
  rig.bundle = &another;
  forget(rig);
  EXPECT_THAT(refused([&] { rig.up(); }),
              AllOf(HasSubstr("runs a configuration of another cluster"),
                    HasSubstr("must be reset first")));
  EXPECT_TRUE(rig.home.estate.truth(700).configured);
}

TEST(Existing, TheSpecsOwnUuidDecidesFromTheFirstContactOn) {
  ClusterRig rig;
  make_two(rig);
  rig.write_spec(
      replace_all(two_machines(), "address: 10.0.3.2, existing: true",
                  "address: 10.0.3.2, existing: { uuid: 4c4c4544-0042-4d10-8051-b3c04f4a3532 }"));
  EXPECT_THAT(refused([&] { rig.up(); }),
              HasSubstr("w-1 is machine 4c4c4544-0042-4d10-8051-b3c04f4a3532"));
  EXPECT_FALSE(rig.home.estate.truth(700).configured) << "nothing is touched until all may be";
}

/// Machines 700, 701… at 10.0.3.1, 10.0.3.2…, named by `names` in that order: those that begin with
/// "cp" are control planes.
std::string machines(const std::vector<std::string>& names) {
  const std::string two = two_machines();
  std::string text = two.substr(0, two.find("    cp-1:"));
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!names[i].empty())
      text += fmt::format("    {}: {{ role: {}, address: 10.0.3.{}, existing: true }}\n", names[i],
                          names[i].starts_with("cp") ? "controlplane" : "worker", i + 1);
  return text;
}

void make_many(ClusterRig& rig, unsigned count) {
  for (unsigned i = 0; i < count; ++i) make_machine(rig, 700 + i, fmt::format("10.0.3.{}", i + 1));
}

std::string uuid_of(const ClusterRig& rig, unsigned vmid) {
  const std::string smbios = *rig.home.dc.vms.at(vmid).find("smbios1");
  return smbios.substr(smbios.find("uuid=") + 5, 36);
}

/// What the machines run and what is written down about them.
std::vector<std::string> all_there_is(ClusterRig& rig) {
  std::vector<std::string> all{rig.files.find("/clusters/blue/rocca.lock").value_or("")};
  for (const auto& [vmid, vm] : rig.home.dc.vms) {
    const auto truth = rig.home.estate.truth(vmid);
    all.push_back(fmt::format("{} {} {} {}", vmid, truth.hostname, truth.configured,
                              std::hash<std::string>{}(truth.config)));
  }
  return all;
}

struct Swap {
  const char* name;
  std::vector<std::string> before, after;
  const char* found;   // who is there by its UUID
  const char* wanted;  // who should be
};

class Swapped : public testing::TestWithParam<Swap> {};

TEST_P(Swapped, AddressesAreRefusedAndNobodyIsRenamed) {
  ClusterRig rig;
  make_many(rig, static_cast<unsigned>(GetParam().before.size()));
  raise(rig, machines(GetParam().before));
  const auto before = all_there_is(rig);
  rig.write_spec(machines(GetParam().after));
  resources::RunOptions everything;
  everything.policy.allowed = {engine::Effect::Live,    engine::Effect::Service,
                               engine::Effect::Reboot,  engine::Effect::PowerCycle,
                               engine::Effect::Replace, engine::Effect::DataLoss};
  const std::string why = refused([&] { rig.up(everything); });
  EXPECT_THAT(why, AllOf(HasSubstr(fmt::format("is {} (machine ", GetParam().found)),
                         HasSubstr(fmt::format("and {} is machine ", GetParam().wanted)),
                         HasSubstr("addresses")));
  EXPECT_EQ(all_there_is(rig), before);
  // Whoever has lost one of the two memories still has the other.
  rig.lose_state();
  refused([&] { rig.up(everything); });
  EXPECT_EQ(all_there_is(rig), before);
}

const Swap swaps[] = {
    {"OfWorkers", {"cp-1", "w-1", "w-2"}, {"cp-1", "w-2", "w-1"}, "w-2", "w-1"},
    {"OfAControlPlaneAndAWorker",
     {"cp-1", "cp-2", "cp-3", "w-1"},
     {"w-1", "cp-2", "cp-3", "cp-1"},
     "w-1",
     "cp-1"},
};
INSTANTIATE_TEST_SUITE_P(Existing, Swapped, testing::ValuesIn(swaps),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(Existing, TheStateKnowsAMachineThatTheLockHasForgotten) {
  ClusterRig rig;
  make_many(rig, 3);
  raise(rig, machines({"cp-1", "w-1", "w-2"}));
  rig.files.remove("/clusters/blue/rocca.lock");
  const auto before = all_there_is(rig);
  rig.write_spec(machines({"cp-1", "w-2", "w-1"}));
  EXPECT_THAT(refused([&] { rig.up(); }), HasSubstr("is w-2 (machine "));
  EXPECT_EQ(all_there_is(rig), before);
}

TEST(Existing, AWrongUuidOfTheSpecIsRefusedAlthoughTheStateIsLost) {
  ClusterRig rig;
  make_two(rig);
  raise(rig, two_machines());
  const auto before = all_there_is(rig);
  rig.lose_state();
  const std::string wrong = "4c4c4544-0042-4d10-8051-b3c04f4a3532";
  rig.write_spec(replace_all(two_machines(), "address: 10.0.3.2, existing: true",
                             "address: 10.0.3.2, existing: { uuid: " + wrong + " }"));
  EXPECT_THAT(
      refused([&] { rig.up(); }),
      AllOf(HasSubstr("w-1 is machine " + wrong),
            HasSubstr(fmt::format("nodes.w-1.existing: {{ uuid: {} }}", uuid_of(rig, 701)))));
  EXPECT_EQ(all_there_is(rig), before);
}

TEST(Existing, AnotherMachineTakesAPlaceOnlyIfTheSpecSaysSo) {
  ClusterRig rig;
  make_two(rig);
  raise(rig, two_machines());
  test::Administrator client = root(rig);
  wait_for(rig, client, client.start_stop("pve1", 701));
  make_machine(rig, 702, "10.0.3.2");
  const std::string its = fmt::format("nodes.w-1.existing: {{ uuid: {} }}", uuid_of(rig, 702));
  EXPECT_THAT(refused([&] { rig.up(); }), HasSubstr(its));
  rig.write_spec(
      replace_all(two_machines(), "address: 10.0.3.2, existing: true",
                  fmt::format("address: 10.0.3.2, existing: {{ uuid: {} }}", uuid_of(rig, 702))));
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(rig.home.estate.truth(702).hostname, "w-1");
  // From then on it is the one that is meant, whether or not the spec goes on saying it.
  rig.write_spec(two_machines());
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(Existing, MixesWithVms) {
  ClusterRig rig;
  make_machine(rig, 700, "10.0.3.1");
  const std::string before = identities(rig).front();
  raise(rig, static_spec("  nodes:\n"
                         "    cp-1: { role: controlplane, address: 10.0.1.11 }\n"
                         "    w-1: { role: worker, address: 10.0.1.21 }\n"
                         "    metal: { role: worker, address: 10.0.3.1, existing: true }\n"));
  EXPECT_EQ(rig.home.dc.vms.size(), 3u);
  EXPECT_EQ(identities(rig).back(), before);
  EXPECT_EQ(rig.home.estate.truth(700).stage, lab::talos::Stage::Running);
  // `down` takes the VMs and leaves the machine; told so, it resets that, too.
  resources::RunOptions options;
  options.reset_existing = true;
  const engine::Report down = rig.down(options);
  EXPECT_TRUE(down.ok()) << problems(down);
  rig.home.world.run_for(5min);
  EXPECT_EQ(rig.home.dc.vms.size(), 1u);
  EXPECT_EQ(identities(rig).front(), before);
  EXPECT_FALSE(rig.home.estate.truth(700).configured);
  // And so it can be raised again.
  const engine::Report again = rig.up();
  EXPECT_TRUE(again.ok()) << problems(again);
}

TEST(Existing, IsFoundByItsHardwareWhereverItsLeaseLeads) {
  ClusterRig rig;
  make_machine(rig, 700, "10.0.200.5");
  make_machine(rig, 701, "10.0.200.6");
  const auto spec = [](const std::string& cp, const std::string& w) {
    return replace_all(
        replace_all(replace_all(two_machines(), "address: 10.0.3.1, existing: true", cp),
                    "address: 10.0.3.2, existing: true", w),
        "{ addressing: static, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1] }",
        "{ addressing: dhcp, subnet: 10.0.200.0/28 }");
  };
  rig.write_spec(spec("existing: true", "existing: true"));
  EXPECT_THAT(refused([&] { rig.up(); }),
              HasSubstr("has neither an address nor a known hardware UUID"));
  const auto uuid = [&](unsigned vmid) {
    const std::string smbios = *rig.home.dc.vms.at(vmid).find("smbios1");
    return fmt::format("existing: {{ uuid: {} }}", smbios.substr(smbios.find("uuid=") + 5, 36));
  };
  raise(rig, spec(uuid(700), uuid(701)));
  EXPECT_EQ(rig.home.estate.truth(700).hostname, "cp-1");
  EXPECT_EQ(rig.home.estate.truth(701).hostname, "w-1");
  // And so are those that `down` resets, although nobody remembers where they are.
  rig.lose_state();
  resources::RunOptions options;
  options.reset_existing = true;
  const engine::Report down = rig.down(options);
  EXPECT_TRUE(down.ok()) << problems(down);
  rig.home.world.run_for(5min);
  for (const unsigned vmid : {700u, 701u})
    EXPECT_FALSE(rig.home.estate.truth(vmid).configured) << vmid;
}

TEST(Existing, ASilentOneIsExplainedWithoutAVm) {
  ClusterRig rig;
  make_machine(rig, 700, "10.0.3.1");
  rig.write_spec(two_machines());
  const engine::Report report = rig.up();
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(problems(report), AllOf(HasSubstr("nobody answers at 10.0.3.2"),
                                      HasSubstr("look at its console"), Not(HasSubstr("VM"))));
}

TEST(Existing, DownEndsAlthoughAMachineIsDead) {
  ClusterRig rig;
  make_two(rig);
  raise(rig, two_machines());
  test::Administrator client = root(rig);
  wait_for(rig, client, client.start_stop("pve1", 701));
  resources::RunOptions options;
  options.reset_existing = true;
  const Instant begun = rig.home.world.now();
  const engine::Report down = rig.down(options);
  EXPECT_LT(rig.home.world.now() - begun, 15min);
  EXPECT_EQ(rig.home.dc.vms.size(), 2u);
  // Whoever asked for a reset is told who did not get it; without asking for it there is no error.
  EXPECT_FALSE(down.ok());
  EXPECT_THAT(problems(down), HasSubstr("w-1 is not reset: nobody answers at 10.0.3.2"));
  rig.home.world.run_for(5min);
  EXPECT_FALSE(rig.home.estate.truth(700).configured);
  const engine::Report left = rig.down();
  EXPECT_TRUE(left.ok()) << problems(left);
}

resources::RunOptions resetting() {
  resources::RunOptions options;
  options.reset_existing = true;
  return options;
}

TEST(Existing, DownResetsNobodyElseAlthoughTheStateIsLost) {
  ClusterRig rig;
  make_many(rig, 3);
  raise(rig, machines({"cp-1", "w-1", "w-2"}));
  const auto before = all_there_is(rig);
  rig.lose_state();
  // Where the spec has w-1 is a machine of this cluster, and another one.
  rig.write_spec(machines({"cp-1", "", "w-1"}));
  EXPECT_THAT(
      refused([&] { rig.down(resetting()); }),
      AllOf(HasSubstr("machine/w-1: who answers at 10.0.3.3 is w-2 (machine " + uuid_of(rig, 702)),
            HasSubstr("w-1 is machine " + uuid_of(rig, 701))));
  EXPECT_EQ(all_there_is(rig), before);
  rig.write_spec(machines({"cp-1", "w-2", "w-1"}));
  EXPECT_THAT(refused([&] { rig.down(resetting()); }), HasSubstr("10.0.3.3 is w-2 (machine "));
  EXPECT_EQ(all_there_is(rig), before);
  rig.write_spec(machines({"cp-1", "w-1", "w-2"}));
  const engine::Report down = rig.down(resetting());
  EXPECT_TRUE(down.ok()) << problems(down);
  rig.home.world.run_for(5min);
  for (const unsigned vmid : {700u, 701u, 702u})
    EXPECT_FALSE(rig.home.estate.truth(vmid).configured) << vmid;
}

TEST(Existing, DownResetsNobodyWhoseUuidIsInDoubt) {
  ClusterRig rig;
  make_two(rig);
  raise(rig, two_machines());
  const auto before = all_there_is(rig);
  const std::string other = "4c4c4544-0042-4d10-8051-b3c04f4a3532";
  rig.write_spec(replace_all(two_machines(), "address: 10.0.3.2, existing: true",
                             "address: 10.0.3.2, existing: { uuid: " + other + " }"));
  EXPECT_THAT(refused([&] { rig.down(resetting()); }),
              AllOf(HasSubstr("machine/w-1: "), HasSubstr(other), HasSubstr(uuid_of(rig, 701))));
  EXPECT_EQ(all_there_is(rig), before);
}

TEST(Existing, DownSaysThatTheyAreReset) {
  ClusterRig rig;
  make_two(rig);
  raise(rig, two_machines());
  EXPECT_THAT(
      differences(rig.run(resetting())->plan_down()),
      testing::ElementsAre(
          "- machine/cp-1: the cluster goes down: it is reset and comes back in maintenance "
          "mode  [stage: 'ours' -> 'maintenance']",
          "- machine/w-1: the cluster goes down: it is reset and comes back in maintenance "
          "mode  [stage: 'ours' -> 'maintenance']"));
}

TEST(Existing, AWorkerThatLeavesTheSpecComesBackInMaintenanceMode) {
  ClusterRig rig;
  make_many(rig, 3);
  raise(rig, machines({"cp-1", "w-1", "w-2"}));
  const auto machine = identities(rig);
  rig.write_spec(machines({"cp-1", "w-1"}));
  EXPECT_THAT(differences(rig.plan()),
              testing::Contains(
                  AllOf(HasSubstr("- machine/w-2: no node of the spec wants it: it is reset and "
                                  "comes back in maintenance mode"),
                        HasSubstr("[stage: 'ours' -> 'maintenance']"))));
  const engine::Report report = rig.up(allow_data_loss());
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  rig.home.world.run_for(5min);
  EXPECT_FALSE(rig.home.dc.vms.at(702).running.empty()) << "nobody is there to switch it on again";
  EXPECT_EQ(rig.home.estate.truth(702).stage, lab::talos::Stage::Maintenance);
  EXPECT_FALSE(rig.home.estate.truth(702).configured);
  EXPECT_EQ(identities(rig), machine);
  // And so it can join again.
  raise(rig, machines({"cp-1", "w-1", "w-2"}));
  EXPECT_EQ(rig.home.estate.truth(702).hostname, "w-2");
}

TEST(Existing, AMachineGetsAnotherNameByLeavingFirst) {
  ClusterRig rig;
  make_many(rig, 3);
  raise(rig, machines({"cp-1", "w-1", "w-2"}));
  const auto before = all_there_is(rig);
  rig.write_spec(machines({"cp-1", "w-1", "w-9"}));
  EXPECT_THAT(refused([&] { rig.up(allow_data_loss()); }),
              AllOf(HasSubstr("10.0.3.3 is w-2 (machine "), HasSubstr("and not w-9")));
  EXPECT_EQ(all_there_is(rig), before);
  // Said outright, it leaves under its old name and joins under the new one, in one run.
  rig.write_spec(
      replace_all(machines({"cp-1", "w-1", "w-9"}), "address: 10.0.3.3, existing: true",
                  fmt::format("address: 10.0.3.3, existing: {{ uuid: {} }}", uuid_of(rig, 702))));
  resources::RunOptions options = allow_data_loss();
  options.policy.allowed.insert(engine::Effect::Replace);
  const engine::Report report = rig.up(options);
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(rig.home.estate.truth(702).hostname, "w-9");
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  const auto lock = spec::find_lock(rig.files, "/clusters/blue");
  EXPECT_FALSE(lock->nodes.contains("w-2")) << "its name is free again";
  EXPECT_EQ(to_string(*lock->nodes.at("w-9").uuid), uuid_of(rig, 702));
}

TEST(Existing, OneThatNobodyRemembersIsLeftAsItIs) {
  ClusterRig rig;
  make_many(rig, 3);
  raise(rig, machines({"cp-1", "w-1", "w-2"}));
  rig.lose_state();
  const std::string before = rig.home.estate.truth(702).config;
  rig.write_spec(machines({"cp-1", "w-1"}));
  const engine::Report report = rig.up(allow_data_loss());
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(rig.home.estate.truth(702).config, before);
  EXPECT_EQ(rig.home.estate.truth(702).stage, lab::talos::Stage::Running);
}

TEST(Existing, DownNamesWhomItDidNotFind) {
  ClusterRig rig;
  make_machine(rig, 700, "10.0.200.5");
  make_machine(rig, 701, "10.0.200.6");
  const auto spec = [&](bool with_uuid) {
    const auto its = [&](unsigned vmid) {
      return with_uuid ? "existing: { uuid: " + uuid_of(rig, vmid) + " }" : "existing: true";
    };
    return replace_all(
        replace_all(replace_all(two_machines(), "address: 10.0.3.1, existing: true", its(700)),
                    "address: 10.0.3.2, existing: true", its(701)),
        "{ addressing: static, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1] }",
        "{ addressing: dhcp, subnet: 10.0.200.0/28 }");
  };
  raise(rig, spec(true));
  // Without a UUID in spec, lock and state nobody can say which machine is meant.
  forget(rig);
  rig.write_spec(spec(false));
  const engine::Report blind = rig.down(resetting());
  EXPECT_FALSE(blind.ok());
  EXPECT_THAT(problems(blind), AllOf(HasSubstr("cp-1 is not reset: nobody knows where it is"),
                                     HasSubstr("w-1 is not reset: nobody knows where it is")));
  EXPECT_TRUE(rig.home.estate.truth(700).configured);
  // One that is off is met nowhere, and the other one is reset.
  test::Administrator client = root(rig);
  wait_for(rig, client, client.start_stop("pve1", 701));
  rig.write_spec(spec(true));
  const engine::Report down = rig.down(resetting());
  EXPECT_FALSE(down.ok());
  EXPECT_THAT(problems(down), AllOf(HasSubstr("w-1 is not reset: machine "),
                                    HasSubstr("was not met in 10.0.200.0/28"),
                                    Not(HasSubstr("cp-1 is not reset"))));
  rig.home.world.run_for(5min);
  EXPECT_FALSE(rig.home.estate.truth(700).configured);
}

/// Nobody shows any hardware, as Talos in a container does not.
class Faceless final : public net::Transport {
 public:
  explicit Faceless(net::Transport& inner) : inner_(inner) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    const auto* body = std::get_if<std::string>(&request.body);
    if (body == nullptr || body->find("SystemInformations.") == std::string::npos)
      return inner_.exchange(request, sink, std::move(stop));
    net::Response response;
    response.status = 200;
    response.version = net::HttpVersion::Http2;
    response.headers = {{"content-type", "application/grpc"},
                        {"grpc-status", "5"},
                        {"grpc-message", "resource doesn't exist"}};
    response.trailers = response.headers;
    sink.begin(response);
    return response;
  }

 private:
  net::Transport& inner_;
};

TEST(Existing, OneThatShouldShowItsHardwareAndShowsNoneIsRefused) {
  ClusterRig rig;
  make_two(rig);
  raise(rig, two_machines());
  Faceless faceless{rig.counting};
  rig.transport = &faceless;
  const auto before = all_there_is(rig);
  rig.write_spec(two_machines(", sysctls: { vm.max_map_count: \"262144\" }"));
  EXPECT_THAT(refused([&] { rig.up(); }),
              AllOf(HasSubstr("machine/cp-1: who answers at 10.0.3.1 shows no hardware UUID, and "
                              "cp-1 is machine " +
                              uuid_of(rig, 700)),
                    HasSubstr("machine/w-1: who answers at 10.0.3.2 shows no hardware UUID")));
  EXPECT_THAT(refused([&] { rig.down(resetting()); }), HasSubstr("shows no hardware UUID"));
  EXPECT_EQ(all_there_is(rig), before);
  // The lock alone knows it as well.
  rig.lose_state();
  EXPECT_THAT(refused([&] { rig.up(); }), HasSubstr("shows no hardware UUID"));
  EXPECT_EQ(all_there_is(rig), before);
}

TEST(Existing, OneThatNeverShowedAnyHardwareIsTakenAsItIs) {
  ClusterRig rig;
  make_two(rig);
  Faceless faceless{rig.counting};
  rig.transport = &faceless;
  raise(rig, two_machines());
  const engine::Report down = rig.down(resetting());
  EXPECT_TRUE(down.ok()) << problems(down);
  rig.home.world.run_for(5min);
  EXPECT_FALSE(rig.home.estate.truth(701).configured);
}

TEST(Existing, NobodyIsMadeAControlPlane) {
  ClusterRig rig;
  make_many(rig, 3);
  raise(rig, machines({"cp-1", "w-2", "w-3"}));
  const auto before = all_there_is(rig);
  rig.write_spec(
      replace_all(machines({"cp-1", "w-2", "w-3"}), "role: worker", "role: controlplane"));
  resources::RunOptions options = allow_data_loss();
  options.policy.allowed.insert({engine::Effect::Replace, engine::Effect::PowerCycle});
  const auto refusal =
      AllOf(HasSubstr("machine/w-2: w-2 is a worker, and the spec makes it a control plane"),
            HasSubstr("machine/w-3: w-3 is a worker"));
  EXPECT_THAT(refused([&] { rig.up(options); }), refusal);
  EXPECT_EQ(all_there_is(rig), before);
  forget(rig);
  const auto forgotten = all_there_is(rig);
  EXPECT_THAT(refused([&] { rig.up(options); }), refusal);
  EXPECT_EQ(all_there_is(rig), forgotten);
}

TEST(Existing, ANodeThatWasAVmHasNoVmInTheLockAnyMore) {
  ClusterRig rig;
  const auto spec = [](const std::string& worker) {
    return static_spec(
        fmt::format("  nodes:\n"
                    "    cp-1: {{ role: controlplane, address: 10.0.1.11 }}\n"
                    "    w-1: {{ role: worker, {} }}\n",
                    worker));
  };
  raise(rig, spec("address: 10.0.1.21"));
  make_machine(rig, 700, "10.0.3.1");
  const auto locked = [&] { return spec::find_lock(rig.files, "/clusters/blue")->nodes.at("w-1"); };
  ASSERT_EQ(locked().vmid, 101u);
  rig.write_spec(spec("address: 10.0.3.1, existing: true"));
  const engine::Report report = rig.up(allow_data_loss());
  ASSERT_TRUE(report.ok()) << problems(report);
  EXPECT_FALSE(rig.home.dc.vms.contains(101));
  EXPECT_FALSE(locked().vmid);
  EXPECT_EQ(locked().host, "");
  EXPECT_EQ(to_string(*locked().uuid), uuid_of(rig, 700));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  // The other way round its UUID goes, and the VM is one that rocca has made.
  rig.write_spec(spec("address: 10.0.1.21"));
  const engine::Report back = rig.up(allow_data_loss());
  ASSERT_TRUE(back.ok()) << problems(back);
  EXPECT_TRUE(locked().vmid);
  EXPECT_FALSE(locked().uuid);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_EQ(rig.home.dc.vms.size(), 1u);
}

}  // namespace
}  // namespace rocca::scenarios
