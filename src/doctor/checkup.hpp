#pragma once

#include "base/clock.hpp"
#include "base/error.hpp"
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
  std::vector<proxmox::Act> acts = proxmox::all_acts();
  struct Space {
    std::string host;
    std::string storage;
    Bytes bytes;
  };
  std::vector<Space> space;
  struct Machine {
    std::string node;  // the user's name for it
    std::optional<proxmox::Vmid> vmid;
    std::vector<MacAddress> macs;
    std::optional<Uuid> uuid;  // how we would know that a VM with that id is this machine
  };
  std::vector<Machine> machines;
  std::vector<std::string> image_urls;
};

enum class Grade { Good, Note, Warning, Bad, Skipped };
const char* to_string(Grade grade) noexcept;

/// What one check found, and what to do about it.
struct Finding {
  std::string
      check;  // stable name: reach, tls, version, clock, token, hosts, quorum, rights, storage…
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

/// Looks at everything and changes nothing: every call is a GET. A check that cannot be made
/// because an earlier one failed is named as skipped, never left out.
Checkup examine(net::Transport& transport, const Clock& clock, const proxmox::Access& access,
                const Wish& wish, std::stop_token stop = {});

std::string render_text(const Checkup& checkup, bool colour);
/// The same as data: `healthy`, `version`, `findings`.
text::Value to_value(const Checkup& checkup);

}  // namespace rocca::doctor
