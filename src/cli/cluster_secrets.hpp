#pragma once

#include "cli/secret_lookup.hpp"
#include "secrets/bundle.hpp"
#include "spec/spec.hpp"

#include <string>

namespace rocca::cli {

struct Context;
class Invocation;

/// The key of secrets.sops.yaml under which the Talos bundle stands. A file that `talosctl gen
/// secrets` made and sops encrypted, with the bundle at its root, is read as well.
constexpr const char* bundle_key = "talos";

/// The bundle's place in an opened secrets file; nullptr if there is none in it.
const text::Value* find_bundle(const text::Value& secrets);

/// The spec of the cluster that a verb was given; its problems are printed, and errors among them
/// end the verb.
spec::Spec load_cluster(Context& context, const std::optional<std::string>& cluster);

/// The secrets files that a spec names, as absolute paths.
std::vector<std::string> secret_files(const spec::Spec& spec);

/// The cluster's Talos bundle. Error(NotFound) names every file that was looked into.
secrets::Bundle get_bundle(Context& context, Keys& keys, const spec::Spec& spec);

/// Keeps one value in the first secrets file that is there, encrypted for whom it was before.
void keep_secret(Context& context, Keys& keys, const spec::Spec& spec, const std::string& key,
                 const Secret& secret);

/// The bundle of a file in any form it is kept in: what `talosctl gen secrets` writes, the machine
/// config of a control plane, or a SOPS file that rocca or sops made of a bundle. Its problems are
/// printed, and errors among them end the verb.
secrets::Bundle bundle_of_file(Context& context, const std::string& path);

/// `rocca secrets show` for a cluster instead of a file.
int show_cluster_secrets(Context& context, const Invocation& invocation,
                         const std::optional<std::string>& cluster);

}  // namespace rocca::cli
