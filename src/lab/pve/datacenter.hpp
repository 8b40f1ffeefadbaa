#pragma once

#include "base/entropy.hpp"
#include "lab/pve/access.hpp"
#include "lab/pve/failure.hpp"
#include "lab/pve/guest.hpp"
#include "lab/pve/release.hpp"
#include "lab/pve/schema/schema.hpp"
#include "lab/pve/storage.hpp"
#include "lab/pve/vm.hpp"
#include "lab/services/web.hpp"
#include "lab/sim/network.hpp"
#include "lab/sim/pki.hpp"
#include "lab/sim/world.hpp"
#include "text/value.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::pve {

class Datacenter;
class Node;
class Worker;

/// How long things take. Real numbers of a small home lab; tests that need exact waits set them.
struct Timing {
  Duration handler = std::chrono::milliseconds{8};     // a protected call without work of its own
  Duration light = std::chrono::milliseconds{3};       // an unprotected one
  Duration forward = std::chrono::milliseconds{4};     // from node to node
  Duration worker = std::chrono::milliseconds{2};      // forking a task
  Duration config = std::chrono::milliseconds{20};     // a write through pmxcfs
  Duration allocate = std::chrono::milliseconds{150};  // one volume, under the storage's lock
  Duration start = std::chrono::milliseconds{900};
  Duration stop = std::chrono::milliseconds{400};
  Duration guest_shutdown = std::chrono::milliseconds{2500};  // of a guest that was asked to
  std::uint64_t import_rate = 400ull << 20;                   // bytes of virtual size per second
  unsigned full_speed = 2;  // so many copies of disks a host does at that rate; more share it
  Duration broadcast = std::chrono::seconds{10};
  Duration proxy_limit = std::chrono::seconds{30};
  bool slow_401 = true;
};

/// Locks with waiters, by name: the flock files of a node, or the cluster-wide cfs locks.
class Locks {
 public:
  enum class Mode { Exclusive, Shared };

  /// Held while it lives.
  class Guard {
   public:
    Guard() = default;
    Guard(Locks* locks, std::string name, Mode mode)
        : locks_(locks), name_(std::move(name)), mode_(mode) {}
    Guard(Guard&& other) noexcept
        : locks_(std::exchange(other.locks_, nullptr)),
          name_(std::move(other.name_)),
          mode_(other.mode_) {}
    Guard& operator=(Guard&& other) noexcept {
      release();
      locks_ = std::exchange(other.locks_, nullptr);
      name_ = std::move(other.name_);
      mode_ = other.mode_;
      return *this;
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() { release(); }
    void release();

   private:
    Locks* locks_ = nullptr;
    std::string name_;
    Mode mode_ = Mode::Exclusive;
  };

  std::optional<Guard> try_take(const std::string& name, Mode mode = Mode::Exclusive);
  /// Nothing: the time was over.
  Routine<std::optional<Guard>> take(World& world, std::string name, Duration timeout,
                                     Interrupt* interrupt, Mode mode = Mode::Exclusive);
  bool held(const std::string& name) const;

 private:
  friend class Guard;
  struct Lock {
    unsigned shared = 0;
    bool exclusive = false;
    Signal freed;
  };
  std::map<std::string, std::unique_ptr<Lock>> locks_;
};

/// `UPID:node:pid:pstart:starttime:type:id:user:`
struct Upid {
  std::string node;
  unsigned pid = 0;
  unsigned pstart = 0;
  std::int64_t start = 0;
  std::string type;
  std::string id;
  std::string user;

