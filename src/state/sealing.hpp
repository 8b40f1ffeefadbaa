#pragma once

#include "base/entropy.hpp"
#include "secrets/age/age.hpp"
#include "state/journaled_store.hpp"

#include <functional>
#include <vector>

namespace rocca::state {

/// Seals to these age recipients; asks for identities only when something must be opened, once.
/// `entropy` must outlive it.
Sealing age_sealing(std::vector<secrets::age::Recipient> recipients,
                    std::function<std::vector<secrets::age::Identity>()> identities,
                    Entropy& entropy);

}  // namespace rocca::state
