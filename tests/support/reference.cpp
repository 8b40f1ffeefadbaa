#include "support/reference.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace rocca::test {

namespace {
std::size_t cases_run = 0;
}

std::string shared_folder() {
  const char* named = std::getenv("ROCCA_SHARED");
  return named != nullptr && *named != '\0' ? named : ROCCA_SHARED_DEFAULT;
}

std::vector<std::string> reference_files(std::string_view folder, std::string_view ending) {
  std::vector<std::string> files;
  const std::filesystem::path root = std::filesystem::path(shared_folder()) / std::string(folder);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string path = entry.path().string();
    if (entry.is_regular_file() && entry.path().filename() != "README.md" && path.ends_with(ending))
      files.push_back(path);
  }
  std::sort(files.begin(), files.end());
  return files;
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
