#pragma once

#include "kube/client.hpp"
#include "kube/object.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rocca::kube {

/// A kind as the server serves it.
struct Kind {
  std::string group;
  std::string version;
  std::string kind;
  std::string plural;
  bool namespaced = false;
  std::vector<std::string> verbs{};

  std::string api_version() const { return group.empty() ? version : group + "/" + version; }

  friend bool operator==(const Kind&, const Kind&) = default;
};

/// Which paths kinds have. The stable kinds of every Kubernetes are known by heart; others are
/// asked for by their group and version, once, and again when one is not there: a CRD may have come
/// since.
class Discovery {
 public:
  explicit Discovery(Client& client) : client_(client) {}

  /// Nothing: it is not served (yet).
  std::optional<Kind> find(const std::string& api_version, const std::string& kind);
  /// Everything that can be listed and deleted, in one or two requests.
  std::vector<Kind> all();

  /// Where an object is. A namespaced one that names no namespace is in `default_space`. Nothing:
  /// its kind is not served (yet).
  std::optional<std::string> find_path(const Name& name,
                                       const std::string& default_space = "default");

 private:
  std::vector<Kind> ask(const std::string& api_version);

  Client& client_;
  std::map<std::string, std::vector<Kind>> known_;  // by group and version
};

/// The kinds of an APIResourceList; subresources are left out.
std::vector<Kind> kinds_of_list(const Value& list);
/// The kinds of an aggregated discovery document.
std::vector<Kind> kinds_of_groups(const Value& groups);

/// A kind that every server of the last years has, in its stable version.
std::optional<Kind> stable_kind(std::string_view api_version, std::string_view kind);

}  // namespace rocca::kube
