#include "lab/talos/config.hpp"

#include "base/address.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "lab/talos/config_check.hpp"
#include "lab/talos/config_schema.hpp"
#include "net/http.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace rocca::lab::talos {

namespace {

using text::Value;

/// From 1.12.7 on decoding says in which document and line it happened.
bool names_documents(const Version& release) {
  return release.minor() >= 13 || (release.minor() == 12 && release.patch() >= 7);
}

/// When each kind came; all up to the newest release are known to it.
const std::map<std::string, unsigned, std::less<>>& kinds() {
  static const std::map<std::string, unsigned, std::less<>> all = [] {
    std::map<std::string, unsigned, std::less<>> out;
    const auto add = [&](unsigned since, std::string_view names) {
      for (const std::string& name : split(names, ' ')) out[name] = since;
    };
    add(9,
        "EventSinkConfig ExtensionServiceConfig KmsgLogConfig KubeSpanEndpointsConfig "
        "NetworkDefaultActionConfig NetworkRuleConfig SideroLinkConfig TrustedRootsConfig "
        "VolumeConfig WatchdogTimerConfig");
    add(10, "EthernetConfig PCIDriverRebindConfig UserVolumeConfig");
    add(11, "ExistingVolumeConfig RawVolumeConfig SwapVolumeConfig ZswapConfig");
    add(12,
        "BondConfig BridgeConfig DHCPv4Config DHCPv6Config DummyLinkConfig HCloudVIPConfig "
        "Layer2VIPConfig LinkAliasConfig LinkConfig VLANConfig WireguardConfig StaticHostConfig "
        "HostnameConfig ResolverConfig TimeSyncConfig OOMConfig RegistryAuthConfig "
        "RegistryMirrorConfig RegistryTLSConfig");
    add(13,
        "BlackholeRouteConfig EnvironmentConfig ExternalVolumeConfig ImageVerificationConfig "
        "KubeSpanConfig RoutingRuleConfig TCPProbeConfig VRFConfig");
    return out;
  }();
  return all;
}

/// go-yaml's words for what our reader found; both stand on the same scanner.
std::string yaml_error(const Error& error, const Version& release) {
  const std::string& message = error.message();
  const auto number = [&](std::size_t from) {
    std::size_t end = from;
    while (end < message.size() && message[end] >= '0' && message[end] <= '9') ++end;
    return message.substr(from, end - from);
  };
  std::string line = number(message.find(':') + 1);
  // go-yaml counts from nought where its parser complains, and from one where its scanner does.
  if (message.find("did not find expected node content") != std::string::npos && line != "1")
    line = std::to_string(parse_uint(line).value_or(1) - 1);
  const auto twice = message.find("stands twice");
  if (twice != std::string::npos) {
    const auto open = message.find('`');
    const auto close = message.find('`', open + 1);
    return fmt::format(
        "error decoding  to *v1alpha1.Config: yaml: {} errors:\n  line {}: mapping key \"{}\" "
        "already defined at line {}",
        release.minor() >= 13 ? "construct" : "unmarshal", line,
        message.substr(open + 1, close - open - 1), number(message.find("at line ") + 8));
  }
  // Our reader has a kinder word for it.
  if (message.find("a tab cannot indent YAML") != std::string::npos)
    return fmt::format("decode error: yaml: {}line {}: found character that cannot start any token",
                       release.minor() >= 13 ? "while scanning for the next token at " : "", line);
  const auto space = message.find(": ");
  std::string what = space == std::string::npos ? message : message.substr(space + 2);
  std::string context;
  if (const auto begin = what.find(" ("); begin != std::string::npos) {
    context = what.substr(begin + 2, what.size() - begin - 3);
    what.resize(begin);
  }
  if (release.minor() < 13 || context.empty())
    return fmt::format("decode error: yaml: line {}: {}", line, what);
  const auto begins = context.find(" that begins at line ");
  if (begins != std::string::npos)
    return fmt::format("decode error: yaml: {} at line {}, column 10: line {}: {}",
                       context.substr(0, begins), context.substr(begins + 21), line, what);
  return fmt::format("decode error: yaml: {} at line {}: {}", context, line, what);
}

std::string decode_prefix(const MachineConfig::Document& document, const Version& release) {
  if (!names_documents(release)) return "";
  return fmt::format("error decoding document {}/{}/{} (line {}): ", document.api, document.kind,
                     document.name, document.line);
}

}  // namespace

