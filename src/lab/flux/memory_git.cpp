#include "base/encoding.hpp"
#include "base/version.hpp"
#include "lab/flux/git.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

namespace rocca::lab::flux {

namespace {

std::string sha1(const std::string& text) {
  std::array<unsigned char, 20> digest{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr);
  return to_hex(std::string(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

/// `>=1.0.0`, `1.x`, `*`: only the lowest version that will do is looked at.
bool fits(const std::string& range, const std::string& tag) {
  const auto version = Version::parse(tag);
  if (!version) return false;
  std::string least = range;
  while (!least.empty() && (least.front() < '0' || least.front() > '9')) least.erase(0, 1);
  const auto wanted = Version::parse(least);
  return !wanted || !(*version < *wanted);
}

}  // namespace

std::string MemoryGit::push(const std::string& url, const std::string& branch,
                            const std::string& subject, std::map<std::string, std::string> files) {
  std::string all = url + "\n" + branch + "\n" + subject;
  for (const auto& [name, text] : files) all += fmt::format("\n{} {}", name, text);
  Commit commit{sha1(all), subject, std::move(files)};
  std::string hash = commit.hash;
  repositories[url].branches[branch] = std::move(commit);
  if (on_push) on_push();
  return hash;
}

GitAnswer MemoryGit::clone(const GitAsk& ask) {
  const auto failed = [&](const std::string& why) {
    return GitAnswer{std::nullopt, fmt::format("unable to clone '{}': {}", ask.url, why)};
  };
  const std::string refs = ask.url + "/info/refs?service=git-upload-pack";
  if (const auto trouble = troubles.find(ask.url); trouble != troubles.end())
    return failed(ask.url.starts_with("ssh://")
                      ? trouble->second
                      : fmt::format("Get \"{}\": {}", refs, trouble->second));
  const auto found = repositories.find(ask.url);
  if (found == repositories.end()) return failed("repository not found: Repository not found");
  const Repository& repository = found->second;
  if (repository.status == 401 ||
      (!repository.username.empty() &&
       (ask.username != repository.username || ask.password != repository.password)))
    return failed(ask.url.starts_with("ssh://")
                      ? "ssh: handshake failed: ssh: unable to authenticate, attempted methods "
                        "[none publickey], no supported methods remain"
                      : "authentication required: Unauthorized");
  if (repository.status == 403) return failed("authorization failed: forbidden");
  if (repository.status != 200)
    return failed(
        fmt::format("unexpected client error: unexpected requesting \"{}\" status code: "
                    "{}",
                    refs, repository.status));
  const auto taken = [](const Commit& commit, const std::string& name) {
    return GitAnswer{GitTree{fmt::format("{}@sha1:{}", name, commit.hash), commit.hash,
                             commit.subject, commit.files},
                     ""};
  };
  if (repository.branches.empty())
    return {std::nullopt, fmt::format("unable to clone '{}': remote repository is empty", ask.url)};
  if (!ask.commit.empty()) {
    for (const auto& [name, commit] : repository.branches)
      if (commit.hash == ask.commit) return taken(commit, ask.branch.empty() ? name : ask.branch);
    return {std::nullopt,
            fmt::format("unable to resolve commit object for '{}': object not found", ask.commit)};
  }
  std::string kind = "heads", name = ask.branch.empty() ? "master" : ask.branch;
  std::string shown = name;
  if (!ask.name.empty()) {
    shown = ask.name;
    kind = ask.name.starts_with("refs/tags/") ? "tags" : "heads";
    name = ask.name.substr(ask.name.rfind('/') + 1);
  } else if (!ask.semver.empty()) {
    const Commit* best = nullptr;
    for (const auto& [tag, commit] : repository.tags)
      if (fits(ask.semver, tag)) {
        best = &commit;
        shown = tag;
      }
    if (best != nullptr) return taken(*best, shown);
    return {std::nullopt, fmt::format("no match found for semver: {}", ask.semver)};
  } else if (!ask.tag.empty()) {
    kind = "tags";
    shown = name = ask.tag;
  }
  const auto& all = kind == "tags" ? repository.tags : repository.branches;
  const auto commit = all.find(name);
  if (commit == all.end())
    return failed(fmt::format("couldn't find remote ref \"refs/{}/{}\"", kind, name));
  return taken(commit->second, shown);
}

}  // namespace rocca::lab::flux
