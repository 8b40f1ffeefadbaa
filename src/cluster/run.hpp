#pragma once

#include "cluster/overview.hpp"
#include "engine/execute.hpp"
#include "engine/plan.hpp"
#include "kubernetes/usable.hpp"
#include "platform/storage.hpp"
#include "platform/world.hpp"
#include "state/store.hpp"

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace rocca::resources {

/// What a run stands on.
struct Doors {
  net::Transport& transport;
  Files& files;
  const Clock& clock;
  Entropy& entropy;
  engine::Runner& runner;
  state::Store& store;
  /// What the cluster keeps between runs; what is null is kept in the spec's folder.
  Storage storage = {};
};

struct Outside;

struct RunOptions {
  unsigned parallelism = 64;
  engine::EffectPolicy policy;
  std::vector<std::string> targets;  // addresses or names of nodes
  bool locked = false;               // rocca.lock must not change
  bool force_lock = false;           // take over a live state lock
  bool purge_images = false;         // down: images too
  bool reset_existing = false;       // down: machines that were there before as well
  /// Secrets and manifests for what lives in Kubernetes; nothing: a cluster that answers is enough.
  std::shared_ptr<Outside> outside{};
  std::string who;    // user@machine, for the lock
  std::string doing;  // the verb, for the lock
  /// How the user names the cluster on the command line (a name, a folder, a file), for hints that
  /// can be pasted. Empty: not at all.
  std::string called{};
};

/// One node as it is.
struct NodeStatus {
  std::string name;
  std::string role;          // controlplane, worker
  std::string machine;       // "VM 104 on pve1", "existing 4c4c4544-…"; empty: there is none
  std::string power;         // running, stopped, "unknown, host pve3 is off"
  std::string address;       // where it answers, or where it should
  std::string talos;         // version
  std::string kubernetes{};  // of its kubelet; empty: Kubernetes does not know it
  std::string stage;         // running, maintenance, "no answer"…
  std::string etcd;          // leader, member, learner; empty for workers and outsiders
  bool has_vip = false;
  bool healthy = false;
  std::string problem;  // what is wrong, in its own words
};

struct CertificateStatus {
  std::string name;
  Instant expires{};
};

struct ClusterStatus {
  std::string cluster;
  std::string unseen;      // why Proxmox was not asked; empty: it was
  std::string teardown{};  // of an interrupted teardown: what is left, and how to go on
  std::vector<NodeStatus> nodes;
  std::string vip;        // address, or empty
  std::string vip_owner;  // a node's name, or empty
  std::string etcd;  // "3 members, healthy", "quorum is lost: 1 of 3 answers", "not bootstrapped"
  std::vector<CertificateStatus> certificates;
  std::optional<Instant> last_backup;
  std::optional<state::Holder> held_by;
  std::optional<HandedOver> flux{};  // nothing: it has none
  std::optional<Use> use{};          // nothing: it was not looked at
  /// Why it is not healthy, one reason each: `cp-1: …`, `vip/blue: …`. Empty: it is.
  std::vector<std::string> problems{};
  bool healthy = false;
};

/// One value that is not as declared.
struct Drift {
  std::string address;
  std::string field;
  std::string declared;
  std::string found;
  engine::Effect effect = engine::Effect::Live;  // of putting it right
  /// Not empty: it cannot be told whether somebody changed it or the spec did, and why.
  std::string unsure = {};
  bool waits = false;        // `up` only waits for it
  std::string refusal = {};  // not empty: `up` refuses to put it right, and why
  bool unread = false;       // nobody knows whether it differs; `unsure` says why
  std::string by = {};       // user or token from Proxmox's task log; empty: nobody is named there
  std::string perhaps = {};  // not empty: the log does not prove it, and why
  std::string task = {};     // "qmconfig, UPID:…"
  std::optional<Instant> since = {};
  bool ignored = false;
  /// Where the spec would have to say it so, and how, for `drift accept`; none: it cannot.
  struct Acceptance {
    std::vector<std::string> path;  // {"spec", "nodes", "cp-1", "machine", "cores"}
    std::string value;
    /// Where it stands in a list that the node may only inherit: if so, all of it has to be said.
    std::vector<std::string> list;
    std::string whole;

    friend bool operator==(const Acceptance&, const Acceptance&) = default;
  };
  std::vector<Acceptance> accepts = {};
  std::string accept_pool = {};  // that place speaks for all nodes of this pool
};

/// A VM that the user names as a node's.
struct ClaimPlan {
  std::string node;
  proxmox::Vmid vmid = 0;
  std::string vm;  // "VM 104 'db-1' on atlas"
  std::string host;
  std::string before;  // smbios1 as it is; empty: none
  std::string after;   // and as it will be
  std::optional<Uuid> uuid_before = {};
  Uuid uuid_after = {};
  bool ours = false;     // it already is the node's: there is nothing to write
  bool running = false;  // what is written takes effect once it has been off
};

/// `down` needs only Proxmox. What went wrong with its state ends it all the same, as long as
/// nobody says otherwise; this throws the error with the way on.
[[noreturn]] void throw_without_state(const Error& error);

/// The life of one cluster: the main path from its spec to a report, one verb at a time. Nothing is
/// printed here. A Run looks at the world once; make another one to look again.
class Run {
 public:
  Run(Cluster cluster, Doors doors, RunOptions options, std::stop_token stop = {});
  ~Run();

  /// What `up` would do. Reads only; takes no lock.
  const engine::Plan& plan();
  /// What `down` would do.
  const engine::Plan& plan_down();
  /// The arrows between all things, wanted and left over. Where Proxmox is out of reach, as far as
  /// spec, lock and state tell: see `unseen`.
  const graph::Graph& graph();
  /// Why `graph` and `status` had to do without Proxmox; nothing: they had not.
  const std::optional<Error>& unseen() const;

  /// Asked when the plan made under the lock is another than the one that was shown: tasks of a
  /// killed run may still have been at work in between. True goes on with the new one; without
  /// anybody to ask it is refused.
  void on_change(std::function<bool(const engine::Plan&)> ask);
  /// Nobody was asked after the plan was made: as long as nobody else wrote the state and no act of
  /// an earlier run is open, the look of a moment ago counts under the lock, too.
  void at_once();

  /// Carries the plan out: takes the state's lock, stores what must be durable first (rocca.lock,
  /// the state's lineage), plans again under the lock and goes on only if that plan is the one that
  /// was shown. Error(Locked), Error(Refused) for a guard or a stale plan, before anything is
  /// touched.
  engine::Report up(const engine::EventSink& events);
  /// Needs Proxmox only. Afterwards proves that nothing with our mark is left, else the report has
  /// a failed step that names it.
  engine::Report down(const engine::EventSink& events);

  /// Whether the state remembers the cluster. Asked after plan_down: where nothing is left, `down`
  /// makes it forget.
  bool remembers_down() const;

  /// Volumes that Proxmox CSI made: they belong to no VM, and `down` leaves them.
  std::vector<std::string> loose_volumes();

  /// What `claim` would write onto the VM that the user names. Error(Refused) with the reason for a
  /// VM that cannot become this node's.
  ClaimPlan plan_claim(const std::string& node, proxmox::Vmid vmid);
  /// Reads the VM again, and writes UUID, mark and the place in rocca.lock. Error(Refused) if it is
  /// not as it was shown.
  void claim(const ClaimPlan& plan);

  ClusterStatus status();
  std::vector<Drift> drift();
  /// What differs because the spec asks for something else than the last `up` did, or because that
  /// one did not end: no drift, and not as declared either.
  std::vector<std::string> changed_by_spec();
  /// Remembers that this value of a VM is to be left as it is found, until it or what the spec says
  /// of it changes once more. Error(Refused) for what cannot be left.
  void ignore(const std::string& address, const std::string& field);

  /// What the last run remembered, for `history`. Needs the state only.
  const state::State& prior();
  /// rocca.lock as it will be after `up`: with the hosts and ids that were chosen.
  const spec::Lock& lock();
  /// The nodes as spec and lock describe them; after `plan` with what it chose for new ones.
  ClusterOverview overview();
  /// Whether `up` would write rocca.lock, although there may be nothing else to do: it was lost, or
  /// something was found out since. Asked after plan().
  bool writes_lock() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rocca::resources
