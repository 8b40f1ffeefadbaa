#pragma once

#include "base/clock.hpp"
#include "base/secret.hpp"

#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

namespace rocca::cli {

/// Starts a program without a shell, with nothing on its standard input, and gives what it printed
/// on standard output. Throws NotFound when there is no such program, Rejected when it ends badly
/// (with its exit code and the last line of its standard error, never its standard output),
/// Interrupted when it was ended because of `stop`, Timeout when it was ended because of
/// `patience`.
struct Patience {
  Duration limit = std::chrono::seconds{60};
  Duration tell_after = std::chrono::seconds{2};
  std::function<void(const std::string& program)> tell = {};  // once, that it is waited for
};
Secret run_program(const std::vector<std::string>& words,
                   const std::map<std::string, std::string>& environment, std::stop_token stop = {},
                   const Patience& patience = {});

}  // namespace rocca::cli
