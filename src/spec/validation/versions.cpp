#include "spec/validation/versions.hpp"

#include "base/strings.hpp"

#include <algorithm>

namespace rocca::spec {

namespace {

// Talos's own compatibility tables (pkg/machinery/compatibility/talos1NN at v1.9.6, v1.10.9,
// v1.11.6, v1.12.11 and v1.13.9), proved by running each line's checks.
constexpr TalosLine lines[] = {
    {9, 27, 32, "1.32.4"},  {10, 28, 33, "1.33.6"}, {11, 29, 34, "1.34.1"},
    {12, 30, 35, "1.35.4"}, {13, 31, 36, "1.36.3"},
};

// The build targets of siderolabs/extensions at v1.9.6, v1.10.9, v1.11.6, v1.12.11 and v1.13.9.
constexpr KnownExtension extensions[] = {{"amazon-ena", 10},
                                         {"amd-ucode"},
                                         {"amdgpu"},
                                         {"binfmt-misc"},
                                         {"bird2", 12},
                                         {"bnx2-bnx2x"},
                                         {"btrfs"},
                                         {"chelsio-drivers"},
                                         {"chelsio-firmware"},
                                         {"cloudflared"},
                                         {"crun"},
                                         {"ctr", 10},
                                         {"drbd"},
                                         {"dvb-cx23885"},
                                         {"dvb-m88ds3103", 11},
                                         {"ecr-credential-provider"},
                                         {"fuse3"},
                                         {"gasket-driver"},
                                         {"glibc"},
                                         {"gpio-pinctrl", 12},
                                         {"gvisor"},
                                         {"gvisor-debug"},
                                         {"hailort", 11},
                                         {"i915"},
                                         {"intel-ice-firmware"},
                                         {"intel-npu", 13},
                                         {"intel-ucode"},
                                         {"iscsi-tools"},
                                         {"joydev", 13},
                                         {"kata-containers"},
                                         {"lldpd"},
                                         {"mdadm"},
                                         {"mei"},
                                         {"mellanox-mstflint", 12},
                                         {"metal-agent"},
                                         {"multipath-tools", 12},
                                         {"nebula", 10},
                                         {"netbird", 12},
                                         {"newt", 11},
                                         {"nfs-utils", 12},
                                         {"nfsd", 10},
                                         {"nfsrahead", 11},
                                         {"nonfree-kmod-nvidia-lts"},
                                         {"nonfree-kmod-nvidia-production"},
                                         {"nut-client"},
                                         {"nvidia-container-toolkit-lts"},
                                         {"nvidia-container-toolkit-production"},
                                         {"nvidia-fabricmanager-lts"},
                                         {"nvidia-fabricmanager-production"},
                                         {"nvidia-gdrdrv-device", 12},
                                         {"nvidia-open-gpu-kernel-modules-lts"},
                                         {"nvidia-open-gpu-kernel-modules-production"},
                                         {"nvme-cli", 10},
                                         {"panfrost", 10},
                                         {"px-fuse", 13},
                                         {"qemu-guest-agent"},
                                         {"qlogic-firmware"},
                                         {"realtek-firmware"},
                                         {"revpi-firmware", 10},
                                         {"rockchip-rknn", 13},
                                         {"soci-snapshotter", 12},
                                         {"spin"},
                                         {"stargz-snapshotter"},
                                         {"tailscale"},
                                         {"tenstorrent", 11},
                                         {"thunderbolt"},
                                         {"trident-iscsi-tools", 12},
                                         {"uhid", 13},
                                         {"uinput"},
                                         {"usb-audio-drivers", 12},
                                         {"usb-modem-drivers"},
                                         {"util-linux-tools"},
                                         {"v4l-uvc-drivers"},
                                         {"vc4", 10},
                                         {"vmtoolsd-guest-agent"},
                                         {"wasmedge"},
                                         {"xdma-driver", 10},
                                         {"xe", 12},
                                         {"xen-guest-agent"},
                                         {"youki", 10},
                                         {"zerotier", 10},
                                         {"zfs"}};

// Short for what people mean, or the names before Talos 1.8 and 1.9 split and renamed them.
constexpr WrongExtension wrong_extensions[] = {
    {"qemu-agent", "qemu-guest-agent"},
    {"guest-agent", "qemu-guest-agent"},
    {"qemu-ga", "qemu-guest-agent"},
    {"iscsi", "iscsi-tools"},
    {"open-iscsi", "iscsi-tools"},
    {"iscsid", "iscsi-tools"},
    {"util-linux", "util-linux-tools"},
    {"i915-ucode", "i915"},
    {"amdgpu-firmware", "amdgpu"},
    {"nvidia-container-toolkit", "nvidia-container-toolkit-production"},
    {"nvidia-open-gpu-kernel-modules", "nvidia-open-gpu-kernel-modules-production"},
    {"nonfree-kmod-nvidia", "nonfree-kmod-nvidia-production"},
    {"nvidia-fabricmanager", "nvidia-fabricmanager-production"},
    {"xe-guest-utilities", "xen-guest-agent"},
    {"gasket", "gasket-driver"},
    {"intel-microcode", "intel-ucode"},
    {"amd-microcode", "amd-ucode"},
};

// hack/modules-amd64.txt of siderolabs/talos at the same five tags.
constexpr KnownModule modules[] = {{"8139too"},
                                   {"aacraid"},
                                   {"ahci"},
                                   {"alx"},
                                   {"amd64_edac"},
                                   {"amd_rng", 11},
                                   {"amd_xgbe", 13},
                                   {"async_memcpy"},
                                   {"async_pq"},
                                   {"async_raid6_recov"},
                                   {"async_tx"},
                                   {"async_xor"},
                                   {"atlantic"},
                                   {"ba431_rng", 11},
                                   {"bcache", 10},
                                   {"be2net"},
                                   {"bnx2"},
                                   {"bnx2x"},
                                   {"bnxt_en"},
                                   {"bnxt_re", 13},
                                   {"cavium_ptp"},
                                   {"cec", 12},
                                   {"ch341"},
                                   {"cp210x"},
                                   {"crc64", 10, 11},
                                   {"crc8", 12},
                                   {"dm_bio_prison"},
                                   {"dm_cache"},
                                   {"dm_cache_smq"},
                                   {"dm_integrity", 12},
                                   {"dm_multipath"},
                                   {"dm_persistent_data"},
                                   {"dm_raid"},
                                   {"dm_round_robin"},
                                   {"dm_thin_pool"},
                                   {"drm_buddy"},
                                   {"drm_display_helper"},
                                   {"drm_exec"},
                                   {"drm_gpusvm_helper", 12},
                                   {"drm_gpuvm", 12},
                                   {"drm_panel_backlight_quirks", 12},
                                   {"drm_suballoc_helper"},
                                   {"drm_ttm_helper"},
                                   {"dwmac_generic", 10},
                                   {"dwmac_intel", 10},
                                   {"e100"},
                                   {"e1000"},
                                   {"e1000e"},
                                   {"e752x_edac"},
                                   {"ena", 10},
                                   {"eni_vdpa", 12},
                                   {"enic"},
                                   {"f71808e_wdt", 10},
                                   {"fam15h_power"},
                                   {"fnic"},
                                   {"ftdi_sio"},
                                   {"gpu_sched"},
                                   {"gve"},
                                   {"hid_a4tech"},
                                   {"hid_apple"},
                                   {"hid_belkin"},
                                   {"hid_cherry"},
                                   {"hid_chicony"},
                                   {"hid_cypress"},
                                   {"hid_ezkey"},
                                   {"hid_gyration"},
                                   {"hid_ite"},
                                   {"hid_kensington"},
                                   {"hid_lg_g15"},
                                   {"hid_logitech"},
                                   {"hid_microsoft"},
                                   {"hid_monterey"},
                                   {"hid_multitouch", 13},
                                   {"hid_petalynx"},
                                   {"hid_pl"},
                                   {"hid_samsung"},
                                   {"hid_sunplus"},
                                   {"hid_topseed"},
                                   {"hkdf", 12},
                                   {"hpilo"},
                                   {"hpsa"},
                                   {"i2c_algo_bit"},
                                   {"i2c_i801"},
                                   {"i2c_smbus"},
                                   {"i3000_edac"},
                                   {"i3200_edac"},
                                   {"i40e"},
                                   {"i5100_edac"},
                                   {"i5400_edac"},
                                   {"i5500_temp"},
                                   {"i5k_amb"},
                                   {"i6300esb"},
                                   {"i7300_edac"},
                                   {"i7core_edac"},
                                   {"i82975x_edac"},
                                   {"iTCO_vendor_support"},
                                   {"iTCO_wdt"},
                                   {"iavf"},
                                   {"ib_umad", 11},
                                   {"ib_uverbs", 11},
                                   {"ice"},
                                   {"idpf", 12},
                                   {"ie31200_edac"},
                                   {"ifb", 12},
                                   {"igb"},
                                   {"igbvf"},
                                   {"igc"},
                                   {"igen6_edac"},
                                   {"intel_pmc_core", 10},
                                   {"intel_pmc_core_pltdrv", 10},
                                   {"intel_pmc_ssram_telemetry", 12},
                                   {"intel_rapl_common", 12},
                                   {"intel_rapl_msr", 12},
                                   {"intel_rng", 11},
                                   {"intel_vsec", 10},
                                   {"iommufd", 13},
                                   {"ip6_gre", 12},
                                   {"ip_gre"},
                                   {"ipmi_watchdog"},
                                   {"irdma", 11},
                                   {"isci"},
                                   {"it87", 12},
                                   {"ixgbe"},
                                   {"ixgbevf"},
                                   {"k10temp"},
                                   {"k8temp"},
                                   {"led_class_multicolor", 12},
                                   {"libahci"},
                                   {"libeth"},
                                   {"libeth_xdp", 12},
                                   {"libfc"},
                                   {"libfcoe"},
                                   {"libie"},
                                   {"libie_adminq", 12},
                                   {"libie_fwlog", 12},
                                   {"lpc_ich"},
                                   {"lpfc"},
                                   {"mdio"},
                                   {"mdio_i2c", 13},
                                   {"megaraid_sas"},
                                   {"mfd_core"},
                                   {"mii"},
                                   {"mlx4_core"},
                                   {"mlx4_en"},
                                   {"mlx4_ib"},
                                   {"mlx5_core"},
                                   {"mlx5_ib"},
                                   {"mlx5_vdpa", 12},
                                   {"mlxfw"},
                                   {"mlxsw_core"},
                                   {"mlxsw_i2c"},
                                   {"mlxsw_minimal"},
                                   {"mlxsw_pci"},
                                   {"mlxsw_spectrum"},
                                   {"mpi3mr"},
                                   {"mpt3sas"},
                                   {"mptbase"},
                                   {"mptsas"},
                                   {"mptscsih"},
                                   {"mptspi"},
                                   {"nbd"},
                                   {"netxen_nic"},
                                   {"nvme"},
                                   {"nvme_auth"},
                                   {"nvme_loop"},
                                   {"nvme_rdma"},
                                   {"nvmet"},
                                   {"nvmet_fc"},
                                   {"nvmet_rdma"},
                                   {"nvmet_tcp"},
                                   {"objagg"},
                                   {"octep_vdpa", 12},
                                   {"parman"},
                                   {"pata_amd"},
                                   {"pata_marvell"},
                                   {"pata_oldpiix"},
                                   {"pata_sch"},
                                   {"pcs_xpcs", 10},
                                   {"pl2303"},
                                   {"pmt_class", 10},
                                   {"pmt_discovery", 12},
                                   {"pmt_telemetry", 10},
                                   {"qed"},
                                   {"qede"},
                                   {"qedf"},
                                   {"qla2xxx"},
                                   {"qlcnic"},
                                   {"r8152"},
                                   {"r8169"},
                                   {"raid456"},
                                   {"raid6_pq"},
                                   {"rdma_rxe"},
                                   {"rdma_ucm", 11},
                                   {"sb_edac"},
                                   {"sdhci_acpi"},
                                   {"sdhci_f_sdh30"},
                                   {"sdhci_pci"},
                                   {"sdhci_pltfm"},
                                   {"sdhci_uhs2", 12},
                                   {"sdhci_xenon_driver"},
                                   {"sev_guest", 10},
                                   {"sfc"},
                                   {"sfc_siena"},
                                   {"sfp", 13},
                                   {"skx_edac"},
                                   {"skx_edac_common", 12},
                                   {"sky2"},
                                   {"smartpqi"},
                                   {"snet_vdpa", 12},
                                   {"sp5100_tco"},
                                   {"stmmac", 10},
                                   {"stmmac_pci", 10},
                                   {"stmmac_platform", 10},
                                   {"tg3"},
                                   {"tls"},
                                   {"tsm", 10, 11},
                                   {"tsm_report", 12},
                                   {"ttm"},
                                   {"ublk_drv", 11},
                                   {"uio"},
                                   {"uio_pci_generic"},
                                   {"vdpa", 12},
                                   {"vdpa_sim", 12},
                                   {"vdpa_sim_blk", 12},
                                   {"vdpa_sim_net", 12},
                                   {"vduse", 12},
                                   {"vfio"},
                                   {"vfio_iommu_type1"},
                                   {"vfio_pci"},
                                   {"vfio_pci_core"},
                                   {"vhost_vdpa", 12},
                                   {"via_rng", 11},
                                   {"virtio_balloon"},
                                   {"virtio_input", 9, 11},
                                   {"virtio_mem", 12},
                                   {"virtio_mmio", 9, 11},
                                   {"virtio_pci"},
                                   {"virtio_pci_legacy_dev"},
                                   {"virtio_pci_modern_dev"},
                                   {"virtio_rng", 11},
                                   {"virtio_vdpa", 12},
                                   {"vmw_pvscsi"},
                                   {"vmxnet3"},
                                   {"vp_vdpa", 12},
                                   {"vport_gre"},
                                   {"vrf"},
                                   {"vringh", 12},
                                   {"watchdog"},
                                   {"wdat_wdt"},
                                   {"x38_edac"},
                                   {"xen_wdt"},
                                   {"xiphera_trng", 11},
                                   {"xor"}};

// Compiled into the kernel (kernel/build/config-amd64 of siderolabs/pkgs, release-1.9 to
// release-1.13): naming them is harmless and common in guides.
constexpr KnownModule builtin[] = {
    {"bonding"},      {"br_netfilter"}, {"ceph"},         {"cifs"},      {"configfs"},
    {"dm_crypt"},     {"dm_mod"},       {"dm_snapshot"},  {"dummy"},     {"fuse"},
    {"geneve"},       {"ip_tables"},    {"ip_vs"},        {"ip_vs_rr"},  {"ip_vs_sh"},
    {"ip_vs_wrr"},    {"ipip"},         {"iptable_nat"},  {"ipvlan"},    {"iscsi_tcp"},
    {"libiscsi"},     {"macvlan"},      {"nf_conntrack"}, {"nfs"},       {"nvme_tcp"},
    {"nvme_fabrics"}, {"nvme_core"},    {"overlay"},      {"rbd"},       {"scsi_transport_iscsi"},
    {"tcp_bbr"},      {"tun"},          {"veth"},         {"vhost_net"}, {"vhost_vsock"},
    {"virtio_blk"},   {"virtio_net"},   {"virtio_scsi"},  {"vxlan"},     {"wireguard"},
    {"xfrm_user"}};

// Modules that come with an extension, as the extensions' own packages name them.
constexpr KnownModule from_extensions[] = {
    {"zfs", 9, 13, "zfs"},
    {"spl", 9, 13, "zfs"},
    {"drbd", 9, 13, "drbd"},
    {"drbd_transport_tcp", 9, 13, "drbd"},
    {"nvidia", 9, 13, "nvidia-open-gpu-kernel-modules-production"},
    {"nvidia_uvm", 9, 13, "nvidia-open-gpu-kernel-modules-production"},
    {"nvidia_drm", 9, 13, "nvidia-open-gpu-kernel-modules-production"},
    {"nvidia_modeset", 9, 13, "nvidia-open-gpu-kernel-modules-production"},
    {"i915", 9, 13, "i915"},
    {"amdgpu", 9, 13, "amdgpu"},
    {"xe", 9, 13, "xe"},
    {"gasket", 9, 13, "gasket-driver"},
    {"apex", 9, 13, "gasket-driver"},
    {"btrfs", 9, 13, "btrfs"},
    {"nfsd", 9, 13, "nfsd"},
    {"binfmt_misc", 9, 13, "binfmt-misc"},
    {"thunderbolt", 9, 13, "thunderbolt"},
    {"mei", 9, 13, "mei"},
    {"mei_me", 9, 13, "mei"},
    {"uvcvideo", 9, 13, "v4l-uvc-drivers"},
    {"uinput", 9, 13, "uinput"},
    {"cdc_acm", 9, 13, "usb-modem-drivers"},
    {"hailo_pci", 9, 13, "hailort"}};

struct DocumentKind {
  std::string_view kind;
  std::uint64_t first;
};

// pkg/machinery/config/types and the JSON schema at the same five tags; an unknown kind is refused
// by the node as
// `"KIND" "v1alpha1": not registered`.
constexpr DocumentKind kinds[] = {{"EventSinkConfig", 9},
                                  {"ExtensionServiceConfig", 9},
                                  {"KmsgLogConfig", 9},
                                  {"KubeSpanEndpointsConfig", 9},
                                  {"NetworkDefaultActionConfig", 9},
                                  {"NetworkRuleConfig", 9},
                                  {"SideroLinkConfig", 9},
                                  {"TrustedRootsConfig", 9},
                                  {"VolumeConfig", 9},
                                  {"WatchdogTimerConfig", 9},
                                  {"EthernetConfig", 10},
                                  {"PCIDriverRebindConfig", 10},
                                  {"UserVolumeConfig", 10},
                                  {"ExistingVolumeConfig", 11},
                                  {"RawVolumeConfig", 11},
                                  {"SwapVolumeConfig", 11},
                                  {"ZswapConfig", 11},
                                  {"BondConfig", 12},
                                  {"BridgeConfig", 12},
                                  {"DHCPv4Config", 12},
                                  {"DHCPv6Config", 12},
                                  {"DummyLinkConfig", 12},
                                  {"HCloudVIPConfig", 12},
                                  {"Layer2VIPConfig", 12},
                                  {"LinkAliasConfig", 12},
                                  {"LinkConfig", 12},
                                  {"VLANConfig", 12},
                                  {"WireguardConfig", 12},
                                  {"StaticHostConfig", 12},
                                  {"HostnameConfig", 12},
                                  {"ResolverConfig", 12},
                                  {"TimeSyncConfig", 12},
                                  {"OOMConfig", 12},
                                  {"RegistryAuthConfig", 12},
                                  {"RegistryMirrorConfig", 12},
                                  {"RegistryTLSConfig", 12},
                                  {"BlackholeRouteConfig", 13},
                                  {"EnvironmentConfig", 13},
                                  {"ExternalVolumeConfig", 13},
                                  {"ImageVerificationConfig", 13},
                                  {"KubeSpanConfig", 13},
                                  {"RoutingRuleConfig", 13},
                                  {"TCPProbeConfig", 13},
                                  {"VRFConfig", 13}};

std::string plain_module_name(std::string_view name) {
  return replace_all(name, "-", "_");
}

}  // namespace

std::span<const TalosLine> talos_lines() {
  return lines;
}

const TalosLine* find_talos_line(const Version& version) {
  if (version.major() != 1) return nullptr;
  for (const TalosLine& line : lines)
    if (line.minor == version.minor()) return &line;
  return nullptr;
}

std::string full_extension_name(std::string_view name) {
  return name.find('/') == std::string_view::npos ? "siderolabs/" + std::string(name)
                                                  : std::string(name);
}

const KnownExtension* find_extension(std::string_view short_name) {
  for (const KnownExtension& known : extensions)
    if (known.name == short_name) return &known;
  return nullptr;
}

std::vector<std::string> extension_names() {
  std::vector<std::string> names;
  for (const KnownExtension& known : extensions) names.emplace_back(known.name);
  return names;
}

const WrongExtension* find_wrong_extension(std::string_view short_name) {
  for (const WrongExtension& wrong : wrong_extensions)
    if (wrong.wrong == short_name) return &wrong;
  return nullptr;
}

const KnownModule* find_module(std::string_view name) {
  const std::string plain = plain_module_name(name);
  const auto among = [&](std::span<const KnownModule> known) -> const KnownModule* {
    for (const KnownModule& module : known)
      if (module.name == plain) return &module;
    return nullptr;
  };
  if (const KnownModule* module = among(from_extensions)) return module;
  if (const KnownModule* module = among(builtin)) return module;
  return among(modules);
}

std::vector<std::string> module_names() {
  std::vector<std::string> names;
  for (const KnownModule& module : from_extensions) names.emplace_back(module.name);
  for (const KnownModule& module : builtin) names.emplace_back(module.name);
  for (const KnownModule& module : modules) names.emplace_back(module.name);
  return names;
}

std::optional<std::uint64_t> first_minor_of_kind(std::string_view kind) {
  for (const DocumentKind& known : kinds)
    if (known.kind == kind) return known.first;
  return std::nullopt;
}

std::vector<std::string> document_kinds() {
  std::vector<std::string> names;
  for (const DocumentKind& known : kinds) names.emplace_back(known.kind);
  return names;
}

}  // namespace rocca::spec
