#pragma once

#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "text/value.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rocca::lab::pve {
class Datacenter;
}

namespace rocca::lab {

class Infisical;
class World;

/// What goes wrong, written down: a YAML list, each entry one fault.
///
///   - request: { host: pve1, method: POST, path: /qemu }     # all of them optional; path by its
///   beginning or part
///     skip: 2            # the first two that fit are spared (0)
///     times: 1           # how often it strikes (1); 0 = always
///     chance: 50         # of 1000, by the seed; without it always
///     delay: 5s          # and one or more of: delay, answer, cut, lose
///     answer: 596        # a status instead of the handler; reason: "Connection timed out"
///     cut: true          # the connection ends before anything is done
///     lose: true         # it is done, and the answer never comes
///     silent: true       # only with host: infisical: nothing is done and nothing is ever said
///     retryAfter: 30     # only with host: infisical: seconds, beside an answer
///   - task: { type: qmcreate, id: "101" }
///     fail: "text"       # or hang: true; afterwards: true lets the work be done first
///   - at: 30s            # after the start of the lab
///     down: pve2         # or up: HOST, fill: STORAGE, free: STORAGE, quorum: false,
///                        # lock: { vm: 100, as: backup }, unlock: 100,
///                        # change: { vm: 100, by: alice@pam, set: { memory: 4096 } }
///                        # create: { vm: 101, host: pve1, by: alice@pam, set: { name: intruder } }
class Faults {
 public:
  /// Throws Error(Usage) `file:line:column: …` for anything it does not understand.
  static Faults parse(std::string_view yaml, std::string_view name);

  /// Hands the faults to a data centre; timed ones count from now. The data centre keeps what it
  /// needs.
  void arm(pve::Datacenter& dc) const;
  /// The requests with `host: infisical` are its own.
  void arm(Infisical& infisical, const World& world) const;
  bool empty() const noexcept { return requests_.empty() && tasks_.empty() && timed_.empty(); }

 private:
  struct Limits {
    unsigned skip = 0;
    unsigned times = 1;
    std::optional<unsigned> chance;
  };
  struct RequestRule {
    std::string host, method, path;
    Limits limits;
    Duration delay{};
    int status = 0;
    std::string reason;
    bool cut = false;
    bool lose = false;
    bool silent = false;
    std::optional<unsigned> retry_after{};
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
    std::string action;
    text::Value value;
  };
  class Counter;
  class Reader;

  std::vector<RequestRule> requests_;
  std::vector<TaskRule> tasks_;
  std::vector<TimedRule> timed_;
};

}  // namespace rocca::lab
