#pragma once

#include <csignal>
#include <string>
#include <vector>

namespace rocca::cli {

/// While it lives, Ctrl-C, Ctrl-\, SIGTERM and SIGHUP (a closed terminal) do not end the process,
/// so that what must not stay behind can be wiped first; a read that waits is woken. The one that
/// came is raised again by the destructor: make it before what it protects. One at a time.
class HeldSignals {
 public:
  HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals();

  int caught() const noexcept;  // 0: none
  /// What a terminal sends to everybody in front of it was meant for the program that ran there.
  void forget_keys() noexcept;

 private:
  struct sigaction before_[4]{};
};

/// Runs a program (found in PATH, no shell) on our own terminal and waits for it; its exit code.
/// Ctrl-C is the program's while it runs; SIGTERM and SIGHUP are handed on to it. NotFound when
/// there is no such program.
int run_on_terminal(const std::vector<std::string>& words, HeldSignals& signals);

}  // namespace rocca::cli
