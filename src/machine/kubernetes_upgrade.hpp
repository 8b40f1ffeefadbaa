#pragma once

#include "base/version.hpp"
#include "engine/guards.hpp"
#include "talosconfig/images.hpp"

#include <optional>
#include <string>
#include <vector>

// Which versions of Kubernetes may follow each other and run beside each other. Pure.

namespace rocca::resources {

using talos::Component;
using talos::KubernetesImages;

/// May a component go from one version to the other? The same minor version or the next one, and
/// never back.
engine::Verdict may_step(const Version& from, const Version& to);

/// May this component run beside an API server of that version (Kubernetes' version skew policy)?
engine::Verdict may_run_beside(Component component, const Version& version,
                               const Version& api_server);

/// Why a node's configuration cannot be brought from what it runs to what is desired; empty: it
/// can.
struct VersionRefusal {
  std::string why;
  std::string hint;
};
std::optional<VersionRefusal> refuse_step(const std::string& node, const KubernetesImages& live,
                                          const KubernetesImages& desired);
/// The same for what is desired alone: patches may name images of another version than the spec's.
std::optional<VersionRefusal> refuse_images(const std::string& node,
                                            const KubernetesImages& desired,
                                            const Version& kubernetes);

/// A control plane in the middle of an upgrade.
struct Plane {
  std::string node;
  KubernetesImages live;          // of the configuration it runs
  KubernetesImages desired;       // of the one it is to run
  std::optional<Version> serves;  // what its API server says it is; nothing: it does not answer
};

/// What must happen before this component of `node` may be changed, in the order of `talosctl
/// upgrade-k8s`: kube-apiserver on every control plane, then kube-controller-manager,
/// kube-scheduler, kube-proxy, then the kubelets of control planes, then those of workers. Empty:
/// it may be changed now. A change that is not an upgrade waits for nothing.
std::string wait_before(Component component, bool worker, const KubernetesImages& live,
                        const KubernetesImages& desired, const std::vector<Plane>& planes);

}  // namespace rocca::resources
