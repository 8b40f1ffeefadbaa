#pragma once

#include "base/clock.hpp"
#include "lab/talos/grpc.hpp"

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace rocca::lab::talos {

/// The type that tells a node's stage; it is always up to date.
inline const std::string machine_status = "MachineStatuses.runtime.talos.dev";

/// One resource of a node's COSI state. Both forms of the spec are kept, as the server sends both.
struct Resource {
  std::string space, type, id;
  std::string owner;
  std::string proto, yaml;
  unsigned version = 1;
  Instant created{}, updated{};
  std::map<std::string, std::string> labels;
};

/// A kind of resource: who may read it and how talosctl finds it.
struct ResourceKind {
  std::string type;
  std::string space;
  bool sensitive = false;
  std::vector<std::pair<std::string, std::string>> columns{};
};
const std::vector<ResourceKind>& resource_kinds();

/// The state of a node as resources: what was set stays until it is set again or removed, versions
/// count changes, watchers hear them, and the last events of each kind can be replayed.
class ResourceStore {
 public:
  explicit ResourceStore(World& world) : world_(world) {}

  /// Nothing happens when it is the same already.
  void set(const std::string& space, const std::string& type, const std::string& id,
           const std::string& owner, std::string proto, std::string yaml);
  void remove(const std::string& space, const std::string& type, const std::string& id);
  void clear();
  const Resource* find(const std::string& space, const std::string& type,
                       const std::string& id) const;

  /// Does anybody wait for changes of anything but this type?
  bool watched_besides(std::string_view type) const noexcept;

  /// Serves cosi.resource.State; `options_required`: releases that crash on a Watch without.
  Routine<void> serve(std::shared_ptr<Call> call, bool options_required);

 private:
  struct Event {
    enum Type {
      Created = 0,
      Updated = 1,
      Destroyed = 2,
      Bootstrapped = 3,
      Noop = 5
    } type = Created;
    Resource resource;
    std::optional<Resource> old;
    std::uint64_t number = 0;
  };
  struct Kind {
    std::map<std::string, Resource> resources;
    std::deque<Event> events;
    Signal changed;
  };
  using Key = std::pair<std::string, std::string>;  // namespace, type
  /// Compares with pairs of views, so that a look copies nothing.
  struct ByName {
    using is_transparent = void;
    using Names = std::pair<std::string_view, std::string_view>;
    static Names names(const Key& key) { return {key.first, key.second}; }
    static Names names(const Names& key) { return key; }
    bool operator()(const auto& a, const auto& b) const { return names(a) < names(b); }
  };
  Kind& kind(const std::string& space, const std::string& type);
  void record(Kind& kind, Event event);
  std::string encode(const Event& event, bool bookmark) const;
  Routine<void> watch(std::shared_ptr<Call> call, bool options_required);

  World& world_;
  std::map<Key, Kind, ByName> kinds_;
  std::uint64_t number_ = 0;
  std::multiset<std::string, std::less<>> watched_;  // the type of each that is watched
};

/// A string as go-yaml writes it: plain where it can be, quoted where it must be.
std::string yaml_string(const std::string& text);

}  // namespace rocca::lab::talos
