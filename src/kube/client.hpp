#pragma once

#include "base/files.hpp"
#include "kube/failure.hpp"
#include "kube/kubeconfig.hpp"
#include "net/transport.hpp"
#include "text/value.hpp"

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace rocca::kube {

using text::Value;
using Query = std::vector<std::pair<std::string, std::string>>;

/// A resource as its paths name it.
struct Resource {
  std::string_view group;  // "" is the core group
  std::string_view version;
  std::string_view plural;
};

inline constexpr Resource nodes{"", "v1", "nodes"};
inline constexpr Resource secrets{"", "v1", "secrets"};
inline constexpr Resource leases{"coordination.k8s.io", "v1", "leases"};

/// `/apis/coordination.k8s.io/v1/namespaces/NS/leases/NAME`; an empty namespace or name leaves its
/// part out (cluster-wide, the whole collection).
std::string path_of(const Resource& resource, std::string_view space, std::string_view name = "");

enum class Patch { Json, Merge, Strategic };

/// What a write answers with: the whole object, or only its metadata (for large ones).
enum class Give { Object, Metadata };

/// How an object is taken away.
struct Removal {
  std::string uid;               // only this very one
  std::string resource_version;  // only as it was seen
  std::string propagation{};     // Background, Foreground, Orphan; empty: the kind's own
  std::optional<std::uint64_t> grace_seconds{};
};

/// One API server. Objects are trees and are found by path, so that every kind is the same. No
/// retries, no policy; a refusal that a call does not name throws (Failure::error).
class Client {
 public:
  /// `manager`: who owns the fields we write.
  Client(net::Transport& transport, Files& files, Access access, std::string manager = "rocca",
         std::stop_token stop = {});

  std::optional<Value> find(const std::string& path);
  Value get(const std::string& path);
  /// Every item of a collection, page by page; begins again when the pages grew too old.
  std::vector<Value> list(const std::string& path, const Query& query = {}, unsigned page = 500);

  /// Nothing: it is there already.
  std::optional<Value> create(const std::string& collection, const Value& object);
  /// Over the version that `metadata.resourceVersion` of the object names. Nothing: it is another
  /// one by now, or gone.
  std::optional<Value> update(const std::string& path, const Value& object);
  /// Nothing: it is gone, or not the version that the patch names.
  std::optional<Value> patch(const std::string& path, Patch type, const Value& change,
                             Give give = Give::Object);
  /// Server-side apply: makes the object or changes the fields it names. The Failure is that others
  /// own some of them, or that it is not the version that it names; `force` takes them.
  std::variant<Value, Failure> apply(const std::string& path, const Value& object, bool force);
  /// The same with every refusal as an answer, for who waits until it is taken; `rehearse` changes
  /// nothing and gives the object as it would be.
  std::variant<Value, Failure> try_apply(const std::string& path, const Value& object,
                                         bool rehearse);
  /// Gives up all fields that we own of it: those that nobody else owns vanish. False: it is gone.
  bool release(const std::string& path, const Value& object);
  /// False: it was not there, or not the one that `removal` names.
  bool remove(const std::string& path, const Removal& removal = {});

  /// The exchange itself, for what has no call here. Any status is an answer.
  net::Answer send(const std::string& method, const std::string& path, const Query& query = {},
                   const std::string& content_type = "", std::string body = "",
                   const std::string& accept = "application/json");

  /// An answer that has no end of its own: bytes come as long as `sink` takes them. A refusal
  /// throws.
  void stream(const std::string& path, const Query& query, net::BodySink& sink);

  /// The last lines that a container wrote. Nothing: the Pod is gone, or has not started.
  std::optional<std::string> find_log(const std::string& space, const std::string& pod,
                                      const std::string& container, unsigned lines = 50);

  /// Called with the headers of every answer.
  void on_answer(std::function<void(const net::Headers&)> heard) { heard_ = std::move(heard); }
  const Access& access() const { return access_; }
  const std::string& manager() const { return manager_; }

 private:
  net::Request request(const std::string& method, const std::string& path, const Query& query,
                       const std::string& accept);
  Value read(const net::Answer& answer, std::string_view doing, bool writing) const;

  net::Transport& transport_;
  Files& files_;
  Access access_;
  std::string manager_;
  std::stop_token stop_;
  std::function<void(const net::Headers&)> heard_;
};

}  // namespace rocca::kube
