#pragma once

#include "base/address.hpp"
#include "base/files.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rocca::spec {

/// A file that `new` writes. One that is shared between clusters is left alone where it is already
/// there.
struct NewFile {
  std::string path;
  std::string content;
  unsigned mode = 0644;
  bool shared = false;
};

struct Scaffold {
  std::string folder;                   // of the new cluster
  std::vector<NewFile> files;           // secrets are not among them
  std::vector<std::string> notes;       // what the user still has to do
  std::vector<std::string> references;  // secrets that the spec refers to: proxmox.token …
};

/// The network and the Proxmox that a new cluster is written for.
struct Site {
  std::vector<std::string> endpoints;
  std::string fingerprint;  // empty: the certificate is one that the system trusts
  std::vector<std::string> hosts;
  std::string images;
  std::string disks;
  std::string bridge;
  Cidr subnet;
  IpAddress gateway;
  std::vector<IpAddress> nameservers;
  std::optional<IpAddress> vip;
  std::vector<IpAddress> control_planes;
  unsigned workers = 0;
  std::optional<AddressRange> worker_addresses;  // there if there are workers

  /// One that fits nobody, for people to edit.
  static Site example();
};

/// Fills in addresses: one block of the subnet for the VIP (with more than one control plane), the
/// control planes and the workers with room to grow, outside of `taken`, of the gateway and of
/// every cluster of `others`. Throws Conflict when the subnet has no room.
void propose_addresses(Site& site, unsigned control_planes, unsigned workers, Files& files,
                       const std::vector<std::string>& others, const std::vector<IpAddress>& taken);

/// The files of a new cluster in `root`/clusters/`name`: a commented spec, .gitignore, .envrc, and
/// for the whole repository .sops.yaml (for the age recipient given) and the JSON Schema that
/// editors use.
Scaffold scaffold(const std::string& root, const std::string& name, const std::string& recipient,
                  const Site& site = Site::example());

/// The .sops.yaml of a repository whose secrets are for one age recipient.
std::string sops_config(const std::string& recipient);

/// Where a path leads when every link on its way is followed.
using RealPath = std::function<std::string(const std::string&)>;

/// The same, made after another cluster, which may lie in another repository: its text with
/// comments, with names, addresses, VM ids and MAC addresses of its own (the next free block of the
/// subnet, outside of every cluster of `others`), and copies of the files that its spec names below
/// its folder; nothing else that lies there is looked at. Throws Usage where it cannot be told
/// apart from the other (an address that stands in a base), Conflict when the subnet has no room.
Scaffold scaffold_from(
    Files& files, const std::string& root, const std::string& name, const std::string& source,
    const std::vector<std::string>& others, const std::string& recipient,
    const RealPath& real = [](const std::string& path) { return path; });

}  // namespace rocca::spec
