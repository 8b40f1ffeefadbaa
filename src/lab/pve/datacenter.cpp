#include "lab/pve/datacenter.hpp"

#include "base/error.hpp"
#include "base/uuid.hpp"
#include "lab/pve/http.hpp"
#include "lab/pve/pci.hpp"
#include "lab/pve/resources.hpp"

#include <fmt/format.h>

namespace rocca::lab::pve {

text::Value object(std::initializer_list<Field> fields) {
  text::Value map = text::Value::map();
  map.entries().reserve(fields.size() + 2);
  for (const Field& field : fields) map.set(field.key, std::move(field.value));
  return map;
}

namespace {

/// For keys. Few seeds share all of them, so that certificates need not be made for every life.
SeededEntropy shared_chance(const World& world, std::string_view name) {
  return SeededEntropy{world.seed() % 8}.fork(name);
}

std::string cluster_uuid(const World& world) {
  SeededEntropy entropy = shared_chance(world, "pve-cluster");
  return to_string(Uuid::v4(entropy));
}

/// What any release has a schema for, as handlers are named.
const std::set<std::string>& known_methods() {
  static const std::set<std::string> all = [] {
    std::set<std::string> names;
    for (const Schema* each : {&Schema::of(Release::v8_4()), &Schema::of(Release::v9())})
      for (const Method& method : each->methods()) names.insert(method.verb + " " + method.path);
    return names;
  }();
  return all;
}

}  // namespace

World& Process::world() const {
  return dc.world;
}

Routine<Locks::Guard> Process::lock_file(std::string path, Duration timeout, Locks::Mode mode) {
  auto guard = co_await node.locks.take(world(), path, timeout, interrupt_, mode);
  if (!guard) die(fmt::format("can't lock file '{}' - got timeout", path));
  co_return std::move(*guard);
}

Routine<Locks::Guard> Process::lock_vm(unsigned vmid, Duration timeout, Locks::Mode mode) {
  return lock_file(fmt::format("/var/lock/qemu-server/lock-{}.conf", vmid), timeout, mode);
}

Routine<Locks::Guard> Process::lock_storage(std::string storage) {
  const Storage* found = dc.find_storage(storage);
  if (found != nullptr && found->shared) return lock_cfs("storage-" + storage);
  return lock_file("/var/lock/pve-manager/pve-storage-" + storage, std::chrono::seconds{10});
}

Routine<Locks::Guard> Process::lock_cfs(std::string name, Duration timeout) {
  if (!dc.quorate) die(fmt::format("cfs-lock '{}' error: no quorum!", name));
  auto guard = co_await dc.cfs.take(world(), name, timeout, interrupt_);
  if (!guard) die(fmt::format("cfs-lock '{}' error: got lock request timeout", name));
  co_return std::move(*guard);
}

void Process::require(const std::string& path, const std::vector<std::string>& privileges,
                      bool any) const {
  dc.access.require(caller, path, privileges, any);
}

bool Process::may(const std::string& path, const std::vector<std::string>& privileges,
                  bool any) const {
  return dc.access.may(caller, path, privileges, any);
}

Datacenter::Datacenter(World& owner, Options given)
    : world(owner),
      release(given.release),
      schema(Schema::of(given.release)),
      cluster(given.cluster),
      timing(given.timing),
      authority(shared_chance(owner, "pve-ca"),
                {{"CN", "Proxmox Virtual Environment"},
                 {"OU", cluster_uuid(owner)},
                 {"O", "PVE Cluster Manager CA"}},
                owner.now()),
      access(given.release),
      domain_(given.domain) {
  for (const auto& table :
       {access_routes(), cluster_routes(), node_routes(), task_routes(), storage_routes(),
        download_routes(), qemu_routes(), pool_routes(), ha_routes(), pci_routes()})
    for (const Route& route : table)
      if (!handlers_.emplace(route.method, route.handle).second)
        throw Error(Fault::Bug, fmt::format("two handlers for {}", route.method));
  for (const auto& [name, handle] : handlers_)
    if (!known_methods().contains(name))
      throw Error(Fault::Bug, fmt::format("{} has a handler but no schema", name));
  access.users["root@pam"];
  ticket_key_ = chance("ticket").bytes(16);
  broadcast();
}

Datacenter::~Datacenter() {
  world.end_routines();
  world.cancel(broadcast_timer_);
  for (const auto& [name, node] : nodes_) world.network().close(node->service_);
}

Node& Datacenter::add_node(std::string name, std::string address) {
  const auto id = static_cast<unsigned>(nodes_.size() + 1);
  auto node = std::make_unique<Node>(*this, name, address, id);
  const std::string full = domain_.empty() ? name : name + "." + domain_;
  sign(*node, {});
  world.network().set_name(name, address);
  world.network().set_name(full, address);
  net::ServerTls tls;
  tls.identity = node->identity;
  tls.offer_http2 = false;  // pveproxy speaks HTTP/1.1 only
  Node& added = *node;
  node->service_ = world.network().open(
      address, 8006,
      {"pve/" + name, tls,
       [this, &added](net::Incoming request, std::shared_ptr<net::Responder> responder) {
         serve(*this, added, std::move(request), std::move(responder));
       }});
  nodes_.emplace(std::move(name), std::move(node));
  return added;
}

void Datacenter::sign(Node& node, const std::vector<std::string>& more) {
  Authority::Subject subject;
  subject.common_name = node.name;
  subject.names = {"127.0.0.1", "::1", "localhost", node.address, node.name};
  if (!domain_.empty()) subject.names.push_back(node.name + "." + domain_);
  subject.names.insert(subject.names.end(), more.begin(), more.end());
  subject.before = {{"OU", "PVE Cluster Node"}, {"O", "Proxmox Virtual Environment"}};
  node.identity = authority.issue(subject, world.now());
  if (const auto der = first_certificate_der(node.identity.certificate_pem))
    node.fingerprint = net::Fingerprint::of_der(*der);
}

void Datacenter::add_certificate_name(const std::string& name, const std::string& more) {
  Node* node = find_node(name);
  if (node == nullptr) throw Error(Fault::NotFound, fmt::format("the lab has no host '{}'", name));
  sign(*node, {more});
  net::ServerTls tls;
  tls.identity = node->identity;
  tls.offer_http2 = false;
  world.network().replace_tls(node->service_, tls);
}

Node* Datacenter::find_node(std::string_view name) {
  const auto found = nodes_.find(std::string(name));
  return found == nodes_.end() ? nullptr : found->second.get();
}

void Datacenter::set_online(const std::string& name, bool online) {
  Node* node = find_node(name);
  if (node == nullptr) throw Error(Fault::NotFound, fmt::format("the lab has no host '{}'", name));
  if (node->online == online) return;
  world.note(fmt::format("host {} goes {}", name, online ? "up" : "down"));
  if (online)
    node->power_on();
  else
    node->power_off();
  world.network().set_up(node->address, online);
  std::size_t up = 0;
  for (const auto& [each, other] : nodes_) up += other->online ? 1 : 0;
  quorate = up * 2 > nodes_.size();
}

void Datacenter::write_log(const Node& node, const std::string& user, unsigned pid,
                           std::string message, unsigned priority) {
  constexpr std::size_t kept = 5000;
  if (log.size() >= kept) log.erase(log.begin(), log.begin() + kept / 10);
  log.push_back({world.unix_time(), node.name, user, std::move(message), pid, priority});
}

Vm* Datacenter::find_vm(unsigned id) {
  const auto found = vms.find(id);
  return found == vms.end() ? nullptr : &found->second;
}

Vm& Datacenter::get_vm(unsigned id, const Node& node) {
  Vm* vm = find_vm(id);
  if (vm == nullptr || vm->node != node.name)
    die(fmt::format("Configuration file 'nodes/{}/qemu-server/{}.conf' does not exist", node.name,
                    id));
  return *vm;
}

Storage* Datacenter::find_storage(std::string_view id) {
  const auto found = storages.find(std::string(id));
  return found == storages.end() ? nullptr : &found->second;
}

Storage& Datacenter::get_storage(std::string_view id) {
  Storage* storage = find_storage(id);
  if (storage == nullptr) die(fmt::format("storage '{}' does not exist", id));
  return *storage;
}

Storage& Datacenter::get_storage_on(std::string_view id, const Node& node) {
  Storage& storage = get_storage(id);
  if (storage.disabled) die(fmt::format("storage '{}' is disabled", id));
  if (!storage.on_node(node.name))
    die(fmt::format("storage '{}' is not available on node '{}'", id, node.name));
  if (!storage.online) die(fmt::format("storage '{}' is not online", id));
  return storage;
}

Volume* Datacenter::find_volume(std::string_view volid, const Node& node) {
  const auto id = VolumeId::parse(volid);
  if (!id) return nullptr;
  Storage* storage = find_storage(id->storage);
  if (storage == nullptr) return nullptr;
  auto& there = storage->on(node.name);
  const auto found = there.find(id->name);
  return found == there.end() ? nullptr : &found->second;
}

SeededEntropy& Datacenter::chance(const std::string& purpose) {
  const auto found = chances_.find(purpose);
  if (found != chances_.end()) return found->second;
  return chances_.emplace(purpose, world.fork("pve/" + cluster + "/" + purpose)).first->second;
}

std::string Datacenter::new_uuid() {
  return to_string(Uuid::v4(chance("uuid")));
}

std::string Datacenter::new_mac() {
  const auto given = options.find("mac_prefix");
  std::string mac = given == options.end() ? "BC:24:11" : given->second;
  SeededEntropy& entropy = chance("mac");
  while (mac.size() < 17) mac += fmt::format(":{:02X}", entropy.below(256));
  return mac;
}

const Handle* Datacenter::find_handler(const Method& method) const {
  const auto found = handlers_.find(method.verb + " " + method.path);
  return found == handlers_.end() ? nullptr : &found->second;
}

// pvestatd of every host tells the others each ten seconds what it runs; cluster/resources knows
// nothing newer.
void Datacenter::broadcast() {
  for (auto& [id, vm] : vms) {
    const Node* node = find_node(vm.node);
    if (node == nullptr || !node->online) continue;
    vm.broadcast.known = true;
    const std::string* name = vm.find("name");
    vm.broadcast.name = name == nullptr ? fmt::format("VM {}", id) : *name;
    vm.broadcast.status = vm.power == Vm::Power::Stopped ? "stopped" : "running";
    vm.broadcast.is_template = vm.config.contains("template") && vm.config.at("template") == "1";
  }
  broadcast_timer_ = world.after(timing.broadcast, [this] { broadcast(); });
}

}  // namespace rocca::lab::pve
