#include "cli/proxmox_access.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/strings.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "net/transport.hpp"
#include "session/proxmox_access.hpp"

#include <fmt/format.h>

namespace rocca::cli {

namespace {

/// The certificate that is shown, asked for without the token: whoever answers learns nothing.
std::optional<net::Fingerprint> shown_certificate(net::Transport& transport,
                                                  const std::string& endpoint) {
  net::Request request;
  request.url = endpoint + "/api2/json/version";
  request.tls = net::Tls::unverified();
  return net::fetch(transport, request, {}).head.peer;
}

}  // namespace

std::vector<Flag> access_flags() {
  return {{.name = "endpoint",
           .kind = FlagKind::Text,
           .value = "URL",
           .help = "the Proxmox to ask, without a spec: https://HOST:8006",
           .repeats = true},
          {.name = "token-file",
           .kind = FlagKind::Text,
           .value = "FILE",
           .help = "file that holds USER@REALM!TOKENID=SECRET"},
          {.name = "fingerprint",
           .kind = FlagKind::Text,
           .value = "SHA256",
           .help = "the certificate to trust, with --endpoint"},
          {.name = "ca-file",
           .kind = FlagKind::Text,
           .value = "FILE",
           .help = "the authority to trust, with --endpoint"},
          {.name = "insecure", .help = "trust any certificate, with --endpoint"}};
}

std::optional<Secret> find_token(Context& context, const Invocation& invocation) {
  const bool may_name_file = find_flag(invocation.command(), "token-file") != nullptr;
  if (const auto file = may_name_file ? invocation.find("token-file") : std::nullopt) {
    std::string text = context.files.get(*file, 4096);
    Secret token{trim(text)};
    wipe(text);
    return token;
  }
  if (const auto token = context.variable("ROCCA_PROXMOX_TOKEN")) return Secret{*token};
  return std::nullopt;
}

Secret get_token(Context& context, const Invocation& invocation) {
  if (auto token = find_token(context, invocation)) return std::move(*token);
  throw Error(Fault::Usage, "no API token is given")
      .hint(
          "put USER@REALM!TOKENID=SECRET into ROCCA_PROXMOX_TOKEN, or name a file with "
          "--token-file");
}

net::Tls trust_of(Context& context, const Invocation& invocation) {
  return session::trust_of(context.files, invocation.find("fingerprint"),
                           invocation.find("ca-file"), invocation.is_set("insecure"));
}

std::string pin_of(Context& context, const Invocation& invocation, net::Transport& transport,
                   proxmox::Access& access) {
  if (const auto given = invocation.find("fingerprint")) return *given;
  if (invocation.is_set("ca-file")) return "";
  const bool insecure = invocation.is_set("insecure");
  if (!insecure) {
    try {
      net::Request request;
      request.url = access.endpoints.front() + "/api2/json/version";
      net::fetch(transport, request, {});
      return "";
    } catch (const Error& error) {
      if (error.fault() != Fault::Denied) throw;
    }
  }
  const auto shown = shown_certificate(transport, access.endpoints.front());
  if (!shown) throw Error(Fault::Rejected, access.endpoints.front() + " shows no certificate");
  const std::string text = net::to_string(*shown);
  if (!insecure) {
    if (!context.terminal.in || !context.terminal.err)
      throw Error(Fault::Refused, fmt::format("the certificate of {} is not one the system trusts",
                                              access.endpoints.front()))
          .hint(fmt::format("once compared with `pvenode cert info` on the host: --fingerprint {}",
                            text));
    confirm(context,
            fmt::format("{} shows the certificate\n  {}\nIs it the one that `pvenode cert info` "
                        "prints on the host? Pin it?",
                        access.endpoints.front(), text),
            false, "--fingerprint " + text);
  }
  access.tls = net::Tls::pinned(*shown);
  return text;
}

proxmox::Access spec_access(Context& context, const Invocation& invocation, const spec::Spec& spec,
                            session::SecretLookup& secrets) {
  return session::proxmox_access(spec, context.files, find_token(context, invocation), secrets);
}

}  // namespace rocca::cli
