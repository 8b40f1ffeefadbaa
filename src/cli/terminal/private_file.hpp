#pragma once

#include "base/secret.hpp"

#include <sys/types.h>

#include <map>
#include <string>
#include <string_view>

namespace rocca::cli {

/// A file in clear for an editor: in memory (a tmpfs, never a disk), in a folder of its own that
/// only its owner may enter. It is overwritten and removed, together with what the editor left
/// beside it, when this object dies and also when the process is killed (SIGKILL): a second process
/// in a session of its own waits for that. Error(Refused) where there is no such place.
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
  bool make_folder(const std::string& place);
  void start_guard();
  void remove() noexcept;

  std::string folder_;
  std::string path_;
  int folder_descriptor_ = -1;  // locked as long as this process or its guard lives
  int line_ = -1;               // to the guard: that it ends is what the guard waits for
  pid_t guard_ = -1;
};

/// Removes the folders of private files whose process and guard were both killed. One that is in
/// use is locked, and stays.
void remove_stale_private_files(const std::map<std::string, std::string>& environment) noexcept;

}  // namespace rocca::cli
