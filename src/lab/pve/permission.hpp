#pragma once

#include "lab/pve/access.hpp"
#include "lab/pve/schema/schema.hpp"

namespace rocca::lab::pve {

/// The declared check of a method, before its parameters are validated: on the raw values of path,
/// query and body. Throws the 403.
void check_permission(const Access& access, const Caller& caller, const Method& method,
                      const RawParameters& raw);

}  // namespace rocca::lab::pve
