#pragma once

#include "base/address.hpp"
#include "base/clock.hpp"
#include "base/units.hpp"
#include "base/uuid.hpp"
#include "base/version.hpp"
#include "proxmox/failure.hpp"
#include "proxmox/upid.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rocca::proxmox {

using Vmid = std::uint32_t;  // 100 … 999999999

struct VersionInfo {
  Version version;  // 9.1.4
  std::string release;
  std::string repository;

  /// Below 8.4 a Talos disk image cannot be imported with the API alone.
  bool supported() const { return version >= Version{8, 4, 0}; }
  /// VM.Monitor was replaced by VM.GuestAgent.* in 9.0.
  bool has_guest_agent_privileges() const { return version.major() >= 9; }
};

struct NodeInfo {
  std::string name;
  bool online = false;
  std::optional<std::string> fingerprint;
  std::optional<std::uint64_t> cores;  // with Sys.Audit only
  std::optional<Bytes> memory_total;
  std::optional<Bytes> memory_used;
  std::optional<Duration> uptime;
};

struct ClusterStatus {
  std::string name;  // empty: a single node
  bool quorate = true;
  struct Member {
    std::string name;
    bool online = false;
    std::string address;
  };
  std::vector<Member> members;
};

/// One VM as /cluster/resources lists it. Name and status come from statistics that lag by up to
/// ten seconds.
struct VmRow {
  Vmid vmid = 0;
  std::string node;
  std::string name;
  std::string status;  // running, stopped, unknown
  bool is_template = false;
  bool is_container = false;
  std::string pool;
  std::string lock;
  std::string ha_state;
  std::vector<std::string> tags;
};

struct StorageInfo {
  std::string name;
  std::string type;                  // dir, lvmthin, zfspool, nfs…
  std::vector<std::string> content;  // sorted
  bool enabled = false;
  bool active = false;
  bool shared = false;
  Bytes total;
  Bytes used;
  Bytes available;

  bool holds(std::string_view content_type) const;
};

struct Volume {
  std::string id;  // local:import/talos.qcow2
  std::string format;
  std::string content;
  Bytes size;
  std::optional<Vmid> vmid;
  std::optional<Instant> created;
};

struct Bridge {
  std::string name;
  std::string type;  // bridge, OVSBridge, vnet
  bool active = false;
  bool vlan_aware = false;
};

/// A VM's configuration as GET config shows it: option → value, numbers as text.
struct VmConfig {
  std::map<std::string, std::string> options;
  std::string digest;
  /// What waits for the next start; nothing: the option goes then. Only of `find_whole_config`.
  std::map<std::string, std::optional<std::string>> pending = {};

  const std::string* find(const std::string& option) const;
  std::string value_or(const std::string& option, std::string fallback) const;
  std::optional<Uuid> uuid() const;                                   // smbios1
  std::optional<std::string> smbios(const std::string& field) const;  // decoded when base64=1
};

struct PendingChange {
  std::string option;
  std::optional<std::string> value;
  std::optional<std::string> pending;
  bool deletes = false;
};

struct VmStatus {
  Vmid vmid = 0;
  std::string name;
  std::string status;      // running, stopped
  std::string qmp_status;  // running, paused, prelaunch…
  std::string lock;
  std::optional<Duration> uptime;
  bool agent_enabled = false;
  bool ha_managed = false;
  double cpu = 0;
  std::uint64_t net_in = 0, net_out = 0, disk_read = 0, disk_written = 0;
};

/// A task as its node tells it.
struct Task {
  Upid upid;
  bool running = false;
  std::string exit_status;  // when it ended

  bool ok() const {
    return !running && (exit_status == "OK" || exit_status.starts_with("WARNINGS:"));
  }
  std::optional<Failure> failure() const;
};

struct TaskRow {
  Upid upid;
  std::string user;  // user@realm or user@realm!token
  Instant started;
  std::optional<Instant> ended;
  std::string status;  // RUNNING, OK, or the error

  bool running() const { return status == "RUNNING" || status.empty(); }
};

struct TaskFilter {
  std::optional<Vmid> vmid;
  std::string type;
  std::optional<Instant> since;
  bool only_active = false;
  bool only_errors = false;
  unsigned limit = 500;
};

struct UrlMetadata {
  std::string filename;
  Bytes size;
  std::string mime_type;
};

struct Download {
  std::string storage;
  std::string content = "import";
  std::string filename;
  std::string url;
  std::string checksum_algorithm;  // empty: none
  std::string checksum;
  bool verify_certificates = true;
};

