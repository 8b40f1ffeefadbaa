#pragma once

#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "base/files.hpp"
#include "base/secret.hpp"
#include "kube/kubeconfig.hpp"
#include "net/transport.hpp"
#include "secrets/age/age.hpp"
#include "spec/spec.hpp"
#include "state/journaled_store.hpp"
#include "state/store.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rocca::backends {

/// Opens a store of its own for a spec whose state is `local`.
using LocalStore = std::function<std::unique_ptr<state::Store>(state::Sealing)>;

/// What a Store may need of the world around it. All of it must outlive the Store.
struct Surroundings {
  net::Transport& transport;
  Files& files;
  const Clock& clock;
  Entropy& entropy;
  /// Looks a `{ secret: … }` up; throws when it is nowhere.
  std::function<Secret(const spec::SecretRef&)> secret;
  /// age identities, asked for only when an encrypted state must be opened.
  std::function<std::vector<secrets::age::Identity>()> identities;
  /// An environment variable.
  std::function<std::optional<std::string>(const std::string&)> variable;
  /// For a spec without a folder; empty: local state is kept in files below the folder.
  LocalStore local = {};
};

/// The Store that `spec.state` asks for. `folder` is the one the spec lies in. A Kubernetes state
/// lives in the cluster of $KUBECONFIG, of the Pod we run in, or of ~/.kube/config, in this order;
/// S3 keys that the spec does not name are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
std::unique_ptr<state::Store> make_store(const spec::Spec& spec, const std::string& folder,
                                         const Surroundings& around);

/// Where rocca's own Kubernetes is: $KUBECONFIG, the Pod we run in, or ~/.kube/config. Error(Usage)
/// when nothing says so.
kube::Access kubernetes_access(
    Files& files, const std::function<std::optional<std::string>(const std::string&)>& variable);

}  // namespace rocca::backends
