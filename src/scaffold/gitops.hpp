#pragma once

#include "scaffold/scaffold.hpp"

#include <string>
#include <vector>

namespace rocca::spec {

/// The files of a repository that Flux is given (`handover.flux.url`, with `path: flux`): MetalLB,
/// cert-manager, Longhorn, External Secrets and Traefik, each ready before what needs it, and a
/// small site. Paths are below `folder`.
std::vector<NewFile> gitops_files(const std::string& folder);

}  // namespace rocca::spec
