#pragma once

#include "base/address.hpp"
#include "lab/machines/lans.hpp"
#include "lab/sim/network.hpp"
#include "lab/sim/world.hpp"
#include "lab/talos/certificates.hpp"
#include "lab/talos/config.hpp"
#include "lab/talos/cosi.hpp"
#include "lab/talos/etcd.hpp"
#include "lab/talos/grpc.hpp"
#include "lab/talos/platform.hpp"
#include "lab/talos/system_disk.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::talos {

class TalosNode;

/// The Talos machines of one simulated site: how they find each other for forwarding, trustd,
/// discovery and etcd. Whoever owns nodes calls World::end_routines before they die.
class Fleet {
 public:
  explicit Fleet(World& world) : world_(world) {}
  World& world() const noexcept { return world_; }
  const std::vector<TalosNode*>& nodes() const noexcept { return nodes_; }
  /// The running machine at an address.
  TalosNode* find(std::string_view address) const;
  /// Does what one of them sends arrive at the other?
  bool connects(const TalosNode& from, const TalosNode& to) const;
  /// The wires between them; without any, everybody hears everybody.
  Lans* lans = nullptr;

  /// Every Bootstrap that made an etcd cluster, in order.
  struct Bootstrapped {
    std::string uuid, hostname, cluster;
    bool recovered = false;
  };
  std::vector<Bootstrapped> bootstraps;
  /// What answers at port 6443 of a control plane once its API server runs. Without it: /livez,
  /// /readyz and /version.
  std::function<net::Handler(TalosNode& node)> kubernetes;
  /// Why not all pods of kube-system with this label are ready, or, for "", not all nodes take
  /// pods;
  /// "": they are, or there are none.
  std::function<std::string(TalosNode& node, const std::string& label)> kubernetes_trouble;
  /// Where a real API server answers in place of a control plane's own; nothing: nowhere.
  std::function<std::optional<std::pair<std::string, unsigned>>(TalosNode& node)> real_kubernetes;
  /// Services of extensions that do not come up, with what they say; by id (ext-tailscale).
  std::map<std::string, std::string> failing_services;
  /// Kernel modules that a config asks for and that do not load.
  std::set<std::string> failing_modules;
  /// Whether a node that runs Tailscale is let into its tailnet.
  bool tailnet_open = true;
  /// Read once per pair; nothing: this is no CA with its key.
  std::shared_ptr<const Signer> signer(const SigningAuthority& authority);
  /// organizations(), read once per certificate: the same client calls again and again.
  const std::vector<std::string>& roles(const std::string& certificate_der);
  /// A kubelet registers, stops, or has another config. True: from now on Kubernetes itself says
  /// (TalosNode::set_node_object) whether the node is ready.
  std::function<bool(TalosNode& node)> kubelet_changed;

 private:
  friend class TalosNode;
  World& world_;
  std::vector<TalosNode*> nodes_;
  std::map<std::string, std::shared_ptr<const Signer>> signers_;
  std::map<std::string, std::vector<std::string>> roles_;
};

struct Disk {
  std::string name;  // "sda"
  std::uint64_t size = 0;
  std::string serial, model = "QEMU HARDDISK", bus_path, wwid;
  std::string transport = "virtio";
  bool cdrom = false;
  bool readonly = false;
};

struct Extension {
  std::string name, version, image;
  bool service = false;        // brings ext-<name>, and boot waits for it
  bool needs_config = false;   // …which waits for an ExtensionServiceConfig of its name
  bool needs_device = false;   // …or for the VM's agent port; it runs in maintenance mode too
  std::string service_name{};  // where it is not the extension's
};

/// What the machine is before any Talos ran on it.
struct Machine {
  std::string platform = "metal";  // metal, nocloud, container
  std::string version = "v1.11.5";
  std::string schematic;
  std::vector<Extension> extensions;
  std::vector<Disk> disks;
  std::vector<Link> links;
  std::string boot_disk;  // the disk whose image boots; "" for an ISO: Talos must be installed
  NoCloudDrive cloud_init;
  std::map<unsigned, std::string> meta;  // keys the image carries
  std::string uuid, manufacturer, product, serial;
  std::string hostname;         // of the platform "container"
  bool kubernetes = true;       // images can be pulled and pods run
  bool api_server = true;       // without, kubelets run and nobody registers them
  std::string instance_type{};  // as the platform names it
  bool agent_device = true;     // the port that qemu-guest-agent waits for
  bool halts = false;           // an ISO that found Talos installed
  bool no_way_back = false;     // nobody routes its answers
  std::vector<std::string> resolvers{"1.1.1.1", "8.8.8.8"};
  unsigned cores = 4;
  std::uint64_t memory = 8ull << 30;
};