  static std::optional<Upid> parse(std::string_view text);
};
std::string to_string(const Upid& upid);

/// What a task does. It throws Failure (or Interrupted, by itself) to fail; returning means OK or
/// WARNINGS.
using TaskBody = std::function<Routine<void>(Worker&)>;

/// One worker process and its log, running or archived.
struct Task {
  Upid upid;
  std::string text;  // the UPID
  std::vector<std::string> log;
  std::optional<std::int64_t> end;
  std::string status;  // exit status, once ended
  unsigned warnings = 0;
  TaskBody body;
  Interrupt interrupt;
  Signal ended;
  bool running() const noexcept { return !end.has_value(); }
};

/// What a fault script does to a task: it never ends by itself, or it fails before or after its
/// work is done.
struct TaskFault {
  bool hangs = false;
  std::string error;
  bool after_the_work = false;
};

/// What a fault script does to a request at a host's door.
struct RequestFault {
  Duration delay{};
  int status = 0;  // answered instead of the handler
  std::string reason;
  std::string content_type;
  std::string body;
  bool cut = false;                     // the connection ends before anything is done
  bool lose = false;                    // it is done, and the answer is lost
  std::optional<std::size_t> truncate;  // so many bytes of the answer's body come
  bool strings = false;                 // its numbers come as texts
};

/// The process a handler or a task runs in: what it may wait for. Every wait of a task can be
/// interrupted.
class Process {
 public:
  Process(Datacenter& owner, Node& where, Caller who, Interrupt* interrupt)
      : dc(owner), node(where), caller(std::move(who)), interrupt_(interrupt) {}

  Datacenter& dc;
  Node& node;
  Caller caller;

  World& world() const;
  auto sleep(Duration duration) const { return world().sleep(duration, interrupt_); }
  auto wait(Signal& signal) const { return world().wait(signal, {}, interrupt_); }
  /// flock on this node; throws `can't lock file '…' - got timeout`.
  Routine<Locks::Guard> lock_file(std::string path, Duration timeout,
                                  Locks::Mode mode = Locks::Mode::Exclusive);
  /// The VM's own lock file, 10 s unless told.
  Routine<Locks::Guard> lock_vm(unsigned vmid, Duration timeout = std::chrono::seconds{10},
                                Locks::Mode mode = Locks::Mode::Exclusive);
  /// Around allocating and freeing: a local file lock, or the cluster's cfs lock for shared
  /// storages.
  Routine<Locks::Guard> lock_storage(std::string storage);
  /// Around user.cfg, storage.cfg …: `cfs-lock 'file-user_cfg' error: got lock request timeout`.
  Routine<Locks::Guard> lock_cfs(std::string name, Duration timeout = std::chrono::seconds{10});
  void require(const std::string& path, const std::vector<std::string>& privileges,
               bool any = false) const;
  bool may(const std::string& path, const std::vector<std::string>& privileges,
           bool any = false) const;

 protected:
  Interrupt* interrupt_;
};

/// The process of a task.
class Worker : public Process {
 public:
  Worker(Datacenter& owner, Node& where, Caller who, Task& of)
      : Process(owner, where, std::move(who), &of.interrupt), task(of) {}
  Task& task;
  void log(std::string line) { task.log.push_back(std::move(line)); }
  void warn(const std::string& line);
};

/// The file of a multipart upload.
struct Upload {
  std::string filename;
  std::string content;
};

/// A file in place of `data`, to be saved under a name.
struct Attachment {
  std::string name;
  std::string type;
  std::string encoding;  // gzip; empty: as it is
  std::string bytes;
};

/// A request as a handler sees it: checked parameters, who calls, where it runs.
class Call : public Process {
 public:
  Call(Datacenter& owner, Node& where, Caller who, const Method& what, Parameters given,
       Interrupt* interrupt)
      : Process(owner, where, std::move(who), interrupt), method(what), params(std::move(given)) {}
  const Method& method;
  Parameters params;
  const Upload* upload = nullptr;
  std::optional<std::int64_t> total;  // beside `data`, for paged lists
  std::optional<Attachment> attachment;
  unsigned vmid() const { return static_cast<unsigned>(params.integer("vmid")); }
};

/// One API call. Runs in the worker process of a daemon and keeps it while it waits.
using Handle = Routine<text::Value> (*)(Call& call);
struct Route {
  std::string_view method;  // "GET /nodes/{node}/qemu"
  Handle handle;
};

/// One function of a PCI device, as the host's kernel shows it.
struct PciDevice {
  std::string id;         // "10de:2231": vendor and device
  std::string subsystem;  // empty: it has none
  unsigned iommu_group = 0;
};

/// A name for devices, on every host another one (mapping/pci.cfg).
struct PciMapping {
  std::map<std::string, std::string> options;  // description, mdev, live-migration-capable
  std::vector<std::string> map;                // "node=pve1,path=0000:01:00,id=10de:2231,…"
};

/// A Proxmox VE host: its daemons with three workers each, its tasks, its lock files.
class Node {
 public:
  Node(Datacenter& dc, std::string name, std::string address, unsigned id);

