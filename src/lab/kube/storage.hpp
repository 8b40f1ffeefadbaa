#pragma once

#include "text/value.hpp"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::kube {

using Object = std::shared_ptr<const text::Value>;

struct ObjectKey {
  std::string space;  // namespace, empty in the cluster's scope
  std::string name;
  friend auto operator<=>(const ObjectKey&, const ObjectKey&) = default;
};

/// One write of the past, as watches see it.
struct Change {
  std::uint64_t revision = 0;
  std::string resource;  // Resource::key()
  ObjectKey key;
  Object before;  // null: it was made
  Object after;   // null: it is gone
  Object last;    // of a deletion: what watches are told
};

/// What etcd keeps for one cluster, as values. All control planes share one.
class Storage {
 public:
  Object find(std::string_view resource, const ObjectKey& key) const;
  using Objects = std::map<ObjectKey, Object>;
  const Objects& all(std::string_view resource) const;
  const std::map<std::string, Objects, std::less<>>& everything() const noexcept {
    return objects_;
  }
  /// As it was at a revision that is not compacted.
  Objects at(std::string_view resource, std::uint64_t revision) const;

  /// Stores it under a new revision, which is written into it; returns what was stored.
  Object put(std::string_view resource, const ObjectKey& key, text::Value value);
  /// Watches are told the last stored state under the deletion's revision.
  void remove(std::string_view resource, const ObjectKey& key);

  std::uint64_t revision() const noexcept { return revision_; }
  /// Changes up to here are forgotten.
  std::uint64_t compacted() const noexcept { return compacted_; }
  void compact(std::uint64_t revision);
  /// A revision that nobody sees, as writes of others make them.
  void skip(std::uint64_t count = 1) { revision_ += count; }
  const std::deque<Change>& history() const noexcept { return history_; }

  /// Called after each change, in the order of registration.
  void on_change(std::function<void(const Change&)> then) { observers_.push_back(std::move(then)); }

 private:
  void tell(Change change);

  std::map<std::string, Objects, std::less<>> objects_;
  std::uint64_t revision_ = 1;
  std::uint64_t compacted_ = 0;
  std::deque<Change> history_;
  std::vector<std::function<void(const Change&)>> observers_;
};

}  // namespace rocca::lab::kube
