#include "base/encoding.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/talos/certificates.hpp"
#include "lab/talos/node.hpp"
#include "lab/talos/replay_decode.hpp"
#include "lab/wire.hpp"
#include "support/golden.hpp"
#include "support/reference.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>

namespace rocca::lab::talos {
namespace {

using namespace std::chrono_literals;
using text::Value;

std::string text_at(const Value& value, std::string_view key) {
  const Value* found = value.find(key);
  return found == nullptr || !found->is_scalar() || found->is_null() ? "" : found->text();
}

std::string here(const char* name) {
  return test::source_folder() + "/src/lab/talos/" + name;
}

/// The first word of each line that is no comment.
std::set<std::string> read_list(const char* name) {
  std::set<std::string> out;
  std::ifstream file(here(name));
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line[0] != '#') out.insert(split(line, ' ').front());
  return out;
}

/// The machine configs of the recordings, made from the changes that config-cases.json names.
class Configs {
 public:
  Configs() {
    const std::string folder = test::shared_folder() + "/vectors/";
    base_ = text::parse_yaml(
        test::read_file(folder + "talos/configs/v1.11-plain.controlplane.yaml"), "base");
    Value& machine = *base_.find("machine");
    machine.find("kubelet")->set("image", Value::string("ghcr.io/siderolabs/kubelet:v1.34.1"));
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
                              Value::string(image.substr(0, image.rfind(':')) + ":v1.34.1"));
    }
    cluster.find("controlPlane")->set("endpoint", Value::string("https://10.5.0.2:6443"));
    cluster.find({"apiServer", "certSANs"})->items().front() = Value::string("10.5.0.2");
    base_ = text::parse_yaml(emit(base_), "base");  // what changes add comes behind
    cases_ = text::parse_json(test::read_file(folder + "talos-node/config-cases.json"), "cases");
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
    machine.platform = "container";
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

 private:
  const Configs& configs_;
};

/// Calls whose ids begin alike were made in one state; this brings it about.
std::unique_ptr<Site> make_site(const std::string& file, const std::string& group,
                                const Configs& configs) {
  auto site = std::make_unique<Site>(configs);
  using Kubernetes = Site::Kubernetes;
  const auto several = [&](std::size_t count) {
    const char* names[] = {"cp1", "cp2", "cp3"};
    for (std::size_t i = 0; i < count; ++i) {
      const std::string address = fmt::format("10.5.0.{}", i + 2);
      site->control_plane(address, names[i], "v1.11.5", Kubernetes::Alone);
      if (i == 0) site->bootstrap(address);
    }
    site->world.run_for(30s);
  };
  if (group == "v13run") {
    site->control_plane("10.5.0.8", "g3");
    site->bootstrap("10.5.0.8");
    NodeTiming slow;
    slow.etcd_join = 1h;  // it was still a learner when it was asked
    site->control_plane("10.5.0.13", "v13", "v1.13.0", Kubernetes::Alone, slow);
    site->world.run_for(20s);
  } else if (group == "v13") {
    site->add("10.5.0.13", "v13", "v1.13.0", Kubernetes::Off);
  } else if (group == "maint") {
    site->add("10.5.0.2", "cp1", "v1.11.5", Kubernetes::Off);
  } else if (group == "pre" || group == "ident" || group == "boot") {
    site->control_plane("10.5.0.2", "cp1");
  } else if (group == "recover" || group == "recover2") {
    site->control_plane("10.5.0.2", "cp1", "v1.11.5", Kubernetes::Alone);
  } else if (group == "etcd" || group == "run" || file == "role-matrix") {
    site->control_plane("10.5.0.2", "cp1");
    site->bootstrap("10.5.0.2");
  } else if (group == "ctr") {
    site->control_plane("10.5.0.4", "cp3");
    site->bootstrap("10.5.0.4");
  } else if (group == "try") {
    site->control_plane("10.5.0.8", "g3");
    site->bootstrap("10.5.0.8");
  } else if (group == "ready") {
    site->control_plane("10.5.0.8", "g3", "v1.11.5", Kubernetes::Whole);
    site->bootstrap("10.5.0.8");
    site->world.run_for(1min);
  } else if (group == "three" || group == "leave") {
    several(3);
  } else if (group == "remove") {
    several(2);  // the third had left before
  } else if (group == "noquorum") {
    several(3);
    site->nodes[1]->power_off();
    site->nodes[2]->power_off();
  } else if (group == "worker" || group == "multi" || group == "state") {
    const Kubernetes all = group == "state" ? Kubernetes::Alone : Kubernetes::Off;
    site->control_plane("10.5.0.2", "cp1", "v1.11.5",
                        group == "state" ? Kubernetes::Whole : Kubernetes::Off);
    site->bootstrap("10.5.0.2");
    site->control_plane("10.5.0.3", "cp2", "v1.11.5", all);
    site->add("10.5.0.5", "w1", "v1.11.5", all);
    site->configure("10.5.0.5", configs.worker(), true);
  } else {
    return nullptr;
  }
  return site;
}

