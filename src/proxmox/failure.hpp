#pragma once

#include "base/error.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::proxmox {

/// What Proxmox meant. It speaks in texts: nearly everything is a 500 with a sentence in the reason
/// phrase, and a worker's failure is a sentence in the task's exit status. This is the one place
/// that reads those sentences.
enum class Reason {
  NotExecuted,   ///< 595, or no connection: nothing happened
  Unknown,       ///< 596, 597, 599: it may have happened; look first
  Contention,    ///< a lock file or cfs lock was not had in time
  ConfigLocked,  ///< `VM is locked (backup)`: a config lock, held until its work ends
  AlreadyRunning,
  NotRunning,
  AlreadyExists,  ///< VMID, volume, pool, resource: somebody has it
  DoesNotExist,   ///< VM, volume, task, storage, pool
  Changed,        ///< digest: somebody wrote in between
  Protected,      ///< `protection: 1`
  InUse,          ///< a base volume with linked clones; HA or replication holds it
  NoQuorum,
  Offline,   ///< node or storage is not there now
  Disabled,  ///< storage switched off or not for this node
  NoSpace,
  SourceFailed,   ///< a download's far side refused, or could not be reached by the host
  BadImage,       ///< a checksum differs, or the file is no disk image Proxmox takes
  StartFailed,    ///< QEMU did not come up: missing bridge, too many CPUs, no KVM, PCI device gone
  ProgramFailed,  ///< a program on the host failed, and only the task's log says why
  WrongState,     ///< not with a template, a snapshot, a running VM…
  AgentSilent,    ///< guest agent not configured, not running, or not answering
  NotAuthenticated,
  Forbidden,       ///< a privilege is missing; `path` and `privileges` say which
  RootOnly,        ///< only root@pam may do this, not even its token
  BadParameter,    ///< `errors` says which
  WrongContent,    ///< storage or volume of the wrong type
  NotImplemented,  ///< no such path or verb here
  Interrupted,     ///< a task that was ended from outside
  TimedOut,        ///< a task that waited for the guest in vain
  Malformed,       ///< the answer is not one of Proxmox's
  Other,
};

const char* to_string(Reason reason) noexcept;

/// What to do about it (the classes of a failed call).
enum class Remedy {
  Retry,   ///< not executed, or contention: the same call again, later
  Look,    ///< unknown: read the world, then decide
  Replan,  ///< the world is not as we thought
  Stop,    ///< the surroundings are broken: stop and report
  Report,  ///< our (or the user's) fault: never repeat
};

const char* to_string(Remedy remedy) noexcept;
Remedy remedy(Reason reason) noexcept;

/// A refusal, taken apart.
struct Failure {
  Reason reason = Reason::Other;
  int status = 0;                             // HTTP status; 0 for a task
  std::string text;                           // all of it, without trailing newline
  std::string path;                           // Forbidden: the ACL path, if it was named
  std::vector<std::string> privileges;        // Forbidden: any of them would do
  std::map<std::string, std::string> errors;  // BadParameter: by parameter

  Remedy remedy() const noexcept { return rocca::proxmox::remedy(reason); }
  /// The failure as an Error, with the fault that decides retry and exit code, and a hint where one
  /// helps.
  Error error(std::string_view doing) const;
};

/// An HTTP answer with status ≥ 400 (reason phrase, `message`, `errors`).
Failure classify(int status, std::string_view text, std::map<std::string, std::string> errors = {});
/// A task's exit status, which carries the same sentences, often behind a prefix and a code.
Failure classify_task(std::string_view exit_status);

}  // namespace rocca::proxmox
