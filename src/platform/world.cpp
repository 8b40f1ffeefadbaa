#include "platform/world.hpp"

#include "base/error.hpp"
#include "engine/guards.hpp"
#include "platform/survey.hpp"
#include "secrets/x509.hpp"

#include <fmt/format.h>

namespace rocca::resources {

namespace {

constexpr Duration knock = std::chrono::milliseconds{1500};
constexpr Duration patient_knock = std::chrono::seconds{5};

}  // namespace

const std::string& Cluster::id() const {
  return bundle().cluster_id;
}

std::optional<Uuid> Cluster::find_uuid(const std::string& node) const {
  const spec::Node* wanted = spec.find_node(node);
  if (wanted == nullptr || !wanted->existing) return identity_of(node).uuid;
  if (wanted->existing->uuid) return **wanted->existing->uuid;
  const auto locked = lock.nodes.find(node);
  if (locked != lock.nodes.end() && locked->second.uuid && !locked->second.vmid)
    return locked->second.uuid;
  // The node may have been a VM before.
  const auto remembered = met.find(node);
  if (remembered == met.end() || remembered->second == identity_of(node).uuid) return std::nullopt;
  return remembered->second;
}

std::optional<std::string> Cluster::find_node_with(const Uuid& uuid) const {
  for (const spec::Node& node : spec.nodes)
    if (find_uuid(node.name) == uuid) return node.name;
  // One that has left the spec is still the one it was.
  for (const auto& [node, chosen] : lock.nodes)
    if (spec.find_node(node) == nullptr && chosen.uuid == uuid) return node;
  for (const auto& [node, shown] : met)
    if (spec.find_node(node) == nullptr && shown == uuid) return node;
  return std::nullopt;
}

engine::Identity Cluster::identity_of(const std::string& node) const {
  const auto locked = lock.nodes.find(node);
  // A machine that was there before has no VM id, one of our own making no UUID.
  if (locked != lock.nodes.end() && locked->second.uuid && locked->second.vmid)
    return {name(), node, *locked->second.uuid, *locked->second.vmid};
  return {name(), node, engine::derive_uuid(id(), node)};
}

CertificateLooks::Look CertificateLooks::look(const std::string& certificate,
                                              const std::string& authority) {
  const std::string key = certificate + authority;
  {
    const std::lock_guard lock{mutex_};
    const auto found = looks_.find(key);
    if (found != looks_.end()) return found->second;
  }
  Look look;
  try {
    const auto parsed = secrets::Certificate::parse(certificate, "client certificate");
    look.ours = parsed.issued_by(secrets::Certificate::parse(authority, "authority"));
    look.not_after = parsed.not_after;
    look.readable = true;
  } catch (const Error& error) {
    if (error.fault() != Fault::Usage) throw;  // not a certificate: `readable` stays false
  }
  const std::lock_guard lock{mutex_};
  return looks_[key] = look;
}

Credentials mint_credentials(const secrets::Bundle& bundle, Instant now, Entropy& entropy) {
  constexpr Duration lifetime = std::chrono::hours{24};
  const auto identity_of = [](const secrets::CertifiedKey& minted) {
    return std::make_shared<const net::Identity>(
        net::Identity{minted.certificate.pem, minted.key.pem()});
  };
  Credentials credentials;
  credentials.talos = identity_of(secrets::mint_talos_client(
      bundle.authority(secrets::Authority::Os), {"os:admin"}, now, entropy, lifetime));
  credentials.kubernetes = identity_of(secrets::mint_kubernetes_admin(
      bundle.authority(secrets::Authority::Kubernetes), now, entropy, lifetime));
  credentials.until = now + lifetime;
  return credentials;
}

Cluster make_cluster(spec::Spec spec, spec::Lock lock, talos::Surroundings around,
                     std::optional<proxmox::Access> proxmox, Files& files, const Clock& clock,
                     Entropy& entropy) {
  const Credentials credentials = mint_credentials(around.bundle, clock.now(), entropy);
  return make_cluster(std::move(spec), std::move(lock), std::move(around), std::move(proxmox),
                      files, credentials);
}

Cluster make_cluster(spec::Spec spec, spec::Lock lock, talos::Surroundings around,
                     std::optional<proxmox::Access> proxmox, Files& files,
                     const Credentials& credentials) {
  Cluster cluster;
  cluster.spec = std::move(spec);
  cluster.lock = std::move(lock);
  cluster.around = std::move(around);
  // A cluster of machines that were there before needs none.
  if (cluster.spec.proxmox) cluster.proxmox = std::move(proxmox);
  for (const spec::Node& node : cluster.spec.nodes)
    cluster.images.emplace(node.name, factory::node_image(files, cluster.spec, node));
  cluster.identity = credentials.talos;
  cluster.kubernetes_identity = credentials.kubernetes;
  cluster.certificates = credentials.looks;
  cluster.authority = cluster.bundle().os.crt;
  return cluster;
}

void Known::learn(const std::string& address, const std::optional<engine::Fields>& facts) {
  const std::lock_guard lock{mutex_};
  if (facts)
    facts_[address] = *facts;
  else
    facts_.erase(address);
}

std::optional<engine::Fields> Known::find(const std::string& address) const {
  const std::lock_guard lock{mutex_};
  const auto found = facts_.find(address);
  return found == facts_.end() ? std::nullopt : std::optional{found->second};
}

World::World(const Cluster& its_cluster, Survey& its_survey, Known& known,
             net::Transport& its_transport, Files& its_files, const Storage& its_storage,
             const Clock& its_clock, Entropy& its_entropy, std::stop_token its_stop)
    : cluster(its_cluster),
      survey(its_survey),
      files(its_files),
      storage(its_storage),
      clock(its_clock),
      entropy(its_entropy),
      transport(its_transport),
      stop(std::move(its_stop)),
      known_(known) {}

proxmox::Client& World::proxmox() {
  if (!cluster.proxmox) throw Error(Fault::Bug, "this cluster has no Proxmox");
  if (!proxmox_) proxmox_.emplace(transport, *cluster.proxmox, stop);
  return *proxmox_;
}

factory::Client World::factory() {
  return {transport, *cluster.spec.talos.factory, cluster.factory_trust, stop};
}

talos::Access World::access(const std::string& address) const {
  talos::Access access = talos::Access::secure(address, cluster.authority, cluster.identity);
  // Nodes are knocked at while they boot, and a knock at a closed door must not take longer than
  // the wait for the next one.
  access.connect_timeout = survey.is_slow(address) ? patient_knock : knock;
  access.tls.server_name = survey.name_at(address);
  return access;
}

talos::Access World::patient_access(const std::string& address) const {
  talos::Access access = this->access(address);
  access.connect_timeout = patient_knock;
  return access;
}

talos::Client World::talos(const std::string& address) {
  return {transport, access(address), stop};
}

talos::Client World::maintenance(const std::string& address) {
  talos::Access access = talos::Access::maintenance(address);
  access.connect_timeout = knock;
  return {transport, std::move(access), stop};
}

std::optional<engine::Fields> World::known(const std::string& address) const {
  return known_.find(address);
}

}  // namespace rocca::resources
