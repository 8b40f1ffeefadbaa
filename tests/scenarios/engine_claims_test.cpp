// Which VM is ours: clones that other users made, marks that were removed, clones of a killed run,
// and VMs that the user names.

#include "lab/pve/qemu/qemu.hpp"
#include "scenarios/engine_machines.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::Pair;
using testing::StartsWith;

void heard_of(ClusterRig& rig) {
  rig.home.world.run_for(20s);  // the cluster's list lags
}

std::string option(const ClusterRig& rig, unsigned vmid, const char* key) {
  const auto found = rig.home.dc.vms.find(vmid);
  if (found == rig.home.dc.vms.end()) return "gone";
  const std::string* value = found->second.find(key);
  return value == nullptr ? "" : *value;
}

/// All that a VM is: nothing of it may change while it is not ours.
std::string all_of(const ClusterRig& rig, unsigned vmid) {
  std::string text;
  for (const char* key : {"name", "tags", "smbios1", "cores", "memory", "net0", "description",
                          "scsi0", "onboot", "template"})
    text += fmt::format("{}={}\n", key, option(rig, vmid, key));
  return text;
}

/// As another user does it: notes, tags and the SMBIOS mark are copied, the UUID is new.
void clone_vm(ClusterRig& rig, unsigned from, unsigned to, const std::string& name) {
  test::Administrator client = root(rig);
  proxmox::Clone clone;
  clone.source = from;
  clone.target = to;
  clone.name = name;
  wait_for(rig, client, client.start_clone("pve1", clone));
  heard_of(rig);
}

void take_proof(ClusterRig& rig, unsigned vmid, bool tags = true) {
  test::Administrator client = root(rig);
  proxmox::VmUpdate update;
  // A UUID of its own stays.
  const auto config = client.find_config("pve1", vmid);
  update.set["smbios1"] = "uuid=" + to_string(config->uuid().value());
  if (tags) update.erase = {"tags"};
  client.update("pve1", vmid, update);
  heard_of(rig);
}

void stop(ClusterRig& rig, unsigned vmid) {
  test::Administrator client = root(rig);
  if (client.find_status("pve1", vmid)->status == "running")
    wait_for(rig, client, client.start_stop("pve1", vmid));
}

void destroy(ClusterRig& rig, unsigned vmid) {
  stop(rig, vmid);
  test::Administrator client = root(rig);
  wait_for(rig, client, client.start_destroy("pve1", vmid, true));
  heard_of(rig);
}

resources::ClaimPlan claim(ClusterRig& rig, const std::string& node, unsigned vmid) {
  const resources::ClaimPlan plan = rig.run()->plan_claim(node, vmid);
  rig.run()->claim(plan);
  return plan;
}

/// worker-1 is VM 101. Another user's clone of it, without mark and tags, comes to stand at that
/// id.
void put_clone_at_our_id(ClusterRig& rig) {
  clone_vm(rig, 101, 950, "eves-own");
  take_proof(rig, 950);
  destroy(rig, 101);
  clone_vm(rig, 950, 101, "eves-own-2");
}

TEST(Claims, AForeignCloneAtOurIdWithOurNotesIsNeverDestroyed) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  put_clone_at_our_id(rig);
  ASSERT_THAT(option(rig, 101, "description"), HasSubstr("UUID")) << "the notes are ours";
  const std::string before = all_of(rig, 101), first = all_of(rig, 950);
  EXPECT_THAT(refused([&] { rig.up(); }),
              AllOf(HasSubstr("VM id 101 of worker-1 is taken by VM 101 'eves-own-2'"),
                    HasSubstr("rocca claim worker-1 --vm 101")));
  EXPECT_EQ(all_of(rig, 101), before);
  const auto down = rig.run();
  EXPECT_THAT(down->plan_down().kept, Contains(Pair("vm/worker-1", HasSubstr("VM 101"))));
  const engine::Report report = down->down({});
  EXPECT_TRUE(report.ok()) << problems(report);
  EXPECT_EQ(all_of(rig, 101), before);
  EXPECT_EQ(all_of(rig, 950), first);
  EXPECT_THAT(rig.home.dc.vms, ElementsAre(Key(101u), Key(950u)));
  EXPECT_FALSE(rig.store->load()) << "the state is cleared";
}

