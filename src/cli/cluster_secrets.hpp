#pragma once

#include "secrets/bundle.hpp"
#include "session/keys.hpp"
#include "session/secret_files.hpp"
#include "session/secret_lookup.hpp"
#include "spec/spec.hpp"

#include <memory>
#include <optional>
#include <stop_token>
#include <string>

namespace rocca::net {
class Transport;
}

namespace rocca::cli {

struct Context;
class Invocation;

/// The spec of the cluster that a command was given. Its problems are printed; errors among them
/// end the command.
spec::Spec load_cluster(Context& context, const std::optional<std::string>& cluster);

/// Prints the problems of files that a session has read.
session::ReportProblems report_to(Context& context);

/// Runs a program for a secret; after two seconds it is said which one is waited for.
session::RunProgram program_runner(Context& context, std::stop_token stop = {});

/// The age identities of this command: all parts of it share them, so that a passphrase is asked
/// once. A passphrase is asked on a terminal only.
std::shared_ptr<session::Keys> keys_of(Context& context, std::stop_token stop = {});

/// The lookup of `{ secret: … }` for a command that opens no session.
std::shared_ptr<session::SecretLookup> secrets_of(Context& context, const spec::Spec& spec,
                                                  net::Transport& transport,
                                                  std::stop_token stop = {});

/// The cluster's Talos bundle.
secrets::Bundle get_bundle(Context& context, const spec::Spec& spec);

/// The bundle of a file in any form; see session::bundle_of_file.
secrets::Bundle bundle_of_file(Context& context, const std::string& path);

/// `rocca secrets show` for a cluster instead of a file.
int show_cluster_secrets(Context& context, const Invocation& invocation,
                         const std::optional<std::string>& cluster);

}  // namespace rocca::cli
