#include "lab/flux/folder_git.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace rocca::lab::flux {

namespace fs = std::filesystem;

GitAnswer FolderGit::clone(const GitAsk& ask) {
  if (!ask.url.starts_with(server)) return program_.clone(ask);
  const auto failed = [&](const char* why) {
    return GitAnswer{std::nullopt, fmt::format("unable to clone '{}': {}", ask.url, why)};
  };
  std::string name = ask.url.substr(std::string_view(server).size());
  if (name.ends_with(".git")) name.resize(name.size() - 4);
  const auto missing = [&] { return failed("repository not found: Repository not found"); };
  if (folder_.empty() || name.empty() || name.find("..") != std::string::npos) return missing();
  std::ifstream token(fs::path(folder_) / "token", std::ios::binary);
  if (token) {
    const std::string wanted{std::istreambuf_iterator<char>(token),
                             std::istreambuf_iterator<char>()};
    if (ask.password != trim(wanted)) return failed("authentication required: Unauthorized");
  }
  std::error_code ignored;
  fs::path place = fs::path(folder_) / name;
  if (!fs::is_directory(place, ignored)) place += ".git";
  if (!fs::is_directory(place, ignored)) return missing();
  GitAsk below = ask;
  below.url = "file://" + place.string();
  below.username.clear();
  below.password.clear();
  GitAnswer answer = program_.clone(below);
  answer.error = replace_all(answer.error, below.url, ask.url);
  return answer;
}

}  // namespace rocca::lab::flux
