#pragma once

#include "talos/client.hpp"

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace rocca::talos {

/// Who opens when one knocks at a node.
enum class Door {
  Closed,       ///< nobody listens: off, booting, or between maintenance and apid
  Maintenance,  ///< no configuration yet; anybody may read and apply
  Ours,         ///< it takes our certificate, and its own is of our CA
  Foreign,      ///< it has a configuration, but not of this cluster
};

const char* to_string(Door door) noexcept;

/// One look at a node. Every member is what was seen, nothing is concluded.
struct Sight {
  Door door = Door::Closed;
  std::optional<MachineStatus> status;
  std::vector<Service> services;  // only behind Door::Ours, and with Detail::Services
  std::string told;               // what the far side (or the network) said when it did not open
};

/// Knocks with our certificate first, then without. Never throws for a node that does not answer:
/// that is an answer. Services cost a call more: not everybody wants to know.
enum class Detail { Status, Services };
Sight look(net::Transport& transport, const Access& secure, std::stop_token stop = {},
           Detail detail = Detail::Services);

/// The same through `access.through`, which passes the question on; nothing: no answer came back
/// from the node, for whatever reason. Throws where nobody passed it on.
std::optional<Sight> look_through(net::Transport& transport, const Access& access,
                                  std::stop_token stop = {});

/// Whether a wait is over, and if not what it waits for, in the node's own words.
struct Progress {
  bool done = false;
  std::string waiting_for;
};

// Each is pure: one sight in, one verdict out. `ready` alone proves nothing: a node says ready in
// stages unknown, maintenance and rebooting too; and a running node may have no healthy etcd.

/// It is in maintenance mode and takes a configuration.
Progress until_maintenance(const Sight& sight);
/// It came back with our configuration. Door::Foreign is an error, not a wait.
Progress until_secure(const Sight& sight);
/// Its services are up, boot is over.
Progress until_running(const Sight& sight);
/// etcd runs here and is healthy.
Progress until_etcd(const Sight& sight);
/// Bootstrap may be called: the API is ours and CRI is healthy. Calling it again and again restarts
/// etcd each time.
Progress until_bootstrappable(const Sight& sight);
/// Whether Bootstrap may have been called since the node's boot. It restarts etcd, which at boot is
/// started before CRI runs: an etcd whose events are older than that was never asked.
bool maybe_bootstrapped(const Sight& sight);
/// Running, and Kubernetes calls the node ready.
Progress until_ready(const Sight& sight);

}  // namespace rocca::talos
