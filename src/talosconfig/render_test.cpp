#include "talosconfig/render.hpp"

#include "base/error.hpp"
#include "support/golden.hpp"
#include "talosconfig/config_test_support.hpp"
#include "talosconfig/input.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::talos {
namespace {

using config_tests::bundle;
using config_tests::load;
using config_tests::surroundings;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using text::Value;

struct Release {
  const char* talos;
  const char* kubernetes;
};
constexpr Release releases[] = {{"1.9.5", "1.32.1"},
                                {"1.10.9", "1.33.6"},
                                {"1.11.6", "1.34.1"},
                                {"1.12.7", "1.35.0"},
                                {"1.13.9", "1.36.3"}};

/// A cluster of two in one of the three ways of addressing; `more` is added to its spec.
std::string cluster(const Release& release, const std::string& addressing,
                    const std::string& more = "") {
  const bool dhcp = addressing == "dhcp";
  return fmt::format(
      R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: {{ name: blue }}
spec:
  talos: {{ version: v{}, extensions: [qemu-guest-agent{}] }}
  kubernetes: {{ version: v{}, endpoint: {{ {} }} }}
  network: {{ addressing: {}{} }}
  proxmox:
    endpoints: [https://pve.home:8006]
    insecure: true
    token: {{ secret: proxmox.token }}
    hosts: [atlas]
  nodes:
    cp-1: {{ role: controlplane{} }}
    worker-1: {{ role: worker{} }}
{})",
      release.talos, more.find("tailscale:") != std::string::npos ? ", tailscale" : "",
      release.kubernetes, dhcp ? "host: k8s.home" : "vip: 10.0.0.20", addressing,
      dhcp ? "" : ", subnet: 10.0.0.0/24, gateway: 10.0.0.1, nameservers: [10.0.0.1]",
      dhcp ? "" : ", address: 10.0.0.11", dhcp ? "" : ", address: 10.0.0.21", more);
}

std::vector<Value> parsed(const MachineConfig& config) {
  return text::parse_yaml_stream(config.text.reveal(), "rendered");
}

const Value* find_kind(const std::vector<Value>& documents, std::string_view kind) {
  for (const Value& document : documents)
    if (const Value* found = document.find("kind"); found != nullptr && found->text() == kind)
      return &document;
  return nullptr;
}

std::string text_at(const Value& value, std::initializer_list<std::string_view> path) {
  const Value* found = value.find(path);
  return found != nullptr ? found->text() : "(absent)";
}

class Golden : public testing::TestWithParam<std::tuple<Release, const char*, const char*>> {};

TEST_P(Golden, IsWhatWasMeant) {
  const auto& [release, addressing, node_name] = GetParam();
  const spec::Spec spec = load(cluster(release, addressing));
  const spec::Node& node = *spec.find_node(node_name);
  const MachineConfig config = render_config(config_input(spec, node, surroundings()));
  const unsigned minor = static_cast<unsigned>(spec.talos.version->minor());
  test::expect_golden(fmt::format("talos/1.{}-{}-{}.yaml", minor, addressing, node_name),
                      config.masked);

  // Read back by our own reader: nothing unknown in it, and it says what was asked for.
  ConfigProblems problems;
  const auto documents = decode_config(parsed(config), minor, problems);
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_EQ(encode_config(documents, minor), config.text.reveal());
  const Value& main = documents.front().value;
  const bool dhcp = std::string_view{addressing} == "dhcp";
  EXPECT_EQ(text_at(main, {"machine", "type"}), node.control_plane() ? "controlplane" : "worker");
  EXPECT_EQ(text_at(main, {"machine", "install", "diskSelector", "serial"}), "system");
  EXPECT_EQ(main.find({"machine", "install", "disk"}), nullptr);
  EXPECT_EQ(text_at(main, {"cluster", "controlPlane", "endpoint"}),
            dhcp ? "https://k8s.home:6443" : "https://10.0.0.20:6443");
  const std::string platform = std::string_view{addressing} == "meta" ? "metal" : "nocloud";
  EXPECT_EQ(text_at(main, {"machine", "install", "image"}),
            fmt::format("factory.talos.dev/{}installer/{}:v{}", minor < 10 ? "" : platform + "-",
                        surroundings().schematic, release.talos));
  const auto values = parsed(config);
  const Value* hostname = find_kind(values, "HostnameConfig");
  EXPECT_EQ(minor >= 12 ? text_at(*hostname, {"hostname"})
                        : text_at(main, {"machine", "network", "hostname"}),
            node_name);
  const Value* vip = find_kind(values, "Layer2VIPConfig");
  const bool has_vip = !dhcp && node.control_plane();
  EXPECT_EQ(vip != nullptr, has_vip && minor >= 12);
  EXPECT_EQ(text_at(main, {"machine", "network", "interfaces", "0", "vip", "ip"}),
            has_vip && minor < 12 ? "10.0.0.20" : "(absent)");
  EXPECT_THAT(config.masked, Not(HasSubstr("hidden")));
}

INSTANTIATE_TEST_SUITE_P(EveryMinor, Golden,
                         testing::Combine(testing::ValuesIn(releases),
                                          testing::Values("nocloud", "meta", "dhcp"),
                                          testing::Values("cp-1", "worker-1")),
                         [](const auto& given) {
                           std::string name =
                               fmt::format("{}_{}_{}", std::get<0>(given.param).talos,
                                           std::get<1>(given.param), std::get<2>(given.param));
                           for (char& c : name)
                             if (c == '.' || c == '-') c = '_';
                           return name;
                         });

TEST(Render, SecretsAreInTheTextAndNeverInTheMaskedOne) {
  const spec::Spec spec = load(cluster(releases[2], "nocloud", R"(  tailscale:
    authKey: { secret: tailscale.authKey }
    loginServer: https://headscale.home
)"));
  for (const spec::Node& node : spec.nodes) {
    const MachineConfig config = render_config(config_input(spec, node, surroundings()));
    EXPECT_THAT(std::string{config.text.reveal()}, HasSubstr("TS_AUTHKEY=tskey-auth-hidden"));
    EXPECT_THAT(config.masked, AllOf(HasSubstr("TS_AUTHKEY=***"), HasSubstr("token: '***'"),
                                     Not(HasSubstr("hidden")),
                                     // base64 of "hidden "
                                     Not(HasSubstr("aGlkZGVu"))));
  }
}

TEST(Render, TailscaleKeepsTheNodeOnItsLan) {
  const spec::Spec spec = load(cluster(releases[3], "nocloud", R"(  tailscale:
    authKey: { secret: tailscale.authKey }
    routes: [10.0.0.0/24]
)"));
  const auto values =
      parsed(render_config(config_input(spec, *spec.find_node("cp-1"), surroundings())));
  EXPECT_EQ(text_at(values[0], {"machine", "kubelet", "nodeIP", "validSubnets", "0"}),
            "10.0.0.0/24");
  EXPECT_EQ(text_at(values[0], {"cluster", "etcd", "advertisedSubnets", "0"}), "10.0.0.0/24");
  EXPECT_NE(find_kind(values, "ExtensionServiceConfig"), nullptr);
  Surroundings without = surroundings();
  without.tailscale_key.reset();
  EXPECT_THROW(config_input(spec, spec.nodes.front(), without), Error);
}

TEST(Render, AMachineThatWasThereGetsItsAddressInTheConfiguration) {
  for (const Release& release : releases) {
    const spec::Spec spec = load(fmt::format(R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: {{ name: metal }}
spec:
  talos: {{ version: v{} }}
  kubernetes: {{ version: v{}, endpoint: {{ vip: 10.40.0.10 }} }}
  network: {{ subnet: 10.40.0.0/24, gateway: 10.40.0.1, nameservers: [10.40.0.1] }}
  nodes:
    cp-1: {{ role: controlplane, address: 10.40.0.11, existing: {{ disk: S3Z8NB0K123456 }} }}
    cp-2: {{ role: controlplane, address: 10.40.0.12, existing: {{ disk: /dev/disk/by-id/x }} }}
    cp-3: {{ role: controlplane, address: 10.40.0.13, existing: true }}
)",
                                             release.talos, release.kubernetes));
    const auto values =
        parsed(render_config(config_input(spec, *spec.find_node("cp-1"), surroundings())));
    const Value& interface = *values[0].find({"machine", "network", "interfaces", "0"});
    EXPECT_EQ(text_at(interface, {"addresses", "0"}), "10.40.0.11/24");
    EXPECT_EQ(text_at(interface, {"routes", "0", "gateway"}), "10.40.0.1");
    EXPECT_EQ(text_at(interface, {"deviceSelector", "physical"}), "true");
    EXPECT_EQ(text_at(interface, {"vip", "ip"}), "10.40.0.10");
    EXPECT_EQ(text_at(values[0], {"machine", "install", "diskSelector", "serial"}),
              "S3Z8NB0K123456");
    const auto second =
        parsed(render_config(config_input(spec, *spec.find_node("cp-2"), surroundings())));
    EXPECT_EQ(text_at(second[0], {"machine", "install", "disk"}), "/dev/disk/by-id/x");
    EXPECT_THROW(render_config(config_input(spec, *spec.find_node("cp-3"), surroundings())), Error);
  }
}

TEST(Render, DataDisksAreFormattedOnlyIfAsked) {
  const std::string disks = R"(  machine:
    disks: { system: 20GiB, fast: { size: 10GiB, use: volume }, keep: { size: 10GiB, use: raw } }
)";
  const spec::Spec spec = load(cluster(releases[1], "nocloud", disks));
  const auto values = parsed(render_config(config_input(spec, spec.nodes.back(), surroundings())));
  const Value* volume = find_kind(values, "UserVolumeConfig");
  ASSERT_NE(volume, nullptr);
  EXPECT_EQ(text_at(*volume, {"name"}), "fast");
  EXPECT_EQ(text_at(*volume, {"provisioning", "diskSelector", "match"}), "disk.serial == \"fast\"");
  EXPECT_EQ(values.size(), 2U);

  ConfigInput old;
  old.talos = Version{1, 9, 5};
  old.endpoint = "https://10.0.0.20:6443";
  old.disk_serial = "system";
  old.volumes = {{"fast", "fast"}};
  try {
    render_config(old);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("1.9"));
    EXPECT_THAT(error.hint(), HasSubstr("1.10"));
  }
}

