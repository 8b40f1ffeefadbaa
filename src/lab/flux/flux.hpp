#pragma once

#include "lab/flux/git.hpp"
#include "lab/kube/api.hpp"
#include "lab/kube/server.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::flux {

/// One condition of a Flux object.
struct Condition {
  std::string type, status, reason, message;
};

/// Simulated Flux controllers and External Secrets Operator in one cluster. Each works while its
/// Deployment is available, on changes of what it looks after, and writes the conditions that the
/// real one writes.
class Flux {
 public:
  struct Options {
    Git* git = nullptr;   // nothing: no server is there
    bool always = false;  // the controllers run although no Deployment says so
    Duration dependency = std::chrono::seconds{30};  // --requeue-dependency
  };
  Flux(World& world, kube::Api& api, Options options);
  ~Flux();
  Flux(const Flux&) = delete;
  Flux& operator=(const Flux&) = delete;

  /// Something was pushed somewhere.
  void pushed();

 private:
  using Key = kube::ObjectKey;
  using Value = text::Value;
  using Edit = std::function<void(Value& object)>;

  // flux.cpp
  void changed(const kube::Change& change);
  bool runs(std::string_view controller) const;
  void look_at_all(std::string_view resource, Duration delay);
  void visit(const std::string& resource, const Key& key);
  /// One wait per object: the sooner one counts.
  void later(const std::string& resource, const Key& key, Duration delay);
  void after(Duration delay, std::function<void()> then);
  const kube::Resource* kind_of(std::string_view resource) const;
  kube::Object find(std::string_view resource, const Key& key) const {
    return api_.find(resource, key.space, key.name);
  }
  void set_status(const std::string& resource, const Key& key, const std::string& manager,
                  const Edit& edit);
  void set_conditions(Value& object, const std::vector<Condition>& wanted) const;
  /// False: it is on its way out, and this was seen to.
  bool keep_finalizer(const std::string& resource, const Key& key, const std::string& manager,
                      const std::function<void()>& before_it_goes);
  void tell(const Value& about, bool warning, const std::string& reason, const std::string& message,
            const std::string& controller, const std::string& revision = "");

  // source.cpp
  void visit_git(const Key& key);
  void fail_git(const Key& key, const std::string& reason, const std::string& message);
  /// Why its Secret will not do; fills in what is in it.
  std::optional<std::string> read_credentials(const Value& source, GitAsk& ask) const;
  void visit_helm_repository(const Key& key);

  // kustomize.cpp
  struct Built;
  void visit_kustomization(const Key& key);
  void apply_first(const Key& key, std::shared_ptr<Built> built);
  void apply_rest(const Key& key, const std::shared_ptr<Built>& built);
  void check_health(const Key& key, const std::shared_ptr<Built>& built);
  void finish(const Key& key, const std::shared_ptr<Built>& built);
  void fail_kustomization(const Key& key, const std::shared_ptr<Built>& built,
                          const std::string& reason, const std::string& message,
                          const std::string& health = "");
  void progress(const Key& key, const Built& built, const std::string& message);
  std::optional<std::string> build(const Value& wanted, const GitTree& tree,
                                   std::vector<Value>& objects) const;
  std::optional<std::string> apply_one(const Value& wanted, const Value& object, bool force,
                                       std::vector<std::string>& said) const;
  void prune(const Value& inventory, const Value* kept, std::vector<std::string>& said) const;
  /// Current, InProgress, Failed or NotFound, as kstatus has it.
  std::string health_of(const std::string& api_version, const std::string& kind,
                        const Key& key) const;

  // helm.cpp
  void visit_release(const Key& key);
  void finish_release(const Key& key, std::int64_t generation, Instant deadline);

  // secrets.cpp: External Secrets Operator
  void visit_store(const std::string& resource, const Key& key);
  void visit_external_secret(const Key& key);
  using Listed = std::function<void(const std::map<std::string, std::string>& values,
                                    const std::string& reason, const std::string& message)>;
  void list_secrets(const Value& store, const std::string& space, const std::string& folder,
                    const Listed& then);

  // addons.cpp
  void look_at_addons();  // a moment later, once
  void approve_requests();
  void install(const Value& job);
  void balance();
  bool has_endpoint(const Key& service) const;

  // cloud.cpp
  void look_at_nodes();
  void claim_node(const Value& row, const Value& vm, const std::string& region);

  World& world_;
  kube::Api& api_;
  Options options_;
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
  struct Wait {
    World::Timer timer = 0;
    Instant due{};
  };
  std::map<std::string, Wait> waits_;
  std::map<Key, GitTree> artifacts_;  // of GitRepositories, as last fetched
  std::map<Key, unsigned> failures_;
  bool looking_ = false;
  std::vector<std::string> balanced_;  // addresses of Services
};

/// `1h0m0s`, as Go prints a duration.
std::string go_duration(Duration duration);
Duration duration_at(const text::Value& object, std::initializer_list<std::string_view> path,
                     Duration otherwise);

/// What `kustomize build` makes of a path of a tree; or why it cannot, as Flux says it.
struct BuildResult {
  std::vector<text::Value> objects;
  std::string error;
};
BuildResult kustomize_build(const std::map<std::string, std::string>& files,
                            const std::string& path);
/// `apps_Deployment` and the like in the order in which Flux applies kinds.
int apply_rank(const std::string& kind);

}  // namespace rocca::lab::flux
