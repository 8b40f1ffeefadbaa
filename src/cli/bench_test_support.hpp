#pragma once

#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "base/files.hpp"
#include "cli/context.hpp"

#include <sstream>
#include <string>

namespace rocca::cli {

/// A run of rocca without a process around it.
struct Bench {
  MemoryFiles files;
  VirtualClock clock;
  SeededEntropy entropy{1};
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  Context context{.files = files,
                  .clock = clock,
                  .entropy = entropy,
                  .transport = {},
                  .environment = {},
                  .folder = "/home/me/fleet/deep/er",
                  .in = in,
                  .out = out,
                  .err = err,
                  .terminal = {}};

  void type(const std::string& text) {
    in.str(text);
    context.terminal.in = context.terminal.err = true;
  }
  void add(const std::string& path) {
    files.make_folder(path.substr(0, path.find_last_of('/')), 0755);
    files.write(path, "x", 0644);
  }
};

}  // namespace rocca::cli