std::string errors_text(const std::vector<std::string>& errors) {
  std::string out = errors.size() == 1 ? "1 error occurred:\n"
                                       : fmt::format("{} errors occurred:\n", errors.size());
  for (const std::string& error : errors) out += "\t* " + error + "\n";
  return out + "\n";
}

namespace {

/// What a value says to a decoder that cannot use it, in the words of go-yaml and of Talos.
std::string decode_error(const MachineConfig::Document& document, const std::string& go_type,
                         const WrongScalar& wrong, const Version& release) {
  const char* verb = release.minor() >= 13 ? "construct" : "unmarshal";
  const std::string kind = document.kind == "v1alpha1" ? "" : document.kind;
  std::string text =
      decode_prefix(document, release) + fmt::format("error decoding {} to {}: ", kind, go_type);
  // Up to 1.11 what Talos's own types complain about has no line.
  if (!wrong.complaint.empty() && release.minor() < 12) return text + wrong.complaint;
  text += fmt::format("yaml: {} errors:\n  line {}: ", verb, wrong.line);
  if (!wrong.complaint.empty()) return text + wrong.complaint;
  return text + fmt::format("cannot {} {} into {}", verb, wrong.found, wrong.wanted);
}

void check_shape(const MachineConfig::Document& document, const Value& root, const Shape& shape,
                 const std::string& go_type, const Version& release) {
  const auto minor = static_cast<unsigned>(release.minor());
  if (const auto wrong = wrong_scalar(root, shape, minor))
    throw ConfigError{decode_error(document, go_type, *wrong, release)};
  const Value unknown = unknown_parts(root, shape, minor);
  if (!unknown.is_null())
    throw ConfigError{decode_prefix(document, release) + "unknown keys found during decoding:\n" +
                      text::emit_yaml(unknown, {.indent = 4})};
}

MachineConfig::Document read_document(Value root, const Version& release) {
  MachineConfig::Document document;
  document.line = root.entries().empty() ? 1 : root.entries().front().key_place.line;
  document.kind = text_at(root, "kind");
  document.api = text_at(root, "apiVersion");
  document.name = text_at(root, "name");
  if (document.kind.empty()) {
    document.kind = "v1alpha1";
    const Shape& shape = v1alpha1_shape();
    const bool any =
        std::any_of(root.entries().begin(), root.entries().end(), [&](const text::Entry& entry) {
          return shape.find(entry.key) != nullptr && entry.key != "version";
        });
    if (!any && root.find("apiVersion") == nullptr)
      throw ConfigError{decode_prefix(document, release) + "missing kind"};
    check_shape(document, root, shape, "*v1alpha1.Config", release);
    // Talos writes this one even if nobody said it.
    if (Value* install = root.find({"machine", "install"});
        install != nullptr && install->is_map() && install->find("wipe") == nullptr)
      install->set("wipe", Value::null());
    document.value = ordered(root, shape);
    document.name.clear();
    return document;
  }
  const auto known = kinds().find(document.kind);
  if (document.api.empty() && names_documents(release))
    throw ConfigError{decode_prefix(document, release) + "missing apiVersion"};
  if (document.api != "v1alpha1" || known == kinds().end() || known->second > release.minor())
    throw ConfigError{decode_prefix(document, release) +
                      fmt::format("\"{}\" \"{}\": not registered", document.kind, document.api)};
  if (const DocumentShape* shape = find_document_shape(document.kind))
    check_shape(document, root, shape->shape, shape->go_type, release);
  document.value = std::move(root);
  return document;
}

/// Two documents that describe the same link.
void check_links(const std::vector<MachineConfig::Document>& documents) {
  static const std::set<std::string> kinds{"LinkConfig",   "DummyLinkConfig", "BondConfig",
                                           "BridgeConfig", "VLANConfig",      "WireguardConfig",
                                           "VRFConfig"};
  std::map<std::string, std::string> seen;
  for (const MachineConfig::Document& document : documents) {
    if (!kinds.contains(document.kind)) continue;
    const auto [found, fresh] = seen.emplace(document.name, document.kind);
    if (!fresh)
      throw ConfigError{fmt::format("conflicting documents: {}/{} and {}/{}", found->second,
                                    document.name, document.kind, document.name)};
  }
}

}  // namespace

