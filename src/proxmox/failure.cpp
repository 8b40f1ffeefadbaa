#include "proxmox/failure.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <array>

namespace rocca::proxmox {

namespace {

struct Sentence {
  std::string_view part;
  Reason reason;
};

// Read top down: the first part that occurs decides. The order matters where one sentence contains
// another.
constexpr std::array sentences = {
    // Locks that time out. `VM quit/powerdown failed - got timeout` is a guest that ignores us, not
    // a lock, and
    // `qga command … got timeout` an agent that does not answer.
    Sentence{"quit/powerdown failed", Reason::TimedOut},
    Sentence{"qga command", Reason::AgentSilent},
    Sentence{"guest agent is not running", Reason::AgentSilent},
    Sentence{"No QEMU guest agent configured", Reason::AgentSilent},
    Sentence{"Agent error:", Reason::AgentSilent},
    Sentence{"got lock request timeout", Reason::Contention},
    Sentence{"locked command timed out", Reason::Contention},
    Sentence{"got no worker upid", Reason::Contention},
    Sentence{"can't lock file", Reason::Contention},
    Sentence{"can't acquire lock", Reason::Contention},
    Sentence{"error: no quorum", Reason::NoQuorum},
    Sentence{"no quorum?", Reason::NoQuorum},
    Sentence{"VM is locked (", Reason::ConfigLocked},
    Sentence{"CT is locked (", Reason::ConfigLocked},
    Sentence{"received interrupt", Reason::Interrupted},
    Sentence{"interrupted by signal", Reason::Interrupted},
    Sentence{"unexpected status", Reason::Interrupted},
    Sentence{"checksum mismatch (file change by other user?)", Reason::Changed},
    Sentence{"detected modified configuration", Reason::Changed},
    Sentence{"protection mode enabled", Reason::Protected},
    Sentence{"is still in use by linked clone", Reason::InUse},
    Sentence{"used in HA resources", Reason::InUse},
    Sentence{"There is a replication job", Reason::InUse},
    Sentence{"is already a pool member", Reason::AlreadyExists},
    Sentence{"Only root may use this option", Reason::RootOnly},
    Sentence{"only root can ", Reason::RootOnly},
    Sentence{"Only root can ", Reason::RootOnly},
    Sentence{"does not support vm images", Reason::WrongContent},
    Sentence{"is not configured for content-type", Reason::WrongContent},
    Sentence{"has wrong type", Reason::WrongContent},
    Sentence{"content type needs to be", Reason::WrongContent},
    Sentence{"not a file based storage", Reason::WrongContent},
    Sentence{"' content", Reason::WrongContent},
    Sentence{"can't upload to storage type", Reason::WrongContent},
    Sentence{"not enough free space", Reason::NoSpace},
    Sentence{"No space left", Reason::NoSpace},
    Sentence{"in thin pool", Reason::NoSpace},
    Sentence{": out of space", Reason::NoSpace},
    Sentence{"is disabled", Reason::Disabled},
    Sentence{"is not available on node", Reason::Disabled},
    Sentence{"is not online", Reason::Offline},
    Sentence{"not online", Reason::Offline},
    Sentence{"hostname lookup", Reason::DoesNotExist},
    Sentence{"no such cluster node", Reason::DoesNotExist},
    Sentence{"is running - destroy failed", Reason::AlreadyRunning},
    Sentence{"already running", Reason::AlreadyRunning},
    Sentence{"not running", Reason::NotRunning},
    Sentence{"VM is paused", Reason::NotRunning},
    Sentence{"already exists", Reason::AlreadyExists},
    Sentence{"already defined", Reason::AlreadyExists},
    Sentence{"refusing to override existing file", Reason::AlreadyExists},
    Sentence{"config file already exists", Reason::AlreadyExists},
    Sentence{"failed: File exists", Reason::AlreadyExists},
    Sentence{"Name or service not known", Reason::DoesNotExist},
    Sentence{"bridge '", Reason::StartFailed},
    Sentence{"unable to find configuration file", Reason::DoesNotExist},
    Sentence{"does not exist", Reason::DoesNotExist},
    Sentence{"no such ", Reason::DoesNotExist},
    Sentence{"No such ", Reason::DoesNotExist},
    Sentence{"failed to stat", Reason::DoesNotExist},
    Sentence{"not HA managed", Reason::DoesNotExist},
    Sentence{"is not a pool member", Reason::DoesNotExist},
    Sentence{"mapping not found", Reason::StartFailed},
    Sentence{"no PCI device found", Reason::StartFailed},
    Sentence{"start failed:", Reason::StartFailed},
    Sentence{"vcpus allowed per VM", Reason::StartFailed},
    Sentence{"KVM virtualisation configured", Reason::StartFailed},
    Sentence{"is too old to run machine type", Reason::StartFailed},
    Sentence{"total memory for NUMA", Reason::StartFailed},
    Sentence{"checksum mismatch: got", Reason::BadImage},
    Sentence{"failed to verify file", Reason::BadImage},
    Sentence{"Image is not in", Reason::BadImage},
    Sentence{"download failed", Reason::SourceFailed},
    Sentence{"invalid server response", Reason::SourceFailed},
    Sentence{"is still in use", Reason::InUse},
    Sentence{"is not empty", Reason::InUse},
    Sentence{"already used", Reason::AlreadyExists},
    Sentence{"belongs already to pool", Reason::AlreadyExists},
    Sentence{"unable to get any free VMID", Reason::NoSpace},
    Sentence{"qemu-img resize", Reason::WrongState},
    Sentence{"you can't ", Reason::WrongState},
    Sentence{"unable to create template", Reason::WrongState},
    Sentence{"Linked clone feature is not supported", Reason::WrongState},
    Sentence{"snapshot feature is not available", Reason::WrongState},
    Sentence{"shrinking disks is not supported", Reason::WrongState},
    Sentence{"can't rollback", Reason::WrongState},
    Sentence{"copy failed: command", Reason::ProgramFailed},
    // What a handler dies of when a value passed the schema but makes no sense: our own mistakes.
    Sentence{"403 Permission check failed", Reason::Forbidden},
    Sentence{"no options specified", Reason::BadParameter},
    Sentence{"decompression not supported", Reason::BadParameter},
    Sentence{"no decompression method", Reason::BadParameter},
    Sentence{"malformed JSON string", Reason::BadParameter},
    Sentence{"unable to parse ", Reason::BadParameter},
    Sentence{"unable to use snapshot name", Reason::BadParameter},
    Sentence{"boundary rule broken", Reason::BadParameter},
    Sentence{"cannot be modified", Reason::BadParameter},
    Sentence{"is already attached at", Reason::BadParameter},
    Sentence{"please set the machine type", Reason::BadParameter},
    Sentence{"if no vIOMMU is configured", Reason::BadParameter},
    Sentence{"have been migrated to rules", Reason::BadParameter},
    Sentence{"pool name must start with a letter", Reason::BadParameter},
    Sentence{"cannot use unmanaged resource", Reason::BadParameter},
    Sentence{"Rule '", Reason::BadParameter},
    Sentence{"can't change value of fixed parameter", Reason::BadParameter},
    Sentence{"validation error", Reason::BadParameter},
    Sentence{"no sdn vnet ID specified", Reason::BadParameter},
    Sentence{"option different from storage format", Reason::BadParameter},
    Sentence{"not allowed for linked clones", Reason::BadParameter},
    Sentence{"invalid format", Reason::BadParameter},
    Sentence{"missing value for required option", Reason::BadParameter},
    Sentence{"volume_size_info on", Reason::DoesNotExist},
};

std::string cleaned(std::string_view text) {
  std::string result{trim(text)};
  return result;
}

std::optional<Reason> by_sentence(std::string_view text) {
  for (const Sentence& sentence : sentences)
    if (text.find(sentence.part) != std::string_view::npos) return sentence.reason;
  return std::nullopt;
}

/// `Permission check failed (/vms/100, VM.Audit|VM.Config)` → path and privileges.
void read_permission(std::string_view text, Failure& failure) {
  constexpr std::string_view opening = "Permission check failed (";
  const std::size_t start = text.find(opening);
  if (start == std::string_view::npos) return;
  std::string_view inside = text.substr(start + opening.size());
  const std::size_t end = inside.rfind(')');
  if (end == std::string_view::npos) return;
  inside = inside.substr(0, end);
  const std::size_t comma = inside.find(", ");
  if (comma == std::string_view::npos || inside.empty() || inside.front() != '/') return;
  failure.path = std::string(inside.substr(0, comma));
  std::string_view names = inside.substr(comma + 2);
  // "Sys.Modify for modifying tag 'x'" names the reason behind the privilege.
  if (const std::size_t blank = names.find(' '); blank != std::string_view::npos)
    names = names.substr(0, blank);
  for (std::string& name : split(names, '|'))
    if (!name.empty()) failure.privileges.push_back(std::move(name));
}

Fault fault_of(Reason reason) noexcept {
  switch (reason) {
    case Reason::NotExecuted:
    case Reason::Offline:
      return Fault::Unreachable;
    case Reason::Unknown:
      return Fault::Lost;
    case Reason::Contention:
    case Reason::ConfigLocked:
    case Reason::Changed:  // by a task of a run that was killed, perhaps: what is there is read
                           // again
      return Fault::Busy;
    case Reason::AlreadyRunning:
    case Reason::NotRunning:
    case Reason::AlreadyExists:
    case Reason::WrongState:
    case Reason::InUse:
      return Fault::Conflict;
    case Reason::DoesNotExist:
      return Fault::NotFound;
    case Reason::NotAuthenticated:
    case Reason::Forbidden:
    case Reason::RootOnly:
      return Fault::Denied;
    case Reason::TimedOut:
      return Fault::Timeout;
    default:
      return Fault::Rejected;
  }
}

/// `bridge 'vmbr9' does not exist`, wherever a text says so.
std::string missing_bridge(std::string_view text) {
  constexpr std::string_view opening = "bridge '", closing = "' does not exist";
  const std::size_t begin = text.find(opening);
  if (begin == std::string_view::npos) return "";
  const std::string_view name = text.substr(begin + opening.size());
  const std::size_t end = name.find(closing);
  return end == std::string_view::npos ? "" : std::string(name.substr(0, end));
}

std::string hint_of(const Failure& failure) {
  if (const std::string bridge = missing_bridge(failure.text); !bridge.empty())
    return fmt::format(
        "name a bridge that this host has (proxmox.bridge, or `nics` of the node), "
        "or create {} there",
        bridge);
  switch (failure.reason) {
    case Reason::NotAuthenticated:
      if (failure.text.find("expired") != std::string::npos)
        return "pveum user token modify USER@REALM TOKENID --expire 0 makes it last, or make a new "
               "one";
      return "check the API token: user@realm!tokenid=secret, not expired, user enabled";
    case Reason::Forbidden:
      if (!failure.path.empty())
        return fmt::format(
            "grant {} on {} to the token (and, with privilege separation, to its user); "
            "`rocca doctor` prints the pveum lines",
            join(failure.privileges, " or "), failure.path);
      return "`rocca doctor` names the missing privilege and prints the pveum lines";
    case Reason::RootOnly:
      return "only root@pam itself may do this; a token of root may not either";
    case Reason::WrongContent:
      return fmt::format("see the storage's content types: pvesm set STORAGE --content …,{}",
                         failure.text.find("vm images") != std::string::npos ? "images" : "import");
    case Reason::Contention:
      return "too much is going on at once on this VM or storage; it is safe to run again";
    case Reason::ConfigLocked:
      return "a backup, migration or snapshot holds the VM; wait for it, or `qm unlock` on the "
             "node if it died";
    case Reason::NoQuorum:
      return "the Proxmox cluster has no quorum: bring its nodes back first (pvecm status)";
    case Reason::NoSpace:
      return "free space on that storage or name another one";
    case Reason::Protected:
      return "the VM has protection: 1: `qm set ID --protection 0` on its host if it may go";
    case Reason::Unknown:
      return "the answer was lost and it may have happened; running again looks first";
    default:
      return "";
  }
}

}  // namespace

const char* to_string(Reason reason) noexcept {
  switch (reason) {
    case Reason::NotExecuted:
      return "not-executed";
    case Reason::Unknown:
      return "unknown";
    case Reason::Contention:
      return "contention";
    case Reason::ConfigLocked:
      return "config-locked";
    case Reason::AlreadyRunning:
      return "already-running";
    case Reason::NotRunning:
      return "not-running";
    case Reason::AlreadyExists:
      return "already-exists";
    case Reason::DoesNotExist:
      return "does-not-exist";
    case Reason::Changed:
      return "changed";
    case Reason::Protected:
      return "protected";
    case Reason::InUse:
      return "in-use";
    case Reason::NoQuorum:
      return "no-quorum";
    case Reason::Offline:
      return "offline";
    case Reason::Disabled:
      return "disabled";
    case Reason::NoSpace:
      return "no-space";
    case Reason::SourceFailed:
      return "source-failed";
    case Reason::BadImage:
      return "bad-image";
    case Reason::StartFailed:
      return "start-failed";
    case Reason::ProgramFailed:
      return "program-failed";
    case Reason::WrongState:
      return "wrong-state";
    case Reason::AgentSilent:
      return "agent-silent";
    case Reason::NotAuthenticated:
      return "not-authenticated";
    case Reason::Forbidden:
      return "forbidden";
    case Reason::RootOnly:
      return "root-only";
    case Reason::BadParameter:
      return "bad-parameter";
    case Reason::WrongContent:
      return "wrong-content";
    case Reason::NotImplemented:
      return "not-implemented";
    case Reason::Interrupted:
      return "interrupted";
    case Reason::TimedOut:
      return "timed-out";
    case Reason::Malformed:
      return "malformed";
    case Reason::Other:
      return "other";
  }
  return "other";
}

const char* to_string(Remedy remedy) noexcept {
  switch (remedy) {
    case Remedy::Retry:
      return "retry";
    case Remedy::Look:
      return "look";
    case Remedy::Replan:
      return "replan";
    case Remedy::Stop:
      return "stop";
    case Remedy::Report:
      return "report";
  }
  return "report";
}

Remedy remedy(Reason reason) noexcept {
  switch (reason) {
    case Reason::NotExecuted:
    case Reason::Contention:
      return Remedy::Retry;
    case Reason::Unknown:
    case Reason::Interrupted:
    case Reason::TimedOut:
      return Remedy::Look;
    case Reason::ConfigLocked:
    case Reason::AlreadyRunning:
    case Reason::NotRunning:
    case Reason::AlreadyExists:
    case Reason::DoesNotExist:
    case Reason::AgentSilent:
    case Reason::WrongState:
    case Reason::Changed:
      return Remedy::Replan;
    case Reason::NoQuorum:
    case Reason::Offline:
    case Reason::Disabled:
    case Reason::NoSpace:
    case Reason::SourceFailed:
    case Reason::StartFailed:
    case Reason::NotAuthenticated:
      return Remedy::Stop;
    default:
      return Remedy::Report;
  }
}

Failure classify(int status, std::string_view text, std::map<std::string, std::string> errors) {
  Failure failure;
  failure.status = status;
  failure.text = cleaned(text);
  failure.errors = std::move(errors);
  switch (status) {
    case 401:
      failure.reason = Reason::NotAuthenticated;
      return failure;
    case 403:
      failure.reason = Reason::Forbidden;
      read_permission(failure.text, failure);
      return failure;
    case 501:
    case 506:
      failure.reason = Reason::NotImplemented;
      return failure;
    case 595:
      failure.reason = Reason::NotExecuted;
      return failure;
    case 596:
    case 597:
    case 598:
    case 599:
      failure.reason = Reason::Unknown;
      return failure;
    default:
      break;
  }
  if (status == 400) {
    failure.reason = Reason::BadParameter;
    // A few states of the world are told as parameter errors: `{"vmid":"VM 100 already exists"}`.
    for (const auto& [name, why] : failure.errors) {
      const auto said = by_sentence(why);
      if (!said) continue;
      const bool about_world = *said == Reason::AlreadyExists || *said == Reason::DoesNotExist ||
                               *said == Reason::WrongContent || *said == Reason::RootOnly;
      // `device 'x' does not exist` in a boot order and the like are our own mistakes.
      if (about_world &&
          (*said != Reason::DoesNotExist || why.find("o such ") != std::string::npos))
        failure.reason = *said;
    }
    return failure;
  }
  failure.reason = by_sentence(failure.text).value_or(Reason::Other);
  if (failure.reason == Reason::Forbidden) read_permission(failure.text, failure);
  return failure;
}

Failure classify_task(std::string_view exit_status) {
  Failure failure;
  failure.text = cleaned(exit_status);
  const std::string_view text = failure.text;
  if (text.find("403 Permission check failed") != std::string_view::npos ||
      text.starts_with("Permission check failed")) {
    failure.reason = Reason::Forbidden;
    read_permission(text, failure);
  } else if (text.find("400 Parameter verification failed") != std::string_view::npos) {
    failure.reason = Reason::BadParameter;
  } else {
    failure.reason = by_sentence(text).value_or(Reason::Other);
  }
  return failure;
}

Error Failure::error(std::string_view doing) const {
  std::string message = fmt::format("{}: {}", doing, text.empty() ? to_string(reason) : text);
  if (reason == Reason::NotAuthenticated)
    message = fmt::format("{}: Proxmox did not accept the API token ({})", doing,
                          text.empty() ? "401" : text);
  for (const auto& [name, why] : errors)
    message += fmt::format("\n  {}: {}", name, std::string(trim(why)));
  Error result{fault_of(reason), std::move(message)};
  if (std::string hint = hint_of(*this); !hint.empty()) result.hint(std::move(hint));
  return result;
}

}  // namespace rocca::proxmox