/// How long things take. Orders of magnitude of a small VM; a test may set all of them.
struct NodeTiming {
  Duration firmware = std::chrono::seconds{8};
  Duration network = std::chrono::seconds{3};
  Duration maintenance = std::chrono::seconds{1};
  Duration transition = std::chrono::milliseconds{800};  // port closed between the two services
  Duration service = std::chrono::milliseconds{700};
  Duration install = std::chrono::seconds{30};
  Duration etcd_pull = std::chrono::seconds{2};      // its image, once for each disk
  Duration etcd_start = std::chrono::seconds{1};     // its container
  Duration etcd_healthy = std::chrono::seconds{5};   // until it is looked at for the first time…
  Duration etcd_look = std::chrono::seconds{20};     // …and again
  Duration etcd_ask = std::chrono::seconds{3};       // who was not taken in asks again…
  Duration etcd_join = std::chrono::seconds{2};      // until a learner knows what the others know
  Duration etcd_promote = std::chrono::seconds{15};  // …and a learner that may not vote, too,
  Duration etcd_jitter = std::chrono::seconds{1};    // each up to so much later, as go-retry does
  Duration kubelet = std::chrono::seconds{4};
  Duration static_pods = std::chrono::seconds{10};
  Duration node_ready = std::chrono::seconds{5};
  Duration shutdown = std::chrono::seconds{2};
  Duration upgrade = std::chrono::seconds{30};
  /// Of 1000 questions for etcd's members while a learner runs, those that reach the learner, which
  /// refuses them. Talos asks any of the control planes.
  unsigned learner_answers = 0;
};

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
const char* to_string(Stage stage);

/// When Talos tries again what etcd refused: after a fixed time and up to a second more. A node's
/// are the same at every boot, so that the least time of a run can be computed.
class Pauses {
 public:
  static Pauses of_asking(const World& world, const std::string& hostname, Duration jitter);
  static Pauses of_promoting(const World& world, const std::string& hostname, Duration jitter);
  Duration next(Duration least);

 private:
  Pauses(SeededEntropy entropy, Duration jitter) : entropy_(std::move(entropy)), jitter_(jitter) {}
  SeededEntropy entropy_;
  Duration jitter_;
};

/// A machine that runs Talos, from power-on to a member of a cluster: what answers on port 50000,
/// and what is behind it. Everything on its disks outlives a power cycle.
class TalosNode {
 public:
  TalosNode(Fleet& fleet, Machine machine, NodeTiming timing = {});
  ~TalosNode();
  TalosNode(const TalosNode&) = delete;
  TalosNode& operator=(const TalosNode&) = delete;

  void power_on();
  /// Another machine, or the same with other parts and disks, is switched on. A warm start comes
  /// from a kernel that went before: no firmware.
  void power_on(Machine machine, SystemDisk disk, bool warm = false);
  /// The plug is pulled.
  void power_off();
  bool powered() const noexcept { return powered_; }
  /// Called when the node switches itself off (shutdown, a reset without reboot).
  std::function<void()> on_power_off;
  /// Called when it would boot again; who is called switches it on. Without it the same machine
  /// boots what is on its disk. `warm`: by kexec, past the firmware.
  std::function<void(bool warm)> on_reboot;
  /// Somebody pressed the power button.
  void press_power_button();
  /// The DHCP server has something else to say.
  void renew_leases();
  /// Its cards, by hardware address, are on these wires now.
  void plug(const std::map<std::string, std::string>& wires);

