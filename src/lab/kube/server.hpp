#pragma once

#include "base/entropy.hpp"
#include "lab/kube/api.hpp"
#include "lab/kube/json.hpp"
#include "lab/kube/managed.hpp"
#include "lab/kube/schema/kinds.hpp"
#include "lab/kube/schema/schema.hpp"
#include "lab/kube/selector.hpp"
#include "lab/kube/status.hpp"
#include "lab/kube/storage.hpp"

#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace rocca::lab::kube {

/// One request, taken apart. Private to this folder, like everything here.
struct Call {
  std::string method;
  std::string path;
  std::vector<std::pair<std::string, std::string>> query;
  net::Headers headers;
  std::string body;
  User user;
  std::vector<std::string> parts;  // of the path

  // of a request for a resource:
  std::string group, version, plural;
  const Resource* resource = nullptr;
  std::string space, name, subresource;
  std::string verb;
  bool watch = false;
  std::vector<std::string> warnings{};

  std::optional<std::string> option(std::string_view name) const;
  std::string option_or(std::string_view name, std::string otherwise = "") const;
  std::string header(std::string_view name) const;
};

struct Reply {
  int status = 200;
  text::Value body;
  std::optional<std::string> text;  // instead of a body
  std::string type = "application/json";
  net::Headers headers{};
};

/// How a write comes in.
struct Write {
  std::string manager;
  User user;
  bool dry_run = false;
  std::string subresource{};
  std::vector<std::string>* warnings = nullptr;
  bool internal = false;              // by a simulated controller: no admission
  bool patch = false;                 // a patch has no precondition on the UID
  const text::Value* sent = nullptr;  // the metadata as the client sent it, in an update
};

struct DeleteHow {
  std::string propagation{};  // Background, Foreground, Orphan; empty: the kind's own
  std::optional<std::int64_t> grace{};
  std::string uid{}, revision{};  // preconditions
};

class Controllers;

class Server {
 public:
  Server(World& world, Api::Options options);
  ~Server();

  void handle(net::Incoming request, std::shared_ptr<net::Responder> to,
              const std::optional<User>& fixed);

  // Who and whether (access.cpp)
  std::optional<User> authenticate(const net::Incoming& request) const;
  struct Question {
    std::string verb, group, resource, subresource, name, space, path;
  };
  /// Why not; nothing: yes.
  std::optional<std::string> refuse(const User& user, const Question& question) const;
  std::vector<text::Value> rules_for(const User& user, const std::string& space,
                                     std::string* error = nullptr) const;

  // Reading and writing (create.cpp, update.cpp, remove.cpp)
  text::Value create(const Resource& resource, const std::string& space, text::Value object,
                     const Write& write);
  using Edit = std::function<text::Value(const text::Value& live)>;
  text::Value update(const Resource& resource, const ObjectKey& key, const Edit& edit,
                     const Write& write);
  struct Applied {
    text::Value object;
    bool created = false;
  };
  Applied apply_object(const Resource& resource, const ObjectKey& key, const text::Value& config,
                       const Write& write, bool force);
  Reply remove(const Resource& resource, const ObjectKey& key, const DeleteHow& how,
               const Write& write);
  Object get(const Resource& resource, const ObjectKey& key) const;  // throws Failure 404
  /// The object as a version of its resource shows it.
  text::Value shown(const Resource& resource, const text::Value& object) const;
  /// Decoded, defaulted, with unknown fields told or refused (decode_body.cpp).
  text::Value read_object(const Resource& resource, const text::Value& sent, const Call& call,
                          std::vector<std::string>& warnings,
                          const std::vector<std::string>& duplicates) const;

  // Strategies (defaults.cpp, prepare.cpp, validate_*.cpp)
  void set_defaults(const Resource& resource, text::Value& object) const;
  void prepare_create(const Resource& resource, text::Value& object);
  void prepare_update(const Resource& resource, const text::Value& live, text::Value& object,
                      const Write& write) const;
  std::vector<Cause> validate(const Resource& resource, const text::Value& object,
                              const text::Value* live, const Write& write);

  // Custom kinds (custom.cpp)
  void serve_custom(const text::Value& crd);
  void accept_names(const std::string& name);
  void crd_changed(const text::Value* before, const text::Value* after);
  void prune_custom(const Resource& resource, text::Value& object,
                    std::vector<std::string>& unknown) const;
  void default_custom(const Resource& resource, text::Value& object) const;
  std::vector<Cause> validate_custom(const Resource& resource, const text::Value& object,
                                     const text::Value* live, const std::string& subresource) const;

  // Admission (admission.cpp)
  void admit_pod(text::Value& object, const std::string& space);  // pod_admission.cpp
  void clean_custom(const std::string& name);
  void check_namespace(const Resource& resource, const std::string& space, const Write& write,
                       const std::string& name) const;
  void call_webhooks(const Resource& resource, const std::string& operation, text::Value& object,
                     const text::Value* live, const Write& write, bool mutating);

