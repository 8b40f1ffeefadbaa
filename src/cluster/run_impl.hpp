#pragma once

#include "cluster/expand.hpp"
#include "cluster/run.hpp"
#include "engine/execute.hpp"
#include "engine/plan.hpp"
#include "platform/proxmox/placement.hpp"
#include "platform/survey.hpp"
#include "platform/teardown.hpp"
#include "proxmox/client.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rocca::resources {

/// Gives each call of a step its World.
class RunWorlds final : public engine::Worlds {
 public:
  RunWorlds(const Cluster& cluster, Survey& survey, Known& known, const Doors& doors)
      : cluster_(cluster), survey_(survey), known_(known), doors_(doors) {}

  void with(const std::string& address, std::stop_token stop,
            const std::function<void(World&)>& body) override;
  void learn(const std::string& address, const std::optional<Fields>& facts) override;

 private:
  const Cluster& cluster_;
  Survey& survey_;
  Known& known_;
  const Doors& doors_;
};

/// The world as one look found it, and what follows from it.
struct Look {
  explicit Look(const Clock& clock) : survey(clock) {}

  Tick made{};  // when it was complete
  state::State prior;
  bool remembered = false;  // the store had a state
  Survey survey;
  Known known;
  std::vector<proxmox::VmRow> unasked;  // with our tags, on hosts that are off
  engine::Desired desired;
  graph::Graph graph;
  engine::Observed observed;
  engine::Plan plan;
  std::optional<proxmox::Grants> grants;  // what the token may do; nothing: not asked
  bool checked = false;                   // see check_before_change
  /// What an interrupted teardown has left, with the plan that destroys it. `plan` shows it first,
  /// and then what is created once all of it is gone.
  std::unique_ptr<Look> remains;
  Course course = Course::Proceed;
  std::vector<ControlPlaneFacts> planes;  // what the course follows from
};

/// What there is after everything went.
struct Remains {
  std::vector<Marked> marked;
  std::vector<proxmox::VmRow> unasked;  // with our tags, on hosts that are off
  bool more = false;                    // there may be something that is ours to take away
};

/// A VM that was taken over and is gone for good: whoever has its name next is one of our own.
void forget_adopted(spec::Lock& lock, const std::function<bool(const std::string& node)>& gone);

struct Run::Impl {
  Impl(Cluster its_cluster, Doors its_doors, RunOptions its_options, std::stop_token its_stop)
      : cluster(std::move(its_cluster)),
        doors(its_doors),
        options(std::move(its_options)),
        stop(std::move(its_stop)),
        written(cluster.lock),
        vmids(doors.runner.reservations(), cluster.id()) {
    doors.storage = folder_storage(doors.files, cluster.spec.folder, doors.storage);
  }

  Cluster cluster;
  Doors doors;
  RunOptions options;
  std::stop_token stop;
  spec::Lock written;  // as it is stored
  engine::Reservations::Holder vmids;
  std::unique_ptr<Look> up;
  std::unique_ptr<Look> down;
  std::unique_ptr<Look> blind;   // what is remembered, where Proxmox was out of reach
  std::optional<Error> away;     // why it was
  std::unique_ptr<Look> memory;  // the state, and nothing else
  std::function<bool(const engine::Plan&)> ask;  // whether to go on with another plan

  bool at_once = false;  // nobody is asked after the plan was made

  bool goes_on(const engine::Plan& plan) const { return ask && ask(plan); }
  bool still_counts(const Look* look);

  /// Runs `body` as a call of the runner: only there may the doors be used.
  void call(const std::string& name, const std::function<void()>& body,
            const std::vector<engine::Lane>& lanes = {});
  /// For calls that ask nodes, Kubernetes, the Image Factory, files.
  void with_world(Look& look, const std::function<void(World&)>& body);
  /// For calls that ask Proxmox: with the lanes of all hosts of the spec, because a request that
  /// names no host is answered by whichever host the endpoint is.
  void with_proxmox(Look& look, const std::function<void(World&)>& body);

  std::unique_ptr<Look> look_up();
  std::unique_ptr<Look> look_down(const DownOptions& how, bool all);
  std::unique_ptr<Look> look_down() {
    return look_down({options.purge_images, options.reset_existing}, /*all=*/false);
  }
  void list_tasks(Look& look);
  Remains what_remains();

