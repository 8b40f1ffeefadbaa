#pragma once

#include "kube/client.hpp"

#include <optional>
#include <string>
#include <vector>

namespace rocca::kube {

/// How an eviction was answered.
struct Eviction {
  enum class Answer {
    Accepted,  ///< it ends; wait until this very Pod is gone
    Gone,      ///< it was not there
    Later,     ///< a disruption budget forbids it now, or the server is busy: ask again
  };
  Answer answer = Answer::Accepted;
  std::string why{};  // of Later: the budget's own words
  std::optional<Duration> after{};
};

/// Asks a Pod to leave, as its disruption budgets allow. Throws for what does not heal: two budgets
/// over one Pod, no right to evict.
Eviction evict(Client& client, const std::string& space, const std::string& pod,
               const std::string& uid = "");
Eviction read_eviction(const net::Answer& answer, const std::string& pod);

/// A Pod that has to leave a node that is drained.
struct Leaving {
  std::string space, name, uid;
  bool unmanaged = false;   // nobody makes it anew elsewhere
  bool local_data = false;  // an emptyDir goes with it
};
/// Which of a node's Pods have to leave: not those that the kubelet runs by itself, nor those of a
/// DaemonSet. Pure.
std::vector<Leaving> leaving(const std::vector<Value>& pods);

}  // namespace rocca::kube
