#pragma once

#include "net/server/server.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rocca::lab {

/// github.com and raw.githubusercontent.com, as far as the projects go whose releases a cluster is
/// made of: Flux, metrics-server, the approver of kubelets' certificates, Proxmox's cloud
/// controller manager and its CSI plugin. Each release is cut to what others look at: definitions,
/// accounts, workloads, Services.
class Releases {
 public:
  net::Handler handler();

  /// What is served instead, by `host/path`; an answer of its own for whatever a test is about.
  std::map<std::string, std::string> files;
  /// Every request, as `host/path`.
  std::vector<std::string> asked;
};

/// The text of a release's manifest by its address without scheme; nothing: there is no such one.
std::optional<std::string> release_text(const std::string& place);

}  // namespace rocca::lab
