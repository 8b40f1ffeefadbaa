#include "base/diagnostics.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "cluster/run_impl.hpp"
#include "locking/addresses.hpp"
#include "locking/choose.hpp"
#include "machine/diagnosis.hpp"
#include "platform/kinds.hpp"
#include "platform/proxmox/preflight.hpp"
#include "proxmox/property_string.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

// What is asked before the first change: everything that would stop a run half-way. A plan without
// new VMs asks nothing here.

namespace rocca::resources {

namespace {

/// Nodes whose VM a plan creates.
std::set<std::string> created_nodes(const engine::Plan& plan) {
  std::set<std::string> nodes;
  for (const engine::Planned& step : plan.steps)
    if (engine::kind_of(step.address) == "vm" && step.change.action == engine::Action::Create &&
        step.change.refusal.empty())
      nodes.insert(step.address.substr(step.address.find('/') + 1));
  return nodes;
}

/// A NIC that a plan adds, or moves to another bridge: both ends need a right.
struct Rewired {
  std::string node;
  proxmox::Scope::Link link;
  bool target = false;  // where it goes
};

std::vector<Rewired> rewired_nics(const engine::Plan& plan) {
  std::vector<Rewired> all;
  for (const engine::Planned& step : plan.steps) {
    if (engine::kind_of(step.address) != "vm" || step.change.action == engine::Action::Create)
      continue;
    for (const engine::FieldChange& field : step.change.fields) {
      if (proxmox::family(field.field) != "net" || field.field.find('.') != std::string::npos)
        continue;
      for (const std::string* text : {&field.before, &field.after}) {
        if (text->empty()) continue;
        const auto nic = proxmox::PropertyString::parse(field.field, *text);
        proxmox::Scope::Link link{nic.value_or("bridge", ""), std::nullopt, "localnetwork"};
        if (const auto tag = parse_uint(nic.value_or("tag", "")))
          link.vlan = static_cast<unsigned>(*tag);
        if (!link.bridge.empty())
          all.push_back(
              {step.address.substr(step.address.find('/') + 1), link, text == &field.after});
      }
    }
  }
  return all;
}

/// All reasons in one message, each once.
[[noreturn]] void throw_all(const std::vector<Hindrance>& problems) {
  std::vector<std::string> lines, hints;
  bool only_rights = true;
  for (const Hindrance& each : problems) {
    if (std::find(lines.begin(), lines.end(), each.text) == lines.end()) lines.push_back(each.text);
    if (!each.hint.empty() && std::find(hints.begin(), hints.end(), each.hint) == hints.end())
      hints.push_back(each.hint);
    only_rights = only_rights && each.about_rights;
  }
  throw Error(only_rights ? Fault::Denied : Fault::NotFound, join(lines, "\n"))
      .hint(join(hints, "\n"));
}

/// One look at the places that new VMs go to.
class Preflight {
 public:
  Preflight(World& world, Look& look, ProxmoxNeeds needs)
      : world_(world), look_(look), needs_(std::move(needs)) {}

  void names(const std::map<std::string, std::string>& places) {
    for (const auto& [node, host] : places) nodes_of_[host].push_back(node);
    for (const std::string& host : needs_.scope.hosts) {
      storages(host);
      bridges(host, needs_.scope.links);
    }
    pools();
    if (!world_.cluster.spec.talos.boot_template.empty()) find_template();
  }

  void bridges(const std::string& host, const std::vector<proxmox::Scope::Link>& links) {
    if (links.empty()) return;
    const std::vector<proxmox::Bridge> there = world_.proxmox().bridges(host);
    std::vector<std::string> names;
    for (const proxmox::Bridge& each : there) names.push_back(each.name);
    for (const proxmox::Scope::Link& link : links) {
      const auto found = std::find_if(there.begin(), there.end(),
                                      [&](const auto& each) { return each.name == link.bridge; });
      if (found != there.end()) {
        is_vnet_ = is_vnet_ || found->type == "vnet";
        continue;
      }
      // A right on one VLAN of it does not show the bridge.
      const std::string path = "/sdn/zones/localnetwork/" + link.bridge;
      const auto rights = effective_on(grants(), path);
      const bool may_see = rights.contains("SDN.Use") || rights.contains("SDN.Audit");
      if (link.vlan && !may_see &&
          effective_on(grants(), fmt::format("{}/{}", path, *link.vlan)).contains("SDN.Use"))
        continue;
      const auto exists =
          may_see ? std::nullopt : world_.proxmox().has_interface(host, link.bridge);
      add(bridge_problem(link.bridge, host, judge_bridge(may_see, exists), names));
      unusable_.insert(path);
    }
  }

