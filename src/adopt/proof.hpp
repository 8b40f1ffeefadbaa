#pragma once

#include "adopt/tfstate.hpp"
#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "base/files.hpp"
#include "engine/plan.hpp"
#include "state/state.hpp"

#include <string>
#include <vector>

namespace rocca::adopt {

/// The first plan of a cluster that was taken over: nothing but its access files may be missing.
struct FirstPlan {
  /// Values of VMs that the spec cannot say as they are: left so, as `rocca drift ignore` does.
  struct Value {
    std::string address, field, found, declared;

    friend bool operator==(const Value&, const Value&) = default;
  };
  std::vector<Value> leave;
  std::vector<std::string> differs;  // whatever else would be done, one line each

  bool empty() const { return leave.empty() && differs.empty(); }
};
FirstPlan judge(const engine::Plan& plan);

/// The notes of the state that leave these values as they are.
state::Fields notes_for(const std::vector<FirstPlan::Value>& leave);

/// The first state of a cluster, with these values left as they are, into its folder `.rocca`.
void remember(Files& files, const Clock& clock, Entropy& entropy, const std::string& folder,
              state::State state, const std::vector<FirstPlan::Value>& leave);

/// The list that a user gets: what was not taken over, and what is left as it is.
std::string render(const std::vector<Left>& left, const std::vector<FirstPlan::Value>& leave);

}  // namespace rocca::adopt
