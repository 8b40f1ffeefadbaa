#pragma once

#include "base/files.hpp"
#include "state/journaled_store.hpp"
#include "state/store.hpp"

#include <memory>
#include <string>

namespace rocca::state {

/// State in a folder, `clusters/blue/.rocca`: `state.json`, `journal`, and the lock, which goes
/// with its process. The folder is made when the lock is first taken.
std::unique_ptr<Store> local_store(Files& files, std::string folder, Sealing sealing = {});

}  // namespace rocca::state
