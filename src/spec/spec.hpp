#pragma once

#include "base/address.hpp"
#include "base/clock.hpp"
#include "base/diagnostics.hpp"
#include "base/units.hpp"
#include "base/uuid.hpp"
#include "base/version.hpp"
#include "spec/tree.hpp"
#include "text/value.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace rocca::spec {

/// A value and the place it was written at; not written() when it is a default.
template <class T>
struct Placed {
  T value{};
  Where where;

  const T& operator*() const { return value; }
  const T* operator->() const { return &value; }
  bool written() const { return where.written(); }
};

template <class T>
using Maybe = std::optional<Placed<T>>;
using Texts = std::vector<Placed<std::string>>;
using Pairs = std::vector<std::pair<Placed<std::string>, std::string>>;  // in the user's order

/// Where a secret is found; never the secret.
struct SecretRef {
  enum class From { Key, Infisical };
  From from = From::Key;
  std::string path;
};

enum class Role { ControlPlane, Worker };
enum class Addressing { NoCloud, Meta, Dhcp };
enum class Effect { Live, Service, Reboot, PowerCycle, Replace, DataLoss };
enum class DiskUse { Raw, Longhorn, Volume };
enum class Boot { Import, Iso, Template };

const char* to_string(Role role) noexcept;
const char* to_string(Addressing addressing) noexcept;
const char* to_string(Effect effect) noexcept;
std::optional<Effect> parse_effect(std::string_view text);

/// A machine config patch as Talos takes it: one or more documents to merge, or an RFC 6902 list.
struct Patch {
  enum class Form { Merge, Json };
  Form form = Form::Merge;
  std::string source;  // file name for messages; the spec's own name for an inline one
  std::vector<text::Value> documents;
  std::vector<TreePtr> trees;              // the same with places, for messages
  std::vector<Placed<SecretRef>> secrets;  // every `{ secret: … }` in it
  Where where;                             // where the spec names it
};

/// The secret that a map in a patch stands for: `{ secret: a.b }`, `{ infisical: /a/B }`. Nothing
/// for any other map, and for `cluster.secret`, which is Talos's own: so `key` is what it is the
/// value of.
std::optional<SecretRef> secret_in_patch(const text::Value& value, std::string_view key);

struct Disk {
  std::string name;
  Where where;
  Placed<Bytes> size;
  Maybe<std::string> storage;
  Placed<DiskUse> use;
  Placed<bool> iothread;
  bool discard = true;
  bool ssd = true;
  Placed<std::string> cache;
};

struct Nic {
  Where where;
  Maybe<std::string> bridge;
  Maybe<std::int64_t> vlan;
  Maybe<std::int64_t> mtu;
  Maybe<MacAddress> mac;
};

struct PciDevice {
  Placed<std::string> mapping;
  Placed<bool> pcie;
};

struct Machine {
  Maybe<std::string> host;
  Maybe<std::string> pool;
  Maybe<std::int64_t> vmid;
  Placed<std::int64_t> cores;
  Placed<std::string> cpu;
  Placed<Bytes> memory;
  Placed<std::string> firmware;
  Placed<std::string> chipset;
  Placed<std::string> scsi;
  Placed<bool> agent;
  Placed<bool> on_boot;
  Placed<std::string> cloud_init_slot;
  Placed<std::string> iso_slot;
  std::vector<Disk> disks;  // system first
  std::vector<Nic> nics;    // at least one
  std::vector<PciDevice> pci;

  const Disk& system() const { return disks.front(); }
};

struct Existing {
  Where where;
  Maybe<Uuid> uuid;
  Maybe<std::string> disk;
};

/// What an image is made of: its parts, or a schematic that says them all.
struct Image {
  Texts extensions;  // in full: siderolabs/…
  Maybe<std::string> schematic;
  Texts kernel_args;
};

struct Node {
  std::string name;
  Where where;
  std::string pool;  // empty: written as a node
  Placed<Role> role;
  Maybe<IpAddress> address;
  std::optional<Existing> existing;
  Pairs labels;
  Pairs taints;
  std::vector<std::shared_ptr<const Patch>>
      patches;                             // in the order of application: all, role, pool, node
  std::shared_ptr<const Image> image;      // null: it has none of its own
  std::shared_ptr<const Machine> machine;  // null for a machine that is already there
  std::string vm_name;
  std::string host_name;

  bool control_plane() const { return role.value == Role::ControlPlane; }
};

struct Pool {
  std::string name;
  Where where;
  Placed<Role> role;
  Placed<std::int64_t> count;
  std::vector<Placed<AddressRange>> ranges;
};

