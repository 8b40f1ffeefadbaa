// What our client asks for is what happens to a node: every call of it, on nodes of the lab.

#include "base/encoding.hpp"
#include "scenarios/node_rig.hpp"
#include "secrets/crypto.hpp"

namespace rocca::scenarios {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr const char* lan = "subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: [10.0.0.1]";
constexpr const char* three =
    "    cp-1: { role: controlplane, address: 10.0.0.11 }\n"
    "    cp-2: { role: controlplane, address: 10.0.0.12 }\n"
    "    cp-3: { role: controlplane, address: 10.0.0.13 }\n";
constexpr const char* one = "    cp-1: { role: controlplane, address: 10.0.0.11 }\n";

talos::ResetOptions wiped(std::vector<std::string> partitions) {
  talos::ResetOptions options;
  options.graceful = false;
  options.reboot = true;
  options.partitions = std::move(partitions);
  return options;
}

class TalosCalls : public ::testing::TestWithParam<const char*> {
 protected:
  void raise(const char* nodes) {
    rig = std::make_unique<NodeRig>(spec_text(GetParam(), lan, nodes, vip));
    for (const spec::Node& node : rig->spec.nodes) {
      rig->create(node);
      const std::string at = to_string(**node.address);
      ASSERT_TRUE(rig->until([&] { return rig->in_maintenance(at); })) << node.name;
      rig->maintenance(at).apply(rig->config(node), {});
    }
    for (const spec::Node& node : rig->spec.nodes)
      ASSERT_TRUE(rig->until([&] { return rig->answers(to_string(**node.address)); }));
    rig->pause(15s);
    rig->secure("10.0.0.11").bootstrap();
    for (const spec::Node& node : rig->spec.nodes) ASSERT_TRUE(runs(node.name)) << node.name;
  }
  bool runs(const std::string& name) {
    const std::string at = to_string(**rig->node(name).address);
    return rig->until([&] {
      if (!rig->answers(at)) return false;
      const auto status = rig->secure(at).find_machine_status();
      const auto* known = std::get_if<talos::MachineStatus>(&status);
      return known != nullptr && known->stage == talos::Stage::Running && known->ready;
    });
  }
  std::string boot_id() {
    return rig->secure("10.0.0.11").read_file("/proc/sys/kernel/random/boot_id");
  }
  std::string image(unsigned later) {
    const Version& now = *rig->spec.talos.version;
    const std::string name =
        talos::installer_of(rig->spec, rig->node("cp-1"), rig->schematic(rig->node("cp-1")));
    return name.substr(0, name.rfind(':')) + ":v" +
           to_string(Version(now.major(), now.minor(), now.patch() + later));
  }
  std::string snapshot() {
    std::string bytes;
    rig->secure("10.0.0.11").etcd_snapshot([&](std::string_view part) {
      bytes += part;
      return true;
    });
    return bytes;
  }

