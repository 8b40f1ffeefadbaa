#pragma once

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/secret.hpp"
#include "net/transport.hpp"
#include "spec/spec.hpp"
#include "text/value.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace rocca::sources {

/// What a lookup may touch. Commands and encrypted files come in as functions: the first starts a
/// process, the second needs the user's keys, and neither belongs here.
struct Doors {
  Files& files;
  const Clock& clock;
  net::Transport& transport;
  std::map<std::string, std::string> environment;
  /// The decrypted tree of a secrets file; nothing if there is no such file. Throws when it cannot
  /// be decrypted.
  std::function<std::optional<text::Value>(const std::string& path)> open;
  /// Runs a program without a shell and gives its standard output; throws when it fails.
  std::function<Secret(const std::vector<std::string>& command)> run;
  /// Secrets that the caller gives as values, by key: looked into before every file and source.
  const std::map<std::string, Secret>* given = nullptr;
};

/// Finds what `{ secret: a.b }` and `{ infisical: /abs/NAME }` mean, in the order the spec gives:
/// its secrets files, then its sources. Each place is opened once, when it is first needed. Nothing
/// falls back in silence: a place that cannot be asked (a wrong key, an Infisical that says 403) is
/// an error, not a place without the secret. For one thread at a time.
class Resolver {
 public:
  Resolver(const spec::Spec& spec, Doors doors, std::stop_token stop = {});
  ~Resolver();

  /// The secret, or an Error(NotFound) that names the key, who wants it and every place that was
  /// searched.
  Secret get(const spec::SecretRef& reference, const std::string& wanted_by);
  std::optional<Secret> find(const spec::SecretRef& reference);
  /// The same for a token or a password, which is one line: stores and editors add line breaks.
  Secret get_line(const spec::SecretRef& reference, const std::string& wanted_by);

  /// A secret that has several values under it: `{ secret: infisical }` with clientId and
  /// clientSecret.
  std::map<std::string, Secret> get_group(const spec::SecretRef& reference,
                                          const std::vector<std::string>& members,
                                          const std::string& wanted_by);

 private:
  class Place;
  class GivenPlace;
  class FilePlace;
  class EnvironmentPlace;
  class CommandPlace;
  class InfisicalPlace;

  Doors doors_;
  std::vector<std::unique_ptr<Place>> places_;
  std::string file_;  // the first secrets file, where a secret that is missing may be stored
  std::unique_ptr<InfisicalPlace> absolute_;  // for { infisical: /abs/NAME }
};

/// `proxmox.token` → `PROXMOX_TOKEN`: how a key is called in an environment and in Infisical.
std::string variable_name(const std::string& key);

}  // namespace rocca::sources
