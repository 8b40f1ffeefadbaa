#pragma once

#include "base/clock.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rocca::resources {

/// When to ask after things that take their time, so that few questions find out soon. Not before
/// a thing of its kind can be expected to end, as earlier ones of this run or a log tell; then in
/// steps that grow. Pure: no clock, no thread.
class Pace {
 public:
  /// How a thing of an unknown kind is asked after: every time so much of the wait again later.
  struct Steps {
    double growth = 0.1;
    Duration least = std::chrono::milliseconds{100};
    Duration most = std::chrono::seconds{2};
    /// So early things are looked at, in case they end at once here, as long as none has taken its
    /// time. Zero: never before they can be over.
    Duration early{};
  };
  explicit Pace(Steps steps) : steps_(steps) {}

  /// It begins now and is not over before `least`, where things take as long as usual. Gives when
  /// to ask first; within `leeway` after that together with others, so that one question serves
  /// them all.
  Tick begin(const std::string& name, const std::string& kind, Tick now, Duration least,
             Duration leeway = {});
  /// It began nobody knows when: how long it takes teaches nothing.
  void join(const std::string& name, const std::string& kind, Tick now);
  bool goes_on(const std::string& name) const { return waits_.contains(name); }

  /// When it is to be asked after next.
  Tick due(const std::string& name) const;
  /// It was still going on.
  void seen(const std::string& name, Tick when);
  /// It was asked after and still goes on: when to ask again. `soon`: it has shown that it is about
  /// to end.
  Tick again(const std::string& name, Tick now, bool soon = false);
  /// It was found to be over at `when`. One that failed teaches nothing. `logged`: how long it took
  /// in whole seconds, as a log has it.
  void over(const std::string& name, Tick when, bool teaches = true,
            std::optional<Duration> logged = {});

  /// What a log says, in whole seconds, of one that ended well.
  void logged(const std::string& kind, Duration took);
  /// How long one of this kind takes; nothing: unknown.
  std::optional<Duration> expected(const std::string& kind) const;

 private:
  struct Wait {
    std::string kind;
    Tick begun{};
    Tick ask{};
    std::optional<Tick> seen;
    Duration least{};
    Duration leeway{};
    bool teaches = true;
  };
  struct Kind {
    std::optional<Duration> measured;  // in this run
    std::vector<Duration> logged;
  };
  Duration margin(const std::string& kind, Duration expected) const;
  Tick together(const std::string& name, const Wait& wait, Tick ask) const;

  Steps steps_;
  bool takes_time_ = false;  // something was seen to go on about as long as such things do
  std::map<std::string, Wait> waits_;
  std::map<std::string, Kind> kinds_;
};

}  // namespace rocca::resources