struct InfisicalSource {
  Placed<std::string> host;
  Placed<std::string> project;
  Placed<std::string> environment;
  Placed<std::string> path;
  Maybe<SecretRef> auth;
};
struct CommandSource {
  Texts command;
};
struct EnvironmentSource {
  Placed<std::string> prefix;
};
using SecretSource = std::variant<InfisicalSource, CommandSource, EnvironmentSource>;

struct S3Place {
  Placed<std::string> bucket;
  Placed<std::string> key;
  Maybe<std::string> endpoint;
  Placed<std::string> region;
  Maybe<SecretRef> access_key;
  Maybe<SecretRef> secret_key;
};
struct LocalState {
  Placed<std::string> path;
};
struct KubernetesState {
  Placed<std::string> space;
};
struct HttpState {
  Placed<std::string> address;
  Maybe<std::string> lock_address;
  Maybe<std::string> unlock_address;
  std::string update_method;
  std::string lock_method;
  std::string unlock_method;
  Maybe<std::string> username;
  Maybe<SecretRef> password;
};
struct StatePlace {
  std::variant<LocalState, KubernetesState, S3Place, HttpState> place;
  Texts encrypt;
};

struct KernelModule {
  Placed<std::string> name;
  std::vector<std::string> parameters;
};

struct Talos {
  Placed<Version> version;
  Image image;  // of all nodes that have none of their own
  std::vector<KernelModule> modules;
  Pairs sysctls;
  std::vector<std::pair<Placed<std::string>, Texts>> mirrors;
  Placed<bool> discovery;
  Placed<std::string> factory;
  Placed<Boot> boot;
  std::string boot_template;
};

struct Vip {
  Placed<IpAddress> address;
  bool by_kube_vip = false;
  Maybe<std::string> interface;
};
struct Endpoint {
  static constexpr std::int64_t api_port = 6443;  // where kube-apiserver itself listens

  std::optional<Vip> vip;
  Maybe<std::string> host;
  std::int64_t port = api_port;  // of the host
};
struct Cilium {
  Placed<Version> version;
  std::optional<text::Value> values;
};
struct Cni {
  enum class Kind { Flannel, None, Cilium, Manifests };
  Kind kind = Kind::Flannel;
  Where where;
  Cilium cilium;
  Texts manifests;
};

struct Kubernetes {
  Placed<Version> version;
  std::optional<Endpoint> endpoint;
  Placed<Cidr> pod_cidr;
  Placed<Cidr> service_cidr;
  Cni cni;
  Placed<bool> schedule_on_control_planes;  // auto is already decided
  Texts cert_sans;
};

struct Network {
  Placed<Addressing> addressing;
  Maybe<Cidr> subnet;
  Maybe<IpAddress> gateway;
  std::vector<Placed<IpAddress>> nameservers;
  Texts ntp;
  Maybe<std::int64_t> vlan;
  Maybe<std::int64_t> mtu;
};

struct Tailscale {
  Where where;
  Maybe<std::string> login_server;
  Placed<SecretRef> auth_key;
  std::vector<Placed<Cidr>> routes;
};

struct Proxmox {
  Where where;
  Texts endpoints;
  Maybe<std::string> fingerprint;
  Maybe<std::string> ca_file;
  Placed<bool> insecure;
  Placed<SecretRef> token;
  Texts hosts;
  Placed<std::string> image_storage;
  Placed<std::string> disk_storage;
  Placed<std::string> bridge;
};

struct Addon {
  Placed<bool> on;
  Maybe<Version> version;
  Maybe<SecretRef> token;
  Maybe<std::string> storage;
};
struct Addons {
  Placed<bool> longhorn;
  Placed<std::string> longhorn_path;
  Addon metrics_server;
  Addon cert_approver;
  Addon proxmox_ccm;
  Addon proxmox_csi;
  Texts manifests;
};

struct GitAuth {
  Maybe<SecretRef> secret;
  Maybe<std::string> external;
};
struct Flux {
  Where where;
  Placed<std::string> url;
  Placed<std::string> branch;
  Placed<std::string> path;
  std::optional<GitAuth> auth;
  Maybe<SecretRef> decryption;
  Maybe<Version> version;
};
struct ExternalSecrets {
  Maybe<Version> version;
  InfisicalSource infisical;
};
struct PublishInfisical {
  Maybe<std::string> host;
  Maybe<std::string> project;
  Maybe<std::string> environment;
  Placed<std::string> path;
  std::string kubeconfig;
  std::string talosconfig;
  Maybe<SecretRef> auth;
};
struct PublishKubernetes {
  Placed<std::string> space;
  Placed<std::string> name;
};
struct PublishFiles {
  Placed<std::string> folder;
};
struct Publish {
  Where where;
  std::variant<PublishInfisical, PublishKubernetes, PublishFiles> to;
  bool delete_on_down = true;
};
struct Handover {
  std::optional<Flux> flux;
  std::optional<ExternalSecrets> external_secrets;
  std::vector<Publish> publish;
  Texts wait_for_endpoint_slices;  // NAMESPACE/NAME
};

