#include "base/error.hpp"
#include "base/strings.hpp"
#include "cli/commands.hpp"
#include "cli/context.hpp"
#include "cli/invocation.hpp"
#include "doctor/checkup.hpp"
#include "doctor/wish_of.hpp"
#include "net/transport.hpp"
#include "spec/load.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <ostream>

namespace rocca::cli {

namespace {

net::Fingerprint parse_pin(const std::string& text) {
  const auto pin = net::Fingerprint::parse(text);
  if (!pin)
    throw Error(Fault::Usage, fmt::format("'{}' is no SHA-256 fingerprint", text))
        .hint("32 pairs of hex digits with colons, as `pvenode cert info` prints them");
  return *pin;
}

/// The token from a file or from the environment; never from the command line, which everybody can
/// read.
Secret read_token(Context& context, const Invocation& invocation) {
  if (const auto file = invocation.find("token-file")) {
    std::string text = context.files.get(*file, 4096);
    Secret token{trim(text)};
    wipe(text);
    return token;
  }
  if (const auto token = context.variable("ROCCA_PROXMOX_TOKEN")) return Secret{*token};
  throw Error(Fault::Usage, "no API token is given")
      .hint(
          "put USER@REALM!TOKENID=SECRET into ROCCA_PROXMOX_TOKEN, or name a file with "
          "--token-file");
}

net::Tls trust_of(Context& context, const std::optional<std::string>& fingerprint,
                  const std::optional<std::string>& ca_file, bool insecure) {
  if (fingerprint) return net::Tls::pinned(parse_pin(*fingerprint));
  if (ca_file) return net::Tls::authority(context.files.get(*ca_file, 1u << 20));
  return insecure ? net::Tls::unverified() : net::Tls::system();
}

struct Question {
  proxmox::Access access;
  doctor::Wish wish;
};

Question from_flags(Context& context, const Invocation& invocation) {
  Question question;
  question.access.endpoints = invocation.all("endpoint");
  question.access.tls = trust_of(context, invocation.find("fingerprint"),
                                 invocation.find("ca-file"), invocation.is_set("insecure"));
  question.access.token = read_token(context, invocation);
  auto& scope = question.wish.scope;
  scope.hosts = invocation.all("host");
  scope.image_storage = invocation.find("images").value_or("");
  scope.disk_storages = invocation.all("disks");
  for (const std::string& bridge : invocation.all("bridge"))
    scope.links.push_back({bridge, std::nullopt, "localnetwork"});
  scope.pool = invocation.find("pool").value_or("");
  return question;
}

Question from_spec(Context& context, const Invocation& invocation) {
  const std::string file = cluster_file(context, invocation.argument("CLUSTER"));
  const spec::Loaded loaded = spec::load(context.files, file);
  if (loaded.diagnostics.has_errors()) {
    context.err << loaded.diagnostics.render();
    loaded.diagnostics.throw_if_errors(file);
  }
  const spec::Spec& spec = loaded.spec;
  if (!spec.proxmox)
    throw Error(Fault::Usage, fmt::format("{} has no `proxmox:` section", file))
        .hint(
            "a cluster of machines that are already there needs no Proxmox, and so nothing of it "
            "is to be checked");
  Question question;
  for (const auto& endpoint : spec.proxmox->endpoints)
    question.access.endpoints.push_back(*endpoint);
  const auto text_of = [](const auto& maybe) {
    return maybe ? std::optional<std::string>{**maybe} : std::nullopt;
  };
  std::optional<std::string> ca_file = text_of(spec.proxmox->ca_file);
  if (ca_file && !ca_file->starts_with('/')) ca_file = spec.folder + "/" + *ca_file;
  question.access.tls =
      trust_of(context, text_of(spec.proxmox->fingerprint), ca_file, *spec.proxmox->insecure);
  question.access.token = read_token(context, invocation);
  question.wish = doctor::wish_of(spec);
  return question;
}

}  // namespace

int run_doctor(Context& context, const Invocation& invocation) {
  const Question question = invocation.all("endpoint").empty() ? from_spec(context, invocation)
                                                               : from_flags(context, invocation);
  const auto transport = context.transport();
  const doctor::Checkup checkup =
      doctor::examine(*transport, context.clock, question.access, question.wish);
  print(context, invocation, doctor::to_value(checkup),
        doctor::render_text(checkup, context.terminal.colour_out));
  return checkup.exit_code();
}

}  // namespace rocca::cli
