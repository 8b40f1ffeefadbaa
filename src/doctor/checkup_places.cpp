#include "base/strings.hpp"
#include "doctor/examination.hpp"

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
  const auto storage = std::find_if(storages.begin(), storages.end(),
                                    [&](const auto& each) { return each.name == name; });
  if (storage == storages.end()) {
    std::vector<std::string> fitting;
    for (const auto& each : storages)
      if (each.holds(type)) fitting.push_back(each.name);
    add("storage", Grade::Bad,
        fmt::format("storage '{}' is not there on {} (or the token may not see it)", name, host))
        .fix = {fitting.empty() ? fmt::format("none that takes '{}' is visible", type)
                                : fmt::format("'{}' is taken by {}", type, enumerate(fitting))};
  } else if (!storage->enabled || !storage->active) {
    add("storage", Grade::Bad,
        fmt::format("storage '{}' on {} is {}", name, host,
                    storage->enabled ? "not active" : "disabled"));
  } else if (!storage->holds(type)) {
    std::vector<std::string> with = storage->content;
    with.push_back(type);
    add("storage", Grade::Bad,
        fmt::format("storage '{}' on {} does not take '{}' (it takes {})", name, host, type,
                    join(storage->content, ", ")))
        .fix = {fmt::format("pvesm set {} --content {}", name, join(with, ","))};
  } else {
    add("storage", Grade::Good, fmt::format("storage '{}' on {} takes '{}'", name, host, type));
  }
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
      for (const auto& link : scope_.links) {
        const auto found = std::find_if(bridges.begin(), bridges.end(),
                                        [&](const auto& b) { return b.name == link.bridge; });
        if (found == bridges.end()) {
          std::vector<std::string> names;
          for (const auto& bridge : bridges) names.push_back(bridge.name);
          add("network", Grade::Bad,
              fmt::format("bridge '{}' is not there on {}, or the token may not see it",
                          link.bridge, host))
              .fix = {names.empty()
                          ? "no bridge is visible: grant SDN.Audit and SDN.Use (see rights)"
                          : fmt::format("visible are {}", enumerate(names))};
        } else if (link.vlan && found->type == "bridge" && !found->vlan_aware) {
          add("network", Grade::Warning,
              fmt::format("bridge '{}' on {} is not VLAN-aware, and VLAN {} is wanted", link.bridge,
                          host, *link.vlan))
              .fix = {
              "Proxmox then makes a bridge per VLAN by itself; make the bridge VLAN-aware if "
              "that is not meant"};
        } else {
          add("network", Grade::Good, fmt::format("bridge '{}' is there on {}", link.bridge, host));
        }
      }
    });
}

}  // namespace rocca::doctor
