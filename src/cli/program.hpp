#pragma once

#include "base/secret.hpp"

#include <map>
#include <stop_token>
#include <string>
#include <vector>

namespace rocca::cli {

/// Starts a program without a shell, with nothing on its standard input, and gives what it printed
/// on standard output. Throws NotFound when there is no such program, Rejected when it ends badly
/// (with its exit code and the last line of its standard error, never its standard output),
/// Interrupted when it was ended because of `stop`.
Secret run_program(const std::vector<std::string>& words,
                   const std::map<std::string, std::string>& environment,
                   std::stop_token stop = {});

}  // namespace rocca::cli
