#pragma once

#include "proxmox/failure.hpp"
#include "proxmox/types.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace rocca::proxmox {

/// Why a task failed. Its exit status says so unless it only repeats that some program ended badly
/// (`start failed: QEMU exited with code 1`, `command '…' failed: exit code 1`); then the cause is
/// the last line of the log that names an error of its own. The exit status itself where the log
/// says nothing better. Text of a foreign system, as it came.
std::string cause_of_failure(std::string_view exit_status, const std::vector<std::string>& log);

class Client;

/// Why this task failed, with its cause as the text. Reads the log only where the exit status names
/// no cause; a log that cannot be read leaves the exit status. For a task that failed.
Failure explain_failure(Client& client, const Task& task);

/// Does this text say no more than that a program failed?
bool names_no_cause(std::string_view text);

}  // namespace rocca::proxmox
