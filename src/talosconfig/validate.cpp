#include "talosconfig/validate.hpp"

#include "base/address.hpp"
#include "base/error.hpp"
#include "base/version.hpp"
#include "talos/types.hpp"
#include "talosconfig/check.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace rocca::talos {

using text::Entry;
using text::Value;

namespace {

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/// Kubernetes' name part of a label, and its value: 63 characters, alphanumeric at both ends.
bool is_label_word(std::string_view word) {
  return !word.empty() && word.size() <= 63 && is_alnum(word.front()) && is_alnum(word.back()) &&
         std::all_of(word.begin(), word.end(),
                     [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_label_key(std::string_view key) {
  const auto slash = key.find('/');
  if (slash == std::string_view::npos) return is_label_word(key);
  const std::string_view domain = key.substr(0, slash);
  const bool lower =
      std::none_of(domain.begin(), domain.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  return lower && is_host_name(domain) && is_label_word(key.substr(slash + 1));
}

void check_labels(ConfigCheck& check) {
  const Value& machine = *check.main().find("machine");
  if (const Value* labels = machine.find("nodeLabels")) {
    for (const Entry& entry : labels->entries())
      if (!is_label_key(entry.key) ||
          (!entry.value.text().empty() && !is_label_word(entry.value.text())))
        check.refuse("bad-label", "machine.nodeLabels." + entry.key,
                     "Kubernetes takes no such label", &entry.value);
  }
  if (const Value* annotations = machine.find("nodeAnnotations")) {
    for (const Entry& entry : annotations->entries())
      if (!is_label_key(entry.key))
        check.refuse("bad-annotation", "machine.nodeAnnotations." + entry.key,
                     "Kubernetes takes no such key", &entry.value);
  }
  if (const Value* taints = machine.find("nodeTaints")) {
    for (const Entry& entry : taints->entries()) {
      const std::string& text = entry.value.text();
      const auto colon = text.rfind(':');
      const std::string effect = colon == std::string::npos ? text : text.substr(colon + 1);
      const std::string value = colon == std::string::npos ? "" : text.substr(0, colon);
      const bool known =
          effect == "NoSchedule" || effect == "PreferNoSchedule" || effect == "NoExecute";
      if (!known || !is_label_key(entry.key) || (!value.empty() && !is_label_word(value)))
        check.refuse("bad-taint", "machine.nodeTaints." + entry.key,
                     "a taint is `value:Effect` or `Effect`, with NoSchedule, PreferNoSchedule or "
                     "NoExecute",
                     &entry.value);
    }
  }
}

void check_install(ConfigCheck& check) {
  const Value& machine = *check.main().find("machine");
  const Value* install = machine.find("install");
  if (install == nullptr) {
    if (check.metal())
      check.refuse("install-required", "machine.install", "a machine must be told where to install",
                   &machine);
    return;
  }
  std::set<std::string> seen;
  const Value* extensions = install->find("extensions");
  if (extensions != nullptr && extensions->size() != 0)
    check.warn("deprecated", "machine.install.extensions",
               "extensions come with the image now: name them in talos.extensions", extensions);
  if (extensions != nullptr)
    for (const Value& extension : extensions->items())
      if (!seen.insert(text_below(extension, {"image"})).second)
        check.refuse("duplicate-extension", "machine.install.extensions",
                     "an extension stands twice", &extension);
  const std::string image = text_below(*install, {"image"});
  if (!image.empty() && image.find(':', image.rfind('/') + 1) == std::string::npos)
    check.ours("image-tag", "machine.install.image", "the image has no tag",
               install->find("image"));
  if (!check.metal()) return;
  static constexpr std::array<std::string_view, 4> types{"ssd", "hdd", "nvme", "sd"};
  const Value* selector = install->find("diskSelector");
  if (selector != nullptr) {
    const std::string type = text_below(*selector, {"type"});
    if (!type.empty() && std::find(types.begin(), types.end(), type) == types.end())
      check.refuse("install-selector", "machine.install.diskSelector.type",
                   "not one of ssd, hdd, nvme, sd", selector->find("type"));
    if (!text_below(*selector, {"name"}).empty())
      check.refuse("install-selector", "machine.install.diskSelector.name",
                   "Talos cannot select by name", selector->find("name"));
  }
  if (selector == nullptr && text_below(*install, {"disk"}).empty())
    check.refuse("install-disk", "machine.install", "neither disk nor diskSelector is given",
                 install);
  const Value* arguments = install->find("extraKernelArgs");
  if (arguments != nullptr && arguments->size() != 0 && is_on(*install, {"grubUseUKICmdline"}))
    check.refuse("install-kernel-args", "machine.install.extraKernelArgs",
                 "they cannot stand beside grubUseUKICmdline; put them into the schematic",
                 arguments);
}

void check_kubelet(ConfigCheck& check) {
  static constexpr std::array<std::string_view, 13> fixed{"apiVersion",     "authentication",
                                                          "authorization",  "cgroupRoot",
                                                          "kind",           "port",
                                                          "kubeletCgroups", "protectKernelDefaults",
                                                          "resolvConf",     "rotateCertificates",
                                                          "systemCgroups",  "staticPodPath",
                                                          "seccompDefault"};
  const Value* kubelet = check.main().find({"machine", "kubelet"});
  if (kubelet == nullptr) return;
  if (const Value* extra = kubelet->find("extraConfig"))
    for (const Entry& entry : extra->entries())
      if (std::find(fixed.begin(), fixed.end(), entry.key) != fixed.end())
        check.refuse("kubelet-config", "machine.kubelet.extraConfig." + entry.key,
                     "Talos sets this itself", extra);
  if (const Value* subnets = kubelet->find({"nodeIP", "validSubnets"}))
    for (const Value& subnet : subnets->items())
      if (!Cidr::parse(std::string_view{subnet.text()}.substr(subnet.text().starts_with('!'))))
        check.ours("bad-subnet", "machine.kubelet.nodeIP.validSubnets", "this is no subnet",
                   &subnet);
  if (const Value* servers = kubelet->find("clusterDNS"))
    for (const Value& server : servers->items())
      if (!IpAddress::parse(server.text()))
        check.ours("bad-address", "machine.kubelet.clusterDNS", "this is no IP address", &server);
  if (const Value* mounts = kubelet->find("extraMounts"))
    for (const Value& mount : mounts->items())
      if (text_below(mount, {"source"}).empty() || text_below(mount, {"destination"}).empty())
        check.ours("bad-mount", "machine.kubelet.extraMounts",
                   "a mount needs source and destination", &mount);
  const std::string image = text_below(*kubelet, {"image"});
  if (!image.empty() && image.find(':', image.rfind('/') + 1) == std::string::npos)
    check.ours("image-tag", "machine.kubelet.image", "the image has no tag",
               kubelet->find("image"));
}

/// A node refuses images of a Kubernetes that its Talos does not run; `talosctl validate` does not
/// look.
void check_kubernetes_version(ConfigCheck& check) {
  const auto look = [&](const std::string& path, const Value* image) {
    if (image == nullptr || image->text().find(':') == std::string::npos) return;
    std::string tag = image->text().substr(image->text().rfind(':') + 1);
    for (const std::string_view suffix : {"-fat", "-slim"})
      if (tag.ends_with(suffix)) tag.resize(tag.size() - suffix.size());
    const auto version = Version::parse(tag);
    const std::uint64_t newest = check.minor() + 23;
    if (!version || (version->minor() <= newest && version->minor() + 5 >= newest)) return;
    check.ours(
        "kubernetes-version", path,
        fmt::format("Talos 1.{} runs Kubernetes 1.{} to 1.{}", check.minor(), newest - 5, newest),
        image);
  };
  look("machine.kubelet.image", check.main().find({"machine", "kubelet", "image"}));
  for (const char* part : {"apiServer", "controllerManager", "scheduler"})
    look(fmt::format("cluster.{}.image", part), check.main().find({"cluster", part, "image"}));
}

/// The kernel's settings are lower-case words joined by dots (or slashes); a link's name may be
/// among them.
void check_sysctls(ConfigCheck& check) {
  const Value* sysctls = check.main().find({"machine", "sysctls"});
  if (sysctls == nullptr) return;
  for (const Entry& entry : sysctls->entries())
    if (entry.key.find_first_of("./") == std::string::npos ||
        entry.key.find_first_of(" =\t") != std::string::npos)
      check.ours("bad-sysctl", "machine.sysctls", "this is no setting of the kernel", sysctls);
}

void check_encryption(ConfigCheck& check) {
  for (const std::string_view part : {"state", "ephemeral"}) {
    const Value* encryption = check.main().find({"machine", "systemDiskEncryption", part});
    if (encryption == nullptr) continue;
    const std::string path = fmt::format("machine.systemDiskEncryption.{}", part);
    const Value* keys = encryption->find("keys");
    if (keys == nullptr || keys->size() == 0)
      check.refuse("encryption-keys", path, "no keys are given", encryption);
    std::set<std::string> slots;
    for (std::size_t i = 0; keys != nullptr && i < keys->size(); ++i)
      if (!slots.insert(text_below(keys->items()[i], {"slot"})).second)
        check.refuse("encryption-slot", path, "two keys have one slot", &keys->items()[i]);
  }
}

void check_files_and_modules(ConfigCheck& check) {
  const Value& machine = *check.main().find("machine");
  if (const Value* files = machine.find("files"))
    for (const Value& file : files->items()) {
      const std::string op = text_below(file, {"op"});
      if (op != "create" && op != "append" && op != "overwrite")
        check.ours("bad-file", "machine.files", "op is none of create, append, overwrite", &file);
      const std::string path = text_below(file, {"path"});
      // Nothing but /var can be written, and the CRI's own folder.
      if (!path.starts_with("/var/") && !path.starts_with("/etc/cri/conf.d/"))
        check.ours("bad-file", "machine.files", "only files below /var can be written", &file);
    }
  if (const Value* modules = machine.find({"kernel", "modules"})) {
    std::set<std::string> seen;
    for (const Value& module : modules->items()) {
      const std::string name = text_below(module, {"name"});
      const bool good = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
        return is_alnum(c) || c == '_' || c == '-';
      });
      if (!good)
        check.ours("bad-module", "machine.kernel.modules", "this is no module's name", &module);
      else if (!seen.insert(name).second)
        check.ours("bad-module", "machine.kernel.modules", "a module stands twice", &module);
    }
  }
  if (const Value* disks = machine.find("disks"))
    for (const Value& disk : disks->items()) {
      const Value* parts = disk.find("partitions");
      for (std::size_t i = 0; parts != nullptr && i + 1 < parts->size(); ++i)
        if (parts->items()[i].find("size") == nullptr)
          check.refuse("partition-order", "machine.disks",
                       "a partition without a size takes the whole disk and must be the last",
                       &parts->items()[i]);
    }
}

void check_features(ConfigCheck& check) {
  const Value* features = check.main().find({"machine", "features"});
  for (const std::string_view key : {"enabled", "forwardKubeDNSToHost"})
    if (check.container() && (features == nullptr || !is_on(*features, {"hostDNS", key})))
      check.refuse("container-dns", fmt::format("machine.features.hostDNS.{}", key),
                   "a container has no other way to resolve names", features);
  if (features == nullptr) return;
  if (check.minor() >= 13 && is_on(*features, {"hostDNS", "forwardKubeDNSToHost"}) &&
      !is_on(*features, {"hostDNS", "enabled"}))
    check.refuse("host-dns", "machine.features.hostDNS", "forwardKubeDNSToHost needs enabled",
                 features->find("hostDNS"));
  if (is_on(*features, {"kubernetesTalosAPIAccess", "enabled"}) && !check.control_plane())
    check.refuse("talos-api-access", "machine.features.kubernetesTalosAPIAccess",
                 "only control planes can have it", features->find("kubernetesTalosAPIAccess"));
  const std::string sort = text_below(*features, {"nodeAddressSortAlgorithm"});
  if (!sort.empty() && sort != "v1" && sort != "v2")
    check.refuse("sort-algorithm", "machine.features.nodeAddressSortAlgorithm", "not v1 or v2",
                 features->find("nodeAddressSortAlgorithm"));
}

void check_registries(ConfigCheck& check) {
  for (const std::string_view part : {"mirrors", "config"})
    if (const Value* registries = check.main().find({"machine", "registries", part}))
      for (const Entry& entry : registries->entries())
        if (entry.value.is_null())
          check.refuse("empty-registry", fmt::format("machine.registries.{}.{}", part, entry.key),
                       "there is nothing under it", registries);
  if (const Value* mirrors = check.main().find({"machine", "registries", "mirrors"}))
    for (const Entry& entry : mirrors->entries())
      if (const Value* endpoints = entry.value.find("endpoints"))
        for (const Value& endpoint : endpoints->items()) {
          const auto url = parse_url(endpoint.text());
          if (!url || (url->scheme != "https" && url->scheme != "http") || url->host.empty())
            check.ours("bad-url", "machine.registries.mirrors." + entry.key,
                       "an endpoint must be an http or https URL", &endpoint);
        }
}

}  // namespace

ConfigCheck::ConfigCheck(const std::vector<ConfigDocument>& config, unsigned minor, ConfigMode mode,
                         ConfigProblems& problems)
    : config_(config), minor_(minor), mode_(mode), problems_(problems) {
  for (const ConfigDocument& document : config) {
    if (document.type != nullptr) continue;
    main_ = document.value;
    has_main_ = true;
  }
}

void ConfigCheck::refuse(std::string code, std::string path, std::string message, const Value* at) {
  problems_.push_back({std::move(code), std::move(path), std::move(message),
                       at != nullptr ? at->place() : text::Place{}});
}

void ConfigCheck::ours(std::string code, std::string path, std::string message, const Value* at) {
  refuse(std::move(code), std::move(path), std::move(message), at);
  problems_.back().ours = true;
}

void ConfigCheck::warn(std::string code, std::string path, std::string message, const Value* at) {
  refuse(std::move(code), std::move(path), std::move(message), at);
  problems_.back().warning = true;
}

bool ConfigCheck::control_plane() const {
  const std::string type = text_below(main_, {"machine", "type"});
  return type == "controlplane" || type == "init";
}

const ConfigDocument* ConfigCheck::find(std::string_view kind) const {
  for (const ConfigDocument& document : config_)
    if (document.type != nullptr && document.type->kind == kind) return &document;
  return nullptr;
}

std::string text_below(const Value& value, std::initializer_list<std::string_view> path) {
  const Value* found = value.find(path);
  return found != nullptr && found->is_scalar() && !found->is_null() ? found->text() : "";
}

bool is_on(const Value& value, std::initializer_list<std::string_view> path) {
  const Value* found = value.find(path);
  return found != nullptr && found->as_bool().value_or(false);
}

bool is_host_name(std::string_view name) {
  if (name.empty() || name.size() > 253) return false;
  while (!name.empty()) {
    const auto end = std::min(name.find('.'), name.size());
    const std::string_view part = name.substr(0, end);
    const bool good =
        !part.empty() && part.size() <= 63 && is_alnum(part.front()) && is_alnum(part.back()) &&
        std::all_of(part.begin(), part.end(), [](char c) { return is_alnum(c) || c == '-'; });
    if (!good) return false;
    if (end + 1 == name.size()) return false;  // a dot at the end
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return true;
}

void check_machine(ConfigCheck& check) {
  const Value& machine = *check.main().find("machine");
  const std::string type = text_below(machine, {"type"});
  if (!type.empty() && type != "controlplane" && type != "worker" && type != "init")
    check.refuse("machine-type", "machine.type", "neither controlplane nor worker",
                 machine.find("type"));
  if (type.empty() || type == "init")
    check.ours("machine-type", "machine.type", "say controlplane or worker", &machine);
  if (text_below(machine, {"token"}).empty())
    check.ours("missing-token", "machine.token", "without it the machine cannot join", &machine);
  check_install(check);
  check_kubelet(check);
  check_kubernetes_version(check);
  check_sysctls(check);
  check_labels(check);
  check_encryption(check);
  check_files_and_modules(check);
  check_features(check);
  check_registries(check);
  const std::string timeout = text_below(machine, {"time", "bootTimeout"});
  if (timeout.starts_with('-'))
    check.ours("bad-time", "machine.time.bootTimeout", "a time that is over already",
               machine.find({"time", "bootTimeout"}));
  if (const Value* servers = machine.find({"time", "servers"}))
    for (const Value& server : servers->items())
      if (!is_host_name(server.text()) && !IpAddress::parse(server.text()) &&
          !server.text().starts_with("/dev/ptp"))
        check.ours("bad-time", "machine.time.servers", "neither a name nor an address", &server);
}

ConfigProblems validate_documents(const std::vector<ConfigDocument>& config, unsigned minor,
                                  ConfigMode mode) {
  ConfigProblems problems;
  ConfigCheck check{config, minor, mode, problems};
  if (check.has_main()) {
    const Value* machine = check.main().find("machine");
    const Value* cluster = check.main().find("cluster");
    const std::string version = text_below(check.main(), {"version"});
    if (version != "v1alpha1") check.ours("bad-version", "version", "this must be v1alpha1");
    const Value* persist = check.main().find("persist");
    if (persist != nullptr && !persist->as_bool().value_or(true))
      check.refuse("persist", "persist", "it must be true", persist);
    if (machine == nullptr)
      check.refuse("machine-required", "machine", "this section is missing");
    else
      check_machine(check);
    if (machine != nullptr) check_machine_network(check);
    if (cluster == nullptr)
      check.refuse("cluster-required", "cluster", "this section is missing");
    else
      check_cluster(check);
    if (machine != nullptr) check_authorities(check);
  }
  check_other_documents(check);
  return problems;
}

ConfigProblems validate_config(std::string_view text, const std::string& name, unsigned minor,
                               ConfigMode mode) {
  ConfigProblems problems;
  if (text.size() > max_config_size) {
    problems.push_back({"too-large",
                        "",
                        fmt::format("the configuration has {} bytes; a node takes at most {}",
                                    text.size(), max_config_size),
                        {}});
    return problems;
  }
  std::vector<Value> documents;
  try {
    documents = text::parse_yaml_stream(text, name, {.size = max_config_size});
  } catch (const Error& error) {
    std::string message = error.message();
    if (message.starts_with(name + ":")) message.erase(0, name.size() + 1);
    problems.push_back({"yaml", "", std::move(message), {}});
    return problems;
  }
  const std::vector<ConfigDocument> config = decode_config(documents, minor, problems);
  // As Talos: what cannot be read is told alone, because what follows from it would only confuse.
  if (!problems.empty()) return problems;
  return validate_documents(config, minor, mode);
}

}  // namespace rocca::talos
