#include "spec/locate.hpp"

namespace rocca::spec {

std::vector<std::string> find_specs(Files& files, const std::string& folder, std::size_t depth) {
  std::vector<std::string> found;
  const std::string before = folder.empty() ? "" : folder + "/";
  for (const std::string& name : files.list(folder)) {
    if (name.starts_with('.') || name == "configs") continue;
    const auto status = files.status(before + name);
    if (!status) continue;
    if (!status->folder) {
      if (name == spec_file_name) found.push_back(before + name);
    } else if (depth > 0) {
      for (std::string& path : find_specs(files, before + name, depth - 1))
        found.push_back(std::move(path));
    }
  }
  return found;
}

}  // namespace rocca::spec
