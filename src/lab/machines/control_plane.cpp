#include "lab/machines/control_plane.hpp"

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/machines/stand_in_kubelets.hpp"
#include "lab/sim/child.hpp"
#include "net/curl_transport.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <utility>

namespace rocca::lab {

using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;

// Webhooks and aggregated APIs are dialled at their Service's address: these stay on the machine.
constexpr const char* service_subnet = "127.96.0.0/16";
constexpr const char* first_service = "127.96.0.1";

/// A port of this address that nobody listens at: the wanted one if that is so.
unsigned free_port(const std::string& address, unsigned wanted = 0) {
  for (const unsigned port : {wanted, 0u}) {
    const int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(static_cast<std::uint16_t>(port));
    inet_pton(AF_INET, address.c_str(), &place.sin_addr);
    const int yes = 1;
    setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    auto* raw = reinterpret_cast<sockaddr*>(&place);
    socklen_t size = sizeof place;
    const bool ours = bind(door, raw, size) == 0 && getsockname(door, raw, &size) == 0;
    close(door);
    if (ours) return ntohs(place.sin_port);
  }
  throw Error(Fault::Conflict, fmt::format("{} has no free port", address));
}

std::string last_line(const std::string& path) {
  std::ifstream in(path);
  std::string last;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) last = line;
  return last.substr(0, 300);
}

talos::Leaf leaf(std::string name, std::vector<std::string> groups, bool server, bool client,
                 std::vector<std::string> names = {}) {
  talos::Leaf out;
  out.common_name = std::move(name);
  out.organizations = std::move(groups);
  out.server = server;
  out.client = client;
  out.names = std::move(names);
  out.valid_for = std::chrono::hours{8760};
  out.elliptic = true;
  return out;
}

talos::SigningAuthority authority(const talos::MachineConfig& config,
                                  std::initializer_list<std::string_view> crt,
                                  std::initializer_list<std::string_view> key) {
  return {from_base64(config.get(crt)).value_or(""), from_base64(config.get(key)).value_or("")};
}

net::Identity sign(const talos::SigningAuthority& by, const talos::Leaf& what, Entropy& entropy,
                   Instant now) {
  // A clock that is a little behind must not refuse it.
  auto made = talos::sign_leaf(by, what, entropy, now - 5min);
  if (!made) throw Error(Fault::Rejected, "the machine config has a CA that cannot sign");
  return std::move(*made);
}

}  // namespace