TEST(Claims, AMarkedCloneByAnotherUserKeepsNobodyFromWorking) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  clone_vm(rig, 101, 950, "a-copy");
  ASSERT_EQ(option(rig, 950, "tags"), option(rig, 101, "tags"));
  const std::string copy = all_of(rig, 950);
  const engine::Plan plan = rig.plan();
  EXPECT_THAT(differences(plan), IsEmpty());
  EXPECT_THAT(plan.kept, Contains(Pair("VM 950", HasSubstr("blue/worker-1"))));
  // Where ours is gone, another one is created beside the copy.
  destroy(rig, 101);
  const engine::Report up = rig.up();
  EXPECT_TRUE(up.ok()) << problems(up);
  EXPECT_THAT(rig.home.dc.vms, ElementsAre(Key(100u), Key(101u), Key(950u)));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  const auto one = rig.run();
  EXPECT_THAT(one->plan_down().kept, Contains(Pair("VM 950", HasSubstr("left alone"))));
  const engine::Report down = one->down({});
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_THAT(rig.home.dc.vms, ElementsAre(Key(950u)));
  EXPECT_EQ(all_of(rig, 950), copy);
  EXPECT_FALSE(rig.store->load()) << "the state is cleared";
  EXPECT_TRUE(rig.down().ok());
  const engine::Report again = rig.up();
  EXPECT_TRUE(again.ok()) << problems(again);
  EXPECT_EQ(all_of(rig, 950), copy);
}

TEST(Claims, ACloneThatIsMadeWhileDownRunsIsNoFailure) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  const auto one = rig.run();
  EXPECT_THAT(one->plan_down().kept, IsEmpty());
  clone_vm(rig, 101, 950, "a-copy");
  one->on_change([](const engine::Plan&) { return true; });
  const engine::Report down = one->down({});
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_THAT(rig.home.dc.vms, ElementsAre(Key(950u)));
}

TEST(Claims, ACopyWithoutStateAndLockIsNotTakenForTheNode) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  clone_vm(rig, 101, 950, "a-copy");
  const std::string copy = all_of(rig, 950);
  destroy(rig, 101);
  rig.lose_state();
  rig.files.remove("/clusters/blue/rocca.lock");
  const engine::Report up = rig.up();
  EXPECT_TRUE(up.ok()) << problems(up);
  EXPECT_EQ(all_of(rig, 950), copy);
  EXPECT_EQ(rig.home.dc.vms.size(), 3u);
}

TEST(Claims, TagsAloneAreNobodysBusiness) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  clone_vm(rig, 101, 950, "a-copy");
  take_proof(rig, 950, /*tags=*/false);
  const std::string copy = all_of(rig, 950);
  destroy(rig, 101);
  const engine::Report up = rig.up();
  EXPECT_TRUE(up.ok()) << problems(up);
  EXPECT_TRUE(rig.down().ok());
  EXPECT_EQ(all_of(rig, 950), copy);
}

/// The mark goes while the VM is off; then it runs again.
void lose_mark(ClusterRig& rig, unsigned vmid) {
  stop(rig, vmid);
  take_proof(rig, vmid, /*tags=*/false);
  test::Administrator client = root(rig);
  wait_for(rig, client, client.start_vm("pve1", vmid));
  heard_of(rig);
}

