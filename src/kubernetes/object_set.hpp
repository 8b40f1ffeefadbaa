#pragma once

#include "kube/client.hpp"
#include "kube/discovery.hpp"
#include "kube/manifests.hpp"
#include "kube/waits.hpp"

#include <optional>
#include <string>
#include <vector>

// Kubernetes objects that belong together: brought into being in order, compared as Kubernetes
// itself would write them, left to Flux where Flux has taken them, taken away only with proof.

namespace rocca::resources {

/// Says which set an object is of; with fields that we own, the proof that it is ours.
constexpr const char* set_label = "rocca.dev/set";
/// Digest of what we last applied.
constexpr const char* applied_annotation = "rocca.dev/applied";

struct ObjectSet {
  std::string name;
  std::vector<kube::Manifest> objects{};  // as make_set orders and marks them
  std::vector<kube::Wait> waits{};        // beside those of its objects
  /// What Flux had taken when it was last looked at: if such a one is gone, Flux has removed it.
  std::vector<kube::Name> handed{};
  /// Made anew when all of it is gone, whoever took it: a Flux that removed itself is in charge of
  /// nothing.
  bool returns = false;
  /// What a Job of this set installs. A Job that is complete runs again when one of these is
  /// missing, and one that has failed with the next run.
  std::vector<kube::Name> installs{};
};

/// Orders the objects and marks them as of this set. Throws as kube::ordered.
ObjectSet make_set(std::string name, std::vector<kube::Manifest> objects);

/// One object that is not as it should be.
struct SetDifference {
  kube::Name name;
  std::string how;  // `absent`, `spec.replicas`
  bool late{};      // its kind is not served yet, or a webhook does not answer
  bool going{};     // somebody has deleted it, and it is still there
  bool again{};     // a Job that has to run once more: it is deleted, then applied
};

/// How a set stands.
struct SetSight {
  std::vector<SetDifference> differ;
  std::vector<kube::Name> release;      // Flux keeps them, and we still own fields
  std::vector<kube::Name> kept;         // Flux keeps them
  std::vector<kube::Name> superfluous;  // ours, and no longer wanted
  std::vector<kube::Name> there;        // all of ours that exist
  std::string waiting_for{};            // all is applied, and this is not ready
  bool hopeless = false;

  bool applied() const { return differ.empty() && release.empty() && superfluous.empty(); }
};

/// Reads only. `before`: what of this set was there when it was last looked at.
SetSight look(kube::Client& client, kube::Discovery& discovery, const ObjectSet& set,
              const std::vector<kube::Name>& before);

/// Applies what differs, in order, releases what Flux has taken, removes what is superfluous; stops
/// at what cannot be done yet and says which object that is. Throws what will not heal, with the
/// object's place in its file.
std::optional<kube::Name> carry_out(kube::Client& client, kube::Discovery& discovery,
                                    const ObjectSet& set, const SetSight& sight);

/// What an object that could not be applied waits for. Done: it may be tried again.
kube::Verdict until_applicable(kube::Client& client, kube::Discovery& discovery,
                               const ObjectSet& set, const kube::Name& name);

/// What the set as a whole waits for once it is applied.
kube::Verdict until_ready(kube::Client& client, kube::Discovery& discovery, const ObjectSet& set);

/// Takes away what is ours of these, last made first: what carries the label of the set and fields
/// that we own, and is not kept by Flux. What still goes away is named; empty: all are gone.
std::string remove_objects(kube::Client& client, kube::Discovery& discovery, const std::string& set,
                           const std::vector<kube::Name>& names);

/// Gives up our fields of every object of the set that Flux keeps; how many.
std::size_t release_kept(kube::Client& client, kube::Discovery& discovery,
                         const std::vector<kube::Name>& names);

/// `names` as text that a state can keep, and back.
std::string to_text(const std::vector<kube::Name>& names);
std::vector<kube::Name> parse_names(const std::string& text);

}  // namespace rocca::resources