  Stage stage() const noexcept { return stage_; }
  const std::string& address() const noexcept { return address_; }
  const std::string& hostname() const noexcept { return hostname_; }
  const Version& version() const noexcept { return release_; }
  const NetworkState& network() const noexcept { return network_; }
  const std::optional<MachineConfig>& config() const noexcept { return config_; }
  bool api_answers() const noexcept { return listening_; }
  /// Is any of its addresses heard outside of its own wire?
  bool routed() const noexcept { return !claimed_.empty(); }
  const std::vector<std::string>& heard_at() const noexcept { return claimed_; }
  const SystemDisk& disk() const noexcept { return disk_; }
  const Machine& machine() const noexcept { return machine_; }
  bool is_control_plane() const { return config_ && config_->is_control_plane(); }
  std::shared_ptr<EtcdCluster> etcd() const { return disk_.etcd; }
  bool etcd_runs() const;
  /// Its etcd process ends and is back after this time.
  void restart_etcd(Duration away);
  bool apiserver_runs() const noexcept { return apiserver_; }
  /// The version of its API server; of the old one until the new one answers. Empty: none has run
  /// since the machine started.
  const std::string& served_version() const noexcept { return served_; }
  /// Its kubelet runs and has found the cluster's API server.
  bool registered() const noexcept { return node_registered_; }
  /// The etcd that holds what this node's Kubernetes knows; nothing: it has found none.
  std::shared_ptr<EtcdCluster> find_cluster() const;
  /// What Kubernetes says of the node.
  void set_node_object(bool ready, bool unschedulable);
  /// The shared addresses that are this node's now.
  const std::vector<SharedAddress>& owned() const noexcept { return owned_; }
  /// A pod of its own network (kube-vip) brought these addresses up on it, and no others.
  void hold(std::vector<SharedAddress> addresses);
  const ResourceStore& resources() {
    refresh({});
    return store_;
  }
  bool service_running(const std::string& id) const;

 private:
  friend class Fleet;

  struct ServiceEvent {
    std::string message, state;
    Instant when{};
  };
  struct Service {
    std::string state;
    std::vector<ServiceEvent> events;
    bool unknown = true, healthy = false;
    std::string last_message;
    Instant last_change{};
  };
  struct MachineEvent {
    std::string type;  // "MachineStatusEvent"
    std::string data;
    std::string id, actor;
  };
  using Handler = Routine<void> (TalosNode::*)(std::shared_ptr<Call>);
  struct Method {
    const char* name;
    const char* roles;  // letters of A(dmin) O(perator) R(eader) E(tcd backup)
    Handler handler;
  };

  // node.cpp: power and boot
  using Stop = std::shared_ptr<Interrupt>;  // one per routine: it ends with the machine
  Stop new_stop();
  static Routine<void> contained(Routine<void> inner);
  Routine<void> run(Stop stop);
  Routine<void> boot_services(Stop stop);
  Routine<void> install(Stop stop);
  Routine<void> run_kubelet(Stop stop);
  void start_extensions(bool maintenance);
  Routine<void> run_extension(Extension extension, Stop stop);
  /// Stops what runs, does `between` on the disks, and comes back or stays off.
  void start_down(Stage stage, std::string sequence, bool again, std::function<void()> between,
                  std::string actor);
  Routine<void> go_down(Stage stage, std::string sequence, bool again,
                        std::function<void()> between, std::string actor);
  void apply_network();
  void claim_addresses();
  void release_addresses();
  void open_port(std::function<net::ServerTls()> mint, bool maintenance);
  void listen();
  void close_port();
  bool open_apid();
  void update_stage();
  void stop_all();
  std::optional<std::string> find_trustd() const;
  Routine<void> renew_certificates(Stop stop);

  // services.cpp
  void set_service(const std::string& id, const std::string& state, std::string message);
  void set_health(const std::string& id, bool healthy, std::string message = "");
  Routine<void> start_service(std::string id, std::string waiting, std::string started,
                              Duration time, Stop stop);
  void add_event(std::string type, std::string data, std::string actor = "");
  void sequence_event(const std::string& sequence, int action, const std::string& actor = "");
  void phase_event(const std::string& phase, int action, const std::string& actor = "");
  void task_event(const std::string& task, int action, const std::string& actor = "");
  /// A phase of one task, as the sequences that end a boot are made of them.
  void walk(const std::string& phase, const std::string& task, const std::string& actor);
  std::string next_xid();

