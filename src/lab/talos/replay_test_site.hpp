#pragma once

#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/sim/wire.hpp"
#include "lab/talos/certificates.hpp"
#include "lab/talos/node.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <vector>

// A site of simulated nodes with the machine configs of the recordings, for the tests that replay
// them.

namespace rocca::lab::talos::replay {

using namespace std::chrono_literals;
using text::Value;

inline std::string text_at(const Value& value, std::string_view key) {
  const Value* found = value.find(key);
  return found == nullptr || !found->is_scalar() || found->is_null() ? "" : found->text();
}

/// The machine configs of the recordings, made from the changes that config-cases.json names.
class Configs {
 public:
  /// Of a line of Talos; the recordings are of 1.11.
  explicit Configs(const std::string& line = "v1.11", const std::string& kubernetes = "v1.34.1") {
    base_ = text::parse_yaml(
        test::read_file(test::reference_path("talos/configs/" + line + "-plain.controlplane.yaml")),
        "base");
    Value& machine = *base_.find("machine");
    machine.find("kubelet")->set("image",
                                 Value::string("ghcr.io/siderolabs/kubelet:" + kubernetes));
    machine.find("install")->set("image", Value::string("ghcr.io/siderolabs/installer:v1.11.5"));
    machine.set(
        "registries",
        text::parse_yaml("mirrors:\n  '*':\n    endpoints: [http://10.5.0.1:5000]\n", "mirrors"));
    Value& cluster = *base_.find("cluster");
    cluster.set("clusterName", Value::string("lab"));
    cluster.find({"discovery", "registries", "service"})
        ->set("endpoint", Value::string("http://10.5.0.1:3000/"));
    cluster.find("etcd")->set("image", Value::string("gcr.io/etcd-development/etcd:v3.6.8"));
    for (const char* part : {"apiServer", "controllerManager", "proxy", "scheduler"}) {
      const std::string image = text_at(*cluster.find(part), "image");
      cluster.find(part)->set("image",
                              Value::string(image.substr(0, image.rfind(':')) + ":" + kubernetes));
    }
    cluster.find("controlPlane")->set("endpoint", Value::string("https://10.5.0.2:6443"));
    cluster.find({"apiServer", "certSANs"})->items().front() = Value::string("10.5.0.2");
    base_ = text::parse_yaml(emit(base_), "base");  // what changes add comes behind
    cases_ = text::parse_json(test::read_file(test::reference_path("talos-node/config-cases.json")),
                              "cases");
  }

  std::string control_plane() const { return emit(base_); }
  std::string worker() const {
    Value value = base_;
    value.find("machine")->set("type", Value::string("worker"));
    value.find({"machine", "ca"})->set("key", Value::string(""));
    value.find({"cluster", "ca"})->set("key", Value::string(""));
    for (const char* key : {"etcd", "aggregatorCA", "serviceAccount", "apiServer",
                            "controllerManager", "proxy", "scheduler", "secretboxEncryptionSecret"})
      value.find("cluster")->erase(key);
    return emit(value);
  }
  SigningAuthority authority() const {
    return {*from_base64(base_.find({"machine", "ca", "crt"})->text()),
            *from_base64(base_.find({"machine", "ca", "key"})->text())};
  }

