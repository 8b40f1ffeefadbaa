#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "lab/talos/certificates.hpp"
#include "lab/talos/node.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::lab::talos {

namespace {

constexpr unsigned apiserver_port = 6443;
constexpr Duration lease = std::chrono::seconds{60};

std::string election(const SharedAddress& shared) {
  return "talos:v1:vip:election:" + shared.address;
}

/// "v1.34.1" of "registry.k8s.io/kube-apiserver:v1.34.1".
std::string version_of(const std::string& image) {
  const std::string tag = image.substr(image.rfind(':') + 1);
  if (!Version::parse(tag)) return "v1.34.1";
  return tag.starts_with('v') ? tag : "v" + tag;
}

/// As much of an API server as tells that there is one.
void answer_alone(const TalosNode& node, const net::Incoming& request, net::Responder& responder) {
  const std::string path = request.target.substr(0, request.target.find('?'));
  const auto plain = [&](int status, std::string text) {
    responder.answer(status, "", {{"Content-Type", "text/plain; charset=utf-8"}}, std::move(text));
  };
  if (path == "/livez" || path == "/healthz") return plain(200, "ok");
  if (path == "/readyz") {
    const bool quorum = node.etcd() && node.etcd()->has_quorum();
    return quorum ? plain(200, "ok") : plain(500, "[-]etcd failed: reason withheld\n");
  }
  text::Value answer = text::Value::map();
  const auto set = [&](const char* key, std::string value) {
    answer.set(key, text::Value::string(std::move(value)));
  };
  if (path == "/version") {
    const Version version = *Version::parse(node.served_version());
    set("major", std::to_string(version.major()));
    set("minor", std::to_string(version.minor()));
    set("gitVersion", node.served_version());
    set("platform", "linux/amd64");
    return responder.answer(200, "", {{"Content-Type", "application/json"}},
                            text::emit_json(answer));
  }
  // There are no objects here; only who shows a certificate of the cluster is told so.
  const bool known = !request.peer_certificate.empty();
  set("kind", "Status");
  set("apiVersion", "v1");
  set("status", "Failure");
  set("message",
      known ? "the server could not find the requested resource"
            : fmt::format("forbidden: User \"system:anonymous\" cannot get path \"{}\"", path));
  set("reason", known ? "NotFound" : "Forbidden");
  const int status = known ? 404 : 403;
  answer.set("code", text::Value::integer(status));
  responder.answer(status, "", {{"Content-Type", "application/json"}}, text::emit_json(answer));
}

}  // namespace

/// Each control plane asks etcd for the address; who gets it keeps it by asking again in time. One
/// that dies is followed when its lease ends, one that goes says so.
Routine<void> TalosNode::run_shared_addresses(Stop stop) {
  while (true) {
    std::vector<SharedAddress> mine;
    std::optional<Instant> soonest;
    const EtcdCluster::Member* self =
        disk_.etcd && etcd_runs() ? disk_.etcd->find(disk_.etcd_member) : nullptr;
    if (self != nullptr && !self->learner && !going_down_ && etcd_has_leader())
      for (const SharedAddress& shared : network_.shared) {
        if (disk_.etcd->campaign(election(shared), boot_id_, world_.now(), lease)) {
          mine.push_back(shared);
        } else if (const auto until = disk_.etcd->held_until(election(shared))) {
          soonest = soonest ? std::min(*soonest, *until) : *until;
        }
      }
    if (mine != owned_) {
      forget_owned();
      owned_ = std::move(mine);
      publish();
      for (const SharedAddress& shared : owned_)
        world_.note(fmt::format("{} takes the shared address {}", hostname_, shared.address));
      claim_addresses();
    }
    // Not inside the co_await: g++ 12 evaluates both sides of a conditional there.
    Instant next = world_.now() + lease / 3;
    if (soonest && *soonest > world_.now()) next = std::min(*soonest, next);
    co_await world_.wait(changed_, next, stop.get());
  }
}

void TalosNode::hold(std::vector<SharedAddress> addresses) {
  if (held_ == addresses) return;
  for (const SharedAddress& gone : held_)
    store_.remove("network", "AddressStatuses.net.talos.dev",
                  fmt::format("{}/{}/32", gone.link, gone.address));
  held_ = std::move(addresses);
  stale_ = true;
  publish();
  for (const SharedAddress& one : held_)
    world_.note(fmt::format("kube-vip brings {} up on {}", one.address, hostname_));
  claim_addresses();
}

