#include "seeds/specs.hpp"

#include "scenarios/engine_machines.hpp"
#include "seeds/dice.hpp"

#include <fmt/format.h>

#include <array>

namespace rocca::seeds {

namespace {

using namespace std::chrono_literals;

/// An image of its own, in one of the ways that a spec has for it.
std::string image_of(Dice& dice) {
  static constexpr std::array ways = {
      "extensions: [qemu-guest-agent, i915]",
      "extensions: [i915, qemu-guest-agent], kernelArgs: [intel_iommu=on]",
      "kernelArgs: [console=ttyS0]",
      "extensions: [qemu-guest-agent, amdgpu], kernelArgs: []",
      "extensions: [qemu-guest-agent], kernelArgs: null",  // the same as others', perhaps
  };
  return fmt::format("talos: {{ {} }}", ways[dice.below(ways.size())]);
}

std::string machine_of(Dice& dice) {
  std::string text = fmt::format("cores: {}, memory: {}MiB", dice.between(2, 8),
                                 1024 * dice.between(2, 16) + 2 * dice.between(0, 100));
  if (dice.one_in(3)) text += ", cpu: x86-64-v2-AES";
  if (dice.one_in(3)) text += ", firmware: seabios";
  if (dice.one_in(4)) text += ", onBoot: false";
  if (dice.one_in(5)) text += ", scsi: virtio-scsi-pci";
  std::string disks = fmt::format("system: {}GiB", dice.between(10, 40));
  const unsigned more = dice.one_in(2) ? 0 : dice.between(1, 2);
  for (unsigned i = 0; i < more; ++i) {
    disks += fmt::format(", data{}: {{ size: {}GiB", i, dice.between(1, 100));
    if (dice.one_in(2)) disks += ", storage: tank";
    if (dice.one_in(2)) disks += fmt::format(", discard: {}", dice.one_in(2) ? "true" : "false");
    if (dice.one_in(2)) disks += fmt::format(", ssd: {}", dice.one_in(2) ? "true" : "false");
    if (dice.one_in(3)) disks += fmt::format(", iothread: {}", dice.one_in(2) ? "true" : "false");
    if (dice.one_in(4)) disks += ", cache: writeback";
    disks += " }";
  }
  text += ", disks: { " + disks + " }";
  if (dice.one_in(3)) {
    text += ", nics: [ { bridge: vmbr0 }, { bridge: vmbr1";
    if (dice.one_in(2)) text += fmt::format(", vlan: {}", 10 * dice.between(1, 9));
    text += " } ]";
  }
  return "{ " + text + " }";
}

/// A node by name, with what no pool can say for all of its nodes.
std::string node_of(Dice& dice, bool dhcp, bool mtu, bool clone) {
  std::string text = "{ role: worker";
  if (!dhcp) text += ", address: 10.0.1.41";
  if (dice.one_in(2)) text += ", taints: { dedicated: \"edge:NoSchedule\" }";
  if (dice.one_in(3)) text += ", labels: { site: edge }";
  if (!clone && dice.one_in(3)) text += ", " + image_of(dice);  // a clone is its template's
  std::string machine = fmt::format("vmid: {}", dice.between(400, 499));
  if (dice.one_in(2))
    machine += fmt::format(", nics: [ {{ mac: \"BC:24:11:00:00:{:02X}\"{} }} ]",
                           dice.between(1, 255), dice.one_in(2) && !mtu ? ", mtu: 1400" : "");
  return text + ", machine: { " + machine + " } }\n";
}

/// What a spec refers to and somebody else has made.
struct Around {
  std::string version, extensions;
  bool clones = false;    // a template on each host
  unsigned machines = 0;  // that were there before
  Counts counts{};        // what it is like
};

std::string machine_at(unsigned number) {
  return fmt::format("10.0.3.{}", number);
}

/// A cluster that knows no Proxmox.
std::string only_machines(Dice& dice, Around& around) {
  const unsigned planes = dice.one_in(3) ? 3 : 1, workers = dice.between(0, 2);
  around = {"v1.11.5", "siderolabs/qemu-guest-agent", false, planes + workers, {}};
  around.counts.note(Mode::AllExisting);
  std::string text = fmt::format(
      "apiVersion: rocca.dev/v1\nkind: Cluster\nmetadata: {{ name: blue }}\nspec:\n"
      "  talos: {{ version: {}, extensions: [qemu-guest-agent] }}\n"
      "  kubernetes: {{ version: v1.33.6{} }}\n"
      "  network: {{ addressing: static, subnet: 10.0.0.0/16, gateway: 10.0.0.1, nameservers: "
      "[10.0.0.1] }}\n  nodes:\n",
      around.version, dice.one_in(2) ? ", endpoint: { vip: 10.0.1.10 }" : "");
  for (unsigned i = 1; i <= planes + workers; ++i)
    text += fmt::format("    metal-{}: {{ role: {}, address: {}, existing: true{} }}\n", i,
                        i <= planes ? "controlplane" : "worker", machine_at(i),
                        dice.one_in(3) ? ", labels: { site: rack }" : "");
  return text;
}

std::string drawn_spec(Dice& dice, Around& around) {
  if (dice.one_in(12)) return only_machines(dice, around);
  static constexpr std::array versions = {"v1.11.5", "v1.10.9", "v1.12.7", "v1.9.6", "v1.13.9"};
  static constexpr std::array kubernetes = {"v1.33.6", "v1.33.6", "v1.34.1", "v1.32.3", "v1.36.3"};
  const std::size_t which = dice.below(versions.size());
  const std::uint64_t kind = dice.below(6);  // of addressing
  const bool dhcp = kind == 0, meta = kind == 1;
  const bool iso = !meta && dice.one_in(4);
  around.clones = !meta && !iso && dice.one_in(4);
  around.machines = dice.one_in(4) ? dice.between(1, 2) : 0;
  around.version = versions[which];
  if (dhcp) around.counts.note(Mode::Dhcp);
  if (meta) around.counts.note(Mode::Meta);
  if (iso) around.counts.note(Mode::Iso);
  if (around.clones) around.counts.note(Mode::Template);
  if (around.machines > 0) around.counts.note(Mode::ExistingWorker);
  const bool mtu = !dhcp && dice.one_in(5);  // the first card's, for all nodes
  const bool more = dice.one_in(3);
  // In the order of the spec: another one is another schematic.
  around.extensions = "siderolabs/qemu-guest-agent";
  if (more) around.extensions += ", siderolabs/iscsi-tools, siderolabs/util-linux-tools";
  std::string talos = fmt::format("version: {}, extensions: [qemu-guest-agent{}]", versions[which],
                                  more ? ", iscsi-tools, util-linux-tools" : "");
  if (iso) talos += ", boot: iso";
  if (around.clones) talos += ", boot: { template: talos-template }";
  // The arguments are part of an image, which somebody else has chosen for them.
  const bool given = around.clones || around.machines > 0;
  if (!given && dice.one_in(4)) talos += ", kernelArgs: [net.ifnames=0]";
  if (dice.one_in(4)) talos += ", sysctls: { vm.nr_hugepages: \"64\" }";
  if (dice.one_in(4))
    talos +=
        ", patches: { all: [ { machine: { env: { PATCHED: yes-it-is } } } ], worker: [ { "
        "machine: { kubelet: { extraArgs: { max-pods: \"200\" } } } } ] }";
  std::string text = fmt::format(
      "apiVersion: rocca.dev/v1\nkind: Cluster\nmetadata: {{ name: blue }}\nspec:\n"
      "  talos: {{ {} }}\n  kubernetes: {{ version: {}{} }}\n",
      talos, kubernetes[which], !dhcp && dice.one_in(2) ? ", endpoint: { vip: 10.0.1.10 }" : "");
  text += dhcp ? "  network: { addressing: dhcp }\n"
               : fmt::format(
                     "  network: {{ addressing: {}, subnet: 10.0.0.0/16, gateway: 10.0.0.1, "
                     "nameservers: [10.0.0.1{}]{} }}\n",
                     meta ? "meta" : "static", dice.one_in(3) ? ", 1.1.1.1" : "",
                     mtu ? ", mtu: 1450" : "");
  text +=
      "  proxmox:\n    endpoints: [https://pve.home:8006]\n    insecure: true\n"
      "    token: { secret: proxmox.token }\n    hosts: [pve1, pve2]\n";
  if (dice.one_in(3)) text += "    storage: { images: local, disks: tank }\n";
  if (dice.one_in(4)) text += "  naming: { vm: \"{node}.{cluster}\" }\n";
  text += "  machine: " + machine_of(dice) + "\n  pools:\n";
  const auto pool = [&](const char* name, const char* role, unsigned count, unsigned first) {
    text += fmt::format("    {}:\n      role: {}\n      count: {}\n", name, role, count);
    if (!dhcp) text += fmt::format("      addresses: 10.0.1.{}-10.0.1.{}\n", first, first + 8);
    if (dice.one_in(3)) text += fmt::format("      labels: {{ tier: t{} }}\n", dice.below(9));
    if (!around.clones && dice.one_in(4)) text += "      " + image_of(dice) + "\n";
    if (dice.one_in(3)) text += "      machine: " + machine_of(dice) + "\n";
  };
  pool("cp", "controlplane", dice.one_in(3) ? 3 : 1, 11);
  if (!dice.one_in(3)) pool("worker", "worker", dice.between(1, 2), 21);
  if (dice.one_in(4)) pool("gpu", "worker", 1, 31);
  const bool edge = dice.one_in(3);
  if (edge || around.machines > 0) text += "  nodes:\n";
  if (edge) text += "    edge-1: " + node_of(dice, dhcp, mtu, around.clones);
  for (unsigned i = 1; i <= around.machines; ++i)
    text += fmt::format("    metal-{}: {{ role: worker, address: {}, existing: true }}\n", i,
                        machine_at(i));
  return text;
}

void make(const Around& around, scenarios::ClusterRig& rig) {
  const std::string customization = fmt::format(
      "customization:\n  systemExtensions:\n    officialExtensions: [{}]\n", around.extensions);
  if (around.clones)
    for (const unsigned number : {1u, 2u})
      scenarios::make_template(rig, 9000 + number, fmt::format("pve{}", number), customization,
                               around.version);
  for (unsigned i = 1; i <= around.machines; ++i)
    scenarios::make_machine(rig, 700 + i, machine_at(i), "", customization, around.version);
}

std::string first_words(const std::string& text) {
  return text.substr(0, 2000);
}

/// Empty: the second plan was.
std::string raised_twice(scenarios::ClusterRig& rig) {
  try {
    const engine::Report report = rig.up();
    if (!report.ok()) return "up failed:\n" + first_words(scenarios::problems(report));
    const auto left = scenarios::differences(rig.plan());
    return left.empty() ? "" : "the second plan is not empty:\n" + join(left, "\n");
  } catch (const Error& error) {
    return "up failed:\n" + error.render();
  }
}

void finish(Outcome& outcome, scenarios::ClusterRig& rig) {
  ++outcome.runs;
  outcome.exchanges += rig.wire.exchanges();
  outcome.trace = outcome.trace * 31 + rig.home.world.trace().hash();
}

}  // namespace

Outcome second_plan(std::uint64_t seed, bool loud) {
  Outcome outcome;
  for (const auto& release : {lab::pve::Release::v8_4(), lab::pve::Release::v9()}) {
    lab::Home::Options options;
    options.seed = seed;
    options.release = release;
    options.hosts = {"pve1", "pve2"};
    scenarios::ClusterRig rig{options};
    rig.loud = loud;
    Dice dice{SeededEntropy{seed}.fork("spec")};
    Around around;
    const std::string text = drawn_spec(dice, around);
    outcome.modes = around.counts.modes;
    if (loud) fmt::print("{}\n", text);
    for (const char* version : {"v1.12.7", "v1.9.6", "v1.13.9"})
      rig.home.factory.versions.emplace_back(version);
    make(around, rig);
    rig.write_spec(text);
    const std::string broken = raised_twice(rig);
    finish(outcome, rig);
    if (!broken.empty()) {
      outcome.broken = fmt::format("raising on {}\n{}\n{}", release.release, text, broken);
      return outcome;
    }
  }
  return outcome;
}

}  // namespace rocca::seeds
