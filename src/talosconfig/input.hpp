#pragma once

#include "secrets/bundle.hpp"
#include "spec/spec.hpp"
#include "talosconfig/render.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rocca::talos {

/// What a node's configuration needs beside the spec: it is found out elsewhere.
struct Surroundings {
  secrets::Bundle bundle;
  std::string schematic;  // id of the node's image
  std::optional<Secret> tailscale_key;
  std::map<std::string, Secret> patch_secrets;  // by secret_key
  std::string install_disk;   // of an existing machine whose spec does not name it: a serial
  std::string link;           // of an existing machine: name, or hardware address in lower case
  std::string first_address;  // of the first control plane, where DHCP gave it
};

/// nocloud for virtual machines, whose addresses come from a cloud-init drive; metal where META or
/// the configuration itself says them, and for machines that were there before.
std::string image_platform(const spec::Spec& spec, const spec::Node& node);
/// The image that installs and upgrades the node.
std::string installer_of(const spec::Spec& spec, const spec::Node& node,
                         const std::string& schematic);
/// Of a secret that patches name.
std::string secret_key(const spec::SecretRef& reference);

/// A virtual disk's serial number: the name it has in the spec. Disks are known by it, never by
/// /dev/sdX.
std::string disk_serial(const spec::Disk& disk);
/// Must the configuration say which link it is about, and the spec does not? Only a machine that
/// was there before: others have one that is known.
bool needs_link(const spec::Spec& spec, const spec::Node& node);
/// Puts marks that fit no disk and no link where only the machine itself can say, and names them.
std::vector<std::string> mark_unknown(Surroundings& around, const spec::Spec& spec,
                                      const spec::Node& node);
/// https://HOST:PORT. Throws Error(NotFound) when only the live world knows it.
std::string endpoint_of(const spec::Spec& spec, const std::string& first_address = "");

ConfigInput config_input(const spec::Spec& spec, const spec::Node& node,
                         const Surroundings& surroundings);

}  // namespace rocca::talos
