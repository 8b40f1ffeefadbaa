#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "base/units.hpp"
#include "cluster/run_impl.hpp"
#include "engine/fan_out.hpp"
#include "machine/discover.hpp"
#include "machine/kinds.hpp"
#include "machine/quorum.hpp"
#include "net/http.hpp"
#include "platform/kinds.hpp"
#include "secrets/bundle.hpp"
#include "secrets/x509.hpp"
#include "talos/waits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace rocca::resources {

namespace {

using namespace std::chrono_literals;

/// The result of a read; nothing if the other side failed. `status` then leaves the value out.
template <class Body>
auto attempt(Body&& body) -> std::optional<decltype(body())> {
  try {
    return body();
  } catch (const Error& error) {
    // ignored: the caller shows the value as missing, and the node's own line says what is wrong.
    if (!is_external(error.fault())) throw;
    return std::nullopt;
  }
}

/// Which member of etcd the node is; 0: none that answers.
std::uint64_t ask_etcd(World& world, const std::string& where, NodeStatus& status) {
  talos::Client client = world.talos(where);
  client.set_deadline(5s);
  const auto etcd = attempt([&] { return client.etcd_status(); });
  if (!etcd) return 0;
  if (etcd->learner)
    status.etcd = "learner";
  else if (etcd->leader == 0)
    status.etcd = "no leader";
  else
    status.etcd = etcd->leader == etcd->member_id ? "leader" : "member";
  if (!etcd->errors.empty() && status.problem.empty()) status.problem = etcd->errors.front();
  return etcd->member_id;
}

bool has_address(World& world, const std::string& where, const std::string& address) {
  talos::Client client = world.talos(where);
  const auto all = attempt([&] { return client.addresses(); });
  return all && std::any_of(all->begin(), all->end(), [&](const talos::Address& each) {
           return to_string(each.address.address()) == address;
         });
}

/// What is known of a node's VM. `unseen`: why it was not looked at; empty: it was.
void look_at_vm(World& world, const spec::Node& node, const std::string& unseen,
                NodeStatus& status) {
  std::string vmid, host;
  if (const auto vm = world.known(vm_address(node.name))) {
    vmid = fact(vm, "vmid");
    host = fact(vm, "host");
  } else if (const auto chosen = world.cluster.lock.nodes.find(node.name);
             !unseen.empty() && chosen != world.cluster.lock.nodes.end() && chosen->second.vmid) {
    vmid = std::to_string(*chosen->second.vmid);
    host = chosen->second.host;
  }
  if (!vmid.empty()) status.machine = fmt::format("VM {} on {}", vmid, host);
  if (!unseen.empty())
    status.power = "unknown, " + unseen;
  else if (const auto id = parse_uint(vmid))
    if (const auto row = world.survey.find(world.proxmox(), static_cast<proxmox::Vmid>(*id)))
      status.power = row->status;
  if (vmid.empty() && unseen.empty()) status.problem = "there is no VM";
}

NodeStatus look_at(World& world, const spec::Node& node, const std::string& vip,
                   const std::string& unseen, std::uint64_t& member) {
  NodeStatus status;
  status.name = node.name;
  status.role = to_string(*node.role);
  status.address = address_of(world, node.name);
  if (node.existing)
    status.machine = "existing " + fact(world.known(machine_address(node.name)), "uuid");
  else
    look_at_vm(world, node, unseen, status);
  if (!status.problem.empty()) return status;
  if (status.address.empty()) {
    status.problem = "its address is not known";
    return status;
  }
  const talos::Sight sight =
      look_by_name(world, status.address, node.host_name,
                   talos::look(world.transport, world.access(status.address), world.stop));
  switch (sight.door) {
    case talos::Door::Closed:
      status.stage = "no answer";
      status.problem = sight.told;
      return status;
    case talos::Door::Foreign:
      status.stage = "foreign";
      status.problem = "a machine of another cluster answers at its address";
      return status;
    case talos::Door::Maintenance:
      status.stage = "maintenance";
      status.problem = "it has no configuration";
      return status;
    case talos::Door::Ours:
      break;
  }
  status.stage = sight.status ? to_string(sight.status->stage) : "unknown";
  if (const auto version = attempt([&] { return world.talos(status.address).version(); }))
    status.talos = version->tag;
  const talos::Progress running = talos::until_running(sight);
  if (!running.done) status.problem = running.waiting_for;
  if (node.control_plane()) {
    const talos::Progress etcd = talos::until_etcd(sight);
    if (etcd.done)
      member = ask_etcd(world, status.address, status);
    else if (status.problem.empty())
      status.problem = etcd.waiting_for;
    if (!vip.empty()) status.has_vip = has_address(world, status.address, vip);
  }
  status.healthy = status.problem.empty();
  return status;
}

/// Whether a difference means that the cluster does not work, rather than that the spec asks for
/// something that was never applied.
bool is_problem(const Look& look, const engine::Resource& resource, const engine::Change& change) {
  if (change.waits) return true;
  const auto item = look.prior.items.find(resource.address());
  return item != look.prior.items.end() && item->second.settled &&
         item->second.applied == resource.wanted();
}

/// What of a cluster is looked at beside its nodes: its endpoint, its Nodes, add-ons.
bool counts_for_health(const std::string& address) {
  const std::string kind = engine::kind_of(address);
  return kind == "vip" || kind == "health" || kind == "addon" || kind == "prepared";
}

/// Everything that `up` promises beside nodes, and that is not so. Where Proxmox is away nothing
/// was observed yet: then it is read here.
std::vector<std::string> find_problems(World& world, const Look& look, bool observed) {
  std::vector<std::string> all;
  for (const auto& [address, resource] : look.desired.wanted) {
    if (!counts_for_health(address)) continue;
    std::optional<engine::Live> live;
    try {
      const auto seen = look.observed.live.find(address);
      if (const auto failed = look.observed.failed.find(address);
          failed != look.observed.failed.end()) {
        all.push_back(fmt::format("{}: {}", address, failed->second));
        continue;
      }
      if (seen != look.observed.live.end())
        live = seen->second;
      else if (!observed)
        live = resource->read(world);
    } catch (const Error& error) {
      if (error.fault() == Fault::Interrupted || error.fault() == Fault::Bug) throw;
      all.push_back(fmt::format("{}: {}", address, error.message()));
      continue;
    }
    const engine::Change change = resource->diff(live);
    if (change.none() || !is_problem(look, *resource, change)) continue;
    std::string why = change.reason;
    for (const engine::FieldChange& field : change.fields)
      why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", field.field, field.before);
    all.push_back(fmt::format("{}: {}", address, why));
  }
  // Files that were never written here, or were removed, belong to another machine; those that are
  // here must lead to the cluster.
  const std::string access = access_address(world.cluster.name());
  try {
    if (const std::string stale = stale_access(world); !stale.empty())
      all.push_back(fmt::format("{}: {}", access, stale));
  } catch (const Error& error) {
    if (error.fault() == Fault::Interrupted || error.fault() == Fault::Bug) throw;
    all.push_back(fmt::format("{}: {}", access, error.message()));
  }
  return all;
}

/// A member that etcd counts and that is no node of the spec, or no longer is.
struct Stray {
  std::string name;
  bool answers = false;
};

/// etcd by its own list of members.
struct Etcd {
  std::vector<Stray> strays;  // members that none of the nodes is
  /// How many members etcd counts; nothing: it did not say. A node of the spec that never joined
  /// is not one of them.
  std::optional<std::size_t> counted;
};

/// `members`: what the nodes are, by their places in `nodes`.
Etcd look_at_etcd(World& world, const std::vector<NodeStatus>& nodes,
                  const std::vector<std::uint64_t>& members) {
  std::optional<std::vector<talos::EtcdMember>> listed;
  for (std::size_t i = 0; i < nodes.size() && !listed; ++i) {
    if (members[i] == 0) continue;
    talos::Client client = world.talos(nodes[i].address);
    client.set_deadline(5s);  // without a leader the list hangs
    listed = attempt([&] { return client.etcd_members(); });
  }
  Etcd etcd;
  std::vector<Stray>& strays = etcd.strays;
  if (!listed) return etcd;
  etcd.counted = listed->size();
  // A control plane that does not answer is told of by itself, once.
  std::set<std::string> silent;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (const spec::Node& node = world.cluster.spec.nodes[i];
        node.control_plane() && members[i] == 0)
      silent.insert(node.host_name);
  for (const talos::EtcdMember& member : *listed) {
    if (std::find(members.begin(), members.end(), member.id) != members.end()) continue;
    if (silent.erase(member.hostname) > 0) continue;
    const auto peer =
        member.peer_urls.empty() ? std::nullopt : net::Url::parse(member.peer_urls.front());
    const std::string where = peer ? peer->host : "";
    Stray stray{member.hostname.empty() ? "the one at " + where : member.hostname};
    // A node that was renamed in the spec still runs under its old name, at the same address.
    bool is_a_node = where.empty();
    for (std::size_t i = 0; i < nodes.size(); ++i)
      is_a_node = is_a_node || (nodes[i].address == where && members[i] != 0);
    stray.answers =
        !is_a_node &&
        talos::until_etcd(talos::look(world.transport, world.access(where), world.stop)).done;
    strays.push_back(std::move(stray));
  }
  return etcd;
}

std::string describe_etcd(const std::vector<NodeStatus>& nodes, const Etcd& etcd,
                          bool bootstrapped) {
  const std::vector<Stray>& strays = etcd.strays;
  std::size_t planes = 0, members = 0, leaders = 0;
  for (const NodeStatus& node : nodes) {
    if (node.role != "controlplane") continue;
    ++planes;
    members += node.etcd == "leader" || node.etcd == "member";
    leaders += node.etcd == "leader";
  }
  // The leader may be one of them.
  for (const Stray& stray : strays) {
    ++planes;
    members += stray.answers;
    leaders += stray.answers;
  }
  if (members == 0 && !bootstrapped) return "not bootstrapped";
  if (etcd.counted) planes = std::max(members, *etcd.counted);
  if (members < engine::quorum_of(planes) || leaders == 0)
    return fmt::format("quorum is lost: {} of {} {}", members, planes,
                       members == 1 ? "answers" : "answer");
  if (strays.empty())
    return fmt::format("{}, {}", plural(members, "member"),
                       members == planes ? "healthy" : fmt::format("{} missing", planes - members));
  std::string text = plural(planes, "member");
  for (const Stray& stray : strays)
    text += fmt::format("; {} is in no spec{}", stray.name,
                        stray.answers ? "" : " and does not answer");
  return text;
}

}  // namespace

