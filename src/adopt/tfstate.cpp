#include "adopt/tfstate.hpp"

#include "base/strings.hpp"
#include "text/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace rocca::adopt {

namespace {

using text::Value;

// States of whole platforms are larger than anything a user writes by hand.
constexpr text::Limits state_limits{.size = 64u << 20};

/// Attributes that may be absent, null or of another kind: all the same here.
class Attributes {
 public:
  explicit Attributes(const Value* value) : value_(value) {}

  const Value* find(std::string_view key) const {
    const Value* found = value_ == nullptr ? nullptr : value_->find(key);
    return found == nullptr || found->is_null() ? nullptr : found;
  }
  std::string word(std::string_view key) const {
    const Value* found = find(key);
    return found != nullptr && found->is_scalar() ? found->text() : "";
  }
  bool flag(std::string_view key) const {
    const Value* found = find(key);
    return found != nullptr && found->as_bool().value_or(false);
  }
  std::uint64_t number(std::string_view key) const {
    const Value* found = find(key);
    if (found == nullptr) return 0;
    return found->is_string() ? parse_uint(found->text()).value_or(0)
                              : found->as_uint().value_or(0);
  }
  /// A block: a list of one in providers of the older kind, a map in those of the newer.
  Attributes block(std::string_view key) const {
    const Value* found = find(key);
    if (found != nullptr && found->is_list() && !found->items().empty())
      found = &found->items().front();
    return Attributes{found != nullptr && found->is_map() ? found : nullptr};
  }
  std::vector<Attributes> blocks(std::string_view key) const {
    std::vector<Attributes> all;
    const Value* found = find(key);
    if (found != nullptr && found->is_list())
      for (const Value& item : found->items()) all.emplace_back(&item);
    return all;
  }
  bool there() const { return value_ != nullptr; }

