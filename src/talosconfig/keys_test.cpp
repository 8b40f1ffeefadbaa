#include "base/strings.hpp"
#include "support/golden.hpp"
#include "talosconfig/config_test_support.hpp"
#include "talosconfig/render.hpp"

#include <fmt/format.h>

// Every key of a spec that ends in a machine configuration.

namespace rocca::talos {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string every_key(const std::string& talos, const std::string& kubernetes) {
  return fmt::format(R"(apiVersion: rocca.dev/v1
kind: Cluster
metadata: {{ name: blue }}
spec:
  talos:
    version: v{}
    extensions: [qemu-guest-agent, zfs, iscsi-tools, util-linux-tools]
    modules: [nvme_tcp, {{ name: zfs, parameters: [zfs_arc_max=1073741824] }}]
    sysctls: {{ vm.nr_hugepages: 1024 }}
    mirrors: {{ docker.io: [https://mirror.home, https://second.home] }}
    discovery: false
    patches: {{ all: {{ machine: {{ sysctls: {{ vm.swappiness: "1" }} }} }} }}
  kubernetes:
    version: v{}
    endpoint: {{ vip: 10.0.0.20 }}
    podCIDR: 10.200.0.0/16
    serviceCIDR: 10.201.0.0/16
    cni: {{ manifests: [https://example.org/cni.yaml] }}
    scheduleOnControlPlanes: true
    certSANs: [k8s.example.org]
  network: {{ addressing: static, subnet: 10.0.0.0/24, gateway: 10.0.0.1, nameservers: [10.0.0.2], ntp: [time.home], mtu: 1400 }}
  proxmox:
    endpoints: [https://pve.home:8006]
    insecure: true
    token: {{ secret: proxmox.token }}
    hosts: [atlas]
  machine: {{ disks: {{ system: 20GiB, data: {{ size: 100GiB, use: longhorn }} }} }}
  nodes:
    cp-1: {{ role: controlplane, address: 10.0.0.11 }}
    w-1: {{ role: worker, address: 10.0.0.21, labels: {{ zone: attic }}, taints: {{ gpu: NoSchedule }} }}
    bare: {{ role: worker, address: 10.0.0.31, existing: {{ disk: S3Z8NB0K123456 }} }}
  addons:
    longhorn: {{ dataPath: /var/lib/longhorn }}
    manifests: [https://example.org/metallb.yaml]
)",
                     talos, kubernetes);
}

struct Case {
  const char* talos;
  const char* kubernetes;
};

class EveryKey : public testing::TestWithParam<Case> {};

TEST_P(EveryKey, IsInTheConfigurationOfTheNodesItIsFor) {
  const spec::Spec spec = config_tests::load(every_key(GetParam().talos, GetParam().kubernetes));
  const unsigned minor = static_cast<unsigned>(spec.talos.version->minor());
  std::map<std::string, std::string> texts;
  for (const spec::Node& node : spec.nodes) {
    Surroundings around = config_tests::surroundings();
    around.link = "bc:24:11:00:00:07";
    const std::string text = render_config(config_input(spec, node, around)).masked;
    test::expect_golden(fmt::format("talos/1.{}-every-key-{}.yaml", minor, node.name), text);
    texts[node.name] = text;
    // What every node has, each word from the key it stands for.
    for (const char* word :
         {"nvme_tcp", "zfs_arc_max=1073741824", "vm.nr_hugepages", "1024", "vm.swappiness",
          "https://mirror.home", "https://second.home", "time.home"})
      EXPECT_THAT(text, HasSubstr(word)) << node.name;
    EXPECT_THAT(text, HasSubstr("discovery:\n        enabled: false")) << node.name;
  }
  for (const char* word : {"10.200.0.0/16", "10.201.0.0/16", "k8s.example.org",
                           "allowSchedulingOnControlPlanes: true", "cni:\n            name: none"})
    EXPECT_THAT(texts["cp-1"], HasSubstr(word));
  // Manifests are applied once the cluster is up: Talos would put its own copy back at every boot.
  EXPECT_THAT(texts["cp-1"], Not(HasSubstr("https://example.org/")));
  EXPECT_THAT(texts["w-1"], HasSubstr("zone: attic"));
  EXPECT_THAT(texts["w-1"], HasSubstr("gpu: "));
  // A disk of its own where there is one, else a folder that outlives the kubelet's container.
  EXPECT_THAT(texts["w-1"], HasSubstr("kind: UserVolumeConfig"));
  EXPECT_THAT(texts["bare"], HasSubstr("destination: /var/lib/longhorn"));
  EXPECT_THAT(texts["cp-1"], Not(HasSubstr("attic")));
  // Nothing but its configuration tells a machine that was there before where it is.
  for (const char* word : {"10.0.0.31/24", "10.0.0.1", "10.0.0.2", "1400",
                           "hardwareAddr: bc:24:11:00:00:07", "serial: S3Z8NB0K123456"})
    EXPECT_THAT(texts["bare"], HasSubstr(word));
}

INSTANTIATE_TEST_SUITE_P(Releases, EveryKey,
                         testing::Values(Case{"1.11.6", "1.34.1"}, Case{"1.13.9", "1.36.3"}),
                         [](const auto& row) {
                           return "v" + replace_all(row.param.talos, ".", "_");
                         });

}  // namespace
}  // namespace rocca::talos