ControlPlane::ControlPlane(Wishes wishes, const talos::MachineConfig& config, SeededEntropy entropy,
                           Instant now)
    : wishes_(std::move(wishes)),
      config_(config),
      entropy_(entropy),
      now_(now),
      begun_(SystemClock{}.tick()) {
  std::string pattern = (fs::temp_directory_path() / "rocca-lab-kubernetes-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw Error(Fault::Denied, "there is no room for a real control plane");
  folder_ = pattern;
  wishes_.port = free_port(wishes_.address, wishes_.port);
  etcd_port_ = free_port("127.0.0.1");
  peer_port_ = free_port("127.0.0.1");
  manager_port_ = free_port("127.0.0.1");
  write_certificates();
  thread_ = std::jthread{[this](const std::stop_token& stop) { run(stop); }};
}

ControlPlane::~ControlPlane() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void ControlPlane::write(const std::string& name, std::string_view text) const {
  const fs::path path = file(name), fresh = file(name + ".new");
  {
    std::ofstream out(fresh, std::ios::binary);
    out << text;
  }
  fs::permissions(fresh, fs::perms::owner_read | fs::perms::owner_write);
  fs::rename(fresh, path);  // whoever watches it sees one whole or the other
}

void ControlPlane::write_identity(const std::string& name, const net::Identity& identity) const {
  write(name + ".key", identity.key_pem.reveal());
  write(name + ".crt", identity.certificate_pem);
}

void ControlPlane::write_certificates() {
  const auto cluster = authority(config_, {"cluster", "ca", "crt"}, {"cluster", "ca", "key"});
  const auto etcd =
      authority(config_, {"cluster", "etcd", "ca", "crt"}, {"cluster", "etcd", "ca", "key"});
  const auto aggregator =
      authority(config_, {"cluster", "aggregatorCA", "crt"}, {"cluster", "aggregatorCA", "key"});
  write("ca.crt", cluster.certificate_pem);
  write("ca.key", cluster.key_pem);
  write("etcd-ca.crt", etcd.certificate_pem);
  write("aggregator-ca.crt", aggregator.certificate_pem);
  write("service-account.key",
        from_base64(config_.get({"cluster", "serviceAccount", "key"})).value_or(""));
  const auto made = [&](const talos::SigningAuthority& by, const talos::Leaf& what) {
    return sign(by, what, entropy_, now_);
  };
  write_identity("etcd", made(etcd, leaf("etcd", {}, true, true, {"localhost", "127.0.0.1"})));
  write_identity("etcd-client", made(etcd, leaf("kube-apiserver", {}, false, true)));
  write_identity("front-proxy", made(aggregator, leaf("front-proxy-client", {}, false, true)));
  write_identity("kubelet-client",
                 made(cluster, leaf("apiserver-kubelet-client", {"system:masters"}, false, true)));
  write_identity("manager", made(cluster, leaf("system:kube-controller-manager", {}, false, true)));
  admin_ = made(cluster, leaf("rocca-lab", {"system:masters"}, false, true));
  write("manager.kubeconfig", kubeconfig("manager"));
  std::string providers;
  if (const std::string key = config_.get({"cluster", "secretboxEncryptionSecret"}); !key.empty())
    providers = fmt::format("secretbox: {{ keys: [ {{ name: key2, secret: {} }} ] }}", key);
  else if (const std::string old = config_.get({"cluster", "aescbcEncryptionSecret"}); !old.empty())
    providers = fmt::format("aescbc: {{ keys: [ {{ name: key1, secret: {} }} ] }}", old);
  write("encryption.yaml",
        fmt::format("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"
                    "resources:\n  - resources: [secrets]\n    providers:\n{}      - identity: "
                    "{{}}\n",
                    providers.empty() ? "" : fmt::format("      - {}\n", providers)));
  write_server_certificate({});
}

void ControlPlane::write_server_certificate(std::vector<std::string> names) {
  for (const char* name : {"kubernetes", "kubernetes.default", "kubernetes.default.svc",
                           "kubernetes.default.svc.cluster.local", "localhost", "127.0.0.1"})
    names.emplace_back(name);
  names.emplace_back(first_service);
  names.push_back(wishes_.address);
  names.push_back(wishes_.advertised);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  write_identity("apiserver",
                 sign(authority(config_, {"cluster", "ca", "crt"}, {"cluster", "ca", "key"}),
                      leaf("kube-apiserver", {"kube-master"}, true, false, names), entropy_,
                      now_ + (SystemClock{}.tick() - begun_)));
}

std::string ControlPlane::kubeconfig(const std::string& user) const {
  return fmt::format(
      "apiVersion: v1\nkind: Config\nclusters: [ {{ name: lab, cluster: {{ server: "
      "'https://{0}:{1}', certificate-authority: {2}/ca.crt }} }} ]\nusers: [ {{ name: {3}, user: "
      "{{ client-certificate: {2}/{3}.crt, client-key: {2}/{3}.key }} }} ]\ncontexts: [ {{ name: "
      "lab, context: {{ cluster: lab, user: {3} }} }} ]\ncurrent-context: lab\n",
      wishes_.address, wishes_.port, folder_, user);
}

std::vector<std::string> ControlPlane::etcd_words() const {
  const std::string clients = fmt::format("https://127.0.0.1:{}", etcd_port_);
  const std::string peers = fmt::format("https://127.0.0.1:{}", peer_port_);
  return {wishes_.programs.etcd,
          "--name=lab",
          "--data-dir=" + file("etcd"),
          "--unsafe-no-fsync",  // what it keeps goes with the lab
          "--listen-client-urls=" + clients,
          "--advertise-client-urls=" + clients,
          "--listen-peer-urls=" + peers,
          "--initial-advertise-peer-urls=" + peers,
          "--initial-cluster=lab=" + peers,
          "--client-cert-auth=true",
          "--trusted-ca-file=" + file("etcd-ca.crt"),
          "--cert-file=" + file("etcd.crt"),
          "--key-file=" + file("etcd.key"),
          "--peer-client-cert-auth=true",
          "--peer-trusted-ca-file=" + file("etcd-ca.crt"),
          "--peer-cert-file=" + file("etcd.crt"),
          "--peer-key-file=" + file("etcd.key")};
}

std::vector<std::string> ControlPlane::apiserver_words() const {
  const std::string issuer = config_.get({"cluster", "controlPlane", "endpoint"});
  return {wishes_.programs.apiserver,
          "--bind-address=" + wishes_.address,
          fmt::format("--secure-port={}", wishes_.port),
          "--advertise-address=" + wishes_.advertised,
          fmt::format("--etcd-servers=https://127.0.0.1:{}", etcd_port_),
          "--etcd-cafile=" + file("etcd-ca.crt"),
          "--etcd-certfile=" + file("etcd-client.crt"),
          "--etcd-keyfile=" + file("etcd-client.key"),
          "--client-ca-file=" + file("ca.crt"),
          "--tls-cert-file=" + file("apiserver.crt"),
          "--tls-private-key-file=" + file("apiserver.key"),
          "--requestheader-client-ca-file=" + file("aggregator-ca.crt"),
          "--requestheader-allowed-names=front-proxy-client",
          "--requestheader-extra-headers-prefix=X-Remote-Extra-",
          "--requestheader-group-headers=X-Remote-Group",
          "--requestheader-username-headers=X-Remote-User",
          "--proxy-client-cert-file=" + file("front-proxy.crt"),
          "--proxy-client-key-file=" + file("front-proxy.key"),
          "--kubelet-client-certificate=" + file("kubelet-client.crt"),
          "--kubelet-client-key=" + file("kubelet-client.key"),
          "--service-account-issuer=" + issuer,
          "--api-audiences=" + issuer,
          "--service-account-key-file=" + file("service-account.key"),
          "--service-account-signing-key-file=" + file("service-account.key"),
          std::string("--service-cluster-ip-range=") + service_subnet,
          "--authorization-mode=Node,RBAC",
          "--enable-admission-plugins=NodeRestriction",
          "--enable-bootstrap-token-auth=true",
          "--allow-privileged=true",
          "--anonymous-auth=false",
          "--encryption-provider-config=" + file("encryption.yaml"),
          "--tls-min-version=VersionTLS12",
          "--profiling=false"};
}

std::vector<std::string> ControlPlane::manager_words() const {
  const std::string kubeconfig = file("manager.kubeconfig");
  return {wishes_.programs.controller_manager,
          "--kubeconfig=" + kubeconfig,
          "--authentication-kubeconfig=" + kubeconfig,
          "--authorization-kubeconfig=" + kubeconfig,
          "--bind-address=127.0.0.1",
          fmt::format("--secure-port={}", manager_port_),
          "--allocate-node-cidrs=true",
          "--cluster-cidr=10.244.0.0/16",
          std::string("--service-cluster-ip-range=") + service_subnet,
          "--configure-cloud-routes=false",
          "--cluster-signing-cert-file=" + file("ca.crt"),
          "--cluster-signing-key-file=" + file("ca.key"),
          "--root-ca-file=" + file("ca.crt"),
          "--service-account-private-key-file=" + file("service-account.key"),
          "--controllers=*,tokencleaner",
          "--use-service-account-credentials=true",  // without it most controllers are forbidden
          "--leader-elect=false"};
}

void ControlPlane::set_members(std::map<std::string, kube::Kubelet> kubelets,
                               const std::vector<std::string>& names) {
  const std::lock_guard lock{mutex_};
  kubelets_ = std::move(kubelets);
  names_ = names;
}

void ControlPlane::set_refused(std::map<std::string, std::string> images) {
  const std::lock_guard lock{mutex_};
  refused_ = std::move(images);
}

std::map<std::string, ControlPlane::NodeState> ControlPlane::nodes() const {
  const std::lock_guard lock{mutex_};
  return nodes_;
}

std::string ControlPlane::take_trouble() {
  const std::lock_guard lock{mutex_};
  return std::exchange(trouble_, "");
}

void ControlPlane::say(std::string trouble) {
  const std::lock_guard lock{mutex_};
  trouble_ = std::move(trouble);
}

/// Everything real happens in this thread: its programs end with it.
void ControlPlane::run(const std::stop_token& stop) {
  std::condition_variable_any bell;
  std::mutex alone;
  const auto rest = [&](Duration time) {
    std::unique_lock lock{alone};
    bell.wait_for(lock, stop, time, [] { return false; });
  };
  net::CurlTransport transport;
  StandInKubelets kubelets{transport,
                           fmt::format("https://{}:{}", wishes_.address, wishes_.port),
                           from_base64(config_.get({"cluster", "ca", "crt"})).value_or(""),
                           std::make_shared<net::Identity>(admin_),
                           wishes_.manifests,
                           wishes_.has_network,
                           !wishes_.programs.controller_manager.empty()};
  std::optional<Child> etcd, apiserver, manager;
  std::vector<std::string> served;
  const auto keep = [&](std::optional<Child>& child, const char* name,
                        std::vector<std::string> words) {
    if (child && child->running()) return true;
    if (child) say(fmt::format("{} ended: {}", name, last_line(file(std::string(name) + ".log"))));
    child.reset();
    child.emplace(std::move(words), file(std::string(name) + ".log"));
    return false;
  };
  while (!stop.stop_requested()) {
    try {
      std::map<std::string, kube::Kubelet> members;
      std::map<std::string, std::string> refused;
      std::vector<std::string> names;
      {
        const std::lock_guard lock{mutex_};
        members = kubelets_;
        refused = refused_;
        names = names_;
      }
      if (names != served) {
        write_server_certificate(names);  // the server reads it again by itself
        served = names;
      }
      bool fresh = !keep(etcd, "etcd", etcd_words());
      fresh = !keep(apiserver, "kube-apiserver", apiserver_words()) || fresh;
      if (!fresh && kubelets.ready(stop)) {
        if (!wishes_.programs.controller_manager.empty())
          keep(manager, "kube-controller-manager", manager_words());
        const auto seen = kubelets.act(members, refused, stop);
        const std::lock_guard lock{mutex_};
        nodes_.clear();
        for (const auto& [name, state] : seen) nodes_[name] = {state.ready, state.unschedulable};
      }
    } catch (const Error& error) {
      say(error.message());
    }
    rest(300ms);
  }
}

}  // namespace rocca::lab
