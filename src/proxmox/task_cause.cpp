#include "proxmox/task_cause.hpp"

#include "base/error.hpp"
#include "base/faults.hpp"
#include "base/strings.hpp"
#include "proxmox/client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace rocca::proxmox {

namespace {

// How programs and Proxmox begin to tell what went wrong; compared in lower case.
constexpr std::array signs = {
    "error",         "fail",          "cannot",      "can't",        "couldn't",    "could not",
    "unable",        "no such",       "not found",   "not exist",    "denied",      "no space",
    "not enough",    "out of memory", "refused",     "timed out",    "timeout",     "invalid",
    "unknown",       "unsupported",   "missing",     "in use",       "not support", "not allowed",
    "not permitted", "permission",    "is full",     "out of space", "mismatch",    "corrupt",
    "is locked",     "is not",        "unreachable", "exceed",       "too large",   "too many",
    "read-only",     "already exists"};

/// `exit code 1`, `exited with code 1`, `status 512`, `got signal 9`.
constexpr std::array endings = {"exit code ", "with code ", "exit status ", "with status ",
                                "signal "};

// A download writes a line for every few kilobytes.
constexpr unsigned longest_log = 20'000;

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// The log's own last line, which repeats the exit status.
bool is_verdict(std::string_view line) {
  return line.starts_with("TASK ");
}

bool is_warning(std::string_view line) {
  return line.starts_with("WARN");
}

bool tells_an_error(std::string_view line) {
  const std::string low = to_lower(line);
  return std::any_of(signs.begin(), signs.end(),
                     [&](const char* sign) { return low.find(sign) != std::string::npos; });
}

}  // namespace

bool names_no_cause(std::string_view text) {
  std::string_view line = trim(text);
  while (!line.empty() && (line.back() == '.' || line.back() == ')')) line.remove_suffix(1);
  if (line.ends_with("unexpected status")) return true;
  const std::size_t blank = line.find_last_of(' ');
  if (blank == std::string_view::npos || !is_number(line.substr(blank + 1))) return false;
  const std::string_view before = line.substr(0, blank + 1);
  return std::any_of(endings.begin(), endings.end(),
                     [&](const char* ending) { return before.ends_with(ending); });
}

std::string cause_of_failure(std::string_view exit_status, const std::vector<std::string>& log) {
  const std::string said{trim(exit_status)};
  if (!said.empty() && !names_no_cause(said)) return said;
  for (auto line = log.rbegin(); line != log.rend(); ++line) {
    const std::string_view text = trim(*line);
    if (text.empty() || is_verdict(text) || is_warning(text)) continue;
    if (names_no_cause(text) || !tells_an_error(text)) continue;
    return std::string(text);
  }
  return said;
}

Failure explain_failure(Client& client, const Task& task) {
  Failure failure = classify_task(task.exit_status);
  if (!names_no_cause(failure.text)) return failure;
  std::vector<std::string> log;
  try {
    log = client.task_log(task.upid, longest_log);
  } catch (const Error& error) {
    // ignored: without its log the task's own exit status is all that is reported.
    if (!is_external(error.fault())) throw;
    return failure;
  }
  const std::string cause = cause_of_failure(failure.text, log);
  if (cause == failure.text) return failure;
  // What the exit status means stays; where it means nothing, the cause does.
  if (failure.reason == Reason::Other) failure.reason = classify_task(cause).reason;
  failure.text = fmt::format("{} ({})", cause, failure.text);
  return failure;
}

}  // namespace rocca::proxmox