void TalosNode::forget_owned() {
  for (const SharedAddress& shared : owned_)
    store_.remove("network", "AddressStatuses.net.talos.dev",
                  fmt::format("{}/{}/32", shared.link, shared.address));
  owned_.clear();
}

void TalosNode::resign() {
  if (owned_.empty()) return;
  for (const SharedAddress& shared : owned_)
    if (disk_.etcd) disk_.etcd->resign(election(shared), boot_id_);
  forget_owned();
  claim_addresses();
  for (TalosNode* node : fleet_.nodes()) node->changed_.wake_all();
}

/// The static pod comes up once kubelet and the local etcd run, and dies with etcd.
Routine<void> TalosNode::run_apiserver(Stop stop) {
  const auto wanted = [this] {
    return machine_.kubernetes && service_running("kubelet") && etcd_runs() && disk_.etcd &&
           disk_.etcd->find(disk_.etcd_member) != nullptr && (apiserver_ || etcd_has_leader());
  };
  while (true) {
    while (wanted() == apiserver_)
      co_await world_.wait(changed_, world_.now() + std::chrono::seconds{20}, stop.get());
    if (!apiserver_) co_await world_.sleep(timing_.static_pods, stop.get());
    apiserver_ = wanted();
    if (apiserver_) served_ = version_of(config_->get({"cluster", "apiServer", "image"}));
    listen_apiserver();
    changed_.wake_all();
    if (apiserver_ && node_registered_ && fleet_.kubelet_changed) fleet_.kubelet_changed(*this);
  }
}

void TalosNode::listen_apiserver() {
  for (const Network::Id port : apiserver_ports_) world_.network().close(port);
  apiserver_ports_.clear();
  if (!apiserver_ || !config_) return;
  const auto pem = [&](const char* part) {
    return from_base64(config_->get({"cluster", "ca", part})).value_or("");
  };
  Leaf leaf;
  leaf.common_name = "kube-apiserver";
  leaf.organizations = {"kube-master"};
  leaf.valid_for = std::chrono::hours{8760};
  const std::string endpoint = config_->get({"cluster", "controlPlane", "endpoint"});
  if (const auto url = net::Url::parse(endpoint)) leaf.names.push_back(url->host);
  if (const text::Value* sans = config_->main()->find({"cluster", "apiServer", "certSANs"}))
    for (const text::Value& san : sans->items()) leaf.names.push_back(san.text());
  for (const char* name : {"kubernetes", "kubernetes.default", "kubernetes.default.svc",
                           "kubernetes.default.svc.cluster.local", "localhost"})
    leaf.names.emplace_back(name);
  leaf.names.push_back(hostname_);
  for (const Address& each : network_.addresses)
    leaf.names.push_back(to_string(each.cidr.address()));
  leaf.names.emplace_back("127.0.0.1");
  // Pods come by the first address of the Services.
  if (const text::Value* subnets = config_->main()->find({"cluster", "network", "serviceSubnets"}))
    for (const text::Value& subnet : subnets->items())
      if (const auto cidr = Cidr::parse(subnet.text()))
        leaf.names.push_back(to_string(cidr->network().plus(1).value_or(cidr->network())));
  const SigningAuthority authority{pem("crt"), pem("key")};
  const auto signer = fleet_.signer(authority);
  if (!signer) return;  // the pod crashes, and nobody listens
  // As for apid's: few seeds and few hours share them.
  const auto mint =
      [signer, authority, leaf, now = std::chrono::floor<std::chrono::hours>(world_.outside()),
       made = std::make_shared<std::optional<net::ServerTls>>(),
       entropy = SeededEntropy{world_.seed() % 8}.fork("talos/kube/" + hostname_)]() mutable {
        if (*made) return **made;
        net::ServerTls tls;
        if (auto identity = signer->sign(leaf, entropy, now)) tls.identity = std::move(*identity);
        tls.clients = net::ServerTls::Clients::Ask;
        tls.client_authority_pem = authority.certificate_pem;
        *made = tls;
        return tls;
      };
  const net::Handler handler =
      fleet_.kubernetes
          ? fleet_.kubernetes(*this)
          : net::Handler([this](net::Incoming request, std::shared_ptr<net::Responder> responder) {
              answer_alone(*this, request, *responder);
            });
  const auto elsewhere = fleet_.real_kubernetes ? fleet_.real_kubernetes(*this) : std::nullopt;
  for (const std::string& address : claimed_)
    apiserver_ports_.push_back(world_.network().open(
        address, apiserver_port,
        {fmt::format("kubernetes/{}", hostname_), std::nullopt, handler, mint, elsewhere}, host_));
}

}  // namespace rocca::lab::talos
