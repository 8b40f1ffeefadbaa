#pragma once

#include "base/files.hpp"
#include "base/secret.hpp"
#include "net/tls.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::kube {

/// Where an API server is, and who we are there.
struct Access {
  std::string server;  // https://10.0.0.20:6443, without a slash at the end
  net::Tls tls;
  std::optional<Secret> authorization;  // "Bearer …" or "Basic …"
  std::string token_file;               // read again for each request: such tokens are rotated
  std::string space = "default";        // the context's namespace
  std::string impersonate;              // user
  std::vector<std::string> impersonate_groups;
};

/// Reads a kubeconfig: the context of that name, or the current one. Files that it names are read
/// relative to its own folder. Throws Error(Usage) `name:line:column: …`; what needs a program or a
/// plugin to log in (`exec`, `auth-provider`) is refused by name.
Access parse_kubeconfig(std::string_view text, const std::string& name, Files& files,
                        const std::string& context = "");
Access load_kubeconfig(Files& files, const std::string& path, const std::string& context = "");

/// As a Pod: the service account's token and CA, the server from the environment. Nothing if this
/// is no Pod.
std::optional<Access> in_cluster(
    Files& files, const std::function<std::optional<std::string>(const std::string&)>& variable);

}  // namespace rocca::kube