  static constexpr const char* vip = ", endpoint: { vip: 10.0.0.20 }";
  std::unique_ptr<NodeRig> rig;
};

TEST_P(TalosCalls, TellWhoANodeIsAndHowItIs) {
  raise(three);
  talos::Client node = rig->secure("10.0.0.11");
  EXPECT_EQ(node.version().tag, GetParam());
  EXPECT_EQ(node.version().platform, "nocloud");
  EXPECT_THAT(node.services(), Contains(AllOf(Field(&talos::Service::id, "etcd"),
                                              Field(&talos::Service::state, "Running"),
                                              Field(&talos::Service::healthy, true))));
  EXPECT_THAT(node.members(), UnorderedElementsAre(Field(&talos::Member::hostname, "cp-1"),
                                                   Field(&talos::Member::hostname, "cp-2"),
                                                   Field(&talos::Member::hostname, "cp-3")));
  EXPECT_THAT(node.addresses(),
              Contains(AllOf(Field(&talos::Address::link, "eth0"),
                             Field(&talos::Address::address, *Cidr::parse("10.0.0.11/16")))));
  EXPECT_THAT(node.links(),
              Contains(AllOf(Field(&talos::Link::name, "eth0"), Field(&talos::Link::mtu, 1500u),
                             Field(&talos::Link::physical, true))));
  EXPECT_THAT(node.disks(), Contains(Field(&talos::Disk::serial, "system")));
  EXPECT_EQ(node.find_system_disk(), "sda");
  EXPECT_THAT(
      node.extensions(),
      AllOf(Contains(Field(&talos::Extension::name, "qemu-guest-agent")),
            Contains(Field(&talos::Extension::version, rig->schematic(rig->node("cp-1"))))));
  EXPECT_EQ(node.find_hostname(), "cp-1");
  EXPECT_TRUE(node.time_in_sync());
  EXPECT_EQ(node.find_config()->reveal(), rig->config(rig->node("cp-1")).reveal());
  EXPECT_EQ(node.find_system_information()->uuid, rig->uuid(rig->node("cp-1")));
  EXPECT_THAT(std::string(node.kubeconfig().reveal()), HasSubstr("https://10.0.0.20:6443"));
}

TEST_P(TalosCalls, ShowWhatHappened) {
  raise(one);
  talos::Client node = rig->secure("10.0.0.11");
  std::string logs, kernel;
  node.logs("etcd", 5, [&](std::string_view part) {
    logs += part;
    return true;
  });
  node.dmesg([&](std::string_view part) {
    kernel += part;
    return true;
  });
  EXPECT_FALSE(logs.empty());
  EXPECT_THAT(kernel, HasSubstr("[talos]"));
  std::vector<std::string> types;
  node.events(-1, [&](const talos::Event& event) {
    types.push_back(event.type);
    return types.size() < 3;
  });
  EXPECT_THAT(types, SizeIs(3));
}

TEST_P(TalosCalls, WriteMetaAndTakeItAway) {
  raise(one);
  talos::Client node = rig->secure("10.0.0.11");
  const auto found = [&] {
    return node.find_resource("runtime", "MetaKeys.runtime.talos.dev", "0x0c");
  };
  node.meta_write(12, "a note");
  ASSERT_TRUE(found());
  EXPECT_THAT(found()->yaml, HasSubstr("a note"));
  EXPECT_TRUE(node.meta_delete(12));
  EXPECT_FALSE(found());
  EXPECT_FALSE(node.meta_delete(12)) << "it is gone already";
}

TEST_P(TalosCalls, KeepTheMembersOfEtcd) {
  raise(three);
  talos::Client node = rig->secure("10.0.0.11");
  const auto members = node.etcd_members();
  ASSERT_THAT(members, SizeIs(3));
  const std::uint64_t leader = node.etcd_status().leader;
  EXPECT_THAT(members, Contains(Field(&talos::EtcdMember::id, leader)));
  EXPECT_THAT(node.etcd_alarms(), IsEmpty());
  EXPECT_NO_THROW(node.etcd_defragment());
  for (const talos::EtcdMember& member : members)
    if (member.id == leader)
      for (const spec::Node& each : rig->spec.nodes)
        if (each.name == member.hostname)
          rig->secure(to_string(**each.address)).etcd_forfeit_leadership();
  EXPECT_NE(node.etcd_status().leader, leader) << "another leads now";

  const std::string bytes = snapshot();
  ASSERT_EQ(bytes.size() % 512, 32u);
  EXPECT_EQ(secrets::crypto::sha256(bytes.substr(0, bytes.size() - 32)),
            bytes.substr(bytes.size() - 32));

  rig->finish(rig->pve.start_stop("pve1", rig->vmid(rig->node("cp-3"))));
  for (const talos::EtcdMember& member : members)
    if (member.hostname == "cp-3") {
      EXPECT_TRUE(rig->until([&] {
        try {
          node.etcd_remove_member(member.id);
          return true;
        } catch (const Error&) {
          return false;
        }
      }));
    }
  const auto left = [&](std::size_t count) {
    return rig->until([&] {
      try {
        return node.etcd_members().size() == count;
      } catch (const Error&) {
        return false;  // they elect
      }
    });
  };
  EXPECT_TRUE(left(2));
  rig->secure("10.0.0.12").etcd_leave();
  EXPECT_TRUE(left(1));
}

TEST_P(TalosCalls, ChangeTheReleaseAndGoBack) {
  raise(one);
  talos::Client node = rig->secure("10.0.0.11");
  const std::string next = image(1), tag = next.substr(next.rfind(':') + 1);
  const std::string before = boot_id();
  EXPECT_FALSE(node.reboot().empty()) << "who did it, to follow";
  EXPECT_TRUE(rig->until([&] { return rig->answers("10.0.0.11") && boot_id() != before; }));
  ASSERT_TRUE(runs("cp-1"));
  if (rig->spec.talos.version->minor() >= 13) {
    std::string told;
    node.lifecycle_upgrade(next, [&](std::string_view line) { told += line; });
    EXPECT_FALSE(told.empty());
    EXPECT_EQ(node.version().tag, GetParam()) << "the other half waits for a reboot";
    node.reboot();
  } else {
    node.upgrade({.image = next});
  }
  EXPECT_TRUE(rig->until([&] { return rig->truth(rig->node("cp-1")).installed_version == tag; }));
  ASSERT_TRUE(runs("cp-1"));
  EXPECT_EQ(node.version().tag, tag);
  node.rollback();
  EXPECT_TRUE(
      rig->until([&] { return rig->answers("10.0.0.11") && node.version().tag == GetParam(); }));
}

TEST_P(TalosCalls, AnUpgradeThatTheReleaseCannotTakeLeavesItAsItIs) {
  raise(one);
  const std::string now = image(0);
  const std::string far = now.substr(0, now.rfind(':')) + ":v1.9.6";
  talos::Client node = rig->secure("10.0.0.11");
  if (rig->spec.talos.version->minor() >= 13) {
    std::string told;
    EXPECT_THROW(node.lifecycle_upgrade(far, [&](std::string_view line) { told += line; }), Error);
    EXPECT_THAT(told, HasSubstr("too new to downgrade to Talos 1.9.6"));
  } else {
    node.upgrade({.image = far});  // its installer looks, when the call is long over
  }
  rig->pause(2min);
  ASSERT_TRUE(runs("cp-1"));
  EXPECT_EQ(node.version().tag, GetParam());
}

TEST_P(TalosCalls, ASnapshotBringsALostEtcdBack) {
  raise(one);
  const std::string kept = snapshot();
  talos::Client node = rig->secure("10.0.0.11");
  const std::string before = boot_id();
  node.reset(wiped({"EPHEMERAL"}));
  ASSERT_TRUE(rig->until([&] { return rig->answers("10.0.0.11") && boot_id() != before; }));
  rig->pause(30s);
  EXPECT_NE(rig->truth(rig->node("cp-1")).stage, lab::talos::Stage::Running) << "etcd is gone";
  std::size_t at = 0;
  node.etcd_recover([&]() -> std::optional<std::string> {
    if (at >= kept.size()) return std::nullopt;
    std::string part = kept.substr(at, 4096);
    at += part.size();
    return part;
  });
  node.bootstrap(true);
  EXPECT_TRUE(runs("cp-1"));
  EXPECT_THAT(node.etcd_members(), ElementsAre(Field(&talos::EtcdMember::hostname, "cp-1")));
}

TEST_P(TalosCalls, ResetTakesWhatItIsAskedToTake) {
  raise(one);
  rig->secure("10.0.0.11").reset(wiped({"STATE", "EPHEMERAL"}));
  rig->pause(5s);
  EXPECT_TRUE(rig->until([&] { return rig->in_maintenance("10.0.0.11"); }))
      << "without its configuration, and still from its disk";
  rig->maintenance("10.0.0.11").apply(rig->config(rig->node("cp-1")), {});
  ASSERT_TRUE(rig->until([&] { return rig->answers("10.0.0.11"); }));
  rig->secure("10.0.0.11").reset(wiped({}));
  rig->pause(5s);
  EXPECT_FALSE(rig->until(
      [&] { return rig->in_maintenance("10.0.0.11") || rig->answers("10.0.0.11"); }, 3min))
      << "its system is gone with the disk";
}

TEST_P(TalosCalls, ShutdownSwitchesTheMachineOff) {
  raise(one);
  rig->secure("10.0.0.11").shutdown();
  EXPECT_TRUE(rig->until([&] {
    return rig->pve.find_status("pve1", rig->vmid(rig->node("cp-1")))->status == "stopped";
  }));
}

INSTANTIATE_TEST_SUITE_P(Releases, TalosCalls, ::testing::Values("v1.11.5", "v1.13.8"),
                         [](const auto& param) {
                           return replace_all(replace_all(param.param, ".", "_"), "v", "talos_");
                         });

}  // namespace
}  // namespace rocca::scenarios