std::string case_of(const std::string& id) {
  for (const char* prefix : {"maint-dry-", "run-dryinvalid-", "v13-dry-"})
    if (id.starts_with(prefix)) return id.substr(std::string_view(prefix).size());
  if (id.starts_with("run-dry-") || id.starts_with("v13run-dry-")) {
    const std::string rest = id.substr(id.find("-dry-") + 1);
    return "run-" + rest.substr(0, rest.rfind('-'));
  }
  if (id.ends_with("-label")) return "run-dry-label";
  if (id.ends_with("-token")) return "run-dry-token";
  if (id.ends_with("-env")) return "run-dry-env";
  if (id.find("sysctl") != std::string::npos || id.starts_with("v13run-try-"))
    return "run-dry-sysctl";
  // What was tried is told by the resource that was looked at afterwards.
  for (const char* part : {"try-single", "commit-", "twice-1", "twice-2", "v13run-single"})
    if (id.find(part) != std::string::npos && !id.ends_with("-reset")) return "tried";
  return "good";
}

std::optional<std::string> apply_request(const Value& request, const std::string& id,
                                         const Configs& configs) {
  // Short texts are in the recording, long ones only by their change.
  const std::string data = text_at(request, "data");
  const auto text = data == "<config text>" ? configs.make(case_of(id)) : from_base64(data);
  if (!text) return std::nullopt;
  std::string out;
  put_bytes(out, 1, *text);
  static const std::map<std::string, unsigned> modes{
      {"AUTO", 1}, {"NO_REBOOT", 2}, {"STAGED", 3}, {"TRY", 4}};
  if (const std::string mode = text_at(request, "mode"); !mode.empty()) {
    const auto named = modes.find(mode);
    put_varint(out, 4, named == modes.end() ? parse_uint(mode).value_or(0) : named->second);
  }
  if (text_at(request, "dry_run") == "true") put_varint(out, 5, 1);
  if (const std::string timeout = text_at(request, "try_mode_timeout"); !timeout.empty()) {
    std::string duration;
    put_varint(duration, 1, parse_uint(timeout.substr(0, timeout.size() - 1)).value_or(0));
    put_bytes(out, 6, duration);
  }
  return out;
}

/// Member ids of a recording and whose they are: the decoded answers mask them, their bytes do not.
std::map<std::string, std::string> recorded_members(const std::vector<Value>& calls,
                                                    const Descriptors& descriptors) {
  std::map<std::string, std::string> out;
  for (const Value& call : calls) {
    const std::string method = text_at(call, "method");
    const Value* responses = call.find("responses");
    if (!method.ends_with("/EtcdMemberList") || responses == nullptr) continue;
    for (const Value& response : responses->items()) {
      const auto bytes = from_hex(text_at(response, "hex"));
      if (!bytes || bytes->empty()) continue;
      const Value json = descriptors.decode(descriptors.response_of(method), *bytes);
      if (const Value* messages = json.find("messages"))
        for (const Value& message : messages->items())
          if (const Value* list = message.find("members"))
            for (const Value& member : list->items())
              out[text_at(member, "id")] = text_at(member, "hostname");
    }
  }
  return out;
}

/// The stream of a real etcd's snapshot.
std::string real_snapshot() {
  const std::string path = test::shared_folder() + "/vectors/talos/etcd-snapshot/sample.json";
  const Value sample = text::parse_json(test::read_file(path), "sample");
  std::string packed = from_base64(text_at(sample, "gzip_base64")).value_or("");
  std::string out(parse_uint(text_at(sample, "size")).value_or(0), '\0');
  z_stream stream{};
  inflateInit2(&stream, 16 + MAX_WBITS);
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  return out;
}

/// The uploads: their bytes were left out of the recordings, so a real snapshot stands for them.
std::vector<std::string> recover_requests(const Value& request, const std::string& id) {
  std::string bytes = from_base64(text_at(request, "bytes")).value_or("");
  if (text_at(request, "bytes") == "<chunk>") {
    bytes = real_snapshot();
    if (id.find("truncated") != std::string::npos) bytes.resize(bytes.size() - 32);
  }
  std::vector<std::string> out;
  for (std::size_t at = 0; at < bytes.size(); at += 4096) {
    out.emplace_back();
    put_bytes(out.back(), 2, bytes.substr(at, 4096));
  }
  return out;
}