/// Which backups stay: a backup that any of these numbers covers.
struct Retention {
  std::int64_t last = 0;
  std::int64_t daily = 0;
  std::int64_t weekly = 0;
  std::int64_t monthly = 0;
};
struct Drill {
  Where where;
  Placed<std::string> schedule;
  Maybe<std::string> host;
  Maybe<std::string> bridge;
  Maybe<std::int64_t> vlan;
  Maybe<IpAddress> address;
};
struct Backup {
  Where where;
  Placed<std::string> schedule;
  Retention keep;
  std::variant<std::string, S3Place> to;  // a folder, or a bucket
  Texts encrypt;
  std::optional<Drill> drill;
};

/// How many workers may be out of service at once.
struct MaxUnavailable {
  std::int64_t amount = 1;
  bool percent = false;

  /// "1" or "25%"; at least one, at most 100 %.
  static std::optional<MaxUnavailable> parse(std::string_view text);
  /// Of so many workers, at least one.
  std::int64_t of(std::int64_t workers) const;
};
/// A time of day in minutes since midnight, written HH:MM.
std::optional<std::int64_t> parse_time_of_day(std::string_view text);
struct MaintenanceWindow {
  Where where;
  std::vector<std::int64_t> days;  // 0 is Monday; empty: every day
  Placed<std::int64_t> from;       // minutes since midnight
  Placed<std::int64_t> to;         // before `from`: on the next day
  Placed<std::string> zone;
};
struct HttpGate {
  Placed<std::string> url;
};
struct JobGate {
  Placed<std::string> file;
};
using Gate = std::variant<HttpGate, JobGate>;
struct Rollout {
  MaxUnavailable max_unavailable;
  Duration drain_timeout = std::chrono::minutes(10);
  bool force_drain = false;  // delete the pods that evictions left
  std::vector<MaintenanceWindow> windows;
  std::vector<Gate> gates;
};

struct OutputSecret {
  Where where;
  Placed<std::string> name;
  Texts keys;  // "kubeconfig" or "kubeconfig:KUBECONFIG"; empty: all of them
  Pairs labels;
  Pairs annotations;
};
enum class Approval { Auto, Manual, Never };
/// What only `serve` reads.
struct Reconcile {
  Duration interval = std::chrono::minutes(10);
  Approval approval = Approval::Auto;
  bool suspend = false;
  bool destroy_on_deletion = false;
  bool prune = false;
  Texts depends_on;
  std::optional<OutputSecret> outputs;
};

struct Timeouts {
  Duration boot{};
  Duration bootstrap{};
  Duration handover{};
};

/// A cluster, fully resolved: bases merged, defaults filled in, pools made into nodes, machines
/// and images inherited. What is optional here is decided later, from the live world or rocca.lock.
struct Spec {
  std::vector<std::string>
      files;           // [0] is the spec itself, then bases, then patch files; Where counts in it
  std::string folder;  // of the spec; relative paths start here

  Placed<std::string> name;
  Placed<std::string> space;  // namespace of the custom resource, or empty
  Placed<bool> protect;
  StatePlace state;
  std::vector<Placed<std::string>> secret_files;
  std::vector<SecretSource> secret_sources;
  std::vector<Placed<Effect>> allow;
  Placed<bool> warn_even_control_planes;
  Placed<std::string> vm_naming;
  Placed<std::string> host_naming;
  Timeouts timeouts;
  Talos talos;
  Kubernetes kubernetes;
  Network network;
  std::optional<Tailscale> tailscale;
  std::optional<Proxmox> proxmox;
  Addons addons;
  std::vector<Node> nodes;  // written ones first, then pools; in the user's order
  std::vector<Pool> pools;  // what the pools said, for messages; their nodes are in `nodes`
  std::optional<Handover> handover;
  std::optional<Backup> backup;
  Rollout rollout;
  Reconcile reconcile;

  /// The same, as the tree that `validate -o yaml` prints: a valid spec itself, which resolves to
  /// itself.
  TreePtr resolved;

  Position position(const Where& where) const;
  const Node* find_node(std::string_view node_name) const;
  const Image& image_of(const Node& node) const { return node.image ? *node.image : talos.image; }
  /// What `naming.host` makes of a node's name, also of one that is not in this spec any more.
  std::string host_name_of(std::string_view node_name) const;
  std::vector<const Node*> control_planes() const;
  std::vector<const Node*> workers() const;
};

}  // namespace rocca::spec
