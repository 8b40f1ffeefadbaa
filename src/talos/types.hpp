#pragma once

#include "base/address.hpp"
#include "base/clock.hpp"
#include "base/secret.hpp"
#include "base/units.hpp"
#include "base/uuid.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rocca::talos {

/// The largest configuration: gRPC messages of Talos end at 32 MiB, and the call needs some of it.
constexpr std::size_t max_config_size = 32 * 1024 * 1024 - 4096;

/// Where a node is in its life, as MachineStatus tells it.
enum class Stage {
  Unknown,
  Booting,
  Installing,
  Maintenance,
  Running,
  Rebooting,
  ShuttingDown,
  Resetting,
  Upgrading
};
const char* to_string(Stage stage) noexcept;  // "shutting down": the words Talos uses

struct UnmetCondition {
  std::string name;
  std::string reason;
};

struct MachineStatus {
  Stage stage = Stage::Unknown;
  bool ready = false;
  std::vector<UnmetCondition> unmet;
};

struct VersionInfo {
  std::string tag;       // v1.11.5
  std::string platform;  // nocloud, metal, container
  std::string arch;
};

enum class ApplyMode { Reboot, Auto, NoReboot, Staged, Try };

struct ApplyOptions {
  ApplyMode mode =
      ApplyMode::Auto;  // always sent: the zero value is REBOOT, which newer Talos refuses
  bool dry_run = false;
  Duration try_timeout = std::chrono::minutes{1};
  std::vector<Secret> hidden{};  // texts that no answer may show, wherever they stand
};

struct Applied {
  ApplyMode mode = ApplyMode::Auto;  // the one Talos chose
  std::vector<std::string> warnings;
  std::string details;  // redacted; a dry run's differences
};

struct Service {
  std::string id;
  std::string state;  // Initialized, Preparing, Waiting, Running, Finished, Failed…
  bool health_known = false;
  bool healthy = false;
  std::string last_message;
  // By the node's own clock, from the service's events, which begin anew with every start.
  Instant started{};  // its oldest event
  Instant ran{};      // when it first was Running since then
};

struct EtcdMember {
  std::uint64_t id = 0;
  std::string hostname;
  std::vector<std::string> peer_urls;
  std::vector<std::string> client_urls;
  bool learner = false;
};

struct EtcdStatus {
  std::uint64_t member_id = 0;
  std::uint64_t leader = 0;
  std::uint64_t raft_index = 0, raft_term = 0, raft_applied_index = 0;
  std::int64_t db_size = 0, db_size_in_use = 0;
  bool learner = false;
  std::string protocol_version, storage_version;
  std::vector<std::string> errors;
};

struct EtcdAlarm {
  std::uint64_t member_id = 0;
  std::string alarm;  // NOSPACE, CORRUPT
};

enum class WipeMode { All, SystemDisk, UserDisks };

struct ResetOptions {
  bool graceful = true;
  bool reboot = false;
  WipeMode mode = WipeMode::SystemDisk;
  std::vector<std::string>
      partitions;  // only these labels (STATE, EPHEMERAL…); empty: the whole disk
  std::vector<std::string> user_disks;
};

struct UpgradeOptions {
  std::string image;
  bool stage = false;
  bool force = false;  // skips the etcd checks: never by ourselves
};

struct Disk {
  std::string name;  // sda
  std::string path;  // /dev/sda
  Bytes size;
  std::string model, serial, wwid, transport, bus_path;
  bool read_only = false, cdrom = false, rotational = false;
};

struct Member {
  std::string name;
  std::string node_id;
  std::vector<IpAddress> addresses;
  std::string hostname;
  bool control_plane = false;
  std::string operating_system;
};

struct Link {
  std::string name;
  MacAddress mac;
  std::uint32_t mtu = 0;
  bool up = false;
  std::string kind, driver;
  bool physical = false;
};

struct Address {
  std::string link;
  Cidr address;
};

struct Extension {
  std::string name;
  std::string version;  // for `schematic`: the schematic's id
};

struct SystemInformation {
  std::string manufacturer, product, serial, sku;
  std::optional<Uuid> uuid;
};

struct KubernetesNode {
  std::string name;
  bool ready = false;
  bool unschedulable = false;
};

struct Event {
  std::string type;  // machine.SequenceEvent…
  std::string id;
  std::string actor_id;
  std::string text;  // one line for people
};

/// One COSI resource, its spec as the node wrote it.
struct Resource {
  std::string space, type, id, version, phase;
  std::string yaml;
  std::string spec;  // protobuf
};

}  // namespace rocca::talos
