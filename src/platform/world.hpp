#pragma once

#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "base/files.hpp"
#include "engine/resource.hpp"
#include "factory/client.hpp"
#include "factory/node_image.hpp"
#include "net/transport.hpp"
#include "platform/storage.hpp"
#include "proxmox/client.hpp"
#include "secrets/bundle.hpp"
#include "spec/lock.hpp"
#include "spec/spec.hpp"
#include "talos/client.hpp"
#include "talosconfig/input.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

namespace rocca::resources {

class Survey;

/// What certificates turned out to be, each read once.
class CertificateLooks {
 public:
  struct Look {
    bool readable = false;
    bool ours = false;  // signed by that authority
    Instant not_after{};
  };
  /// Both in PEM.
  Look look(const std::string& certificate, const std::string& authority);

 private:
  std::mutex mutex_;
  std::map<std::string, Look> looks_;
};

/// Who a run is to the nodes and to their Kubernetes API.
struct Credentials {
  std::shared_ptr<const net::Identity> talos;
  std::shared_ptr<const net::Identity> kubernetes;
  Instant until{};
  std::shared_ptr<CertificateLooks> looks = std::make_shared<CertificateLooks>();
};

/// Minted for one run: good for a day, which is more than the longest bring-up.
Credentials mint_credentials(const secrets::Bundle& bundle, Instant now, Entropy& entropy);

/// All that one run knows of its cluster before it looks at the world. Never changes while it runs.
struct Cluster {
  spec::Spec spec;
  spec::Lock lock;
  talos::Surroundings around;  // the bundle and whatever else a machine config is made of
  std::map<std::string, factory::NodeImage> images;  // by node: what it boots and is installed with
  std::optional<proxmox::Access> proxmox;
  /// Our admin certificate for the nodes, minted for this run.
  std::shared_ptr<const net::Identity> identity;
  /// And for its Kubernetes API.
  std::shared_ptr<const net::Identity> kubernetes_identity;
  std::string authority;  // PEM of the cluster's Talos CA
  std::shared_ptr<CertificateLooks> certificates;
  net::Tls factory_trust = {};  // how the Image Factory is known
  /// The UUIDs that machines showed when they settled, by node: from the state.
  std::map<std::string, Uuid> met = {};

  const secrets::Bundle& bundle() const { return around.bundle; }
  const std::string& id() const;  // `cluster.id` of the bundle: what UUIDs are derived from
  const std::string& name() const { return *spec.name; }
  /// The UUID a node's machine is known by. For a machine that was there before the spec's own
  /// counts, then the lock's, then the state's; nothing: it was never met. A VM has the derived
  /// one, or the one it was taken over with.
  std::optional<Uuid> find_uuid(const std::string& node) const;
  /// Which node that is; nothing: none of ours.
  std::optional<std::string> find_node_with(const Uuid& uuid) const;
  /// What its VM must show. The lock of one that was taken over has both its id and its UUID.
  engine::Identity identity_of(const std::string& node) const;
  bool is_adopted(const std::string& node) const {
    return identity_of(node).adopted_vmid.has_value();
  }
};

/// All that a run needs of its cluster beside the spec, found out without asking the world: the
/// nodes' images, and a certificate of ours for the nodes.
Cluster make_cluster(spec::Spec spec, spec::Lock lock, talos::Surroundings around,
                     std::optional<proxmox::Access> proxmox, Files& files, const Clock& clock,
                     Entropy& entropy);
/// With credentials that are there already.
Cluster make_cluster(spec::Spec spec, spec::Lock lock, talos::Surroundings around,
                     std::optional<proxmox::Access> proxmox, Files& files,
                     const Credentials& credentials);

/// What things turned out to be, shared by all steps of a run.
class Known {
 public:
  void learn(const std::string& address, const std::optional<engine::Fields>& facts);
  std::optional<engine::Fields> find(const std::string& address) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, engine::Fields> facts_;
};

/// What one call of one step may touch: the clients, bound to its stop token, and what earlier
/// things turned out to be.
class World {
 public:
  World(const Cluster& cluster, Survey& survey, Known& known, net::Transport& transport,
        Files& files, const Storage& storage, const Clock& clock, Entropy& entropy,
        std::stop_token stop);

  const Cluster& cluster;
  Survey& survey;  // lists that all steps share: many things are seen with one request
  Files& files;
  const Storage& storage;  // what the cluster keeps between runs beside its state
  const Clock& clock;
  Entropy& entropy;
  net::Transport& transport;
  std::stop_token stop;

  /// Error(Bug) for a cluster without Proxmox.
  proxmox::Client& proxmox();
  factory::Client factory();
  /// How a node of ours is asked once it has our configuration.
  talos::Access access(const std::string& address) const;
  /// The same, for one that should be there and does not open at once.
  talos::Access patient_access(const std::string& address) const;
  talos::Client talos(const std::string& address);
  talos::Client maintenance(const std::string& address);

  std::optional<engine::Fields> known(const std::string& address) const;

 private:
  Known& known_;
  std::optional<proxmox::Client> proxmox_;
};

}  // namespace rocca::resources
