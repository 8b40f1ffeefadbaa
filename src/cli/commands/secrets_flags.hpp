#pragma once

#include "cli/command.hpp"

namespace rocca::cli {

// What the secrets commands have in common.
Argument file_argument(const char* help);
Argument path_argument();
Flag type_flag();
Flag age_flag();
std::vector<Flag> rule_flags();  // which values are encrypted
inline constexpr const char* identity_help =
    "The age identity comes from SOPS_AGE_KEY, SOPS_AGE_KEY_FILE, SOPS_AGE_KEY_CMD, "
    "~/.config/sops/age/keys.txt or your SSH key.";

}  // namespace rocca::cli
