#include "spec/validation/validate.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <map>
#include <set>

namespace rocca::spec {

namespace {

bool is_name_character(char c, bool end) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  return letter || (!end && (c == '-' || c == '_' || c == '.'));
}

// Kubernetes: 63 of letters, digits, `-`, `_`, `.`, a letter or digit at both ends.
bool is_label_text(std::string_view text) {
  if (text.size() > 63) return false;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (!is_name_character(text[i], i == 0 || i + 1 == text.size())) return false;
  return true;
}

bool is_label_key(std::string_view key) {
  const std::size_t slash = key.find('/');
  if (slash == std::string_view::npos) return !key.empty() && is_label_text(key);
  return is_dns_name(key.substr(0, slash)) && slash + 1 < key.size() &&
         is_label_text(key.substr(slash + 1));
}

bool is_taint(std::string_view value) {
  const std::size_t colon = value.rfind(':');
  const std::string_view effect = colon == std::string_view::npos ? value : value.substr(colon + 1);
  if (colon != std::string_view::npos && !is_label_text(value.substr(0, colon))) return false;
  return effect == "NoSchedule" || effect == "PreferNoSchedule" || effect == "NoExecute";
}

void check_pattern(const Look& look, const Placed<std::string>& pattern, const char* key) {
  std::string rest = replace_all(replace_all(*pattern, "{cluster}", "c"), "{node}", "n");
  if (rest.find_first_of("{}") != std::string::npos) {
    look.findings.add(
        "bad-template", pattern.where,
        fmt::format("naming.{}: `{}` has a placeholder that rocca does not know", key, *pattern),
        "placeholders are {cluster} and {node}");
  } else if (pattern->find("{node}") == std::string::npos) {
    look.findings.add("bad-template", pattern.where,
                      fmt::format("naming.{}: `{}` gives every node one name", key, *pattern),
                      "put {node} into it");
  }
}

bool usable_pattern(const Placed<std::string>& pattern) {
  const std::string rest = replace_all(replace_all(*pattern, "{cluster}", "c"), "{node}", "n");
  return rest.find_first_of("{}") == std::string::npos &&
         pattern->find("{node}") != std::string::npos;
}

}  // namespace

void validate_names(const Look& look) {
  const Spec& spec = look.spec;
  check_pattern(look, spec.vm_naming, "vm");
  check_pattern(look, spec.host_naming, "host");
  const bool names_known =
      usable_pattern(spec.vm_naming) && usable_pattern(spec.host_naming) && !spec.name->empty();
  std::map<std::string, const Node*> seen;
  std::map<std::string, const Node*> hosts;
  for (const Node& node : spec.nodes) {
    const auto [other, fresh] = seen.emplace(node.name, &node);
    if (!fresh)
      look.findings.add("duplicate-name", node.where,
                        node.pool.empty()
                            ? fmt::format("there are two nodes {}", node.name)
                            : fmt::format("the pool {} makes a node {}, which is there already",
                                          node.pool, node.name),
                        fmt::format("the other one is at {}",
                                    to_string(look.findings.position(other->second->where))));
    if (!names_known || !is_dns_label(node.name)) continue;
    if (!is_dns_label(node.host_name))
      look.findings.add("bad-name", node.where,
                        fmt::format("the host name `{}` of node {} is not a DNS label",
                                    node.host_name, node.name),
                        "1 to 63 of a-z, 0-9 and -; see naming.host");
    if (!is_dns_name(node.vm_name))
      look.findings.add(
          "bad-name", node.where,
          fmt::format("the VM name `{}` of node {} is not a DNS name", node.vm_name, node.name),
          "see naming.vm");
    for (const auto& [key, value] : node.labels)
      if (!is_label_key(*key) || !is_label_text(value))
        look.findings.add("bad-label", key.where,
                          fmt::format("Kubernetes takes no label `{}: {}`", *key, value));
    for (const auto& [key, value] : node.taints)
      if (!is_label_key(*key) || !is_taint(value))
        look.findings.add("bad-label", key.where,
                          fmt::format("Kubernetes takes no taint `{}: {}`", *key, value),
                          "a taint is Effect or value:Effect; effects are NoSchedule, "
                          "PreferNoSchedule and NoExecute");
  }
  for (const Pool& pool : spec.pools) {
    if (spec.find_node(pool.name) != nullptr && spec.find_node(pool.name)->pool != pool.name)
      look.findings.add("duplicate-name", pool.where,
                        fmt::format("a node and a pool are both called {}", pool.name));
  }
}

