#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rocca::resources {

/// What is known of etcd's data on a control plane that was a member of etcd.
enum class EtcdData {
  Present,  ///< its machine is there, and was not reset
  Waiting,  ///< it answers, and its etcd waits: it is starting, or has no data to start with
  Empty,    ///< its machine is there, without a configuration and without data
  Gone,     ///< its machine is gone
  Silent,   ///< unknown: it does not answer, or its host is off
};

struct ControlPlaneFacts {
  std::string node;
  EtcdData data = EtcdData::Silent;
  /// The interrupted teardown wrote down that it begins with this machine. Without it, whatever
  /// happened to the machine was not the teardown's work.
  bool announced = false;
  bool stays = false;  // an existing machine that the teardown does not reset

  friend bool operator==(const ControlPlaneFacts&, const ControlPlaneFacts&) = default;
};

struct ClusterPast {
  bool bootstrapped = false;  // the state remembers that etcd was bootstrapped
  bool teardown = false;      // the state remembers a teardown that has not ended
  bool etcd_answers = false;  // a member lists the others: etcd has quorum now
};

/// What `up` has to do with what is left of a cluster.
enum class Course {
  Proceed,    ///< nothing stands in the way
  Keep,       ///< the teardown destroyed no control plane: it is cancelled, the cluster kept
  Recreate,   ///< the teardown destroyed a control plane: it is finished, then the cluster created
  Undecided,  ///< the teardown may have destroyed a control plane that cannot be seen: refused
  Lost,       ///< etcd's data or its quorum is lost, and not through a teardown: refused
};
const char* course_name(Course course) noexcept;

/// Pure. `planes` are the control planes that were members of etcd.
///
/// A teardown that destroyed or reset the data of a control plane is irreversible: the cluster
/// counts as gone, whatever quorum is left. Unless etcd lives on in existing machines that the
/// teardown leaves alone: then it is judged by its quorum, as without a teardown.
Course decide(const std::vector<ControlPlaneFacts>& planes, const ClusterPast& past);

/// How many control planes may still have data.
std::size_t may_have_data(const std::vector<ControlPlaneFacts>& planes);
/// The nodes whose data the teardown has destroyed.
std::vector<std::string> destroyed_by_teardown(const std::vector<ControlPlaneFacts>& planes);

/// Why `up` is refused, for Course::Lost.
std::string explain_loss(const std::vector<ControlPlaneFacts>& planes);

}  // namespace rocca::resources
