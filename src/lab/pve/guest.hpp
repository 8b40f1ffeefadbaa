#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rocca::lab::pve {

/// What runs inside a VM, as far as its host can tell: does it obey the power button, is there a
/// guest agent, and what does that say. Answered by whoever plays the guests
/// (Datacenter::guest_of).
struct Guest {
  bool acpi = true;
  bool agent = false;
  std::string host_name;
  std::map<std::string, std::string> os;  // keys of guest-get-osinfo
  std::string agent_version;
  struct Address {
    std::string ip;
    unsigned prefix = 0;
  };
  struct Interface {
    std::string name, mac;
    std::vector<Address> addresses;
  };
  std::vector<Interface> interfaces;
  std::map<std::string, std::string> files;  // what file-read can read
  struct Result {
    int code = 0;
    std::string out;
  };
  std::function<std::optional<Result>(const std::vector<std::string>& command)> run;
};

/// What a host counts of a VM's process since it started.
struct Counters {
  double cpu = 0;  // of all its processors, now: 0 to 1
  std::uint64_t disk_read = 0, disk_written = 0;
  std::uint64_t net_in = 0, net_out = 0;
};

}  // namespace rocca::lab::pve
