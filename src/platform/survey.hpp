#pragma once

#include "base/clock.hpp"
#include "base/error.hpp"
#include "engine/guards.hpp"
#include "engine/resource.hpp"
#include "platform/halt.hpp"
#include "platform/pace.hpp"
#include "platform/subnet_search.hpp"
#include "platform/vm_guard.hpp"
#include "proxmox/client.hpp"
#include "talos/waits.hpp"

#include <functional>
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
  engine::Fields stray = {};  // of one that nobody remembers: what else was found out
};

/// Decoration that says where to look closer; it proves nothing.
bool has_our_tags(const proxmox::VmRow& row, const std::string& cluster);

/// What all steps of a run look at together: many things are seen with one request. Values are kept
/// until somebody acts on what they are about. Safe from many threads; no lock is held while a
/// request is in flight.
class Survey {
 public:
  explicit Survey(const Clock& clock) : clock_(clock), since_(clock.now()) {}

  /// When this run began.
  Instant begun() const { return since_; }

  /// Who was met in the nodes' subnet.
  Search search;

  // ---- VMs

  /// All VMs and containers of the Proxmox cluster, as the list was last read.
  std::vector<proxmox::VmRow> rows(proxmox::Client& client);
  void refresh(proxmox::Client& client);
  /// Unless somebody has just done so. For those who prove by a VM's own configuration.
  void refresh_soon(proxmox::Client& client);
  /// Those that `wanted` says yes to. It must not ask the survey itself.
  struct Candidate {
    const proxmox::VmRow& row;
    bool marked;                 // a scan found our mark on it
    const engine::Shown* shown;  // what it last showed of its identity; nullptr: never asked
  };
  std::vector<proxmox::VmRow> select(proxmox::Client& client,
                                     const std::function<bool(const Candidate&)>& wanted);
  std::optional<proxmox::VmRow> find(proxmox::Client& client, proxmox::Vmid vmid);
  /// An act of ours made it, moved it or changed its power; the list itself lags by ten seconds.
  void note(const proxmox::VmRow& row);
  /// Its power is known otherwise than by the list.
  bool noted(proxmox::Vmid vmid);
  /// A task of this run has switched it off a moment ago. Another may have started it since.
  bool is_switched_off(proxmox::Vmid vmid) const;
  /// Its power is no longer known.
  void unnote(proxmox::Vmid vmid);
  void gone(proxmox::Vmid vmid);
  /// A task of this run has destroyed it, with all its volumes.
  void destroyed(proxmox::Vmid vmid);
  bool was_destroyed(proxmox::Vmid vmid) const;

  /// The configuration in force and what waits for a restart, read once until `forget`.
  std::optional<proxmox::VmConfig> config(proxmox::Client& client, const std::string& host,
                                          proxmox::Vmid vmid);
  void forget(proxmox::Vmid vmid);
  /// The same of a VM that may be anybody's. Nothing as well if its host is off, which is then
  /// asked no more until the list tells of it again: a powered-down host among others is none of
  /// our business.
  std::optional<proxmox::VmConfig> config_of_any(proxmox::Client& client,
                                                 const proxmox::VmRow& row);
  bool is_off(const std::string& host);
  /// By its id or its name this VM is that node's, as far as state, lock and spec tell. No proof:
  /// for those that cannot be asked because their host is off. Nothing: nobody knows.
  void expect(proxmox::Vmid vmid, const std::string& node);
  std::string seems(proxmox::Vmid vmid);
  /// A disk is being made so large: what its task will have done if it ends well. Saves reading all
  /// of it again; whoever sees the task fail forgets it.
  void resized(proxmox::Vmid vmid, const std::string& slot, Bytes size);

  /// Every VM with a mark of this cluster: among those with our tags, or among all there are but
  /// these, which costs a request for each.
  struct Scan {
    std::string cluster;
    bool everywhere = false;
    std::set<proxmox::Vmid> but = {};
    bool asks(const proxmox::VmRow& row) const;
  };
  /// `unasked`: those with our tags, which Proxmox knows by itself, on hosts that are off.
  std::vector<Marked> marked(proxmox::Client& client, const Scan& scan,
                             std::vector<proxmox::VmRow>* unasked = nullptr);

  /// What is to be done next so that it goes off, for whoever does it a moment later: two requests
  /// tell that, and they are the same two. Until `acted`. What a look guessed is not kept.
  void planned(proxmox::Vmid vmid, const Halt& halt);
  std::optional<Halt> just_planned(proxmox::Vmid vmid);
  void acted(proxmox::Vmid vmid);