/// A drive as we ask for it.
struct Drive {
  std::string storage;
  std::optional<Bytes> size;  // allocate so much (whole GiB or a fraction)
  std::string import_from;    // allocate and copy from this volume
  std::string volume;         // use this one: a volume id, `none`, or STORAGE:iso/FILE
  bool cdrom = false;
  bool cloud_init = false;  // STORAGE:cloudinit
  std::optional<bool> discard, iothread, ssd, backup, replicate;
  std::string cache, aio, serial, format;

  std::string print() const;
};

struct EfiDisk {
  std::string storage;
  bool pre_enrolled_keys = false;
  std::string print() const;
};

struct Nic {
  std::string model = "virtio";
  std::optional<MacAddress> mac;
  std::string bridge;
  std::optional<unsigned> vlan, mtu, queues;
  std::optional<bool> firewall;

  std::string print() const;
};

/// SMBIOS type 1; texts are sent as base64, so any byte is allowed.
struct Smbios {
  Uuid uuid;
  std::string manufacturer, product, version, serial, sku, family;

  std::string print() const;
  static std::optional<Smbios> parse(std::string_view text);
};

struct IpConfig {
  std::string address;  // CIDR, or `dhcp`
  std::string gateway;
  std::string address6;  // CIDR, `dhcp` or `auto`
  std::string gateway6;

  std::string print() const;
};

/// A host's device by the name that the data centre's mapping gives it.
struct PciMapping {
  std::string name;
  bool express = true;  // needs chipset q35
};

/// What a VM is created from, key by key of Proxmox's API.
struct VmCreate {
  Vmid vmid = 0;
  std::string name;
  std::string pool;
  std::string description;
  std::vector<std::string> tags;
  unsigned cores = 1;
  unsigned sockets = 1;
  std::string cpu = "host";
  std::uint64_t memory_mib = 2048;
  std::optional<std::uint64_t> balloon_mib;
  std::string machine = "q35";
  std::string bios = "ovmf";
  std::string os_type = "l26";
  std::string scsi_controller = "virtio-scsi-single";
  bool agent = true;
  bool on_boot = true;
  std::optional<EfiDisk> efi_disk;
  std::map<std::string, Drive> drives;  // by slot: scsi0, ide2…
  std::vector<Nic> nics;
  std::vector<IpConfig> ip_configs;
  std::vector<std::string> nameservers;
  std::string search_domain;
  std::vector<std::string> boot_order;
  std::optional<Smbios> smbios;
  std::string serial_port;  // serial0: `socket`
  std::vector<PciMapping> pci_mappings;
  std::vector<std::string> unused;  // volumes that are its own and in no slot

  /// The parameters of the create call, in the order they are sent.
  std::vector<std::pair<std::string, std::string>> parameters() const;
};

struct VmUpdate {
  std::map<std::string, std::string> set;
  std::vector<std::string> erase;
  std::vector<std::string> revert;
  std::string digest;  // refused if somebody wrote in between; empty: not checked
};

struct Clone {
  Vmid source = 0;
  Vmid target = 0;
  std::string name;
  std::string description;
  std::string pool;
  std::string storage;
  bool full = true;
  std::string node;  // target host; empty: the same
};

struct AgentInterface {
  std::string name;
  std::optional<MacAddress> mac;
  std::vector<IpAddress> addresses;
};

/// Effective privileges by ACL path. The number Proxmox gives is the propagate flag, so only the
/// key counts.
using Permissions = std::map<std::string, std::vector<std::string>>;

/// The same of every path that has an entry of its own: an unlisted path below one has those that
/// propagate.
using Grants = std::map<std::string, std::map<std::string, bool>>;  // path, privilege, propagates

/// One line of the cluster log.
struct LogEntry {
  Instant time{};
  std::string user;  // a user, or a token
  std::string node;
  std::string message;  // "update VM 101: -name evil-name"
};

struct CertificateInfo {
  std::string filename;
  std::string fingerprint;
  std::string subject;
  std::string issuer;
  std::optional<Instant> not_after;
};

struct Options {
  std::string next_id_lower, next_id_upper;
  bool tags_case_sensitive = false;
  std::string tag_access;  // free, existing, list, none
  std::vector<std::string> registered_tags;
  std::string mac_prefix;
};

/// How many calls the engine may have in flight. Proxmox serves its API with three workers per
/// node.
struct Lanes {
  static constexpr unsigned per_host = 3;
  static constexpr unsigned imports_per_storage = 2;
};

}  // namespace rocca::proxmox
