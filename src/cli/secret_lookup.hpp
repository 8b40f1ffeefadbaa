#pragma once

#include "secrets/age/age.hpp"
#include "secrets/sops/sops.hpp"
#include "sources/resolver.hpp"

#include <stop_token>
#include <string>
#include <vector>

namespace rocca::cli {

struct Context;

/// The user's age identities, found as sops finds them; warnings about key files go to `err`. A
/// passphrase is asked for on a terminal only.
class Keys {
 public:
  explicit Keys(Context& context, std::stop_token stop = {})
      : context_(context), stop_(std::move(stop)) {}

  /// Looked for once, when first needed.
  const std::vector<secrets::age::Identity>& identities();
  /// The data key of a file. Error(Denied) names every key the file is for, and, if the user has no
  /// key at all, every place that was looked into.
  Secret data_key(const secrets::sops::File& file);

 private:
  Context& context_;
  std::stop_token stop_;
  bool looked_ = false;
  std::vector<secrets::age::Identity> identities_;
  std::vector<std::string> searched_;
};

/// A secrets file, opened: nothing if there is none. A file in clear is refused, because it would
/// sooner or later be in Git. Throws Denied without a key for it, Rejected when it was changed by
/// hand.
std::optional<secrets::sops::Plain> open_secrets(Context& context, Keys& keys,
                                                 const std::string& path);

/// The doors through which a spec's `{ secret: … }` are looked up: SOPS files, the environment,
/// programs, Infisical through `transport`.
sources::Doors secret_doors(Context& context, net::Transport& transport, std::stop_token stop = {});

}  // namespace rocca::cli