 private:
  const Value* value_;
};

void add(std::vector<IpAddress>& all, std::string_view text) {
  const auto address = IpAddress::parse(text.substr(0, text.find('/')));
  if (!address || address->is_loopback() || address->is_link_local()) return;
  if (std::find(all.begin(), all.end(), *address) == all.end()) all.push_back(*address);
}

void add(std::vector<MacAddress>& all, std::string_view text) {
  if (const auto mac = MacAddress::parse(text)) all.push_back(*mac);
}

/// Every text of a list of lists: the guest agent's addresses by link.
void add_all(std::vector<IpAddress>& all, const Value* value) {
  if (value == nullptr) return;
  if (value->is_scalar()) add(all, value->text());
  for (const Value& item : value->items()) add_all(all, &item);
}

RememberedVm from_bpg(const Attributes& from) {
  RememberedVm vm;
  vm.vmid = from.number("vm_id");
  if (vm.vmid == 0) vm.vmid = from.number("id");
  vm.host = from.word("node_name");
  vm.name = from.word("name");
  for (const Attributes& nic : from.blocks("network_device")) add(vm.macs, nic.word("mac_address"));
  for (const Attributes& ip : from.block("initialization").blocks("ip_config")) {
    add(vm.addresses, ip.block("ipv4").word("address"));
    add(vm.addresses, ip.block("ipv6").word("address"));
  }
  add_all(vm.addresses, from.find("ipv4_addresses"));
  return vm;
}

RememberedVm from_telmate(const Attributes& from) {
  RememberedVm vm;
  vm.vmid = from.number("vmid");
  // The id is HOST/qemu/VMID.
  const std::vector<std::string> id = split(from.word("id"), '/');
  if (vm.vmid == 0 && id.size() == 3) vm.vmid = parse_uint(id[2]).value_or(0);
  vm.host = from.word("target_node");
  if (vm.host.empty() && id.size() == 3) vm.host = id[0];
  vm.name = from.word("name");
  for (const Attributes& nic : from.blocks("network")) add(vm.macs, nic.word("macaddr"));
  for (unsigned i = 0; i < 16; ++i)
    for (const std::string& part : split(from.word(fmt::format("ipconfig{}", i)), ','))
      if (part.starts_with("ip=") || part.starts_with("ip6="))
        add(vm.addresses, part.substr(part.find('=') + 1));
  add(vm.addresses, from.word("default_ipv4_address"));
  return vm;
}

/// The provider writes Go's names with underscores; the values are those of secrets.yaml.
Value secrets_yaml(const Attributes& from) {
  Value root = Value::map();
  const auto copy = [](Value& to, const char* key, const Attributes& source, const char* name) {
    if (const Value* found = source.find(name)) to.set(key, *found);
  };
  Value cluster = Value::map();
  copy(cluster, "id", from.block("cluster"), "id");
  copy(cluster, "secret", from.block("cluster"), "secret");
  root.set("cluster", std::move(cluster));
  Value secrets = Value::map();
  const Attributes given = from.block("secrets");
  copy(secrets, "bootstraptoken", given, "bootstrap_token");
  copy(secrets, "secretboxencryptionsecret", given, "secretbox_encryption_secret");
  copy(secrets, "aescbcencryptionsecret", given, "aescbc_encryption_secret");
  root.set("secrets", std::move(secrets));
  Value trustd = Value::map();
  copy(trustd, "token", from.block("trustdinfo"), "token");
  root.set("trustdinfo", std::move(trustd));
  Value certs = Value::map();
  const Attributes authorities = from.block("certs");
  for (const auto& [key, name] : {std::pair{"etcd", "etcd"},
                                  {"k8s", "k8s"},
                                  {"k8saggregator", "k8s_aggregator"},
                                  {"os", "os"}}) {
    Value pair = Value::map();
    copy(pair, "crt", authorities.block(name), "cert");
    copy(pair, "key", authorities.block(name), "key");
    certs.set(key, std::move(pair));
  }
  Value account = Value::map();
  copy(account, "key", authorities.block("k8s_serviceaccount"), "key");
  certs.set("k8sserviceaccount", std::move(account));
  root.set("certs", std::move(certs));
  return root;
}

class Reader {
 public:
  Reader(std::string file, const StateOptions& options, Diagnostics& problems)
      : file_(std::move(file)), options_(options), problems_(problems) {}

  void read(const Value& root) {
    const Value* resources = root.find("resources");
    if (resources == nullptr || !resources->is_list()) {
      problems_.error(at(root), "a state without a list of resources").hint =
          "is it whole? `terraform state pull` or `tofu state pull` writes it";
      return;
    }
    for (const Value& resource : resources->items()) {
      const Attributes about{&resource};
      const Value* instances = about.find("instances");
      if (instances == nullptr || !instances->is_list() || !in_module(about.word("module")))
        continue;
      for (const Value& instance : instances->items()) take(about, instance);
    }
    if (found.vms.empty() && !problems_.has_errors()) refuse_without_vms(*resources);
    take_bundle(*resources);
  }

  Remembered found;

 private:
  Position at(const Value& value) const {
    return {file_, value.place().line, value.place().column};
  }

  bool in_module(const std::string& module) const {
    if (options_.module.empty()) return true;
    return module.starts_with(options_.module) &&
           (module.size() == options_.module.size() || module[options_.module.size()] == '.' ||
            module[options_.module.size()] == '[');
  }

  static std::string address_of(const Attributes& about, const Value& instance) {
    std::string address = about.word("module");
    if (!address.empty()) address += '.';
    if (about.word("mode") == "data") address += "data.";
    address += about.word("type") + "." + about.word("name");
    if (const Value* key = instance.find("index_key"))
      address += key->is_string() ? fmt::format("[\"{}\"]", key->text())
                                  : fmt::format("[{}]", key->text());
    return address;
  }

