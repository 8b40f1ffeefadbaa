#pragma once

#include "backends/make_store.hpp"
#include "base/clock.hpp"
#include "base/entropy.hpp"
#include "base/files.hpp"
#include "base/secret.hpp"
#include "cluster/run.hpp"
#include "engine/runner.hpp"
#include "net/tls.hpp"
#include "net/transport.hpp"
#include "platform/storage.hpp"
#include "secrets/bundle.hpp"
#include "session/keys.hpp"
#include "session/secret_lookup.hpp"
#include "spec/spec.hpp"
#include "state/store.hpp"
#include "talosconfig/input.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace rocca::session {

/// What a cluster is opened for: it decides what must be found beforehand.
enum class Purpose {
  Apply,    // everything: plan, up, status, drift and so on
  Destroy,  // no configuration is rendered: secrets of patches and Tailscale are not looked up
  History,  // the state only: Proxmox is not asked
};

/// Everything a caller gives to open a cluster: values and doors. Nothing is taken from the
/// process: no environment variable, no terminal, no command line. The references must outlive the
/// session.
struct Inputs {
  spec::Spec spec;  // from load(), without errors
  net::Transport& transport;
  Files& files;  // what the spec refers to: secrets files, an authority, manifests
  const Clock& clock;
  Entropy& entropy;
  engine::Runner& runner;  // calls run there

  Purpose purpose = Purpose::Apply;
  resources::RunOptions options = {};  // `outside` is filled in by the session

  // ---- secrets
  std::shared_ptr<Keys> keys = {};  // age identities; null: there are none
  /// Variables that the spec's sources, S3 and Kubernetes may read. Empty: none are set.
  std::map<std::string, std::string> environment = {};
  RunProgram run_program = {};                 // for `{ command: … }` sources; empty: refused
  std::map<std::string, Secret> secrets = {};  // by key; they win over files and sources
  std::optional<secrets::Bundle> bundle = {};  // nothing: from the spec's secrets files
  std::optional<Secret> proxmox_token = {};    // nothing: the spec's `proxmox.token`
  /// Stores a secret that rocca made, encrypted and durable when it returns; empty: in the spec's
  /// secrets file.
  std::function<void(const std::string& key, const Secret&)> store_secret = {};

  // ---- what is kept between runs; a spec without a folder needs all of it
  resources::Storage storage = {};  // what is null is kept in the spec's folder
  /// The store of a spec whose state is `local`; empty: files in the spec's folder.
  backends::LocalStore local_store = {};
  bool without_state = false;  // Destroy only: neither read nor locked

  net::Tls factory_trust = {};  // how the certificate of the Image Factory is checked
  ReportProblems report = {};   // warnings about files that were read
};

/// What a machine configuration needs beside the spec: the bundle, the Tailscale key, the secrets
/// of patches.
talos::Surroundings config_context(const spec::Spec& spec, secrets::Bundle bundle,
                                   SecretLookup& secrets, const ReportProblems& report);

/// Where a cluster's state is kept. The store answers for as long as everything it is given.
struct StoreInputs {
  net::Transport& transport;
  Files& files;
  const Clock& clock;
  Entropy& entropy;
  std::shared_ptr<SecretLookup> secrets;
  std::map<std::string, std::string> environment = {};
  backends::LocalStore local = {};
};
std::unique_ptr<state::Store> open_store(const spec::Spec& spec, const StoreInputs& inputs);

/// A cluster opened for one command or one reconcile: its spec, its secrets in memory, its state,
/// and the run over them. Several sessions may be open in one process.
class Session {
 public:
  /// Finds everything that is wrong with the files before anything outside is asked. All prompts
  /// and SOPS_AGE_KEY_CMD happen here, on the calling thread, never in a step.
  explicit Session(Inputs inputs, std::stop_token stop = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const spec::Spec& spec() const { return inputs_.spec; }
  const std::string& name() const { return *inputs_.spec.name; }
  resources::Run& run() { return *run_; }
  const resources::RunOptions& options() const { return inputs_.options; }
  SecretLookup& secrets() { return *secrets_; }

  /// Only these resources, and only these effect classes: what a plan file was made with. Starts a
  /// new run.
  void narrow(std::vector<std::string> targets, const std::vector<std::string>& allowed);
  /// Starts a new run.
  void prepare_down(bool purge_images, bool reset_existing);

 private:
  resources::Cluster open();
  std::shared_ptr<resources::Outside> outside();
  StoreInputs store_inputs();
  void start_run();

  Inputs inputs_;
  std::stop_token stop_;
  std::shared_ptr<SecretLookup> secrets_;
  std::unique_ptr<state::Store> store_;
  std::optional<resources::Cluster> cluster_;
  std::unique_ptr<resources::Run> run_;
};

}  // namespace rocca::session
