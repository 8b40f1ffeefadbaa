#include "talos/config_effects.hpp"

#include "base/error.hpp"

#include <gmock/gmock.h>

namespace rocca::talos {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* base = R"(version: v1alpha1
machine:
  type: worker
  token: hidden
  kubelet: { image: "a:1" }
  install: { disk: /dev/sda, image: "i:1" }
  registries: { config: { r: { auth: { username: u } } } }
cluster:
  controlPlane: { endpoint: "https://10.0.0.20:6443" }
)";

struct Row {
  const char* name;
  const char* from;  // a piece of the base,
  const char* to;    // what takes its place
  const char* path;
  ConfigEffect effect;
};

class Effects : public testing::TestWithParam<Row> {};

TEST_P(Effects, AreToldBySection) {
  const Row& row = GetParam();
  std::string changed = base;
  changed.replace(changed.find(row.from), std::string_view{row.from}.size(), row.to);
  const auto changes = effects_of_change(base, changed, 13);
  EXPECT_THAT(changes, ElementsAre(ConfigChange{row.path, row.effect}));
  EXPECT_EQ(effect_of(changes), row.effect);
  // The way back costs the same.
  EXPECT_EQ(effect_of(effects_of_change(changed, base, 13)), row.effect);
}

constexpr const char* more = "cluster:\n  controlPlane";
INSTANTIATE_TEST_SUITE_P(
    Table, Effects,
    testing::Values(
        Row{"Debug", "version: v1alpha1", "version: v1alpha1\ndebug: true", "debug",
            ConfigEffect::Live},
        Row{"Persist", "version: v1alpha1", "version: v1alpha1\npersist: false", "persist",
            ConfigEffect::Reboot},
        Row{"Type", "type: worker", "type: controlplane", "machine.type", ConfigEffect::Reboot},
        Row{"Token", "token: hidden", "token: other", "machine.token", ConfigEffect::Reboot},
        Row{"Kubelet", "a:1", "a:2", "machine.kubelet", ConfigEffect::Service},
        Row{"Install", "i:1", "i:2", "machine.install", ConfigEffect::Live},
        Row{"RegistryAuth", "username: u", "username: v", "machine.registries.config",
            ConfigEffect::Reboot},
        Row{"RegistryTls", "r: { auth", "r: { tls: { insecureSkipVerify: true }, auth",
            "machine.registries.config", ConfigEffect::Live},
        Row{"Mirror", "registries: {", "registries: { mirrors: { a: { endpoints: [b] } },",
            "machine.registries.mirrors", ConfigEffect::Live},
        Row{"Sysctl", "cluster:", "  sysctls: { a: b }\ncluster:", "machine.sysctls",
            ConfigEffect::Live},
        Row{"Env", "cluster:", "  env: { a: b }\ncluster:", "machine.env", ConfigEffect::Reboot},
        Row{"Files", "cluster:", "  files: [{ path: /var/a, op: create }]\ncluster:",
            "machine.files", ConfigEffect::Reboot},
        Row{"Udev", "cluster:", "  udev: { rules: [a] }\ncluster:", "machine.udev",
            ConfigEffect::Reboot},
        Row{"Network", "cluster:", "  network: { hostname: a }\ncluster:", "machine.network",
            ConfigEffect::Live},
        Row{"KubePrism", "cluster:", "  features: { kubePrism: { enabled: true } }\ncluster:",
            "machine.features.kubePrism", ConfigEffect::Live},
        Row{"DiskQuota", "cluster:", "  features: { diskQuotaSupport: true }\ncluster:",
            "machine.features.diskQuotaSupport", ConfigEffect::Reboot},
        Row{"Labels", "cluster:", "  nodeLabels: { a: b }\ncluster:", "machine.nodeLabels",
            ConfigEffect::Live},
        Row{"Endpoint", "10.0.0.20", "10.0.0.21", "cluster.controlPlane", ConfigEffect::Service},
        Row{"ClusterName", more, "cluster:\n  clusterName: x\n  controlPlane",
            "cluster.clusterName", ConfigEffect::Live},
        Row{"ApiServer", more, "cluster:\n  apiServer: { image: x }\n  controlPlane",
            "cluster.apiServer", ConfigEffect::Service},
        Row{"Document", "version: v1alpha1",
            "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\n---\nversion: v1alpha1",
            "v1alpha1/LinkConfig/eth0", ConfigEffect::Live},
        Row{"Extension", "version: v1alpha1",
            "apiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: t\nenvironment: [A=b]\n"
            "---\nversion: v1alpha1",
            "v1alpha1/ExtensionServiceConfig/t", ConfigEffect::Service}),
    [](const auto& row) { return row.param.name; });

/// The base with one piece changed, as people see it.
std::vector<ShownChange> shown(const std::string& from, const std::string& to,
                               const std::vector<Secret>& hidden = {}) {
  std::string changed = base;
  changed.replace(changed.find(from), from.size(), to);
  return shown_changes(base, changed, 13, {hidden});
}