  /// This run has begun to make it: there is nothing on its disks that was there before.
  void making(proxmox::Vmid vmid);
  bool makes(proxmox::Vmid vmid);
  /// A create of this id came to nothing: it may have left something.
  void suspect(proxmox::Vmid vmid);
  bool suspects(proxmox::Vmid vmid);

  /// A destroy of it met a lock: who holds it must be looked into.
  void contend(proxmox::Vmid vmid);
  bool contended(proxmox::Vmid vmid);

  // ---- storages

  std::vector<proxmox::StorageInfo> storages(proxmox::Client& client, const std::string& host);
  std::vector<proxmox::Volume> volumes(proxmox::Client& client, const std::string& host,
                                       const std::string& storage, const std::string& content);
  /// This run has asked for its download; `host`: through which its storage is reached.
  void fetches(const std::string& host, const std::string& volume);
  bool fetched(const std::string& host, const std::string& volume);
  void fetch_failed(const std::string& host, const std::string& volume);
  void forget_volumes(const std::string& host, const std::string& storage);

  // ---- tasks

  /// How a task stands, from a list of its host's tasks that all share. Nothing: not known at this
  /// moment, ask again shortly.
  /// `shared`: so old a list is good enough, because many wait for tasks of the same host.
  std::optional<proxmox::Task> task(proxmox::Client& client, const proxmox::Upid& upid,
                                    Duration shared = {});

  /// The tasks of one VM since then. Those of all VMs of a host are listed at once, because many
  /// are asked for at the same time; the list is good for a moment, until `task_ended`.
  std::vector<proxmox::TaskRow> recent_tasks(proxmox::Client& client, const std::string& host,
                                             proxmox::Vmid vmid, Duration how_far);
  void task_ended(const std::string& host);

  /// This run has started it.
  void asked(const proxmox::Upid& upid);
  /// How long ago, on this run's own clock; nothing: this run has not started it.
  std::optional<Duration> asked_ago(const proxmox::Upid& upid) const;

  /// A task of somebody else that we have no right to end.
  void cannot_end(const proxmox::Upid& upid);
  bool can_end(const proxmox::Upid& upid);

  /// When to ask after a task that has just begun and takes at least so long: not before one of
  /// its type ends there, as far as this run and the host's log tell. `leeway`: it is not urgent,
  /// and may be asked after so much later with another's list.
  Duration first_ask(const proxmox::Upid& upid, Duration least, Duration leeway = {});
  /// When to ask again after one that still runs.
  Duration ask_again(const proxmox::Upid& upid);

  // ---- nodes

  /// A wait for a node begins now and takes at least so long. `kind`: waits that take as long as
  /// each other.
  void wait_begins(const std::string& name, const std::string& kind, Duration least);
  /// How long there is no sense in looking yet; zero also for a wait whose beginning nobody saw.
  Duration too_early(const std::string& name);
  /// When to look again; `soon`: it has shown that it is about to be over.
  Duration look_again(const std::string& name, const std::string& kind, bool soon = false);
  void wait_over(const std::string& name);
  bool is_awaited(const std::string& name) const;

  /// Everything is looked at, and nothing done in between: what was seen of a node counts until the
  /// end, however many there are.
  void look_begins();
  void look_ends();
  bool looks() const;
  /// A control plane that has answered in this look passes questions on to workers: a handshake
  /// with each of hundreds would cost more than all they have to say. They take turns; empty: none
  /// has answered yet, or this is no look.
  void passes_on(const std::string& address);
  void passes_no_more(const std::string& address);
  /// One question that is passed on, while it lives.
  class Passing {
   public:
    Passing(Survey& survey, std::string through) : survey_(survey), through_(std::move(through)) {}
    ~Passing();
    Passing(const Passing&) = delete;
    Passing& operator=(const Passing&) = delete;
    const std::string& through() const { return through_; }

   private:
    Survey& survey_;
    std::string through_;
  };
  /// Whoever has the least to do: each that asks at the same time needs a connection of its own.
  Passing who_passes_on();
  /// A node was looked at, for whoever wants to know the same a moment later.
  void saw(const std::string& node, const talos::Sight& sight);
  std::optional<talos::Sight> just_seen(const std::string& node);

  /// A node has not come back from what this run did to it: no other one is disturbed.
  void stays_away(const std::string& node);
  std::string who_stays_away() const;  // empty: nobody does
  /// What this run does to a node that must be well again afterwards, for who looks when no answer
  /// came; empty: nothing, or that is over.
  void disturbs(const std::string& node, const std::string& what);
  std::string disturbance_of(const std::string& node) const;
  /// All workers were found to answer before the first one of this run was disturbed.
  void workers_answer();
  bool workers_answered() const;