/// Secrets stand in the lab's texts where the recordings have marks.
std::string masked(const std::string& text) {
  static const std::regex pem(R"((crt|key): [A-Za-z0-9+/=]{40,})");
  static const std::regex secret(R"(\b(token|id|secret|secretboxEncryptionSecret): (?!<)[^\n"]*)");
  static const std::regex port("[0-9]+->|<port>->");
  static const std::regex digest(R"(got \[[0-9 ]+\])");  // of another snapshot than the recorder's
  std::string out = std::regex_replace(text, pem, "$1: <pem-base64>");
  out = std::regex_replace(out, secret, "$1: <secret>");
  out = std::regex_replace(out, digest, "got <digest>");
  return std::regex_replace(out, port, "<port>->");
}

/// Whether a condition was met before it was waited for, and a health check that failed once on a
/// machine under load, are chance; what came of it is not.
bool is_chance(const Value& event) {
  const std::string text = text_at(event, "msg");
  return text_at(event, "state") == "Waiting" ? !text.starts_with("Runner ")
                                              : text.starts_with("Health check");
}

Value masked(const Value& json) {
  if (json.is_map() && json.find("events") != nullptr && json.find("events")->is_list()) {
    Value events = Value::list();
    for (const Value& event : json.find("events")->items())
      if (!is_chance(event)) events.append(masked(event));
    Value out = Value::map();
    out.set("events", std::move(events));
    return out;
  }
  if (json.is_map()) {
    Value out = Value::map();
    for (const text::Entry& entry : json.entries()) out.set(entry.key, masked(entry.value));
    return out;
  }
  if (json.is_list()) {
    Value out = Value::list();
    for (const Value& item : json.items()) out.append(masked(item));
    return out;
  }
  return json.is_string() ? Value::string(masked(json.text())) : json;
}

/// Why the lab does not agree with a recorded call; "" if it does.
std::string compare(const Value& entry, const Outcome& outcome, const Descriptors& descriptors) {
  const std::string code = text_at(entry, "grpc_code");
  const std::string message = text_at(entry, "grpc_message");
  const bool cut = entry.find("ended_by") != nullptr ||
                   (code == "DeadlineExceeded" && outcome.code == "DeadlineExceeded");
  if (!cut && outcome.code != code)
    return fmt::format("code {} ({}), recorded {} ({})", outcome.code, outcome.message, code,
                       message);
  // The words of a failed connection are the client's own.
  const bool ours = code == "Unavailable" && message.find("desc = \"") != std::string::npos &&
                    entry.find("metadata") == nullptr;
  if (!cut && !ours && masked(outcome.message) != masked(message))
    return fmt::format("message {:?}, recorded {:?}", outcome.message, message);
  const Value* responses = entry.find("responses");
  if (responses == nullptr) return "";
  if (responses->size() != outcome.answers.size())
    return fmt::format("{} messages, recorded {}", outcome.answers.size(), responses->size());
  const std::string type = descriptors.response_of(text_at(entry, "method"));
  for (std::size_t i = 0; i < outcome.answers.size(); ++i) {
    const Value* json = responses->items()[i].find("json");
    if (json == nullptr || json->is_null()) continue;
    const Value mine = masked(comparable(descriptors.decode(type, outcome.answers[i])));
    const Value theirs = masked(comparable(*json));
    if (!(mine == theirs))
      return fmt::format("message {}\n    lab      {}\n    recorded {}", i, text::emit_json(mine),
                         text::emit_json(theirs));
  }
  return "";
}

TEST(TalosNodeLab, RestoresTheSnapshotOfARealEtcd) {
  test::count_case();
  const std::string snapshot = real_snapshot();
  EXPECT_EQ(snapshot.size() % 512, 32u);
  const EtcdCluster::Restored good = EtcdCluster::restore(snapshot, false);
  ASSERT_EQ(good.error, "");
  EXPECT_THAT(good.cluster->data(),
              testing::IsSupersetOf({testing::Pair("k1", "v1"), testing::Pair("k3", "v3")}));
  EXPECT_THAT(good.cluster->members(), testing::IsEmpty());
  // Without its hash, cut, and changed: none of them is taken for a whole one.
  const EtcdCluster::Restored bare =
      EtcdCluster::restore(snapshot.substr(0, snapshot.size() - 32), false);
  EXPECT_THAT(bare.error,
              testing::StartsWith("error recovering from the snapshot: expected sha256"));
  EXPECT_TRUE(bare.dirty);
  std::string changed = snapshot;
  changed[9000] ^= 1;
  EXPECT_THAT(EtcdCluster::restore(changed, false).error, testing::HasSubstr("expected sha256"));
  EXPECT_EQ(EtcdCluster::restore("garbage", false).error,
            "error verifying snapshot: invalid database");
}

