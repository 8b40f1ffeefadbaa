#pragma once

#include "lab/kube/server.hpp"

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace rocca::lab::kube {

/// The simulated kube-controller-manager, scheduler and kubelets. Each acts on changes of the
/// storage, a moment later, through the same writes a client makes.
class Controllers {
 public:
  explicit Controllers(Server& server);

  void join(const Kubelet& kubelet);
  void leave(const std::string& node);

  /// A timer of the world that does nothing once the cluster is no more.
  World::Timer later(Duration delay, std::function<void()> then);
  /// Does `work` and, without time passing, what it would lead to within a minute.
  void settle(const std::function<void()>& work);

 private:
  using Act = void (Controllers::*)(const ObjectKey&);

  // controllers.cpp
  void changed(const Change& change);
  /// Runs `act` for this key soon; once, however often it is asked meanwhile.
  void soon(const std::string& what, const ObjectKey& key, Duration delay,
            std::function<void(const ObjectKey&)> act);
  void sync(const char* what, const ObjectKey& key, Act act, Duration delay);
  Write as(const std::string& manager, const std::string& subresource = "") const;
  const Resource& resource(std::string_view group, std::string_view plural) const;
  Object find(std::string_view resource, const ObjectKey& key) const {
    return server_.storage().find(resource, key);
  }
  /// Changes an object if it is there; what is refused is dropped, as a controller would retry.
  void edit(std::string_view group, std::string_view plural, const ObjectKey& key,
            const Server::Edit& change, const Write& write);
  void remove(std::string_view group, std::string_view plural, const ObjectKey& key,
              const std::string& propagation = "Background");
  /// Why it was refused; nothing: it is there.
  std::optional<std::string> make(std::string_view group, std::string_view plural,
                                  const std::string& space, text::Value object,
                                  const std::string& manager);
  /// What `owner` controls, by uid.
  std::vector<Object> owned(std::string_view resource, const text::Value& owner) const;
  void tell(const text::Value& about, const std::string& kind, const std::string& api_version,
            const std::string& type, const std::string& reason, const std::string& message,
            const std::string& component);

  // nodes.cpp
  void sync_node(const ObjectKey& key);
  void heartbeat(const std::string& node);
  bool has_network(const std::string& node) const;
  void lose_node(const std::string& node);
  void describe(const Kubelet& kubelet);
  void make_mirror_pods(const Kubelet& kubelet);
  void ask_certificate(const Kubelet& kubelet);
  void forget_pods(const std::string& node);
  void judge_pods(const std::string& node, bool ready);

  // workloads.cpp
  void sync_deployment(const ObjectKey& key);
  void deployment_status(const ObjectKey& key, const std::string& new_set, bool fresh);
  void sync_replica_set(const ObjectKey& key);
  void sync_stateful_set(const ObjectKey& key);
  void sync_daemon_set(const ObjectKey& key);
  std::optional<std::string> make_pod(const text::Value& owner, const std::string& kind,
                                      const text::Value& pod_template, const std::string& name);

  // jobs.cpp
  void sync_job(const ObjectKey& key);

  // pod_lifecycle.cpp
  void schedule(const ObjectKey& key);
  void run_pod(const ObjectKey& key);
  void start_pod(const ObjectKey& key);
  void end_pod(const ObjectKey& key);

  // endpoints.cpp
  void sync_service(const ObjectKey& key);
  void sync_budget(const ObjectKey& key);

  // garbage.cpp
  void sync_namespace(const ObjectKey& key);
  void collect(const Change& change);
  void finalize(const std::string& resource, const ObjectKey& key);
  void sync_request(const ObjectKey& key);  // CertificateSigningRequest

  Server& server_;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
  std::set<std::string> pending_;
  // While things settle: what is due, by how much later it would be.
  bool settling_ = false;
  Duration ahead_{};
  std::multimap<Duration, std::function<void()>> due_;
  std::map<ObjectKey, unsigned> pulls_;  // that failed, by pod
  std::uint64_t next_pod_cidr_ = 0;
  std::uint64_t next_pod_address_ = 1;
};

/// The agent of one of the usual CNIs, by its labels.
bool is_network_agent(const text::Value& labelled);
/// Why a node will not have a pod; nothing: it will.
std::optional<std::string> refuse_node(const text::Value& pod, const text::Value& node);
/// A ReplicaSet's suffix: what Kubernetes makes of a pod template.
std::string template_hash(const text::Value& pod_template);
bool is_pod_ready(const text::Value& pod);
/// Neither ended nor on its way out.
bool is_pod_active(const text::Value& pod);
/// `25%` of a count, rounded up or down, or the number itself.
std::int64_t scaled(const text::Value* value, std::int64_t of, bool up);

}  // namespace rocca::lab::kube
