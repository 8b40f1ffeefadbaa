#pragma once

#include "base/clock.hpp"
#include "net/transport.hpp"
#include "s3/client.hpp"
#include "state/journaled_store.hpp"
#include "state/store.hpp"

#include <memory>
#include <string>

namespace rocca::backends {

/// State in a bucket: the object `key`, one object per batch of the journal below `key.journal/`,
/// the lock in `key.lock`. Every write is conditional, so of two writers one is refused. A server
/// that does not keep conditions is found out when the lock is taken, and refused.
std::unique_ptr<state::Store> s3_store(net::Transport& transport, const Clock& clock,
                                       s3::Access access, std::string key,
                                       state::Sealing sealing = {});

}  // namespace rocca::backends