  // node_etcd.cpp
  Routine<void> run_etcd(Stop stop);
  Routine<void> promote_etcd(Stop stop);
  bool is_learner() const;
  bool reaches_learner(const EtcdCluster& cluster);
  Routine<void> start_etcd_again(Duration away, Stop stop);
  void stop_etcd();
  /// Tells its etcd cluster whom this member reaches.
  void place_etcd();
  /// Does its own etcd have a leader?
  bool etcd_has_leader() const;
  void etcd_ready();

  // node_kubernetes.cpp: the shared address, and what answers at port 6443
  Routine<void> run_shared_addresses(Stop stop);
  void resign();
  void forget_owned();
  Routine<void> run_apiserver(Stop stop);
  void listen_apiserver();

  // resources.cpp: what the state looks like as COSI resources
  /// Something changed. The status is told at once, all the rest when somebody looks: most changes
  /// are followed by others before anybody does.
  void publish();
  void refresh(std::string_view type);
  void publish_all();
  void publish_network();
  void publish_definitions();
  void publish_config();
  void publish_members();
  // resources_cluster.cpp
  void publish_identity();
  void publish_etcd_config();
  void publish_affiliate(const TalosNode& node);
  void publish_kubernetes_node();
  void publish_static_pods();
  /// Of the disk it is installed on, those that clients see.
  struct Partition {
    std::string name, source, target;  // target: where it is mounted, if it is
    std::uint64_t size = 0;
  };
  std::vector<Partition> partitions() const;
  void publish_volumes();
  void publish_status();

  // api.cpp: the way of a call to its handler
  void incoming(net::Incoming incoming, std::shared_ptr<net::Responder> responder);
  void route(std::shared_ptr<Call> call);
  void dispatch(std::shared_ptr<Call> call);
  Routine<void> guarded(std::shared_ptr<Call> call);
  Routine<void> serve(std::shared_ptr<Call> call);
  void fan_out(std::shared_ptr<Call> call, const std::vector<std::string>& targets);
  std::optional<Status> unreachable(const std::string& target, TalosNode*& found) const;
  static const std::vector<Method>& methods();
  bool knows_service(std::string_view name) const;
  void require_metal() const;
  void require_control_plane(const std::string& what) const;
  Routine<void> hang(std::shared_ptr<Call> call);

  // api_machine.cpp and api_etcd.cpp
  Routine<void> apply_configuration(std::shared_ptr<Call> call);
  Routine<void> apply_maintenance(std::shared_ptr<Call> call);
  Routine<void> version_info(std::shared_ptr<Call> call);
  Routine<void> hostname_info(std::shared_ptr<Call> call);
  Routine<void> service_list(std::shared_ptr<Call> call);
  Routine<void> service_start(std::shared_ptr<Call> call);
  Routine<void> service_stop(std::shared_ptr<Call> call);
  Routine<void> service_restart(std::shared_ptr<Call> call);
  Routine<void> events(std::shared_ptr<Call> call);
  Routine<void> logs(std::shared_ptr<Call> call);
  Routine<void> dmesg(std::shared_ptr<Call> call);
  Routine<void> read(std::shared_ptr<Call> call);
  Routine<void> copy(std::shared_ptr<Call> call);
  Routine<void> kubeconfig(std::shared_ptr<Call> call);
  Routine<void> generate_client_configuration(std::shared_ptr<Call> call);
  Routine<void> generate_configuration(std::shared_ptr<Call> call);
  Routine<void> reboot(std::shared_ptr<Call> call);
  Routine<void> shutdown(std::shared_ptr<Call> call);
  Routine<void> reset(std::shared_ptr<Call> call);
  Routine<void> upgrade(std::shared_ptr<Call> call);
  Routine<void> rollback(std::shared_ptr<Call> call);
  Routine<void> meta_write(std::shared_ptr<Call> call);
  Routine<void> meta_delete(std::shared_ptr<Call> call);
  Routine<void> image_list(std::shared_ptr<Call> call);
  Routine<void> image_pull(std::shared_ptr<Call> call);
  Routine<void> disks(std::shared_ptr<Call> call);
  Routine<void> wipe(std::shared_ptr<Call> call);
  Routine<void> lifecycle_install(std::shared_ptr<Call> call);
  Routine<void> lifecycle_upgrade(std::shared_ptr<Call> call);
  Routine<void> image_service_pull(std::shared_ptr<Call> call);
  Routine<void> image_service_list(std::shared_ptr<Call> call);
  Routine<void> empty_answer(std::shared_ptr<Call> call);
  Routine<void> health_check(std::shared_ptr<Call> call);  // health.cpp
  std::string service_trouble(const std::vector<std::string>& addresses,
                              const std::string& id) const;
  void answer_time(Call& call) const;
  void answer_memory(Call& call) const;
  void answer_mounts(Call& call) const;
  Routine<void> bootstrap(std::shared_ptr<Call> call);
  Routine<void> etcd_members(std::shared_ptr<Call> call);
  Routine<void> etcd_status(std::shared_ptr<Call> call);
  Routine<void> etcd_alarms(std::shared_ptr<Call> call);
  Routine<void> etcd_disarm(std::shared_ptr<Call> call);
  Routine<void> etcd_defragment(std::shared_ptr<Call> call);
  Routine<void> etcd_forfeit(std::shared_ptr<Call> call);
  Routine<void> etcd_leave(std::shared_ptr<Call> call);
  Routine<void> etcd_remove(std::shared_ptr<Call> call);
  Routine<void> etcd_snapshot(std::shared_ptr<Call> call);
  Routine<void> etcd_recover(std::shared_ptr<Call> call);
  Routine<void> etcd_downgrade(std::shared_ptr<Call> call);

