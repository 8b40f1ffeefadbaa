#pragma once

#include "base/address.hpp"
#include "base/diagnostics.hpp"
#include "base/secret.hpp"
#include "secrets/bundle.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Clusters that other tools have made, taken over as they run.
namespace rocca::adopt {

/// A VM as another tool remembers it: enough to find it and to see whether it is still the same
/// one. What it is like is asked of Proxmox itself.
struct RememberedVm {
  std::string where;  // its address in the state: module.talos.proxmox_virtual_environment_vm.cp[0]
  std::uint64_t vmid = 0;
  std::string host;
  std::string name;
  std::vector<MacAddress> macs;
  std::vector<IpAddress> addresses;  // by cloud-init or by the guest agent, when it was written
};

/// A resource that stays with the other tool, and why.
struct Left {
  std::string where;
  std::string why;

  friend bool operator==(const Left&, const Left&) = default;
};

/// What a Terraform or OpenTofu state tells of one cluster.
struct Remembered {
  std::vector<RememberedVm> vms;
  /// From talos_machine_secrets, or from a control plane's machine configuration in the state.
  std::optional<secrets::Bundle> bundle;
  std::string bundle_from;         // where that was
  std::vector<std::string> nodes;  // addresses or names that a configuration was applied to
  std::vector<Left> left;
};

struct StateOptions {
  /// Only what stands in this module (`module.blue`), for a state of several clusters.
  std::string module = {};
  /// The secrets come from elsewhere: those of the state are not looked at.
  bool has_bundle = false;
};

/// Reads a state of format 4. Every problem goes to `problems` with its place, never with a value;
/// nothing is returned if one of them is an error: another format, an encrypted state, half a file,
/// a state without a VM of bpg/proxmox or Telmate/proxmox, the secrets of two clusters.
std::optional<Remembered> read_tfstate(std::string_view text, const std::string& file,
                                       const StateOptions& options, Diagnostics& problems);

}  // namespace rocca::adopt
