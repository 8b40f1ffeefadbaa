#pragma once

#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "base/files.hpp"
#include "base/secret.hpp"
#include "secrets/bundle.hpp"
#include "session/keys.hpp"
#include "spec/spec.hpp"
#include "text/value.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace rocca::session {

/// The key of secrets.sops.yaml under which the Talos bundle is. A file that `talosctl gen secrets`
/// made and sops encrypted, with the bundle at its root, is read as well.
constexpr const char* bundle_key = "talos";

/// The first document of a secrets file in clear; its texts are wiped when the last owner is gone.
using SecretTree = std::shared_ptr<const text::Value>;

/// The secrets files that a spec names, as absolute paths.
std::vector<std::string> secret_files(const spec::Spec& spec);

/// Decrypts a secrets file; nullptr if there is no such file. A file in clear is refused, because
/// it would sooner or later be in Git. Throws Denied without a key for it, Rejected when it was
/// changed by hand.
SecretTree open_secrets(Files& files, Keys& keys, const std::string& path);

/// The bundle in an opened secrets file; nullptr if it holds none.
const text::Value* find_bundle(const text::Value& secrets);

/// The cluster's Talos bundle; `open` is open_secrets or answers from memory. Error(NotFound) names
/// every file that was searched.
secrets::Bundle get_bundle(const spec::Spec& spec,
                           const std::function<SecretTree(const std::string& path)>& open,
                           const ReportProblems& report);
secrets::Bundle get_bundle(Files& files, Keys& keys, const spec::Spec& spec,
                           const ReportProblems& report);

/// The bundle of a file in any form: what `talosctl gen secrets` writes, the machine configuration
/// of a control plane, or a SOPS file that rocca or sops made of a bundle.
secrets::Bundle bundle_of_file(Files& files, Keys& keys, const std::string& path,
                               const std::string& shown_path, const ReportProblems& report);

/// Stores one value in the first of the spec's secrets files that exists, for the same recipients.
/// Not for two threads at a time: the file is read, changed and written back.
void store_secret(Files& files, Keys& keys, const Clock& clock, Entropy& entropy,
                  const spec::Spec& spec, const std::string& key, const Secret& secret);

}  // namespace rocca::session
