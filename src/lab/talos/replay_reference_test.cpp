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

  TalosNode& add(const std::string& address, const std::string& name, const std::string& version,
                 bool kubernetes) {
    Machine machine;
    machine.platform = "container";
    machine.version = version;
    machine.hostname = name;
    machine.kubernetes = kubernetes;
    machine.resolvers = {"10.5.0.1"};
    machine.links = {{"eth0", "86:b4:6d:97:fb:b3", Link::Lease{address + "/24", "10.5.0.1"}}};
    nodes.push_back(std::make_unique<TalosNode>(fleet, machine));
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
                     const std::string& version = "v1.11.5", bool kubernetes = false) {
    add(address, name, version, kubernetes);
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
    const SigningAuthority authority = configs_.authority();
    const bool blind = identity.ends_with("+noverify") || identity == "none";
    identity = identity.substr(0, identity.find('+'));
    net::Tls out = blind ? net::Tls::unverified() : net::Tls::authority(authority.certificate_pem);
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
  const auto three = [&] {
    site->control_plane("10.5.0.2", "cp1");
    site->bootstrap("10.5.0.2");
    site->control_plane("10.5.0.3", "cp2");
    site->control_plane("10.5.0.4", "cp3");
    site->world.run_for(30s);
  };
  if (group == "v13run") {
    site->control_plane("10.5.0.13", "v13", "v1.13.0");
    site->bootstrap("10.5.0.13");
  } else if (group == "v13") {
    site->add("10.5.0.13", "v13", "v1.13.0", false);
  } else if (group == "maint") {
    site->add("10.5.0.2", "cp1", "v1.11.5", false);
  } else if (group == "pre" || group == "ident" || group == "boot" || group == "recover" ||
             group == "recover2") {
    site->control_plane("10.5.0.2", "cp1");
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
    site->control_plane("10.5.0.8", "g3", "v1.11.5", true);
    site->bootstrap("10.5.0.8");
    site->world.run_for(1min);
  } else if (group == "three" || group == "leave" || group == "remove") {
    three();
  } else if (group == "noquorum") {
    three();
    site->nodes[1]->power_off();
    site->nodes[2]->power_off();
  } else if (group == "worker" || group == "multi" || group == "state") {
    site->control_plane("10.5.0.2", "cp1", "v1.11.5", group == "state");
    site->bootstrap("10.5.0.2");
    site->control_plane("10.5.0.3", "cp2", "v1.11.5", group == "state");
    site->add("10.5.0.5", "w1", "v1.11.5", group == "state");
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
  if (id.find("sysctl") != std::string::npos) return "run-dry-sysctl";
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

/// Secrets stand in the lab's texts where the recordings have marks.
std::string masked(const std::string& text) {
  static const std::regex pem(R"((crt|key): [A-Za-z0-9+/=]{40,})");
  static const std::regex secret(R"(\b(token|id|secret|secretboxEncryptionSecret): (?!<)[^\n"]*)");
  static const std::regex port("[0-9]+->|<port>->");
  std::string out = std::regex_replace(text, pem, "$1: <pem-base64>");
  out = std::regex_replace(out, secret, "$1: <secret>");
  return std::regex_replace(out, port, "<port>->");
}

Value masked(const Value& json) {
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

TEST(TalosNodeLab, AnswersAsTheRecordedNodes) {
  const Configs configs;
  const Descriptors descriptors{text::parse_json(
      test::read_file(test::shared_folder() + "/vectors/talos/protobuf/descriptors.json"),
      "descriptors")};
  const std::set<std::string> not_yet = read_list("replay_not_yet.txt");
  const std::set<std::string> differences = read_list("replay_differences.txt");
  const char* only = std::getenv("ROCCA_REPLAY");
  const bool write = std::getenv("ROCCA_REPLAY_WRITE") != nullptr;
  std::set<std::string> seen, failing;
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
    std::size_t agree = 0, deliberate = 0;
    std::string group;
    std::unique_ptr<Site> site;
    for (const Value& entry : calls) {
      const std::string id = text_at(entry, "id");
      const std::string name = file + "/" + id;
      seen.insert(name);
      if (differences.contains(name)) {
        ++deliberate;
        continue;
      }
      if (only != nullptr && name.find(only) == std::string::npos) continue;
      test::count_case();
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
        net::Headers metadata;
        if (const Value* fields = entry.find("metadata"))
          for (const text::Entry& field : fields->entries())
            for (const Value& value : field.value.items()) metadata.add(field.key, value.text());
        const Value* responses = entry.find("responses");
        const bool enough = entry.find("ended_by") != nullptr && responses != nullptr;
        const Outcome outcome =
            site->call(text_at(entry, "node"), text_at(entry, "identity"), text_at(entry, "method"),
                       requests, metadata, 4s, enough ? responses->size() : 0);
        why = known ? compare(entry, outcome, descriptors) : "the change is not understood";
        site->world.run_for(1s);
      }
      if (why.empty()) {
        ++agree;
        if (not_yet.contains(name) && !write)
          ADD_FAILURE() << name << " agrees now: take it off replay_not_yet.txt";
        continue;
      }
      failing.insert(name);
      if (only != nullptr || (!write && !not_yet.contains(name)))
        ADD_FAILURE() << name << ": " << why;
    }
    if (!calls.empty())
      fmt::print("{:<32} {:>4} calls, {:>4} agree, {:>3} differ on purpose\n", file, calls.size(),
                 agree, deliberate);
  }
  for (const std::string& name : differences)
    EXPECT_TRUE(seen.contains(name)) << name << " of replay_differences.txt is not recorded";
  for (const std::string& name : not_yet)
    EXPECT_TRUE(seen.contains(name)) << name << " of replay_not_yet.txt is not recorded";
  if (write && only == nullptr) {
    std::ofstream out(here("replay_not_yet.txt"));
    out << "# Recorded calls that the lab's nodes do not answer alike yet. It only shrinks:\n"
           "# ROCCA_REPLAY_WRITE=1 rewrites it, ROCCA_REPLAY=<file>/<id> shows what differs.\n";
    for (const std::string& name : failing) out << name << "\n";
  }
}

}  // namespace
}  // namespace rocca::lab::talos