  void rights(std::vector<proxmox::Need> needs) {
    // What is missing by name is said once, and not as a right.
    std::erase_if(needs, [&](const proxmox::Need& need) {
      return std::any_of(unusable_.begin(), unusable_.end(), [&](const std::string& path) {
        return need.path == path || need.path.starts_with(path + "/");
      });
    });
    // Proxmox checks a VM's rights on its pool or on the VM itself: either is enough.
    const std::set<std::string> on_vms = effective_on(grants(), "/vms/100");
    std::erase_if(needs, [&](const proxmox::Need& need) {
      return need.path.starts_with("/pool/") &&
             std::any_of(need.any_of.begin(), need.any_of.end(),
                         [&](const std::string& right) { return on_vms.contains(right); });
    });
    std::vector<proxmox::Need> gaps = unmet(needs, grants());
    if (gaps.empty()) return;
    // The list of all grants does not show an entry that takes everything away: the path itself is
    // asked before anything is called missing.
    proxmox::Permissions effective;
    for (const proxmox::Need& gap : gaps)
      if (!effective.contains(gap.path)) effective.merge(world_.proxmox().permissions(gap.path));
    for (const proxmox::Need& gap : proxmox::missing(gaps, effective))
      add({fmt::format("{} on {} is missing: {}", join(gap.any_of, " or "), gap.path, gap.why),
           "`rocca doctor` prints the pveum lines that grant what is missing", true});
  }

  std::vector<proxmox::Need> to_create() {
    if (is_vnet_) {
      const auto zones = world_.proxmox().vnet_zones();
      for (proxmox::Scope::Link& link : needs_.scope.links)
        if (const auto zone = zones.find(link.bridge); zone != zones.end() && !zone->second.empty())
          link.zone = zone->second;
    }
    const auto& acts = needs_.to_create;
    if (std::find(acts.begin(), acts.end(), proxmox::Act::ReadAgent) != acts.end())
      needs_.scope.version = world_.proxmox().version().version;
    std::vector<proxmox::Need> all;
    for (const proxmox::Act act : acts)
      for (proxmox::Need& need : proxmox::needs(act, needs_.scope)) all.push_back(std::move(need));
    return all;
  }

  const proxmox::Grants& grants() {
    if (!look_.grants) look_.grants = world_.proxmox().grants();
    return *look_.grants;
  }

  void add(Hindrance problem) { problems_.push_back(std::move(problem)); }
  const std::vector<Hindrance>& problems() const { return problems_; }

 private:
  void storages(const std::string& host) {
    const auto there = world_.survey.storages(world_.proxmox(), host);
    const auto check = [&](const std::string& name, const std::string& content) {
      const std::string path = "/storage/" + name;
      const auto rights = effective_on(grants(), path);
      const bool may_see =
          rights.contains("Datastore.Audit") || rights.contains("Datastore.AllocateSpace");
      const auto problem = storage_problem(name, content, host, there, may_see);
      if (!problem) return;
      add(*problem);
      if (std::none_of(there.begin(), there.end(),
                       [&](const auto& each) { return each.name == name; }))
        unusable_.insert(path);
    };
    if (!needs_.scope.image_storage.empty())
      check(needs_.scope.image_storage, needs_.image_content);
    for (const std::string& storage : needs_.scope.disk_storages) check(storage, "images");
  }

  void pools() {
    if (needs_.pools.empty()) return;
    const std::vector<std::string> known = world_.proxmox().pools();
    for (const std::string& pool : needs_.pools) {
      if (std::find(known.begin(), known.end(), pool) != known.end()) continue;
      const bool may_see = effective_on(grants(), "/pool/" + pool).contains("Pool.Audit");
      // Without that right a pool that exists is not shown, and VMs can be created in it.
      if (!may_see) continue;
      add(pool_problem(pool, known, may_see));
      unusable_.insert("/pool/" + pool);
    }
  }

  void find_template() {
    std::vector<std::string> names;
    for (const proxmox::VmRow& row : world_.survey.rows(world_.proxmox())) {
      if (!row.is_template) continue;
      names.push_back(row.name);
      if (row.name == world_.cluster.spec.talos.boot_template)
        needs_.scope.template_vmid = row.vmid;
    }
    if (needs_.scope.template_vmid != 0) return;
    add({fmt::format("template '{}' does not exist{}, or the token lacks VM.Audit on it",
                     world_.cluster.spec.talos.boot_template,
                     did_you_mean(world_.cluster.spec.talos.boot_template, names)),
         names.empty() ? "talos.boot names it: no template is visible"
                       : fmt::format("visible templates: {}", enumerate(names))});
  }

