#pragma once

#include "cli/command.hpp"
#include "cli/secret_lookup.hpp"
#include "cluster/run.hpp"
#include "engine/runner.hpp"
#include "net/transport.hpp"
#include "spec/spec.hpp"
#include "state/store.hpp"
#include "talosconfig/input.hpp"

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace rocca::cli {

struct Context;
class Invocation;

/// What a machine config is made of beside the spec: the bundle, the Tailscale key.
talos::Surroundings surroundings(Context& context, const spec::Spec& spec, secrets::Bundle bundle,
                                 net::Transport& transport, std::stop_token stop = {});

/// Where the cluster's state is kept. Everything it is given must outlive it.
std::unique_ptr<state::Store> open_store(Context& context, const spec::Spec& spec,
                                         net::Transport& transport, std::stop_token stop = {});

/// Flags that verbs of a cluster's life share.
std::vector<Flag> run_flags();  // --target, --parallelism, --locked, --state-lock…
Flag parallelism_flag();        // --parallelism N
Flag take_over_flag();          // --take-over
Flag allow_flag();              // --allow CLASS
Flag events_flag();             // --events FILE

/// A cluster opened for one verb: its spec, its secrets in memory, its state, and the run over
/// them.
class ClusterRun {
 public:
  /// `doing` stands in the state's lock. Everything that is wrong with the files is said before
  /// anything outside is asked.
  ClusterRun(Context& context, const Invocation& invocation, const std::string& doing,
             std::stop_token stop);
  /// The cluster of this file, folder or name.
  ClusterRun(Context& context, const Invocation& invocation, const std::string& doing,
             std::stop_token stop, const std::optional<std::string>& cluster);
  ~ClusterRun();
  ClusterRun(const ClusterRun&) = delete;
  ClusterRun& operator=(const ClusterRun&) = delete;

  const spec::Spec& spec() const { return spec_; }
  const std::string& name() const { return *spec_.name; }
  resources::Run& run() { return *run_; }
  const resources::RunOptions& options() const { return options_; }
  /// Only these things, and only these classes: what a plan file was made with.
  void narrow(std::vector<std::string> targets, const std::vector<std::string>& allowed);
  void prepare_down(bool purge_images, bool reset_existing);

 private:
  resources::Cluster open();
  std::shared_ptr<resources::Outside> outside();
  void begin();

  Context& context_;
  const Invocation& invocation_;
  std::stop_token stop_;
  spec::Spec spec_;
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<engine::Runner> runner_;
  std::unique_ptr<state::Store> store_;
  resources::RunOptions options_;
  std::optional<resources::Cluster> cluster_;
  std::unique_ptr<resources::Run> run_;
};

/// A mistake of the spec or of the rights: it will not pass, and nothing is begun.
bool is_mistake(Fault fault);
/// All that could not be read, as one error: what stands in the plan says why of each.
Error unread_error(const engine::Plan& plan);

/// Runs `act` with a screen that shows its events, and writes them to `--events FILE` as well;
/// prints the report and gives the exit code.
int show_run(Context& context, const Invocation& invocation, const engine::Plan& plan,
             const std::string& cluster,
             const std::function<engine::Report(const engine::EventSink&)>& act);

}  // namespace rocca::cli
