#pragma once

#include "state/store.hpp"

#include <memory>

namespace rocca::state {

/// A store that has nothing, keeps nothing and locks nobody out: for a run that goes on although
/// the place of its state does not answer.
std::unique_ptr<Store> forgetful_store();

}  // namespace rocca::state
