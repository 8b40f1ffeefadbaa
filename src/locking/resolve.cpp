#include "locking/resolve.hpp"

#include "base/diagnostics.hpp"
#include "base/error.hpp"
#include "base/strings.hpp"
#include "factory/node_image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rocca::locking {

namespace {

/// The name of the schematic that all nodes share who have none of their own.
constexpr const char* shared_schematic = "cluster";

std::string schematic_name(const spec::Spec& spec, const spec::Node& node) {
  if (*spec.network.addressing == spec::Addressing::Meta && !node.existing) return node.name;
  if (!node.image) return shared_schematic;
  return node.pool.empty() ? "nodes." + node.name : "pools." + node.pool;
}

std::string url_of(const spec::Spec& spec, const std::string& schematic,
                   const factory::Artifact& artifact) {
  std::string base = *spec.talos.factory;
  while (base.ends_with('/')) base.pop_back();
  return base + factory::image_path(schematic, *spec.talos.version, artifact);
}

void lock_digest(const std::string& file, const factory::ImageDigest& found,
                 spec::LockedArtifact& pinned) {
  if (pinned.size && *pinned.size != found.size.count())
    throw Error(Fault::Conflict, fmt::format("{} has {} bytes, and {} are pinned", file,
                                             found.size.count(), *pinned.size))
        .hint("`rocca lock --refresh --digest` pins what the factory has now");
  pinned.size = found.size.count();
  pinned.sha256 = found.sha256;
}

/// What the factory must say: how large each image is; and what it does not say: its digest.
void lock_images(Files& files, const spec::Spec& spec, spec::Lock& lock, const Sources& sources) {
  std::set<std::string> done;  // many nodes share one
  for (const spec::Node& node : spec.nodes) {
    const auto artifact = artifact_of(spec, node);
    if (!artifact) continue;
    const factory::NodeImage image = factory::node_image(files, spec, node);
    const std::string file = factory::image_file(image.id, *spec.talos.version, *artifact);
    spec::LockedArtifact& pinned = lock.images[file];
    const bool reads = sources.digests && (pinned.sha256.empty() || sources.refresh);
    if (!done.insert(file).second || (pinned.size && !reads && !sources.refresh)) continue;
    within(fmt::format("looking for the image of {}", node.name), [&] {
      // A factory makes images only of schematics that it was told.
      if (image.schematic) {
        sources.factory.register_schematic(*image.schematic);
      } else if (!sources.factory.knows(image.id)) {
        throw Error(Fault::NotFound, fmt::format("the factory at {} does not know the schematic {}",
                                                 *spec.talos.factory, image.id))
            .hint("talos.schematic names an id: register it there, or give its file");
      }
      const auto facts =
          sources.factory.image(image.id, *spec.talos.version, *artifact, sources.patience);
      if (!pinned.size || sources.refresh)
        pinned.size = facts.size ? std::optional{facts.size->count()} : std::nullopt;
      if (!reads) return;
      const factory::Heard heard = [&](Bytes so_far, std::optional<Bytes> all) {
        if (sources.heard) sources.heard(file, so_far, all);
      };
      lock_digest(file, sources.factory.digest(image.id, *spec.talos.version, *artifact, heard),
                  pinned);
    });
  }
}

/// Does the lock say where every virtual node is?
bool all_placed(const spec::Spec& spec, const spec::Lock& before) {
  Occupied nothing;
  // Nobody is asked: whoever would have to be chosen anew shows as a change.
  const auto hosts = choose_hosts(spec, before, nothing);
  const auto vmids = choose_vmids(spec, before, nothing);
  return std::all_of(spec.nodes.begin(), spec.nodes.end(), [&](const spec::Node& node) {
    if (!node.machine) return true;
    const auto locked = before.nodes.find(node.name);
    return locked != before.nodes.end() && locked->second.host == hosts.at(node.name) &&
           locked->second.vmid == vmids.at(node.name);
  });
}

void lock_nodes(const spec::Spec& spec, const spec::Lock& before, spec::Lock& lock,
                const Sources& sources) {
  for (const spec::Node& node : spec.nodes)
    // Beside the id of the VM that it was before it would mean a VM that was taken over.
    if (node.existing && node.existing->uuid && !lock.nodes[node.name].vmid)
      lock.nodes[node.name].uuid = **node.existing->uuid;
  if (!spec.proxmox || all_placed(spec, before)) return;
  choose_nodes(spec, before, lock, sources.look(), sources.is_free);
}

}  // namespace

