#pragma once

#include "base/clock.hpp"
#include "lab/kube/api.hpp"
#include "net/transport.hpp"
#include "text/value.hpp"

#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

namespace rocca::lab {

/// Plays the kubelets and the scheduler of a real API server through its API: Nodes register,
/// report and renew their Leases; pods are bound, run, end and go. What a Job that runs helm would
/// leave behind is applied when it completes. Nothing listens at a pod's or kubelet's address:
/// there are no logs. Used from one thread.
class StandInKubelets {
 public:
  StandInKubelets(net::Transport& transport, std::string server, std::string authority_pem,
                  std::shared_ptr<const net::Identity> identity, std::vector<text::Value> manifests,
                  bool has_network, bool has_manager);

  /// Does the server say that it is ready?
  bool ready(const std::stop_token& stop);

  struct Seen {
    bool ready = false;
    bool unschedulable = false;
  };
  /// One round; what the Nodes are then.
  std::map<std::string, Seen> act(const std::map<std::string, kube::Kubelet>& kubelets,
                                  const std::map<std::string, std::string>& refused,
                                  const std::stop_token& stop);

 private:
  using Value = text::Value;
  struct Said {
    int status = 0;  // 0: no answer
    Value body;
  };
  Said ask(const std::string& method, const std::string& path, const std::string& body = "",
           const std::string& type = "application/json");
  std::vector<Value> list(const std::string& path);
  void apply(const Value& object, const std::string& manager);

  void begin();
  void register_node(const kube::Kubelet& kubelet);
  void report(const kube::Kubelet& kubelet, bool network);
  void lose(const Value& node);
  void renew(const std::string& node);
  void run_pod(const Value& pod, const kube::Kubelet& kubelet, bool network,
               const std::map<std::string, std::string>& refused);
  void bind(const Value& pod, const std::vector<Value>& nodes);
  void install_charts();
  void make_accounts();

  net::Transport& transport_;
  std::string server_;
  std::string authority_pem_;
  std::shared_ptr<const net::Identity> identity_;
  std::vector<Value> manifests_;  // what is still to be applied
  bool has_network_;
  bool has_manager_;
  std::stop_token stop_;
  SystemClock clock_;
  std::map<std::string, kube::Kubelet> known_;  // registered, as they were then
  std::map<std::string, Tick> renewed_;
  std::map<std::string, Tick> lost_;
  std::map<std::string, Tick> started_;  // by uid of the pod
  std::map<std::string, bool> told_;     // ready, as last reported
  std::set<std::string> installed_;      // Jobs, by uid
  std::set<std::string> scaffolded_;     // namespaces with an account
  unsigned next_address_ = 1;
};

}  // namespace rocca::lab
