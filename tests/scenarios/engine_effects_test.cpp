// What it costs to change a key of a running cluster's spec: as the table says that `rocca explain`
// and docs/spec.md show.

#include "scenarios/engine_rig.hpp"
#include "spec/effects.hpp"

namespace rocca::scenarios {
namespace {

struct Changed {
  const char* key;
  const char* from;
  const char* to;
};

const std::string nodes_of_both =
    "  machine: { cores: 4, memory: 8GiB, disks: { system: 20GiB, data: { size: 20GiB } } }\n"
    "  nodes:\n"
    "    cp-1: { role: controlplane, address: 10.0.1.11 }\n"
    "    worker-1: { role: worker, address: 10.0.1.21 }\n";

std::string the_spec() {
  return replace_all(static_spec(nodes_of_both), "v1.34.1", "v1.33.1");
}

/// The class of what the plan would do; `refused` if it refuses by itself, not by its policy.
std::string class_of(const engine::Plan& plan) {
  for (const engine::Planned& step : plan.steps)
    if (!step.change.refusal.empty() && step.change.effect == engine::Effect::None)
      return "refused";
  return to_string(plan.effect);
}

TEST(EngineEffects, AreAsTheTableOfTheSpecSays) {
  constexpr const char* talos = "extensions: [qemu-guest-agent]";
  constexpr const char* kubernetes = "    version: v1.33.1\n";
  constexpr const char* network = "    addressing: static\n";
  constexpr const char* machine = "machine: { cores: 4";
  constexpr const char* worker = "worker-1: { role: worker";
  const Changed rows[] = {
      {"metadata.name", "name: blue", "name: green"},
      {"spec.protect", "  network:\n", "  protect: true\n  network:\n"},
      {"spec.naming.vm", "  network:\n", "  naming: { vm: \"{node}\" }\n  network:\n"},
      {"spec.naming.host", "  network:\n", "  naming: { host: \"x-{node}\" }\n  network:\n"},
      {"spec.timeouts.boot", "  network:\n", "  timeouts: { boot: 20m }\n  network:\n"},
      {"spec.talos.version", "version: v1.11.5", "version: v1.11.6"},
      {"spec.talos.extensions", talos, "extensions: [qemu-guest-agent, iscsi-tools]"},
      {"spec.talos.kernelArgs", talos, "extensions: [qemu-guest-agent], kernelArgs: [quiet]"},
      {"spec.talos.modules", talos, "extensions: [qemu-guest-agent], modules: [nvme_tcp]"},
      {"spec.talos.sysctls", talos,
       "extensions: [qemu-guest-agent], sysctls: { vm.swappiness: 1 }"},
      {"spec.talos.mirrors", talos,
       "extensions: [qemu-guest-agent], mirrors: { docker.io: [https://mirror.home] }"},
      {"spec.talos.discovery", talos, "extensions: [qemu-guest-agent], discovery: false"},
      {"spec.kubernetes.version", kubernetes, "    version: v1.34.0\n"},
      {"spec.kubernetes.endpoint.vip", "vip: 10.0.1.10", "vip: 10.0.1.9"},
      {"spec.kubernetes.podCIDR", kubernetes, "    version: v1.33.1\n    podCIDR: 10.200.0.0/16\n"},
      {"spec.kubernetes.serviceCIDR", kubernetes,
       "    version: v1.33.1\n    serviceCIDR: 10.201.0.0/16\n"},
      {"spec.kubernetes.cni", kubernetes, "    version: v1.33.1\n    cni: none\n"},
      {"spec.kubernetes.scheduleOnControlPlanes", kubernetes,
       "    version: v1.33.1\n    scheduleOnControlPlanes: true\n"},
      {"spec.kubernetes.certSANs", kubernetes, "    version: v1.33.1\n    certSANs: [k8s.home]\n"},
      {"spec.network.subnet", "subnet: 10.0.0.0/16", "subnet: 10.0.0.0/20"},
      {"spec.network.gateway", "gateway: 10.0.0.1", "gateway: 10.0.0.2"},
      {"spec.network.nameservers", "nameservers: [10.0.0.1]", "nameservers: [10.0.0.3]"},
      {"spec.network.ntp", network, "    addressing: static\n    ntp: [time.home]\n"},
      {"spec.network.vlan", network, "    addressing: static\n    vlan: 20\n"},
      {"spec.network.mtu", network, "    addressing: static\n    mtu: 1400\n"},
      {"spec.proxmox.hosts", "hosts: [pve1]", "hosts: [pve1, pve2]"},
      {"spec.machine.cores", "cores: 4", "cores: 6"},
      {"spec.machine.cpu", machine, "machine: { cpu: x86-64-v3, cores: 4"},
      {"spec.machine.memory", "memory: 8GiB", "memory: 9GiB"},
      {"spec.machine.firmware", machine, "machine: { firmware: seabios, cores: 4"},
      {"spec.machine.chipset", machine, "machine: { chipset: i440fx, cores: 4"},
      {"spec.machine.scsi", machine, "machine: { scsi: virtio-scsi-pci, cores: 4"},
      {"spec.machine.onBoot", machine, "machine: { onBoot: false, cores: 4"},
      {"spec.machine.slots.cloudInit", machine, "machine: { slots: { cloudInit: sata1 }, cores: 4"},
      {"spec.machine.disks.*.size", "{ size: 20GiB }", "{ size: 30GiB }"},
      {"spec.machine.disks.*.use", "{ size: 20GiB }", "{ size: 20GiB, use: volume }"},
      {"spec.machine.disks.*.iothread", "{ size: 20GiB }", "{ size: 20GiB, iothread: false }"},
      {"spec.machine.disks.*.discard", "{ size: 20GiB }", "{ size: 20GiB, discard: false }"},
      {"spec.machine.disks.*.ssd", "{ size: 20GiB }", "{ size: 20GiB, ssd: false }"},
      {"spec.machine.disks.*.cache", "{ size: 20GiB }", "{ size: 20GiB, cache: writeback }"},
      {"spec.machine.nics.vlan", machine, "machine: { nics: [ { vlan: 20 } ], cores: 4"},
      {"spec.machine.nics.mtu", machine, "machine: { nics: [ { mtu: 1400 } ], cores: 4"},
      {"spec.nodes.*.labels", worker, "worker-1: { labels: { zone: attic }, role: worker"},
      {"spec.nodes.*.taints", worker, "worker-1: { taints: { gpu: NoSchedule }, role: worker"},
      {"spec.nodes.*.address", "address: 10.0.1.21", "address: 10.0.1.22"},
  };
  lab::Home::Options options;
  ClusterRig rig{options};
  rig.write_spec(the_spec());
  ASSERT_TRUE(rig.up().ok());
  for (const Changed& row : rows) {
    rig.write_spec(replace_all(the_spec(), row.from, row.to));
    const spec::KeyEffect* effect = spec::find_key_effect(row.key);
    ASSERT_NE(effect, nullptr) << row.key;
    try {
      const engine::Plan plan = rig.plan();
      EXPECT_EQ(class_of(plan), effect->effect)
          << row.key << testing::PrintToString(differences(plan));
    } catch (const Error& error) {
      EXPECT_EQ(effect->effect, "refused") << row.key << ": " << error.render();
    }
  }
}

}  // namespace
}  // namespace rocca::scenarios
