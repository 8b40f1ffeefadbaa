#pragma once

#include "lab/machines/lans.hpp"
#include "lab/machines/machines.hpp"
#include "lab/pve/datacenter.hpp"
#include "lab/services/factory.hpp"
#include "lab/services/internet.hpp"
#include "lab/sim/world.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace rocca::lab {

/// A whole simulated home: the data centre that `rocca lab` opens and that tests begin with. One or
/// more hosts with the storages local (dir), local-lvm (lvmthin), tank (zfspool) and, with several
/// hosts, shared (nfs), bridges vmbr0 and vmbr1 (VLAN-aware), and a token with exactly the rights a
/// cluster needs. Its router has the first address of every private subnet on vmbr0, and VLAN 20
/// carries 10.20.0.0/16, and so on by tens; DHCP answers on vmbr0. Whatever a VM boots comes to
/// life. The simulated internet holds an Image Factory.
class Home {
 public:
  struct Options {
    pve::Release release = pve::Release::v9();
    std::vector<std::string> hosts = {"pve1"};
    std::uint64_t seed = 1;
    Instant start{std::chrono::seconds{1'763'500'000}};
    pve::Timing timing{};
    talos::NodeTiming node_timing{};

    // What somebody's own spec asks for beside the above.
    std::vector<std::string> addresses{};  // of the hosts, in their order; empty: the lab's own
    std::vector<std::string> names{};      // by which the first host is reached, beside pve.home
    /// More storages, with what they may hold: `images` alone is lvmthin, anything else a folder.
    std::map<std::string, std::set<std::string>> storages{};
    std::vector<std::string> bridges{};  // VLAN-aware, on every host
    std::vector<std::string> pools{};
    std::vector<Lans::Lan> lans{};  // heard before the lab's own
  };
  explicit Home(const Options& options);

  World world;
  pve::Datacenter dc;
  Lans lans;
  ImageFactory factory;
  Estate estate;
  Internet internet;

  /// `rocca@pve!lab=UUID`: privilege-separated, least privileges. And one that may do anything but
  /// be root@pam.
  std::string token;
  std::string root_token;
  /// https://pve.home:8006, the first host.
  std::string endpoint() const { return "https://pve.home:8006"; }
  static constexpr const char* factory_name = "factory.talos.dev";
  const pve::Node& first() const { return *dc.nodes().begin()->second; }

 private:
  void add_hosts(const Options& options);
  void add_storages(const Options& options);
  void add_users(const Options& options);
  void add_lans(const Options& options);
};

/// Nothing takes time but what somebody waits for by the clock: retries, leases, deadlines.
void without_latency(Home::Options& options);

/// "3" is pve1, pve2, pve3; "atlas,titan" is those. Throws Error(Usage).
std::vector<std::string> parse_hosts(const std::string& text);

}  // namespace rocca::lab
