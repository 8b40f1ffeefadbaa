#pragma once

#include <string>
#include <vector>

namespace rocca::cli {

/// Runs a program (found in PATH, no shell) on our own terminal and waits for it; its exit code.
/// Ctrl-C is the program's while it runs. NotFound when there is no such program.
int run_on_terminal(const std::vector<std::string>& words);

}  // namespace rocca::cli