ClusterStatus Run::status() {
  Impl& impl = *impl_;
  Look& look = impl.seen_or_remembered();
  ClusterStatus status;
  status.cluster = impl.cluster.name();
  if (impl.away) status.unseen = impl.away->message();
  const auto& endpoint = impl.cluster.spec.kubernetes.endpoint;
  if (endpoint && endpoint->vip) status.vip = to_string(*endpoint->vip->address);
  status.nodes.resize(impl.cluster.spec.nodes.size());
  std::vector<std::uint64_t> members(status.nodes.size());
  // Each node by itself and all at once: one that does not answer keeps nobody waiting.
  RunWorlds worlds{impl.cluster, look.survey, look.known, impl.doors};
  std::vector<std::string> names;
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < status.nodes.size(); ++i) {
    names.push_back(impl.cluster.spec.nodes[i].name);
    places.emplace(names.back(), i);
  }
  engine::FanOut how;
  how.parallelism = impl.options.parallelism;
  engine::fan_out(impl.doors.runner, names, how, [&](const std::string& name) {
    const std::size_t i = places.at(name);
    const auto unread = look.observed.errors.find(vm_address(name));
    const std::string unseen = impl.away                              ? "Proxmox does not answer"
                               : unread != look.observed.errors.end() ? unread->second.message()
                                                                      : "";
    worlds.with(name, impl.stop, [&](World& world) {
      status.nodes[i] = look_at(world, impl.cluster.spec.nodes[i], status.vip, unseen, members[i]);
    });
  });
  for (const NodeStatus& node : status.nodes)
    if (node.has_vip) status.vip_owner = node.name;
  Etcd etcd;
  impl.with_world(look, [&](World& world) { etcd = look_at_etcd(world, status.nodes, members); });
  status.etcd = describe_etcd(status.nodes, etcd, look.prior.bootstrapped.has_value());
  for (const secrets::BundleItem& item : secrets::describe(impl.cluster.bundle()))
    if (item.expires) status.certificates.push_back({item.name, *item.expires});
  impl.with_world(look, [&](World& world) {
    for (const auto& [name, until] : access_until(world))
      status.certificates.push_back({name, until});
  });
  impl.call("holder", [&] { status.held_by = impl.doors.store.holder(); });
  if (look.prior.teardown)
    status.teardown = !look.plan.notice.empty()
                          ? look.plan.notice
                          : fmt::format("A teardown that began at {} was interrupted.",
                                        begin_of(*look.prior.teardown));
  const auto backup = look.prior.notes.find("backup/last");
  if (backup != look.prior.notes.end()) status.last_backup = parse_instant(backup->second);
  impl.with_world(look, [&](World& world) {
    for (const NodeStatus& node : status.nodes)
      if (!node.healthy)
        status.problems.push_back(fmt::format(
            "{}: {}", node.name, node.problem.empty() ? "it is not healthy" : node.problem));
    for (const Stray& stray : etcd.strays)
      if (!stray.answers)
        status.problems.push_back(
            fmt::format("etcd: its member {} is in no spec and does not answer", stray.name));
    for (std::string& problem : find_problems(world, look, &look != impl.blind.get()))
      status.problems.push_back(std::move(problem));
  });
  if (!status.unseen.empty())
    status.problems.push_back("Proxmox: it could not be asked: " + status.unseen);
  if (!status.teardown.empty()) status.problems.push_back("teardown: " + status.teardown);
  status.healthy = status.problems.empty();
  const bool answers_somewhere =
      std::any_of(status.nodes.begin(), status.nodes.end(), [](const NodeStatus& node) {
        return node.healthy && (node.etcd == "leader" || node.etcd == "member");
      });
  if (answers_somewhere)
    impl.with_world(look, [&](World& world) {
      const auto kubelets = see_kubelets(world);
      for (NodeStatus& node : status.nodes)
        if (const auto found = kubelets.find(node.name); found != kubelets.end())
          node.kubernetes = found->second;
    });
  const bool nodes_are_healthy = std::all_of(status.nodes.begin(), status.nodes.end(),
                                             [](const NodeStatus& node) { return node.healthy; });
  if (nodes_are_healthy && answers_somewhere && impl.options.outside)
    impl.with_world(look, [&](World& world) {
      status.flux = see_flux(world);
      status.use = see_use(world);
    });
  return status;
}

}  // namespace rocca::resources
