#include "talosconfig/effects.hpp"

#include "base/error.hpp"
#include "support/golden.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

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
        Row{"Type", "type: worker", "type: controlplane", "machine.type", ConfigEffect::Fixed},
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
        Row{"HostName", "cluster:", "  network: { hostname: a }\ncluster:",
            "machine.network.hostname", ConfigEffect::Fixed},
        Row{"HostNameDocument", "version: v1alpha1",
            "apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n---\nversion: v1alpha1",
            "v1alpha1/HostnameConfig", ConfigEffect::Fixed},
        Row{"Nameservers", "cluster:", "  network: { nameservers: [10.0.0.1] }\ncluster:",
            "machine.network.nameservers", ConfigEffect::Live},
        Row{"KubePrism", "cluster:", "  features: { kubePrism: { enabled: true } }\ncluster:",
            "machine.features.kubePrism", ConfigEffect::Live},
        Row{"DiskQuota", "cluster:", "  features: { diskQuotaSupport: true }\ncluster:",
            "machine.features.diskQuotaSupport", ConfigEffect::Reboot},
        Row{"Labels", "cluster:", "  nodeLabels: { a: b }\ncluster:", "machine.nodeLabels",
            ConfigEffect::Live},
        Row{"Endpoint", "10.0.0.20", "10.0.0.21", "cluster.controlPlane", ConfigEffect::Service},
        Row{"ClusterName", more, "cluster:\n  clusterName: x\n  controlPlane",
            "cluster.clusterName", ConfigEffect::Live},
        Row{"ClusterId", more, "cluster:\n  id: x\n  controlPlane", "cluster.id",
            ConfigEffect::Fixed},
        Row{"PodSubnets", more,
            "cluster:\n  network: { podSubnets: [10.1.0.0/16] }\n  controlPlane",
            "cluster.network.podSubnets", ConfigEffect::Fixed},
        Row{"ServiceSubnets", more,
            "cluster:\n  network: { serviceSubnets: [10.1.0.0/16] }\n  controlPlane",
            "cluster.network.serviceSubnets", ConfigEffect::Fixed},
        Row{"DnsDomain", more, "cluster:\n  network: { dnsDomain: home }\n  controlPlane",
            "cluster.network.dnsDomain", ConfigEffect::Fixed},
        Row{"Cni", more, "cluster:\n  network: { cni: { name: none } }\n  controlPlane",
            "cluster.network.cni.name", ConfigEffect::Fixed},
        Row{"FlannelArguments", more,
            "cluster:\n  network: { cni: { flannel: { extraArgs: [-v] } } }\n  controlPlane",
            "cluster.network.cni.flannel", ConfigEffect::Live},
        Row{"EncryptionKey", more, "cluster:\n  secretboxEncryptionSecret: x\n  controlPlane",
            "cluster.secretboxEncryptionSecret", ConfigEffect::Fixed},
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

/// Talos 1.12 moved it into a document of its own: a node that only writes it elsewhere keeps it.
TEST(Effects, OfAHostNameThatOnlyMovesAreLive) {
  const std::string old_form = std::string(base).replace(std::string(base).find("cluster:"), 8,
                                                         "  network: { hostname: a }\ncluster:");
  const std::string name = "apiVersion: v1alpha1\nkind: HostnameConfig\nauto: off\nhostname: ";
  const auto moved = effects_of_change(old_form, name + "a\n---\n" + base, 12);
  EXPECT_THAT(moved, testing::SizeIs(2));
  EXPECT_EQ(effect_of(moved), ConfigEffect::Live);
  EXPECT_EQ(effect_of(effects_of_change(old_form, name + "b\n---\n" + base, 12)),
            ConfigEffect::Fixed);
}

/// All keys that a value can stand at.
void leaves(const StructType& fields, const std::string& path, std::vector<std::string>& out) {
  for (const Field& field : fields.fields) {
    const std::string at = path.empty() ? field.key : path + "." + field.key;
    const Type* type = &field.type;
    while (type->item != nullptr) type = type->item.get();
    if (type->shape == Shape::Struct && !type->fields->fields.empty())
      leaves(*type->fields, at, out);
    else
      out.push_back(at);
  }
}