void validate_nodes(const Look& look) {
  const Spec& spec = look.spec;
  const auto control_planes = spec.control_planes();
  if (control_planes.empty() && !look.findings.has_broken()) {
    const Where where = spec.nodes.empty() ? Where{0, 1, 1, 1} : spec.nodes.front().where;
    look.findings.add("no-control-plane", where, "no node has the role controlplane",
                      "one control plane is enough to begin with");
  }
  if (control_planes.size() % 2 == 0 && !control_planes.empty() && !look.findings.has_broken()) {
    const bool warn = spec.warn_even_control_planes.value || look.warn_even_control_planes;
    const std::size_t count = control_planes.size();
    look.findings.add(
        "even-control-planes", warn ? Severity::Warning : Severity::Error,
        control_planes.back()->where,
        count == 2 ? std::string("two control planes are worse than one: etcd needs both, so the "
                                 "loss of either stops the cluster")
                   : fmt::format("{} control planes stand the loss of {}, no more than {} would",
                                 count, (count - 1) / 2, count - 1),
        warn ? ""
             : fmt::format("use {} or {}; `policy: {{ evenControlPlanes: warn }}` lets it pass",
                           count - 1, count + 1));
  }
  if (control_planes.size() > 7)
    look.findings.add(
        "many-control-planes", control_planes[7]->where,
        fmt::format("{} control planes make etcd slower, not safer", control_planes.size()));

  std::map<Uuid, const Node*> uuids;
  std::map<std::int64_t, const Node*> vmids;
  std::map<MacAddress, const Node*> macs;
  std::map<const Machine*, const Node*> first_of;
  for (const Node& node : spec.nodes) {
    if (node.existing) {
      if (node.existing->uuid)
        if (const auto [other, fresh] = uuids.emplace(**node.existing->uuid, &node); !fresh)
          look.findings.add("duplicate-uuid", node.existing->uuid->where,
                            fmt::format("{} has the UUID of {}", node.name, other->second->name));
      if (node.existing->disk && node.existing->disk->value.starts_with("/dev/") &&
          !node.existing->disk->value.starts_with("/dev/disk/"))
        look.findings.add(
            "existing-disk", node.existing->disk->where,
            fmt::format("{} may be another disk after the next boot", **node.existing->disk),
            "give its serial number, or a path under /dev/disk/by-id");
      continue;
    }
    if (!node.machine) continue;
    const Machine& machine = *node.machine;
    const auto [first, alone] = first_of.emplace(&machine, &node);
    if (!alone) {
      if (machine.vmid)
        look.findings.add("vmid-inherited", machine.vmid->where,
                          "this VM id would be that of several VMs", "give vmid on single nodes");
      for (const Nic& nic : machine.nics)
        if (nic.mac)
          look.findings.add("mac-inherited", nic.mac->where,
                            "this MAC address would be that of several NICs",
                            "give mac on single nodes, or leave it out");
      continue;
    }
    if (machine.vmid)
      if (const auto [other, fresh] = vmids.emplace(**machine.vmid, &node); !fresh)
        look.findings.add("duplicate-vmid", machine.vmid->where,
                          fmt::format("{} and {} have one VM id, {}", other->second->name,
                                      node.name, **machine.vmid));
    for (const Nic& nic : machine.nics)
      if (nic.mac)
        if (const auto [other, fresh] = macs.emplace(**nic.mac, &node); !fresh)
          look.findings.add("duplicate-mac", nic.mac->where,
                            fmt::format("{} and {} have one MAC address, {}", other->second->name,
                                        node.name, to_string(**nic.mac)));
  }
}

void validate(const Look& look) {
  validate_names(look);
  validate_nodes(look);
  validate_network(look);
  validate_platform(look);
  validate_hardware(look);
  validate_versions(look);
  validate_patches(look);
  validate_addons(look);
}

}  // namespace rocca::spec
