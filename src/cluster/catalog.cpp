#include "base/strings.hpp"
#include "cluster/expand.hpp"
#include "machine/kinds.hpp"
#include "platform/proxmox/kinds.hpp"

#include <fmt/format.h>

#include <functional>

namespace rocca::resources {

namespace {

/// One line for each kind: what makes the wanted ones of it, and what takes a leftover away.
/// Add-ons stand behind the members: what they need is a cluster that answers.
struct Kind {
  const char* name;
  std::function<void(const Cluster&, const Ground&, const std::function<void(Made)>&)> wanted;
  std::function<Made(const Cluster&, const Leftover&)> leftover;
  bool survives_down;  // `down` leaves it alone
};

using Add = std::function<void(Made)>;

/// Those that are made of an image: not the ones that were taken over as they run.
void each_made(const Cluster& cluster, const std::function<void(const spec::Node&)>& then) {
  if (*cluster.spec.talos.boot == spec::Boot::Template) return;
  for (const spec::Node& node : cluster.spec.nodes)
    if (node.machine && !cluster.is_adopted(node.name)) then(node);
}

void each_virtual(const Cluster& cluster, const std::function<void(const spec::Node&)>& then) {
  for (const spec::Node& node : cluster.spec.nodes)
    if (node.machine) then(node);
}

const std::vector<Kind>& table() {
  static const std::vector<Kind> kinds = {
      {"schematic",
       [](const Cluster& cluster, const Ground& ground, const Add& add) {
         each_made(cluster,
                   [&](const spec::Node& node) { add(make_schematic(cluster, ground, node)); });
       },
       leftover_memory, true},
      {"image",
       [](const Cluster& cluster, const Ground& ground, const Add& add) {
         each_made(cluster,
                   [&](const spec::Node& node) { add(make_image(cluster, ground, node)); });
       },
       leftover_image, true},
      {"vm",
       [](const Cluster& cluster, const Ground& ground, const Add& add) {
         each_virtual(cluster,
                      [&](const spec::Node& node) { add(make_vm(cluster, ground, node)); });
       },
       leftover_vm, false},
      {"machine",
       [](const Cluster& cluster, const Ground& ground, const Add& add) {
         for (const spec::Node& node : cluster.spec.nodes) add(make_machine(cluster, ground, node));
       },
       leftover_machine, true},
      {"media",
       [](const Cluster& cluster, const Ground&, const Add& add) {
         each_made(cluster, [&](const spec::Node& node) {
           if (*cluster.spec.talos.boot == spec::Boot::Iso) add(make_media(cluster, node));
         });
       },
       leftover_memory, true},
      {"bootstrap",
       [](const Cluster& cluster, const Ground& ground, const Add& add) {
         if (!cluster.spec.control_planes().empty()) add(make_bootstrap(cluster, ground));
       },
       leftover_memory, true},
      {"member",
       [](const Cluster& cluster, const Ground& ground, const Add& add) {
         for (const spec::Node& node : cluster.spec.nodes) add(make_member(cluster, ground, node));
       },
       leftover_member, true},
      {"vip",
       [](const Cluster& cluster, const Ground&, const Add& add) {
         if (cluster.spec.kubernetes.endpoint && cluster.spec.kubernetes.endpoint->vip &&
             !cluster.spec.kubernetes.endpoint->vip->by_kube_vip)
           add(make_vip(cluster));
       },
       leftover_memory, true},
      {"access",
       [](const Cluster& cluster, const Ground&, const Add& add) { add(make_access(cluster)); },
       leftover_memory, true},
  };
  return kinds;
}

const Kind* find_kind(const std::string& address) {
  const std::string name = engine::kind_of(address);
  for (const Kind& kind : table())
    if (kind.name == name) return &kind;
  return nullptr;
}

/// The machine of a VM that nobody remembers goes in the same order as one that is remembered:
/// cordoned, reset and its Node removed before its VM is destroyed.
void add_stray_machine(const Cluster& cluster, const Marked& vm, engine::Desired& desired) {
  const std::string machine = machine_address(vm.node), member = member_address(vm.node);
  const auto add = [&](Made made) {
    const std::string address = made->address();
    if (!desired.wanted.contains(address)) desired.leftover.emplace(address, std::move(made));
  };
  add(leftover_machine(cluster, {machine, {vm_address(vm.node)}, vm.stray}));
  add(leftover_member(cluster, {member, {machine}, vm.stray}));
}

/// What Proxmox shows as ours although nobody remembers it: the state was lost.
void add_marked(const Cluster& cluster, const std::vector<Marked>& marked, bool whole,
                engine::Desired& desired) {
  for (const Marked& vm : marked) {
    const std::string address = vm_address(vm.node);
    // A clone that another user made carries the mark as well, and is not ours.
    if (engine::prove(vm.shown, cluster.identity_of(vm.node)).ownership != engine::Ownership::Ours)
      continue;
    if (desired.wanted.contains(address) || desired.leftover.contains(address)) continue;
    Leftover leftover{address, {}, {}};
    leftover.facts = {{"vmid", std::to_string(vm.row.vmid)}, {"host", vm.row.node}};
    if (const std::string where = fact(vm.stray, "address"); !where.empty())
      leftover.facts["address"] = where;
    if (whole) leftover.facts["whole cluster"] = "yes";
    desired.leftover[address] = leftover_vm(cluster, leftover);
    if (!vm.stray.empty()) add_stray_machine(cluster, vm, desired);
  }
}

}  // namespace

std::vector<std::string> kinds() {
  std::vector<std::string> names;
  for (const Kind& kind : table()) names.push_back(kind.name);
  return names;
}

engine::Desired expand(const Cluster& cluster, const Ground& ground,
                       const std::vector<Marked>& marked) {
  engine::Desired desired;
  for (const Kind& kind : table())
    // Many nodes share a schematic and an image: the first one's stands for all.
    kind.wanted(cluster, ground,
                [&](Made made) { desired.wanted.emplace(made->address(), std::move(made)); });
  for (const auto& [address, item] : ground.prior.items) {
    if (desired.wanted.contains(address)) continue;
    const Kind* kind = find_kind(address);
    const Leftover leftover{address, item.needs, item.facts, item.receipt};
    desired.leftover[address] =
        kind == nullptr ? leftover_memory(cluster, leftover) : kind->leftover(cluster, leftover);
  }
  add_marked(cluster, marked, false, desired);
  return desired;
}

engine::Desired expand_down(const Cluster& cluster, const Ground& ground,
                            const std::vector<Marked>& marked, const DownOptions& options) {
  engine::Desired desired;
  const auto take = [&](const std::string& address, const Fields& facts) {
    const Kind* kind = find_kind(address);
    if (kind == nullptr) return;
    const bool image = std::string_view(kind->name) == "image";
    if (kind->survives_down && !(image && options.purge_images)) return;
    Leftover leftover{address, {}, facts};
    leftover.facts["whole cluster"] = "yes";
    if (const state::Item* item = ground.item(address)) leftover.receipt = item->receipt;
    desired.leftover[address] = kind->leftover(cluster, leftover);
  };
  for (const auto& [address, item] : ground.prior.items) take(address, item.facts);
  // What was begun and never remembered: its id is in the lock.
  for (const spec::Node& node : cluster.spec.nodes) {
    const auto chosen = cluster.lock.nodes.find(node.name);
    if (!node.machine || chosen == cluster.lock.nodes.end() || !chosen->second.vmid) continue;
    Fields facts{{"vmid", std::to_string(*chosen->second.vmid)}, {"host", chosen->second.host}};
    if (const state::Item* item = ground.item(vm_address(node.name)))
      facts.insert(item->facts.begin(), item->facts.end());
    take(vm_address(node.name), facts);
  }
  // An earlier `down` has kept the images and forgotten them.
  if (options.purge_images)
    for (const auto& [address, facts] : image_facts(cluster, ground))
      if (!desired.leftover.contains(address)) take(address, facts);
  add_marked(cluster, marked, true, desired);
  if (options.reset_existing)
    for (const spec::Node& node : cluster.spec.nodes) {
      if (!node.existing) continue;
      const std::string address = machine_address(node.name);
      const state::Item* item = ground.item(address);
      Leftover leftover{address, {}, item != nullptr ? item->facts : Fields{}};
      if (node.address) leftover.facts["address"] = to_string(**node.address);
      leftover.facts["role"] = "";  // all go: etcd counts on nobody
      leftover.facts["whole cluster"] = "yes";
      desired.leftover[address] = leftover_machine(cluster, leftover);
    }
  return desired;
}

}  // namespace rocca::resources
