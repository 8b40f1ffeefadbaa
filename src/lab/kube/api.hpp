#pragma once

#include "base/clock.hpp"
#include "lab/kube/storage.hpp"
#include "lab/sim/world.hpp"
#include "net/server/server.hpp"
#include "text/value.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rocca::lab::kube {

class Server;

/// Who asks, as the API server knows them.
struct User {
  std::string name;
  std::vector<std::string> groups;  // system:authenticated is added where it belongs
  std::string uid{};
};

/// What came of calling an admission webhook.
struct WebhookAnswer {
  std::string failure{};   // why there is no answer, as the API server words it behind the name
  text::Value response{};  // AdmissionResponse: allowed, status, patch, warnings
};

/// A machine whose kubelet registers itself.
struct Kubelet {
  std::string name;
  std::string address;
  std::string version = "v1.34.4";
  bool control_plane = false;
  std::vector<std::pair<std::string, std::string>> labels{};
  std::string machine_id{};
  std::string system_uuid{};
  std::string pod_cidr{};
  struct Taint {
    std::string key, value, effect;
    friend bool operator==(const Taint&, const Taint&) = default;
  };
  /// Nothing: the usual one of a control plane.
  std::optional<std::vector<Taint>> taints{};
  std::vector<std::pair<std::string, std::string>> annotations{};
  std::string os_image = "Talos";
  std::string kernel = "6.12.57-talos";
  unsigned cores = 4;
  std::uint64_t memory = 8ull << 30;
  /// Asks the cluster for its serving certificate; until that is approved nobody gets logs.
  bool rotates_certificate = false;
  std::vector<std::string> extensions{};  // iscsi-tools
  std::vector<std::string> mounts{};  // paths that pods may have from the host, shared both ways

  friend bool operator==(const Kubelet&, const Kubelet&) = default;
};

/// The Kubernetes API of one simulated cluster: what its control planes serve at :6443. All of them
/// share one Api; it answers only while etcd has quorum. Controllers, scheduler and kubelets are
/// simulated in the world's time.
class Api {
 public:
  struct Options {
    std::string name = "kube";  // in traces, and of its stream of chance
    std::string version = "v1.34.4";
    std::string address = "127.0.0.1:6443";  // what discovery calls its own
    bool anonymous = false;                  // Talos turns it off
    bool controllers = true;                 // kube-controller-manager runs
    bool scheduler = true;
    bool kubelets = true;  // pods on nodes are run
    bool settled = false;  // it is not new: what is done at the beginning is done
    std::string service_prefix = "10.96";
    /// Has etcd quorum? Nothing: always.
    std::function<bool()> quorum{};
    /// Nothing: the client certificate's CN and O (the listener has checked its chain), then the
    /// token of a service account.
    std::function<std::optional<User>(const net::Incoming&)> authenticate{};
    /// Why an image cannot be pulled; nothing: it can. Nothing set: all can.
    std::function<std::optional<std::string>(const std::string& image)> refuse_image{};
    /// What a container of this image says as it dies, again and again; nothing: it runs.
    std::function<std::optional<std::string>(const std::string& image)> crash_image{};
    /// What a container that should end leaves with; nothing set: 0.
    std::function<int(const text::Value& pod)> exit_code{};
    /// Signs an approved CertificateSigningRequest: base64 of PEM. Nothing set: none is signed.
    std::function<std::string(const text::Value& request)> sign{};
    std::string authority_pem{};  // what pods find as kube-root-ca.crt
    /// What PodSecurity enforces where a namespace has no label (kube-system is exempt); Talos:
    /// "baseline". Empty: no such admission.
    std::string pod_security{};
    /// Does the server behind a webhook's Service listen, once it has a ready endpoint? Nothing
    /// set: at once. Where nobody says more, a webhook that listens allows everything.
    std::function<bool(const std::string& space, const std::string& service)> webhook_listens{};
    /// Answers for a webhook (its entry in the configuration, the AdmissionRequest); nothing: as
    /// above.
    std::function<std::optional<WebhookAnswer>(const text::Value& hook, const text::Value& request)>
        webhook{};
  };

  Api(World& world, Options options);
  ~Api();
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  /// For a Service at :6443. The Api must outlive it.
  net::Handler handler();
  /// Every request comes from this user, whatever it shows.
  net::Handler handler(User user);

  /// A kubelet registers its Node and keeps its Lease until it leaves.
  void join(Kubelet kubelet);
  /// From now on requests reach an API server of this version: control planes are upgraded one by
  /// one.
  void set_version(std::string version);
  /// The kubelet falls silent: the Node becomes NotReady after the grace period.
  void leave(std::string_view node);
  /// Nodes become Ready only while this holds (a CNI is there); asked again at every heartbeat.
  void set_network_ready(std::function<bool(const std::string& node)> ready);

  struct Result {
    int status = 0;
    text::Value body;
  };
  /// A request by somebody inside of the cluster. Only while etcd has quorum.
  Result send(const User& user, std::string method, std::string target, std::string body = "",
              std::string type = "application/json");
  /// Server-side apply by somebody inside, with force; by one who may do everything, or as this
  /// user. The namespace is the object's own or `default`.
  Result apply(const text::Value& object, const std::string& manager, bool dry_run = false,
               const std::string& as = "");
  /// Does `work`, and at once all that controllers and kubelets would do about it in the next
  /// minute.
  void settle(const std::function<void()>& work);
  /// Is a kubelet of this name there?
  bool joined(std::string_view node) const;

  /// The API servers start anew: watches end and cannot go back to what was before.
  void restart();

  Storage& storage() noexcept;
  /// The object as it stands, or null. `resource` is "apps/deployments", "/configmaps".
  Object find(std::string_view resource, std::string_view space, std::string_view name) const;

  Server& server() noexcept { return *server_; }

 private:
  std::unique_ptr<Server> server_;
};

}  // namespace rocca::lab::kube