  const std::string name;
  const std::string address;
  const unsigned id;
  bool online = true;
  unsigned cpus = 16;
  unsigned cgroup_mode = 2;
  std::uint64_t memory = 64ull << 30;
  bool kvm = true;  // virtualisation is on in its firmware
  net::Identity identity;
  net::Fingerprint fingerprint;
  struct Bridge {
    std::string cidr;
    bool vlan_aware = false;
    bool active = true;
  };
  std::map<std::string, Bridge> bridges;
  std::map<std::string, PciDevice> pci;  // by function: "0000:01:00.0"
  Locks locks;
  Instant booted;

  /// Forks a worker: the UPID is there at once, the body runs from now on.
  std::string start_task(std::string type, std::string id, const Caller& caller, TaskBody body);
  Task* find_task(const std::string& upid);
  const std::vector<std::unique_ptr<Task>>& tasks() const noexcept {
    return tasks_;
  }  // oldest first
  /// As the power goes: running tasks end without a last line, VMs stop.
  void power_off();
  void power_on();

  /// A slot of one of the two daemons; waiters are served in order.
  class Slots {
   public:
    Signal freed;
    unsigned free = 3;
  };
  /// A process of this host: dies with it.
  class Registration {
   public:
    Registration(Node& node, Interrupt& interrupt) : node_(node), number_(node.next_process_++) {
      node_.processes_.emplace(number_, &interrupt);
    }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;
    ~Registration() { node_.processes_.erase(number_); }

   private:
    Node& node_;
    std::uint64_t number_;
  };
  Slots proxy;
  Slots daemon;
  std::uint64_t requests = 0;

 private:
  friend class Datacenter;
  Routine<void> run_task(Task& task, Caller caller);
  void give_back_id(const Task& task);

  Datacenter& dc_;
  Network::Id service_ = 0;
  std::map<std::uint64_t, Interrupt*> processes_;
  std::uint64_t next_process_ = 0;
  std::vector<std::unique_ptr<Task>> tasks_;
  unsigned next_pid_ = 1000;
};

/// A Proxmox VE cluster (or one host): the shared configuration, and the hosts.
class Datacenter {
 public:
  struct Options {
    Release release = Release::v8_4();
    std::string cluster;  // empty: a single node without corosync
    std::string domain = "home";
    Timing timing;
  };
  Datacenter(World& world, Options options);
  ~Datacenter();
  Datacenter(const Datacenter&) = delete;
  Datacenter& operator=(const Datacenter&) = delete;

  World& world;
  const Release release;
  const Schema& schema;
  const std::string cluster;
  Timing timing;
  Authority authority;
  Access access;
  std::map<std::string, std::string> options;  // datacenter.cfg
  std::map<std::string, Storage> storages;
  std::map<unsigned, Vm> vms;
  struct HaResource {
    std::string state = "started", group, comment;
    unsigned max_restart = 1, max_relocate = 1;
    bool failback = true;
  };
  std::map<std::string, HaResource> ha;  // "vm:100"
  std::map<std::string, std::map<std::string, std::string>> ha_rules;
  std::map<std::string, std::map<std::string, std::string>> zones;  // SDN
  std::map<std::string, std::map<std::string, std::string>> vnets;
  std::map<std::string, PciMapping> pci_mappings;
  std::map<unsigned, std::string> replication;  // VM -> its job: "100-0"
  Web web;
  /// What uploaded bytes stand for, where they are only a token of a large image.
  std::function<std::optional<WebFile>(const std::string& bytes)> recognise;
  Locks cfs;
  bool quorate = true;
  /// The cluster log, oldest first: tasks as they begin and end, and changes that made no task.
  struct LogEntry {
    std::int64_t time = 0;
    std::string node, user, message;
    unsigned pid = 0;
    unsigned priority = 6;
  };
  std::vector<LogEntry> log;
  void write_log(const Node& node, const std::string& user, unsigned pid, std::string message,
                 unsigned priority = 6);

