#pragma once

#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "lab/kube/api.hpp"
#include "lab/talos/certificates.hpp"
#include "lab/talos/config.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace rocca::lab {

class Child;

/// Paths of the real programs. Without the third nothing rolls out: no Deployment has pods.
struct KubernetesPrograms {
  std::string apiserver, etcd, controller_manager;
};

/// The real etcd, kube-apiserver and kube-controller-manager of one cluster, from the PKI in a
/// control plane's applied config. They listen on loopback only, end with this object, and what
/// they wrote goes with them. Kubelets are played through the API itself (StandInKubelets).
///
/// One of each per cluster: all control planes' doors lead to the same server.
class ControlPlane {
 public:
  struct Wishes {
    KubernetesPrograms programs;
    std::string address = "127.0.0.1";     // where the API server listens
    unsigned port = 0;                     // 0, or one that is taken: any free one
    std::string advertised;                // the control plane's own address
    std::vector<text::Value> manifests{};  // what Talos applies at the beginning
    bool has_network = true;               // nodes are ready without any pod of a CNI
  };
  ControlPlane(Wishes wishes, const talos::MachineConfig& config, SeededEntropy entropy,
               Instant now);
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  const std::string& address() const noexcept { return wishes_.address; }
  unsigned port() const noexcept { return wishes_.port; }

  /// Whose kubelets run, and by what names clients may call the API server.
  void set_members(std::map<std::string, kube::Kubelet> kubelets,
                   const std::vector<std::string>& names);
  /// Why images cannot be pulled, by a part of their names.
  void set_refused(std::map<std::string, std::string> images);

  struct NodeState {
    bool ready = false;
    bool unschedulable = false;
  };
  std::map<std::string, NodeState> nodes() const;
  /// What went wrong last, once.
  std::string take_trouble();

 private:
  void run(const std::stop_token& stop);
  void write(const std::string& name, std::string_view text) const;
  void write_identity(const std::string& name, const net::Identity& identity) const;
  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  void write_certificates();
  void write_server_certificate(std::vector<std::string> names);
  std::string kubeconfig(const std::string& user) const;
  std::vector<std::string> etcd_words() const;
  std::vector<std::string> apiserver_words() const;
  std::vector<std::string> manager_words() const;
  void say(std::string trouble);

  Wishes wishes_;
  talos::MachineConfig config_;
  SeededEntropy entropy_;
  Instant now_;
  Tick begun_;
  std::string folder_;
  unsigned etcd_port_ = 0, peer_port_ = 0, manager_port_ = 0;
  net::Identity admin_;

  mutable std::mutex mutex_;
  // All below by the mutex.
  std::map<std::string, kube::Kubelet> kubelets_;
  std::vector<std::string> names_;
  std::map<std::string, std::string> refused_;
  std::map<std::string, NodeState> nodes_;
  std::string trouble_;

  std::jthread thread_;  // last: it ends before what it uses
};

}  // namespace rocca::lab
