#include "session/proxmox_access.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

namespace rocca::session {

namespace {

net::Fingerprint parse_pin(const std::string& text) {
  const auto pin = net::Fingerprint::parse(text);
  if (!pin)
    throw Error(Fault::Usage, fmt::format("'{}' is no SHA-256 fingerprint", text))
        .hint("32 pairs of hex digits with colons, as `pvenode cert info` prints them");
  return *pin;
}

std::optional<std::string> text_of(const spec::Maybe<std::string>& maybe) {
  return maybe ? std::optional<std::string>{**maybe} : std::nullopt;
}

}  // namespace

net::Tls trust_of(Files& files, const std::optional<std::string>& fingerprint,
                  const std::optional<std::string>& ca_file, bool insecure) {
  if (insecure && (fingerprint || ca_file))
    throw Error(Fault::Usage, "trust in any certificate and in a certain one cannot both be meant")
        .hint("leave out --insecure");
  if (fingerprint) return net::Tls::pinned(parse_pin(*fingerprint));
  if (ca_file) return net::Tls::authority(files.get(*ca_file, 1u << 20));
  return insecure ? net::Tls::unverified() : net::Tls::system();
}

proxmox::Access proxmox_access(const spec::Spec& spec, Files& files,
                               const std::optional<Secret>& given_token, SecretLookup& secrets) {
  if (!spec.proxmox)
    throw Error(Fault::Usage, fmt::format("{} has no `proxmox:` section", spec.files.front()))
        .hint(
            "a cluster of machines that are already there needs no Proxmox, and so nothing of it "
            "is to be checked");
  proxmox::Access access;
  for (const auto& endpoint : spec.proxmox->endpoints) access.endpoints.push_back(*endpoint);
  std::optional<std::string> ca_file = text_of(spec.proxmox->ca_file);
  if (ca_file && !ca_file->starts_with('/') && !spec.folder.empty())
    ca_file = spec.folder + "/" + *ca_file;
  access.tls =
      trust_of(files, text_of(spec.proxmox->fingerprint), ca_file, *spec.proxmox->insecure);
  access.token =
      given_token ? *given_token : secrets.get_line(*spec.proxmox->token, "proxmox.token");
  return access;
}

}  // namespace rocca::session