  /// Adds a host and opens its port 8006 at this address, under NAME and NAME.domain.
  Node& add_node(std::string name, std::string address);
  /// Another name in a host's certificate (pve.home), as an administrator would have it signed.
  void add_certificate_name(const std::string& node, const std::string& name);
  Node* find_node(std::string_view name);
  const std::map<std::string, std::unique_ptr<Node>>& nodes() const noexcept { return nodes_; }
  /// Takes a host down or brings it back; its services, tasks and VMs go with it.
  void set_online(const std::string& node, bool online);

  Vm* find_vm(unsigned id);
  /// The VM on this node; throws `Configuration file 'nodes/n/qemu-server/100.conf' does not
  /// exist`.
  Vm& get_vm(unsigned id, const Node& node);
  Storage* find_storage(std::string_view id);
  /// Throws `storage 'x' does not exist`.
  Storage& get_storage(std::string_view id);
  /// Also disabled or not on that node: throws as Proxmox does.
  Storage& get_storage_on(std::string_view id, const Node& node);
  Volume* find_volume(std::string_view volid, const Node& node);

  /// A stream of chance by purpose: "mac", "uuid"; each draws independently.
  SeededEntropy& chance(const std::string& purpose);
  std::string new_uuid();
  const std::string& ticket_key() const noexcept { return ticket_key_; }
  std::string new_mac();  // datacenter mac_prefix, upper case

  /// Called when a VM's process starts or ends, so that what runs inside (Talos) can begin or stop.
  std::function<void(Vm& vm, bool running)> on_power;
  /// Called when a card of a running VM was plugged into another bridge or VLAN, or drawn.
  std::function<void(Vm& vm)> on_replug;
  /// Called when a VM's power button is pressed, by ACPI or through its agent. True: what runs
  /// inside goes down in its own time; false: after Timing::guest_shutdown.
  std::function<bool(Vm& vm)> on_button;
  /// Asked what runs inside a running VM. Without it a disk image with an identity is a system
  /// that obeys the power button and has no agent.
  std::function<std::optional<Guest>(const Vm& vm)> guest_of;

  /// Asked what a running VM has done since it started; without it: nothing.
  std::function<Counters(const Vm& vm)> counters_of;

  /// Asked for every request before anything is done.
  std::function<std::optional<RequestFault>(const Node& node, const net::Incoming& request)>
      request_fault;
  /// Asked for every task as it begins.
  std::function<std::optional<TaskFault>(const Node& node, const Task& task)> task_fault;

  const Handle* find_handler(const Method& method) const;

 private:
  friend class Node;
  void broadcast();
  void sign(Node& node, const std::vector<std::string>& more);

  std::string domain_;
  std::string ticket_key_;
  World::Timer broadcast_timer_ = 0;
  std::map<std::string, std::unique_ptr<Node>> nodes_;
  std::map<std::string, SeededEntropy> chances_;
  std::map<std::string, Handle, std::less<>> handlers_;
};

/// The tables of handlers, one per file; datacenter.cpp puts them together.
std::vector<Route> access_routes();
std::vector<Route> cluster_routes();
std::vector<Route> node_routes();
std::vector<Route> task_routes();
std::vector<Route> storage_routes();
std::vector<Route> download_routes();
std::vector<Route> qemu_routes();  // qemu_*.cpp

/// Shorthand for answers.
/// What is listed in braces is constant; a value is moved out of it all the same.
struct Field {
  std::string_view key;
  mutable text::Value value;
};
text::Value object(std::initializer_list<Field> fields);
inline text::Value string(std::string value) {
  return text::Value::string(std::move(value));
}
inline text::Value number(std::int64_t value) {
  return text::Value::integer(value);
}

}  // namespace rocca::lab::pve