TEST(TalosNodeLab, AnswersAsTheRecordedNodes) {
  const Configs configs;
  const Descriptors descriptors{text::parse_json(
      test::read_file(test::shared_folder() + "/vectors/talos/protobuf/descriptors.json"),
      "descriptors")};
  const std::set<std::string> differences = read_list("replay_differences.txt");
  const char* only = std::getenv("ROCCA_REPLAY");
  std::set<std::string> seen;
  for (const std::string& path : test::reference_files("vectors/talos-node", ".json")) {
    const std::string file =
        path.substr(path.rfind('/') + 1, path.rfind('.') - path.rfind('/') - 1);
    const Value root = text::parse_json(test::read_file(path), file);
    std::vector<Value> calls;
    if (const Value* list = root.find("calls")) calls = list->items();
    if (const Value* methods = root.find("methods"))
      for (const Value& method : methods->items())
        for (const text::Entry& result : method.find("results")->entries()) {
          Value call = Value::map();
          call.set("id", Value::string(text_at(method, "id") + ":" + result.key));
          call.set("node", Value::string("10.5.0.2"));
          call.set("identity", Value::string(result.key));
          call.set("method", Value::string(text_at(method, "id")));
          call.set("request_hex", Value::string(""));
          call.set("grpc_code", result.value.items()[0]);
          call.set("grpc_message", result.value.items()[1]);
          calls.push_back(std::move(call));
        }
    const std::map<std::string, std::string> members = recorded_members(calls, descriptors);
    std::size_t agree = 0, deliberate = 0;
    std::string group;
    std::unique_ptr<Site> site;
    for (const Value& entry : calls) {
      const std::string id = text_at(entry, "id");
      const std::string name = file + "/" + id;
      seen.insert(name);
      if (only != nullptr && name.find(only) == std::string::npos) continue;
      test::count_case();
      // "boot-servicelist-14s": so long after what went before.
      static const std::regex after(".*-([0-9]+)s");
      std::smatch seconds;
      const std::string next = id.substr(0, id.find('-'));
      if (!site || next != group) {
        group = next;
        site = make_site(file, group, configs);
      }
      std::string why = "no such state";
      if (site) {
        std::vector<std::string> requests{from_hex(text_at(entry, "request_hex")).value_or("")};
        const Value* request = entry.find("request");
        bool known = true;
        if (request != nullptr && !text_at(*request, "data").empty() &&
            text_at(entry, "method").ends_with("/ApplyConfiguration")) {
          const auto made = apply_request(*request, id, configs);
          known = made.has_value();
          if (made) requests = {*made};
        }
        if (text_at(entry, "method").ends_with("/EtcdRecover") && request != nullptr)
          requests = recover_requests(*request, id);
        if (text_at(entry, "method").ends_with("/EtcdRemoveMemberByID") && request != nullptr)
          if (const auto own = site->member_id(members, text_at(*request, "member_id"))) {
            requests = {""};
            put_varint(requests.front(), 1, *own);
          }
        net::Headers metadata;
        if (const Value* fields = entry.find("metadata"))
          for (const text::Entry& field : fields->entries())
            for (const Value& value : field.value.items()) metadata.add(field.key, value.text());
        if (id.ends_with("-apply-again"))  // right behind the first one
          site->call(text_at(entry, "node"), text_at(entry, "identity"), text_at(entry, "method"),
                     requests, metadata, 4s, 0);
        if (group == "boot" && std::regex_match(id, seconds, after))
          site->world.run_for(std::chrono::seconds{std::stoi(seconds[1])});
        const Value* responses = entry.find("responses");
        const bool enough = entry.find("ended_by") != nullptr && responses != nullptr;
        const Outcome outcome =
            site->call(text_at(entry, "node"), text_at(entry, "identity"), text_at(entry, "method"),
                       requests, metadata, 4s, enough ? responses->size() : 0);
        why = known ? compare(entry, outcome, descriptors) : "the change is not understood";
        site->world.run_for(group == "recover2" ? 10s : 1s);
      }
      if (why.empty()) {
        ++agree;
        EXPECT_FALSE(differences.contains(name))
            << name << " agrees now: take it off replay_differences.txt";
        continue;
      }
      if (differences.contains(name)) ++deliberate;
      if (only != nullptr || !differences.contains(name)) ADD_FAILURE() << name << ": " << why;
    }
    if (!calls.empty())
      fmt::print("{:<32} {:>4} calls, {:>4} agree, {:>3} differ on purpose\n", file, calls.size(),
                 agree, deliberate);
  }
  for (const std::string& name : differences)
    EXPECT_TRUE(seen.contains(name)) << name << " of replay_differences.txt is not recorded";
}

}  // namespace
}  // namespace rocca::lab::talos
