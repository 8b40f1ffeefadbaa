#pragma once

#include "base/clock.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace rocca::proxmox {

/// The name of a Proxmox task: `UPID:node:pid:pstart:starttime:type:id:user@realm[!token]:`.
struct Upid {
  std::string text;  // whole, with the colon at its end
  std::string node;  // where it runs, and where to ask for it
  Instant started;
  std::string type;  // qmcreate, qmstart, download…
  std::string id;    // VMID, file name, or empty
  std::string user;  // user@realm or user@realm!token

  static std::optional<Upid> parse(std::string_view text);

  friend bool operator==(const Upid& a, const Upid& b) { return a.text == b.text; }
};

}  // namespace rocca::proxmox
