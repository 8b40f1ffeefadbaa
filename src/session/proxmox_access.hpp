#pragma once

#include "base/files.hpp"
#include "base/secret.hpp"
#include "net/tls.hpp"
#include "proxmox/client.hpp"
#include "session/secret_lookup.hpp"
#include "spec/spec.hpp"

#include <optional>
#include <string>

namespace rocca::session {

/// How the certificate of a server is checked: by its fingerprint, by an authority in a file, not
/// at all, or against the system's authorities. Error(Usage) when `insecure` contradicts the
/// others.
net::Tls trust_of(Files& files, const std::optional<std::string>& fingerprint,
                  const std::optional<std::string>& ca_file, bool insecure);

/// The Proxmox of a spec: its endpoints, how their certificates are checked, and the token: the
/// given one if there is one, because that is how a new token is tried before it is stored,
/// otherwise `proxmox.token` of the spec. Error(Usage) for a spec without `proxmox:`.
proxmox::Access proxmox_access(const spec::Spec& spec, Files& files,
                               const std::optional<Secret>& given_token, SecretLookup& secrets);

}  // namespace rocca::session
