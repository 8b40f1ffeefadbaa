#pragma once

#include "base/secret.hpp"
#include "kube/kubeconfig.hpp"
#include "spec/spec.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace rocca::resources {

/// What things in Kubernetes need that neither the spec nor the cluster has: secrets, the manifests
/// of add-ons, and rocca's own Kubernetes. Its functions are called from many threads.
struct Outside {
  /// What `{ secret: … }` means; throws, with who wants it, if it is nowhere.
  std::function<Secret(const spec::SecretRef&, const std::string& wanted_by)> secret;
  /// The same; nothing if it is nowhere.
  std::function<std::optional<Secret>(const spec::SecretRef&)> search;
  /// Keeps a secret that rocca made, encrypted and for good, where `search` finds it from then on.
  std::function<void(const spec::SecretRef&, const Secret&)> keep;
  /// Where access files may be published to; asked for only then.
  std::function<kube::Access()> management;
  /// By the names of add-ons in rocca.lock; see fetch_addons.
  std::map<std::string, std::string> addon_texts;

  Secret get_secret(const spec::SecretRef& reference, const std::string& wanted_by) const;
  std::optional<Secret> find_secret(const spec::SecretRef& reference) const;
  /// One of several values under a name: `infisical` has clientId and clientSecret.
  Secret get_member(const spec::SecretRef& reference, const std::string& member,
                    const std::string& wanted_by) const;
  std::optional<Secret> find_member(const spec::SecretRef& reference,
                                    const std::string& member) const;
};

using OutsidePtr = std::shared_ptr<const Outside>;

}  // namespace rocca::resources