TEST(Claims, ARunningVmWithoutItsMarkIsNamedAndLeftAlone) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  lose_mark(rig, 101);
  const std::string before = all_of(rig, 101);
  EXPECT_THAT(refused([&] { rig.up(); }),
              AllOf(HasSubstr("has the UUID of blue/worker-1"), Not(HasSubstr("clone")),
                    HasSubstr("rocca claim worker-1 --vm 101")));
  const std::size_t writes = times_asked(rig, "POST /nodes/pve1/qemu/101/config");
  const auto one = rig.run();
  EXPECT_THAT(one->plan_down().kept,
              Contains(Pair("vm/worker-1", AllOf(HasSubstr("VM 101"),
                                                 HasSubstr("rocca claim worker-1 --vm 101")))));
  const engine::Report down = one->down({});
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_EQ(times_asked(rig, "POST /nodes/pve1/qemu/101/config"), writes) << "never marked again";
  EXPECT_EQ(all_of(rig, 101), before);
  EXPECT_EQ(rig.home.dc.vms.at(101).power, lab::pve::Vm::Power::Running);
  EXPECT_THAT(rig.home.dc.vms, ElementsAre(Key(101u)));
}

TEST(Claims, AClaimedVmIsOursAgainOnceItHasBeenOff) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  const std::string marked = option(rig, 101, "smbios1");
  lose_mark(rig, 101);
  const resources::ClaimPlan plan = claim(rig, "worker-1", 101);
  EXPECT_TRUE(plan.running);
  EXPECT_EQ(plan.uuid_before, plan.uuid_after);
  refused([&] { rig.up(); });  // it is pending
  stop(rig, 101);
  EXPECT_EQ(option(rig, 101, "smbios1"), marked);
  const engine::Report up = rig.up();
  EXPECT_TRUE(up.ok()) << problems(up);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
  EXPECT_TRUE(rig.down().ok());
  EXPECT_THAT(rig.home.dc.vms, IsEmpty());
}

TEST(Claims, WhatCannotBeTheNodeIsRefused) {
  ClusterRig rig;
  make_template(rig);
  rig.write_spec(static_spec(pools(1, 2)));
  ASSERT_TRUE(rig.up().ok());
  const auto why = [&](const std::string& node, unsigned vmid) {
    return refused([&] { claim(rig, node, vmid); });
  };
  clone_vm(rig, 101, 950, "a-copy");
  const std::vector<std::string> before = identities(rig);
  EXPECT_THAT(why("worker-1", 9000), HasSubstr("is a template"));
  EXPECT_THAT(why("worker-1", 102), HasSubstr("already has the UUID of blue/worker-1"));
  EXPECT_THAT(why("worker-1", 950), HasSubstr("already has the UUID of blue/worker-1"));
  destroy(rig, 102);
  EXPECT_THAT(why("worker-2", 950), HasSubstr("carries the mark blue/worker-1"));
  EXPECT_THAT(why("worker-2", 101), HasSubstr("carries the mark blue/worker-1"));
  EXPECT_EQ(option(rig, 950, "description"), option(rig, 101, "description"));
  EXPECT_TRUE(claim(rig, "worker-1", 101).ours) << "there is nothing to do";
  EXPECT_EQ(identities(rig).size(), before.size() - 1);
}

/// `up` dies after Proxmox has made the clone of this node and before it has its mark.
void die_before_marking(ClusterRig& rig, unsigned vmid) {
  class Dies final : public net::Transport {
   public:
    Dies(net::Transport& inner, std::string path) : inner_(inner), path_(std::move(path)) {}
    net::Response exchange(const net::Request& request, net::BodySink& sink,
                           std::stop_token stop) override {
      if (request.method == "POST" && request.url.ends_with(path_))
        throw Error(Fault::Denied, "the run ends here");
      return inner_.exchange(request, sink, std::move(stop));
    }

   private:
    net::Transport& inner_;
    std::string path_;
  };
  Dies dies{rig.counting, fmt::format("/qemu/{}/config", vmid)};
  rig.transport = &dies;
  EXPECT_FALSE(rig.up().ok());
  rig.transport = nullptr;
  ASSERT_TRUE(rig.home.dc.vms.contains(vmid));
  ASSERT_THAT(option(rig, vmid, "smbios1"), Not(HasSubstr("sku")));
}

