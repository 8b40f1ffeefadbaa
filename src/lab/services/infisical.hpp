#pragma once

#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "net/server/server.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::text {
class Value;
}

namespace rocca::lab {

class World;

/// An Infisical: machine identities that log in by universal auth, projects with environments,
/// folders and secrets, the REST API of v4 (and the older v3/secrets/raw) with its texts and its
/// limits. Stricter than the real one: a parameter it does not know is refused.
class Infisical {
 public:
  enum class Role { Viewer, Member };  // reads; reads and writes

  struct Identity {
    std::string client_id;
    std::string client_secret;
    std::map<std::string, Role> roles{};  // by project id
    unsigned failures = 0;
    Instant last_failure{};
    std::optional<Instant> locked_until{};
  };

  struct Entry {
    std::string id;
    std::string value;
    std::string comment;
    unsigned version = 1;
    Instant created{};
    Instant updated{};
  };

  struct Folder {
    std::string id;
    std::map<std::string, Entry> secrets;
    std::vector<std::string> imports;  // paths of the same environment, the last one wins
    bool guarded = false;              // a change policy: writes become requests for approval
  };

  struct Project {
    std::string id;
    std::string slug;
    std::map<std::string, std::map<std::string, Folder>> environments;  // slug → path → folder
  };

  /// What happens to a request instead of, or on top of, its being served.
  struct Trouble {
    int status = 0;
    std::string message;  // none: what this status usually says
    std::optional<unsigned> retry_after;
    Duration delay{};
    bool cut = false;     // the connection ends before anything is done
    bool lose = false;    // it is done, and the answer never comes
    bool silent = false;  // nothing is done and nothing is ever said
  };

  /// Requests of one address in a minute, by the kind of call.
  struct Limits {
    unsigned reads = 60;
    unsigned writes = 200;
    unsigned secrets = 60;
  };

  explicit Infisical(World& world);
  ~Infisical();
  Infisical(const Infisical&) = delete;
  Infisical& operator=(const Infisical&) = delete;

  /// With an id and a secret made of the seed, as every id here.
  Identity& add_identity();
  Project& add_project(std::string slug, const std::vector<std::string>& environments);
  /// Makes the folder and those above it; "/" is always there.
  Folder& folder(Project& project, const std::string& environment, const std::string& path);
  void put(Project& project, const std::string& environment, const std::string& path,
           const std::string& key, std::string value);
  /// nullptr where there is none.
  const Entry* find(const Project& project, const std::string& environment, const std::string& path,
                    const std::string& key) const;
  /// Every token that was given out is revoked.
  void revoke_tokens();

  net::Handler handler();

  std::map<std::string, Identity> identities;  // by client id
  std::map<std::string, Project> projects;     // by id
  Limits limits;
  Duration token_lives = std::chrono::hours{2};
  std::function<std::optional<Trouble>(const net::Incoming& request)> trouble;

 private:
  class Call;
  struct Token {
    std::string client_id;
    Instant expires{};
    bool revoked = false;
  };
  struct Window {
    Instant began{};
    unsigned used = 0;
  };

  void serve(const net::Incoming& request, const std::shared_ptr<net::Responder>& responder);
  void spend(const std::string& kind, unsigned limit);
  std::string uuid();

  World& world_;
  SeededEntropy entropy_;
  std::map<std::string, Token> tokens_;
  std::map<std::string, Window> windows_;
  std::vector<std::shared_ptr<net::Responder>> held_;  // of clients that wait for ever
};

}  // namespace rocca::lab
