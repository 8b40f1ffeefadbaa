#pragma once

#include "base/clock.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace rocca::lab::flux {

/// What a GitRepository asks its server for. Of the references the first that is set counts:
/// commit, name, semver, tag, branch.
struct GitAsk {
  std::string url;
  std::string branch, tag, semver, name, commit;
  std::string username, password;
  Duration timeout = std::chrono::seconds{60};
};

/// What is checked out.
struct GitTree {
  std::string revision;  // main@sha1:…
  std::string commit;
  std::string subject;  // of the commit
  std::map<std::string, std::string> files;
};

struct GitAnswer {
  std::optional<GitTree> tree;
  std::string error;  // why there is none, as source-controller words it
};

/// The door to Git.
class Git {
 public:
  virtual ~Git() = default;
  virtual GitAnswer clone(const GitAsk& ask) = 0;
  /// Says by itself when something was pushed (see on_push), so that nobody has to ask again.
  virtual bool tells() const { return false; }
  std::function<void()> on_push;
};

/// Repositories that are only in memory.
class MemoryGit final : public Git {
 public:
  struct Commit {
    std::string hash, subject;
    std::map<std::string, std::string> files;
  };
  struct Repository {
    std::map<std::string, Commit> branches, tags;
    std::string username, password;  // where a user is set, nobody else may read
    int status = 200;                // what the server answers instead, if it is not 200
  };
  std::map<std::string, Repository> repositories;  // by URL
  std::map<std::string, std::string> troubles;     // by URL: what no answer sounds like

  /// A new commit; its hash.
  std::string push(const std::string& url, const std::string& branch, const std::string& subject,
                   std::map<std::string, std::string> files);
  GitAnswer clone(const GitAsk& ask) override;
  bool tells() const override { return true; }
};

/// Asks the `git` program for http, https and file URLs, with a folder of its own that goes when it
/// has answered. Its failures are told in the words of source-controller.
class ProgramGit final : public Git {
 public:
  GitAnswer clone(const GitAsk& ask) override;
};

}  // namespace rocca::lab::flux
