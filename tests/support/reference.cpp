#include "support/reference.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace rocca::test {

namespace fs = std::filesystem;

namespace {

std::size_t cases_run = 0;
std::vector<std::string> missing;

/// Where to look, the strongest first.
std::vector<fs::path> roots() {
  return {fs::path(shared_folder()) / "vectors",
          fs::path(ROCCA_SOURCE_DIR) / "tests" / "reference"};
}

}  // namespace

std::string shared_folder() {
  const char* named = std::getenv("ROCCA_SHARED");
  return named != nullptr && *named != '\0' ? named : ROCCA_SHARED_DEFAULT;
}

std::string reference_path(std::string_view name) {
  for (const fs::path& root : roots())
    if (const fs::path path = root / name; fs::exists(path)) return path.string();
  return (roots().front() / name).string();
}

std::vector<std::string> reference_files(std::string_view folder, std::string_view ending) {
  std::map<std::string, std::string> found;  // name below the folder → path
  bool exists = false;
  for (const fs::path& root : roots()) {
    const fs::path top = root / folder;
    if (!fs::is_directory(top)) continue;
    exists = true;
    for (const auto& entry : fs::recursive_directory_iterator(top)) {
      const std::string path = entry.path().string();
      if (entry.is_regular_file() && entry.path().filename() != "README.md" &&
          path.ends_with(ending))
        found.emplace(entry.path().lexically_relative(top).string(), path);
    }
  }
  if (!exists) missing.emplace_back(folder);
  std::vector<std::string> files;
  for (auto& [name, path] : found) files.push_back(std::move(path));
  return files;
}

std::optional<std::string> find_shared(std::string_view name) {
  const fs::path path = fs::path(shared_folder()) / name;
  if (fs::exists(path)) return path.string();
  missing.emplace_back(name);
  return std::nullopt;
}

const std::vector<std::string>& reference_missing() {
  return missing;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(Fault::NotFound, path + " cannot be read");
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

void count_case(std::size_t cases) {
  cases_run += cases;
}
std::size_t counted_cases() {
  return cases_run;
}

}  // namespace rocca::test