std::optional<factory::Artifact> artifact_of(const spec::Spec& spec, const spec::Node& node) {
  if (node.existing || *spec.talos.boot == spec::Boot::Template) return std::nullopt;
  factory::Artifact artifact;
  if (*spec.network.addressing == spec::Addressing::Meta)
    artifact.platform = factory::Platform::Metal;
  if (*spec.talos.boot == spec::Boot::Iso) artifact.ending = "iso";
  return artifact;
}

spec::Lock pin(Files& files, const spec::Spec& spec, const spec::Lock& before) {
  if (!before.cluster.empty() && before.cluster != *spec.name)
    throw Error(Fault::Refused, fmt::format("rocca.lock is of the cluster {}, and the spec of {}",
                                            before.cluster, *spec.name))
        .hint("a copied folder keeps its lock: take the file away, and it is resolved anew");
  spec::Lock lock = before;
  lock.cluster = *spec.name;
  lock.talos = to_string(*spec.talos.version);
  lock.kubernetes = to_string(*spec.kubernetes.version);
  lock.schematics.clear();
  lock.images.clear();
  for (const spec::Node& node : spec.nodes) {
    const factory::NodeImage image = factory::node_image(files, spec, node);
    lock.schematics[schematic_name(spec, node)] = image.id;
    const auto artifact = artifact_of(spec, node);
    if (!artifact) continue;
    const std::string file = factory::image_file(image.id, *spec.talos.version, *artifact);
    spec::LockedArtifact& pinned = lock.images[file];
    pinned.url = url_of(spec, image.id, *artifact);
    const auto old = before.images.find(file);
    if (old != before.images.end() && (old->second.url.empty() || old->second.url == pinned.url)) {
      pinned.size = old->second.size;
      pinned.sha256 = old->second.sha256;
    }
  }
  return lock;
}

void check_extensions(const spec::Spec& spec, spec::Lock& lock, factory::Client& factory,
                      bool refresh) {
  const std::string version = to_string(*spec.talos.version);
  std::vector<spec::Placed<std::string>> named = spec.talos.image.extensions;
  for (const spec::Node& node : spec.nodes)
    if (node.image)
      named.insert(named.end(), node.image->extensions.begin(), node.image->extensions.end());
  // Whoever builds schematics elsewhere needs no list; who names extensions does.
  if (named.empty()) return;
  if (lock.extensions_of != version || refresh) {
    lock.extensions.clear();
    for (const auto& extension : factory.extensions(*spec.talos.version))
      lock.extensions.push_back(extension.name);
    std::sort(lock.extensions.begin(), lock.extensions.end());
    lock.extensions_of = version;
  }
  for (const auto& extension : named) {
    const std::string name = factory::extension_name(*extension);
    if (std::binary_search(lock.extensions.begin(), lock.extensions.end(), name)) continue;
    throw Error(Fault::Usage, fmt::format("{}: the factory has no extension `{}` for Talos v{}{}",
                                          to_string(spec.position(extension.where)), name, version,
                                          did_you_mean(name, lock.extensions)))
        .hint("`rocca explain extension-not-listed`; the whole list is in rocca.lock");
  }
}

spec::Lock resolve(Files& files, const spec::Spec& spec, const spec::Lock& before,
                   const Sources& sources) {
  spec::Lock lock = pin(files, spec, before);
  check_extensions(spec, lock, sources.factory, sources.refresh);
  lock_images(files, spec, lock, sources);
  lock_nodes(spec, before, lock, sources);
  return lock;
}

void choose_nodes(const spec::Spec& spec, const spec::Lock& before, spec::Lock& lock,
                  Occupied there, const std::function<bool(std::uint64_t)>& is_free) {
  for (const auto& [name, host] : choose_hosts(spec, before, there)) lock.nodes[name].host = host;
  for (bool settled = false; !settled;) {
    settled = true;
    for (const auto& [name, vmid] : choose_vmids(spec, before, there)) {
      place(lock.nodes[name], vmid);
      const auto locked = before.nodes.find(name);
      const bool ours = (locked != before.nodes.end() && locked->second.vmid == vmid) ||
                        spec.find_node(name)->machine->vmid;
      if (ours || is_free(vmid)) continue;
      there.vmids.insert(vmid);
      settled = false;
      break;
    }
  }
}

Occupied occupied(proxmox::Client& client) {
  Occupied there;
  for (const proxmox::VmRow& vm : client.vms()) there.vmids.insert(vm.vmid);
  for (const proxmox::NodeInfo& node : client.nodes())
    if (!node.online) there.offline_hosts.insert(node.name);
  // A range for new ids that the owner of the data centre has set.
  if (const auto lower = parse_uint(client.options().next_id_lower); lower && *lower >= 100)
    there.first_vmid = *lower;
  return there;
}

}  // namespace rocca::locking