MachineConfig MachineConfig::parse(std::string text, const Version& release) {
  MachineConfig config;
  std::string plain = text.starts_with("\xef\xbb\xbf") ? text.substr(3) : text;
  std::vector<Value> roots;
  try {
    roots = text::parse_yaml_stream(plain, "c", {.size = 32u << 20});
  } catch (const Error& error) {
    std::string what = yaml_error(error, release);
    if (what.find("already defined") != std::string::npos && names_documents(release))
      what = "error decoding document /v1alpha1/ (line 1): " + what;
    throw ConfigError{std::move(what)};
  }
  config.text_ = std::move(text);
  std::set<std::string> seen;
  for (Value& root : roots) {
    if (root.is_null() && (names_documents(release) || trim(plain).empty())) continue;
    if (!root.is_map())
      throw ConfigError{names_documents(release)
                            ? fmt::format("expected a YAML document at line {}", root.place().line)
                            : "recovered: expected a mapping node"};
    Document document = read_document(std::move(root), release);
    const std::string id = document.kind == "v1alpha1" ? "/v1alpha1/"
                                                       : fmt::format("{}/{}/{}", document.api,
                                                                     document.kind, document.name);
    if (!seen.insert(id).second)
      throw ConfigError{fmt::format("duplicate document {} is not allowed", id) +
                        (names_documents(release) ? fmt::format(" (line {})", document.line) : "")};
    config.documents_.push_back(std::move(document));
  }
  if (config.documents_.empty()) throw ConfigError{"config not found"};
  check_links(config.documents_);
  return config;
}

std::string MachineConfig::canonical() const {
  std::vector<Value> values;
  for (const Document& document : documents_) values.push_back(document.value);
  return text::emit_yaml_stream(values, {.indent = 4});
}

const Value* MachineConfig::main() const {
  const Document* found = find("v1alpha1");
  return found == nullptr ? nullptr : &found->value;
}

const MachineConfig::Document* MachineConfig::find(std::string_view kind,
                                                   std::string_view name) const {
  for (const Document& document : documents_)
    if (document.kind == kind && (name.empty() || document.name == name)) return &document;
  return nullptr;
}

std::string MachineConfig::get(std::initializer_list<std::string_view> path) const {
  const Value* root = main();
  const Value* found = root == nullptr ? nullptr : root->find(path);
  return found == nullptr || !found->is_scalar() || found->is_null() ? "" : found->text();
}

bool MachineConfig::is_control_plane() const {
  const std::string type = get({"machine", "type"});
  return type == "controlplane" || type == "init";
}

std::optional<std::string> MachineConfig::validate(std::string_view mode, bool installed,
                                                   const Version& release, Images images) const {
  std::vector<std::string> all;
  const bool nested = release.minor() >= 12;
  if (main() != nullptr) {
    std::vector<std::string> errors = check_main(*this, mode, installed, release);
    if (images == Images::Check && main()->find("machine") != nullptr)
      check_images(*this, release, errors);
    if (nested && !errors.empty())
      all.push_back("v1alpha1.Config: " + errors_text(errors));
    else
      all = std::move(errors);
  }
  for (const Document& document : documents_) {
    if (document.kind == "v1alpha1") continue;
    // A kind that has names shows even an empty one.
    const bool named = !document.name.empty() || is_named_kind(document.kind);
    for (const std::string& error : check_document(document, release))
      all.push_back(
          nested ? fmt::format("{}{}{}: {}", document.kind, named ? "/" : "", document.name, error)
                 : error);
  }
  if (all.empty()) all = check_conflicts(*this);
  if (all.empty()) return std::nullopt;
  return errors_text(all);
}