TEST(EffectTable, HasEveryKeyThatTalosKnows) {
  std::vector<std::string> keys;
  leaves(main_document(), "", keys);
  EXPECT_GT(keys.size(), 200u);
  for (const std::string& key : keys)
    EXPECT_NE(find_config_key(key), nullptr)
        << key << " has no effect class: add a row to config_effects_table.cpp";
  for (unsigned minor = oldest_minor; minor <= newest_minor; ++minor)
    for (const std::string& kind : document_kinds(minor))
      EXPECT_NE(find_config_key("v1alpha1/" + kind), nullptr)
          << kind << " has no effect class: add a row to config_effects_table.cpp";
}

TEST(EffectTable, HasNoKeyThatTalosDoesNotKnowAndNoRowForAll) {
  std::vector<std::string> known;
  leaves(main_document(), "", known);
  std::set<std::string_view> seen;
  for (const ConfigKey& key : config_keys()) {
    EXPECT_TRUE(seen.insert(key.path).second) << key.path << " stands twice";
    EXPECT_NE(key.path, "machine");
    EXPECT_NE(key.path, "cluster");
    EXPECT_TRUE(std::any_of(known.begin(), known.end(), [&](const std::string& each) {
      return each == key.path || each.starts_with(std::string(key.path) + ".");
    })) << key.path;
  }
  for (const ConfigKey& key : config_document_keys()) {
    EXPECT_TRUE(seen.insert(key.path).second) << key.path << " stands twice";
    EXPECT_NE(find_document_type(key.path), nullptr) << key.path;
  }
}

TEST(EffectTable, SaysWhyAKeyIsFixedAndWhatToDo) {
  for (const auto& table : {config_keys(), config_document_keys()})
    for (const ConfigKey& key : table) {
      EXPECT_NE(key.effect, ConfigEffect::None) << key.path;
      EXPECT_EQ(key.effect == ConfigEffect::Fixed, !key.why.empty()) << key.path;
      EXPECT_EQ(key.effect == ConfigEffect::Fixed, !key.way_out.empty()) << key.path;
    }
  EXPECT_EQ(find_config_key("machine.somethingOfTomorrow"), nullptr);
  EXPECT_EQ(find_config_key("machine.kubeletOfTomorrow"), nullptr);
  EXPECT_EQ(find_config_key("v1alpha1/SomethingOfTomorrow/a"), nullptr);
}

std::string rows(std::span<const ConfigKey> table) {
  std::string text = "|---|---|---|\n";
  for (const ConfigKey& key : table)
    text += fmt::format("| `{}` | {} | {} |\n", key.path, to_string(key.effect), key.why);
  return text;
}

TEST(EffectTable, IsTheOneInTheDocumentation) {
  test::expect_golden(
      "../../docs/effects.md",
      "# What it costs to change a machine configuration\n\n"
      "Generated from the table that `rocca plan` uses. A row holds for its key and everything "
      "below it; a key that has\n"
      "no row counts as `reboot`. The keys are Talos's own, as `talos.patches` writes them.\n\n"
      "| class | meaning |\n|---|---|\n"
      "| live | applied at once, nothing restarts; or nothing happens before the next upgrade |\n"
      "| service | the kubelet, a pod of the control plane or the service of an extension restarts "
      "|\n"
      "| reboot | the node reboots |\n"
      "| fixed | decided when the cluster or node is created: the plan refuses the change |\n\n"
      "A host name that only moves between the two places where Talos keeps it is `live`, and so "
      "is a change of\n"
      "`machine.registries.config` that leaves credentials alone. Images of Kubernetes components "
      "change in an order of\n"
      "their own: see [engine.md](engine.md).\n\n"
      "| key | class | why it is fixed |\n" +
          rows(config_keys()) + "\n| document | class | why it is fixed |\n" +
          rows(config_document_keys()));
}

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
           {"machine.somethingOfTomorrow", Disturbance::Away},
           {"cluster.somethingOfTomorrow.a", Disturbance::Away},
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
      ElementsAre(ShownChange{"machine.type", "worker", "controlplane", ConfigEffect::Fixed}));
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
