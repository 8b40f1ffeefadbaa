#pragma once

#include "base/clock.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rocca::lab::pve {

/// One section of a VM's config file: key -> text, sorted as the file is.
using ConfigSection = std::map<std::string, std::string>;

/// A VM as its config file and its process are. Everything a client can read is derived from this.
struct Vm {
  unsigned id = 0;
  std::string node;

  ConfigSection
      config;  // the first section; `description` decoded, `lock`, `template`, `parent` as keys
  ConfigSection pending;                       // [PENDING] values
  std::map<std::string, bool> pending_delete;  // key -> forced (`!key`)
  ConfigSection cloudinit;                     // [special:cloudinit]
  std::map<std::string, ConfigSection> snapshots;

  enum class Power { Stopped, Running, Paused, Prelaunch };
  Power power = Power::Stopped;
  std::optional<unsigned> pid;
  Instant started{};
  ConfigSection running;         // the config its QEMU was started with; empty when stopped
  std::vector<std::string> pci;  // the host's functions that its QEMU was given when it started
  std::map<std::int64_t, std::pair<int, std::string>> guest_processes;  // started by agent/exec
  std::int64_t next_guest_pid = 106;

  /// Statistics are broadcast every 10 s: what cluster/resources last heard of it.
  struct Broadcast {
    bool known = false;
    std::string name, status;
    bool is_template = false;
  } broadcast;

  const std::string* find(const std::string& key) const {
    const auto found = config.find(key);
    return found == config.end() ? nullptr : &found->second;
  }
};

/// The config file's exact text; its SHA-1 is the digest.
std::string config_file_text(const Vm& vm);
std::string config_digest(const Vm& vm);

}  // namespace rocca::lab::pve
