#pragma once

#include "base/address.hpp"
#include "base/clock.hpp"
#include "base/uuid.hpp"
#include "engine/resource.hpp"
#include "platform/world.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Why a node never answered. Facts first, then what they mean: pure, so that every message is a
// test.

namespace rocca::resources {

/// What can be known of a silent node without it.
struct Symptoms {
  std::string node;
  std::string address;  // where it should answer; empty: nobody knows

  bool existing = false;  // a machine that was there before: nobody can tell of it but itself

  // its VM, as Proxmox tells it
  bool there = false;
  std::string power;  // running, stopped
  std::string qmp;    // running, paused, prelaunch, internal-error…
  std::optional<Duration> uptime;
  double cpu = 0;  // 1 is all of its processors
  std::uint64_t net_in = 0, net_out = 0, disk_read = 0, disk_written = 0;

  // how it was configured
  std::string cpu_type;
  std::string firmware;
  bool pre_enrolled_keys = false;
  bool iso_first = false;     // an ISO stands before the disk in the boot order
  bool agent_device = false;  // Proxmox offers the guest agent's port
  std::string bridge;
  std::optional<unsigned> vlan;

  // what the image and the spec say
  bool agent_extension = false;
  bool by_dhcp = false;
  std::optional<IpAddress> gateway;
  std::optional<Cidr> subnet;

  // who speaks for it
  bool agent_answers = false;
  std::vector<IpAddress> agent_addresses;
  enum class Answer { Nobody, Maintenance, Ours, Foreign, Stranger, OtherSystem };
  Answer answer = Answer::Nobody;  // at its address
  std::string answer_text;  // the stranger's UUID, the other system's ports, or what the node waits
                            // for
};

struct Cause {
  std::string what;  // one sentence
  std::string fix;
  int weight = 0;  // the larger, the likelier
};

/// All causes that fit, the likeliest first; always at least one.
std::vector<Cause> diagnose(const Symptoms& symptoms);

/// The block under the error: the facts in one line, then the causes with their fixes.
std::string render(const Symptoms& symptoms, const std::vector<Cause>& causes);

/// Who has the address of a node whose VM is about to be made, in words; empty: nobody is heard
/// there. One short knock where nobody is.
std::string occupant(World& world, const std::string& node);

/// The same of the VIP of a cluster that does not exist yet; empty also where it has none.
std::string vip_occupant(World& world);

/// Why a node stays silent or does not become healthy.
engine::Explanation explain_node(World& world, const std::string& node);

/// Reads the facts; what cannot be read is left out.
Symptoms examine(World& world, const std::string& node);

}  // namespace rocca::resources
