#pragma once

#include "backends/backends_test_support.hpp"
#include "scenarios/engine_rig.hpp"
#include "secrets/age/age.hpp"
#include "seeds/shape.hpp"
#include "state/journaled_store.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace rocca::seeds {

/// Where a life's state lives: in its folder, or far away at a server in memory.
class Place {
 public:
  Place(const Shape& shape, scenarios::ClusterRig& rig);

  std::unique_ptr<state::Store> open();
  bool is_far() const noexcept { return far_ != nullptr; }
  /// Whatever was there is gone.
  void forget() { forget_(); }
  /// The next write is carried out and loses its answer, or does not arrive.
  void lose_next_write(bool arrives);
  /// Has it happened? From now on nothing is lost.
  bool has_lost_a_write();
  /// What lies there, as far as it can be read.
  std::vector<std::string> texts() const { return texts_(); }

 private:
  /// Its clock goes on with the world's.
  class Way;

  state::Sealing sealing() const;

  Shape::Place where_;
  scenarios::ClusterRig& rig_;
  std::shared_ptr<backends::test::FarSide> far_;
  std::shared_ptr<net::Transport> way_;
  std::function<void()> forget_ = [] {};
  std::function<std::vector<std::string>()> texts_ = [] { return std::vector<std::string>{}; };
  bool loses_ = false;
  mutable SeededEntropy entropy_;
  std::optional<secrets::age::Identity> identity_;  // nothing: in clear
};

}  // namespace rocca::seeds
