#pragma once

#include <string>

namespace rocca::lab::pve {

/// Which Proxmox VE is played. Behaviour asks for the features below, not for version numbers of
/// its own.
struct Release {
  std::string manager;  // "8.4.21"
  std::string release;  // "8.4"
  std::string repoid;
  std::string qemu;  // written to `meta` of new VMs
  std::string kernel;
  unsigned major = 8;
  std::string ms_cert = "2023k";  // marker of new EFI disks with enrolled keys
  /// qemu-server 9.1.17 (PVE 9.2): tags are normalised at create too.
  bool normalises_tags_on_create = false;

  bool nine() const noexcept { return major >= 9; }
  /// access-control 9.0.2: VM.Monitor is gone, VM.GuestAgent.* came.
  bool has_guest_agent_privileges() const noexcept { return nine(); }
  /// HA groups became rules.
  bool has_ha_rules() const noexcept { return nine(); }

  static Release v8_4();
  static Release v9();  // 9.1, as recorded
  static Release v9_2();
  /// "8.4", "8" or "9", "9.1", "9.2"; throws Error(Usage) otherwise.
  static Release parse(const std::string& text);
};

}  // namespace rocca::lab::pve
