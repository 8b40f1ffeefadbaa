#pragma once

#include "cli/command.hpp"

namespace rocca::cli {

/// The verbs below `secrets`.
void add_secrets_verbs(Catalog& verbs);

}  // namespace rocca::cli
