#pragma once

#include "kubernetes/object_set.hpp"
#include "platform/kinds.hpp"

#include <functional>
#include <string>
#include <vector>

namespace rocca::resources {

/// A set of Kubernetes objects as a thing of the plan.
struct SetWish {
  Thing::About about;
  std::string name;  // of the set: the label's value
  std::vector<kube::Manifest> objects{};
  /// Objects that hold secrets: these are looked up when they are needed, and never kept.
  std::function<std::vector<kube::Manifest>()> secret_objects{};
  /// Makes what the objects need and nobody has made yet; called before they are applied.
  std::function<void(World&)> prepare{};
  std::vector<kube::Wait> waits{};
  /// Flux objects that are asked to look again when something changed, or while they are not ready:
  /// they try by themselves only after minutes.
  std::vector<kube::Name> poke{};
  /// Its waits count until they were fulfilled with just these objects; what becomes of them later
  /// is not ours to wait for.
  bool waits_once = false;
  bool returns = false;                // ObjectSet::returns
  std::vector<kube::Name> installs{};  // ObjectSet::installs
  bool under_flux = false;             // what keeps Flux back explains its waits
  Duration patience = std::chrono::minutes{20};
  Fields more_wishes{};  // what else is wanted, secrets by name only
};

Made make_set_thing(SetWish wish);

/// What a set is made of, secrets included, as one digest. It is kept in the state, so it is keyed
/// with the secrets bundle: a short password could be found by trying words against a plain digest.
std::string contents_digest(const ObjectSet& set, const secrets::Bundle& bundle);

/// A set that nobody wants any more: what is ours of it is removed. Nothing is asked when the whole
/// cluster goes.
Made leftover_set(const Cluster& cluster, const Leftover& leftover);

std::string addon_address(const std::string& name);  // "addon/cni"

}  // namespace rocca::resources
