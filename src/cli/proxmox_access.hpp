#pragma once

#include "base/secret.hpp"
#include "cli/command.hpp"
#include "net/tls.hpp"
#include "proxmox/client.hpp"
#include "session/secret_lookup.hpp"
#include "spec/spec.hpp"

#include <optional>
#include <string>
#include <vector>

namespace rocca::cli {

struct Context;

/// `--endpoint`, `--token-file`, `--fingerprint`, `--ca-file`, `--insecure`: how a Proxmox is
/// reached without a spec.
std::vector<Flag> access_flags();

/// The token from `--token-file` or ROCCA_PROXMOX_TOKEN, never from the command line, which
/// everybody can read; nothing if neither is given.
std::optional<Secret> find_token(Context& context, const Invocation& invocation);
/// The same, or Error(Usage) that says how to give one.
Secret get_token(Context& context, const Invocation& invocation);

/// How the certificate of `--endpoint` is checked; see session::trust_of.
net::Tls trust_of(Context& context, const Invocation& invocation);

/// The fingerprint to pin where neither the system nor a named authority trusts the certificate
/// that is shown: asked for without the token, so that whoever answers learns nothing, and then
/// confirmed by the user. Empty where it is trusted. `access` trusts it from then on.
std::string pin_of(Context& context, const Invocation& invocation, net::Transport& transport,
                   proxmox::Access& access);

/// The Proxmox of a spec, with the token from `--token-file`, the variable, or the spec's own
/// secrets, in this order. Error(Usage) for a spec without `proxmox:`.
proxmox::Access spec_access(Context& context, const Invocation& invocation, const spec::Spec& spec,
                            session::SecretLookup& secrets);

}  // namespace rocca::cli
