#pragma once

#include "lab/kube/server.hpp"

namespace rocca::lab::kube {

/// One open watch.
struct Server::Watch {
  std::shared_ptr<net::Responder> to;
  Call call;  // for the form of the answer
  std::string resource;
  std::string space;
  LabelSelector labels;
  FieldSelector fields;
  std::uint64_t from = 0;
  bool bookmarks = false;
  Instant deadline{};
  World::Timer ends = 0;
  World::Timer marks = 0;

  bool wants(const ObjectKey& key, const text::Value& object) const {
    return (space.empty() || key.space == space) && labels.matches(object) &&
           fields.matches(object);
  }
};

}  // namespace rocca::lab::kube
