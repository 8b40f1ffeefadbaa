#pragma once

#include <map>
#include <string>

namespace rocca::lab::pve {

/// How a Proxmox handler or worker says no: Perl's `die` (500), a parameter exception (400) or a
/// permission exception (403). Part of the simulation, never of rocca's own errors, hence no
/// rocca::Error.
struct Failure {
  int status = 500;
  std::string message;  // without the newline that Perl's die appends
  std::map<std::string, std::string> errors;
  bool newline = true;  // does `message` in the answer end in one?

  /// What the worker's log and exit status show of it: `403 Permission check failed (…)`, bare text
  /// for a die.
  std::string task_text() const;
};

[[noreturn]] void die(std::string message);
[[noreturn]] void refuse_parameter(std::string name, std::string text);
[[noreturn]] void refuse_parameters(std::map<std::string, std::string> errors);
/// `Permission check failed (what)`, or without parentheses when there is nothing to say.
[[noreturn]] void deny(const std::string& what = "");

}  // namespace rocca::lab::pve
