#pragma once

#include "base/clock.hpp"
#include "engine/guards.hpp"
#include "proxmox/client.hpp"
#include "resources/search.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace rocca::resources {

/// A VM that carries a mark of ours, wherever it is and whatever it is called.
struct Marked {
  proxmox::VmRow row;
  engine::Shown shown;
  std::string cluster, node;  // what its mark says
};

/// What a VM shows of its identity.
engine::Shown shown_of(const proxmox::VmRow& row, const proxmox::VmConfig& config);
/// Decoration that says where to look closer; it proves nothing.
bool has_our_tags(const proxmox::VmRow& row, const std::string& cluster);
/// "VM 104 'db-1' on atlas".
std::string describe(const proxmox::VmRow& row);

/// What all steps of a run look at together: many things are seen with one request. Values are kept
/// until somebody acts on what they are about. Safe from many threads; no lock is held while a
/// request is in flight.
class Survey {
 public:
  explicit Survey(const Clock& clock) : clock_(clock), since_(clock.now()) {}

  /// Who was met in the nodes' subnet.
  Search search;

  // ---- VMs

  /// All VMs and containers of the Proxmox cluster, as the list was last read.
  std::vector<proxmox::VmRow> rows(proxmox::Client& client);
  void refresh(proxmox::Client& client);
  std::optional<proxmox::VmRow> find(proxmox::Client& client, proxmox::Vmid vmid);
  /// An act of ours made it, moved it or changed its power; the list itself lags by ten seconds.
  void note(const proxmox::VmRow& row);
  void gone(proxmox::Vmid vmid);

  /// The configuration in force and what waits for a restart, read once until `forget`.
  std::optional<proxmox::VmConfig> config(proxmox::Client& client, const std::string& host,
                                          proxmox::Vmid vmid);
  void forget(proxmox::Vmid vmid);
  /// A disk is being made so large: what its task will have done if it ends well. Saves reading all
  /// of it again; whoever sees the task fail forgets it.
  void resized(proxmox::Vmid vmid, const std::string& slot, Bytes size);

  /// Every VM with a mark of this cluster: among those with our tags and those at these ids, or
  /// among all there are, which costs a request for each.
  struct Scan {
    std::string cluster;
    std::set<proxmox::Vmid> vmids = {};
    bool everywhere = false;
  };
  std::vector<Marked> marked(proxmox::Client& client, const Scan& scan);
  /// Did one of those scans find our mark on it?
  bool was_marked(proxmox::Vmid vmid);

  /// This run has begun to make it: there is nothing on its disks that was there before.
  void making(proxmox::Vmid vmid);
  bool makes(proxmox::Vmid vmid);
  /// A create of this id came to nothing: it may have left something.
  void suspect(proxmox::Vmid vmid);
  bool suspects(proxmox::Vmid vmid);

  // ---- storages

  std::vector<proxmox::StorageInfo> storages(proxmox::Client& client, const std::string& host);
  std::vector<proxmox::Volume> volumes(proxmox::Client& client, const std::string& host,
                                       const std::string& storage, const std::string& content);
  void forget_volumes(const std::string& host, const std::string& storage);

  // ---- tasks

  /// How a task stands, from a list of its host's tasks that all share. Nothing: not known at this
  /// moment, ask again shortly.
  std::optional<proxmox::Task> task(proxmox::Client& client, const proxmox::Upid& upid);

  /// A task of somebody else that we have no right to end.
  void cannot_end(const proxmox::Upid& upid);
  bool can_end(const proxmox::Upid& upid);

  /// When to ask after a task that still runs: not before one of its type usually ends there, as
  /// far as the host's log tells; and all who wait ask at one time, so that one list serves them.
  Duration ask_again(const proxmox::Upid& upid);
  /// The same for a task that has just begun and takes at least so long.
  Duration first_ask(const proxmox::Upid& upid, Duration least);

  /// Which of several doors to one thing opened last: whoever knocks next begins there.
  void opened(const std::string& thing, const std::string& door);
  std::string door_of(const std::string& thing);

  /// How long this run has been waiting for something: since it first asked by this name.
  Duration waiting_since(const std::string& name);
  void wait_anew(const std::string& name);

 private:
  struct TaskList {
    std::map<std::string, proxmox::Task> tasks;  // by UPID
    Tick read{};
    bool under_way = false;
    bool ever = false;
    std::map<std::string, std::vector<Duration>> took;  // by type: what ended well
  };
  /// How long a task of this type takes on this host, one half of them; zero: unknown.
  Duration usual(const std::string& host, const std::string& type) const;
  std::optional<proxmox::Task> ask_alone(proxmox::Client& client, const proxmox::Upid& upid);

  const Clock& clock_;
  Instant since_;
  std::mutex mutex_;
  std::optional<std::map<proxmox::Vmid, proxmox::VmRow>> rows_;
  std::map<proxmox::Vmid, std::pair<std::string, Tick>> noted_;  // power, by our own acts
  std::map<proxmox::Vmid, std::pair<std::string, proxmox::VmConfig>> configs_;
  std::set<proxmox::Vmid> suspects_, makes_;
  std::map<std::string, std::vector<proxmox::StorageInfo>> storages_;
  std::map<std::string, std::vector<proxmox::Volume>> volumes_;  // "host storage content"
  std::map<std::string, TaskList> tasks_;                        // by host
  std::map<std::string, Tick> begun_;  // tasks, by UPID: first asked after
  std::map<std::string, Tick> waits_;
  std::map<std::string, std::string> doors_;
  std::set<proxmox::Vmid> marked_;
  std::set<std::string> not_ours_to_end_;  // UPIDs
};

}  // namespace rocca::resources