  void refuse_without_vms(const Value& resources) {
    problems_.error(at(resources), "no VM of bpg/proxmox or Telmate/proxmox is in it").hint =
        types_.empty() ? "it is empty: is it the workspace, or the module, of the cluster?"
                       : fmt::format(
                             "there is {}: is it the state of the cluster, and not of "
                             "something beside it?",
                             enumerate({types_.begin(), types_.end()}));
  }

  void take(const Attributes& about, const Value& instance) {
    const std::string type = about.word("type");
    const std::string where = address_of(about, instance);
    const Attributes inside{instance.find("attributes")};
    const Attributes state{&instance};
    types_.insert(type);
    if (type == "talos_machine_configuration") {
      remember_config(where, inside.word("machine_configuration"), instance);
      return;
    }
    if (about.word("mode") == "data") return;  // read, not made
    // What was replaced and could not be destroyed is nobody's node.
    if (state.find("deposed") != nullptr) {
      found.left.push_back({where, "deposed: it was replaced, and waits to be destroyed"});
      return;
    }
    const bool is_vm = type == "proxmox_virtual_environment_vm" || type == "proxmox_vm_qemu";
    if ((is_vm || type == "talos_machine_secrets") && !inside.there() &&
        state.find("attributes_flat") != nullptr) {
      problems_.error(at(instance), where + " was written by an older provider").hint =
          "`terraform apply -refresh-only` first, which writes it as newer ones do";
    } else if (is_vm) {
      take_vm(type == "proxmox_vm_qemu" ? from_telmate(inside) : from_bpg(inside), where, instance,
              inside.flag("template"));
    } else if (type == "talos_machine_secrets") {
      secrets_.push_back({where, &instance});
    } else if (type == "talos_machine_configuration_apply") {
      std::string node = inside.word("node");
      if (node.empty()) node = inside.word("endpoint");
      if (!node.empty()) found.nodes.push_back(std::move(node));
      remember_config(where, inside.word("machine_configuration"), instance);
      remember_config(where, inside.word("machine_configuration_input"), instance);
    } else if (type != "talos_machine_bootstrap" && type != "talos_cluster_kubeconfig" &&
               type != "talos_image_factory_schematic") {
      const bool image = type == "proxmox_virtual_environment_download_file";
      found.left.push_back({where, image ? "an image: rocca fetches its own for nodes to come"
                                         : "rocca has nothing of this kind"});
    }
  }

  void take_vm(RememberedVm vm, const std::string& where, const Value& instance, bool is_template) {
    vm.where = where;
    const auto twin = std::find_if(found.vms.begin(), found.vms.end(),
                                   [&](const auto& other) { return other.vmid == vm.vmid; });
    if (is_template)
      found.left.push_back({where, "a template"});
    else if (vm.vmid == 0 || vm.host.empty())
      problems_.error(at(instance), where + " has no VM id or no host").hint =
          "its create may have failed: `terraform apply` or `terraform state rm` settles it";
    else if (vm.vmid < 100 || vm.vmid > 999'999'999)
      problems_
          .error(at(instance),
                 fmt::format("{} has VM id {}, and no Proxmox has such a VM", where, vm.vmid))
          .hint = "VM ids are 100 to 999999999: was the state edited by hand?";
    else if (twin != found.vms.end())
      found.left.push_back({where, fmt::format("VM {} once more: it is also {}, and is looked at "
                                               "as that",
                                               vm.vmid, twin->where)});
    else
      found.vms.push_back(std::move(vm));
  }

  void remember_config(const std::string& where, std::string text, const Value& instance) {
    if (!text.empty()) configs_.push_back({where, Secret::take(std::move(text)), &instance});
  }