TEST(Render, AKubeletLeavesItsNodeToACloudControllerManagerWhereThereIsOne) {
  const auto provider = [](const char* more) {
    const spec::Spec spec = load(cluster(releases[3], "nocloud", more));
    return text_at(parsed(render_config(config_input(spec, spec.nodes.front(), surroundings())))[0],
                   {"cluster", "externalCloudProvider", "enabled"});
  };
  EXPECT_EQ(provider("  addons: { proxmoxCcm: true }\n"), "true");
  EXPECT_EQ(provider(""), "(absent)");
}

TEST(Render, PatchesComeInOrderAndWithTheirNames) {
  const spec::Spec spec = load(cluster(releases[3], "nocloud", R"(  addons: { metricsServer: true }
)"));
  ConfigInput input = config_input(spec, spec.nodes.front(), surroundings());
  input.patches.push_back(read_patch("machine: { certSANs: [a.home] }", "all.yaml"));
  input.patches.push_back(read_patch("machine: { certSANs: [b.home] }", "node.yaml"));
  const auto values = parsed(render_config(input));
  EXPECT_EQ(text_at(values[0], {"machine", "certSANs", "0"}), "a.home");
  EXPECT_EQ(text_at(values[0], {"machine", "certSANs", "1"}), "b.home");
  EXPECT_EQ(text_at(values[0], {"machine", "kubelet", "extraArgs", "rotate-server-certificates"}),
            "true");
  input.patches.push_back(read_patch("machine:\n  certSans: [c.home]\n", "typo.yaml"));
  try {
    render_config(input);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), AllOf(HasSubstr("typo.yaml:2:3: machine.certSans"),
                                       HasSubstr("did you mean `certSANs`")));
  }
  input.patches.back() = read_patch("[{op: add, path: /machine/x, value: 1}]", "json.yaml");
  EXPECT_THROW(render_config(input), Error);  // more than one document
}

