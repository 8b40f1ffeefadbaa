#pragma once

#include <span>

namespace rocca::spec {

/// A file of the repository that `new --gitops` writes.
struct GitopsTemplate {
  const char* path;
  const char* text;
};

/// What stands below infrastructure/: MetalLB, cert-manager, Longhorn, External Secrets, Traefik.
std::span<const GitopsTemplate> infrastructure_templates();

}  // namespace rocca::spec
