#pragma once

#include "lab/pve/vm.hpp"
#include "net/transport.hpp"
#include "scenarios/engine_rig.hpp"

#include <bitset>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::seeds {

/// What must be so whatever happens. Throws Broken, which says what is not.
struct Broken {
  std::string text;
};

/// Looks at etcd after every exchange of a run: a quorum that was there and is gone was taken by
/// us, unless somebody else is known to have done it.
class QuorumWatch final : public net::Transport {
 public:
  explicit QuorumWatch(scenarios::ClusterRig& rig) : rig_(rig) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override;

  net::Transport* inner = nullptr;
  bool watches = true;
  std::function<std::uint64_t()> hosts_lost;  // so far, by others
  std::function<bool()> is_restless;          // etcd, by itself
  std::string broken;

 private:
  void look(const net::Request& request);

  scenarios::ClusterRig& rig_;
  bool had_ = false;
  std::uint64_t lost_before_ = 0;
};

/// Many words that must not stand in a text, looked for in one pass over it.
class Needles {
 public:
  void add(std::string word);
  bool in(std::string_view text) const;

 private:
  static std::size_t pair_at(std::string_view text, std::size_t at) {
    return static_cast<unsigned char>(text[at]) * 256u + static_cast<unsigned char>(text[at + 1]);
  }
  std::vector<std::string> words_;
  std::bitset<65536> begins_;  // the first two bytes of words
};

class Promises {
 public:
  explicit Promises(scenarios::ClusterRig& rig);

  /// A VM that is nobody's business but its owner's.
  void add_foreign(unsigned vmid, const std::string& host, lab::pve::ConfigSection config);
  /// The same of one that is there already.
  void leave_alone(unsigned vmid) { foreign_[vmid] = rig_.home.dc.vms.at(vmid); }
  void remove_foreign(unsigned vmid);
  bool is_foreign(unsigned vmid) const { return foreign_.contains(vmid); }
  const std::map<unsigned, lab::pve::Vm>& foreign() const noexcept { return foreign_; }

  /// A machine that was there before: what runs on it may be changed, it itself never.
  void add_machine(unsigned vmid) { machines_[vmid] = rig_.home.dc.vms.at(vmid); }
  const std::map<unsigned, lab::pve::Vm>& machines() const noexcept { return machines_; }
  /// Which of them the spec names now, and as what.
  std::map<unsigned, std::string> wanted_machines;

  /// Names that VMs had in any spec of this life.
  std::set<std::string> nodes;
  /// They are clones: until one has its mark, its notes alone tell whose it will be.
  bool clones = false;
  /// How often the cluster began: once, and once more after each `down`.
  std::size_t lives = 1;

  /// All of them, at any time.
  void check();
  /// After an `up` that ended well.
  void check_up(const engine::Plan& second, std::size_t vms);
  /// After a `down` that ended well. Machines that were there before are as they were, or, told so,
  /// reset, if they could be reached.
  enum class Reset { None, Some, All };
  void check_down(const std::map<unsigned, std::string>& before, Reset reset);
  /// What machines that were there before run.
  std::map<unsigned, std::string> configurations() const;
  /// A text that went to the user or to a log.
  void check_text(const std::string& text, const std::string& what) const;
  std::vector<unsigned> ours() const;

 private:
  void check_foreign() const;
  void check_machines() const;
  void check_marks() const;
  bool is_fresh_clone(const lab::pve::Vm& vm) const;
  void check_files(const std::string& folder);

  scenarios::ClusterRig& rig_;
  std::map<unsigned, lab::pve::Vm> foreign_;
  std::map<unsigned, lab::pve::Vm> machines_;
  Needles secrets_;
  std::map<std::string, std::string> looked_at_;  // what a file held when there was no secret in it
};

}  // namespace rocca::seeds