  World& world_;
  Look& look_;
  ProxmoxNeeds needs_;
  std::map<std::string, std::vector<std::string>> nodes_of_;
  std::set<std::string> unusable_;  // paths of names that are wrong
  bool is_vnet_ = false;
  std::vector<Hindrance> problems_;
};

/// Addresses that a new cluster claims and another VM was given by cloud-init. What all VMs are
/// configured with was read before, to look for our marks.
void find_claimed_addresses(World& world, const std::set<std::string>& created,
                            std::vector<Hindrance>& problems) {
  std::map<IpAddress, std::string> wanted;
  for (const spec::Node& node : world.cluster.spec.nodes)
    if (created.contains(node.name) && node.address)
      wanted.emplace(**node.address,
                     fmt::format("address {} of {}", to_string(**node.address), node.name));
  const auto& endpoint = world.cluster.spec.kubernetes.endpoint;
  if (endpoint && endpoint->vip)
    wanted.emplace(*endpoint->vip->address,
                   fmt::format("VIP {}", to_string(*endpoint->vip->address)));
  if (wanted.empty()) return;
  for (const proxmox::VmRow& row : world.survey.rows(world.proxmox())) {
    if (row.is_container || row.is_template || row.status != "running") continue;
    const auto config = world.survey.config_of_any(world.proxmox(), row);
    if (!config || (config->uuid() && world.cluster.find_node_with(*config->uuid()))) continue;
    for (const auto& [option, value] : config->options) {
      if (!option.starts_with("ipconfig")) continue;
      for (const IpAddress& address : locking::addresses_of_ipconfig(value))
        if (const auto found = wanted.find(address); found != wanted.end())
          problems.push_back({fmt::format("{} is in use: {} has it by cloud-init ({})",
                                          found->second, describe(row), option),
                              "choose another address, or move that machine away"});
    }
  }
}

}  // namespace

void Run::Impl::verify_ids(Look& look, World& world, const spec::Lock& before, Choices& choices) {
  std::set<std::string> unseen;
  for (const spec::Node& node : cluster.spec.nodes) {
    const auto vmid = vmid_of(node);
    if (node.machine && vmid && !choices.taken.contains(*vmid)) unseen.insert(node.name);
  }
  if (unseen.empty()) return;
  if (!look.grants) look.grants = world.proxmox().grants();
  if (sees_every_vm(*look.grants)) return;
  spec::Lock kept = before;
  std::set<proxmox::Vmid> free;
  for (bool again = true; again;) {
    again = false;
    for (const spec::Node& node : cluster.spec.nodes) {
      if (!unseen.contains(node.name)) continue;
      const proxmox::Vmid vmid = *vmid_of(node);
      if (free.contains(vmid) || world.proxmox().vmid_is_free(vmid)) {
        free.insert(vmid);
        continue;
      }
      const bool made_before = look.prior.items.contains(vm_address(node.name));
      if (node.machine->vmid || made_before)
        throw Error(Fault::Conflict,
                    fmt::format("VM id {} of {} is in use by a VM that this token may not see",
                                vmid, node.name))
            .hint(made_before
                      ? fmt::format("VM.Audit on /vms/{} shows whether it is the node's own", vmid)
                      : fmt::format("give {} another `vmid`, or remove it and a free one is chosen",
                                    node.name));
      choices.taken.insert(vmid);
      if (const auto entry = kept.nodes.find(node.name); entry != kept.nodes.end())
        entry->second.vmid.reset();
      again = true;
    }
    if (again) choose_and_reserve(kept, choices);
  }
}

void Run::Impl::check_before_change(Look& look) {
  if (!cluster.proxmox || look.remains || look.checked) return;
  const std::set<std::string> created = created_nodes(look.plan);
  const std::vector<Rewired> rewired = rewired_nics(look.plan);
  if (created.empty() && rewired.empty()) return;
  std::vector<Hindrance> problems;
  with_proxmox(look, [&](World& world) {
    std::map<std::string, std::string> places;
    for (const auto& [node, chosen] : cluster.lock.nodes)
      if (created.contains(node)) places.emplace(node, chosen.host);
    Preflight preflight{world, look,
                        needs_of(cluster.spec, cluster.lock, places, [&](const spec::Node& node) {
                          return created.contains(node.name);
                        })};
    std::vector<proxmox::Need> needs;
    if (!created.empty()) {
      preflight.names(places);
      needs = preflight.to_create();
    }
    std::map<std::string, std::vector<proxmox::Scope::Link>> targets;
    proxmox::Scope moved;
    for (const Rewired& each : rewired) {
      moved.links.push_back(each.link);
      const auto vm = world.survey.find(world.proxmox(),
                                        vmid_of(*cluster.spec.find_node(each.node)).value_or(0));
      if (each.target && vm) targets[vm->node].push_back(each.link);
    }
    for (const auto& [host, links] : targets) preflight.bridges(host, links);
    for (proxmox::Need& need : proxmox::needs(proxmox::Act::ChangeVm, moved))
      if (need.any_of == std::vector<std::string>{"SDN.Use"}) needs.push_back(std::move(need));
    preflight.rights(std::move(needs));
    problems = preflight.problems();
    find_claimed_addresses(world, created, problems);
  });
  // Without the lanes of Proxmox: an address that does not answer takes its time.
  with_world(look, [&](World& world) {
    const auto planes = cluster.spec.control_planes();
    const bool all_new = std::all_of(planes.begin(), planes.end(), [&](const spec::Node* node) {
      return created.contains(node->name);
    });
    if (!all_new) return;
    if (const std::string who = vip_occupant(world); !who.empty())
      problems.push_back(
          {fmt::format("VIP {} is in use: {}",
                       to_string(*cluster.spec.kubernetes.endpoint->vip->address), who),
           "choose another kubernetes.endpoint.vip, or move that machine away"});
  });
  look.checked = true;
  if (!problems.empty()) throw_all(problems);
}

}  // namespace rocca::resources
