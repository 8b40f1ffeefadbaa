#include "base/strings.hpp"
#include "spec/validation/validate.hpp"
#include "spec/validation/versions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

namespace rocca::spec {

namespace {

// A default has no place of its own; the node that inherits it has.
const Where& place(const Where& where, const Node& node) {
  return where.written() ? where : node.where;
}

void check_slots(const Look& look, const Machine& machine, const Node& node) {
  const Spec& spec = look.spec;
  const bool drive = *spec.network.addressing == Addressing::NoCloud;
  const bool iso = *spec.talos.boot == Boot::Iso;
  const auto unusable = [&](const Placed<std::string>& slot) {
    if (*machine.chipset == "q35" && (*slot == "ide1" || *slot == "ide3"))
      look.findings.add("slot-unusable", place(slot.where, node),
                        fmt::format("the slot {} does not exist with chipset q35", *slot),
                        "use ide0, ide2 or sata0 to sata5");
  };
  unusable(machine.cloud_init_slot);
  unusable(machine.iso_slot);
  const bool written = machine.cloud_init_slot.written() || machine.iso_slot.written();
  if (*machine.cloud_init_slot == *machine.iso_slot && (written || (drive && iso)))
    look.findings.add(
        "slot-clash",
        place(machine.iso_slot.written() ? machine.iso_slot.where : machine.cloud_init_slot.where,
              node),
        fmt::format("the cloud-init drive and the ISO are both in {}", *machine.iso_slot),
        "cloud-init belongs on ide2 and the ISO on ide0");
}

void check_disks(const Look& look, const Machine& machine, const Node& node) {
  const bool volumes =
      look.spec.talos.version->minor() >= 10 || look.spec.talos.version->major() == 0;
  for (const Disk& disk : machine.disks) {
    const bool system = disk.name == "system";
    const Where& where = place(disk.size.where, node);
    if (disk.size->count() != 0 && !disk.size->whole_gib())
      look.findings.add(
          "disk-granularity", where,
          fmt::format("the disk {} has {}, not whole GiB", disk.name, to_string(*disk.size)));
    if (system && disk.size->count() != 0 && *disk.size < Bytes::gib(6))
      look.findings.add(
          "disk-too-small", where,
          fmt::format("the system disk has {}, and Talos needs 6GiB", to_string(*disk.size)));
    else if (system && disk.size->count() != 0 && *disk.size < Bytes::gib(10))
      look.findings.add("disk-small", where,
                        fmt::format("a system disk of {} soon fills up", to_string(*disk.size)),
                        "10GiB is a good beginning");
    if (system && *disk.use != DiskUse::Raw)
      look.findings.add("system-disk-use", place(disk.use.where, node),
                        "the system disk belongs to Talos",
                        "add another disk and give it this use");
    if (!system && *disk.use != DiskUse::Raw && !volumes)
      look.findings.add("disk-use-version", place(disk.use.where, node),
                        fmt::format("Talos {} cannot make a volume of the disk {}",
                                    to_string(*look.spec.talos.version), disk.name),
                        "volumes came with Talos 1.10");
    if (disk.iothread.written() && *disk.iothread && *machine.scsi == "virtio-scsi-pci")
      look.findings.add(
          "iothread-controller", disk.iothread.where,
          "iothread does nothing with scsi: virtio-scsi-pci",
          "the controller wins: use virtio-scsi-single for iothread, or take iothread away");
  }
}

void check_size(const Look& look, const Machine& machine, const Node& node) {
  const Bytes minimum = node.control_plane() ? Bytes::gib(2) : Bytes::gib(1);
  const Bytes advised = node.control_plane() ? Bytes::gib(4) : Bytes::gib(2);
  // pkg/minimal of Talos: 1848 MiB for a control plane and 1 GiB for a worker, each less 150 MiB
  // for the firmware.
  const Where& where = place(machine.memory.where, node);
  const char* what = node.control_plane() ? "a control plane" : "a worker";
  if (machine.memory->count() == 0) return;
  if (!machine.memory->whole_mib())
    look.findings.add("memory-granularity", where,
                      fmt::format("{} is not whole MiB", to_string(*machine.memory)));
  if (*machine.memory < minimum)
    look.findings.add("memory-too-small", where,
                      fmt::format("{} has {} of memory, and {} needs {}", node.name,
                                  to_string(*machine.memory), what, to_string(minimum)));
  else if (*machine.memory < advised)
    look.findings.add(
        "memory-low", where,
        fmt::format("{} of memory is little for {}", to_string(*machine.memory), what),
        fmt::format("Talos recommends {}", to_string(advised)));
  if (node.control_plane() && *machine.cores == 1)
    look.findings.add("cores-low", place(machine.cores.where, node),
                      "one core is little for a control plane", "Talos recommends two");
}

void check_cpu(const Look& look, const Machine& machine, const Node& node) {
  constexpr std::array old = {"kvm64",   "kvm32",    "qemu64",   "qemu32",   "x86-64-v1",
                              "486",     "pentium",  "pentium2", "pentium3", "athlon",
                              "coreduo", "core2duo", "Conroe"};
  if (std::find(old.begin(), old.end(), *machine.cpu) != old.end())
    look.findings.add("cpu-too-old", place(machine.cpu.where, node),
                      fmt::format("Talos does not boot on the CPU type {}", *machine.cpu),
                      "use host or x86-64-v2-AES");
  if (machine.cpu.written() && *machine.cpu == "host" && look.spec.proxmox &&
      look.spec.proxmox->hosts.size() > 1)
    look.findings.add("cpu-migration", machine.cpu.where,
                      "cpu host is fastest, and VMs with it migrate live only between like hosts",
                      "host wins here: rocca replaces nodes instead of migrating them; use "
                      "x86-64-v2-AES if you migrate between unlike hosts");
}

void check_pci(const Look& look, const Machine& machine) {
  for (const PciDevice& device : machine.pci) {
    if (*device.pcie && *machine.chipset == "i440fx")
      look.findings.add("pcie-chipset", device.mapping.where,
                        fmt::format("{} as PCI Express needs chipset q35", *device.mapping),
                        "use q35, or pcie: false");
    if (*machine.firmware == "seabios")
      look.findings.add(
          "pci-bios", device.mapping.where,
          fmt::format("many cards do not come up under SeaBIOS ({})", *device.mapping),
          "use firmware: ovmf");
  }
}

}  // namespace

void validate_hardware(const Look& look) {
  const Spec& spec = look.spec;
  if (*spec.network.addressing == Addressing::Meta && *spec.talos.boot != Boot::Import)
    look.findings.add(
        "boot-meta", spec.talos.boot.where,
        "addresses from META are part of an image, which this way of booting does not use",
        "use talos.boot: import, or addressing: static");
  for (const Node& node : spec.nodes)
    if (*spec.talos.boot == Boot::Template && node.image && node.machine)
      look.findings.add("boot-image", node.where,
                        fmt::format("{} has an image of its own, and is cloned from {} like all "
                                    "others",
                                    node.name, spec.talos.boot_template),
                        "use talos.boot: import, or take `talos` away there");
  std::set<std::tuple<const Machine*, const Image*, bool>> seen;
  for (const Node& node : spec.nodes) {
    const Image& image = spec.image_of(node);
    if (!node.machine || !seen.emplace(node.machine.get(), &image, node.control_plane()).second)
      continue;
    const Machine& machine = *node.machine;
    check_slots(look, machine, node);
    check_disks(look, machine, node);
    check_size(look, machine, node);
    check_cpu(look, machine, node);
    check_pci(look, machine);
    const bool extension =
        std::any_of(image.extensions.begin(), image.extensions.end(),
                    [](const auto& name) { return *name == "siderolabs/qemu-guest-agent"; });
    if (image.schematic || *machine.agent == extension) continue;
    if (extension)
      look.findings.add("agent-extension", place(machine.agent.where, node),
                        fmt::format("{} has the extension qemu-guest-agent and no agent device: "
                                    "Talos would boot for ever",
                                    node.name),
                        "set machine.agent: true, or take the extension away");
    else
      look.findings.add(
          "agent-extension", Severity::Warning, place(machine.agent.where, node),
          fmt::format("{} has an agent device, and nothing in Talos answers on it", node.name),
          fmt::format("add qemu-guest-agent to {}, or set machine.agent: false",
                      extensions_path(node)));
  }
}

}  // namespace rocca::spec
