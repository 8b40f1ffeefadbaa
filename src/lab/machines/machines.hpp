#pragma once

#include "lab/machines/hardware.hpp"
#include "lab/machines/lans.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab {

class Clusters;

/// What is really so, for tests to compare with what a client believes.
struct Truth {
  unsigned vmid = 0;
  bool running = false;  // the VM's process
  Boot boot = Boot::Nothing;
  std::string why;  // it is no Talos
  talos::Stage stage = talos::Stage::Unknown;
  std::string hostname;
  std::vector<std::string> addresses;  // CIDRs, as the machine has them
  std::vector<std::string> heard;      // those by which clients reach it
  bool configured = false;             // a machine config is on its disk
  std::string config;
  std::string installed_version;  // "" while nothing is installed
  std::string schematic, platform;
  bool etcd_member = false;  // in the member list, as a voter
  bool etcd_runs = false;
  bool apiserver_runs = false;
  std::vector<std::string> owns;  // shared addresses
};

/// What may be wrong with a VM: with what it runs although its config is right, or by the hand of
/// somebody who changed that config a moment before it started.
enum class Trouble {
  BootLoop,      // resets itself again and again
  NoBoot,        // the firmware refuses what is on the disk
  Halt,          // a Talos that stops before it serves anything
  NoAgent,       // no agent port
  WrongVlan,     // the switch puts its packets somewhere else
  WrongGateway,  // nobody routes for it
  Deaf,          // hears no power button
  OldProcessor,  // config: cpu: kvm64
  EnrolledKeys,  // config: an EFI disk with pre-enrolled-keys=1
  IsoFirst,      // config: a Talos ISO in a drive, and that drive first in the boot order
  AgentOff,      // config: agent: 0
};
std::optional<Trouble> parse_trouble(std::string_view name);  // "boot-loop", "wrong-vlan" …
std::vector<std::string> trouble_names();

/// The machines inside the VMs: whatever a VM boots comes to life with its process and ends with
/// it, and what is written to its disks stays with the volumes.
class Estate {
 public:
  Estate(pve::Datacenter& dc, const ImageFactory& factory, Lans& lans,
         talos::NodeTiming timing = {});
  ~Estate();
  Estate(const Estate&) = delete;
  Estate& operator=(const Estate&) = delete;

  /// The Talos that runs in a VM now; nullptr if none does.
  talos::TalosNode* find(unsigned vmid) const;
  talos::TalosNode* find(const std::string& hostname) const;
  Truth truth(unsigned vmid) const;
  /// Of every VM.
  std::vector<Truth> truths() const;
  /// Every Bootstrap that made an etcd cluster, ever.
  const std::vector<talos::Fleet::Bootstrapped>& bootstraps() const { return fleet_.bootstraps; }
  talos::Fleet& fleet() noexcept { return fleet_; }
  /// What the control planes serve at :6443.
  Clusters& clusters() noexcept { return *clusters_; }
  /// Who has a shared address now; nothing: nobody.
  std::optional<unsigned> owner_of(std::string_view address) const;

  /// From the next boot on, for a VM, for all VMs of a host, or for everybody.
  void trouble(unsigned vmid, Trouble what, bool on = true);
  void trouble_host(const std::string& host, Trouble what, bool on = true);
  void trouble_all(Trouble what, bool on = true);
  void end_troubles();
  /// The VM's process dies under it.
  void crash(unsigned vmid);

 private:
  struct Box {
    bool on = false;
    StartUp start;
    Instant since{};
    std::unique_ptr<talos::TalosNode> node;
  };
  void boot(unsigned vmid, bool warm);
  void cut(unsigned vmid);
  /// Its cards are on other wires than a moment ago.
  void replug(const pve::Vm& vm);
  /// What the node has on its disk goes to the volume behind it.
  void save(unsigned vmid, Box& box);
  std::optional<pve::Guest> guest_of(const pve::Vm& vm) const;
  pve::Counters counters_of(const pve::Vm& vm) const;
  bool troubled(const pve::Vm& vm, Trouble what) const;
  void spoil_config(pve::Vm& vm) const;
  void spoil(const pve::Vm& vm, StartUp& start) const;
  void misplug(const pve::Vm& vm, StartUp& start) const;

  pve::Datacenter& dc_;
  const ImageFactory& factory_;
  Lans& lans_;
  talos::NodeTiming timing_;
  talos::Fleet fleet_;
  std::unique_ptr<Clusters> clusters_;
  std::map<unsigned, std::set<Trouble>> vm_troubles_;
  std::map<std::string, std::set<Trouble>> host_troubles_;
  std::set<Trouble> troubles_;
  std::map<unsigned, Box> boxes_;  // nodes stay: routines that end later refer to them
};

}  // namespace rocca::lab
