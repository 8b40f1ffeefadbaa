#pragma once

#include "base/secret.hpp"
#include "net/grpc.hpp"
#include "net/transport.hpp"
#include "talos/failure.hpp"
#include "talos/types.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace rocca::talos {

/// How a node is reached, and who we are to it.
struct Access {
  std::string address;  // IP or name, no port
  unsigned port = 50000;
  net::Tls tls;  // maintenance: unverified or pinned, without identity; else the cluster's CA and
                 // an admin certificate
  std::string
      through;  // ask this node to pass the call on to `address`, when it cannot be reached itself
  Duration connect_timeout = std::chrono::seconds{5};

  static Access maintenance(std::string address);
  static Access secure(std::string address, std::string authority_pem,
                       std::shared_ptr<const net::Identity> identity);
};

/// The Talos machine API of one node, call by call: no policy, no retries. Every call has a
/// deadline, because etcd's calls hang before etcd runs. A refusal throws Failure::error(); where
/// callers decide by it, it is in the return type. Answers that come with status 0 but carry an
/// error in their metadata are refusals too.
class Client {
 public:
  Client(net::Transport& transport, Access access, std::stop_token stop = {});

  /// For all calls that follow; the default suits a healthy node.
  void set_deadline(Duration deadline) { deadline_ = deadline; }

  // Who and how it is.
  VersionInfo version();
  std::vector<Service> services();
  std::variant<MachineStatus, Failure> find_machine_status();
  std::optional<SystemInformation> find_system_information();

  // Its configuration.
  Applied apply(const Secret& config, const ApplyOptions& options);
  std::optional<Secret> find_config();  // the active one, as it was submitted
  void meta_write(std::uint8_t key, std::string_view value);
  bool meta_delete(std::uint8_t key);  // false: was not there

  // Power and life.
  void bootstrap(bool recover = false, bool skip_hash_check = false);
  std::string reboot(bool power_cycle = false);  // the actor's id, to follow its events
  std::string shutdown(bool force = false);
  std::string reset(const ResetOptions& options);
  std::string upgrade(
      const UpgradeOptions& options);  // up to 1.12: checks etcd, drains and reboots by itself
  /// From 1.13: installs the other half of the disk and tells its progress; does not reboot.
  void lifecycle_upgrade(const std::string& image,
                         const std::function<void(std::string_view)>& progress);
  void rollback();
  void restart_service(const std::string& id);

  // etcd.
  std::vector<EtcdMember> etcd_members(bool local = false);
  EtcdStatus etcd_status();
  std::vector<EtcdAlarm> etcd_alarms();
  void etcd_leave();
  void etcd_forfeit_leadership();
  void etcd_remove_member(std::uint64_t id);
  void etcd_defragment();
  /// Streams a snapshot; false from `write` stops. Whoever keeps it must check its trailing hash.
  void etcd_snapshot(const std::function<bool(std::string_view)>& write);
  void etcd_recover(const std::function<std::optional<std::string>()>& chunk);

  // Access and evidence.
  Secret kubeconfig();
  void logs(const std::string& service, int tail_lines,
            const std::function<bool(std::string_view)>& write);
  void dmesg(const std::function<bool(std::string_view)>& write);
  void events(int tail, const std::function<bool(const Event&)>& event);
  std::string read_file(const std::string& path);

  // Resources.
  std::optional<Resource> find_resource(const std::string& space, const std::string& type,
                                        const std::string& id);
  std::vector<Resource> list_resources(const std::string& space, const std::string& type);
  /// Calls with each state of one resource, the present one first; nothing: it went away. With
  /// `at_most` it throws Error(Timeout) or Error(Lost) after that time.
  void watch_resource(const std::string& space, const std::string& type, const std::string& id,
                      const std::function<bool(const std::optional<Resource>&)>& changed,
                      std::optional<Duration> at_most = {});
  std::vector<Member> members();
  std::vector<Address> addresses();
  std::vector<Link> links();
  std::vector<Disk> disks();
  std::optional<std::string> find_system_disk();
  std::vector<Extension> extensions();
  std::optional<std::string> find_hostname();
  std::optional<KubernetesNode> find_kubernetes_node();
  bool time_in_sync();

 private:
  net::GrpcCall call(std::string method, std::string message) const;
  /// Calls, and says what a connection means that never became one.
  template <class Body>
  auto reach(Body&& body) const;
  /// Sends and gives the answer's bytes, or the refusal.
  std::variant<std::string, Failure> ask(const std::string& method, const std::string& message);
  std::string require(const std::string& doing, const std::string& method,
                      const std::string& message);
  void stream(const std::string& doing, net::GrpcCall call,
              const std::function<bool(std::string_view)>& message);
  void stream_data(const std::string& doing, const std::string& method, std::string message,
                   const std::function<bool(std::string_view)>& write);

  net::Transport& transport_;
  Access access_;
  std::stop_token stop_;
  Duration deadline_ = std::chrono::seconds{15};
};

/// The kubeconfig in the answer of the Kubeconfig call: gzip around a tar whose end is missing.
std::string unpack_kubeconfig(std::string_view archive);

MachineStatus decode_machine_status(std::string_view spec);
Member decode_member(std::string name, std::string_view spec);

}  // namespace rocca::talos