  void take_bundle(const Value& resources) {
    if (options_.has_bundle) return;
    if (secrets_.size() > 1) {
      std::vector<std::string> names;
      for (const auto& [where, instance] : secrets_) names.push_back(where);
      problems_
          .error(at(*secrets_[1].second), fmt::format("the secrets of {} clusters are in it: {}",
                                                      secrets_.size(), enumerate(names)))
          .hint = "take over one at a time: --module names the module of one";
      return;
    }
    if (secrets_.size() == 1) {
      const auto& [where, instance] = secrets_.front();
      Value yaml = secrets_yaml(Attributes{instance->find("attributes")}.block("machine_secrets"));
      Diagnostics inner;
      found.bundle = secrets::read_bundle(yaml, where, inner);
      found.bundle_from = where;
      yaml.wipe();
      pass_on(inner, where, *instance);
      return;
    }
    // A control plane's configuration holds them all.
    for (const Config& config : configs_) {
      if (config.text.reveal().find("type: controlplane") == std::string_view::npos) continue;
      Diagnostics inner;
      found.bundle = secrets::read_bundle_from_config(config.text.reveal(), config.where, inner);
      found.bundle_from = config.where;
      pass_on(inner, config.where, *config.instance);
      return;
    }
    problems_.error(at(resources), "the cluster's Talos secrets are not in it").hint =
        "--secrets FILE takes them from a control plane's machine config (`talosctl get "
        "machineconfig v1alpha1 -o jsonpath='{.spec}'`) or from what `talosctl gen secrets` wrote";
  }

  /// What is missing is one problem, however much it is.
  void pass_on(const Diagnostics& inner, const std::string& where, const Value& instance) {
    constexpr std::string_view required = " is required";
    std::vector<std::string> missing;
    const auto tell = [&](const std::string& message) {
      problems_.error(at(instance), where + ": " + message).hint =
          "--secrets FILE takes them from elsewhere";
    };
    for (const Problem& problem : inner.problems()) {
      if (problem.severity != Severity::Error) continue;
      if (problem.message.ends_with(required))
        missing.push_back(problem.message.substr(0, problem.message.size() - required.size()));
      else
        tell(problem.message);
    }
    if (!missing.empty())
      tell(fmt::format("{} {} missing", enumerate(missing), missing.size() == 1 ? "is" : "are"));
  }

  struct Config {
    std::string where;
    Secret text;
    const Value* instance;
  };

  std::string file_;
  const StateOptions& options_;
  Diagnostics& problems_;
  std::set<std::string> types_;  // that were met
  std::vector<std::pair<std::string, const Value*>> secrets_;
  std::vector<Config> configs_;
};

}  // namespace

std::optional<Remembered> read_tfstate(std::string_view text, const std::string& file,
                                       const StateOptions& options, Diagnostics& problems) {
  const auto refuse = [&](std::string message, std::string hint) -> std::optional<Remembered> {
    problems.error({file, 1, 1}, std::move(message)).hint = std::move(hint);
    return std::nullopt;
  };
  if (trim(text).empty())
    return refuse("it is empty", "is the backend reached, and the workspace right?");
  Diagnostics broken;
  auto root = text::parse_json(text, file, broken, state_limits);
  if (!root) {
    for (const Problem& problem : broken.problems())
      problems.error(problem.where, problem.message).hint =
          "is it whole? `terraform state pull` or `tofu state pull` gives it again";
    return std::nullopt;
  }
  struct Wipe {
    Value& value;
    ~Wipe() { value.wipe(); }  // it held every key of the cluster
  } const wipe{*root};
  if (root->find("encrypted_data") != nullptr || root->find("encryption_version") != nullptr)
    return refuse("the state is encrypted", "`tofu state pull | rocca adopt -` gives it in clear");
  const Value* version = root->find("version");
  if (version == nullptr || !version->as_uint() || root->find("serial") == nullptr)
    return refuse("this is no Terraform or OpenTofu state",
                  "`terraform state pull` or `tofu state pull` writes it");
  if (version->as_uint() != 4u)
    return refuse(fmt::format("a state of format {}, and rocca reads format 4", version->text()),
                  "Terraform 0.12 or newer, or OpenTofu, writes it after the next apply");
  Reader reader{file, options, problems};
  reader.read(*root);
  if (problems.has_errors()) return std::nullopt;
  return std::move(reader.found);
}

}  // namespace rocca::adopt
