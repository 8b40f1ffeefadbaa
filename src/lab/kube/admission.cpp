#include "lab/kube/server.hpp"

#include <fmt/format.h>

namespace rocca::lab::kube {

using text::Value;

void Server::check_namespace(const Resource& resource, const std::string& space, const Write& write,
                             const std::string& name) const {
  const Object found = storage_.find("/namespaces", {"", space});
  if (!found) {
    if (write.internal) return;
    throw not_found("", "namespaces", space);
  }
  if (found->find({"metadata", "deletionTimestamp"}) == nullptr) return;
  Failure failure = forbidden(
      resource.group, resource.plural, name,
      fmt::format("unable to create new content in namespace {} because it is being terminated",
                  space));
  Value cause = Value::map();
  cause.set("reason", str("NamespaceTerminating"));
  cause.set("message", str(fmt::format("namespace {} is being terminated", space)));
  cause.set("field", str("metadata.namespace"));
  failure.details.set("causes", Value::list({cause}));
  throw failure;
}

}  // namespace rocca::lab::kube
