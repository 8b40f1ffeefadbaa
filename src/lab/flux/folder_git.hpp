#pragma once

#include "lab/flux/git.hpp"

#include <string>

namespace rocca::lab::flux {

/// A Git server of the simulated home: the repository NAME below a folder of this machine is
/// https://git.home/NAME. Where a file `token` stands beside them, only those may read who show
/// what is in it as their password. Any other address is asked as it is.
class FolderGit final : public Git {
 public:
  static constexpr const char* server = "https://git.home/";

  /// Empty: it has no repository.
  explicit FolderGit(std::string folder) : folder_(std::move(folder)) {}
  GitAnswer clone(const GitAsk& ask) override;

 private:
  std::string folder_;
  ProgramGit program_;
};

}  // namespace rocca::lab::flux
