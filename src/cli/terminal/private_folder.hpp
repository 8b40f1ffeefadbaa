#pragma once

#include "base/files.hpp"
#include "base/secret.hpp"

#include <string>
#include <utility>
#include <vector>

namespace rocca::cli {

/// Files in clear, for their owner alone, by their names below the folder (`nodes/cp-1.yaml`). The
/// folder appears with one rename and with a `.gitignore` that keeps all of it out of Git; it is
/// made beside its place, as `.NAME.exporting`. An error takes it back; what a power cut left there
/// goes first. Error(Conflict) if something is there that is not an empty folder.
void write_private_folder(Files& files, std::string path,
                          const std::vector<std::pair<std::string, Secret>>& contents);

}  // namespace rocca::cli
