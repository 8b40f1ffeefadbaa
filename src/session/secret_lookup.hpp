#pragma once

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/secret.hpp"
#include "net/transport.hpp"
#include "session/keys.hpp"
#include "session/secret_files.hpp"
#include "spec/spec.hpp"

#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

namespace rocca::session {

/// What a lookup of secrets may use. The references must outlive the lookup.
struct LookupInputs {
  Files& files;
  const Clock& clock;
  net::Transport& transport;
  std::shared_ptr<Keys> keys;  // never null
  /// For `secrets.sources: [ { env: PREFIX } ]` and INFISICAL_CLIENT_ID.
  std::map<std::string, std::string> environment = {};
  RunProgram run = {};  // for `{ command: … }` sources; empty: refused
  /// By key (`proxmox.token`); these win over every file and source.
  std::map<std::string, Secret> given = {};
};

/// The one secret lookup of a run. A file is decrypted once and a secret is looked up once; that a
/// secret does not exist is remembered, too. May be used from any thread once the keys were found
/// (see Keys). No mutex is held while a file is read, a program runs or a server is asked: two
/// threads that ask for the same secret at the same moment may both look it up, and the first
/// answer counts for both.
class SecretLookup {
 public:
  SecretLookup(const spec::Spec& spec, LookupInputs inputs, std::stop_token stop = {});
  ~SecretLookup();
  SecretLookup(const SecretLookup&) = delete;
  SecretLookup& operator=(const SecretLookup&) = delete;

  /// Error(NotFound) names the key, who needs it and every place that was searched.
  Secret get(const spec::SecretRef& reference, const std::string& wanted_by);
  /// The same for a token or a password, which is one line: stores and editors add line breaks.
  Secret get_line(const spec::SecretRef& reference, const std::string& wanted_by);
  std::optional<Secret> find(const spec::SecretRef& reference);
  /// A secrets file in clear; nullptr: there is no such file.
  SecretTree open(const std::string& path);
  /// A secret that was stored during this run: found from now on.
  void add(const spec::SecretRef& reference, const Secret& secret);

  Keys& keys();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rocca::session
