#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "machine/discover.hpp"
#include "machine/etcd_loss.hpp"
#include "machine/kinds.hpp"
#include "machine/quorum.hpp"
#include "platform/kinds.hpp"
#include "platform/survey.hpp"
#include "platform/teardown.hpp"
#include "talos/waits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

constexpr const char* asked = "asked";
constexpr const char* until_ready = "ready";
constexpr const char* lost = "lost";
constexpr const char* way_out = "way out";
constexpr const char* troubled = "etcd";

// A call whose caller died may still be on its way; a second one would do no harm.
constexpr Duration on_its_way = 3s;

/// How etcd stands on one control plane.
enum class Etcd { Unknown, Waits, Begins, Runs };

Etcd etcd_on(const talos::Sight& sight, std::string& words) {
  if (sight.door != talos::Door::Ours) return Etcd::Unknown;
  for (const talos::Service& service : sight.services) {
    if (service.id != "etcd") continue;
    words = fmt::format("{}{}{}", to_lower(service.state), service.last_message.empty() ? "" : ": ",
                        service.last_message);
    if (service.state == "Running") return Etcd::Runs;
    // Before bootstrap it waits for its turn in Preparing; so it does while its image is pulled.
    if (service.state == "Preparing" || service.state == "Waiting" ||
        service.state == "Initialized" || service.state == "Starting")
      return Etcd::Waits;
    return Etcd::Begins;
  }
  return Etcd::Waits;
}

/// That etcd was bootstrapped, once, on the first control plane. Only etcd itself proves it.
class BootstrapKind final : public Thing {
 public:
  struct Wish {
    std::string cluster;
    std::vector<std::string> control_planes;
    bool was = false;               // the state remembers that it was done
    std::set<std::string> members;  // control planes that the state remembers as members of etcd
    Duration timeout{};
  };
  BootstrapKind(About about, Wish wish) : Thing(std::move(about)), wish_(std::move(wish)) {}

  std::optional<Live> read(World& world) const override {
    std::string trouble;
    std::vector<std::string> silent;
    std::vector<ControlPlaneFacts> planes;
    const auto note = [&](const std::string& node, EtcdData data) {
      // One that was never a member had no data to lose.
      if (wish_.members.empty() ? data != EtcdData::Gone : wish_.members.contains(node))
        planes.push_back({node, data});
    };
    bool reached = false;
    for (const std::string& node : wish_.control_planes) {
      if (is_new(world, node)) {
        note(node, EtcdData::Gone);
        continue;
      }
      const std::string where = address_of(world, node);
      const talos::Sight sight =
          where.empty() ? talos::Sight{}
                        : talos::look(world.transport, world.access(where), world.stop);
      if (sight.door == talos::Door::Maintenance) {  // it has no configuration, and no data
        note(node, EtcdData::Empty);
        continue;
      }
      std::string words;
      const Etcd etcd = etcd_on(sight, words);
      if (etcd == Etcd::Unknown) silent.push_back(node);
      reached = reached || etcd != Etcd::Unknown;
      if (etcd == Etcd::Runs && has_members(world, where))
        return Live{wish_.cluster, {{troubled, "has members"}}, {{"first", node}}};
      // Running without a leader, failed, stopped: there is data, and it is not ours to overwrite.
      const bool data = etcd == Etcd::Runs || etcd == Etcd::Begins;
      if (data) trouble = fmt::format("etcd on {} is {}", node, words);
      note(node, data                    ? EtcdData::Present
                 : etcd == Etcd::Unknown ? EtcdData::Silent
                                         : EtcdData::Waiting);
    }
    if (decide(planes, {wish_.was, /*teardown=*/false, /*etcd_answers=*/false}) == Course::Lost)
      return Live{wish_.cluster,
                  {{lost, explain_loss(planes)}, {way_out, way_out_of_loss(world, planes)}},
                  {}};
    if (trouble.empty() && !silent.empty() && (reached || !wish_.was))
      trouble = fmt::format("{} may have etcd's data, and {} not answer", enumerate(silent),
                            silent.size() == 1 ? "does" : "do");
    if (!trouble.empty())
      return Live{wish_.cluster, {{troubled, trouble}}, {{"was", wish_.was ? "yes" : ""}}};
    return std::nullopt;
  }

  Change diff(const std::optional<Live>& live) const override {
    if (!live) {
      if (wish_.was) return waiting("no control plane answers, and etcd was bootstrapped before");
      return create("etcd has no members yet");
    }
    if (live->fields.contains(lost)) return refuse(live->fields.at(lost), live->fields.at(way_out));
    const std::string& words = live->fields.at(troubled);
    if (words == "has members") return {};
    return waiting(words);
  }

  Receipt apply(World& world, const Change& change, const std::optional<Live>&) const override {
    if (change.action != Action::Create) return {until_ready, "wait"};
    const auto now = read(world);
    if (now) return {until_ready, "wait"};  // somebody was faster, or an answer was lost
    const std::string where = address_of(world, wish_.control_planes.front());
    const talos::Sight sight = talos::look(world.transport, world.access(where), world.stop);
    if (!talos::until_bootstrappable(sight).done) return {until_ready, "wait"};
    talos::Client client = world.talos(where);
    if (!client.time_in_sync()) return {until_ready, "wait"};
    world.survey.wait_anew(address());
    try {
      client.bootstrap();
    } catch (const Error& error) {
      // Busy: too early after all. Conflict: there is data; etcd itself will tell what became of
      // it.
      if (error.fault() != Fault::Busy && error.fault() != Fault::Conflict) throw;
      return {until_ready, "wait"};
    }
    return {asked, "bootstrap"};
  }