TEST(Claims, ACloneOfAKilledRunIsOursByTheNonceInTheState) {
  for (const bool goes_down : {false, true}) {
    ClusterRig rig;
    make_template(rig);
    rig.write_spec(clones(pools(1, 1)));
    die_before_marking(rig, 101);
    const std::string nonce = rig.store->load()->items.at("vm/worker-1").facts.at("cloneNonce");
    EXPECT_THAT(option(rig, 101, "description"), HasSubstr(nonce));
    if (goes_down) {
      const engine::Report down = rig.down();
      EXPECT_TRUE(down.ok()) << problems(down);
      EXPECT_THAT(rig.home.dc.vms, ElementsAre(Key(9000u)));
      continue;
    }
    const engine::Report up = rig.up();
    EXPECT_TRUE(up.ok()) << problems(up);
    EXPECT_THAT(option(rig, 101, "smbios1"), HasSubstr("sku"));
    EXPECT_THAT(option(rig, 101, "description"), Not(HasSubstr(nonce))) << "marking removes it";
    EXPECT_FALSE(rig.store->load()->items.at("vm/worker-1").facts.contains("cloneNonce"));
    EXPECT_THAT(differences(rig.plan()), IsEmpty());
  }
}

TEST(Claims, ACloneThatComesAfterItsRunWasKilledIsTakenAway) {
  class DiesBehind final : public net::Transport {
   public:
    explicit DiesBehind(net::Transport& inner) : inner_(inner) {}
    net::Response exchange(const net::Request& request, net::BodySink& sink,
                           std::stop_token stop) override {
      net::Response response = inner_.exchange(request, sink, std::move(stop));
      if (request.url.ends_with("/clone")) throw Error(Fault::Denied, "the run ends here");
      return response;
    }

   private:
    net::Transport& inner_;
  };
  ClusterRig rig;
  make_template(rig);
  rig.write_spec(clones(pools(1, 1)));
  DiesBehind dies{rig.counting};
  rig.transport = &dies;
  EXPECT_FALSE(rig.up().ok());
  rig.transport = nullptr;
  const engine::Report down = rig.down();
  EXPECT_TRUE(down.ok()) << problems(down);
  EXPECT_THAT(rig.home.dc.vms, ElementsAre(Key(9000u)));
}

TEST(Claims, WithoutItsStateACloneOfAKilledRunIsNamedAndLeftAloneUntilItIsClaimed) {
  ClusterRig rig;
  make_template(rig);
  rig.write_spec(clones(pools(1, 1)));
  die_before_marking(rig, 101);
  rig.lose_state();
  const std::string before = all_of(rig, 101);
  EXPECT_THAT(refused([&] { rig.up(); }),
              AllOf(HasSubstr("VM id 101 of worker-1 is taken by VM 101"),
                    HasSubstr("rocca claim worker-1 --vm 101")));
  EXPECT_EQ(all_of(rig, 101), before);
  const auto one = rig.run();
  EXPECT_THAT(one->plan_down().kept, Contains(Pair("vm/worker-1", HasSubstr("VM 101"))));
  EXPECT_TRUE(one->down({}).ok());
  EXPECT_EQ(all_of(rig, 101), before);
  const resources::ClaimPlan plan = claim(rig, "worker-1", 101);
  EXPECT_FALSE(plan.running);
  EXPECT_NE(plan.uuid_before, plan.uuid_after);
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::PowerCycle);
  const engine::Report up = rig.up(options);
  EXPECT_TRUE(up.ok()) << problems(up);
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(Claims, ANonceOfAnotherAttemptProvesNothing) {
  ClusterRig rig;
  make_template(rig);
  rig.write_spec(clones(pools(1, 1)));
  die_before_marking(rig, 101);
  // The copy of an unmarked clone comes to stand at the id after the node has settled.
  clone_vm(rig, 101, 950, "a-copy");
  ASSERT_EQ(option(rig, 950, "description"), option(rig, 101, "description"));
  const engine::Report up = rig.up();
  EXPECT_TRUE(up.ok()) << problems(up);
  destroy(rig, 101);
  clone_vm(rig, 950, 101, "a-copy-of-it");
  const std::string before = all_of(rig, 101);
  refused([&] { rig.up(); });
  EXPECT_TRUE(rig.down().ok());
  EXPECT_EQ(all_of(rig, 101), before);
}

