#pragma once

#include "lab/flux/flux.hpp"
#include "lab/kube/api.hpp"
#include "lab/machines/control_plane.hpp"
#include "lab/talos/node.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab {

class Clusters;

/// The Kubernetes of one cluster. It lives on its etcd's data: gone with them, kept in snapshots.
/// Nothing is simulated before somebody asks the API for an object; then all that would have
/// happened until now has happened.
class Kubernetes final : public talos::EtcdCluster::Tenant {
 public:
  Kubernetes(Clusters& site, World& world, const std::shared_ptr<talos::EtcdCluster>& etcd)
      : site_(&site), world_(world), etcd_(etcd) {}

  /// A kubelet is there, or is there with another config.
  void join(talos::TalosNode& node);
  /// Its machine ended.
  void leave(const talos::TalosNode& node);
  void handle(talos::TalosNode& node, net::Incoming request,
              std::shared_ptr<net::Responder> responder);

  /// Where the real API server of this cluster listens; starts it if nobody has.
  std::pair<std::string, unsigned> real(talos::TalosNode& node, const KubernetesPrograms& programs);

  /// talos::Fleet::kubernetes_trouble
  std::string trouble(const std::string& label);

  /// Something was pushed to a repository.
  void pushed();
  /// Does Kubernetes itself say what becomes of nodes?
  bool live() const noexcept { return api_ != nullptr || real_ != nullptr; }
  /// Begins the simulation if it has not begun; nullptr: no control plane has told its config yet.
  kube::Api* api();
  const std::string& name() const noexcept { return name_; }
  /// Every time a kubelet was newer than an API server of its cluster, in words. Kubernetes does
  /// not support that, and this one does not let such a kubelet in.
  const std::vector<std::string>& skews() const noexcept { return skews_; }
  std::map<std::string, std::string> data() const override;
  /// The site goes.
  void close();

 private:
  struct Member {
    kube::Kubelet facts;
    talos::TalosNode* node = nullptr;  // while its kubelet runs
    bool refused = false;              // its kubelet is too new
  };
  /// The API server that is older than this kubelet; empty: none is.
  std::string older_api_server(const kube::Kubelet& kubelet) const;
  /// Kubelets are let in and shut out as API servers and they themselves change.
  void check_skew();
  void begin(const talos::TalosNode& plane);
  /// Does the server behind a webhook's Service listen by now?
  bool webhook_listens(const std::string& space, const std::string& service) const;
  void restore(const talos::EtcdCluster& etcd);
  void tell(const kube::Change& change);
  /// kube-vip's pods agree on one of them, which brings their address up on its node.
  void move_kube_vip();
  void tell_real();
  void look_at_real();
  bool answer_alone(const talos::TalosNode& node, const net::Incoming& request,
                    net::Responder& responder) const;

  Clusters* site_;
  World& world_;
  std::weak_ptr<talos::EtcdCluster> etcd_;
  std::map<std::string, Member> members_;
  std::string name_;
  std::string kube_vip_;  // the node whose pod leads
  std::vector<std::string> skews_;
  std::unique_ptr<kube::Api> api_;
  std::unique_ptr<flux::Flux> flux_;
  std::unique_ptr<ControlPlane> real_;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

/// All of a site's clusters, and what goes wrong in them.
class Clusters {
 public:
  explicit Clusters(talos::Fleet& fleet);
  ~Clusters();
  Clusters(const Clusters&) = delete;
  Clusters& operator=(const Clusters&) = delete;

  /// By the name of the cluster; nullptr: none has an etcd that runs, or nobody configured it.
  Kubernetes* find(std::string_view cluster) const;
  talos::Fleet& fleet() noexcept { return fleet_; }

  /// Where GitRepositories are cloned from; nothing: there is no server. It must outlive this.
  void use_git(flux::Git* git);
  flux::Git* git() const noexcept { return git_; }

  /// From now on real programs are the control planes of clusters; only behind sockets.
  std::optional<KubernetesPrograms> programs;
  /// Why an image cannot be pulled, by a part of its name.
  std::map<std::string, std::string> refused_images;
  /// What containers say as they die, by a part of their image's name.
  std::map<std::string, std::string> crashing_images;
  /// Servers behind webhooks listen so much later than their pods are ready: each by a time of its
  /// own between these two, by the seed.
  Duration webhooks_late{};
  Duration webhooks_latest{};

 private:
  std::shared_ptr<Kubernetes> of(const std::shared_ptr<talos::EtcdCluster>& etcd);
  bool changed(talos::TalosNode& node);

  talos::Fleet& fleet_;
  flux::Git* git_ = nullptr;
  std::vector<std::weak_ptr<Kubernetes>> all_;
};

/// What Talos itself puts into a new cluster: Flannel, kube-proxy and CoreDNS as far as its config
/// wants them, and the config's inline manifests.
std::vector<text::Value> talos_manifests(const talos::MachineConfig& config);
/// Of a control plane's config: does Talos bring a network?
bool brings_network(const talos::MachineConfig& config);
bool has_inline_manifests(const talos::MachineConfig& config);

}  // namespace rocca::lab