struct Disturbed {
  const char* path;
  Disturbance expected;
};

TEST(Disturbances, AreToldBySectionAndByWhatStandsInIt) {
  for (const Disturbed& each : std::initializer_list<Disturbed>{
           {"machine.network", Disturbance::Away},
           {"machine.network.interfaces[0].mtu", Disturbance::Away},
           {"v1alpha1/LinkConfig/eth0", Disturbance::Away},
           {"v1alpha1/LinkConfig/eth0/mtu", Disturbance::Away},
           {"v1alpha1/SomethingOfTomorrow/a", Disturbance::Away},
           {"cluster.etcd.extraArgs.v", Disturbance::Away},
           {"cluster.apiServer", Disturbance::Services},
           {"cluster.controllerManager", Disturbance::Services},
           {"machine.kubelet.extraArgs.v", Disturbance::Services},
           {"machine.sysctls.net.ipv4.ip_forward", Disturbance::Services},
           {"v1alpha1/ExtensionServiceConfig/tailscale", Disturbance::Services},
           {"machine.nodeLabels.room", Disturbance::None},
           {"machine.install.image", Disturbance::None},
           {"cluster.inlineManifests[0].contents", Disturbance::None},
           {"v1alpha1/UserVolumeConfig/data", Disturbance::None}})
    EXPECT_EQ(disturbance_at(each.path), each.expected) << each.path;
}

TEST(Shown, AreTheValuesThatDiffer) {
  EXPECT_THAT(
      shown("a:1\" }", "a:2\", extraArgs: { v: \"4\" } }"),
      ElementsAre(ShownChange{"machine.kubelet.image", "a:1", "a:2", ConfigEffect::Service},
                  ShownChange{"machine.kubelet.extraArgs.v", "", "4", ConfigEffect::Service}));
  EXPECT_THAT(
      shown("type: worker", "type: controlplane"),
      ElementsAre(ShownChange{"machine.type", "worker", "controlplane", ConfigEffect::Reboot}));
  EXPECT_THAT(
      shown("install: {", "certSANs: [a, b]\n  install: {"),
      ElementsAre(ShownChange{"machine.certSANs", "", "[\"a\",\"b\"]", ConfigEffect::Live}));
  EXPECT_THAT(shown("version: v1alpha1",
                    "apiVersion: v1alpha1\nkind: LinkConfig\nname: eth0\nmtu: 9000\n---\nversion: "
                    "v1alpha1"),
              testing::Contains(
                  ShownChange{"v1alpha1/LinkConfig/eth0/mtu", "", "9000", ConfigEffect::Live}));
  EXPECT_THAT(shown("a:1", "a:1"), IsEmpty());
}

TEST(Shown, NeverASecret) {
  EXPECT_THAT(
      shown("token: hidden", "token: other"),
      ElementsAre(ShownChange{"machine.token", "***", "*** (another)", ConfigEffect::Reboot}));
  EXPECT_THAT(shown("username: u", "username: u, password: swordfish"),
              ElementsAre(ShownChange{"machine.registries.config.r.auth.password", "", "***",
                                      ConfigEffect::Reboot}));
  // One that a patch brought in, wherever it stands.
  const auto changes = shown("disk: /dev/sda", "disk: swordfish", {Secret{"swordfish"}});
  EXPECT_THAT(changes, ElementsAre(ShownChange{"machine.install.disk", "***", "*** (another)",
                                               ConfigEffect::Live}));
}

TEST(Shown, AreShortAndTellApart) {
  const std::string longer(200, 'x');
  const auto cut = shown("i:1", longer + "1");
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_LT(cut[0].after.size(), 80u);
  const std::string text =
      "cluster:\n  inlineManifests: [ { name: m, contents: \"a: 1\\nb: 2\\nc: 3\" } ]\n";
  std::string other = text;
  other.replace(other.find("b: 2"), 4, "b: 5");
  Secrecy known{{}, Secret{"key"}};
  known.remembered = remember(text, 13, known);
  EXPECT_THAT(shown_changes(text, other, 13, known),
              ElementsAre(ShownChange{"cluster.inlineManifests[0].contents", "line 2: b: 2",
                                      "line 2: b: 5", ConfigEffect::Live}));
  std::string first = base, second = base;
  first.replace(first.find("i:1"), 3, longer + "1");
  second.replace(second.find("i:1"), 3, longer + "2");
  const auto alike = shown_changes(first, second, 13, {});
  ASSERT_EQ(alike.size(), 1u);
  EXPECT_NE(alike[0].before, alike[0].after);
}

TEST(Effects, AreNoneForTheSameMeaning) {
  std::string same = base;
  same.replace(same.find("token: hidden"), 13, "token: \"hidden\"  # quoted");
  EXPECT_THAT(effects_of_change(base, same, 13), IsEmpty());
  EXPECT_EQ(effect_of({}), ConfigEffect::None);
  EXPECT_THROW(effects_of_change(base, "machine: { nosuch: 1 }", 13), Error);
}

}  // namespace
}  // namespace rocca::talos