TEST(Render, TheApiIsWhereTheSpecSays) {
  const auto endpoint = [](const std::string& said) {
    const spec::Spec spec = load(R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: { name: blue }
spec:
  talos: { version: v1.11.5 }
  kubernetes: { version: v1.34.1)" +
                                 said +
                                 R"( }
  network: { subnet: 10.0.0.0/24, gateway: 10.0.0.1 }
  nodes:
    cp-1: { role: controlplane, address: 10.0.0.11, existing: { disk: S3Z8NB0K123456 } }
)");
    const MachineConfig config =
        render_config(config_input(spec, spec.nodes.front(), surroundings()));
    return text_at(parsed(config).front(), {"cluster", "controlPlane", "endpoint"});
  };
  EXPECT_EQ(endpoint(""), "https://10.0.0.11:6443");
  EXPECT_EQ(endpoint(", endpoint: { vip: 10.0.0.20 }"), "https://10.0.0.20:6443");
  EXPECT_EQ(endpoint(", endpoint: { host: k8s.home }"), "https://k8s.home:6443");
  EXPECT_EQ(endpoint(", endpoint: { host: k8s.home, port: 443 }"), "https://k8s.home:443");
  EXPECT_EQ(endpoint(", endpoint: { host: \"fd00::1\", port: 8443 }"), "https://[fd00::1]:8443");
}

