#pragma once

#include "base/clock.hpp"
#include "base/secret.hpp"
#include "net/transport.hpp"
#include "state/journaled_store.hpp"
#include "state/store.hpp"

#include <memory>
#include <string>

namespace rocca::state {

/// A server of Terraform's `http` protocol (GitLab, Gitea, many small ones).
struct HttpAccess {
  std::string address;
  std::string lock_address;    // empty: the server keeps no lock
  std::string unlock_address;  // empty: the lock's own
  std::string update_method = "POST";
  std::string lock_method = "LOCK";
  std::string unlock_method = "UNLOCK";
  std::string username;  // empty: no authentication
  Secret password;
  net::Tls tls;
  bool plain_http = false;  // the password may cross a network in clear
};

/// The protocol has no journal: every write is the whole state, one per batch of records. It has no
/// conditional writes either: what is there is compared just before.
///
/// Its locks do not expire. Ours do where the server lets a holder lock again what it holds, which
/// is tried when the lock is taken; elsewhere only `force` takes over what a killed run left.
std::unique_ptr<Store> http_store(net::Transport& transport, const Clock& clock, HttpAccess access,
                                  Sealing sealing = {});

}  // namespace rocca::state
