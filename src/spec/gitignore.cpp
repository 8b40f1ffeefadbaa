#include "spec/gitignore.hpp"

#include "base/files.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace rocca::spec {

namespace {

constexpr std::string_view heading =
    "# Access files, local state and temporary files: never in Git.\n";
constexpr std::array<std::string_view, 3> patterns = {"configs/", ".rocca/", ".*.rocca-tmp"};

/// Does a line of the user already say so? `/configs`, `configs/` and `*` all do, also taken back
/// (`!configs/`): that is the user's decision.
bool says(std::string_view line, std::string_view pattern) {
  if (line.starts_with('!')) line.remove_prefix(1);
  if (line == "*") return true;
  if (line.starts_with('/')) line.remove_prefix(1);
  if (line.ends_with('/')) line.remove_suffix(1);
  if (pattern.ends_with('/')) pattern.remove_suffix(1);
  return line == pattern;
}

}  // namespace

std::string gitignore_text() {
  return with_ignored("");
}

std::string with_ignored(std::string_view content) {
  const std::vector<std::string> lines = split(content, '\n');
  std::string missing;
  for (const std::string_view pattern : patterns)
    if (std::none_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return says(trim(line), pattern); }))
      missing += std::string{pattern} + "\n";
  std::string out{content};
  if (missing.empty()) return out;
  if (!out.empty() && !out.ends_with('\n')) out += '\n';
  return out + std::string{heading} + missing;
}

bool keep_out_of_git(Files& files, const std::string& folder) {
  const std::string path = folder + "/.gitignore";
  const std::string before = files.find(path).value_or("");
  const std::string after = with_ignored(before);
  if (after == before) return false;
  const auto status = files.status(path);
  files.write_private(path, after, status ? status->mode : 0644);
  return true;
}

}  // namespace rocca::spec
