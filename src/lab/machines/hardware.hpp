#pragma once

#include "lab/pve/datacenter.hpp"
#include "lab/services/factory.hpp"
#include "lab/talos/node.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace rocca::lab {

/// A Talos image as its ImageFacts name it.
struct TalosImage {
  std::string version, platform, schematic;
  std::string arch = "amd64";
  bool secure_boot = false;

  static std::optional<TalosImage> parse(std::string_view identity);
};
std::string to_string(const TalosImage& image);

/// What Talos wrote to a volume.
struct TalosDisk final : DiskContent {
  explicit TalosDisk(talos::SystemDisk what) : state(std::move(what)) {}
  const talos::SystemDisk state;
};

/// What a VM turns into when it is switched on.
enum class Boot {
  Nothing,  // the firmware found nothing it would start, and waits for ever
  Foreign,  // some other system: obeys the power button, no Talos API
  Talos,
  Loop,    // the kernel dies at once and the machine resets, again and again
  Halted,  // a Talos ISO that found Talos installed: prints a line and does nothing
};
const char* to_string(Boot boot);

struct StartUp {
  Boot boot = Boot::Nothing;
  std::string why;     // of anything but Talos
  std::string device;  // scsi0
  talos::Machine machine;
  talos::SystemDisk disk;
  std::map<std::string, std::string> drives;  // sda -> scsi0
};

/// Looks at a running VM as its firmware does: boot order, Secure Boot, processor, disks, cards.
/// Warm: a kernel that runs already loads the installed one, whatever the boot order says.
StartUp start_up(pve::Datacenter& dc, const pve::Vm& vm, const ImageFactory& factory, bool warm);

/// The drive of a VM that has Talos on it, and what is there; nothing if none has.
struct InstalledTalos {
  std::string drive;
  pve::Volume* volume = nullptr;
  talos::SystemDisk disk;
};
std::optional<InstalledTalos> find_installed(pve::Datacenter& dc, const pve::Vm& vm,
                                             const pve::ConfigSection& config,
                                             const ImageFactory& factory);

/// Where a VM's card is plugged in: "vmbr0", "vmbr0.20"; "" while its link is down.
std::string wire_of(const pve::Schema& schema, const std::string& net);

}  // namespace rocca::lab
