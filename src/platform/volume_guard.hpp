#pragma once

#include "proxmox/owned_volume.hpp"
#include "proxmox/types.hpp"

#include <optional>
#include <string>

namespace rocca::resources {

/// How it is known that rocca itself had Proxmox download a file.
enum class VolumeOrigin {
  Unknown,     ///< it was there before, or another user put it there
  ThisRun,     ///< this run asked for the download, and the file was not there before
  Remembered,  ///< the state says so
  TaskLog,     ///< Proxmox's log has a download of it by our token at the time it was created
};

struct VolumeFacts {
  std::string host;                     // through which it is reached
  std::string expected;                 // the id under which rocca stores the file
  std::optional<proxmox::Volume> seen;  // as Proxmox lists it now; nothing: it is not there
  VolumeOrigin origin = VolumeOrigin::Unknown;
  std::string other_user = {};  // why another cluster may need it; empty: none does
};

struct VolumeVerdict {
  std::string refusal;                           // not empty: why it must stay
  std::optional<proxmox::OwnedVolume> volume{};  // without a refusal
};

/// Decides whether a volume may be deleted, and is the only code that can make an OwnedVolume,
/// which proxmox::Client::start_delete_volume takes. Pure. Only image files that rocca had
/// downloaded are ever deleted this way. The disks of a VM are not: they go with the VM, which
/// VmGuard judges.
class VolumeGuard {
 public:
  static VolumeVerdict may_delete(const VolumeFacts& facts);
};

}  // namespace rocca::resources
