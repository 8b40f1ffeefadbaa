#pragma once

#include "kube/client.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::kube {

struct WatchEvent {
  enum class Type { Added, Modified, Deleted, Bookmark };
  Type type = Type::Added;
  Value object;  // a Bookmark's has its resourceVersion only
};

/// Takes a watch's bytes apart, as they come. Pure.
class WatchLines {
 public:
  /// The events that are whole by now. After an error nothing more comes.
  std::vector<WatchEvent> take(std::string_view bytes);
  /// What the server said instead of an event: too old, or in trouble.
  const std::optional<Failure>& failure() const { return failure_; }

 private:
  std::string rest_;
  std::optional<Failure> failure_;
};

/// A collection as it is and as it changes. The caller decides when to ask again: nobody waits here
/// but for bytes.
///   list(), then follow() until it says TooOld, then list() again…
class Watch {
 public:
  /// `query`: selectors.
  Watch(Client& client, std::string path, Query query = {})
      : client_(client), path_(std::move(path)), query_(std::move(query)) {}

  /// All that is there now; follow() goes on from here.
  std::vector<Value> list();

  enum class End {
    Closed,  ///< in time, or cut: follow() again goes on from the last event
    Enough,  ///< the caller said so
    TooOld,  ///< what lies between is forgotten: list() again
    Trouble  ///< the server is not well: list() again, later
  };
  /// Hands over what happens until `on` gives false or the server ends it after `at_most`.
  End follow(const std::function<bool(const WatchEvent&)>& on, Duration at_most);

  /// Up to where we have seen everything; empty before the first list().
  const std::string& resource_version() const { return version_; }

 private:
  Client& client_;
  std::string path_;
  Query query_;
  std::string version_;
};

}  // namespace rocca::kube
