#pragma once

#include "cli/command.hpp"
#include "engine/runner.hpp"
#include "net/transport.hpp"
#include "session/session.hpp"
#include "spec/spec.hpp"

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace rocca::cli {

struct Context;
class Invocation;

/// Flags that commands of a cluster's life share.
std::vector<Flag> run_flags();  // --target, --parallelism, --locked, --state-lock…
Flag parallelism_flag();        // --parallelism N
Flag take_over_flag();          // --take-over
Flag allow_flag();              // --allow CLASS
Flag events_flag();             // --events FILE

/// A cluster opened for one command: a session with what the command line, the environment and the
/// terminal say.
class ClusterRun {
 public:
  /// `doing` is written into the state's lock. All problems of the files are printed before
  /// anything outside is asked.
  ClusterRun(Context& context, const Invocation& invocation, const std::string& doing,
             std::stop_token stop);
  /// The cluster of this file, folder or name.
  ClusterRun(Context& context, const Invocation& invocation, const std::string& doing,
             std::stop_token stop, const std::optional<std::string>& cluster);
  ~ClusterRun();
  ClusterRun(const ClusterRun&) = delete;
  ClusterRun& operator=(const ClusterRun&) = delete;

  const spec::Spec& spec() const { return session_->spec(); }
  const std::string& name() const { return session_->name(); }
  resources::Run& run() { return session_->run(); }
  const resources::RunOptions& options() const { return session_->options(); }
  void narrow(std::vector<std::string> targets, const std::vector<std::string>& allowed) {
    session_->narrow(std::move(targets), allowed);
  }
  void prepare_down(bool purge_images, bool reset_existing) {
    session_->prepare_down(purge_images, reset_existing);
  }

 private:
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<engine::Runner> runner_;
  std::unique_ptr<session::Session> session_;
};

/// A mistake of the spec or of the rights: it will not pass, and nothing is begun.
bool is_mistake(Fault fault);
/// All that could not be read, as one error: what stands in the plan says why of each.
Error unread_error(const engine::Plan& plan);

/// Runs `act` with a screen that shows its events, and writes them to `--events FILE` as well;
/// prints the report and gives the exit code. `cluster`: as the user named it, for hints.
int show_run(Context& context, const Invocation& invocation, const engine::Plan& plan,
             const std::string& cluster,
             const std::function<engine::Report(const engine::EventSink&)>& act);

}  // namespace rocca::cli
