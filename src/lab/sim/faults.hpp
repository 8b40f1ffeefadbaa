#pragma once

#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "text/value.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rocca::lab::pve {
class Datacenter;
}

namespace rocca::lab {

class Home;
class Infisical;
class World;

/// What goes wrong, written down: a YAML list, each entry one fault.
///
///   - request: { host: pve1, method: POST, path: /qemu }     # all of them optional; path by its
///                                                            # beginning or part
///     skip: 2            # the first two that fit are spared (0)
///     times: 1           # how often it strikes (1); 0 = always
///     chance: 50         # of 1000, by the seed; without it always
///     delay: 5s          # and one or more of: delay, answer, cut, lose, truncate, strings, race
///     answer: 596        # a status instead of the handler; reason: "Connection timed out",
///                        # type: text/html, body: "<html>..."
///     cut: true          # the connection ends before anything is done
///     lose: true         # it is done, and the answer never comes
///     silent: true       # only with host: infisical: nothing is done and nothing is ever said
///     retryAfter: 30     # only with host: infisical: seconds, beside an answer
///     truncate: 20       # of the answer's body only so many bytes come
///     strings: true      # every number of the answer comes as a text
///     race: { by: alice@pam, host: pve2 }   # somebody creates a VM of the same id at this moment
///   - task: { type: qmcreate, id: "101" }
///     fail: "text"       # as it begins (an id that its call had reserved is free again); or hang:
///     true;
///                        # afterwards: true lets the work be done first
///   - at: 30s            # after the start of the lab
///     within: 60s        # and up to so much later; when is the seed's
///     chance: 500        # of 1000, by the seed; without it always
///     down: pve2         # or up: HOST, fill: STORAGE, free: STORAGE, quorum: false,
///                        # lock: { vm: 100, as: backup }, unlock: 100,
///                        # backup: { vm: 100, to: local }: the host's own job, archive included,
///                        # change: { vm: 100, by: alice@pam, set: { memory: 4096 } }
///                        # create: { vm: 101, host: pve1, by: alice@pam, set: { name: intruder } }
///                        # crash: 100: its process dies; lease: 100 or all: the DHCP server gives
///                        # other addresses from now on; dhcp: false: it gives none; foreign:
///                        # 10.0.1.11: somebody else's machine has this address; unpullable:
///                        # cilium: images with this in their name cannot be pulled; crashing:
///                        # cilium: their containers die again and again (a CNI of which this is
///                        # the agent never makes a node ready); working: cilium ends both;
///                        # webhooks: 60s or 0s-120s: servers of webhooks listen so much later than
///                        # their pods are ready, each by a time of its own by the seed
///                        # `vm: any` is one of those there are, by the seed
///   - machine: { vm: 100, host: pve1 }   # what runs in this VM, in all of a host, in all there
///   are
///     trouble: wrong-vlan                # from its next start on; the words are in machines.hpp
class Faults {
 public:
  /// Throws Error(Usage) `file:line:column: …` for anything it does not understand.
  static Faults parse(std::string_view yaml, std::string_view name);

  /// Hands the faults to a data centre; timed ones count from now. The data centre keeps what it
  /// needs.
  void arm(pve::Datacenter& dc) const;
  /// The requests with `host: infisical` are its own.
  void arm(Infisical& infisical, const World& world) const;
  /// All of a home: its data centre, its servers, its network and the machines in its VMs. Troubles
  /// of machines that were armed before are over.
  ///
  /// Throws Error(Usage) when hosts or storages are named that it does not have.
  void arm(Home& home) const;
  bool empty() const noexcept {
    return requests_.empty() && tasks_.empty() && timed_.empty() && machines_.empty();
  }

 private:
  struct Limits {
    unsigned skip = 0;
    unsigned times = 1;
    std::optional<unsigned> chance;
  };
  struct Race {
    std::string by, host;
  };
  struct RequestRule {
    std::string host, method, path;
    Limits limits;
    Duration delay{};
    int status = 0;
    std::string reason;
    std::string type;
    std::string body;
    bool cut = false;
    bool lose = false;
    bool silent = false;
    std::optional<unsigned> retry_after{};
    std::optional<std::size_t> truncate;
    bool strings = false;
    std::optional<Race> race;
  };
  struct TaskRule {
    std::string type, id;
    Limits limits;
    bool hang = false;
    std::string fail;
    bool afterwards = false;
  };
  struct TimedRule {
    Duration at{};
    Duration within{};
    std::optional<unsigned> chance;
    std::string action;
    text::Value value;
  };
  struct MachineRule {
    unsigned vmid = 0;  // 0: not one VM only
    std::string host;
    std::string trouble;
  };
  class Counter;
  class Reader;

  /// Does what a data centre alone cannot; false: it is no such thing.
  using First = std::function<bool(const TimedRule&, SeededEntropy&)>;
  void arm(pve::Datacenter& dc, const First& first) const;
  void require_known(const pve::Datacenter& dc) const;
  /// `60s`, `0s-120s`.
  static std::optional<std::pair<Duration, Duration>> parse_lateness(const std::string& text);
  static bool do_at_home(Home& home, const TimedRule& rule, SeededEntropy& chance);

  std::vector<RequestRule> requests_;
  std::vector<TaskRule> tasks_;
  std::vector<TimedRule> timed_;
  std::vector<MachineRule> machines_;
};

}  // namespace rocca::lab
