#include "adopt/describe.hpp"

#include "adopt/hardware.hpp"
#include "adopt/patches.hpp"
#include "base/diagnostics.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "factory/node_image.hpp"
#include "net/http.hpp"
#include "proxmox/property_string.hpp"
#include "spec/load.hpp"
#include "talosconfig/input.hpp"
#include "text/json.hpp"
#include "text/yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

namespace rocca::adopt {

namespace {

using talos::ConfigDocument;
using text::Value;

/// A node on its way into the spec.
struct Draft {
  const FoundNode* found = nullptr;
  std::vector<ConfigDocument> active;
  const Value* main = nullptr;  // of `active`
  bool control_plane = false;
  std::string schematic;  // empty: neither the node nor its configuration tells one
  std::string name, pool;
  Hardware hardware;
};

std::string text_at(const Value* value, std::initializer_list<std::string_view> path) {
  const Value* found = value == nullptr ? nullptr : value->find(path);
  return found != nullptr && found->is_scalar() ? found->text() : "";
}

/// The value that most of them have; of equals the first.
std::string most_common(const std::vector<std::string>& all) {
  std::map<std::string, std::size_t> count;
  std::string best;
  for (const std::string& one : all) ++count[one];
  for (const std::string& one : all)
    if (best.empty() || count[one] > count[best]) best = one;
  return best;
}

/// The one value that all have.
std::string common(const std::vector<Draft>& nodes, const std::string& what,
                   const std::function<std::string(const Draft&)>& of) {
  const std::string first = of(nodes.front());
  std::string all;
  bool same = true;
  for (const Draft& node : nodes) {
    same = same && of(node) == first;
    all += fmt::format("\n  {}: {}", node.found->row.name, of(node).empty() ? "none" : of(node));
  }
  if (!same)
    throw Error(Fault::Refused, fmt::format("the nodes have not all the same {}:{}", what, all))
        .hint("a spec has one for all: bring them there with the tool that made them, then adopt");
  return first;
}

std::string version_of_image(const std::string& image) {
  const std::string plain = image.substr(0, image.find('@'));
  const auto colon = plain.rfind(':');
  return colon == std::string::npos ? "" : plain.substr(colon + 1);
}

/// The 64 hex digits in `factory.talos.dev/installer/ID:v1.11.5`.
std::string schematic_of_image(const std::string& image) {
  for (const std::string& part : split(image.substr(0, image.rfind(':')), '/'))
    if (part.size() == 64 && part.find_first_not_of("0123456789abcdef") == std::string::npos)
      return part;
  return "";
}

std::string as_label(const std::string& text) {
  std::string label;
  for (const char c : to_lower(text))
    label += (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
  while (label.starts_with('-')) label.erase(0, 1);
  if (label.size() > 63) label.resize(63);
  while (label.ends_with('-')) label.pop_back();
  return label;
}

class Describer {
 public:
  Describer(Files& files, const Found& found, const secrets::Bundle& bundle, const Wording& wording)
      : files_(files), bundle_(bundle), wording_(wording) {
    for (const FoundNode& node : found.nodes) nodes_.push_back(draft(node));
    // Control planes first, as people write them.
    std::stable_partition(nodes_.begin(), nodes_.end(),
                          [](const Draft& node) { return node.control_plane; });
    if (!nodes_.front().control_plane)
      throw Error(Fault::Refused, "no control plane is among the nodes that were found")
          .hint("the VMs that were left out are named above; rocca keeps no workers alone");
    refuse_strange_members(found);
    out_.left = found.left;
  }

  Description run() {
    out_.name = wording_.name.empty() ? cluster_name_of(nodes_.front()) : wording_.name;
    choose_names();
    choose_hardware();
    choose_pools();
    Value root = tree();
    Levels levels = derive_patches(root);
    if (dissolve_pools(levels)) {
      root = tree();
      levels = derive_patches(root);
    }
    for (Left& unsaid : unsaid_) out_.left.push_back(std::move(unsaid));
    put(root, levels);
    root.comments().before = {
        " Taken over by rocca adopt as it ran. What the nodes run beside what",
        " rocca would have given them stands under `patches`."};
    out_.spec = text::emit_yaml(root);
    lock_nodes();
    return std::move(out_);
  }

 private:
  Value tree() {
    Value root = Value::map();
    root.set("apiVersion", Value::string("rocca.dev/v1"));
    root.set("kind", Value::string("Cluster"));
    Value metadata = Value::map();
    metadata.set("name", Value::string(out_.name));
    metadata.set_style(text::Style::Flow);
    root.set("metadata", std::move(metadata));
    root.set("spec", spec_tree());
    return root;
  }

  static std::string cluster_name_of(const Draft& node) {
    return text_at(node.main, {"cluster", "clusterName"});
  }

  static Draft draft(const FoundNode& found) {
    Draft node;
    node.found = &found;
    const auto version = Version::parse_loose(found.talos);
    if (!version)
      throw Error(Fault::Rejected,
                  fmt::format("{} says that it runs Talos '{}'", found.row.name, found.talos));
    talos::ConfigProblems problems;
    const std::string name = "the configuration of " + found.row.name;
    node.active = talos::decode_config(text::parse_yaml_stream(found.active.reveal(), name),
                                       static_cast<unsigned>(version->minor()), problems);
    for (const talos::ConfigProblem& problem : problems)
      if (!problem.warning && !problem.ours)
        throw Error(Fault::Refused, "rocca cannot read " + talos::to_string(problem, name))
            .hint("is it a Talos that this rocca knows? 1.9 to 1.13");
    for (const ConfigDocument& document : node.active)
      if (document.type == nullptr) node.main = &document.value;
    const std::string type = text_at(node.main, {"machine", "type"});
    node.control_plane = type == "controlplane" || type == "init";
    node.schematic = found.schematic.empty()
                         ? schematic_of_image(text_at(node.main, {"machine", "install", "image"}))
                         : found.schematic;
    return node;
  }

  // ---- names

  /// `talos-` of a VM `talos-c0` whose host is called c0.
  static std::string before_host_name(const Draft& node) {
    const std::string& vm = node.found->row.name;
    const std::string& host = node.found->host_name;
    return vm.size() > host.size() ? vm.substr(0, vm.size() - host.size()) : "";
  }

  void choose_names() {
    const std::string prefix = out_.name + "-";
    const auto all = [&](const std::function<bool(const Draft&)>& is) {
      return std::all_of(nodes_.begin(), nodes_.end(), is);
    };
    const bool prefixed = all([&](const Draft& node) {
      const std::string& name = node.found->row.name;
      return name.starts_with(prefix) && is_dns_label(name.substr(prefix.size()));
    });
    // Many modules call a VM like its host, with something before it.
    const std::string before = before_host_name(nodes_.front());
    const bool by_host = !prefixed && all([&](const Draft& node) {
      return is_dns_label(node.found->host_name) && before_host_name(node) == before &&
             node.found->row.name.ends_with(node.found->host_name);
    });
    vm_naming_ = prefixed ? "{cluster}-{node}" : by_host ? before + "{node}" : "{node}";
    std::set<std::string> taken;
    for (Draft& node : nodes_) {
      const std::string& vm = node.found->row.name;
      std::string name =
          by_host ? node.found->host_name : as_label(prefixed ? vm.substr(prefix.size()) : vm);
      if (name.empty()) name = fmt::format("vm-{}", node.found->row.vmid);
      // Proxmox lets two VMs have one name.
      if (!taken.insert(name).second) {
        name += fmt::format("-{}", node.found->row.vmid);
        taken.insert(name);
      }
      node.name = name;
    }
    const bool long_hosts =
        all([&](const Draft& node) { return node.found->host_name == prefix + node.name; });
    host_naming_ = long_hosts ? "{cluster}-{node}" : "{node}";
  }

  // ---- hardware

  void choose_hardware() {
    std::vector<std::string> storages, bridges;
    for (const Draft& node : nodes_) {
      storages.push_back(storage_of_system_disk(node.found->config));
      bridges.push_back(bridge_of_first_card(node.found->config));
    }
    defaults_ = {most_common(storages), most_common(bridges)};
    for (Draft& node : nodes_) {
      node.hardware = hardware_of(node.found->row, node.found->config, defaults_);
      for (const std::string& untold : node.hardware.untold)
        untold_[untold].push_back(std::to_string(node.found->row.vmid));
    }
    for (const auto& [what, vmids] : untold_)
      out_.left.push_back({fmt::format("VM {}", enumerate(vmids)),
                           fmt::format("{}: not managed, stays as it is", what)});
  }

  /// Workers that are alike and called PREFIX-1, PREFIX-2 … are a pool.
  void choose_pools() {
    std::map<std::string, std::map<std::uint64_t, Draft*>> by_prefix;
    for (Draft& node : nodes_) {
      const auto dash = node.name.rfind('-');
      if (node.control_plane || dash == std::string::npos || dash == 0) continue;
      const std::string digits = node.name.substr(dash + 1);
      const auto number = parse_uint(digits);
      if (number && *number > 0 && std::to_string(*number) == digits)
        by_prefix[node.name.substr(0, dash)][*number] = &node;
    }
    for (auto& [prefix, members] : by_prefix) {
      const auto& [last, one] = *members.rbegin();
      const bool alike =
          std::all_of(members.begin(), members.end(), [&, &first = one](const auto& m) {
            return m.second->hardware.machine == first->hardware.machine &&
                   m.second->schematic == first->schematic;
          });
      if (last != members.size() || !alike) continue;
      for (auto& [number, node] : members) node->pool = prefix;
    }
  }

  // ---- the spec

  Value spec_tree() {
    Value spec = Value::map();
    if (vm_naming_ != "{cluster}-{node}" || host_naming_ != "{node}") {
      Value naming = Value::map();
      naming.set("vm", Value::string(vm_naming_));
      naming.set("host", Value::string(host_naming_));
      spec.set("naming", std::move(naming));
    }
    const auto planes = static_cast<std::size_t>(std::count_if(
        nodes_.begin(), nodes_.end(), [](const Draft& n) { return n.control_plane; }));
    if (planes % 2 == 0) {
      Value policy = Value::map();
      policy.set("evenControlPlanes", Value::string("warn"));
      spec.set("policy", std::move(policy));
    }
    spec.set("talos", talos_tree());
    add_network(spec);
    spec.set("kubernetes", kubernetes_tree(spec));
    spec.set("proxmox", proxmox_tree());
    add_nodes(spec);
    return spec;
  }

  Value talos_tree() {
    Value talos = Value::map();
    talos.set("version", Value::string(common(nodes_, "version of Talos", [](const Draft& node) {
                return node.found->talos;
              })));
    schematic_ = common_schematic();
    if (!schematic_.empty()) talos.set("schematic", Value::string(schematic_));
    if (text_at(nodes_.front().main, {"cluster", "discovery", "enabled"}) == "false")
      talos.set("discovery", Value::boolean(false));
    return talos;
  }

  /// The one that leaves the fewest places with one of their own; of equals the control planes'.
  std::string common_schematic() const {
    std::vector<std::string> places;
    std::set<std::string> pools;
    for (const Draft& node : nodes_)
      if (node.pool.empty() || pools.insert(node.pool).second) places.push_back(node.schematic);
    return most_common(places);
  }

  /// Says which image it has, where that is not the one of all.
  void add_image(Value& place, const Draft& node) const {
    if (node.schematic == schematic_) return;
    Value image = Value::map();
    if (node.schematic.empty())
      image.set("extensions", Value::list());  // as Talos is without the factory
    else
      image.set("schematic", Value::string(node.schematic));
    place.set("talos", std::move(image));
  }

  Value kubernetes_tree(const Value& spec) {
    const Value* main = nodes_.front().main;
    Value kubernetes = Value::map();
    kubernetes.set("version",
                   Value::string(version_of_image(text_at(main, {"machine", "kubelet", "image"}))));
    const std::string url = text_at(main, {"cluster", "controlPlane", "endpoint"});
    const auto parts = net::Url::parse(url);
    if (!parts) throw Error(Fault::Refused, "the nodes do not say where their API is");
    const bool usual = parts->port == spec::Endpoint::api_port;
    Value endpoint = Value::map();
    // A spec's VIP is answered on the usual port. On another one the address is only a place, and
    // what keeps it stands in patches.
    endpoint.set(usual && is_vip(parts->host, spec) ? "vip" : "host", Value::string(parts->host));
    if (!usual) endpoint.set("port", Value::integer(parts->port));
    endpoint.set_style(text::Style::Flow);
    kubernetes.set("endpoint", std::move(endpoint));
    for (const auto& [key, list] :
         {std::pair{"podCIDR", "podSubnets"}, std::pair{"serviceCIDR", "serviceSubnets"}}) {
      const std::string subnet = text_at(main, {"cluster", "network", list, "0"});
      if (!subnet.empty()) kubernetes.set(key, Value::string(subnet));
    }
    const std::string cni = text_at(main, {"cluster", "network", "cni", "name"});
    if (cni == "none" || cni == "custom") kubernetes.set("cni", Value::string("none"));
    kubernetes.set(
        "scheduleOnControlPlanes",
        Value::boolean(text_at(main, {"cluster", "allowSchedulingOnControlPlanes"}) == "true"));
    return kubernetes;
  }

  /// Do the control planes keep this address between them, and may a spec say so?
  bool is_vip(const std::string& host, const Value& spec) const {
    const auto address = IpAddress::parse(host);
    const auto subnet = Cidr::parse(text_at(&spec, {"network", "subnet"}));
    if (!address || (subnet && !subnet->usable(*address))) return false;
    for (const Draft& node : nodes_)
      for (const ConfigDocument& document : node.active) {
        if (document.kind() == "Layer2VIPConfig" && document.name() == host) return true;
        const Value* links = document.value.find({"machine", "network", "interfaces"});
        if (links == nullptr) continue;
        for (const Value& link : links->items())
          if (text_at(&link, {"vip", "ip"}) == host) return true;
      }
    return false;
  }

  // ---- network

  struct Given {  // by cloud-init
    std::optional<Cidr> address;
    std::string gateway;
  };

  static Given given_to(const Draft& node) {
    Given given;
    const std::string* text = node.found->config.find("ipconfig0");
    if (text == nullptr || cloud_init_slot(node.found->config).empty()) return given;
    const auto parts = proxmox::PropertyString::parse("ipconfig0", *text);
    const bool v4 = node.found->address.address().is_v4();
    const auto address = Cidr::parse(parts.value_or(v4 ? "ip" : "ip6", ""));
    if (address && address->address() == node.found->address.address()) given.address = address;
    given.gateway = parts.value_or(v4 ? "gw" : "gw6", "");
    return given;
  }

  void add_network(Value& spec) {
    std::vector<std::string> subnets, gateways, servers;
    bool is_static = true;
    for (const Draft& node : nodes_) {
      const Given given = given_to(node);
      is_static = is_static && given.address.has_value();
      const Cidr& seen = given.address ? *given.address : node.found->address;
      subnets.push_back(to_string(Cidr{seen.network(), seen.prefix()}));
      gateways.push_back(given.gateway);
      servers.push_back(node.found->config.value_or("nameserver", ""));
    }
    is_static = is_static && std::set<std::string>(subnets.begin(), subnets.end()).size() == 1;
    static_ = is_static;
    Value network = Value::map();
    network.set("addressing", Value::string(is_static ? "static" : "dhcp"));
    network.set("subnet", Value::string(most_common(subnets)));
    if (is_static) {
      if (const std::string gateway = most_common(gateways); !gateway.empty())
        network.set("gateway", Value::string(gateway));
      Value list = Value::list();
      for (const std::string& server : split(replace_all(most_common(servers), ",", " "), ' '))
        if (const auto address = IpAddress::parse(trim(server)))
          list.append(Value::string(to_string(*address)));
      list.set_style(text::Style::Flow);
      if (list.size() > 0) network.set("nameservers", std::move(list));
    }
    spec.set("network", std::move(network));
  }

  Value proxmox_tree() {
    const auto texts = [](const std::vector<std::string>& all) {
      Value list = Value::list();
      for (const std::string& text : all) list.append(Value::string(text));
      list.set_style(text::Style::Flow);
      return list;
    };
    std::set<std::string> hosts;
    for (const Draft& node : nodes_) hosts.insert(node.found->row.node);
    const Site& site = wording_.site;
    Value proxmox = Value::map();
    proxmox.set("endpoints", texts(site.endpoints));
    if (!site.fingerprint.empty()) proxmox.set("fingerprint", Value::string(site.fingerprint));
    if (!site.ca_file.empty()) proxmox.set("caFile", Value::string(site.ca_file));
    if (site.insecure) proxmox.set("insecure", Value::boolean(true));
    Value token = Value::map();
    token.set("secret", Value::string("proxmox.token"));
    token.set_style(text::Style::Flow);
    proxmox.set("token", std::move(token));
    proxmox.set("hosts", texts({hosts.begin(), hosts.end()}));
    Value storage = Value::map();
    storage.set("images", Value::string(site.images));
    storage.set("disks", Value::string(defaults_.storage));
    storage.set_style(text::Style::Flow);
    proxmox.set("storage", std::move(storage));
    proxmox.set("bridge", Value::string(defaults_.bridge));
    return proxmox;
  }

  // ---- nodes and pools

  /// The hardware keys that all of these have alike.
  static Value shared_keys(const std::vector<const Draft*>& nodes, const Value& above) {
    Value shared = Value::map();
    for (const text::Entry& entry : nodes.front()->hardware.machine.entries()) {
      const bool all = std::all_of(nodes.begin(), nodes.end(), [&](const Draft* node) {
        const Value* its = node->hardware.machine.find(entry.key);
        return its != nullptr && *its == entry.value;
      });
      if (all && above.find(entry.key) == nullptr) shared.set(entry.key, entry.value);
    }
    return shared;
  }

  void add_nodes(Value& spec) {
    std::vector<const Draft*> all;
    for (const Draft& node : nodes_) all.push_back(&node);
    Value above = shared_keys(all, Value::map());
    Value nodes = Value::map(), pools = Value::map();
    for (const Draft& node : nodes_) {
      if (!node.pool.empty()) {
        if (pools.find(node.pool) == nullptr) pools.set(node.pool, pool_tree(node.pool, above));
        continue;
      }
      Value one = Value::map();
      one.set("role", Value::string(node.control_plane ? "controlplane" : "worker"));
      if (static_) one.set("address", Value::string(to_string(node.found->address.address())));
      add_image(one, node);
      Value machine = shared_keys({&node}, above);
      // A lease that is reserved for a card stays, should the VM be made anew one day.
      if (node.hardware.nics.size() > 0) machine.set("nics", node.hardware.nics);
      if (machine.size() > 0) one.set("machine", std::move(machine));
      nodes.set(node.name, std::move(one));
    }
    if (above.size() > 0) spec.set("machine", std::move(above));
    spec.set("nodes", std::move(nodes));
    if (pools.size() > 0) spec.set("pools", std::move(pools));
  }

  Value pool_tree(const std::string& name, const Value& above) {
    std::vector<const Draft*> members;
    for (const Draft& node : nodes_)
      if (node.pool == name) members.push_back(&node);
    std::sort(members.begin(), members.end(), [](const Draft* a, const Draft* b) {
      return std::pair{a->name.size(), a->name} < std::pair{b->name.size(), b->name};
    });
    Value pool = Value::map();
    pool.set("count", Value::unsigned_integer(members.size()));
    if (static_) pool.set("addresses", ranges_of(members));
    add_image(pool, *members.front());
    if (Value machine = shared_keys(members, above); machine.size() > 0)
      pool.set("machine", std::move(machine));
    return pool;
  }

  static Value ranges_of(const std::vector<const Draft*>& members) {
    Value ranges = Value::list();
    for (std::size_t i = 0; i < members.size();) {
      const IpAddress first = members[i]->found->address.address();
      std::size_t length = 1;
      while (i + length < members.size() &&
             members[i + length]->found->address.address() == first.plus(length))
        ++length;
      ranges.append(
          Value::string(to_string(AddressRange{first, first.plus(length - 1).value_or(first)})));
      i += length;
    }
    ranges.set_style(text::Style::Flow);
    return ranges;
  }

  // ---- what the spec cannot say of the machine configurations

  Levels derive_patches(const Value& root) {
    unsaid_.clear();
    const spec::Loaded loaded =
        spec::load_text(files_, text::emit_yaml(root), "cluster.yaml", wording_.folder);
    if (loaded.diagnostics.has_errors())
      throw Error(Fault::Refused, "no spec can say this cluster:\n" + loaded.diagnostics.render());
    const auto minor = static_cast<unsigned>(loaded.spec.talos.version->minor());
    SecretShelf shelf;
    std::vector<NodeSteps> all;
    for (const Draft& node : nodes_) {
      const spec::Node* written = loaded.spec.find_node(node.name);
      if (written == nullptr) throw Error(Fault::Bug, node.name + " is not in its own spec");
      talos::Surroundings around;
      around.bundle = bundle_;
      around.schematic = factory::node_image(files_, loaded.spec, *written).id;
      const Secret text = talos::render_text(talos::config_input(loaded.spec, *written, around));
      talos::ConfigProblems problems;
      const auto rendered =
          talos::decode_config(text::parse_yaml_stream(text.reveal(), "rendered"), minor, problems);
      Difference difference = derive_patch(rendered, node.active, minor);
      for (const std::string& path : difference.unsaid)
        unsaid_.push_back({node.found->remembered.where,
                           fmt::format("no patch brings {} of its configuration", path)});
      const std::set<std::string> own = own_words(node);
      const std::vector<Value> masked = mask_active(node.active, rendered, minor);
      for (PatchStep& step : difference.steps) {
        mark_own(step, own);
        shelf.take_from(step, node.active, masked);
      }
      all.push_back({node.name, node.control_plane, node.pool, std::move(difference.steps), own,
                     node.schematic != schematic_});
    }
    out_.secrets = shelf.secrets();
    return assign(all);
  }

  /// A spec has no patches for one member of a pool: where one needs its own, all are nodes. Were
  /// there any?
  bool dissolve_pools(const Levels& levels) {
    std::set<std::string> pools;
    for (const Draft& node : nodes_)
      if (!node.pool.empty() && levels.nodes.contains(node.name)) pools.insert(node.pool);
    for (Draft& node : nodes_)
      if (pools.contains(node.pool)) node.pool.clear();
    return !pools.empty();
  }

  static std::set<std::string> own_words(const Draft& node) {
    std::set<std::string> words{to_string(node.found->address.address()), node.found->host_name,
                                node.found->row.name, node.name, to_string(node.found->uuid)};
    for (const MacAddress& mac : node.found->remembered.macs) words.insert(to_string(mac));
    for (const Value& nic : node.hardware.nics.items()) words.insert(text_at(&nic, {"mac"}));
    return words;
  }

  static void put(Value& root, const Levels& levels) {
    const auto at = [&](const text::Path& path, const std::vector<PatchStep>& steps) {
      if (steps.empty()) return;
      Value list = Value::list();
      for (Value& document : patch_documents(steps)) list.append(std::move(document));
      text::set_in(root, path, list);
    };
    at({"spec", "talos", "patches", "all"}, levels.all);
    at({"spec", "talos", "patches", "controlplane"}, levels.controlplane);
    at({"spec", "talos", "patches", "worker"}, levels.worker);
    for (const auto& [pool, steps] : levels.pools) at({"spec", "pools", pool, "patches"}, steps);
    for (const auto& [node, steps] : levels.nodes) at({"spec", "nodes", node, "patches"}, steps);
  }

  void lock_nodes() {
    out_.lock.cluster = out_.name;
    for (const Draft& node : nodes_)
      out_.lock.nodes[node.name] = {node.found->row.node, node.found->row.vmid, node.found->uuid};
  }

  Files& files_;
  const secrets::Bundle& bundle_;
  const Wording& wording_;
  std::vector<Draft> nodes_;
  std::string vm_naming_, host_naming_, schematic_;
  Defaults defaults_;
  bool static_ = false;
  std::map<std::string, std::vector<std::string>> untold_;  // and the ids of the VMs
  std::vector<Left> unsaid_;
  Description out_;
};

}  // namespace

std::string cluster_name(const Found& found) {
  for (const FoundNode& node : found.nodes)
    for (const Value& document : text::parse_yaml_stream(node.active.reveal(), node.row.name))
      if (const std::string name = text_at(&document, {"cluster", "clusterName"}); !name.empty())
        return name;
  return "";
}

Description describe(Files& files, const Found& found, const secrets::Bundle& bundle,
                     const Wording& wording) {
  return Describer{files, found, bundle, wording}.run();
}

}  // namespace rocca::adopt
