#pragma once

#include "scenarios/engine_machines.hpp"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace rocca::scenarios {

/// Ends the run once a request has been carried out: the process is gone, and the far side goes on.
class DyingTransport final : public net::Transport {
 public:
  DyingTransport(net::Transport& inner, std::string method, std::string part, unsigned number)
      : inner_(inner), method_(std::move(method)), part_(std::move(part)), left_(number) {}
  net::Response exchange(const net::Request& request, net::BodySink& sink,
                         std::stop_token stop) override {
    if (dead_) throw Error(Fault::Interrupted, "killed");
    net::Response response = inner_.exchange(request, sink, std::move(stop));
    if (request.method == method_ && request.url.find(part_) != std::string::npos && --left_ == 0)
      dead_ = true;
    return response;
  }
  bool died() const { return dead_; }

 private:
  net::Transport& inner_;
  std::string method_, part_;
  unsigned left_;
  bool dead_ = false;
};

/// A store that nothing is written to any more once the process is dead.
class DyingStore final : public state::Store {
 public:
  DyingStore(std::unique_ptr<state::Store> inner, const DyingTransport& process)
      : inner_(std::move(inner)), process_(process) {}
  std::string describe() const override { return inner_->describe(); }
  std::optional<state::State> load() override { return inner_->load(); }
  void append(std::span<const state::Record> records) override {
    live();
    inner_->append(records);
  }
  void replace(const state::State& state) override {
    live();
    inner_->replace(state);
  }
  void clear() override {
    live();
    inner_->clear();
  }
  std::unique_ptr<state::Lock> lock(const state::Holder& holder, bool force) override {
    return inner_->lock(holder, force);
  }
  std::optional<state::Holder> holder() override { return inner_->holder(); }

 private:
  void live() const {
    if (process_.died()) throw Error(Fault::Interrupted, "killed");
  }
  std::unique_ptr<state::Store> inner_;
  const DyingTransport& process_;
};

/// `run` is killed right after its nth request of this kind was carried out.
inline void kill_run(ClusterRig& rig, const std::string& method, const std::string& part,
                     unsigned number, const std::function<void()>& run) {
  DyingTransport dying{rig.wire, method, part, number};
  rig.transport = &dying;
  rig.store =
      std::make_unique<DyingStore>(state::local_store(rig.files, rig.folder + "/.rocca"), dying);
  try {
    run();
  } catch (const Error&) {
    // However it noticed: it is dead.
  }
  ASSERT_TRUE(dying.died());
  rig.transport = nullptr;
  rig.store.reset();
  rig.new_runner();
}

inline state::State remembered(ClusterRig& rig) {
  return state::local_store(rig.files, rig.folder + "/.rocca")->load().value_or(state::State{});
}

inline ClusterRig& brought_up(ClusterRig& rig, const std::string& spec) {
  rig.write_spec(spec);
  const engine::Report report = rig.up();
  EXPECT_TRUE(report.ok()) << problems(report);
  rig.home.world.run_for(std::chrono::minutes{1});
  return rig;
}

}  // namespace rocca::scenarios
