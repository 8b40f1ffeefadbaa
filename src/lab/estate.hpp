#pragma once

#include "lab/hardware.hpp"
#include "lab/lans.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rocca::lab {

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
};

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

 private:
  struct Box {
    bool on = false;
    StartUp start;
    Instant since{};
    std::unique_ptr<talos::TalosNode> node;
  };
  void boot(unsigned vmid, bool warm);
  void cut(unsigned vmid);
  /// What the node has on its disk goes to the volume behind it.
  void save(unsigned vmid, Box& box);
  std::optional<pve::Guest> guest_of(const pve::Vm& vm) const;

  pve::Datacenter& dc_;
  const ImageFactory& factory_;
  Lans& lans_;
  talos::NodeTiming timing_;
  talos::Fleet fleet_;
  std::map<unsigned, Box> boxes_;  // nodes stay: routines that end later refer to them
};

}  // namespace rocca::lab
