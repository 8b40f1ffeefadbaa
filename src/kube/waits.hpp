#pragma once

#include "kube/client.hpp"
#include "kube/discovery.hpp"
#include "kube/object.hpp"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace rocca::kube {

/// Whether a wait is over, and if not what it waits for, in the cluster's own words.
struct Verdict {
  bool done = false;
  bool hopeless = false;  // will not heal by itself
  std::string waiting_for{};

  static Verdict ready() { return {true, false, ""}; }
  static Verdict wait(std::string what) { return {false, false, std::move(what)}; }
  static Verdict fail(std::string what) { return {false, true, std::move(what)}; }
};

/// What stands around a workload and may say why it does not come up.
struct Scene {
  std::vector<Value> pods;    // of its selector
  std::vector<Value> events;  // of its namespace
};

// Each is pure: objects in, one verdict out.

Verdict crd_established(const Value& definition);
Verdict namespace_active(const Value& space);
Verdict deployment_rolled_out(const Value& deployment, const Scene& scene = {});
Verdict daemon_set_rolled_out(const Value& set, const Scene& scene = {});
Verdict stateful_set_rolled_out(const Value& set, const Scene& scene = {});
Verdict job_complete(const Value& job, const Scene& scene = {});
/// Some slice of the Service has a ready endpoint, and `port` (number or name; empty: any).
Verdict endpoint_ready(const std::vector<Value>& slices, const std::string& service,
                       const std::string& port = "");
/// A rehearsed apply was answered: taken or denied, a webhook was asked. Not yet: it could not be.
Verdict webhook_answers(const std::variant<Value, Failure>& rehearsed);
/// A Flux object (or any with Ready and observedGeneration) has done what its spec says.
/// Ready=False may still heal; Stalled does not, and a suspended one never becomes ready.
Verdict flux_ready(const Value& object);
/// A Kustomization that is ready with nothing: its folder has no manifests.
Verdict keeps_something(const Value& kustomization);
Verdict node_ready(const Value& node);

/// Why a workload's Pods do not run: `Pod ns/web-1: ImagePullBackOff: not found`, the scheduler's
/// words, a crash. Empty: nothing is known.
std::string pod_trouble(const Scene& scene);
/// The newest warning about this object (or one whose name begins with it). Empty: none.
std::string warning_about(const std::vector<Value>& events, const std::string& kind,
                          const std::string& name);

/// A wait as data: what is asked, and of what.
struct Wait {
  enum class For {
    Established,
    Active,
    RolledOut,  ///< Deployment, DaemonSet, StatefulSet
    Complete,   ///< Job
    Endpoint,   ///< name: a Service; `detail`: its port
    Webhook,    ///< `probe` can be applied in rehearsal
    Flux,       ///< Ready at its generation; with a `detail`: and it keeps something
    Condition,  ///< `detail` is True
    Untainted,  ///< name: a Node; it has not the taint `detail`
    Gone,
  };
  For what = For::RolledOut;
  Name name;
  std::string detail{};
  Value probe{};

  std::string text() const;  // `Deployment a/b to roll out`
};

/// Asks once. Reads only. What is not there yet is waited for.
Verdict check(Client& client, Discovery& discovery, const Wait& wait);

/// What to wait for after these objects were applied: CRDs, namespaces, workloads, Jobs.
std::vector<Wait> waits_for(const Value& object);

}  // namespace rocca::kube
