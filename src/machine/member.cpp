#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "machine/diagnosis.hpp"
#include "machine/discover.hpp"
#include "machine/kinds.hpp"
#include "machine/node_object.hpp"
#include "machine/node_removal.hpp"
#include "machine/quorum.hpp"
#include "platform/kinds.hpp"
#include "platform/survey.hpp"
#include "talos/waits.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

constexpr const char* healthy = "healthy";
constexpr const char* scheduling = "scheduling";  // a field: may Pods be scheduled there

/// A node that does its work: etcd's member for a control plane, a running machine for a worker.
class MemberKind final : public Thing {
 public:
  struct Wish {
    std::string node, host_name;
    std::string host;  // of its VM; empty: it has none
    bool control_plane = false;
    Duration timeout{};
    BegunRemoval removal{};  // that was interrupted: the spec wants the node again
  };
  MemberKind(About about, Wish wish) : Thing(std::move(about)), wish_(std::move(wish)) {}

  std::optional<Live> read(World& world) const override {
    if (!world.known(machine_address(wish_.node))) return std::nullopt;
    // A worker only has to run, and its machine was read just before.
    const auto seen = wish_.control_plane ? std::nullopt : world.survey.just_seen(wish_.node);
    const bool runs = seen && talos::until_running(*seen).done;
    const std::string problem = runs ? "" : trouble(world);
    Live live{wish_.host_name,
              {{"health", problem.empty() ? healthy : problem}},
              {{"node", wish_.node},
               {"name", wish_.host_name},
               {"role", wish_.control_plane ? "controlplane" : "worker"}}};
    if (problem.empty() && wish_.removal.cordon) read_scheduling(world, live);
    return live;
  }

  Change diff(const std::optional<Live>& live) const override {
    if (!live) return create("the machine has no configuration yet");
    const std::string& health = live->fields.at("health");
    Change change;
    change.action = Action::Update;
    change.effect = Effect::Live;
    if (health == healthy) {
      if (!live->fields.contains(scheduling)) return {};
      change.fields.push_back({scheduling, live->fields.at(scheduling), "on", Effect::Live});
      change.reason = "its removal was interrupted after rocca had cordoned it";
      return change;
    }
    change.reason = "waits for " + health;
    change.waits = true;
    return change;
  }

  Receipt apply(World& world, const Change& change, const std::optional<Live>&) const override {
    if (!change.fields.empty()) {
      uncordon_node(world, wish_.host_name);
      return {"", "uncordon"};
    }
    world.survey.wait_begins(address(), coming_up(), 0s);
    return {"healthy", "wait", world.survey.too_early(address()),
            "the node to join and be healthy"};
  }

  Progress probe(World& world, const Receipt& receipt) const override {
    if (receipt.token.empty()) return Ready{};
    std::optional<Told> told;
    const std::string problem = trouble(world, &told);
    if (!problem.empty() && wish_.control_plane && told) {
      // It reports by itself; workers are too many for that.
      return until_told(problem, address_of(world, wish_.node), *told);
    }
    if (!problem.empty()) return NotYet{problem, world.survey.look_again(address(), coming_up())};
    world.survey.wait_over(address());
    return Ready{};
  }

  Receipt destroy(World&, const Live&) const override { return {}; }
  std::vector<Lane> lanes(const Change*) const override {
    return {{"talos/" + wish_.node, 1, Lane::Hold::Call}};
  }
  Duration patience(const Change&) const override { return wish_.timeout; }
  /// The node is healthy and not cordoned: what an interrupted removal did to it is undone.
  std::vector<state::Record> remembers(const Live&) const override {
    std::vector<state::Record> records;
    if (!wish_.removal.any()) return records;
    for (const std::string& name : {cordon_note(wish_.node), reset_note(wish_.node)}) {
      state::Record record;
      record.kind = state::Record::Kind::Note;
      record.name = name;
      records.push_back(std::move(record));
    }
    return records;
  }
  bool explains() const override { return true; }
  std::optional<engine::Explanation> explain(World& world) const override {
    return explain_node(world, wish_.node);
  }
  std::vector<Lane> explain_lanes() const override {
    return wish_.host.empty() ? std::vector<Lane>{} : std::vector{host_lane(wish_.host)};
  }
  // All wait for etcd and the API behind it; a worker is there when it is there.
  Duration takes() const override { return wish_.control_plane ? 20s : 5s; }
  bool goes_with(const std::string& needed) const override {
    return needed == machine_address(wish_.node);
  }

 protected:
  Fields wishes() const override { return {{"node", wish_.node}}; }

 private:
  std::string coming_up() const {
    return wish_.control_plane ? "a control plane to come up" : "a worker to come up";
  }

