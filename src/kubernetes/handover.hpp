#pragma once

#include "kube/manifests.hpp"
#include "kubernetes/external_inputs.hpp"
#include "platform/kinds.hpp"

#include <functional>
#include <string>
#include <vector>

namespace rocca::resources {

/// How Git takes over, as things: handover/flux (the controllers), handover/external-secrets and
/// handover/secret-store, handover/git (the credential, the repository and the root), and last
/// handover/CLUSTER: what Flux has taken is Flux's alone.
void make_handover(const Cluster& cluster, const OutsidePtr& outside,
                   const std::function<void(const Made&)>& add);

std::string handover_address(const std::string& part);  // "handover/git"

/// The Secret with which Flux reads the repository, in the form that its URL asks for: a token, a
/// user and a password, an SSH key with known hosts, a GitHub App. Throws Error with what is
/// missing.
kube::Manifest git_credential(const spec::Flux& flux, const Outside& outside);

/// The repository that holds the spec is never the one that Flux gets. Error(Refused) if it is.
void require_other_repository(const spec::Spec& spec, Files& files);
/// Do two addresses name one repository: https, ssh and scp-like forms, with and without `.git`?
bool is_same_repository(const std::string& a, const std::string& b);

}  // namespace rocca::resources
