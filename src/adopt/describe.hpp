#pragma once

#include "adopt/found.hpp"
#include "base/files.hpp"
#include "spec/lock.hpp"

#include <map>
#include <string>
#include <vector>

namespace rocca::adopt {

/// How the Proxmox is reached, as the spec says it.
struct Site {
  std::vector<std::string> endpoints;
  std::string fingerprint;
  std::string ca_file;
  bool insecure = false;
  std::string images = "local";  // storage for the images of nodes to come
};

struct Wording {
  std::string name = {};    // empty: what the nodes call their cluster
  std::string folder = {};  // of the spec to come
  Site site = {};
};

/// A cluster that runs, said in rocca's own files.
struct Description {
  std::string name;
  std::string spec;                       // cluster.yaml
  spec::Lock lock;                        // with the ids and UUIDs that the VMs are known by
  std::map<std::string, Secret> secrets;  // that its patches name
  std::vector<Left> left;                 // what the spec cannot say: it stays as it is
};

/// Says what runs as a spec: hardware, network, versions and names in its own words, and whatever
/// else the machine configurations say as patches, as far up as they are alike. Asks nobody.
/// Error(Refused) where no spec could say it: nodes of two versions, a
/// configuration that rocca cannot read.
Description describe(Files& files, const Found& found, const secrets::Bundle& bundle,
                     const Wording& wording);

/// Their cluster's name in the nodes' own configuration; empty: they do not say one.
std::string cluster_name(const Found& found);

}  // namespace rocca::adopt