  bool announces(const Change& change) const override { return change.action == Action::Create; }

  Progress probe(World& world, const Receipt& receipt) const override {
    if (receipt.token == asked) return watch(world);
    const std::string where = address_of(world, wish_.control_planes.front());
    const talos::Sight sight = talos::look(world.transport, world.access(where), world.stop);
    std::string words;
    const Etcd etcd = etcd_on(sight, words);
    if (etcd == Etcd::Runs) return until_members(world, where, sight);
    const talos::Progress may = talos::until_bootstrappable(sight);
    if (!may.done) return not_yet(world, may.waiting_for);
    if (etcd == Etcd::Waits && !wish_.was) {
      // Whoever else may have data is asked before a new cluster is made beside it.
      if (const auto live = read(world); live && fact(live->fields, troubled) != "has members")
        return not_yet(world, fact(live->fields, troubled));
      if (!world.talos(where).time_in_sync())
        return not_yet(world, "the node's clock to be in sync");
      world.survey.wait_over(address());
      return Ready{};
    }
    return not_yet(world, "etcd, which is " + words);
  }

  Progress probe_unknown(World& world) const override { return watch(world); }

  std::vector<state::Record> remembers(const Live&) const override {
    state::Record record;
    record.kind = state::Record::Kind::Bootstrapped;
    record.name = address();
    return {record};
  }

  Receipt destroy(World&, const Live&) const override { return {}; }
  std::vector<Lane> lanes(const Change*) const override { return {}; }
  Duration patience(const Change&) const override { return wish_.timeout; }
  bool explains() const override { return true; }
  std::optional<engine::Explanation> explain(World& world) const override {
    const auto loss = explain_etcd(world);
    if (!loss) return std::nullopt;
    return engine::Explanation{loss->substr(0, loss->find('\n')), *loss};
  }

 protected:
  Fields wishes() const override { return {{"cluster", wish_.cluster}}; }

 private:
  static Change waiting(std::string reason) {
    Change change;
    change.action = Action::Update;
    change.effect = Effect::Live;
    change.reason = std::move(reason);
    change.waits = true;
    return change;
  }

  /// There is no machine, or this run has made it: nothing on its disk was there before.
  static bool is_new(World& world, const std::string& node) {
    const auto chosen = world.cluster.lock.nodes.find(node);
    const spec::Node* wanted = world.cluster.spec.find_node(node);
    if (wanted == nullptr || !wanted->machine || chosen == world.cluster.lock.nodes.end())
      return false;
    if (!chosen->second.vmid) return true;
    const auto vmid = static_cast<proxmox::Vmid>(*chosen->second.vmid);
    if (!world.survey.find(world.proxmox(), vmid)) return true;
    return world.survey.makes(vmid) && !world.known(machine_address(node));
  }

  static bool has_members(World& world, const std::string& where) {
    talos::Client client = world.talos(where);
    client.set_deadline(5s);  // etcd's calls hang while it has no leader
    try {
      return !client.etcd_members().empty();
    } catch (const Error& error) {
      // ignored: etcd runs but does not list its members. The caller waits, and never bootstraps a
      // node whose etcd runs.
      if (!is_external(error.fault())) throw;
      return false;
    }
  }

  NotYet not_yet(World& world, std::string what) const {
    return {std::move(what), world.survey.look_again(address(), "bootstrap")};
  }

  Progress until_members(World& world, const std::string& where, const talos::Sight& sight) const {
    const talos::Progress healthy = talos::until_etcd(sight);
    if (!healthy.done) return until_told(healthy.waiting_for, where, Told::Etcd);
    if (!has_members(world, where)) return not_yet(world, "etcd to have a leader");
    return Ready{};
  }

  /// Bootstrap was called, or may have been. While etcd's image is pulled the service looks as
  /// before, and another call would end the pull and begin it anew: so it is watched to the end of
  /// its patience. Only where etcd itself shows that no call came since the node's boot (it was
  /// lost, or the node has restarted before etcd wrote anything) it is called again.
  Progress watch(World& world) const {
    const std::string where = address_of(world, wish_.control_planes.front());
    if (where.empty()) return Ready{};
    const talos::Sight sight = talos::look(world.transport, world.access(where), world.stop);
    std::string words;
    const Etcd etcd = etcd_on(sight, words);
    if (etcd == Etcd::Runs) return until_members(world, where, sight);
    if (etcd == Etcd::Unknown) return not_yet(world, talos::until_secure(sight).waiting_for);
    const Duration waited = world.survey.waiting_since(address());
    if (waited > on_its_way && !talos::maybe_bootstrapped(sight)) return Ready{};
    return until_told("etcd, which is " + words, where, Told::Etcd);
  }

  Wish wish_;
};

}  // namespace

std::string bootstrap_address(const std::string& cluster) {
  return "bootstrap/" + cluster;
}

Made make_bootstrap(const Cluster& cluster, const Ground& ground) {
  BootstrapKind::Wish wish;
  wish.cluster = cluster.name();
  wish.was = ground.prior.bootstrapped.has_value();
  wish.timeout = cluster.spec.timeouts.bootstrap;
  for (const spec::Node* node : cluster.spec.control_planes()) {
    const state::Item* item = ground.item(member_address(node->name));
    if (item != nullptr && item->settled) wish.members.insert(node->name);
  }
  for (const spec::Node* node : cluster.spec.control_planes())
    wish.control_planes.push_back(node->name);
  // The others join when they are ready.
  std::vector<std::string> needs{machine_address(wish.control_planes.front())};
  return std::make_shared<BootstrapKind>(
      Thing::About{bootstrap_address(cluster.name()), std::move(needs), ""}, std::move(wish));
}

}  // namespace rocca::resources