  WebhookAnswer ask_webhook(const text::Value& hook, const text::Value& request) const;
  /// Throws what the API server says when a version cannot be had because its webhook is down.
  void check_conversion(const Resource& resource) const;
  std::optional<std::string> webhook_trouble(const text::Value& client) const;

  /// The fields in the order Go writes them, structs that are always there included.
  text::Value ordered(const Resource& resource, text::Value object) const;
  text::Value empty_object(const Resource& resource) const;
  /// Gives a pod to a node, as the binding subresource does.
  void assign(const ObjectKey& key, const std::string& node);
  void check_escalation(const Resource& resource, const text::Value& object,
                        const Write& write) const;
  text::Value answer_bookmark(const Resource& resource) const;

  std::string timestamp() const;
  std::string micro_timestamp() const;
  std::string new_uid();
  std::string random_suffix(std::size_t length = 5);
  bool has_quorum() const { return !options_.quorum || options_.quorum(); }
  World& world() const noexcept { return world_; }
  const Api::Options& options() const noexcept { return options_; }
  void set_version(std::string version) { options_.version = std::move(version); }
  Kinds& kinds() noexcept { return kinds_; }
  const Kinds& kinds() const noexcept { return kinds_; }
  const Schemas& schemas() const noexcept { return schemas_; }
  Storage& storage() noexcept { return storage_; }
  const Storage& storage() const noexcept { return storage_; }
  void restart();
  std::string allocate_cluster_ip();

  void join_kubelet(Kubelet kubelet);
  void leave_kubelet(std::string_view node);
  void settle(const std::function<void()>& work);
  /// Why a kubelet hands out no logs; nothing: it does.
  std::optional<std::string> kubelet_trouble(const std::string& node) const;
  std::function<bool(const std::string&)> network_ready;
  std::map<std::string, Kubelet, std::less<>> kubelets;

 private:
  friend class Controllers;
  struct Watch;

  void dispatch(Call& call, const std::shared_ptr<net::Responder>& to);
  void parse_path(Call& call) const;
  std::optional<Reply> fixed_path(Call& call);  // discovery.cpp
  Reply resource_request(Call& call);
  Reply read_one(Call& call);
  Reply list(Call& call);
  void start_watch(Call& call, const std::shared_ptr<net::Responder>& to);
  Reply create_request(Call& call);
  Reply update_request(Call& call);
  Reply apply_request(Call& call, const Write& write);
  text::Value store_update(const Resource& resource, const ObjectKey& key, const Object& live,
                           text::Value object, const Write& write, bool owners_known);
  void bump_generation(const Resource& resource, const text::Value& live,
                       text::Value& object) const;
  Reply patch_request(Call& call);
  Reply delete_request(Call& call);
  Reply delete_collection(Call& call);
  Reply subresource_request(Call& call);
  Reply scale_request(Call& call);
  Reply review(Call& call);  // access.cpp
  Reply evict(Call& call);   // pods.cpp
  void spend_budget(const text::Value& pod, const Write& write);
  Reply bind(Call& call);
  Reply pod_log(Call& call);
  Reply token(Call& call);
  Write write_of(Call& call) const;
  text::Value read_body(Call& call, const Resource& resource);
  void check_options(const Call& call, std::string_view kind) const;
  ObjectKey key_of(const Call& call) const { return {call.space, call.name}; }
  void send(const std::shared_ptr<net::Responder>& to, const Call& call, Reply reply) const;
  void send(const std::shared_ptr<net::Responder>& to, const Call& call,
            const Failure& failure) const;
  Reply negotiate(const Call& call, Reply reply) const;  // table.cpp: Table, PartialObjectMetadata
  Reply health(const Call& call) const;
  Reply aggregated(const Call& call, bool core) const;
  void deliver(const Change& change);
  void bookmark(const std::shared_ptr<net::Responder>& to);
  void bootstrap();

  World& world_;
  Api::Options options_;
  SeededEntropy entropy_;
  Schemas schemas_;
  Kinds kinds_{schemas_};
  Storage storage_;
  std::list<Watch> watches_;
  std::uint64_t next_address_ = 10;
  std::uint64_t started_at_ = 0;  // the revision at which the API servers' caches begin
  std::map<std::string, std::string> tokens_;  // token -> "namespace/name"
  std::unique_ptr<Controllers> controllers_;
};

/// A Go struct with nothing in it, as its JSON is.
text::Value zero_value(const Type& type);
/// RFC 3339 of seconds since 1970.
std::string timestamp_of(std::int64_t seconds);

/// `default/x` of an object.
ObjectKey key_of(const text::Value& object);
/// Field and label selectors, options as the API server reads them.
bool is_false(std::string_view option);

}  // namespace rocca::lab::kube