std::vector<std::string> MachineConfig::warnings(const Version& release) const {
  std::vector<std::string> all;
  const Value* root = main();
  if (root != nullptr) {
    const Value* machine = root->find("machine");
    if (machine != nullptr && machine->is_map() && text_at(*machine, "type").empty())
      all.emplace_back("use \"worker\" instead of \"\" for machine type");
    if (const Value* extensions = root->find({"machine", "install", "extensions"});
        extensions != nullptr && extensions->size() != 0)
      all.emplace_back(
          release.minor() >= 13
              ? ".machine.install.extensions is deprecated, please see "
                "https://docs.siderolabs.com/talos/latest/platform-specific-installations/"
                "boot-assets"
              : ".machine.install.extensions is deprecated, please see "
                "https://www.talos.dev/latest/talos-guides/install/boot-assets/");
    if (const Value* links = root->find({"machine", "network", "interfaces"}))
      for (const Value& link : links->items())
        if (is_set(link, "cidr"))
          all.push_back(
              fmt::format("\"{}\": machine.network.interface.cidr is deprecated, please use "
                          "machine.network.interface.addresses",
                          text_at(link, "interface")));
    if (const Value* cni = root->find({"cluster", "network", "cni"});
        cni != nullptr && text_at(*cni, "name") == "custom" && !is_set(*cni, "urls"))
      all.emplace_back("\"urls\" field should not be empty for \"custom\" CNI");
  }
  // 1.12.0 did not look at them yet.
  if (release < Version(1, 12, 1)) return all;
  for (const Document& document : documents_)
    if (document.kind == "BondConfig" && text_at(document.value, "bondMode") == "802.3ad")
      for (const char* key : {"miimon", "updelay", "downdelay"})
        if (document.value.find(key) == nullptr)
          all.push_back(fmt::format("{} was not specified for 802.3ad bond", key));
  return all;
}

bool MachineConfig::can_follow(const MachineConfig& before) const {
  const auto stripped = [](const MachineConfig& config) {
    Value value = config.main() == nullptr ? Value::map() : *config.main();
    value.erase("debug");
    value.erase("cluster");
    if (Value* machine = value.find("machine")) {
      for (const char* key :
           {"ca", "acceptedCAs", "time", "certSANs", "install", "network", "sysfs", "sysctls",
            "logging", "controlPlane", "kubelet", "kernel", "registries", "pods", "seccompProfiles",
            "nodeLabels", "nodeAnnotations", "nodeTaints"})
        machine->erase(key);
      if (Value* features = machine->find("features"))
        for (const char* key : {"kubernetesTalosAPIAccess", "kubePrism", "hostDNS", "imageCache",
                                "nodeAddressSortAlgorithm"})
          features->erase(key);
    }
    return value;
  };
  return stripped(*this) == stripped(before);
}

std::string unified_diff(const std::string& before, const std::string& after) {
  if (before == after) return "";
  const auto lines_of = [](const std::string& text) {
    std::vector<std::string> lines = split(text, '\n');
    if (!lines.empty() && lines.back().empty()) lines.pop_back();
    return lines;
  };
  const std::vector<std::string> a = before.empty() ? std::vector<std::string>{} : lines_of(before);
  const std::vector<std::string> b = after.empty() ? std::vector<std::string>{} : lines_of(after);
  // Longest common subsequence by a table: configs have hundreds of lines, not thousands.
  std::vector<std::vector<unsigned>> common(a.size() + 1, std::vector<unsigned>(b.size() + 1));
  for (std::size_t i = a.size(); i-- > 0;)
    for (std::size_t j = b.size(); j-- > 0;)
      common[i][j] =
          a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
  struct Line {
    char sign;
    const std::string* text;
    std::size_t a, b;  // how many lines came before
  };
  std::vector<Line> script;
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      script.push_back({' ', &a[i], i, j});
      ++i, ++j;
    } else if (i < a.size() && (j == b.size() || common[i + 1][j] >= common[i][j + 1])) {
      script.push_back({'-', &a[i], i, j});
      ++i;
    } else {
      script.push_back({'+', &b[j], i, j});
      ++j;
    }
  }
  constexpr std::size_t context = 3;
  std::string out = "--- a\n+++ b\n";
  for (std::size_t at = 0; at < script.size();) {
    if (script[at].sign == ' ') {
      ++at;
      continue;
    }
    const std::size_t begin = at > context ? at - context : 0;
    std::size_t end = at;
    for (std::size_t next = at; next < script.size() && next <= end + 2 * context; ++next)
      if (script[next].sign != ' ') end = next;
    end = std::min(script.size(), end + context + 1);
    std::size_t from = 0, to = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (script[i].sign != '+') ++from;
      if (script[i].sign != '-') ++to;
    }
    const auto range = [](std::size_t start, std::size_t count) {
      if (count == 1) return std::to_string(start + 1);
      return fmt::format("{},{}", count == 0 ? start : start + 1, count);
    };
    out += fmt::format("@@ -{} +{} @@\n", range(script[begin].a, from), range(script[begin].b, to));
    for (std::size_t i = begin; i < end; ++i)
      out += fmt::format("{}{}\n", script[i].sign, *script[i].text);
    at = end;
  }
  return out;
}

}  // namespace rocca::lab::talos