  /// Nothing for a change whose words are not understood.
  std::optional<std::string> make(const std::string& name) const {
    if (name == "run-dry-type") {
      Value value = base_;
      put(value, "machine.type", "worker");
      return emit(value);
    }
    if (name == "tried") {
      Value value = base_;
      put(value, "machine.sysctls", "{net.ipv4.tcp_fin_timeout: '59'}");
      return emit(value);
    }
    const Value* found = cases_.find({"cases", name});
    if (found == nullptr) return std::nullopt;
    if (const Value* text = found->find("text")) return text->text();
    const std::string edit = text_at(*found, "edit");
    Value value = base_;
    std::smatch match;
    static const std::regex set(R"(([A-Za-z.]+) = (.*))");
    static const std::regex remove(R"(delete ([A-Za-z.]+)(?: and ([A-Za-z.]+))?)");
    static const std::regex line(R"re(append line "(.*)".*)re");
    static const std::regex document(R"re(append document "(.*)")re");
    static const std::regex named(R"(append ([A-Za-z]+) name ([A-Za-z_]+)( twice)?.*)");
    if (edit == "none") return emit(value);
    if (edit == "the document twice") return emit(value) + "---\n" + emit(value);
    if (edit == "CRLF line ends") return replace_all(emit(value), "\n", "\r\n");
    if (edit.starts_with("UTF-8 byte order mark")) return "\xef\xbb\xbf" + emit(value);
    if (edit == "append document kind HostnameConfig")
      return emit(value) + "---\napiVersion: v1alpha1\nkind: HostnameConfig\nhostname: a\n";
    if (edit.starts_with("machine.type = worker")) {
      put(value, "machine.type", "worker");
    } else if (edit.starts_with("machine.kubelet.image tag")) {
      put(value, "machine.kubelet.image",
          "ghcr.io/siderolabs/kubelet:" + edit.substr(edit.rfind(' ') + 1));
    } else if (edit.starts_with("machine.files")) {
      put(value, "machine.files", "[{content: x, permissions: 0o644, path: /var/x, op: create}]");
    } else if (edit.starts_with("machine.token changed")) {
      put(value, "machine.token", "aaaaaa.bbbbbbbbbbbbbbbb");
    } else if (edit.starts_with("machine.features.kubernetesTalosAPIAccess")) {
      put(value, "machine.features.kubernetesTalosAPIAccess",
          "{enabled: true, allowedRoles: ['os:nope'], allowedKubernetesNamespaces: [kube-system]}");
    } else if (edit.starts_with("cluster.inlineManifests")) {
      put(value, "cluster.inlineManifests",
          "[{name: a, contents: x}, {name: a, contents: x}, {name: '', contents: x}]");
    } else if (edit.find("base64 of") != std::string::npos) {
      put(value, "machine.ca.crt", to_base64("not a cert"));
    } else if (std::regex_match(edit, match, line)) {
      return emit(value) + match[1].str() + "\n";
    } else if (std::regex_match(edit, match, document)) {
      return emit(value) + "---\n" + match[1].str() + "\n";
    } else if (std::regex_match(edit, match, named)) {
      const std::string extra =
          fmt::format("---\napiVersion: v1alpha1\nkind: {}\nname: {}\n{}", match[1].str(),
                      match[2].str(), match[1] == "TrustedRootsConfig" ? "certificates: x\n" : "");
      return emit(value) + extra + (match[3].matched ? extra : "");
    } else if (std::regex_match(edit, match, remove)) {
      for (std::size_t i = 1; i < match.size(); ++i)
        if (match[i].matched) erase(value, match[i]);
    } else if (std::regex_match(edit, match, set)) {
      std::string text = match[2];
      if (const auto note = text.find(" (integer)"); note != std::string::npos) text.resize(note);
      put(value, match[1], text);
    } else {
      return std::nullopt;
    }
    return emit(value);
  }

 private:
  static std::string emit(const Value& value) {
    // In the order of Talos's structs, as the recorder's YAML was re-serialized.
    const std::string plain = text::emit_yaml(value, {.indent = 4});
    try {
      return MachineConfig::parse(plain, Version(1, 11, 5)).canonical();
    } catch (const ConfigError&) {
      return plain;
    }
  }
  static Value* parent(Value& value, const std::vector<std::string>& path) {
    Value* at = &value;
    for (std::size_t i = 0; i + 1 < path.size(); ++i) {
      Value* next = at->find(path[i]);
      at = next == nullptr ? &at->set(path[i], Value::map()) : next;
    }
    return at;
  }
  static void put(Value& value, const std::string& path, const std::string& yaml) {
    const std::vector<std::string> parts = split(path, '.');
    parent(value, parts)->set(parts.back(), text::parse_yaml(yaml, "edit"));
  }
  static void erase(Value& value, const std::string& path) {
    const std::vector<std::string> parts = split(path, '.');
    parent(value, parts)->erase(parts.back());
  }

  Value base_;
  Value cases_;
};

struct Outcome {
  std::string code;
  std::string message;
  std::vector<std::string> answers;
};

/// A site in the state that a group of recorded calls was made in.
class Site {
 public:
  explicit Site(const Configs& configs) : configs_(configs) {}
  ~Site() { world.end_routines(); }

  /// Off: no image of a kubelet; Alone: kubelets, but no API server; Whole: all of it.
  enum class Kubernetes { Off, Alone, Whole };

  TalosNode& add(const std::string& address, const std::string& name, const std::string& version,
                 Kubernetes kubernetes, NodeTiming timing = {}) {
    Machine machine;
    machine.platform = platform;
    if (platform != "container") {
      Disk disk;
      disk.name = "sda";
      disk.size = 20ull << 30;
      machine.disks = {disk};
      machine.boot_disk = "sda";
    }
    machine.version = version;
    machine.hostname = name;
    machine.kubernetes = kubernetes != Kubernetes::Off;
    machine.api_server = kubernetes == Kubernetes::Whole;
    machine.instance_type = "2CPU-2048RAM";
    machine.resolvers = {"10.5.0.1"};
    machine.links = {{"eth0", "86:b4:6d:97:fb:b3", Link::Lease{address + "/24", "10.5.0.1"}}};
    nodes.push_back(std::make_unique<TalosNode>(fleet, machine, timing));
    nodes.back()->power_on();
    world.run_for(14s);
    return *nodes.back();
  }
  void configure(const std::string& address, const std::string& text, bool old) {
    // As a client would: field 1 the config, field 4 the mode AUTO.
    std::string request;
    put_bytes(request, 1, text);
    put_varint(request, 4, 1);
    static_cast<void>(old);
    call(address, "none", "/machine.MachineService/ApplyConfiguration", {request}, {}, 5s, 0);
    world.run_for(20s);
  }
  void control_plane(const std::string& address, const std::string& name,
                     const std::string& version = "v1.11.5",
                     Kubernetes kubernetes = Kubernetes::Off, NodeTiming timing = {}) {
    add(address, name, version, kubernetes, timing);
    configure(address, configs_.control_plane(), true);
  }
  void bootstrap(const std::string& address) {
    call(address, "admin", "/machine.MachineService/Bootstrap", {""}, {}, 5s, 0);
    world.run_for(40s);
  }

