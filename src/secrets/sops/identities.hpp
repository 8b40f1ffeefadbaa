#pragma once

#include "base/diagnostics.hpp"
#include "base/files.hpp"
#include "secrets/age/age.hpp"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::secrets::sops {

/// Runs a command (no shell) and gives what it printed.
using RunCommand = std::function<Secret(const std::vector<std::string>& words)>;

struct FoundIdentities {
  std::vector<age::Identity> identities;
  std::vector<std::string> searched;  // every place looked into, for who finds none
};

/// Every age identity that sops would use: SOPS_AGE_KEY, SOPS_AGE_KEY_FILE, SOPS_AGE_KEY_CMD,
/// SOPS_AGE_SSH_PRIVATE_KEY_FILE, the default key file (XDG_CONFIG_HOME or ~/.config) and the SSH
/// keys of the user. A source that was named and cannot be read is an error; a default one that is
/// not there is none. Key files that others may read are warned about in `problems`. Post-quantum
/// keys (AGE-SECRET-KEY-PQ-1…) are used only with ROCCA_AGE_HYBRID=1; `searched` says so.
FoundIdentities find_identities(const std::map<std::string, std::string>& environment, Files& files,
                                const RunCommand& run, const age::AskPassphrase& ask,
                                Diagnostics& problems);

/// Words as a POSIX shell would split them: blanks, quotes and backslashes, nothing else. Throws
/// Error(Usage) where a quote has no end.
std::vector<std::string> shell_words(std::string_view text);

}  // namespace rocca::secrets::sops