  // ---- teardowns that were interrupted

  /// Writes down that a teardown of the whole cluster begins. Durable before its first act.
  void record_teardown(Look& look, const DownOptions& how);
  /// Destroys what `look` has found, and proves that nothing is left. `look` is another one then.
  /// `forget` is called when all is gone.
  engine::Report tear_down(std::unique_ptr<Look>& look, state::Lock& lock,
                           const engine::EventSink& events, const DownOptions& how, bool all,
                           const std::function<void()>& forget);
  /// Control planes that the teardown had begun with, and that are gone since `remains` was read.
  void add_gone_meanwhile(const Look& look, Look& remains, std::set<proxmox::Vmid>& going);
  /// What the teardown that the state remembers means for `up`: sets `course` and `remains`.
  void judge_teardown(Look& look);
  std::vector<ControlPlaneFacts> planes_of(const Look& look, const Look& remains,
                                           const std::set<proxmox::Vmid>& going) const;
  /// Acts of the interrupted run that Proxmox still carries out, by the VM's id.
  std::map<proxmox::Vmid, std::string> tasks_under_way(Look& look);
  /// Waits for them, for a while.
  void await_tasks(Look& look, state::Lock& lock);
  /// The state of a cluster that is gone, to begin another one with.
  state::State forgotten(const state::State& prior) const;
  /// The plan for Course::Recreate: what goes, and what is created after that.
  void plan_recreation(Look& look, const std::set<std::string>& shared_storages);
  /// Destroys what remains; what the state remembers of the cluster ends with it.
  engine::Report finish_teardown(Look& look, state::Lock& lock, const engine::EventSink& events);
  /// Adds to a plan what the teardown means for it.
  void add_notice(Look& look) const;
  void observe(Look& look);
  graph::Graph order_of_looks(const Look& look) const;
  void read_ahead(Look& look, const Survey::Scan& scan);
  Look& seen();
  /// What spec, lock and state tell by themselves.
  std::unique_ptr<Look> look_at_nothing();
  /// The same, where Proxmox is out of reach; `away` says so.
  Look& seen_or_remembered();
  std::unique_ptr<state::Lock> take_lock();
  void load(Look& look);
  void pin(Look& look);
  void store_first(Look& look);
  void write_lock(const spec::Lock& lock);
  /// UUID and mark agree.
  bool is_ours(const Marked& vm) const;
  /// VMs with a mark of ours and another UUID are named in the plan, and never a reason to fail.
  void name_copies(const std::vector<Marked>& marked, engine::Plan& plan) const;
  std::string copy_text(const Marked& vm) const;
  /// Those that neither the spec nor the state knows are asked what the state would have told.
  void meet_strays(const Look& look, World& world, std::vector<Marked>& marked);
  /// Whose VMs are by their ids and names, for those that cannot be asked.
  void expect_vms(Look& look, World& world);
  /// Those that cannot be asked and stand for nothing yet are told of all the same.
  void add_unasked(Look& look, bool whole) const;
  std::set<std::string> shared_storages(Look& look, proxmox::Client& client) const;
  void look_for_missing(Look& look, World& world, std::vector<Marked>& marked);
  std::optional<proxmox::Vmid> vmid_of(const spec::Node& node) const;
  /// Hosts and ids for new nodes; the ids are reserved against other runs of this process.
  void choose_and_reserve(const spec::Lock& kept, Choices& choices);
  void choose_places(Look& look, World& world, const std::vector<Marked>& marked);
  /// Chooses other ids for nodes whose id a VM has that the token may not see.
  void verify_ids(Look& look, World& world, const spec::Lock& before, Choices& choices);
  /// Throws everything that would stop the plan half-way: wrong names, missing rights, addresses in
  /// use. Reads only; asks nothing for a plan that creates no VM and moves no NIC.
  void check_before_change(Look& look);
  std::vector<std::string> targets(const engine::Desired& desired) const;
  engine::Report carry_out(Look& look, state::Lock& lock, const engine::EventSink& events,
                           const engine::EffectPolicy& policy);
};

/// When a teardown began, for people: in whole seconds.
std::string begin_of(const state::Teardown& teardown);

}  // namespace rocca::resources
