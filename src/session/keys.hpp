#pragma once

#include "base/diagnostics.hpp"
#include "base/files.hpp"
#include "base/secret.hpp"
#include "secrets/age/age.hpp"
#include "secrets/sops/sops.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace rocca::session {

/// Runs a program without a shell and returns what it printed on standard output.
using RunProgram = std::function<Secret(const std::vector<std::string>& words)>;
/// Receives the problems of files that were read; the caller shows them. Called only on the thread
/// that opens a cluster.
using ReportProblems = std::function<void(const Diagnostics&)>;

/// Where age identities are looked for.
struct KeySources {
  Files& files;
  /// SOPS_AGE_KEY, SOPS_AGE_KEY_FILE, SOPS_AGE_KEY_CMD, HOME and so on. Empty: there are none.
  std::map<std::string, std::string> environment = {};
  RunProgram run = {};                   // for SOPS_AGE_KEY_CMD; empty: refused
  secrets::age::AskPassphrase ask = {};  // empty: a key file with a passphrase is refused
  ReportProblems report = {};            // warnings about key files; empty: dropped
};

/// The age identities of one run, found as sops finds them. They are looked for once, when they are
/// first needed: a passphrase is asked once, SOPS_AGE_KEY_CMD runs once, a warning comes once. That
/// first call happens on the thread that opens the cluster (see Session); after it the object only
/// answers from memory and may be used from any thread.
class Keys {
 public:
  explicit Keys(KeySources sources) : sources_(std::move(sources)) {}

  const std::vector<secrets::age::Identity>& identities();
  /// The data key of a file. Error(Denied) names every key the file is for and, without any
  /// identity, every place that was searched.
  Secret data_key(const secrets::sops::File& file);

 private:
  KeySources sources_;
  bool found_ = false;
  std::vector<secrets::age::Identity> identities_;
  std::vector<std::string> searched_;
};

}  // namespace rocca::session