  void read_scheduling(World& world, Live& live) const {
    try {
      if (is_cordoned(world, wish_.host_name)) live.fields[scheduling] = "off";
    } catch (const Error& error) {
      if (error.fault() == Fault::Interrupted || error.fault() == Fault::Bug) throw;
      live.fields["health"] =
          fmt::format("Kubernetes to say whether it is cordoned ({})", error.message());
    }
  }

  /// What it waits for; empty: it is as it should be.
  std::string trouble(World& world, std::optional<Told>* told = nullptr) const {
    const std::string where = address_of(world, wish_.node);
    if (where.empty()) return "its address";
    const auto detail = wish_.control_plane ? talos::Detail::Services : talos::Detail::Status;
    const talos::Sight sight = look_by_name(
        world, where, wish_.host_name,
        told != nullptr ? glance(world, where, detail).sight
                        : talos::look(world.transport, world.access(where), world.stop, detail));
    if (sight.door == talos::Door::Foreign) return "a machine of this cluster at " + where;
    const talos::Progress running = talos::until_running(sight);
    if (!wish_.control_plane) return running.done ? "" : running.waiting_for;
    const talos::Progress etcd = talos::until_etcd(sight);
    // etcd is one of many services that boot waits for; the others say it themselves.
    if (!etcd.done || !running.done) {
      if (told != nullptr && sight.door == talos::Door::Ours)
        *told = etcd.done ? Told::Stage : Told::Etcd;
      return etcd.done ? running.waiting_for : etcd.waiting_for;
    }
    talos::Client client = world.talos(where);
    client.set_deadline(5s);
    try {
      for (const talos::EtcdMember& member : client.etcd_members())
        if (member.hostname == wish_.host_name)
          return member.learner ? "etcd to make it a voting member" : "";
    } catch (const Error& error) {
      if (!is_external(error.fault())) throw;
      return fmt::format("etcd to have a leader ({})", error.message());
    }
    return "etcd to take it as a member";
  }

  Wish wish_;
};

/// A node that is going away: nothing new is scheduled there from now on. Without a Kubernetes that
/// answers there is nobody to tell.
class LeftoverMember final : public Thing {
 public:
  LeftoverMember(About about, std::string node, std::string name)
      : Thing(std::move(about)), node_(std::move(node)), name_(std::move(name)) {}

  std::optional<Live> read(World& world) const override {
    const auto node = find_node_object(world, name_);
    if (!node || node->cordoned) return std::nullopt;
    return Live{name_, {{"scheduling", "on"}}, {{"name", name_}}};
  }
  Change diff(const std::optional<Live>& live) const override {
    if (!live) return {};
    Change change;
    change.action = Action::Destroy;
    change.effect = Effect::Service;
    change.reason = "no node of the spec wants it: nothing new is scheduled there";
    return change;
  }
  Receipt apply(World& world, const Change&, const std::optional<Live>& live) const override {
    return live ? destroy(world, *live) : Receipt{};
  }
  Receipt destroy(World& world, const Live&) const override {
    cordon_node(world, name_);
    return {"", "cordon"};
  }
  Progress probe(World&, const Receipt&) const override { return Ready{}; }
  /// If the spec wants the node again before it is gone, the cordon must be undone; one that the
  /// user set before is left alone.
  bool announces(const Change&) const override { return true; }
  Fields announced_notes(const Change&) const override {
    return {{cordon_note(node_), announced_value}};
  }
  std::vector<Lane> lanes(const Change*) const override { return {}; }
  Duration patience(const Change&) const override { return 2min; }

 protected:
  Fields wishes() const override { return {}; }

 private:
  std::string node_, name_;
};

}  // namespace

std::string member_address(const std::string& node) {
  return "member/" + node;
}

Made make_member(const Cluster& cluster, const Ground& ground, const spec::Node& node) {
  MemberKind::Wish wish;
  wish.node = node.name;
  wish.host_name = node.host_name;
  if (const auto chosen = cluster.lock.nodes.find(node.name);
      node.machine && chosen != cluster.lock.nodes.end())
    wish.host = chosen->second.host;
  wish.control_plane = node.control_plane();
  wish.timeout = cluster.spec.timeouts.boot + cluster.spec.timeouts.bootstrap;
  wish.removal = find_begun_removal(ground, node.name);
  return std::make_shared<MemberKind>(
      Thing::About{member_address(node.name),
                   {machine_address(node.name), bootstrap_address(cluster.name())},
                   to_string(cluster.spec.position(node.where))},
      std::move(wish));
}

Made leftover_member(const Cluster& cluster, const Leftover& leftover) {
  const std::string name = fact(leftover.facts, "name");
  if (name.empty()) return leftover_memory(cluster, leftover);
  const std::string node = leftover.address.substr(leftover.address.find('/') + 1);
  return std::make_shared<LeftoverMember>(Thing::About{leftover.address, leftover.needs, ""}, node,
                                          name);
}

}  // namespace rocca::resources
