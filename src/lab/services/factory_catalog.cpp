#include "lab/services/factory_catalog.hpp"

#include <string_view>

namespace rocca::lab {

namespace {

/// Names without siderolabs/, one after the other, and the Talos minors that have them.
struct Era {
  unsigned first;
  unsigned last;
  std::string_view names;
};

constexpr Era eras[] = {
    {9, 13,
     "amd-ucode amdgpu binfmt-misc bnx2-bnx2x btrfs chelsio-drivers chelsio-firmware "
     "cloudflared crun drbd dvb-cx23885 ecr-credential-provider fuse3 gasket-driver "
     "glibc gvisor gvisor-debug i915 intel-ice-firmware intel-ucode iscsi-tools "
     "kata-containers lldpd mdadm mei metal-agent nonfree-kmod-nvidia-lts "
     "nonfree-kmod-nvidia-production nut-client nvidia-container-toolkit-lts "
     "nvidia-container-toolkit-production nvidia-fabricmanager-lts "
     "nvidia-fabricmanager-production nvidia-open-gpu-kernel-modules-lts "
     "nvidia-open-gpu-kernel-modules-production qemu-guest-agent qlogic-firmware "
     "realtek-firmware spin stargz-snapshotter tailscale thunderbolt uinput "
     "usb-modem-drivers util-linux-tools v4l-uvc-drivers vmtoolsd-guest-agent wasmedge "
     "xen-guest-agent zfs"},
    {10, 13,
     "amazon-ena ctr nebula nfsd nvme-cli panfrost revpi-firmware vc4 xdma-driver "
     "youki zerotier"},
    {11, 13, "dvb-m88ds3103 hailort newt nfsrahead tenstorrent"},
    {12, 13,
     "bird2 gpio-pinctrl mellanox-mstflint multipath-tools netbird nfs-utils "
     "nvidia-gdrdrv-device soci-snapshotter trident-iscsi-tools usb-audio-drivers xe"},
    {13, 13, "intel-npu joydev px-fuse rockchip-rknn uhid"},
};

/// The newest patch release of each minor, from 9 on.
constexpr unsigned newest_patches[] = {6, 9, 6, 11, 9};

}  // namespace

std::vector<std::string> talos_releases() {
  std::vector<std::string> names;
  unsigned minor = 9;
  for (const unsigned newest : newest_patches) {
    for (unsigned patch = 0; patch <= newest; ++patch)
      names.push_back("v1." + std::to_string(minor) + "." + std::to_string(patch));
    ++minor;
  }
  return names;
}

std::vector<OfferedExtension> offered_extensions() {
  std::vector<OfferedExtension> offered;
  for (const Era& era : eras)
    for (std::string_view rest = era.names; !rest.empty();) {
      const std::size_t end = rest.find(' ');
      offered.push_back({std::string{rest.substr(0, end)}, era.first, era.last});
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
  return offered;
}

}  // namespace rocca::lab
