#pragma once

#include "base/secret.hpp"
#include "doctor/checkup.hpp"
#include "platform/proxmox/helper_tokens.hpp"
#include "spec/spec.hpp"

#include <optional>
#include <string>
#include <vector>

namespace rocca::doctor {

/// A program that runs in the cluster and asks Proxmox with a token.
struct Helper {
  resources::HelperRights rights;
  std::optional<Secret> token{};  // as it was found
  std::string trouble{};          // why it could not even be looked for
};

/// Those that the spec installs, with what each may do at the least. Pure; the tokens are still to
/// be found.
std::vector<Helper> helpers_of(const spec::Spec& spec, const Version& proxmox);

/// The pveum lines that make a user, a token and a role for it, with just these rights.
std::vector<std::string> helper_lines(const Helper& helper);

/// Does its token do, and does it do no more than it must? Reads only.
std::vector<Finding> examine_helper(net::Transport& transport, const proxmox::Access& access,
                                    const Helper& helper, std::stop_token stop = {});

}  // namespace rocca::doctor
