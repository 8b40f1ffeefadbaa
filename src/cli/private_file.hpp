#pragma once

#include "base/secret.hpp"

#include <map>
#include <string>
#include <string_view>

namespace rocca::cli {

/// A file in clear for an editor: in memory (a tmpfs, never a disk), in a folder of its own that
/// nobody else may enter, overwritten and removed when this dies together with what the editor left
/// beside it. Error(Refused) where there is no such place.
class PrivateFile {
 public:
  PrivateFile(const std::map<std::string, std::string>& environment, const std::string& name,
              std::string_view content);
  PrivateFile(const PrivateFile&) = delete;
  PrivateFile& operator=(const PrivateFile&) = delete;
  ~PrivateFile();

  const std::string& path() const noexcept { return path_; }
  Secret read() const;

 private:
  std::string folder_;
  std::string path_;
};

}  // namespace rocca::cli
