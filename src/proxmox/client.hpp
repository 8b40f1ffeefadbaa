#pragma once

#include "base/secret.hpp"
#include "net/transport.hpp"
#include "proxmox/owned_vm.hpp"
#include "proxmox/owned_volume.hpp"
#include "proxmox/types.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

namespace rocca::text {
class Value;
}

namespace rocca::proxmox {

/// Which endpoint answered last. Clients that share one begin there, so that a dead endpoint costs
/// one of them its timeout, once, and not every call. Safe from many threads.
class Reach {
 public:
  std::size_t last() const noexcept { return last_.load(std::memory_order_relaxed); }
  void answered(std::size_t endpoint) noexcept { last_.store(endpoint, std::memory_order_relaxed); }

 private:
  std::atomic<std::size_t> last_{0};
};

/// Where a Proxmox is, who we are there, and how we know it.
struct Access {
  std::vector<std::string> endpoints;  // https://pve.home:8006, tried in this order at first
  Secret token;                        // user@realm!tokenid=secret
  net::Tls tls;
  std::shared_ptr<Reach> reach = std::make_shared<Reach>();  // copies share it
};

/// The VMID a create wanted belongs to somebody, or is being taken this moment.
struct VmidTaken {
  std::string text;
};

/// The Proxmox VE API, call by call: no policy, no retries. Every `start_…` returns before the
/// thing is done, with the task to ask after. A call that Proxmox refused throws Failure::error();
/// where callers decide by it, it is in the return type. When an endpoint cannot be reached
/// (nothing was sent), the next one is asked, and from then on that one first. One Client belongs
/// to one thread at a time; the Transport behind it may be shared.
class Client {
 public:
  Client(net::Transport& transport, Access access, std::stop_token stop = {});

  // The cluster and its nodes.
  VersionInfo version();
  std::vector<NodeInfo> nodes();
  ClusterStatus cluster_status();
  Options options();
  std::vector<VmRow> vms();
  std::vector<Bridge> bridges(const std::string& node);
  std::vector<std::string> machine_types(const std::string& node);
  std::vector<std::string> cpu_models(const std::string& node);
  std::vector<CertificateInfo> certificates(const std::string& node);
  /// The clock of the server that answered last, from its Date header.
  std::optional<Instant> server_time() const noexcept { return server_time_; }
  Vmid next_free_vmid();
  bool vmid_is_free(Vmid vmid);
  Permissions permissions(const std::string& path);
  /// What we may do everywhere, in one answer.
  Grants grants();
  /// Whether a host has this network interface, also one that the token may not use. Nothing: the
  /// token may not ask (Sys.Audit on the host).
  std::optional<bool> has_interface(const std::string& node, const std::string& name);
  /// The newest entries first: tasks, and changes that made no task. Without Sys.Syslog on / only
  /// those of our own.
  std::vector<LogEntry> cluster_log(unsigned max);
  std::vector<std::string> pools();
  /// A role with at least these privileges, a user that may not log in by a password: made, or
  /// left.
  void put_role(const std::string& role, const std::vector<std::string>& privileges);
  void put_user(const std::string& user, const std::string& comment);
  /// Nothing: the user has no such token.
  std::optional<std::string> find_token_comment(const std::string& user, const std::string& name);
  /// `user@realm!name=secret`, with privilege separation. Proxmox tells it this once.
  Secret create_token(const std::string& user, const std::string& name, const std::string& comment);
  void remove_token(const std::string& user, const std::string& name);
  /// `who`: a user, or a token (`user@realm!name`).
  void grant(const std::string& path, const std::string& role, const std::string& who,
             bool propagate);
  /// The SDN zone of every VNet that the token may see, by the VNet's name.
  std::map<std::string, std::string> vnet_zones();

  // Storages and what is on them.
  std::vector<StorageInfo> storages(const std::string& node);
  std::vector<Volume> volumes(const std::string& node, const std::string& storage,
                              const std::string& content = "", std::optional<Vmid> vmid = {});
  /// What stands at a URL, asked by a host. Nothing: the far side answered, and has no such file.
  std::optional<UrlMetadata> find_url(const std::string& node, const std::string& url);
  UrlMetadata url_metadata(const std::string& node, const std::string& url);
  Upid start_download(const std::string& node, const Download& download);
  /// Only with the guard's verdict that it may go. Nothing when it was done before Proxmox
  /// answered.
  std::optional<Upid> start_delete_volume(const OwnedVolume& volume);

  // VMs.
  std::optional<VmConfig> find_config(const std::string& node, Vmid vmid, bool current = false);
  /// The configuration in force and what waits for the next start, in one answer.
  std::optional<VmConfig> find_whole_config(const std::string& node, Vmid vmid);
  std::vector<PendingChange> pending(const std::string& node, Vmid vmid);
  std::optional<VmStatus> find_status(const std::string& node, Vmid vmid);
  std::variant<Upid, VmidTaken> start_create(const std::string& node, const VmCreate& create);
  /// Changes nothing of the source.
  Upid start_clone(const std::string& node, const Clone& clone);

  // What changes or destroys a VM: only with the guard's verdict that it is ours.
  /// For disks, NICs and other changes that may take long on a running VM. Nothing: there was
  /// nothing to do.
  std::optional<Upid> start_update(const OwnedVm& vm, const VmUpdate& update);
  /// Synchronous: only for metadata (name, tags, description, smbios1).
  void update(const OwnedVm& vm, const VmUpdate& update);
  Upid start_resize(const OwnedVm& vm, const std::string& slot, Bytes size,
                    const std::string& digest = "");
  Upid start_template(const OwnedVm& vm);
  Upid start_destroy(const OwnedVm& vm, bool purge);
  void regenerate_cloud_init(const OwnedVm& vm);
  Upid start_vm(const OwnedVm& vm);
  Upid start_stop(const OwnedVm& vm, bool overrule_shutdown = true);
  Upid start_shutdown(const OwnedVm& vm, Duration timeout, bool force_stop);
  Upid start_reboot(const OwnedVm& vm, Duration timeout);
  Upid start_reset(const OwnedVm& vm);
  Upid start_migrate(const OwnedVm& vm, const std::string& target, bool online);

  /// The guest's interfaces as its agent tells them; nothing while the agent is absent or silent.
  std::optional<std::vector<AgentInterface>> find_agent_interfaces(const std::string& node,
                                                                   Vmid vmid);

  // Tasks.
  std::optional<Task> find_task(const Upid& upid);
  std::vector<std::string> task_log(const Upid& upid, unsigned limit = 500);
  std::vector<TaskRow> tasks(const std::string& node, const TaskFilter& filter = {});
  void stop_task(const Upid& upid);

 private:
  using Parameters = std::vector<std::pair<std::string, std::string>>;
  /// The `data` of an answer, or the refusal.
  using Reply = std::variant<text::Value, Failure>;

  Reply call(const std::string& method, const std::string& path, const Parameters& parameters = {});
  text::Value require(const std::string& doing, const std::string& method, const std::string& path,
                      const Parameters& parameters = {});
  Upid require_task(const std::string& doing, const std::string& method, const std::string& path,
                    const Parameters& parameters = {});
  net::Answer send(const std::string& method, const std::string& path,
                   const Parameters& parameters);

  net::Transport& transport_;
  Access access_;
  std::stop_token stop_;
  std::size_t endpoint_ = 0;  // the one that answered this client last
  std::optional<Instant> server_time_;
};

}  // namespace rocca::proxmox
