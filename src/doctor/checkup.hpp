#pragma once

#include "base/clock.hpp"
#include "base/error.hpp"
#include "factory/client.hpp"
#include "net/transport.hpp"
#include "proxmox/client.hpp"
#include "proxmox/privileges.hpp"

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace rocca::text {
class Value;
}

namespace rocca::doctor {

/// What a cluster will want of its Proxmox.
struct Wish {
  proxmox::Scope scope;
  std::vector<std::string> spare_hosts;  // named by the spec, and no VM goes there yet
  /// What `up` does: without a right for it the cluster cannot be created.
  std::vector<proxmox::Act> acts = proxmox::all_acts();
  /// What later changes, drift and removal do: a missing right is a warning.
  std::vector<proxmox::Act> later;
  std::vector<std::string> pools;  // that VMs are made in
  /// What the image storage must take: `import`, `iso`, or nothing where VMs are cloned.
  std::string image_content = "import";
  struct Space {
    std::string node;  // counts only while that machine is not there yet
    std::string host;
    std::string storage;
    Bytes bytes;
  };
  std::vector<Space> space;
  struct Machine {
    std::string node;  // the user's name for it
    std::optional<proxmox::Vmid> vmid;
    std::vector<MacAddress> macs;
    std::optional<IpAddress> address = {};
    std::optional<Uuid> uuid;     // how we know that a VM is this machine
    bool vmid_is_locked = false;  // chosen by us and kept in rocca.lock, not by the spec
  };
  std::vector<Machine> machines;
  std::optional<IpAddress> vip;
  /// Why no machine has a UUID: without the secrets bundle nobody knows which VMs are ours.
  std::string identities_unknown;
  struct Image {
    std::string schematic;
    Version talos;
    factory::Artifact artifact;
    bool can_be_told = true;            // we have the schematic itself, not only its id
    std::optional<std::uint64_t> size;  // as pinned in rocca.lock
    std::vector<std::string> hosts;     // where it must go
  };
  std::string factory;  // its URL
  std::vector<Image> images;
  std::string clone_of;  // the template's name
};

enum class Grade { Good, Note, Warning, Bad, Skipped };
const char* to_string(Grade grade) noexcept;

/// What one check found, and what to do about it.
struct Finding {
  std::string check;  // stable name: reach, tls, version, clock, token, hosts, quorum, rights,
                      // pool, storage…
  Grade grade = Grade::Good;
  std::string text;
  std::vector<std::string> fix;  // lines to type, or one sentence
  bool about_rights = false;     // decides the exit code
};

struct Checkup {
  std::vector<Finding> findings;
  std::optional<proxmox::VersionInfo> version;

  bool healthy() const;
  /// 0 nothing bad, 4 a right (or the token) is missing, 1 anything else.
  int exit_code() const;
};

/// Looks at everything and changes nothing: every call is a GET or a HEAD. A check that cannot be
/// made because an earlier one failed is named as skipped, never left out.
Checkup examine(net::Transport& transport, const Clock& clock, const proxmox::Access& access,
                const Wish& wish, std::stop_token stop = {});

std::string render_text(const Checkup& checkup, bool colour);
/// The same as data: `healthy`, `version`, `findings`.
text::Value to_value(const Checkup& checkup);

}  // namespace rocca::doctor
