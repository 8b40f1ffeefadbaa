#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/flux/git.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern char** environ;

namespace rocca::lab::flux {

namespace {

namespace fs = std::filesystem;

struct Ran {
  int code = -1;
  std::string out, errors;
};

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Its output goes through files of `folder`: nothing can fill a pipe that nobody reads.
Ran run(const fs::path& folder, std::vector<std::string> words) {
  const std::string out = folder / "out", errors = folder / "errors";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), flags, 0600);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // Nothing of the user's own settings, and never a question.
  std::vector<std::string> settings{"GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1",
                                    "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C",
                                    fmt::format("HOME={}", folder.string())};
  for (char** each = environ; *each != nullptr; ++each)
    if (std::string_view(*each).starts_with("PATH=")) settings.emplace_back(*each);
  std::vector<char*> environment;
  for (std::string& setting : settings) environment.push_back(setting.data());
  environment.push_back(nullptr);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return {-1, "", "the program git cannot be started"};
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(errors)};
}

/// What git says, as source-controller would.
std::string worded(const std::string& errors, const GitAsk& ask, const std::string& reference) {
  const auto has = [&](std::string_view part) { return errors.find(part) != std::string::npos; };
  const std::string refs = ask.url + "/info/refs?service=git-upload-pack";
  if (has("could not read Username") || has("Authentication failed") || has("error: 401"))
    return "authentication required: Unauthorized";
  if (has("error: 403")) return "authorization failed: forbidden";
  if (has("couldn't find remote ref") || has("Remote branch"))
    return fmt::format("couldn't find remote ref \"{}\"", reference);
  if (has("not found") || has("does not appear to be a git repository") || has("does not exist"))
    return "repository not found: Repository not found";
  if (has("refused") || has("Could not connect") || has("Failed to connect"))
    return fmt::format("Get \"{}\": dial tcp: connect: connection refused", refs);
  if (has("Could not resolve host")) return fmt::format("Get \"{}\": no such host", refs);
  return std::string(trim(errors));
}

}  // namespace

GitAnswer ProgramGit::clone(const GitAsk& ask) {
  std::error_code ignored;
  std::string pattern = (fs::temp_directory_path() / "rocca-lab-git-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) return {std::nullopt, "there is no room for a clone"};
  const fs::path folder = pattern;
  const auto answer = [&]() -> GitAnswer {
    const auto failed = [&](const std::string& why) {
      return GitAnswer{std::nullopt, fmt::format("unable to clone '{}': {}", ask.url, why)};
    };
    std::string reference = "refs/heads/" + (ask.branch.empty() ? "master" : ask.branch);
    std::string shown = ask.branch.empty() ? "master" : ask.branch;
    if (!ask.tag.empty()) {
      reference = "refs/tags/" + ask.tag;
      shown = ask.tag;
    }
    if (!ask.name.empty()) shown = reference = ask.name;
    if (!ask.commit.empty()) reference = ask.commit;
    if (!ask.semver.empty()) return failed("the lab does not choose tags by semver");
    if (ask.url.starts_with("ssh://") || ask.url.find("://") == std::string::npos)
      return failed("the lab only clones by http, https and file");
    const std::string tree = folder / "tree";
    if (Ran made = run(folder, {"git", "init", "--quiet", tree}); made.code != 0)
      return failed(made.errors);
    std::vector<std::string> fetch{"git", "-C", tree};
    if (!ask.password.empty()) {
      fetch.emplace_back("-c");
      fetch.push_back("http.extraHeader=Authorization: Basic " +
                      to_base64(ask.username + ":" + ask.password));
    }
    for (std::string word : {"-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=20", "fetch",
                             "--quiet", "--depth=1"})
      fetch.push_back(std::move(word));
    fetch.push_back(ask.url);
    fetch.push_back(reference);
    if (Ran made = run(folder, fetch); made.code != 0)
      return failed(worded(made.errors, ask, reference));
    if (Ran made = run(folder, {"git", "-C", tree, "checkout", "--quiet", "FETCH_HEAD"});
        made.code != 0)
      return failed(std::string(trim(made.errors)));
    const Ran head = run(folder, {"git", "-C", tree, "log", "-1", "--format=%H%n%s"});
    const std::vector<std::string> lines = split(head.out, '\n');
    if (lines.size() < 2) return failed("it has no commit");
    GitTree out;
    out.commit = lines[0];
    out.subject = lines[1];
    out.revision = fmt::format("{}@sha1:{}", shown, out.commit);
    for (const auto& entry : fs::recursive_directory_iterator(tree)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = fs::relative(entry.path(), tree).generic_string();
      // What source-controller leaves out of its artifacts, too.
      if (name.starts_with(".git/") || name == ".gitignore" ||
          entry.path().filename() == ".sops.yaml" || name.starts_with(".github/"))
        continue;
      out.files[name] = read_file(entry.path());
    }
    return {std::move(out), ""};
  }();
  fs::remove_all(folder, ignored);
  return answer;
}

}  // namespace rocca::lab::flux
