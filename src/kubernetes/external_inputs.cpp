#include "kubernetes/external_inputs.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

namespace rocca::resources {

namespace {

/// How a value below a secret is called: `flux.git.identity`, in Infisical `NAME_identity`.
spec::SecretRef below(const spec::SecretRef& reference, const std::string& member) {
  spec::SecretRef inner = reference;
  inner.path += (reference.from == spec::SecretRef::From::Key ? "." : "_") + member;
  return inner;
}

}  // namespace

Secret Outside::get_secret(const spec::SecretRef& reference, const std::string& wanted_by) const {
  if (!secret)
    throw Error(Fault::NotFound, fmt::format("the secret {}, which {} names, is not at hand",
                                             reference.path, wanted_by));
  return secret(reference, wanted_by);
}

std::optional<Secret> Outside::find_secret(const spec::SecretRef& reference) const {
  return search ? search(reference) : std::nullopt;
}

Secret Outside::get_member(const spec::SecretRef& reference, const std::string& member,
                           const std::string& wanted_by) const {
  return get_secret(below(reference, member), wanted_by);
}

std::optional<Secret> Outside::find_member(const spec::SecretRef& reference,
                                           const std::string& member) const {
  return find_secret(below(reference, member));
}

}  // namespace rocca::resources
