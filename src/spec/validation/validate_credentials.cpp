#include "base/loopback.hpp"
#include "base/strings.hpp"
#include "spec/plain_http.hpp"
#include "spec/validation/validate.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::spec {

namespace {

/// Would what is sent there cross a network in clear?
bool is_plain(std::string_view url) {
  constexpr std::string_view scheme = "http://";
  if (!to_lower(url.substr(0, scheme.size())).starts_with(scheme)) return false;
  std::string_view host = url.substr(scheme.size());
  host = host.substr(0, host.find_first_of("/?#"));
  if (const auto user = host.rfind('@'); user != std::string_view::npos)
    host.remove_prefix(user + 1);
  host =
      host.starts_with('[') ? host.substr(0, host.find(']') + 1) : host.substr(0, host.find(':'));
  return !is_loopback_host(host);
}

/// Is the key beside one of the values that stand at that place?
bool says_beside(const Tree& tree, const Where& where) {
  const auto is_there = [&](const Member& member) {
    const Where& at = member.value->where;
    return member.value->is_scalar() && at.file == where.file && at.line == where.line &&
           at.column == where.column;
  };
  if (std::any_of(tree.members.begin(), tree.members.end(), is_there)) {
    const TreePtr said = tree.find("plainHttp");
    if (said && said->text == "true") return true;
  }
  return std::any_of(tree.members.begin(), tree.members.end(),
                     [&](const Member& member) { return says_beside(*member.value, where); }) ||
         std::any_of(tree.items.begin(), tree.items.end(),
                     [&](const TreePtr& item) { return says_beside(*item, where); });
}

/// `credential`: what is sent there, for people.
void check(const Look& look, const Placed<std::string>& url, std::string_view credential) {
  if (!is_plain(*url)) return;
  const std::string message = fmt::format("{} would carry {} in clear", *url, credential);
  if (allows_plain_http(look.spec, url))
    look.findings.add("plain-http-allowed", url.where, message, "write https:// once it can");
  else
    look.findings.add("plain-http", url.where, message,
                      "write https://, or plainHttp: true beside it to send it in clear");
}

void check(const Look& look, const Maybe<std::string>& url, std::string_view credential) {
  if (url) check(look, *url, credential);
}

void check(const Look& look, const S3Place& place) {
  check(look, place.endpoint, "what the secret key signs");
}

void check(const Look& look, const InfisicalSource& source) {
  check(look, source.host, "the machine identity and secrets");
}

void check(const Look& look, const HttpState& place) {
  if (!place.username && !place.password) return;
  constexpr std::string_view credential = "the password";
  check(look, place.address, credential);
  check(look, place.lock_address, credential);
  check(look, place.unlock_address, credential);
}

void check(const Look& look, const Handover& handover) {
  if (handover.flux && handover.flux->auth)
    check(look, handover.flux->url, "the repository's credential");
  if (handover.external_secrets) check(look, handover.external_secrets->infisical);
  for (const Publish& publish : handover.publish)
    if (const auto* to = std::get_if<PublishInfisical>(&publish.to))
      check(look, to->host, "the machine identity and the access files");
}

}  // namespace

bool allows_plain_http(const Spec& spec, const Placed<std::string>& address) {
  return address.where.written() && spec.resolved && says_beside(*spec.resolved, address.where);
}

void validate_credentials(const Look& look) {
  const Spec& spec = look.spec;
  if (const auto* bucket = std::get_if<S3Place>(&spec.state.place)) check(look, *bucket);
  if (const auto* http = std::get_if<HttpState>(&spec.state.place)) check(look, *http);
  for (const SecretSource& source : spec.secret_sources)
    if (const auto* infisical = std::get_if<InfisicalSource>(&source)) check(look, *infisical);
  if (spec.tailscale) check(look, spec.tailscale->login_server, "the auth key");
  if (spec.handover) check(look, *spec.handover);
  if (spec.backup)
    if (const auto* bucket = std::get_if<S3Place>(&spec.backup->to)) check(look, *bucket);
}

}  // namespace rocca::spec
