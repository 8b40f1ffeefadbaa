#include "platform/volume_guard.hpp"

#include <fmt/format.h>

namespace rocca::resources {

VolumeVerdict VolumeGuard::may_delete(const VolumeFacts& facts) {
  const auto refuse = [](std::string why) { return VolumeVerdict{std::move(why)}; };
  if (!facts.seen) return refuse(fmt::format("{} is not there", facts.expected));
  const proxmox::Volume& volume = *facts.seen;
  if (volume.id != facts.expected)
    return refuse(fmt::format("{} is not {}", volume.id, facts.expected));
  if (volume.vmid) return refuse(fmt::format("{} belongs to VM {}", volume.id, *volume.vmid));
  if (volume.content != "import" && volume.content != "iso")
    return refuse(fmt::format("{} is not an image file (content: {})", volume.id, volume.content));
  if (facts.origin == VolumeOrigin::Unknown)
    return refuse("it was there before, or another user has put it there");
  // What this run has just downloaded was not there for others to use.
  if (facts.origin != VolumeOrigin::ThisRun && !facts.other_user.empty())
    return refuse(facts.other_user);
  return {"", proxmox::OwnedVolume{facts.host, volume.id}};
}

}  // namespace rocca::resources
