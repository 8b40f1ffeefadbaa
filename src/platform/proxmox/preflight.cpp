#include "platform/proxmox/preflight.hpp"

#include "base/diagnostics.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::resources {

std::set<std::string> effective_on(const proxmox::Grants& grants, const std::string& path) {
  std::set<std::string> names;
  if (const auto own = grants.find(path); own != grants.end()) {
    for (const auto& [name, propagates] : own->second) names.insert(name);
    return names;
  }
  for (std::string above = path; above.size() > 1;) {
    above.resize(std::max<std::size_t>(above.rfind('/'), 1));
    const auto found = grants.find(above);
    if (found == grants.end()) continue;
    for (const auto& [name, propagates] : found->second)
      if (propagates) names.insert(name);
    return names;
  }
  return names;
}

std::vector<proxmox::Need> unmet(const std::vector<proxmox::Need>& needs,
                                 const proxmox::Grants& grants) {
  proxmox::Permissions effective;
  for (const proxmox::Need& need : needs) {
    const std::set<std::string> names = effective_on(grants, need.path);
    effective[need.path].assign(names.begin(), names.end());
  }
  std::vector<proxmox::Need> gaps = proxmox::missing(needs, effective);
  std::erase_if(gaps, [](const proxmox::Need& need) { return need.optional; });
  return gaps;
}

Presence judge_bridge(bool may_see, std::optional<bool> exists) {
  if (exists) return *exists && !may_see ? Presence::Hidden : Presence::Missing;
  // Whoever has a right on it is shown it.
  return may_see ? Presence::Missing : Presence::Unknown;
}

Hindrance bridge_problem(const std::string& bridge, const std::string& host, Presence presence,
                         const std::vector<std::string>& visible) {
  const std::string there =
      visible.empty() ? "no bridge of this host is visible to the token"
                      : fmt::format("visible to the token on {}: {}", host, enumerate(visible));
  const std::string grant = fmt::format("SDN.Use on /sdn/zones/localnetwork/{}", bridge);
  switch (presence) {
    case Presence::Hidden:
      return {fmt::format("bridge '{}' on {} needs {}", bridge, host, grant),
              "`rocca doctor` prints the pveum lines that grant it", true};
    case Presence::Unknown:
      return {fmt::format("bridge '{}' is not visible on {}: it does not exist{}, or the token "
                          "lacks {}",
                          bridge, host, did_you_mean(bridge, visible), grant),
              there};
    case Presence::There:
    case Presence::Missing:
      break;
  }
  return {fmt::format("bridge '{}' does not exist on {}{}", bridge, host,
                      did_you_mean(bridge, visible)),
          there};
}

std::optional<Hindrance> storage_problem(const std::string& name, const std::string& content,
                                         const std::string& host,
                                         const std::vector<proxmox::StorageInfo>& storages,
                                         bool may_see) {
  std::vector<std::string> names, fitting;
  const proxmox::StorageInfo* found = nullptr;
  for (const proxmox::StorageInfo& each : storages) {
    names.push_back(each.name);
    if (each.holds(content)) fitting.push_back(each.name);
    if (each.name == name) found = &each;
  }
  const std::string takers =
      fitting.empty() ? fmt::format("no storage that is visible on {} takes '{}'", host, content)
                      : fmt::format("'{}' on {} is taken by {}", content, host, enumerate(fitting));
  if (found == nullptr && may_see)
    return Hindrance{
        fmt::format("storage '{}' does not exist on {}{}", name, host, did_you_mean(name, names)),
        takers};
  if (found == nullptr)
    return Hindrance{
        fmt::format("storage '{0}' is not visible on {1}: it does not exist{2}, or the token lacks "
                    "Datastore.Audit or Datastore.AllocateSpace on /storage/{0}",
                    name, host, did_you_mean(name, names)),
        takers};
  if (!found->enabled || !found->active)
    return Hindrance{fmt::format("storage '{}' on {} is {}", name, host,
                                 found->enabled ? "not active" : "disabled"),
                     found->enabled ? "`pvesm status` on that host says why"
                                    : fmt::format("pvesm set {} --disable 0", name)};
  if (found->holds(content)) return std::nullopt;
  std::vector<std::string> with = found->content;
  with.push_back(content);
  return Hindrance{fmt::format("storage '{}' on {} does not take '{}' (it takes {})", name, host,
                               content, join(found->content, ", ")),
                   fmt::format("pvesm set {} --content {}", name, join(with, ","))};
}

Hindrance pool_problem(const std::string& pool, const std::vector<std::string>& known,
                       bool may_see) {
  if (!may_see)
    return {fmt::format("pool '{0}' is not visible: it does not exist{1}, or the token lacks "
                        "Pool.Audit on /pool/{0}",
                        pool, did_you_mean(pool, known)),
            fmt::format("if it does not exist: pveum pool add {}", pool)};
  return {fmt::format("pool '{}' does not exist{}", pool, did_you_mean(pool, known)),
          known.empty() ? fmt::format("pveum pool add {}", pool)
                        : fmt::format("pveum pool add {}; or name one that exists: {}", pool,
                                      join(known, ", "))};
}

bool sees_every_vm(const proxmox::Grants& grants) {
  // What is granted on all of them, unless an entry of one VM's own takes it away again.
  if (!effective_on(grants, "/vms/999999999").contains("VM.Audit")) return false;
  return std::all_of(grants.begin(), grants.end(), [](const auto& entry) {
    return !entry.first.starts_with("/vms/") || entry.second.contains("VM.Audit");
  });
}

}  // namespace rocca::resources
