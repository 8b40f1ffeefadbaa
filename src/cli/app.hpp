#pragma once

#include "cli/command.hpp"
#include "cli/context.hpp"

#include <string>
#include <vector>

namespace rocca::cli {

/// One run of rocca: reads the words after the program's name, runs the command, and turns an Error
/// into its text on `err` and its exit code. Nothing is thrown.
int run(const Catalog& catalog, Context& context, std::vector<std::string> words);

}  // namespace rocca::cli
