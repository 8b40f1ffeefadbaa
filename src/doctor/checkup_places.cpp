#include "base/strings.hpp"
#include "doctor/examination.hpp"
#include "platform/proxmox/preflight.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocca::doctor {

void Examination::storage() {
  std::map<std::string, Place> places;  // by name and host; a shared storage is one place
  for (const std::string& host : online_)
    attempt("storage", [&] {
      const auto storages = client_.storages(host);
      const auto find = [&](const std::string& name) -> const proxmox::StorageInfo* {
        for (const auto& storage : storages)
          if (storage.name == name) return &storage;
        return nullptr;
      };
      if (!scope_.image_storage.empty() && !wish_.image_content.empty())
        content(host, storages, scope_.image_storage, wish_.image_content);
      for (const std::string& name : scope_.disk_storages) content(host, storages, name, "images");
      const auto want = [&](const std::string& name, Bytes bytes, bool is_image) {
        const proxmox::StorageInfo* found = find(name);
        if (found == nullptr || !found->active) return;
        Place& place = places[found->shared ? name : name + "@" + host];
        // Every host has an own answer for a shared storage; they differ by moments only.
        if (place.storage.name.empty()) place.storage = *found;
        if (!found->shared) place.host = host;
        // What all hosts share is fetched once.
        if (is_image && found->shared && place.has_images) return;
        place.wanted = place.wanted + bytes;
      };
      for (const Wish::Space& space : wish_.space)
        if (space.host == host && !there_.contains(space.node))
          want(space.storage, space.bytes, false);
      if (const auto bytes = image_bytes_.find(host); bytes != image_bytes_.end())
        want(scope_.image_storage, bytes->second, true);
      for (auto& [name, place] : places) place.has_images = true;
    });
  for (const auto& [name, place] : places) space(place);
}

void Examination::content(const std::string& host,
                          const std::vector<proxmox::StorageInfo>& storages,
                          const std::string& name, const std::string& type) {
  const std::string path = "/storage/" + name;
  const auto& rights = allowed_on(path);
  const bool may_see = std::any_of(rights.begin(), rights.end(), [](const std::string& each) {
    return each == "Datastore.Audit" || each == "Datastore.AllocateSpace";
  });
  if (const auto problem = resources::storage_problem(name, type, host, storages, may_see)) {
    add("storage", Grade::Bad, problem->text).fix = {problem->hint};
    const bool shown = std::any_of(storages.begin(), storages.end(),
                                   [&](const auto& each) { return each.name == name; });
    if (!shown && (may_see || !storages.empty())) unusable_.insert(path);
    return;
  }
  add("storage", Grade::Good, fmt::format("storage '{}' on {} takes '{}'", name, host, type));
}

void Examination::space(const Place& place) {
  const std::string where = place.host.empty()
                                ? fmt::format("shared storage '{}'", place.storage.name)
                                : fmt::format("storage '{}' on {}", place.storage.name, place.host);
  if (place.wanted.count() == 0) return;
  if (place.storage.available >= place.wanted) {
    add("storage", Grade::Good,
        fmt::format("{} has {:.1f} GiB free, and {:.1f} GiB are still wanted", where,
                    in_gib(place.storage.available), in_gib(place.wanted)));
    return;
  }
  // Thin storages may promise more than they have; that is the user's choice, and we say it.
  const std::string& type = place.storage.type;
  const bool thin = type == "lvmthin" || type == "zfspool" || type == "rbd";
  add("storage", thin ? Grade::Warning : Grade::Bad,
      fmt::format("{} has {:.1f} GiB free and the cluster wants {:.1f} GiB", where,
                  in_gib(place.storage.available), in_gib(place.wanted)))
      .fix = {thin ? "it is thin and may promise more than it has, until the disks fill up"
                   : "free space, or name another storage for the disks"};
}

void Examination::network() {
  for (const std::string& host : online_)
    attempt("network", [&] {
      const auto bridges = client_.bridges(host);
      for (const auto& link : scope_.links) bridge(host, link, bridges);
    });
}

void Examination::bridge(const std::string& host, const proxmox::Scope::Link& link,
                         const std::vector<proxmox::Bridge>& bridges) {
  const auto found = std::find_if(bridges.begin(), bridges.end(),
                                  [&](const auto& each) { return each.name == link.bridge; });
  if (found == bridges.end()) {
    std::vector<std::string> names;
    for (const auto& each : bridges) names.push_back(each.name);
    const std::string path = fmt::format("/sdn/zones/{}/{}", link.zone, link.bridge);
    const auto& rights = allowed_on(path);
    const bool may_see = std::any_of(rights.begin(), rights.end(), [](const std::string& each) {
      return each == "SDN.Use" || each == "SDN.Audit";
    });
    const auto exists = may_see ? std::nullopt : client_.has_interface(host, link.bridge);
    const resources::Presence presence = resources::judge_bridge(may_see, exists);
    const resources::Hindrance problem =
        resources::bridge_problem(link.bridge, host, presence, names);
    Finding& finding = add("network", Grade::Bad, problem.text);
    finding.fix = {problem.hint};
    finding.about_rights = problem.about_rights;
    // Where only rights may be missing, the lines that grant them are worth printing.
    const bool only_rights = presence == resources::Presence::Hidden ||
                             (presence == resources::Presence::Unknown && names.empty());
    if (!only_rights) unusable_.insert(path);
  } else if (link.vlan && found->type == "bridge" && !found->vlan_aware) {
    add("network", Grade::Warning,
        fmt::format("bridge '{}' on {} is not VLAN-aware, and VLAN {} is wanted", link.bridge, host,
                    *link.vlan))
        .fix = {
        "Proxmox then makes a bridge per VLAN by itself; make the bridge VLAN-aware if that is not "
        "meant"};
  } else {
    add("network", Grade::Good, fmt::format("bridge '{}' exists on {}", link.bridge, host));
  }
}

}  // namespace rocca::doctor