  bool in_container() const { return machine_.platform == "container"; }
  bool in_maintenance() const { return stage_ == Stage::Maintenance; }
  std::string mode() const;  // metal, cloud, container
  std::string platform() const;
  std::string upgrade_refusal(const std::string& image) const;
  void take_image(const std::string& image);
  void use_config(const MachineConfig& config);

  Fleet& fleet_;
  World& world_;
  Machine machine_;
  NodeTiming timing_;
  SeededEntropy entropy_;
  SeededEntropy member_lists_;  // which member answers
  Version release_;
  SystemDisk disk_;
  ResourceStore store_;

  bool powered_ = false;
  std::uint64_t boot_ = 0;       // counts boots; what belongs to an older one ends itself
  std::vector<Stop> processes_;  // of this boot's routines
  Stage stage_ = Stage::Unknown;
  NetworkState network_;
  std::string address_;
  std::string hostname_;
  std::string boot_id_;
  bool time_synced_ = false;
  bool network_ready_ = false;
  bool node_registered_ = false, node_ready_ = false, unschedulable_ = false;
  bool pods_up_ = false;
  bool going_down_ = false;
  std::optional<MachineConfig> config_;
  std::optional<MachineConfig> partial_;  // fragments given in maintenance
  std::function<net::ServerTls()> mint_;  // the certificate of port 50000, made when looked at
  bool maintenance_api_ = false;          // no client certificates asked for
  bool listening_ = false;
  std::map<std::string, Network::Id> ports_;  // by address
  Network::Host host_;
  std::vector<std::string> claimed_;  // addresses that the network knows us by
  bool warm_ = false;
  std::vector<SharedAddress> owned_;
  std::vector<SharedAddress> held_;  // by a pod
  bool apiserver_ = false;
  std::string served_;
  std::vector<Network::Id> apiserver_ports_;
  bool wedged_ = false;  // a second apply in maintenance mode
  std::map<std::string, Service> services_;
  std::vector<std::string> order_;  // services as they were started
  std::vector<MachineEvent> events_;
  Signal events_changed_;
  Signal changed_;  // anything of the node's own state
  Signal config_given_;
  Signal bootstrap_asked_;
  bool bootstrapped_ = false;
  bool recover_ = false, skip_hash_ = false;
  bool upgrading_ = false;
  std::vector<std::weak_ptr<Call>> calls_;
  std::uint64_t xids_ = 0;
  using Unmet = std::vector<std::pair<std::string, std::string>>;
  std::optional<std::pair<Stage, Unmet>> told_;  // the last MachineStatus
  bool stale_ = true;                            // resources are older than what they tell of
  std::uint64_t tries_ = 0;  // counts applies, so that a TRY reverts only what it tried
  std::optional<std::string> try_before_;
  unsigned pid_ = 1200;
};

}  // namespace rocca::lab::talos
