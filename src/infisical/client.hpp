#pragma once

#include "base/clock.hpp"
#include "base/secret.hpp"
#include "net/transport.hpp"

#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace rocca::infisical {

/// A machine identity of an Infisical project.
struct Access {
  std::string host;  // https://eu.infisical.com
  std::string client_id;
  Secret client_secret;
  net::Tls tls;
  bool plain_http = false;  // the identity and the secrets may cross a network in clear
};

/// Where in a project secrets lie.
struct Place {
  std::string project;  // its id
  std::string environment;
  std::string path = "/";
};

/// What Infisical keeps of a value: blanks and line breaks around it are taken away, but for one
/// line break at its end. Who compares what is there with what was written compares with this.
std::string kept_form(std::string_view value);

/// Infisical's REST API as far as secrets and folders go: no policy, no retries. Logs in at the
/// first call, and again when its token has expired or was revoked. Failures are told apart by
/// Fault: Denied (401, 403), NotFound (404), Busy (429), Rejected (what it refused, and every
/// approval that somebody else must give), Unreachable, Lost. Each names the host and the place.
class Client {
 public:
  Client(net::Transport& transport, const Clock& clock, Access access, std::stop_token stop = {});

  /// The id of the project with this slug.
  std::string project_id(const std::string& slug);
  /// One whole folder in one answer: name → value.
  std::map<std::string, Secret> secrets(const Place& place);
  std::optional<Secret> find_secret(const Place& place, const std::string& name);
  /// Writes all of them in one call, new and old alike; makes the folder if it is not there. What
  /// is kept is kept_form() of each.
  void write(const Place& place, const std::map<std::string, Secret>& values);
  bool erase(const Place& place, const std::string& name);  // false: was not there

  /// The names of the folders right below the place.
  std::vector<std::string> folders(const Place& place);
  /// Makes the folder of the place and those above it; false: it was there.
  bool make_folder(const Place& place);
  /// Takes the folder away; false: it was not there. One that is not empty is refused.
  bool erase_folder(const Place& place);

 private:
  struct Reply {
    int status = 0;
    std::string body;
    std::string message;  // the error's text
    std::string error;    // its name
    std::string retry_after;
  };

  void log_in();
  Reply send(const std::string& method, const std::string& path, const std::string& query,
             const std::string& json, bool with_token);
  Reply ask(const std::string& method, const std::string& path, const std::string& query = "",
            const std::string& json = "");
  [[noreturn]] void fail(const Reply& reply, const std::string& doing) const;
  static void require_done(const Reply& reply, const std::string& doing);

  net::Transport& transport_;
  const Clock& clock_;
  Access access_;
  std::stop_token stop_;
  std::optional<Secret> token_;
  Tick token_expires_;
};

}  // namespace rocca::infisical