  /// It opened to nobody but who waited long.
  void found_slow(const std::string& address);
  /// Who answers there has a certificate for this name, and none for the address.
  void is_called(const std::string& address, const std::string& name);
  std::string name_at(const std::string& address) const;  // empty: it goes by its address
  bool is_slow(const std::string& address) const;

  /// How long to knock at a door that may be closed: shortly, because whoever is at home opens at
  /// once and the next knock comes soon. After many in vain now and then longer, in case they live
  /// far away; and once such a door has opened, always.
  Duration knock(const std::string& address);
  /// The same at the address of a node that is to be made, where nobody should be: many are knocked
  /// at ever more shortly, because a raise waits for all of them.
  Duration first_knock();
  void knocked(const std::string& address, bool opened, Duration how_long);

  /// Which of several doors to one thing opened last: whoever knocks next begins there.
  void opened(const std::string& thing, const std::string& door);
  std::string door_of(const std::string& thing);

  /// How long this run has been waiting for something: since it first asked by this name.
  Duration waiting_since(const std::string& name);
  void wait_anew(const std::string& name);

  /// The next asking by this name has the lanes for another door: said once, and true once.
  void next_with_lanes(const std::string& name);
  bool has_lanes(const std::string& name);

 private:
  struct TaskList {
    std::map<std::string, proxmox::Task> tasks;  // by UPID
    Tick read{};
    bool under_way = false;
    bool ever = false;
    Duration took{};  // the last reading
    Pace pace{{0.15, std::chrono::milliseconds{80}, std::chrono::seconds{2},
               std::chrono::milliseconds{50}}};
  };
  template <class Body>
  auto asking(proxmox::Client& client, const std::string& host, Body&& body) -> decltype(body());
  bool proves_off(proxmox::Client& client, const std::string& host);
  [[noreturn]] static void throw_off(const std::string& host);
  static void take(TaskList& list, const proxmox::TaskRow& row);
  Duration still_fresh(const TaskList& list) const;
  Instant oldest_open(const TaskList& list, const proxmox::Upid& asked) const;
  std::optional<proxmox::Task> ask_alone(proxmox::Client& client, const proxmox::Upid& upid);

  const Clock& clock_;
  Instant since_;
  mutable std::mutex mutex_;
  std::optional<std::map<proxmox::Vmid, proxmox::VmRow>> rows_;
  std::map<proxmox::Vmid, std::pair<std::string, Tick>> noted_;  // power, by our own acts
  std::map<proxmox::Vmid, std::pair<std::string, proxmox::VmConfig>> configs_;
  std::map<proxmox::Vmid, engine::Shown> shown_;  // stays when a configuration is forgotten
  Tick refreshed_{};                              // when that was last begun
  std::map<proxmox::Vmid, std::pair<Tick, Halt>> halts_;
  std::set<proxmox::Vmid> suspects_, makes_, contended_;
  std::map<std::string, std::vector<proxmox::StorageInfo>> storages_;
  std::map<std::string, std::vector<proxmox::Volume>> volumes_;  // "host storage content"
  std::set<std::pair<std::string, std::string>> fetched_;        // host, volume
  std::map<std::string, TaskList> tasks_;                        // by host
  Pace nodes_{{0.06, std::chrono::milliseconds{100}, std::chrono::seconds{2},
               std::chrono::milliseconds{80}}};
  std::map<std::string, unsigned> knocks_;           // by address: how many in vain
  std::set<std::string> slow_;                       // addresses
  std::map<std::string, std::string> names_;         // by address
  std::string away_;                                 // a node
  std::map<std::string, std::string> disturbances_;  // by node
  bool workers_answered_ = false;
  bool far_away_ = false;
  std::map<std::string, Tick> waits_;
  std::map<std::string, std::string> doors_;
  std::set<std::string> with_lanes_;
  std::map<std::string, std::pair<Tick, talos::Sight>> sights_;
  std::optional<Tick> look_began_;
  std::vector<std::pair<std::string, unsigned>> pass_on_;  // addresses, questions in flight
  std::size_t turn_ = 0;
  unsigned first_knocks_ = 0;
  std::set<proxmox::Vmid> marked_;
  struct Off {
    Tick until{};  // it is not asked before
    unsigned times = 0;
  };
  std::map<std::string, Off> off_;  // hosts
  struct Mute {
    Tick until{};
    Error error;
  };
  std::map<std::string, Mute> mute_;  // hosts that let a request wait until it timed out
  std::map<proxmox::Vmid, std::string> expected_;
  std::set<std::string> not_ours_to_end_;                                         // UPIDs
  std::map<std::string, Tick> asked_;                                             // by UPID
  std::map<std::string, std::pair<Tick, std::vector<proxmox::TaskRow>>> recent_;  // by host
  std::set<proxmox::Vmid> destroyed_;
};

}  // namespace rocca::resources
