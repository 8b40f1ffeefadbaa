#pragma once

#include "base/clock.hpp"
#include "base/files.hpp"
#include "kube/client.hpp"
#include "net/transport.hpp"
#include "state/journaled_store.hpp"
#include "state/store.hpp"

#include <memory>
#include <string>

namespace rocca::backends {

/// State in a Secret `NAME-rocca-state` of a namespace: `state` (gzip) and one key per batch of the
/// journal, added by a patch that names the version it was made for. The lock is a Lease of the
/// same name. Holds about a megabyte, compressed; more is refused by name.
std::unique_ptr<state::Store> kubernetes_store(net::Transport& transport, Files& files,
                                               const Clock& clock, kube::Access access,
                                               std::string space, const std::string& cluster,
                                               state::Sealing sealing = {});

}  // namespace rocca::backends
