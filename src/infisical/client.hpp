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
};

/// Where in a project secrets lie.
struct Place {
  std::string project;  // its id
  std::string environment;
  std::string path = "/";
};

/// Infisical's REST API as far as secrets and folders go: no policy, no retries. Logs in at the
/// first call and again when its token has expired. Failures are told apart by Fault: Denied (401,
/// 403), NotFound (404), Busy (429), Rejected (what it refused, and every approval that somebody
/// else must give), Unreachable, Lost.
class Client {
 public:
  Client(net::Transport& transport, const Clock& clock, Access access, std::stop_token stop = {});

  /// The id of the project with this slug.
  std::string project_id(const std::string& slug);
  /// One whole folder in one answer: name → value.
  std::map<std::string, Secret> secrets(const Place& place);
  std::optional<Secret> find_secret(const Place& place, const std::string& name);
  /// Writes all of them in one call, new and old alike; makes the folder if it is not there.
  void write(const Place& place, const std::map<std::string, Secret>& values);
  bool erase(const Place& place, const std::string& name);  // false: was not there

 private:
  struct Reply {
    int status = 0;
    std::string body;
    std::string message;  // the error's text
    std::string error;    // its name
  };

  void log_in();
  Reply send(const std::string& method, const std::string& path, const std::string& query,
             const std::string& json, bool with_token);
  Reply ask(const std::string& method, const std::string& path, const std::string& query = "",
            const std::string& json = "");
  [[noreturn]] void fail(const Reply& reply, const std::string& doing) const;
  void make_folder(const Place& place);

  net::Transport& transport_;
  const Clock& clock_;
  Access access_;
  std::stop_token stop_;
  std::optional<Secret> token_;
  Tick token_expires_;
};

}  // namespace rocca::infisical