TEST(Render, OldEncryptionSecretsAreCarriedOver) {
  ConfigInput input;
  input.endpoint = "https://10.0.0.20:6443";
  input.disk_serial = "system";
  input.control_plane = true;
  input.bundle = bundle();
  input.bundle.secretbox_secret = Secret{};
  input.bundle.aescbc_secret = Secret{"hidden-old"};
  const auto values = parsed(render_config(input));
  EXPECT_EQ(text_at(values[0], {"cluster", "aescbcEncryptionSecret"}), "hidden-old");
  EXPECT_EQ(values[0].find({"cluster", "secretboxEncryptionSecret"}), nullptr);
}

TEST(Render, CiliumReplacesKubeProxyUnlessItsValuesSayOtherwise) {
  const auto rendered = [](const std::string& values) {
    spec::Spec spec = load(cluster(releases[2], "nocloud"));
    spec.kubernetes.cni.kind = spec::Cni::Kind::Cilium;
    spec.kubernetes.cni.cilium.values = text::parse_yaml(values, "values");
    return parsed(render_config(config_input(spec, spec.nodes.front(), surroundings()))).front();
  };
  const Value plain = rendered("{}");
  EXPECT_EQ(text_at(plain, {"cluster", "network", "cni", "name"}), "none");
  EXPECT_EQ(text_at(plain, {"cluster", "proxy", "disabled"}), "true");
  EXPECT_EQ(text_at(plain, {"machine", "features", "hostDNS", "forwardKubeDNSToHost"}), "true");
  const Value other = rendered("{kubeProxyReplacement: false, bpf: {masquerade: true}}");
  EXPECT_EQ(other.find({"cluster", "proxy", "disabled"}), nullptr);
  EXPECT_EQ(text_at(other, {"machine", "features", "hostDNS", "forwardKubeDNSToHost"}), "false");
}

TEST(Render, PutsSecretsWherePatchesNameThem) {
  const spec::Spec spec = load(R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: { name: blue }
spec:
  talos:
    version: v1.11.5
    patches:
      all:
        - machine: { sysctls: { a.b: { secret: odd.place } } }
        - - { op: add, path: /machine/env, value: { PLAIN: { infisical: /top/WORD } } }
        - |
          machine:
            files: [{ path: /var/x, permissions: 0o600, op: create, content: { secret: odd.place } }]
  kubernetes: { version: v1.34.1 }
  network: { subnet: 10.0.0.0/24, gateway: 10.0.0.1 }
  nodes:
    cp-1: { role: controlplane, address: 10.0.0.11, existing: { disk: S3Z8NB0K123456 } }
)");
  Surroundings around = surroundings();
  EXPECT_THROW(config_input(spec, spec.nodes.front(), around), Error);
  around.patch_secrets.emplace("secret odd.place", Secret{"the-first-word"});
  around.patch_secrets.emplace("infisical /top/WORD", Secret{"abc"});
  const MachineConfig config = render_config(config_input(spec, spec.nodes.front(), around));
  const Value main = parsed(config).front();
  EXPECT_EQ(text_at(main, {"machine", "sysctls", "a.b"}), "the-first-word");
  EXPECT_EQ(text_at(main, {"machine", "env", "PLAIN"}), "abc");
  EXPECT_THAT(std::string(config.text.reveal()), HasSubstr("content: the-first-word"));
  EXPECT_THAT(config.masked, AllOf(Not(HasSubstr("the-first-word")), Not(HasSubstr("abc")),
                                   HasSubstr("a.b: '***'"), HasSubstr("PLAIN: '***'")));
}

}  // namespace
}  // namespace rocca::talos