  Outcome call(const std::string& address, const std::string& identity, const std::string& path,
               const std::vector<std::string>& requests, const net::Headers& metadata,
               Duration timeout, std::size_t enough) {
    struct Sink final : net::BodySink {
      std::string body;
      std::size_t enough = 0;
      bool write(std::string_view bytes) override {
        body += bytes;
        const auto messages = unframe(body);
        return enough == 0 || !messages || messages->size() < enough;
      }
    } sink;
    sink.enough = enough;
    net::Request http;
    http.method = "POST";
    http.url = fmt::format("https://{}:50000{}", address, path);
    http.version = net::HttpVersion::Http2;
    http.headers = metadata;
    http.headers.add("content-type", "application/grpc+proto");
    http.headers.add("te", "trailers");
    std::string body;
    for (const std::string& request : requests) body += frame(request);
    http.body = body;
    http.timeout = timeout;
    http.tls = tls(identity);
    Outcome outcome;
    try {
      const net::Response head = wire.exchange(http, sink, {});
      const auto field = [&](const char* name) {
        const auto trailer = head.trailers.find(name);
        return std::string(trailer ? *trailer : head.headers.find(name).value_or(""));
      };
      const auto number = parse_int(field("grpc-status"));
      outcome.code = number ? to_string(static_cast<Code>(*number)) : "OK";
      outcome.message = percent_decode(field("grpc-message"));
    } catch (const Error& error) {
      outcome.code = error.message().find("did not answer") != std::string::npos
                         ? "DeadlineExceeded"
                         : "Unavailable";
      outcome.message = error.message();
    }
    outcome.answers = unframe(sink.body).value_or(std::vector<std::string>{});
    return outcome;
  }

  net::Tls tls(std::string identity) {
    SigningAuthority authority = configs_.authority();
    SigningAuthority trusted = authority;
    if (identity.starts_with("otherca")) {
      authority = make_authority("talos", entropy, world.now());
      if (identity == "otherca-both") trusted = authority;
    }
    const bool blind = identity.ends_with("+noverify") || identity == "none";
    identity = identity.substr(0, identity.find('+'));
    net::Tls out = blind ? net::Tls::unverified() : net::Tls::authority(trusted.certificate_pem);
    if (identity == "none") return out;
    static const std::map<std::string, std::vector<std::string>> roles{
        {"admin", {"os:admin"}},
        {"reader", {"os:reader"}},
        {"operator", {"os:operator"}},
        {"backup", {"os:etcd:backup"}},
        {"impersonator", {"os:impersonator"}},
        {"norole", {}},
        {"unknownrole", {"os:unknown"}},
        {"reader-backup", {"os:etcd:backup", "os:reader"}}};
    Leaf leaf;
    leaf.client = identity != "noeku";
    leaf.server = identity == "servereku";
    leaf.valid_for = 24h;
    const auto found = roles.find(identity);
    leaf.organizations =
        found == roles.end() ? std::vector<std::string>{"os:admin"} : found->second;
    const Instant from = identity == "expired"  ? world.now() - 48h
                         : identity == "future" ? world.now() + 48h
                                                : world.now();
    out.identity = std::make_shared<net::Identity>(*sign_leaf(authority, leaf, entropy, from));
    return out;
  }

  /// The id that a recorded member has here.
  std::optional<std::uint64_t> member_id(const std::map<std::string, std::string>& recorded,
                                         const std::string& id) const {
    const auto found = recorded.find(id);
    if (found == recorded.end() || nodes.empty() || !nodes.front()->etcd()) return std::nullopt;
    for (const EtcdCluster::Member& member : nodes.front()->etcd()->members())
      if (member.name == found->second) return member.id;
    return std::nullopt;
  }

  World world{World::Options{.seed = 5, .start = Instant{std::chrono::seconds{1'800'000'000}}}};
  Fleet fleet{world};
  Wire wire{world};
  SeededEntropy entropy{3};
  std::vector<std::unique_ptr<TalosNode>> nodes;
  std::string platform = "container";  // the recorder's

 private:
  const Configs& configs_;
};

}  // namespace rocca::lab::talos::replay