TEST(Claims, NotesThatSomebodyEditedDestroyNothing) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  test::Administrator client = root(rig);
  proxmox::VmUpdate update;
  update.set["description"] = "What a create that died has left. rocca takes it away.";
  client.update("pve1", 101, update);
  const std::string disk = option(rig, 101, "scsi0");
  const engine::Report up = rig.up();
  EXPECT_TRUE(up.ok()) << problems(up);
  EXPECT_EQ(option(rig, 101, "scsi0"), disk);
  EXPECT_THAT(option(rig, 101, "description"), HasSubstr("Worker worker-1")) << "put right again";
}

TEST(Claims, APendingLossOfTheMarkIsTakenBack) {
  ClusterRig rig;
  rig.write_spec(static_spec(pools(1, 1)));
  ASSERT_TRUE(rig.up().ok());
  const std::string marked = option(rig, 101, "smbios1");
  take_proof(rig, 101, /*tags=*/false);  // it runs: this waits for the next stop
  EXPECT_THAT(differences(rig.plan()), Contains(HasSubstr("smbios1.pending")));
  const engine::Report up = rig.up();
  EXPECT_TRUE(up.ok()) << problems(up);
  stop(rig, 101);
  EXPECT_EQ(option(rig, 101, "smbios1"), marked);
}

std::string with_vmid(unsigned vmid) {
  return static_spec(fmt::format(
      "  nodes:\n"
      "    cp-1: {{ role: controlplane, address: 10.0.1.11 }}\n"
      "    w-1: {{ role: worker, address: 10.0.1.21, machine: {{ vmid: {}, memory: 4GiB }} }}\n",
      vmid));
}

TEST(Claims, AnotherVmidIsAReplacement) {
  ClusterRig rig;
  rig.write_spec(with_vmid(130));
  ASSERT_TRUE(rig.up().ok());
  const std::string lock = *rig.files.find("/clusters/blue/rocca.lock");
  rig.write_spec(with_vmid(140));
  EXPECT_THAT(differences(rig.plan()),
              Contains(AllOf(StartsWith("-/+ vm/w-1"), HasSubstr("[vmid: '130' -> '140']"))));
  EXPECT_THAT(refused([&] { rig.up(); }),
              AllOf(HasSubstr("--allow replace"), HasSubstr("machine.vmid: 130")));
  EXPECT_EQ(*rig.files.find("/clusters/blue/rocca.lock"), lock) << "nothing is written";
  EXPECT_TRUE(rig.home.dc.vms.contains(130));
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::Replace);
  const engine::Report up = rig.up(options);
  EXPECT_TRUE(up.ok()) << problems(up);
  EXPECT_THAT(rig.home.dc.vms, ElementsAre(Key(100u), Key(140u)));
  EXPECT_THAT(differences(rig.plan()), IsEmpty());
}

TEST(Claims, AnotherVmidThatIsTakenIsRefusedBeforeAnythingIsDestroyed) {
  ClusterRig rig;
  rig.write_spec(with_vmid(130));
  ASSERT_TRUE(rig.up().ok());
  rig.write_spec(with_vmid(100));
  resources::RunOptions options;
  options.policy.allowed.insert(engine::Effect::Replace);
  std::string message;
  try {
    rig.up(options);
  } catch (const Error& error) {
    message = error.render();
  }
  EXPECT_THAT(message, HasSubstr("100"));
  EXPECT_THAT(rig.home.dc.vms, ElementsAre(Key(100u), Key(130u)));
  clone_vm(rig, 130, 140, "a-copy");
  rig.write_spec(with_vmid(140));
  EXPECT_THAT(refused([&] { rig.up(options); }), HasSubstr("VM 140 'a-copy' on pve1"));
  EXPECT_THAT(rig.home.dc.vms, ElementsAre(Key(100u), Key(130u), Key(140u)));
}

}  // namespace
}  // namespace rocca::scenarios
