#include "factory/node_image.hpp"

#include "base/error.hpp"
#include "spec/load.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace rocca::factory {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

spec::Spec load(Files& files, const std::string& addressing, const std::string& talos,
                const std::string& worker = "") {
  spec::Loaded loaded = spec::load_text(files,
                                        fmt::format(R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: {{ name: blue }}
spec:
  talos: {{ version: v1.11.5, {} }}
  kubernetes: {{ version: v1.34.1 }}
  network: {{ addressing: {}, subnet: 10.30.0.0/24, gateway: 10.30.0.1, nameservers: [10.30.0.1] }}
  proxmox:
    endpoints: [https://pve.home:8006]
    insecure: true
    token: {{ secret: proxmox.token }}
    hosts: [atlas]
  nodes:
    cp-1: {{ role: controlplane, address: 10.30.0.11 }}
    worker-1: {{ role: worker, address: 10.30.0.21{} }}
)",
                                                    talos, addressing, worker),
                                        "cluster.yaml", "/cluster");
  EXPECT_FALSE(loaded.diagnostics.has_errors()) << loaded.diagnostics.render();
  return std::move(loaded.spec);
}

TEST(NodeImage, OfANocloudClusterIsOneForAllNodes) {
  MemoryFiles files;
  const spec::Spec spec = load(files, "nocloud", "extensions: [qemu-guest-agent]");
  const NodeImage first = node_image(files, spec, spec.nodes.front());
  EXPECT_EQ(first.id, node_image(files, spec, spec.nodes.back()).id);
  EXPECT_THAT(first.schematic->extensions, ElementsAre("siderolabs/qemu-guest-agent"));
  EXPECT_THAT(first.schematic->kernel_args, IsEmpty());
}

TEST(NodeImage, WithMetaHasTheNodesNetworkAndPlainLinkNames) {
  MemoryFiles files;
  const spec::Spec spec = load(files, "meta", "extensions: [qemu-guest-agent]");
  const NodeImage first = node_image(files, spec, spec.nodes.front());
  EXPECT_NE(first.id, node_image(files, spec, spec.nodes.back()).id);
  EXPECT_THAT(first.schematic->kernel_args, Contains("net.ifnames=0"));
  ASSERT_EQ(first.schematic->meta.size(), 1U);
  EXPECT_EQ(first.schematic->meta.front().key, 10);
  EXPECT_TRUE(is_stable_text(first.schematic->meta.front().value));
  const text::Value meta = text::parse_yaml(first.schematic->meta.front().value, "meta");
  EXPECT_EQ(meta.find({"addresses", "0", "address"})->text(), "10.30.0.11/24");
  EXPECT_EQ(meta.find({"addresses", "0", "family"})->text(), "inet4");
  EXPECT_EQ(meta.find({"routes", "0", "gateway"})->text(), "10.30.0.1");
  EXPECT_EQ(meta.find({"routes", "0", "table"})->text(), "main");
  EXPECT_EQ(meta.find({"hostnames", "0", "hostname"})->text(), "cp-1");
  EXPECT_EQ(meta.find({"resolvers", "0", "dnsServers", "0"})->text(), "10.30.0.1");
}

struct Own {
  const char* name;
  const char* talos;
  const char* own;
  std::vector<std::string> extensions;  // without siderolabs/
  std::vector<std::string> arguments;
};

class OwnImage : public testing::TestWithParam<Own> {};

TEST_P(OwnImage, IsMadeOfItsOwnListsAndOfTheSpecsWhereItHasNone) {
  MemoryFiles files;
  files.make_folder("/cluster");
  files.write("/cluster/spec.yaml", "customization: { extraKernelArgs: [of=spec] }\n");
  files.write("/cluster/own.yaml", "customization: { extraKernelArgs: [of=own] }\n");
  const Own& way = GetParam();
  const spec::Spec spec =
      load(files, "nocloud", way.talos, fmt::format(", talos: {{ {} }}", way.own));
  const NodeImage own = node_image(files, spec, spec.nodes.back());
  std::vector<std::string> extensions;
  for (const std::string& name : way.extensions) extensions.push_back("siderolabs/" + name);
  EXPECT_EQ(own.schematic->extensions, extensions);
  EXPECT_EQ(own.schematic->kernel_args, way.arguments);
  EXPECT_NE(own.id, node_image(files, spec, spec.nodes.front()).id);
}

INSTANTIATE_TEST_SUITE_P(
    Of, OwnImage,
    testing::Values(
        Own{"Extensions",
            "extensions: [zfs], kernelArgs: [a=1]",
            "extensions: [i915]",
            {"i915"},
            {"a=1"}},
        Own{"Arguments",
            "extensions: [zfs], kernelArgs: [a=1]",
            "kernelArgs: [b=2]",
            {"zfs"},
            {"b=2"}},
        Own{"NoArguments", "extensions: [zfs], kernelArgs: [a=1]", "kernelArgs: []", {"zfs"}, {}},
        Own{"NullForArguments",
            "extensions: [zfs], kernelArgs: [a=1]",
            "kernelArgs: null",
            {"zfs"},
            {}},
        Own{"Both",
            "extensions: [zfs], kernelArgs: [a=1]",
            "extensions: [i915], kernelArgs: [b=2]",
            {"i915"},
            {"b=2"}},
        Own{"Schematic",
            "extensions: [zfs], kernelArgs: [a=1]",
            "schematic: own.yaml",
            {},
            {"of=own"}},
        Own{"SchematicForSchematic", "schematic: spec.yaml", "schematic: own.yaml", {}, {"of=own"}},
        Own{"ExtensionsForSchematic", "schematic: spec.yaml", "extensions: [i915]", {"i915"}, {}}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(NodeImage, CanBeNamedByAnIdOrAFile) {
  MemoryFiles files;
  const std::string id(64, 'a');
  const spec::Spec by_id = load(files, "nocloud", "schematic: " + id);
  EXPECT_EQ(node_image(files, by_id, by_id.nodes.front()).id, id);
  files.make_folder("/cluster");
  files.write("/cluster/image.yaml", "customization: { extraKernelArgs: [a=b] }\n");
  const spec::Spec by_file = load(files, "nocloud", "schematic: image.yaml");
  EXPECT_THAT(node_image(files, by_file, by_file.nodes.front()).schematic->kernel_args,
              ElementsAre("a=b"));
  files.write("/cluster/image.yaml", "customisation: {}\n");
  try {
    node_image(files, by_file, by_file.nodes.front());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("image.yaml:1:1"));
  }
}

}  // namespace
}  // namespace rocca::factory
